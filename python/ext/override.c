/* __torch_function__: objects that want to see calls before the library does. Plain tensors and parameters never do, so that the question costs a
 * type comparison per argument. */
#include "tpy.h"

static PyObject *hook_name, *default_hook, *disabled_hook;
static Py_tss_t off_key = Py_tss_NEEDS_INIT; /* how many DisableTorchFunction scopes this thread is in */

static bool is_off(void) { return PyThread_tss_get(&off_key) != NULL; }

/* The type's own __torch_function__, borrowed; NULL for types that leave calls alone. */
static PyObject *hook_of(PyTypeObject *type) {
    if (type == tpy_tensor_type || type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyUnicode_Type || type == &PyTuple_Type ||
        type == &PyList_Type || type == Py_TYPE(Py_None) || type == tpy_dtype_type) return NULL;
    PyObject *hook = _PyType_Lookup(type, hook_name);
    return hook == disabled_hook || hook == default_hook ? NULL : hook;
}

/* A subclass that keeps Tensor's own hook still gets its results in its type. */
static bool plain_subclass(PyTypeObject *type) {
    return type != tpy_tensor_type && PyType_IsSubtype(type, tpy_tensor_type) && _PyType_Lookup(type, hook_name) == default_hook;
}

static bool asks(PyObject *o) { return hook_of(Py_TYPE(o)) || plain_subclass(Py_TYPE(o)); }

bool tpy_overridden(PyObject *const *args, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = args[i];
        if (Py_TYPE(o) == tpy_tensor_type || Py_TYPE(o) == &PyFloat_Type || Py_TYPE(o) == &PyLong_Type) continue;
        if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) { /* torch.cat([a, b]) */
            Py_ssize_t m = PySequence_Fast_GET_SIZE(o);
            for (Py_ssize_t j = 0; j < m; j++) {
                PyObject *inner = PySequence_Fast_GET_ITEM(o, j);
                if (Py_TYPE(inner) != tpy_tensor_type && Py_TYPE(inner) != &PyLong_Type && asks(inner)) return !is_off();
            }
        } else if (asks(o)) return !is_off();
    }
    return false;
}

static bool add_overriding(PyObject *list, PyObject *o) { /* subclasses before their bases, otherwise in order; each type once */
    if (!asks(o)) return true;
    Py_ssize_t n = PyList_GET_SIZE(list), at = n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyTypeObject *other = Py_TYPE(PyList_GET_ITEM(list, i));
        if (other == Py_TYPE(o)) return true;
        if (at == n && PyType_IsSubtype(Py_TYPE(o), other)) at = i;
    }
    return PyList_Insert(list, at, o) == 0;
}

static PyObject *overriding(PyObject *const *args, Py_ssize_t n) {
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        bool ok = true;
        if (PyTuple_CheckExact(args[i]) || PyList_CheckExact(args[i]))
            for (Py_ssize_t j = 0; ok && j < PySequence_Fast_GET_SIZE(args[i]); j++) ok = add_overriding(list, PySequence_Fast_GET_ITEM(args[i], j));
        else ok = add_overriding(list, args[i]);
        if (!ok) Py_CLEAR(list);
    }
    return list;
}

PyObject *tpy_call_override(PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    Py_ssize_t nk = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *objects = overriding(args, n + nk), *types = objects ? PyTuple_New(PyList_GET_SIZE(objects)) : NULL, *positional = types ? PyTuple_New(n) : NULL;
    PyObject *keywords = positional ? PyDict_New() : NULL, *result = NULL;
    for (Py_ssize_t i = 0; keywords && i < n; i++) PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; keywords && i < nk; i++)
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[n + i]) < 0) Py_CLEAR(keywords);
    for (Py_ssize_t i = 0; keywords && i < PyList_GET_SIZE(objects); i++) PyTuple_SET_ITEM(types, i, Py_NewRef((PyObject *)Py_TYPE(PyList_GET_ITEM(objects, i))));
    for (Py_ssize_t i = 0; keywords && i < PyList_GET_SIZE(objects); i++) {
        PyObject *hook = PyObject_GetAttr((PyObject *)Py_TYPE(PyList_GET_ITEM(objects, i)), hook_name);
        Py_XSETREF(result, hook ? PyObject_CallFunctionObjArgs(hook, function, types, positional, keywords, NULL) : NULL);
        Py_XDECREF(hook);
        if (result != Py_NotImplemented) break; /* an answer or an exception */
    }
    if (result == Py_NotImplemented) {
        Py_CLEAR(result);
        PyErr_Format(PyExc_TypeError, "no implementation found for '%R' on types that implement __torch_function__: %R", function, types);
    }
    Py_XDECREF(objects);
    Py_XDECREF(types);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return result;
}

/* ---- Scopes ---- */
static PyObject *enter_disabled(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyThread_tss_set(&off_key, (void *)((intptr_t)PyThread_tss_get(&off_key) + 1));
    Py_RETURN_NONE;
}
static PyObject *leave_disabled(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyThread_tss_set(&off_key, (void *)((intptr_t)PyThread_tss_get(&off_key) - 1));
    Py_RETURN_NONE;
}
/* Python hands over Tensor's own hook and the one that turns hooks off, once both exist. */
static PyObject *set_hooks(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *standard, *disabled;
    if (!PyArg_ParseTuple(args, "OO", &standard, &disabled)) return NULL;
    Py_XSETREF(default_hook, Py_NewRef(standard));
    Py_XSETREF(disabled_hook, Py_NewRef(disabled));
    Py_RETURN_NONE;
}
static PyObject *has_override(PyObject *module, PyObject *args) {
    (void)module;
    return PyBool_FromLong(tpy_overridden(((PyTupleObject *)args)->ob_item, PyTuple_GET_SIZE(args)));
}
static PyObject *call_override(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    (void)module;
    if (n < 1) return PyErr_Format(PyExc_TypeError, "_call_override() needs a function");
    return tpy_call_override(args[0], args + 1, n - 1, kwnames);
}
static PyMethodDef functions[] = {{"_enter_disabled_torch_function", enter_disabled, METH_NOARGS, NULL}, {"_leave_disabled_torch_function", leave_disabled, METH_NOARGS, NULL},
    {"_set_torch_function_hooks", set_hooks, METH_VARARGS, NULL}, {"_has_torch_function", has_override, METH_VARARGS, NULL},
    {"_call_torch_function", (PyCFunction)(void (*)(void))call_override, METH_FASTCALL | METH_KEYWORDS, NULL}, {0}};

int tpy_init_override(PyObject *module) {
    hook_name = PyUnicode_InternFromString("__torch_function__");
    if (!hook_name || PyThread_tss_create(&off_key)) return -1;
    return PyModule_AddFunctions(module, functions);
}

/* Defaults of a thread or process: the default device (a setting and a scope), determinism, threads between operators.
 */
#include "tpy.h"

/* The default device was named without an index: it is whichever one of its type is current. The thread's, as the
 * default device is. */
static _Thread_local bool default_is_current;

bool tpy_default_follows(tp_device device) {
    return !default_is_current || tp_default_device().type != device.type || tp_set_default_device(device);
}

static bool names_no_index(PyObject *o) {
    if (Py_TYPE(o) == tpy_device_type) return !((tpy_device *)o)->indexed;
    return PyUnicode_Check(o) && PyUnicode_FindChar(o, ':', 0, PyUnicode_GET_LENGTH(o), 1) == -1;
}

static PyObject *set_default_device(PyObject *module, PyObject *o) {
    (void)module;
    tp_device device = {TP_DEVICE_NONE, 0};
    int fits = o == Py_None ? 1 : tpy_fit_device(o, &device);
    if (fits < 0) return NULL;
    if (!fits)
        return PyErr_Format(PyExc_TypeError,
                            "set_default_device(): argument 'device' must be torch.device, str or None, not %s",
                            Py_TYPE(o)->tp_name);
    if (!tp_set_default_device(device)) return tpy_raise();
    default_is_current = names_no_index(o);
    Py_RETURN_NONE;
}
static PyObject *get_default_device(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return tpy_device_object(tp_default_device());
}
static PyObject *set_deterministic(PyObject *module, PyObject *o) {
    (void)module;
    int64_t mode;
    if (tpy_fit_int(o, &mode) <= 0) return PyErr_Format(PyExc_TypeError, "expected 0, 1 or 2");
    return tpy_none_or_raise(tp_set_deterministic((tp_determinism)mode));
}
static PyObject *set_fill_uninitialized(PyObject *module, PyObject *o) {
    (void)module;
    if (!PyBool_Check(o)) return PyErr_Format(PyExc_TypeError, "expected a bool, but got %s", Py_TYPE(o)->tp_name);
    tp_set_fill_uninitialized(o == Py_True);
    Py_RETURN_NONE;
}
static PyObject *get_fill_uninitialized(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(tp_fill_uninitialized());
}
static PyObject *get_deterministic(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromLong(tp_deterministic());
}
static PyObject *set_num_interop_threads(PyObject *module, PyObject *o) {
    (void)module;
    int64_t n;
    int fits = PyBool_Check(o) ? 0 : tpy_fit_int(o, &n);
    if (fits < 0) return NULL;
    if (!fits)
        return PyErr_Format(PyExc_RuntimeError, "set_num_interop_threads expects an int, but got %s",
                            Py_TYPE(o)->tp_name);
    if (n < 1 || n > INT_MAX)
        return PyErr_Format(PyExc_RuntimeError, "set_num_interop_threads expects a positive integer");
    static bool set; /* as in PyTorch, once */
    if (set)
        return PyErr_Format(PyExc_RuntimeError, "Error: cannot set number of interop threads after parallel work has "
                                                "started or set_num_interop_threads called");
    tp_set_num_interop_threads((int)n);
    set = true;
    Py_RETURN_NONE;
}
static PyObject *get_num_interop_threads(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromLong(tp_num_interop_threads());
}

/* with torch.device('cpu'): new tensors are made there. Scopes nest; each thread remembers its own. */
static PyObject *scopes_key;
static PyObject *scopes(void) {
    PyObject *state = PyThreadState_GetDict();
    if (!state) return NULL;
    PyObject *list = PyDict_GetItemWithError(state, scopes_key);
    if (list) return list;
    if (PyErr_Occurred() || !(list = PyList_New(0))) return NULL;
    int failed = PyDict_SetItem(state, scopes_key, list);
    Py_DECREF(list);
    return failed ? NULL : list;
}
PyObject *tpy_device_enter(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *list = scopes(), *before = list ? tpy_device_object(tp_default_device()) : NULL;
    if (!before) return NULL;
    ((tpy_device *)before)->indexed = !default_is_current;
    int failed = PyList_Append(list, before);
    Py_DECREF(before);
    if (failed) return NULL;
    tp_device here;
    tpy_fit_device(self, &here);
    if (tp_set_default_device(here)) {
        default_is_current = names_no_index(self);
        return Py_NewRef(self);
    }
    PyList_SetSlice(list, PyList_GET_SIZE(list) - 1, PyList_GET_SIZE(list), NULL);
    return tpy_raise();
}
PyObject *tpy_device_exit(PyObject *self, PyObject *args) {
    (void)self;
    (void)args;
    PyObject *list = scopes();
    if (!list || PyList_GET_SIZE(list) == 0)
        return PyErr_Format(PyExc_RuntimeError, "this device's scope was not entered");
    PyObject *last = PyList_GET_ITEM(list, PyList_GET_SIZE(list) - 1);
    tp_device before;
    tpy_fit_device(last, &before);
    default_is_current = names_no_index(last);
    if (PyList_SetSlice(list, PyList_GET_SIZE(list) - 1, PyList_GET_SIZE(list), NULL) < 0) return NULL;
    return tpy_none_or_raise(tp_set_default_device(before));
}

static PyMethodDef functions[] = {
    {"set_default_device", set_default_device, METH_O, "New tensors are made there; None goes back to the CPU."},
    {"get_default_device", get_default_device, METH_NOARGS, "Where new tensors are made."},
    {"_set_deterministic", set_deterministic, METH_O, NULL},
    {"_set_fill_uninitialized", set_fill_uninitialized, METH_O, NULL},
    {"_get_fill_uninitialized", get_fill_uninitialized, METH_NOARGS, NULL},
    {"_get_deterministic", get_deterministic, METH_NOARGS, NULL},
    {"set_num_interop_threads", set_num_interop_threads, METH_O, "Sets how many operators may run side by side."},
    {"get_num_interop_threads", get_num_interop_threads, METH_NOARGS, "How many operators may run side by side."},
    {0}};

int tpy_init_defaults(PyObject *module) {
    scopes_key = PyUnicode_InternFromString("taper device scopes");
    return scopes_key ? PyModule_AddFunctions(module, functions) : -1;
}

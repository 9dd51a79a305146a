/* TorchScript programs: an object of a program as a Python object, and values on their way in and out. */
#include "tpy.h"
#include <taper/script.h>

typedef struct {
    PyObject_HEAD
    tp_ivalue *v;
} script_object;

static PyTypeObject *object_type;
static PyObject *named_tuples; /* the class of a named tuple, by its name and fields */

enum { DEEPEST = 200 };

/* ---- From Python ---- */

static tp_ivalue *from_python(PyObject *o, int depth);

static tp_ivalue *or_raise(tp_ivalue *v) {
    if (!v) tpy_raise();
    return v;
}

static void release_all(tp_ivalue **v, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) tp_ivalue_release(v[i]);
    PyMem_Free(v);
}

/* The items of a list or tuple as values; NULL with an exception. */
static tp_ivalue **all_from(PyObject *items, int depth) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    tp_ivalue **v = PyMem_Calloc((size_t)n + 1, sizeof *v);
    if (!v) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        v[i] = from_python(PySequence_Fast_GET_ITEM(items, i), depth + 1);
        if (v[i]) continue;
        release_all(v, i);
        return NULL;
    }
    return v;
}

static tp_ivalue *from_items(PyObject *o, int depth) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    tp_ivalue **v = all_from(o, depth);
    if (!v) return NULL;
    tp_ivalue *made = PyTuple_Check(o) ? tp_ivalue_tuple(n, v) : tp_ivalue_list(n, v);
    release_all(v, n);
    return or_raise(made);
}

static tp_ivalue *from_dict(PyObject *o, int depth) {
    PyObject *keys = PyDict_Keys(o), *values = PyDict_Values(o);
    Py_ssize_t n = keys ? PyList_GET_SIZE(keys) : 0;
    tp_ivalue **k = keys && values ? all_from(keys, depth) : NULL, **v = k ? all_from(values, depth) : NULL;
    tp_ivalue *made = v ? or_raise(tp_ivalue_dict(n, k, v)) : NULL;
    if (k) release_all(k, n);
    if (v) release_all(v, n);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return made;
}

static tp_ivalue *from_python(PyObject *o, int depth) {
    tp_scalar s;
    if (depth > DEEPEST) {
        PyErr_SetString(PyExc_ValueError, "a value is nested too deep for a script");
        return NULL;
    }
    if (o == Py_None) return or_raise(tp_ivalue_none());
    if (tpy_is_tensor(o)) return or_raise(tp_ivalue_of_tensor(tpy_unwrap(o)));
    if (PyUnicode_Check(o)) {
        const char *text = PyUnicode_AsUTF8(o);
        return text ? or_raise(tp_ivalue_of_text(text)) : NULL;
    }
    if (Py_TYPE(o) == object_type) return or_raise(tp_ivalue_retain(((script_object *)o)->v));
    if (Py_TYPE(o) == tpy_dtype_type) return or_raise(tp_ivalue_of_dtype(((tpy_dtype *)o)->dtype));
    if (Py_TYPE(o) == tpy_device_type) {
        tp_device device;
        return tpy_fit_device(o, &device) > 0 ? or_raise(tp_ivalue_of_device(device)) : NULL;
    }
    if (PyList_Check(o) || PyTuple_Check(o)) return from_items(o, depth);
    if (PyDict_Check(o)) return from_dict(o, depth);
    if (tpy_fit_scalar(o, &s) > 0) return or_raise(tp_ivalue_of_number(s));
    PyErr_Clear();
    PyErr_Format(PyExc_RuntimeError, "a script cannot be given a value of type '%s'", Py_TYPE(o)->tp_name);
    return NULL;
}

/* ---- To Python ---- */

static PyObject *to_python(tp_ivalue *v);

static PyObject *wrap(tp_ivalue *v) {
    script_object *o = PyObject_New(script_object, object_type);
    if (o)
        o->v = v;
    else
        tp_ivalue_release(v);
    return (PyObject *)o;
}

static PyObject *named_tuple(PyObject *items, const tp_ivalue *v) {
    const char *full = tp_ivalue_class(v), *dot = strrchr(full, '.');
    PyObject *fields = PyTuple_New(tp_ivalue_attributes(v));
    for (Py_ssize_t i = 0; fields && i < PyTuple_GET_SIZE(fields); i++) {
        PyObject *name = PyUnicode_FromString(tp_ivalue_attribute(v, i));
        if (!name) Py_CLEAR(fields);
        if (fields) PyTuple_SET_ITEM(fields, i, name);
    }
    PyObject *key = fields ? Py_BuildValue("(sO)", dot ? dot + 1 : full, fields) : NULL;
    PyObject *cls = key ? Py_XNewRef(PyDict_GetItem(named_tuples, key)) : NULL;
    if (key && !cls) {
        PyObject *module = PyImport_ImportModule("collections");
        PyObject *make = module ? PyObject_GetAttrString(module, "namedtuple") : NULL;
        cls = make ? PyObject_Call(make, key, NULL) : NULL;
        if (cls && PyDict_SetItem(named_tuples, key, cls) < 0) Py_CLEAR(cls);
        Py_XDECREF(module);
        Py_XDECREF(make);
    }
    PyObject *made = cls ? PyObject_CallObject(cls, items) : NULL;
    Py_XDECREF(fields);
    Py_XDECREF(key);
    Py_XDECREF(cls);
    return made;
}

static PyObject *to_items(const tp_ivalue *v, bool tuple) {
    Py_ssize_t n = tp_ivalue_count(v);
    PyObject *made = tuple ? PyTuple_New(n) : PyList_New(n);
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *item = to_python(tp_ivalue_at(v, i));
        if (!item)
            Py_CLEAR(made);
        else if (tuple)
            PyTuple_SET_ITEM(made, i, item);
        else
            PyList_SET_ITEM(made, i, item);
    }
    if (!made || !tuple || !tp_ivalue_class(v)) return made;
    PyObject *named = named_tuple(made, v);
    Py_DECREF(made);
    return named;
}

static PyObject *to_dict(const tp_ivalue *v) {
    PyObject *made = PyDict_New();
    for (int64_t i = 0; made && i < tp_ivalue_count(v); i++) {
        PyObject *key = to_python(tp_ivalue_key_at(v, i)), *item = key ? to_python(tp_ivalue_at(v, i)) : NULL;
        if (!item || PyDict_SetItem(made, key, item) < 0) Py_CLEAR(made);
        Py_XDECREF(key);
        Py_XDECREF(item);
    }
    return made;
}

static PyObject *plain_to_python(tp_ivalue *v) {
    switch (tp_ivalue_kind_of(v)) {
    case TP_IVALUE_NONE: Py_RETURN_NONE;
    case TP_IVALUE_TENSOR: return tpy_wrap(tpy_own(tp_ivalue_tensor(v)));
    case TP_IVALUE_NUMBER: return tpy_number(tp_ivalue_number(v));
    case TP_IVALUE_TEXT: return PyUnicode_FromString(tp_ivalue_text(v));
    case TP_IVALUE_DEVICE: return tpy_device_object(tp_ivalue_device(v));
    case TP_IVALUE_LIST: return to_items(v, false);
    case TP_IVALUE_TUPLE: return to_items(v, true);
    default: return to_dict(v);
    }
}

/* Takes v over; NULL is the library's error. */
static PyObject *to_python(tp_ivalue *v) {
    if (!v) return tpy_raise();
    if (tp_ivalue_kind_of(v) == TP_IVALUE_OBJECT) return wrap(v);
    PyObject *o = plain_to_python(v);
    tp_ivalue_release(v);
    return o;
}

/* ---- Objects ---- */

static tp_ivalue *held(PyObject *self) { return ((script_object *)self)->v; }

static void object_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    tp_ivalue_release(held(self));
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *object_call(PyObject *self, PyObject *args) { /* (method, args, kwargs) */
    const char *method;
    PyObject *given, *named;
    if (!PyArg_ParseTuple(args, "sO!O!", &method, &PyTuple_Type, &given, &PyDict_Type, &named)) return NULL;
    PyObject *names = PyDict_Keys(named), *values = PyDict_Values(named);
    Py_ssize_t n = PyTuple_GET_SIZE(given), m = PyDict_GET_SIZE(named);
    tp_ivalue **by_position = names && values ? all_from(given, 0) : NULL,
              **by_name = by_position ? all_from(values, 0) : NULL;
    const char **words = by_name ? PyMem_Calloc((size_t)m + 1, sizeof *words) : NULL;
    PyObject *result = NULL;
    bool fine = words != NULL;
    for (Py_ssize_t i = 0; fine && i < m; i++) fine = (words[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(names, i)));
    if (fine) {
        tp_ivalue *made;
        TPY_READING(made = tp_script_call(held(self), method, n, by_position, m, words, by_name));
        result = to_python(made);
    }
    if (by_position) release_all(by_position, n);
    if (by_name) release_all(by_name, m);
    PyMem_Free(words);
    Py_XDECREF(names);
    Py_XDECREF(values);
    return result;
}

static PyObject *object_get(PyObject *self, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    return text ? to_python(tp_ivalue_get(held(self), text)) : NULL;
}

static PyObject *object_set(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *value;
    if (!PyArg_ParseTuple(args, "sO", &name, &value)) return NULL;
    tp_ivalue *v = from_python(value, 0);
    if (!v) return NULL;
    bool fine = tp_ivalue_set(held(self), name, v);
    tp_ivalue_release(v);
    return tpy_none_or_raise(fine);
}

static PyObject *object_attributes(PyObject *self, PyObject *unused) { /* [(name, kind)] */
    (void)unused;
    int64_t n = tp_ivalue_attributes(held(self));
    PyObject *made = PyList_New(n);
    for (int64_t i = 0; made && i < n; i++) {
        PyObject *pair =
            Py_BuildValue("(si)", tp_ivalue_attribute(held(self), i), tp_ivalue_attribute_kind(held(self), i));
        if (pair)
            PyList_SET_ITEM(made, i, pair);
        else
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *object_methods(PyObject *self, PyObject *unused) {
    (void)unused;
    int64_t n = tp_ivalue_methods(held(self));
    PyObject *made = PyList_New(n);
    for (int64_t i = 0; made && i < n; i++) {
        PyObject *name = PyUnicode_FromString(tp_ivalue_method(held(self), i));
        if (name)
            PyList_SET_ITEM(made, i, name);
        else
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *object_code(PyObject *self, PyObject *method) {
    const char *name = PyUnicode_AsUTF8(method), *code = name ? tp_ivalue_code(held(self), name) : NULL;
    if (!name) return NULL;
    return code ? PyUnicode_FromString(code) : tpy_raise();
}

static PyObject *object_is(PyObject *self, PyObject *other) {
    return PyBool_FromLong(Py_TYPE(other) == object_type && tp_ivalue_is(held(self), held(other)));
}

static PyObject *object_save(PyObject *self, PyObject *path) {
    const char *text = PyUnicode_AsUTF8(path);
    bool fine = false;
    if (!text) return NULL;
    TPY_READING(fine = tp_script_save(held(self), text));
    return tpy_none_or_raise(fine);
}

static PyObject *object_class(PyObject *self, void *unused) {
    (void)unused;
    const char *name = tp_ivalue_class(held(self));
    return PyUnicode_FromString(name ? name : "");
}

static PyObject *object_is_module(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(tp_ivalue_is_module(held(self)));
}

/* _script_load(name, bytes or None): None reads the file of that name. */
static PyObject *load(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    Py_buffer bytes = {0};
    PyObject *memory;
    if (!PyArg_ParseTuple(args, "sO", &name, &memory)) return NULL;
    if (memory != Py_None && PyObject_GetBuffer(memory, &bytes, PyBUF_SIMPLE) < 0) return NULL;
    tp_ivalue *v;
    TPY_READING(v = memory == Py_None ? tp_script_load(name)
                                      : tp_script_load_memory(name, bytes.buf ? bytes.buf : "", bytes.len));
    if (memory != Py_None) PyBuffer_Release(&bytes);
    return to_python(v);
}

int tpy_init_script(PyObject *module) {
    static PyMethodDef methods[] = {{"call", object_call, METH_VARARGS, NULL},
                                    {"get", object_get, METH_O, NULL},
                                    {"set", object_set, METH_VARARGS, NULL},
                                    {"attributes", object_attributes, METH_NOARGS, NULL},
                                    {"methods", object_methods, METH_NOARGS, NULL},
                                    {"code", object_code, METH_O, NULL},
                                    {"same", object_is, METH_O, NULL},
                                    {"save", object_save, METH_O, NULL},
                                    {0}};
    static PyGetSetDef properties[] = {
        {"class_name", object_class, NULL, NULL, NULL}, {"is_module", object_is_module, NULL, NULL, NULL}, {0}};
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, object_dealloc}, {Py_tp_methods, methods}, {Py_tp_getset, properties}, {0, NULL}};
    static PyType_Spec spec = {"taper._C._ScriptObject", sizeof(script_object), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    static PyMethodDef functions[] = {{"_script_load", load, METH_VARARGS, NULL}, {0}};
    named_tuples = PyDict_New();
    object_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!named_tuples || !object_type || PyModule_AddObjectRef(module, "_ScriptObject", (PyObject *)object_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}

/* What C++ extensions (torch/extension.h) need of the extension module: tensors to and from Python's objects, the
 * pending error as an exception, and objects for those that are compiled without Python.h. They find it as a capsule,
 * taper._C._cpp_api. */
#include "tpy.h"
#include <taper/python.h>

static tp_tensor *borrowed_tensor(PyObject *o) { return tpy_is_tensor(o) ? tpy_unwrap(o) : NULL; }
static bool dtype_of_object(PyObject *o, tp_dtype *dtype) {
    if (!PyObject_TypeCheck(o, tpy_dtype_type)) return false;
    *dtype = ((tpy_dtype *)o)->dtype;
    return true;
}
static bool device_of_object(PyObject *o, tp_device *device) {
    if (!PyObject_TypeCheck(o, tpy_device_type)) return false;
    *device = ((tpy_device *)o)->device;
    return true;
}

/* ---- Objects ---- */
static PyObject *retain(PyObject *o) { return Py_NewRef(o); }
static void release(PyObject *o) { Py_XDECREF(o); }
static tp_python_kind kind_of_object(PyObject *o) {
    if (o == Py_None) return TP_PYTHON_NONE;
    if (PyBool_Check(o)) return TP_PYTHON_BOOL;
    if (PyLong_Check(o)) return TP_PYTHON_INT;
    if (PyFloat_Check(o)) return TP_PYTHON_FLOAT;
    if (PyComplex_Check(o)) return TP_PYTHON_COMPLEX;
    if (PyUnicode_Check(o)) return TP_PYTHON_TEXT;
    if (PyList_Check(o)) return TP_PYTHON_LIST;
    if (PyTuple_Check(o)) return TP_PYTHON_TUPLE;
    return PyDict_Check(o) ? TP_PYTHON_DICT : TP_PYTHON_OTHER;
}
static const char *type_name(PyObject *o) { return Py_TYPE(o)->tp_name; }
static bool to_bool(PyObject *o, bool *value) {
    int truth = PyObject_IsTrue(o);
    *value = truth > 0;
    return truth >= 0;
}
static bool to_int(PyObject *o, int64_t *value) {
    *value = PyLong_AsLongLong(o);
    return *value != -1 || !PyErr_Occurred();
}
static bool to_double(PyObject *o, double *value) {
    *value = PyFloat_AsDouble(o);
    return *value != -1 || !PyErr_Occurred();
}
static bool to_complex(PyObject *o, double *real, double *imaginary) {
    Py_complex c = PyComplex_AsCComplex(o);
    *real = c.real;
    *imaginary = c.imag;
    return c.real != -1 || !PyErr_Occurred();
}
static const char *text_of_object(PyObject *o, int64_t *length) {
    Py_ssize_t n = 0;
    const char *text = PyUnicode_AsUTF8AndSize(o, &n);
    *length = n;
    return text;
}
static PyObject *from_bool(bool value) { return PyBool_FromLong(value); }
static PyObject *from_int(int64_t value) { return PyLong_FromLongLong(value); }
static PyObject *from_text(const char *text, int64_t length) { return PyUnicode_FromStringAndSize(text, length); }
static PyObject *new_list(int64_t n) { return PyList_New(n); }
static PyObject *new_tuple(int64_t n) { return PyTuple_New(n); }
static int64_t length_of_object(PyObject *o) {
    if (!PyUnicode_Check(o) && PySequence_Check(o)) return PySequence_Size(o);
    PyErr_Format(PyExc_TypeError, "expected a list, got %s", Py_TYPE(o)->tp_name);
    return -1;
}
static PyObject *item_of_object(PyObject *o, int64_t i) { return PySequence_GetItem(o, i); }
static bool set_item(PyObject *o, int64_t i, PyObject *v) {
    if (!v) return false;
    return (PyList_Check(o) ? PyList_SetItem(o, i, v) : PyTuple_SetItem(o, i, v)) == 0;
}
static bool put_item(PyObject *dict, PyObject *key, PyObject *value) { return PyDict_SetItem(dict, key, value) == 0; }
static bool next_item(PyObject *dict, int64_t *at, PyObject **key, PyObject **value) {
    Py_ssize_t position = *at;
    int found = PyDict_Next(dict, &position, key, value);
    *at = position;
    return found != 0;
}
static void set_error(tp_code code, const char *message) {
    PyObject *type = code == TP_ERR_INDEX     ? PyExc_IndexError
                     : code == TP_ERR_VALUE   ? PyExc_ValueError
                     : code == TP_ERR_TYPE    ? PyExc_TypeError
                     : code == TP_ERR_MISSING ? PyExc_NotImplementedError
                                              : PyExc_RuntimeError;
    PyErr_SetString(type, message);
}

/* ---- Functions and instances of C++ classes ---- */
typedef PyObject *(*cpp_call)(void *context, PyObject *arguments);
static PyObject *call_function(PyObject *self, PyObject *arguments) {
    void *context = PyCapsule_GetPointer(self, "taper.cpp.function");
    if (!context) return NULL;
    cpp_call call = (cpp_call)(uintptr_t)PyCapsule_GetContext(self);
    return call(context, arguments);
}
static PyMethodDef function_method = {"function", call_function, METH_VARARGS, NULL};
static PyObject *cpp_function(void *context, cpp_call call) {
    PyObject *capsule = PyCapsule_New(context, "taper.cpp.function", NULL);
    PyObject *function = NULL;
    if (capsule && PyCapsule_SetContext(capsule, (void *)(uintptr_t)call) == 0)
        function = PyCFunction_New(&function_method, capsule);
    Py_XDECREF(capsule);
    return function;
}
static void free_held(PyObject *capsule) {
    void (*free_it)(void *) = (void (*)(void *))(uintptr_t)PyCapsule_GetContext(capsule);
    free_it(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
}
static PyObject *wrap_object(void *held, const char *type, void (*free_it)(void *held)) {
    PyObject *capsule = PyCapsule_New(held, type, NULL);
    if (!capsule || PyCapsule_SetContext(capsule, (void *)(uintptr_t)free_it) ||
        PyCapsule_SetDestructor(capsule, free_held)) {
        Py_XDECREF(capsule);
        free_it(held);
        return NULL;
    }
    PyObject *module = PyImport_ImportModule("taper._classes");
    PyObject *object = module ? PyObject_CallMethod(module, "wrap", "sO", type, capsule) : NULL;
    Py_XDECREF(module);
    Py_DECREF(capsule);
    return object;
}
static void *held_object(PyObject *o, const char *type) {
    PyObject *capsule = PyObject_GetAttrString(o, "_capsule");
    void *held = capsule && PyCapsule_IsValid(capsule, type) ? PyCapsule_GetPointer(capsule, type) : NULL;
    Py_XDECREF(capsule); /* o keeps it */
    PyErr_Clear();
    return held;
}

static const tp_python_api api = {
    .size = sizeof api,
    .tensor = borrowed_tensor,
    .wrap = tpy_wrap,
    .dtype = dtype_of_object,
    .wrap_dtype = tpy_dtype_object,
    .device = device_of_object,
    .wrap_device = tpy_device_object,
    .raise = tpy_raise,
    .none = Py_None,
    .retain = retain,
    .release = release,
    .kind = kind_of_object,
    .type_name = type_name,
    .to_bool = to_bool,
    .to_int = to_int,
    .to_double = to_double,
    .to_complex = to_complex,
    .text = text_of_object,
    .from_bool = from_bool,
    .from_int = from_int,
    .from_double = PyFloat_FromDouble,
    .from_text = from_text,
    .new_list = new_list,
    .new_tuple = new_tuple,
    .new_dict = PyDict_New,
    .length = length_of_object,
    .item = item_of_object,
    .set_item = set_item,
    .put_item = put_item,
    .next_item = next_item,
    .set_error = set_error,
    .function = cpp_function,
    .wrap_object = wrap_object,
    .object = held_object,
};

int tpy_init_extension(PyObject *module) {
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&api, TP_PYTHON_API, NULL);
    if (!capsule) return -1;
    int failed = PyModule_AddObjectRef(module, "_cpp_api", capsule);
    Py_DECREF(capsule);
    return failed;
}

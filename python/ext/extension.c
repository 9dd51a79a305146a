/* What C++ extensions (torch/extension.h) need of the extension module: tensors to and from Python's objects, and the
 * pending error as an exception. They find it as a capsule, taper._C._cpp_api. */
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

static const tp_python_api api = {
    .size = sizeof api,
    .tensor = borrowed_tensor,
    .wrap = tpy_wrap,
    .dtype = dtype_of_object,
    .wrap_dtype = tpy_dtype_object,
    .device = device_of_object,
    .wrap_device = tpy_device_object,
    .raise = tpy_raise,
};

int tpy_init_extension(PyObject *module) {
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&api, TP_PYTHON_API, NULL);
    if (!capsule) return -1;
    int failed = PyModule_AddObjectRef(module, "_cpp_api", capsule);
    Py_DECREF(capsule);
    return failed;
}

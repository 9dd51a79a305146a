/* Tensors from and to Python's and other libraries' data. */
#include "tpy.h"

PyObject *tpy_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)type, (void)args, (void)kwargs;
    return PyErr_Format(PyExc_TypeError, "unsupported");
}
int tpy_init_convert(PyObject *module) {
    (void)module;
    return 0;
}

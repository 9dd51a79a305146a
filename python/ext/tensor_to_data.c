/* A tensor's values as Python's: item, tolist. */
#include "tpy.h"

static PyObject *tensor_item(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_tensor *t = tpy_unwrap(o);
    if (tpy_handled(o)) return tpy_call_overridden_method("item", o, NULL, 0, NULL);
    if (tp_numel(t) != 1)
        return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
                            (long long)tp_numel(t));
    tp_scalar s = tp_item_scalar(t);
    return tp_ok() ? tpy_number(s) : tpy_raise();
}

static PyObject *number_at(tp_dtype dtype, const char *p) {
    switch (dtype) {
    case TP_BOOL: return PyBool_FromLong(*(const uint8_t *)p);
    case TP_UINT8: return PyLong_FromLong(*(const uint8_t *)p);
    case TP_INT8: return PyLong_FromLong(*(const int8_t *)p);
    case TP_INT16: return PyLong_FromLong(*(const int16_t *)p);
    case TP_INT32: return PyLong_FromLong(*(const int32_t *)p);
    case TP_INT64: return PyLong_FromLongLong(*(const int64_t *)p);
    case TP_FLOAT32: return PyFloat_FromDouble(*(const float *)p);
    case TP_FLOAT64: return PyFloat_FromDouble(*(const double *)p);
    case TP_UINT16: return PyLong_FromLong(*(const uint16_t *)p);
    case TP_UINT32: return PyLong_FromUnsignedLong(*(const uint32_t *)p);
    case TP_UINT64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)p);
    case TP_COMPLEX64: return PyComplex_FromDoubles(((const float *)p)[0], ((const float *)p)[1]);
    case TP_COMPLEX128: return PyComplex_FromDoubles(((const double *)p)[0], ((const double *)p)[1]);
    default: return PyErr_Format(PyExc_SystemError, "no Python number for %s", tp_dtype_name(dtype));
    }
}

static PyObject *list_of(tp_dtype dtype, int64_t item, tp_ints shape, tp_ints strides, const char *p) {
    if (!shape.n) return number_at(dtype, p);
    PyObject *list = PyList_New((Py_ssize_t)shape.v[0]);
    for (int64_t i = 0; list && i < shape.v[0]; i++) {
        PyObject *o = list_of(dtype, item, tp_ints_view(shape.v + 1, shape.n - 1),
                              tp_ints_view(strides.v + 1, strides.n - 1), p + i * strides.v[0] * item);
        if (o)
            PyList_SET_ITEM(list, i, o);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *tensor_tolist(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_tensor *t = tpy_unwrap(o);
    tp_dtype dtype = tp_dtype_of(t);
    if (!tp_dtype_has_values(dtype)) return PyErr_Format(PyExc_RuntimeError, "load_scalar: invalid type");
    tp_dtype wide = tpy_wide_dtype(dtype);
    tp_tensor *near = tpy_own(tp_detach(t));
    if (near && (tp_is_conj(near) || tp_is_neg(near))) {
        tp_tensor *plain = tpy_own(tp_clone(near));
        tp_release(near);
        near = plain;
    }
    if (near && (wide != dtype || tp_device_of(t).type != TP_CPU)) {
        tp_tensor *moved = tpy_own(tp_to(near, .dtype = wide, .device = {TP_CPU, 0}));
        tp_release(near);
        near = moved;
    }
    if (!near) return tpy_raise();
    PyObject *list =
        list_of(tp_dtype_of(near), tp_dtype_size(tp_dtype_of(near)), tp_shape(near), tp_strides(near), tp_data(near));
    tp_release(near);
    return list;
}

static PyMethodDef methods[] = {
    {"item", tensor_item, METH_NOARGS, "The one element as a Python number."},
    {"tolist", tensor_tolist, METH_NOARGS,
     "The elements as nested lists of Python numbers; the number itself for no dimensions."},
    {0}};

int tpy_init_read(PyObject *module) {
    (void)module;
    return tpy_add_methods(methods);
}

/* What torch.nn.utils' clipping asks of the library: the norm of many tensors at once, and scaling them to one. */
#include "tpy.h"

/* The tensors of a list, borrowed, in an array from PyMem; elements counts theirs. False with an exception. */
static bool tensors_in(PyObject *list, tp_tensors *out, int64_t *elements) {
    if (!PyList_Check(list)) {
        PyErr_Format(PyExc_TypeError, "expected a list of tensors, got %s", Py_TYPE(list)->tp_name);
        return false;
    }
    Py_ssize_t n = PyList_GET_SIZE(list);
    *out = (tp_tensors){PyMem_Malloc((size_t)(n + 1) * sizeof(tp_tensor *)), n};
    if (!out->v) {
        PyErr_NoMemory();
        return false;
    }
    *elements = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        if (!tpy_is_tensor(o)) {
            PyMem_Free(out->v);
            PyErr_Format(PyExc_TypeError, "expected a list of tensors, got %s in it", Py_TYPE(o)->tp_name);
            return false;
        }
        out->v[i] = tpy_unwrap(o);
        *elements += tp_numel(out->v[i]);
    }
    return true;
}

static PyObject *total_norm(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *list;
    double norm_type;
    tp_tensors tensors;
    int64_t elements;
    if (!PyArg_ParseTuple(args, "Od", &list, &norm_type) || !tensors_in(list, &tensors, &elements)) return NULL;
    tp_tensor *norm;
    TPY_HEAVY(elements, norm = tpy_own(tp_total_norm(tensors, norm_type)));
    PyMem_Free(tensors.v);
    return tpy_wrap(norm);
}
static PyObject *clip_to_norm(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *list, *norm;
    double max_norm;
    tp_tensors tensors;
    int64_t elements;
    if (!PyArg_ParseTuple(args, "OdO!", &list, &max_norm, tpy_tensor_type, &norm) ||
        !tensors_in(list, &tensors, &elements))
        return NULL;
    bool ok;
    TPY_HEAVY(elements, ok = tp_clip_to_norm(tensors, max_norm, tpy_unwrap(norm)));
    PyMem_Free(tensors.v);
    return tpy_none_or_raise(ok);
}
static PyMethodDef functions[] = {
    {"_total_norm", total_norm, METH_VARARGS, NULL}, {"_clip_to_norm", clip_to_norm, METH_VARARGS, NULL}, {0}};

int tpy_init_clip(PyObject *module) { return PyModule_AddFunctions(module, functions); }

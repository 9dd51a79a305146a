/* The plan of a distributed checkpoint for torch.distributed.checkpoint: who writes which part of which tensor, and
 * what a part that was saved has of one that is wanted. The library works it out (taper/checkpoint.h). */
#include "tpy.h"
#include <taper/checkpoint.h>

/* Numbers of a sequence, at most TP_MAX_DIMS of them; -1: an exception. */
static int64_t read_sizes(PyObject *o, int64_t *out) {
    PyObject *list = PySequence_Fast(o, "expected a tuple of sizes");
    if (!list) return -1;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
    if (n > TP_MAX_DIMS) PyErr_Format(PyExc_ValueError, "expected at most %d sizes, got %zd", TP_MAX_DIMS, n);
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < n; i++)
        out[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(list, i));
    Py_DECREF(list);
    return PyErr_Occurred() ? -1 : n;
}

typedef struct sizes {
    int64_t whole[TP_MAX_DIMS], offset[TP_MAX_DIMS], size[TP_MAX_DIMS];
} sizes;

/* (rank, name, bytes, None or (dtype, whole, offset, size)) */
static bool read_box(PyObject *o, tp_checkpoint_box *box, sizes *box_sizes) {
    PyObject *tensor, *dtype, *parts[3];
    long long bytes;
    if (!PyArg_ParseTuple(o, "isLO", &box->rank, &box->name, &bytes, &tensor)) return false;
    box->bytes = bytes;
    box->is_tensor = tensor != Py_None;
    if (!box->is_tensor) return true;
    if (!PyArg_ParseTuple(tensor, "O!OOO", tpy_dtype_type, &dtype, &parts[0], &parts[1], &parts[2])) return false;
    box->dtype = ((tpy_dtype *)dtype)->dtype;
    int64_t *const into[] = {box_sizes->whole, box_sizes->offset, box_sizes->size};
    tp_ints *const lists[] = {&box->whole, &box->offset, &box->size};
    for (int i = 0; i < 3; i++) {
        const int64_t n = read_sizes(parts[i], into[i]);
        if (n < 0) return false;
        *lists[i] = (tp_ints){.v = into[i], .n = n};
    }
    return true;
}

static PyObject *numbers(const int64_t *v, int64_t n) {
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) PyList_SET_ITEM(list, i, PyLong_FromLongLong(v[i]));
    return list;
}

/* _checkpoint_plan(boxes, ranks, to_lowest_rank): the numbers of those to be written, each by its rank */
static PyObject *checkpoint_plan(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *list, *result = NULL;
    int ranks, lowest;
    if (!PyArg_ParseTuple(args, "O!ip", &PyList_Type, &list, &ranks, &lowest)) return NULL;
    const Py_ssize_t n = PyList_GET_SIZE(list);
    tp_checkpoint_box *boxes = PyMem_Calloc((size_t)n + 1, sizeof *boxes);
    sizes *box_sizes = PyMem_Calloc((size_t)n + 1, sizeof *box_sizes);
    int64_t *chosen = PyMem_Calloc((size_t)n + 1, sizeof *chosen);
    bool ok = boxes && box_sizes && chosen;
    if (!ok) PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = read_box(PyList_GET_ITEM(list, i), &boxes[i], &box_sizes[i]);
    if (ok) {
        const int64_t count = tp_checkpoint_plan(n, boxes, ranks, lowest, chosen);
        result = count < 0 ? tpy_raise() : numbers(chosen, count);
    }
    PyMem_Free(boxes);
    PyMem_Free(box_sizes);
    PyMem_Free(chosen);
    return result;
}

static PyObject *slices(const int64_t *from, const int64_t *size, int64_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (int64_t i = 0; tuple && i < n; i++) {
        PyObject *start = PyLong_FromLongLong(from[i]), *stop = PyLong_FromLongLong(from[i] + size[i]);
        PyObject *slice = start && stop ? PySlice_New(start, stop, NULL) : NULL;
        Py_XDECREF(start);
        Py_XDECREF(stop);
        if (!slice) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SET_ITEM(tuple, i, slice);
    }
    return tuple;
}

/* _box_overlap(offset, size, other_offset, other_size): None, or slices into the first and into the second */
static PyObject *box_overlap(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *given[4];
    int64_t read[4][TP_MAX_DIMS], in_a[TP_MAX_DIMS], in_b[TP_MAX_DIMS], size[TP_MAX_DIMS], n[4];
    if (!PyArg_ParseTuple(args, "OOOO", &given[0], &given[1], &given[2], &given[3])) return NULL;
    for (int i = 0; i < 4; i++) {
        if ((n[i] = read_sizes(given[i], read[i])) < 0) return NULL;
        if (n[i] != n[0]) return PyErr_Format(PyExc_ValueError, "boxes of %lld and %lld dims", n[0], n[i]);
    }
    const tp_box_place a = {read[0], read[1]}, b = {read[2], read[3]};
    if (!tp_box_overlap(n[0], &a, &b, in_a, in_b, size)) Py_RETURN_NONE;
    PyObject *first = slices(in_a, size, n[0]), *second = first ? slices(in_b, size, n[0]) : NULL;
    if (second) return Py_BuildValue("(NN)", first, second);
    Py_XDECREF(first);
    return NULL;
}

static PyMethodDef functions[] = {
    {"_checkpoint_plan", checkpoint_plan, METH_VARARGS, NULL}, {"_box_overlap", box_overlap, METH_VARARGS, NULL}, {0}};

int tpy_init_checkpoint_plan(PyObject *module) { return PyModule_AddFunctions(module, functions); }

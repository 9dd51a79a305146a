/* Datasets that the library reads, and the reader that makes batches of them on threads. torch.utils.data builds on
 * these. */
#include "tpy.h"
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

typedef struct {
    PyObject_HEAD
    tp_dataset *d;
} tpy_dataset;
typedef struct {
    PyObject_HEAD
    tp_reader *r;
    int64_t fields;
} tpy_reader;
static PyTypeObject *dataset_type, *reader_type;

static tp_dataset *dataset_of(PyObject *o) { return ((tpy_dataset *)o)->d; }

static PyObject *wrap_dataset(tp_dataset *d) { /* takes d over */
    if (!d) return tpy_raise();
    tpy_dataset *o = (tpy_dataset *)dataset_type->tp_alloc(dataset_type, 0);
    if (o)
        o->d = d;
    else
        tp_dataset_release(d);
    return (PyObject *)o;
}

static void dataset_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    tp_dataset_release(dataset_of(o));
    type->tp_free(o);
    Py_DECREF(type);
}

static Py_ssize_t dataset_len(PyObject *o) { return (Py_ssize_t)tp_dataset_count(dataset_of(o)); }

static PyObject *wrap_fields(tp_tensor **fields, int64_t n, bool as_list) { /* takes the tensors over */
    PyObject *all = as_list ? PyList_New(n) : PyTuple_New(n);
    for (int64_t f = 0; f < n; f++) {
        PyObject *tensor = all ? tpy_wrap(fields[f]) : NULL;
        if (!all)
            tp_release(fields[f]);
        else if (as_list)
            PyList_SET_ITEM(all, f, tensor);
        else
            PyTuple_SET_ITEM(all, f, tensor);
        if (all && !tensor) {
            while (++f < n) tp_release(fields[f]);
            Py_CLEAR(all);
        }
    }
    return all;
}

static PyObject *dataset_item(PyObject *o, Py_ssize_t i) { /* negative indices have been resolved */
    tp_tensor *fields[TP_MAX_FIELDS];
    if (i < 0 || i >= dataset_len(o))
        return PyErr_Format(PyExc_IndexError, "index %zd is out of range for a dataset of %zd items", i,
                            dataset_len(o));
    bool ok;
    TPY_READING(ok = tp_dataset_get(dataset_of(o), i, fields));
    return ok ? wrap_fields(fields, tp_dataset_fields(dataset_of(o)), false) : tpy_raise();
}

/* A list of Python's ints; the caller frees it. */
static int64_t *ints_of(PyObject *o, Py_ssize_t *n) {
    PyObject *items = PySequence_Fast(o, "expected a list of ints");
    if (!items) return NULL;
    *n = PySequence_Fast_GET_SIZE(items);
    int64_t *list = PyMem_Malloc(sizeof *list * (size_t)(*n ? *n : 1));
    if (!list) PyErr_NoMemory();
    for (Py_ssize_t i = 0; list && i < *n; i++) {
        list[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items, i));
        if (list[i] != -1 || !PyErr_Occurred()) continue;
        PyMem_Free(list);
        list = NULL;
    }
    Py_DECREF(items);
    return list;
}

static PyObject *dataset_subset(PyObject *o, PyObject *indices) {
    Py_ssize_t n;
    int64_t *list = ints_of(indices, &n);
    if (!list) return NULL;
    PyObject *part = wrap_dataset(tp_dataset_subset(dataset_of(o), tp_ints_view(list, n)));
    PyMem_Free(list);
    return part;
}

static bool floats_of(PyObject *o, double *list, tp_floats *out) {
    PyObject *items = PySequence_Fast(o, "expected a list of numbers");
    if (!items) return false;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    if (n > 64) PyErr_SetString(PyExc_ValueError, "expected at most 64 numbers");
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
        list[i] = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(items, i));
    Py_DECREF(items);
    *out = (tp_floats){list, n};
    return !PyErr_Occurred();
}

static PyObject *dataset_normalised(PyObject *o, PyObject *args) {
    long long field;
    double divisor, means[64], stds[64];
    PyObject *mean, *std;
    tp_floats m, s;
    if (!PyArg_ParseTuple(args, "LdOO:normalised", &field, &divisor, &mean, &std) || !floats_of(mean, means, &m) ||
        !floats_of(std, stds, &s))
        return NULL;
    return wrap_dataset(tp_dataset_normalised(dataset_of(o), field, divisor, m, s));
}

/* ---- Making datasets ---- */
static PyObject *of_tensors(PyObject *unused, PyObject *tensors) {
    (void)unused;
    PyObject *items = PySequence_Fast(tensors, "expected a list of tensors");
    tp_tensor *list[TP_MAX_FIELDS];
    Py_ssize_t n = items ? PySequence_Fast_GET_SIZE(items) : 0;
    for (Py_ssize_t i = 0; i < n && i < TP_MAX_FIELDS && !PyErr_Occurred(); i++) {
        PyObject *t = PySequence_Fast_GET_ITEM(items, i);
        if (tpy_is_tensor(t))
            list[i] = tpy_unwrap(t);
        else
            PyErr_Format(PyExc_TypeError, "expected tensors, got %s", Py_TYPE(t)->tp_name);
    }
    PyObject *made = items && !PyErr_Occurred() ? wrap_dataset(tp_dataset_of_tensors((tp_tensors){list, n})) : NULL;
    Py_XDECREF(items);
    return made;
}

static PyObject *mnist(PyObject *unused, PyObject *args) {
    (void)unused;
    PyObject *images, *labels = NULL;
    if (!PyArg_ParseTuple(args, "O&O&", PyUnicode_FSConverter, &images, PyUnicode_FSConverter, &labels)) return NULL;
    tp_dataset *d;
    TPY_UNLOCKED(d = tp_dataset_mnist(PyBytes_AS_STRING(images), PyBytes_AS_STRING(labels)));
    Py_DECREF(images);
    Py_DECREF(labels);
    return wrap_dataset(d);
}

/* File names or names of tensors as C strings, which live as long as `kept`; -1: an exception. */
enum { MAX_NAMES = 64 };
static Py_ssize_t names_of(PyObject *o, const char **names, PyObject **kept) {
    Py_ssize_t n = PySequence_Size(o);
    if (n > MAX_NAMES) PyErr_Format(PyExc_ValueError, "expected at most %d names, got %zd", MAX_NAMES, n);
    *kept = n < 0 || n > MAX_NAMES ? NULL : PyTuple_New(n);
    for (Py_ssize_t i = 0; *kept && i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i), *bytes = NULL;
        bool ok = item && PyUnicode_FSConverter(item, &bytes);
        Py_XDECREF(item);
        if (ok) {
            PyTuple_SET_ITEM(*kept, i, bytes);
            names[i] = PyBytes_AS_STRING(bytes);
        } else
            Py_CLEAR(*kept);
    }
    return *kept ? n : -1;
}

static PyObject *cifar(PyObject *unused, PyObject *args) {
    (void)unused;
    PyObject *paths, *kept;
    long long classes;
    const char *names[MAX_NAMES];
    if (!PyArg_ParseTuple(args, "OL", &paths, &classes)) return NULL;
    Py_ssize_t n = names_of(paths, names, &kept);
    if (n < 0) return NULL;
    tp_dataset *d;
    TPY_UNLOCKED(d = tp_dataset_cifar(n, names, classes));
    Py_DECREF(kept);
    return wrap_dataset(d);
}

static PyObject *of_file(PyObject *unused, PyObject *args) {
    (void)unused;
    PyObject *path, *given, *kept;
    const char *names[MAX_NAMES];
    if (!PyArg_ParseTuple(args, "O&O", PyUnicode_FSConverter, &path, &given)) return NULL;
    Py_ssize_t n = names_of(given, names, &kept);
    PyObject *made = n < 0 ? NULL : wrap_dataset(tp_dataset_of_file(PyBytes_AS_STRING(path), n, names));
    Py_DECREF(path);
    if (n >= 0) Py_DECREF(kept);
    return made;
}

static PyObject *read_idx(PyObject *unused, PyObject *path) {
    (void)unused;
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    PyObject *t = tpy_wrap(tpy_own(tp_read_idx(PyBytes_AS_STRING(bytes))));
    Py_DECREF(bytes);
    return t;
}

/* ---- The reader ---- */
static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *dataset;
    int threads;
    long long room;
    if (kwargs && PyDict_GET_SIZE(kwargs)) return PyErr_Format(PyExc_TypeError, "Reader() takes no keyword arguments");
    if (!PyArg_ParseTuple(args, "O!iL:Reader", dataset_type, &dataset, &threads, &room)) return NULL;
    tp_reader *r = tp_reader_new(dataset_of(dataset), threads, room);
    tpy_reader *o = r ? (tpy_reader *)type->tp_alloc(type, 0) : NULL;
    if (o) {
        o->r = r;
        o->fields = tp_dataset_fields(dataset_of(dataset));
    } else if (r)
        tp_reader_free(r);
    else
        tpy_raise();
    return (PyObject *)o;
}

static void reader_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    TPY_UNLOCKED(tp_reader_free(((tpy_reader *)o)->r)); /* its threads finish what they are at */
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *reader_ask(PyObject *o, PyObject *indices) {
    Py_ssize_t n;
    int64_t *list = ints_of(indices, &n);
    if (!list) return NULL;
    bool ok = tp_reader_ask(((tpy_reader *)o)->r, tp_ints_view(list, n));
    PyMem_Free(list);
    return tpy_none_or_raise(ok);
}

static PyObject *reader_take(PyObject *o, PyObject *unused) {
    (void)unused;
    tpy_reader *self = (tpy_reader *)o;
    tp_tensor *fields[TP_MAX_FIELDS];
    bool ok;
    TPY_UNLOCKED(ok = tp_reader_take(self->r, fields));
    return ok ? wrap_fields(fields, self->fields, true) : tpy_raise();
}

/* glibc's malloc gives blocks of the size of an image back to the system when they are freed, and has each page of the
 * next one filled with zeros again. Images decoded and augmented: 75 -> 62 ms for 64 of them. What the user has set
 * stays. */
static PyObject *keep_freed_memory(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
#ifdef __GLIBC__
    enum { KEPT = 32 << 20 }; /* bytes; glibc takes no more */
    const bool set = getenv("MALLOC_MMAP_THRESHOLD_") || getenv("MALLOC_TRIM_THRESHOLD_") || getenv("GLIBC_TUNABLES");
    if (!set) {
        mallopt(M_MMAP_THRESHOLD, KEPT);
        mallopt(M_TRIM_THRESHOLD, 2 * KEPT);
    }
#endif
    Py_RETURN_NONE;
}

static PyMethodDef dataset_methods[] = {
    {"subset", dataset_subset, METH_O, "subset(indices): some of the items."},
    {"normalised", dataset_normalised, METH_VARARGS,
     "normalised(field, divisor, mean, std): with the field as float32, (x / divisor - mean) / std."},
    {0}};
static PyType_Slot dataset_slots[] = {{Py_tp_dealloc, dataset_dealloc},
                                      {Py_sq_length, dataset_len},
                                      {Py_sq_item, dataset_item},
                                      {Py_tp_methods, dataset_methods},
                                      {Py_tp_doc, "Items that the library reads; each is a tuple of tensors."},
                                      {0, NULL}};
static PyType_Spec dataset_spec = {"taper._C._Dataset", sizeof(tpy_dataset), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dataset_slots};
static PyMethodDef reader_methods[] = {
    {"ask", reader_ask, METH_O, "ask(indices): has a batch read."},
    {"take", reader_take, METH_NOARGS, "The oldest batch asked for, as a list of tensors; waits for it."},
    {0}};
static PyType_Slot reader_slots[] = {{Py_tp_new, reader_new},
                                     {Py_tp_dealloc, reader_dealloc},
                                     {Py_tp_methods, reader_methods},
                                     {Py_tp_doc, "_Reader(dataset, threads, room): reads batches ahead, on threads."},
                                     {0, NULL}};
static PyType_Spec reader_spec = {"taper._C._Reader", sizeof(tpy_reader), 0, Py_TPFLAGS_DEFAULT, reader_slots};
static PyMethodDef functions[] = {
    {"_dataset_of_tensors", of_tensors, METH_O, "Rows of tensors."},
    {"_dataset_of_file", of_file, METH_VARARGS, "_dataset_of_file(path, names): rows of tensors in a file."},
    {"_dataset_mnist", mnist, METH_VARARGS, "_dataset_mnist(images, labels): MNIST's files."},
    {"_dataset_cifar", cifar, METH_VARARGS, "_dataset_cifar(paths, classes): CIFAR's binary files."},
    {"_read_idx", read_idx, METH_O, "A file in MNIST's format as a tensor."},
    {"_keep_freed_memory", keep_freed_memory, METH_NOARGS, "Has malloc keep freed blocks of the size of samples."},
    {0}};

int tpy_init_data(PyObject *module) {
    dataset_type = (PyTypeObject *)PyType_FromSpec(&dataset_spec);
    reader_type = (PyTypeObject *)PyType_FromSpec(&reader_spec);
    if (!dataset_type || !reader_type || PyModule_AddType(module, dataset_type) < 0 ||
        PyModule_AddType(module, reader_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}

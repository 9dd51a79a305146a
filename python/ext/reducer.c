/* The reducer of gradients for DistributedDataParallel: taper._C._Reducer, over the library's (taper/ddp.h). How a
 * bucket reaches the other ranks is a matter of Python, where hooks and process groups are: the methods _began, _start,
 * _wait and _sum of the class that derives from it. */
#include "grad.h"
#include <stddef.h>
#include <taper/ddp.h>

typedef struct {
    PyObject_HEAD
    tp_reducer *reducer;
} reducer_object;

static tp_reducer *reducer_of(PyObject *o) { return ((reducer_object *)o)->reducer; }
static PyObject *none_or_raise(bool ok) {
    if (!ok) return tpy_raise();
    Py_RETURN_NONE;
}

/* ---- Back into Python ---- */
static bool call(PyObject *self, const char *method, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    PyObject *list = Py_VaBuildValue(format, arguments), *bound = list ? PyObject_GetAttrString(self, method) : NULL;
    PyObject *result = bound ? PyObject_CallObject(bound, list) : NULL;
    va_end(arguments);
    if (!result) tpy_leave_error();
    Py_XDECREF(list);
    Py_XDECREF(bound);
    Py_XDECREF(result);
    return result != NULL;
}

static bool began(void *self) {
    tpy_entry entry = tpy_enter();
    const bool ok = call(self, "_began", "()");
    tpy_leave(entry);
    return ok;
}
static bool start(void *self, int64_t bucket) {
    tpy_entry entry = tpy_enter();
    const bool ok = call(self, "_start", "(L)", (long long)bucket);
    tpy_leave(entry);
    return ok;
}
static bool wait(void *self, int64_t bucket) {
    tpy_entry entry = tpy_enter();
    const bool ok = call(self, "_wait", "(L)", (long long)bucket);
    tpy_leave(entry);
    return ok;
}
static bool sum(void *self, tp_tensor *used) {
    tpy_entry entry = tpy_enter();
    const bool ok = call(self, "_sum", "(N)", tpy_tensor_or_none(used));
    tpy_leave(entry);
    return ok;
}

/* Gradients of other classes, such as sparse ones, have a copy_ of their own. */
static bool is_plain(tp_tensor *t) {
    const PyObject *there = tp_binding(t);
    return !there || Py_TYPE(there) == tpy_tensor_type;
}
static int copy(void *self, tp_tensor *to, tp_tensor *from) {
    if (is_plain(to) && is_plain(from)) return 0;
    tpy_entry entry = tpy_enter();
    const bool ok = call(self, "_copy", "(NN)", tpy_tensor_or_none(to), tpy_tensor_or_none(from));
    tpy_leave(entry);
    return ok ? 1 : -1;
}

/* ---- The object ---- */
static bool read_parameters(PyObject *params, PyObject *names, tp_tensor **tensors, const char **texts) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params); i++) {
        PyObject *p = PyList_GET_ITEM(params, i);
        if (!tpy_is_tensor(p)) {
            PyErr_Format(PyExc_TypeError, "parameter %zd: expected a Tensor, got %s", i, Py_TYPE(p)->tp_name);
            return false;
        }
        tensors[i] = tpy_unwrap(p);
        if (!(texts[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(names, i)))) return false;
    }
    return true;
}

static int reducer_init(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *words[] = {"params", "names", "cap_bytes", "find_unused", "as_views", "static_graph", NULL};
    PyObject *params, *names;
    long long cap;
    int find_unused, as_views, static_graph;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O!Lppp", words, &PyList_Type, &params, &PyList_Type, &names,
                                     &cap, &find_unused, &as_views, &static_graph))
        return -1;
    const Py_ssize_t n = PyList_GET_SIZE(params);
    if (n != PyList_GET_SIZE(names) || reducer_of(self)) {
        PyErr_SetString(PyExc_ValueError, "a reducer is made once, of as many names as parameters");
        return -1;
    }
    const tp_reducer_options options = {.size = sizeof options,
                                        .bucket_bytes = cap,
                                        .find_unused = find_unused,
                                        .as_views = as_views,
                                        .static_graph = static_graph,
                                        .context = self,
                                        .began = began,
                                        .start = start,
                                        .wait = wait,
                                        .sum = sum,
                                        .copy = copy};
    tp_tensor **tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
    const char **texts = PyMem_Calloc((size_t)n + 1, sizeof *texts);
    if (!tensors || !texts)
        PyErr_NoMemory();
    else if (read_parameters(params, names, tensors, texts)) {
        ((reducer_object *)self)->reducer = tp_reducer_new(n, tensors, texts, &options);
        if (!reducer_of(self)) tpy_raise();
    }
    PyMem_Free(tensors);
    PyMem_Free((void *)texts);
    return reducer_of(self) ? 0 : -1;
}

static void reducer_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    tp_reducer_free(reducer_of(self));
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- Methods ---- */
/* prepare(unused): None, or a bool per parameter */
static PyObject *reducer_prepare(PyObject *self, PyObject *unused) {
    if (unused == Py_None) return none_or_raise(tp_reducer_prepare(reducer_of(self), NULL));
    PyObject *list = PySequence_Fast(unused, "expected a list of bools");
    if (!list) return NULL;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
    bool *flags = PyMem_Calloc((size_t)n + 1, sizeof *flags);
    for (Py_ssize_t i = 0; flags && i < n; i++) flags[i] = PyObject_IsTrue(PySequence_Fast_GET_ITEM(list, i)) > 0;
    Py_DECREF(list);
    if (!flags) return PyErr_NoMemory();
    const bool ok = tp_reducer_prepare(reducer_of(self), flags);
    PyMem_Free(flags);
    return none_or_raise(ok);
}
static PyObject *reducer_first_done(PyObject *self, PyObject *unused) {
    (void)unused;
    return none_or_raise(tp_reducer_first_done(reducer_of(self)));
}
static PyObject *reducer_shadow(PyObject *self, PyObject *unused) {
    (void)unused;
    return none_or_raise(tp_reducer_shadow(reducer_of(self)));
}
static PyObject *reducer_has(PyObject *self, PyObject *number) {
    const long long i = PyLong_AsLongLong(number);
    if (i == -1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(tp_reducer_has(reducer_of(self), i));
}
static PyObject *reducer_divide(PyObject *self, PyObject *by) {
    const double divisor = PyFloat_AsDouble(by);
    if (divisor == -1 && PyErr_Occurred()) return NULL;
    tp_reducer_divide(reducer_of(self), divisor);
    Py_RETURN_NONE;
}
static PyObject *reducer_set_static(PyObject *self, PyObject *unused) {
    (void)unused;
    tp_reducer_set_static(reducer_of(self));
    Py_RETURN_NONE;
}
/* bucket(i): (the tensor, the numbers of its parameters) */
static PyObject *reducer_bucket(PyObject *self, PyObject *number) {
    const long long i = PyLong_AsLongLong(number);
    if (i == -1 && PyErr_Occurred()) return NULL;
    tp_ints members;
    tp_tensor *flat = tp_reducer_bucket(reducer_of(self), i, &members);
    if (!flat) return tpy_raise();
    PyObject *list = PyList_New(members.n);
    for (int64_t k = 0; list && k < members.n; k++) PyList_SET_ITEM(list, k, PyLong_FromLongLong(members.v[k]));
    return list ? Py_BuildValue("(NN)", tpy_tensor_or_none(flat), list) : NULL;
}
static PyObject *reducer_bucket_count(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(tp_reducer_buckets(reducer_of(self)));
}
static PyObject *reducer_running(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(tp_reducer_running(reducer_of(self)));
}

static PyMethodDef methods[] = {
    {"_prepare", reducer_prepare, METH_O, NULL},    {"_first_done", reducer_first_done, METH_NOARGS, NULL},
    {"_shadow", reducer_shadow, METH_NOARGS, NULL}, {"_has", reducer_has, METH_O, NULL},
    {"_divide", reducer_divide, METH_O, NULL},      {"_set_static", reducer_set_static, METH_NOARGS, NULL},
    {"_bucket", reducer_bucket, METH_O, NULL},      {0}};
static PyGetSetDef properties[] = {
    {"_bucket_count", reducer_bucket_count, NULL, NULL, NULL},
    {"running", reducer_running, NULL, "A backward began and has not reached all parameters.", NULL},
    {0}};
static PyType_Slot slots[] = {{Py_tp_init, reducer_init},       {Py_tp_new, PyType_GenericNew},
                              {Py_tp_dealloc, reducer_dealloc}, {Py_tp_methods, methods},
                              {Py_tp_getset, properties},       {0, NULL}};
static PyType_Spec spec = {"taper._C._Reducer", sizeof(reducer_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

int tpy_init_reducer(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    if (!type) return -1;
    const int failed = PyModule_AddObjectRef(module, "_Reducer", type);
    Py_DECREF(type);
    return failed;
}

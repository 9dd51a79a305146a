/* The process's settings: threads, the default dtype, printing; versions and the operators there are. */
#include "tpy.h"

static PyObject *get_num_threads(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromLong(tp_num_threads());
}
static PyObject *set_num_threads(PyObject *module, PyObject *o) {
    (void)module;
    int64_t n;
    int fits = tpy_fit_int(o, &n);
    if (fits < 0) return NULL;
    if (!fits)
        return PyErr_Format(PyExc_RuntimeError, "set_num_threads expects an int, but got %s", Py_TYPE(o)->tp_name);
    if (n < 1 || n > 65536)
        return PyErr_Format(PyExc_RuntimeError, "set_num_threads expects a positive integer, got %lld", (long long)n);
    tp_set_num_threads((int)n);
    Py_RETURN_NONE;
}
static PyObject *get_default_dtype(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return tpy_dtype_object(tp_default_dtype());
}
static PyObject *set_default_dtype(PyObject *module, PyObject *o) {
    (void)module;
    tp_dtype d;
    if (tpy_fit_dtype(o, &d) <= 0 || Py_TYPE(o) != tpy_dtype_type)
        return PyErr_Format(PyExc_TypeError,
                            "invalid dtype object: only floating-point types are supported as the default type");
    if (!tp_dtype_is_floating(d))
        return PyErr_Format(PyExc_TypeError, "only floating-point types are supported as the default type");
    if (d > TP_COMPLEX128)
        return PyErr_Format(PyExc_TypeError, "couldn't find storage object %sStorage", tp_dtype_word(d));
    return tpy_none_or_raise(tp_set_default_dtype(d));
}
static PyObject *promote_types(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *a, *b;
    tp_dtype x, y;
    if (!PyArg_UnpackTuple(args, "promote_types", 2, 2, &a, &b)) return NULL;
    if (tpy_fit_dtype(a, &x) <= 0 || tpy_fit_dtype(b, &y) <= 0)
        return PyErr_Format(PyExc_TypeError, "promote_types(): arguments must be torch.dtype");
    tp_dtype common = tp_promote_types(x, y);
    return common ? tpy_dtype_object(common) : tpy_raise();
}
static PyObject *can_cast(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = {"from_", "to", NULL};
    PyObject *a, *b;
    tp_dtype x, y;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:can_cast", names, &a, &b)) return NULL;
    if (tpy_fit_dtype(a, &x) <= 0 || tpy_fit_dtype(b, &y) <= 0)
        return PyErr_Format(PyExc_TypeError, "can_cast(): arguments must be torch.dtype");
    return PyBool_FromLong(tp_can_cast(x, y));
}
static PyObject *set_print(PyObject *module, PyObject *args) {
    (void)module;
    tp_print_options o = {.size = sizeof o};
    if (!PyArg_ParseTuple(args, "iiiii", &o.precision, &o.threshold, &o.edge_items, &o.line_width, &o.sci_mode))
        return NULL;
    return tpy_none_or_raise(tp_set_print_options(&o));
}
static PyObject *get_print(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    tp_print_options o = {.size = sizeof o};
    tp_get_print_options(&o);
    return Py_BuildValue("(iiiii)", o.precision, o.threshold, o.edge_items, o.line_width, o.sci_mode);
}
/* Every operator: (name, signature, doc, kind, is a method, has an in-place form, is a helper, namespaces). */
static PyObject *list_operators(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < tp_operator_count(); i++) {
        const tp_operator *op = tp_operator_at(i);
        PyObject *row =
            Py_BuildValue("(ssssOOOs)", op->name, op->signature, op->doc, op->kind, op->method ? Py_True : Py_False,
                          op->inplace ? Py_True : Py_False, op->internal ? Py_True : Py_False, op->names);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}
static PyObject *memory_stats(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    tp_memory_stats s = {.size = sizeof s};
    if (!tp_memory_query(&s)) return tpy_raise();
    return Py_BuildValue("{sLsLsLsL}", "allocated", (long long)s.allocated, "peak_allocated",
                         (long long)s.peak_allocated, "reserved", (long long)s.reserved, "allocations",
                         (long long)s.allocations);
}

/* What the library stands on: (part, version, file), the last two None where an optional one is not there. */
static PyObject *list_libraries(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < tp_library_count(); i++) {
        const char *name = NULL, *version = NULL, *file = NULL;
        PyObject *row =
            tp_library_at(i, &name, &version, &file) ? Py_BuildValue("(zzz)", name, version, file) : tpy_raise();
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* PyTorch counts the uses of its parts with this; packages on top of it call it for their own. We count nothing. */
static PyObject *log_api_usage(PyObject *module, PyObject *name) {
    (void)module;
    (void)name;
    Py_RETURN_NONE;
}
static PyObject *tracing; /* what torch.jit._get_trace_graph has set; NULL: no call is being written down */
static PyObject *tracing_state(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return Py_NewRef(tracing ? tracing : Py_None);
}
static PyObject *set_tracing_state(PyObject *module, PyObject *state) {
    (void)module;
    Py_XSETREF(tracing, state == Py_None ? NULL : Py_NewRef(state));
    Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    {"_log_api_usage_once", log_api_usage, METH_O, NULL},
    {"_get_tracing_state", tracing_state, METH_NOARGS, "Of the call that is being written down; None where none is."},
    {"_set_tracing_state", set_tracing_state, METH_O, NULL},
    {"get_num_threads", get_num_threads, METH_NOARGS, "How many threads an operator may use."},
    {"set_num_threads", set_num_threads, METH_O, "Sets how many threads an operator may use."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS, "The dtype that Python's floats become."},
    {"set_default_dtype", set_default_dtype, METH_O, "Sets the dtype that Python's floats become."},
    {"promote_types", promote_types, METH_VARARGS, "The dtype of an operation on tensors of these two."},
    {"can_cast", (PyCFunction)(void (*)(void))can_cast, METH_VARARGS | METH_KEYWORDS,
     "Does a conversion stay in the category?"},
    {"_set_print_options", set_print, METH_VARARGS, NULL},
    {"_get_print_options", get_print, METH_NOARGS, NULL},
    {"_operators", list_operators, METH_NOARGS, NULL},
    {"_memory_stats", memory_stats, METH_NOARGS, NULL},
    {"_libraries", list_libraries, METH_NOARGS, NULL},
    {0}};

int tpy_init_settings(PyObject *module) {
    if (PyModule_AddStringConstant(module, "_version", tp_version()) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}

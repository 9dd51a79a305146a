/* Streams, events and graphs of accelerators. A stream is a number for Python, its address: streams live on, and the
 * classes that users see are Python's. Events and graphs are objects here, because somebody must free what is behind
 * them. */
#include "gpu.h"

static tp_stream *stream_at(unsigned long long address) { return (tp_stream *)(uintptr_t)address; }
static PyObject *address_of(const void *pointer) { return PyLong_FromVoidPtr((void *)pointer); }
static PyObject *answer(int yes) { return yes < 0 ? tpy_raise() : PyBool_FromLong(yes); }

/* ---- Streams ---- */
static PyObject *stream_new(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    tp_stream *stream;
    int priority;
    if (!tpy_gpu_device(args, "i:_stream_new", &device, &priority)) return NULL;
    return tp_stream_new(device, priority, &stream) ? address_of(stream) : tpy_raise();
}
static PyObject *stream_current(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    return tpy_gpu_device(args, ":_stream_current", &device) ? address_of(tp_stream_current(device)) : NULL;
}

typedef struct stream_key { /* (type, index, stream) */
    tp_device device;
    unsigned long long stream;
} stream_key;
static bool read_stream_key(PyObject *args, stream_key *p) { return tpy_gpu_device(args, "K", &p->device, &p->stream); }

static PyObject *stream_set_current(PyObject *module, PyObject *args) {
    (void)module;
    stream_key p;
    return read_stream_key(args, &p) ? tpy_none_or_raise(tp_stream_set_current(p.device, stream_at(p.stream))) : NULL;
}
static PyObject *stream_priority(PyObject *module, PyObject *args) {
    (void)module;
    stream_key p;
    return read_stream_key(args, &p) ? PyLong_FromLong(tp_stream_priority(p.device, stream_at(p.stream))) : NULL;
}
static PyObject *stream_synchronize(PyObject *module, PyObject *args) {
    (void)module;
    stream_key p;
    bool ok;
    if (!read_stream_key(args, &p)) return NULL;
    TPY_UNLOCKED(ok = tp_stream_synchronize(p.device, stream_at(p.stream)));
    return tpy_none_or_raise(ok);
}
static PyObject *stream_query(PyObject *module, PyObject *args) {
    (void)module;
    stream_key p;
    return read_stream_key(args, &p) ? answer(tp_stream_query(p.device, stream_at(p.stream))) : NULL;
}
/* (type, index, stream, index of the other, the other) */
static PyObject *stream_wait(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    unsigned long long stream, other;
    int index;
    if (!tpy_gpu_device(args, "KiK:_stream_wait", &device, &stream, &index, &other)) return NULL;
    return tpy_none_or_raise(
        tp_stream_wait(device, stream_at(stream), (tp_device){device.type, (int16_t)index}, stream_at(other)));
}
static PyObject *capturing(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    return tpy_gpu_device(args, ":_gpu_capturing", &device) ? PyBool_FromLong(tp_gpu_capturing(device)) : NULL;
}

/* ---- Events ---- */
typedef struct {
    PyObject_HEAD
    tp_mark *mark;
} tpy_mark;
static PyTypeObject *mark_type;
static tp_mark *mark_of(PyObject *o) { return ((tpy_mark *)o)->mark; }

static PyObject *mark_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    tp_device_type kind;
    int timing;
    if (!PyArg_ParseTuple(args, "O&p:_Mark", tpy_gpu_kind, &kind, &timing)) return NULL;
    tp_mark *mark = tp_mark_new(kind, timing);
    if (!mark) return tpy_raise();
    tpy_mark *self = (tpy_mark *)type->tp_alloc(type, 0);
    if (self)
        self->mark = mark;
    else
        tp_mark_free(mark);
    return (PyObject *)self;
}
static void mark_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    tp_mark_free(mark_of(o));
    type->tp_free(o);
    Py_DECREF(type);
}
static PyObject *mark_record(PyObject *self, PyObject *args) {
    stream_key p;
    return read_stream_key(args, &p) ? tpy_none_or_raise(tp_mark_record(mark_of(self), p.device, stream_at(p.stream)))
                                     : NULL;
}
static PyObject *mark_hold(PyObject *self, PyObject *args) { /* the stream waits for it */
    stream_key p;
    return read_stream_key(args, &p)
               ? tpy_none_or_raise(tp_stream_wait_mark(p.device, stream_at(p.stream), mark_of(self)))
               : NULL;
}
static PyObject *mark_query(PyObject *self, PyObject *unused) {
    (void)unused;
    return answer(tp_mark_query(mark_of(self)));
}
static PyObject *mark_synchronize(PyObject *self, PyObject *unused) {
    (void)unused;
    bool ok;
    TPY_UNLOCKED(ok = tp_mark_synchronize(mark_of(self)));
    return tpy_none_or_raise(ok);
}
static PyObject *mark_elapsed(PyObject *self, PyObject *other) {
    double milliseconds;
    if (Py_TYPE(other) != mark_type)
        return PyErr_Format(PyExc_TypeError, "expected an event, got %s", Py_TYPE(other)->tp_name);
    return tp_mark_elapsed(mark_of(self), mark_of(other), &milliseconds) ? PyFloat_FromDouble(milliseconds)
                                                                         : tpy_raise();
}
static PyObject *mark_handle(PyObject *self, PyObject *unused) {
    (void)unused;
    return address_of(tp_mark_handle(mark_of(self)));
}
static PyObject *mark_index(PyObject *self, PyObject *unused) { /* of its device; None before the first record */
    (void)unused;
    tp_device device;
    if (!tp_mark_device(mark_of(self), &device)) Py_RETURN_NONE;
    return PyLong_FromLong(device.index);
}
static PyMethodDef mark_methods[] = {
    {"record", mark_record, METH_VARARGS, NULL}, {"hold", mark_hold, METH_VARARGS, NULL},
    {"query", mark_query, METH_NOARGS, NULL},    {"synchronize", mark_synchronize, METH_NOARGS, NULL},
    {"elapsed", mark_elapsed, METH_O, NULL},     {"handle", mark_handle, METH_NOARGS, NULL},
    {"index", mark_index, METH_NOARGS, NULL},    {0}};
static PyType_Slot mark_slots[] = {{Py_tp_new, mark_new},
                                   {Py_tp_dealloc, mark_dealloc},
                                   {Py_tp_methods, mark_methods},
                                   {Py_tp_doc, "A point in a stream."},
                                   {0, NULL}};
static PyType_Spec mark_spec = {"torch._C._Mark", sizeof(tpy_mark), 0, Py_TPFLAGS_DEFAULT, mark_slots};

/* ---- Graphs ---- */
typedef struct {
    PyObject_HEAD
    tp_gpu_graph *graph;
} tpy_graph;
static tp_gpu_graph *graph_of(PyObject *o) { return ((tpy_graph *)o)->graph; }

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args;
    (void)kwargs;
    tp_gpu_graph *graph = tp_gpu_graph_new();
    if (!graph) return tpy_raise();
    tpy_graph *self = (tpy_graph *)type->tp_alloc(type, 0);
    if (self)
        self->graph = graph;
    else
        tp_gpu_graph_free(graph);
    return (PyObject *)self;
}
static void graph_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    tp_gpu_graph_free(graph_of(o));
    type->tp_free(o);
    Py_DECREF(type);
}
/* (type, index, pool, mode: 0 global, 1 thread_local, 2 relaxed) */
static PyObject *graph_begin(PyObject *self, PyObject *args) {
    tp_device device;
    unsigned long long pool;
    int mode;
    if (!tpy_gpu_device(args, "Ki:begin", &device, &pool, &mode)) return NULL;
    return tpy_none_or_raise(tp_gpu_graph_begin(graph_of(self), device, pool, (tp_capture_mode)mode));
}
static PyObject *graph_end(PyObject *self, PyObject *unused) {
    (void)unused;
    return tpy_none_or_raise(tp_gpu_graph_end(graph_of(self)));
}
static PyObject *graph_replay(PyObject *self, PyObject *unused) {
    (void)unused;
    return tpy_none_or_raise(tp_gpu_graph_replay(graph_of(self)));
}
static PyObject *graph_reset(PyObject *self, PyObject *unused) {
    (void)unused;
    return tpy_none_or_raise(tp_gpu_graph_reset(graph_of(self)));
}
static PyObject *graph_pool(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(tp_gpu_graph_pool(graph_of(self)));
}
static PyObject *pool_new(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(tp_gpu_pool_new());
}
static PyMethodDef graph_methods[] = {
    {"begin", graph_begin, METH_VARARGS, NULL},  {"end", graph_end, METH_NOARGS, NULL},
    {"replay", graph_replay, METH_NOARGS, NULL}, {"reset", graph_reset, METH_NOARGS, NULL},
    {"pool", graph_pool, METH_NOARGS, NULL},     {0}};
static PyType_Slot graph_slots[] = {{Py_tp_new, graph_new},
                                    {Py_tp_dealloc, graph_dealloc},
                                    {Py_tp_methods, graph_methods},
                                    {Py_tp_doc, "Work that is recorded once."},
                                    {0, NULL}};
static PyType_Spec graph_spec = {"torch._C._Graph", sizeof(tpy_graph), 0, Py_TPFLAGS_DEFAULT, graph_slots};

static PyMethodDef functions[] = {{"_stream_new", stream_new, METH_VARARGS, NULL},
                                  {"_stream_current", stream_current, METH_VARARGS, NULL},
                                  {"_stream_set_current", stream_set_current, METH_VARARGS, NULL},
                                  {"_stream_priority", stream_priority, METH_VARARGS, NULL},
                                  {"_stream_synchronize", stream_synchronize, METH_VARARGS, NULL},
                                  {"_stream_query", stream_query, METH_VARARGS, NULL},
                                  {"_stream_wait", stream_wait, METH_VARARGS, NULL},
                                  {"_gpu_capturing", capturing, METH_VARARGS, NULL},
                                  {"_gpu_pool_new", pool_new, METH_NOARGS, NULL},
                                  {0}};

int tpy_init_streams(PyObject *module) {
    PyTypeObject *graphs = (PyTypeObject *)PyType_FromSpec(&graph_spec);
    mark_type = (PyTypeObject *)PyType_FromSpec(&mark_spec);
    int failed = !graphs || !mark_type || PyModule_AddObjectRef(module, "_Mark", (PyObject *)mark_type) < 0 ||
                 PyModule_AddObjectRef(module, "_Graph", (PyObject *)graphs) < 0;
    Py_XDECREF(graphs);
    return failed ? -1 : PyModule_AddFunctions(module, functions);
}

/* Event and record files for torch.utils.tensorboard and `taper watch`: _EventWriter, _RecordWriter and _EventReader.
 * Files are written without the interpreter lock. */
#include "tpy.h"

typedef struct {
    PyObject_HEAD
    tp_events *w;
} event_writer;
typedef struct {
    PyObject_HEAD
    tp_records *r;
} record_writer;

static PyObject *closed(const char *what) { return PyErr_Format(PyExc_ValueError, "the %s is closed", what); }

/* ---- Event files ---- */
static PyObject *event_writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"folder", "max_queue", "flush_secs", "suffix", NULL};
    PyObject *folder = NULL;
    tp_events_options o = {.size = sizeof o};
    long long max_queue = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|Lds:_EventWriter", names, PyUnicode_FSConverter, &folder,
                                     &max_queue, &o.flush_secs, &o.suffix))
        return NULL;
    o.max_queue = max_queue;
    event_writer *self = (event_writer *)type->tp_alloc(type, 0);
    if (self) TPY_UNLOCKED(self->w = tp_events_open_with(PyBytes_AS_STRING(folder), &o));
    Py_DECREF(folder);
    if (!self || self->w) return (PyObject *)self;
    Py_DECREF(self);
    return tpy_raise();
}
static PyObject *event_writer_close(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_events *w = ((event_writer *)o)->w;
    ((event_writer *)o)->w = NULL;
    bool ok;
    TPY_UNLOCKED(ok = tp_events_close(w));
    return tpy_none_or_raise(ok);
}
static void event_writer_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (!tp_events_close(((event_writer *)o)->w)) tp_error_clear(); /* there is nobody left to tell */
    type->tp_free(o);
    Py_DECREF(type);
}
static PyObject *event_writer_flush(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_events *w = ((event_writer *)o)->w;
    if (!w) return closed("event file");
    bool ok;
    TPY_UNLOCKED(ok = tp_events_flush(w));
    return tpy_none_or_raise(ok);
}
static PyObject *event_writer_purge(PyObject *o, PyObject *step) {
    tp_events *w = ((event_writer *)o)->w;
    long long s = PyLong_AsLongLong(step);
    if (s == -1 && PyErr_Occurred()) return NULL;
    return w ? tpy_none_or_raise(tp_events_purge(w, s)) : closed("event file");
}
/* write(part, bytes, step=None, walltime=None); part is a tp_event_part */
static PyObject *event_writer_write(PyObject *o, PyObject *args) {
    int part;
    Py_buffer data;
    PyObject *step = Py_None, *walltime = Py_None;
    if (!PyArg_ParseTuple(args, "iy*|OO:write", &part, &data, &step, &walltime)) return NULL;
    tp_events *w = ((event_writer *)o)->w;
    long long s = step == Py_None ? TP_NONE : PyLong_AsLongLong(step);
    double t = walltime == Py_None ? 0 : PyFloat_AsDouble(walltime);
    PyObject *result = NULL;
    if (PyErr_Occurred()) goto done;
    if (!w) {
        closed("event file");
        goto done;
    }
    bool ok;
    TPY_UNLOCKED(ok = tp_events_log_bytes(w, (tp_event_part)part, data.buf, (size_t)data.len, s, t));
    result = tpy_none_or_raise(ok);
done:
    PyBuffer_Release(&data);
    return result;
}
static PyObject *event_writer_path(PyObject *o, void *unused) {
    (void)unused;
    tp_events *w = ((event_writer *)o)->w;
    return w ? PyUnicode_DecodeFSDefault(tp_events_path(w)) : closed("event file");
}

/* ---- Record files ---- */
static PyObject *record_writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", NULL};
    PyObject *path = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&:RecordWriter", names, PyUnicode_FSConverter, &path)) return NULL;
    record_writer *self = (record_writer *)type->tp_alloc(type, 0);
    if (self) TPY_UNLOCKED(self->r = tp_records_create(PyBytes_AS_STRING(path)));
    Py_DECREF(path);
    if (!self || self->r) return (PyObject *)self;
    Py_DECREF(self);
    return tpy_raise();
}
static PyObject *record_writer_close(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_records *r = ((record_writer *)o)->r;
    ((record_writer *)o)->r = NULL;
    bool ok;
    TPY_UNLOCKED(ok = tp_records_close(r));
    return tpy_none_or_raise(ok);
}
static void record_writer_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (!tp_records_close(((record_writer *)o)->r)) tp_error_clear();
    type->tp_free(o);
    Py_DECREF(type);
}
static PyObject *record_writer_write(PyObject *o, PyObject *arg) {
    tp_records *r = ((record_writer *)o)->r;
    Py_buffer data;
    if (!r) return closed("record file");
    if (PyObject_GetBuffer(arg, &data, PyBUF_SIMPLE) < 0) return NULL;
    bool ok;
    TPY_UNLOCKED(ok = tp_records_write(r, data.buf, (size_t)data.len));
    PyBuffer_Release(&data);
    return tpy_none_or_raise(ok);
}
static PyObject *record_writer_flush(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_records *r = ((record_writer *)o)->r;
    if (!r) return closed("record file");
    bool ok;
    TPY_UNLOCKED(ok = tp_records_flush(r));
    return tpy_none_or_raise(ok);
}

/* ---- Reading ---- */
typedef struct {
    PyObject_HEAD
    tp_event_file *f;
} event_reader;

static PyObject *event_reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", NULL};
    PyObject *path = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&:_EventReader", names, PyUnicode_FSConverter, &path)) return NULL;
    event_reader *self = (event_reader *)type->tp_alloc(type, 0);
    if (self) self->f = tp_event_file_open(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    if (!self || self->f) return (PyObject *)self;
    Py_DECREF(self);
    return tpy_raise();
}
static void event_reader_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    tp_event_file_close(((event_reader *)o)->f);
    type->tp_free(o);
    Py_DECREF(type);
}
static void add_point(const tp_point *point, void *list) {
    if (PyErr_Occurred()) return;
    PyObject *tag =
        point->tag ? PyUnicode_DecodeUTF8(point->tag, (Py_ssize_t)point->tag_bytes, "replace") : Py_NewRef(Py_None);
    PyObject *item = tag ? Py_BuildValue("(NLdd)", tag, (long long)point->step, point->wall_time, point->value) : NULL;
    if (item) PyList_Append(list, item);
    Py_XDECREF(item);
}
/* read(): the scalars since the last call as (tag, step, time, value); tag None: what is at this step or later is void
 */
static PyObject *event_reader_read(PyObject *o, PyObject *unused) {
    (void)unused;
    PyObject *list = PyList_New(0);
    if (!list) return NULL;
    bool ok = tp_event_file_points(((event_reader *)o)->f, add_point, list);
    if (ok && !PyErr_Occurred()) return list;
    Py_DECREF(list);
    return PyErr_Occurred() ? NULL : tpy_raise();
}
static PyObject *event_reader_damaged(PyObject *o, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(tp_event_file_damaged(((event_reader *)o)->f));
}

static int add_type(PyObject *module, const char *name, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    int done = type ? PyModule_AddObjectRef(module, name, type) : -1;
    Py_XDECREF(type);
    return done;
}

int tpy_init_events(PyObject *module) {
    static PyMethodDef event_methods[] = {{"write", event_writer_write, METH_VARARGS, NULL},
                                          {"flush", event_writer_flush, METH_NOARGS, NULL},
                                          {"purge", event_writer_purge, METH_O, NULL},
                                          {"close", event_writer_close, METH_NOARGS, NULL},
                                          {0}};
    static PyGetSetDef event_properties[] = {{"path", event_writer_path, NULL, "Of the file.", NULL}, {0}};
    static PyType_Slot event_slots[] = {{Py_tp_new, event_writer_new},
                                        {Py_tp_dealloc, event_writer_dealloc},
                                        {Py_tp_methods, event_methods},
                                        {Py_tp_getset, event_properties},
                                        {0, NULL}};
    static PyType_Spec event_spec = {"taper._C._EventWriter", sizeof(event_writer), 0, Py_TPFLAGS_DEFAULT, event_slots};
    static PyMethodDef record_methods[] = {{"write", record_writer_write, METH_O, NULL},
                                           {"flush", record_writer_flush, METH_NOARGS, NULL},
                                           {"close", record_writer_close, METH_NOARGS, NULL},
                                           {0}};
    static PyType_Slot record_slots[] = {{Py_tp_new, record_writer_new},
                                         {Py_tp_dealloc, record_writer_dealloc},
                                         {Py_tp_methods, record_methods},
                                         {0, NULL}};
    static PyType_Spec record_spec = {"taper._C._RecordWriter", sizeof(record_writer), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, record_slots};
    static PyMethodDef reader_methods[] = {{"read", event_reader_read, METH_NOARGS, NULL}, {0}};
    static PyGetSetDef reader_properties[] = {
        {"damaged", event_reader_damaged, NULL, "Records with wrong checksums so far.", NULL}, {0}};
    static PyType_Slot reader_slots[] = {{Py_tp_new, event_reader_new},
                                         {Py_tp_dealloc, event_reader_dealloc},
                                         {Py_tp_methods, reader_methods},
                                         {Py_tp_getset, reader_properties},
                                         {0, NULL}};
    static PyType_Spec reader_spec = {"taper._C._EventReader", sizeof(event_reader), 0, Py_TPFLAGS_DEFAULT,
                                      reader_slots};
    if (add_type(module, "_EventReader", &reader_spec) < 0) return -1;
    if (add_type(module, "_EventWriter", &event_spec) < 0 || add_type(module, "_RecordWriter", &record_spec) < 0)
        return -1;
    return tpy_init_summaries(module);
}

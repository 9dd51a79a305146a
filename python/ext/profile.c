/* Profiles for Python: start, stop with everything that was recorded, and named ranges. */
#include "tpy.h"

#define CAPSULE "taper.profile"

/* The Python stack where an event begins, by a function of the package's. Whatever goes wrong in it, the event goes on
 * without. */
static void *make_note(void *context) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *note = PyObject_CallNoArgs(context);
    if (!note) PyErr_Clear();
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
    return note;
}
static void drop_note(void *note) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)note);
    PyGILState_Release(state);
}

static void free_profile(PyObject *capsule) {
    tp_profile_free(PyCapsule_GetPointer(capsule, CAPSULE));
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

/* (shapes, function or None, devices) -> a capsule; the function's result stays with each outermost event. */
static PyObject *start(PyObject *module, PyObject *args) {
    (void)module;
    int shapes, devices = 0;
    PyObject *note;
    if (!PyArg_ParseTuple(args, "pO|p:_profile_start", &shapes, &note, &devices)) return NULL;
    tp_profile_options options = {.size = sizeof options, .shapes = shapes, .devices = devices};
    if (note != Py_None) {
        options.note = make_note;
        options.drop_note = drop_note;
        options.context = note;
    }
    tp_profile *p = tp_profile_start(&options);
    if (!p) return tpy_raise();
    PyObject *capsule = PyCapsule_New(p, CAPSULE, free_profile);
    if (!capsule) {
        tp_profile_free(p);
        return NULL;
    }
    PyCapsule_SetContext(capsule, Py_NewRef(note));
    return capsule;
}

static PyObject *input_object(const tp_profile *p, int64_t event, int64_t *i);

static PyObject *list_object(const tp_profile *p, int64_t event, int64_t n, int64_t *i) {
    PyObject *list = PyList_New(n);
    for (int64_t k = 0; list && k < n; k++) {
        PyObject *entry = input_object(p, event, i);
        if (entry)
            PyList_SET_ITEM(list, k, entry);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* The next input: (dtype, shape) of a tensor, a list of them, a tuple of whole numbers, None for the rest. */
static PyObject *input_object(const tp_profile *p, int64_t event, int64_t *i) {
    tp_event_input input;
    if (!tp_profile_input(p, event, (*i)++, &input)) return tpy_raise();
    if (input.count >= 0) return list_object(p, event, input.count, i);
    if (input.count == -2) return tpy_int_tuple(input.shape);
    if (input.dtype == TP_NO_DTYPE) Py_RETURN_NONE;
    return Py_BuildValue("(NN)", tpy_dtype_object((tp_dtype)input.dtype), tpy_int_tuple(input.shape));
}

static PyObject *event_object(const tp_profile *p, int64_t i) {
    const tp_event *e = tp_profile_event(p, i);
    PyObject *inputs = PyList_New(0);
    for (int64_t k = 0; inputs && k < e->ninputs;) {
        PyObject *input = input_object(p, i, &k);
        if (!input || PyList_Append(inputs, input) < 0) Py_CLEAR(inputs);
        Py_XDECREF(input);
    }
    if (!inputs) return NULL;
    return Py_BuildValue("(sLLLLLLNOLL)", e->name, (long long)e->kind, (long long)e->parent, (long long)e->start,
                         (long long)e->end, (long long)e->sequence, (long long)e->bytes, inputs,
                         e->note ? (PyObject *)e->note : Py_None, (long long)e->device_bytes,
                         (long long)e->multiply_adds);
}

static PyObject *activity_object(const tp_profile *p, int64_t i) {
    const tp_activity *a = tp_profile_activity(p, i);
    return Py_BuildValue("(sLsiLLLLL)", a->name, (long long)a->kind, a->device.type == TP_CUDA ? "cuda" : "xpu",
                         a->device.index, (long long)a->stream, (long long)a->start, (long long)a->end,
                         (long long)a->event, (long long)a->bytes);
}

static PyObject *list_of(const tp_profile *p, int64_t n, PyObject *(*object)(const tp_profile *p, int64_t i)) {
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *entry = object(p, i);
        if (entry)
            PyList_SET_ITEM(list, i, entry);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* capsule -> (thread, [(name, kind, parent, start, end, sequence, bytes, inputs, note, device bytes), ...],
 * [(name, kind, device type, index, stream, start, end, event, bytes), ...]) */
static PyObject *stop(PyObject *module, PyObject *capsule) {
    (void)module;
    tp_profile *p = PyCapsule_GetPointer(capsule, CAPSULE);
    if (!p) return NULL;
    if (!tp_profile_stop(p)) return tpy_raise();
    PyObject *events = list_of(p, tp_profile_count(p), event_object);
    PyObject *activities = events ? list_of(p, tp_profile_activity_count(p), activity_object) : NULL;
    if (activities) return Py_BuildValue("(LNN)", (long long)tp_profile_thread(p), events, activities);
    Py_XDECREF(events);
    return NULL;
}

static PyObject *range_begin(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    return text ? PyLong_FromLongLong(tp_range_begin(text)) : NULL;
}
static PyObject *range_end(PyObject *module, PyObject *number) {
    (void)module;
    long long range = PyLong_AsLongLong(number);
    if (range == -1 && PyErr_Occurred()) return NULL;
    tp_range_end(range);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_profile_start", start, METH_VARARGS, NULL},
                                  {"_profile_stop", stop, METH_O, NULL},
                                  {"_range_begin", range_begin, METH_O, NULL},
                                  {"_range_end", range_end, METH_O, NULL},
                                  {0}};

int tpy_init_profile(PyObject *module) { return PyModule_AddFunctions(module, functions); }

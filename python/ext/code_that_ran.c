/* Which Python functions run while a call is captured, which of their instructions, and what of C they call. A graph
 * repeats operators alone: a call of anything else that may do more than compute (print, time, random, files) ends the
 * capture. Functions known to be harmless are listed in taper/_dynamo/_proven.py. */
#include "guards.h"
#include <frameobject.h>

static PyObject *ran; /* {(code's address, globals' address): (code, globals, which of its bytes ran or None)} of the
                         call that is watched, or was */
static bool watching, strict;
static bool collected; /* Python's collector was on: while a call is watched it waits, for what it frees runs functions
                          that are not the call's */
static bool looked_up; /* the program read attributes by a text */
static bool
    asked_classes; /* an abstract class was asked whether something is one of its own, which register() decides */
typedef struct hearer {
    Py_tracefunc function;
    PyObject *context;
} hearer;
static hearer profile_before, trace_before;
static struct {
    const void *code, *globals;
    PyObject *bytes;
} last; /* borrowed: whose instructions ran last */

static const void
    *import_frame; /* borrowed: our own code imports a module right now, which is not the program's doing */

static PyObject *code_of(PyFrameObject *frame) { return (PyObject *)PyFrame_GetCode(frame); }
static PyObject *globals_of(PyFrameObject *frame) {
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetGlobals(frame);
#else
    return Py_NewRef(frame->f_globals);
#endif
}

PyObject *tpy_where(void) {
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    while (frame) {
        PyObject *globals = globals_of(frame);
        bool own = tpy_is_own(globals);
        Py_DECREF(globals);
        if (!own) break;
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    if (!frame) return NULL;
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *text = PyUnicode_FromFormat("%U:%d", code->co_filename, PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    Py_DECREF(frame);
    if (!text) PyErr_Clear();
    return text;
}

static bool sets_global(PyObject *code) {
    PyObject *bytes = PyObject_GetAttrString(code, "co_code");
    if (!bytes) {
        PyErr_Clear();
        return false;
    }
    bool found = false;
    int shift;
    const unsigned char *text = (const unsigned char *)PyBytes_AS_STRING(bytes);
    for (Py_ssize_t i = 0; i < PyBytes_GET_SIZE(bytes) && !found; i += 2)
        found = tpy_opcode(text[i], &shift) == TPY_OP_STORE_GLOBAL;
    Py_DECREF(bytes);
    return found;
}

/* ---- Functions of Python ---- */
static PyObject *add_ran(PyObject *key, PyObject *code, PyObject *globals) { /* borrowed; NULL with an exception */
    bool own = tpy_is_own(globals);
    if (!own && sets_global(code)) tp_capture_break("a global name is assigned");
    PyObject *bytes = Py_NewRef(Py_None);
#if PY_VERSION_HEX < 0x030C0000 /* from 3.12 on instructions are not traced like this: all of the code may have run */
    if (strict && !own) {
        PyObject *text = PyObject_GetAttrString(code, "co_code");
        Py_SETREF(bytes, text ? PyByteArray_FromStringAndSize(NULL, PyBytes_GET_SIZE(text)) : NULL);
        if (bytes) memset(PyByteArray_AS_STRING(bytes), 0, (size_t)PyByteArray_GET_SIZE(bytes));
        Py_XDECREF(text);
    }
#endif
    PyObject *entry = bytes ? PyTuple_Pack(3, code, globals, bytes) : NULL;
    bool ok = entry && PyDict_SetItem(ran, key, entry) == 0;
    Py_XDECREF(bytes);
    Py_XDECREF(entry);
    return ok ? PyDict_GetItemWithError(ran, key) : NULL;
}

static PyObject *entry_of(PyObject *code, PyObject *globals) { /* borrowed; NULL: an error, which is cleared */
    PyObject *key = Py_BuildValue("(NN)", PyLong_FromVoidPtr(code), PyLong_FromVoidPtr(globals)),
             *entry = key ? PyDict_GetItemWithError(ran, key) : NULL;
    if (key && !entry && !PyErr_Occurred()) entry = add_ran(key, code, globals);
    Py_XDECREF(key);
    if (!entry) {
        PyErr_Clear();
        tp_capture_break("there is no memory for what ran");
    }
    return entry;
}

/* Does one of our own functions import something with this frame? Its modules are ours, or what they stand on. */
static bool is_own_import(PyFrameObject *frame) {
    PyObject *globals = globals_of(frame), *name = PyDict_GetItemString(globals, "__name__");
    bool import = name && PyUnicode_Check(name) &&
                  (PyUnicode_CompareWithASCIIString(name, "importlib._bootstrap") == 0 ||
                   PyUnicode_CompareWithASCIIString(name, "_frozen_importlib") == 0);
    Py_DECREF(globals);
    PyFrameObject *back = import ? PyFrame_GetBack(frame) : NULL;
    if (!back) return false;
    globals = globals_of(back);
    bool own = tpy_is_own(globals);
    Py_DECREF(globals);
    Py_DECREF(back);
    return own;
}

static void on_function(PyFrameObject *frame) {
    PyObject *code = code_of(frame), *globals = globals_of(frame);
    entry_of(code, globals);
    Py_DECREF(code);
    Py_DECREF(globals);
}

#if PY_VERSION_HEX < 0x030C0000
static int instruction_of(PyFrameObject *frame) {
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame);
#else
    return frame->f_lasti * 2;
#endif
}

static void on_instruction(PyFrameObject *frame) {
    PyObject *code = code_of(frame), *globals = globals_of(frame);
    if (last.code != code || last.globals != globals) {
        PyObject *entry = entry_of(code, globals);
        last.code = code;
        last.globals = globals;
        last.bytes = entry ? PyTuple_GET_ITEM(entry, 2) : Py_None;
    }
    int at = instruction_of(frame);
    if (last.bytes != Py_None && at >= 0 && at < PyByteArray_GET_SIZE(last.bytes))
        PyByteArray_AS_STRING(last.bytes)[at] = 1;
    Py_DECREF(code);
    Py_DECREF(globals);
}

static int on_trace(PyObject *context, PyFrameObject *frame, int what, PyObject *arg) {
    (void)context;
    (void)arg;
    if (!watching || import_frame || !tp_capturing()) return 0;
    if (what == PyTrace_OPCODE) on_instruction(frame);
    if (what != PyTrace_CALL) return 0;
    PyObject *globals = globals_of(frame);
    bool own = tpy_is_own(globals);
    Py_DECREF(globals);
    if (!own && (PyObject_SetAttrString((PyObject *)frame, "f_trace_opcodes", Py_True) < 0 ||
                 PyObject_SetAttrString((PyObject *)frame, "f_trace_lines", Py_False) < 0)) {
        PyErr_Clear();
        tp_capture_break("what runs cannot be traced");
    }
    return 0;
}
#endif

/* ---- Functions of C ---- */
static void on_c_function(PyObject *function, PyObject *globals) {
    if (!PyCFunction_Check(function) && Py_TYPE(function) != &PyMethodDescr_Type) return;
    asked_classes |= PyCFunction_Check(function) && !strncmp(tpy_function_name(function), "_abc_", 5);
    looked_up |= tpy_is_lookup(function) && !tpy_is_own(globals);
    if (tpy_function_is_proven(function, globals)) return;
    char why[160];
    snprintf(why, sizeof why, "%s() is called", tpy_function_name(function));
    tp_capture_break(why);
}

static int on_event(PyObject *context, PyFrameObject *frame, int what, PyObject *arg) {
    (void)context;
    if (import_frame) {
        if (what == PyTrace_RETURN && frame == import_frame) import_frame = NULL;
        return 0;
    }
    if (!watching || !tp_capturing()) return 0;
    if (what == PyTrace_CALL && is_own_import(frame)) {
        import_frame = frame;
        return 0;
    }
    if (what == PyTrace_CALL) on_function(frame);
    if (what != PyTrace_C_CALL || !arg) return 0;
    PyObject *globals = globals_of(frame);
    on_c_function(arg, globals);
    Py_DECREF(globals);
    return 0;
}

void tpy_watch_read(const char *what) {
    if (!watching || !tp_capturing()) return;
    PyObject *globals = PyEval_GetGlobals();
    if (globals && tpy_is_own(globals)) return;
    char why[160];
    snprintf(why, sizeof why, "%s is read", what);
    tp_capture_break(why);
}

/* ---- Watching ---- */
bool tpy_watch_busy(void) { return ran != NULL; }

bool tpy_watch_start(bool strictly) {
    PyThreadState *thread = PyThreadState_Get();
    if (!(ran = PyDict_New())) return false;
    strict = strictly;
    looked_up = asked_classes = false;
    last.code = NULL;
    import_frame = NULL;
    profile_before = (hearer){thread->c_profilefunc, Py_XNewRef(thread->c_profileobj)};
    trace_before = (hearer){thread->c_tracefunc, Py_XNewRef(thread->c_traceobj)};
    collected = PyGC_Disable();
    watching = true;
    PyEval_SetProfile(on_event, NULL);
#if PY_VERSION_HEX < 0x030C0000
    if (strict) PyEval_SetTrace(on_trace, NULL);
#endif
    return true;
}

void tpy_watch_stop(void) {
    if (!watching) return;
    watching = false;
    if (collected) PyGC_Enable();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyEval_SetProfile(profile_before.function, profile_before.context);
#if PY_VERSION_HEX < 0x030C0000
    if (strict) PyEval_SetTrace(trace_before.function, trace_before.context);
#endif
    Py_CLEAR(profile_before.context);
    Py_CLEAR(trace_before.context);
    PyErr_Restore(type, value, trace);
}

PyObject *tpy_classes_now(void) {
    static PyObject *token;
    if (!token) {
        PyObject *module = PyImport_ImportModule("abc");
        token = module ? PyObject_GetAttrString(module, "get_cache_token") : NULL;
        Py_XDECREF(module);
    }
    return token ? PyObject_CallNoArgs(token) : NULL;
}

bool tpy_watch_asked_classes(void) { return asked_classes; }

/* All code that ran, one function for each. */
static bool for_all(tpy_guards *guards, bool (*act)(tpy_guards *, PyObject *code, PyObject *globals, PyObject *bytes)) {
    PyObject *key, *entry;
    Py_ssize_t at = 0;
    while (PyDict_Next(ran, &at, &key, &entry))
        if (!act(guards, PyTuple_GET_ITEM(entry, 0), PyTuple_GET_ITEM(entry, 1), PyTuple_GET_ITEM(entry, 2)))
            return false;
    return true;
}

static bool add_names(tpy_guards *g, PyObject *code, PyObject *globals, PyObject *bytes) {
    if (!tpy_is_own(globals)) return tpy_code_names(g, code, globals, bytes);
    PyObject *names = ((PyCodeObject *)code)->co_names;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
        if (PySet_Add(g->own_names, PyTuple_GET_ITEM(names, i)) < 0) return false;
    return true;
}

bool tpy_watch_names(tpy_guards *guards) {
    guards->ran_known = true;
    guards->names_anything |= looked_up;
    return (guards->names || (guards->names = PySet_New(NULL))) && for_all(guards, add_names);
}

bool tpy_watch_code(tpy_guards *guards) { return for_all(guards, tpy_code_reads); }

static bool add_inner(PyObject *set, PyObject *code) { /* functions that this one makes */
    PyObject *consts = ((PyCodeObject *)code)->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(consts); i++) {
        PyObject *inner = PyTuple_GET_ITEM(consts, i);
        if (PyCode_Check(inner) && (PySet_Add(set, inner) < 0 || !add_inner(set, inner))) return false;
    }
    return true;
}

static bool add_inner_of(tpy_guards *g, PyObject *code, PyObject *globals, PyObject *bytes) {
    (void)globals;
    (void)bytes;
    return add_inner(g->codes, code);
}

static bool was_met(tpy_guards *g, PyObject *code, PyObject *globals, PyObject *bytes) {
    (void)bytes;
    if (tpy_is_trusted(globals)) return true;
    int met = PySet_Contains(g->codes, code);
    return met < 0
               ? false
               : met || tpy_guards_refuse(g, "the function %s runs, which is reached in a way that cannot be followed",
                                          PyUnicode_AsUTF8(((PyCodeObject *)code)->co_name));
}

bool tpy_watch_met(tpy_guards *guards) { return for_all(guards, add_inner_of) && for_all(guards, was_met); }

void tpy_watch_drop(void) { Py_CLEAR(ran); }

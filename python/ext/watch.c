/* Which Python functions run while a call is captured, and what of C they call. A graph repeats operators alone: a call of anything else that
 * may do more than compute (print, time, random, files) ends the capture. Functions known to be harmless are listed in taper/_dynamo/_pure.py;
 * of this package's own, those that are not. */
#include "graph.h"
#include <frameobject.h>

static PyObject *pure, *impure; /* sets: functions that may be called; names of this package's that may not */
static int store_global = -1;   /* opcodes, which differ between Pythons */
static PyObject *ran;           /* {code: globals} of the call that is watched, or was */
static bool watching;
static Py_tracefunc before;
static PyObject *before_context;

static PyObject *code_of(PyFrameObject *frame) { return (PyObject *)PyFrame_GetCode(frame); }
static PyObject *globals_of(PyFrameObject *frame) {
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetGlobals(frame);
#else
    return Py_NewRef(frame->f_globals);
#endif
}

static bool is_own(PyObject *globals) { return tpy_is_own_name(PyDict_GetItemString(globals, "__name__")); }

PyObject *tpy_where(void) {
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    while (frame) {
        PyObject *globals = globals_of(frame);
        bool own = is_own(globals);
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

/* Does the code set a global? */
static bool sets_global(PyObject *code) {
    PyObject *bytes = PyObject_GetAttrString(code, "co_code");
    if (!bytes) return PyErr_Clear(), false;
    bool found = false;
    const unsigned char *text = (const unsigned char *)PyBytes_AS_STRING(bytes);
    for (Py_ssize_t i = 0; i < PyBytes_GET_SIZE(bytes) && !found; i += 2) found = text[i] == store_global;
    Py_DECREF(bytes);
    return found;
}

static void on_function(PyFrameObject *frame) {
    PyObject *code = code_of(frame), *globals = globals_of(frame);
    int known = PyDict_Contains(ran, code);
    if (known == 0 && PyDict_SetItem(ran, code, globals) == 0 && !is_own(globals) && sets_global(code)) tp_capture_break("a global name is assigned");
    PyErr_Clear();
    Py_DECREF(code);
    Py_DECREF(globals);
}

static void refuse(const char *name) {
    char why[160];
    snprintf(why, sizeof why, "%s() is called", name);
    tp_capture_break(why);
}

/* A function or a bound method of C: what its type has under its name, for the list of harmless ones. */
static bool is_pure(PyObject *function, const char *name) {
    bool fine = PySet_Contains(pure, function) > 0;
    PyObject *self = PyCFunction_Check(function) ? PyCFunction_GET_SELF(function) : NULL;
    if (!fine && self && !PyModule_Check(self)) {
        PyObject *method = PyObject_GetAttrString((PyObject *)Py_TYPE(self), name);
        fine = method && PySet_Contains(pure, method) > 0;
        Py_XDECREF(method);
    }
    PyErr_Clear();
    return fine;
}

static bool belongs_to_us(PyObject *function) {
    if (!PyCFunction_Check(function)) {
        PyTypeObject *type = ((PyDescrObject *)function)->d_type;
        return type == tpy_tensor_type || PyType_IsSubtype(type, tpy_tensor_type);
    }
    PyObject *self = PyCFunction_GET_SELF(function);
    return tpy_is_own_name(((PyCFunctionObject *)function)->m_module) || (self && tpy_is_tensor(self));
}

/* Modules whose functions call what they need without doing more than they say. */
static bool is_trusted(PyObject *globals) {
    static const char *const names[] = {"contextlib", "functools", "collections", "typing", "abc", "enum", "dataclasses", "copy", "warnings", "operator", "types", "importlib", "importlib._bootstrap", "importlib._bootstrap_external", "_frozen_importlib",
        "_frozen_importlib_external", NULL};
    PyObject *name = PyDict_GetItemString(globals, "__name__");
    if (tpy_is_own_name(name)) return true;
    for (int i = 0; name && names[i]; i++)
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, names[i]) == 0) return true;
    return false;
}

static void on_c_function(PyObject *function, PyObject *globals) {
    if (!PyCFunction_Check(function) && Py_TYPE(function) != &PyMethodDescr_Type) return;
    const char *name = PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_ml->ml_name : ((PyMethodDescrObject *)function)->d_method->ml_name;
    bool fine;
    if (belongs_to_us(function)) {
        PyObject *text = PyUnicode_FromString(name);
        fine = text && PySet_Contains(impure, text) == 0;
        Py_XDECREF(text);
        PyErr_Clear();
    } else fine = is_trusted(globals) || is_pure(function, name);
    if (!fine) refuse(name);
}

static int on_event(PyObject *context, PyFrameObject *frame, int what, PyObject *arg) {
    (void)context;
    if (!watching || !tp_capturing()) return 0;
    if (what == PyTrace_CALL) on_function(frame);
    if (what != PyTrace_C_CALL || !arg) return 0;
    PyObject *globals = globals_of(frame);
    on_c_function(arg, globals);
    Py_DECREF(globals);
    return 0;
}

bool tpy_watch_busy(void) { return ran != NULL; }

bool tpy_watch_start(void) {
    PyThreadState *thread = PyThreadState_Get();
    if (!(ran = PyDict_New())) return false;
    before = thread->c_profilefunc;
    before_context = Py_XNewRef(thread->c_profileobj);
    PyEval_SetProfile(on_event, NULL);
    return watching = true;
}

void tpy_watch_stop(void) {
    if (!watching) return;
    watching = false;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyEval_SetProfile(before, before_context);
    Py_CLEAR(before_context);
    PyErr_Restore(type, value, trace);
}

bool tpy_watch_names(tpy_guards *guards) {
    PyObject *code, *globals;
    Py_ssize_t at = 0;
    bool ok = true;
    tpy_guards_know_what_ran(guards);
    while (ok && PyDict_Next(ran, &at, &code, &globals)) ok = is_own(globals) || tpy_guards_names(guards, code);
    return ok;
}

bool tpy_watch_code(tpy_guards *guards) {
    PyObject *code, *globals;
    Py_ssize_t at = 0;
    bool ok = true;
    while (ok && PyDict_Next(ran, &at, &code, &globals)) ok = tpy_guards_code(guards, code, globals);
    return ok;
}

void tpy_watch_drop(void) { Py_CLEAR(ran); }

/* (functions that may be called, names of ours that may not, STORE_GLOBAL) */
static PyObject *set_up(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "O!O!i:_graph_functions", &PyFrozenSet_Type, &a, &PyFrozenSet_Type, &b, &store_global)) return NULL;
    Py_XSETREF(pure, Py_NewRef(a));
    Py_XSETREF(impure, Py_NewRef(b));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_graph_functions", set_up, METH_VARARGS, NULL}, {0}};
int tpy_watch_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }

/* What a function's code reads, from its instructions: the globals, the attributes of modules among them, what it
 * imports, and all names of attributes. Only instructions that ran count, where that is known (code_that_ran.c). */
#include "guards.h"

typedef struct instruction {
    int kind, arg; /* arg: shifted to be a name's index */
    bool ran;
} instruction;

typedef struct reader {
    PyObject *bytes, *names, *ran;
    Py_ssize_t at;
} reader;

static bool open_code(reader *r, PyObject *code, PyObject *ran) {
    *r = (reader){
        .bytes = PyObject_GetAttrString(code, "co_code"), .names = ((PyCodeObject *)code)->co_names, .ran = ran};
    return r->bytes != NULL;
}

static bool ran_at(const reader *r, Py_ssize_t at) {
    return r->ran == Py_None || (at < PyByteArray_GET_SIZE(r->ran) && PyByteArray_AS_STRING(r->ran)[at]);
}

static bool next_instruction(reader *r, instruction *i) {
    const unsigned char *text = (const unsigned char *)PyBytes_AS_STRING(r->bytes);
    Py_ssize_t n = PyBytes_GET_SIZE(r->bytes);
    int extended = 0, shift;
    i->ran = false;
    while (r->at + 1 < n) {
        i->kind = tpy_opcode(text[r->at], &shift);
        i->arg = (extended << 8 | text[r->at + 1]);
        i->ran |= ran_at(r, r->at); /* with a longer argument, the prefix is what is traced */
        r->at += 2;
        if (i->kind == TPY_OP_NOTHING) continue;
        if (i->kind != TPY_OP_EXTENDED) {
            i->arg >>= shift;
            return true;
        }
        extended = i->arg;
    }
    return false;
}

static PyObject *name_of(const reader *r, const instruction *i) { /* borrowed; NULL: none */
    bool named = i->kind == TPY_OP_GLOBAL || i->kind == TPY_OP_ATTRIBUTE || i->kind == TPY_OP_IMPORT ||
                 i->kind == TPY_OP_NAME || i->kind == TPY_OP_STORE_GLOBAL || i->kind == TPY_OP_STORE;
    return named && i->arg < PyTuple_GET_SIZE(r->names) ? PyTuple_GET_ITEM(r->names, i->arg) : NULL;
}

static bool add_name(tpy_guards *g, PyObject *name) {
    g->names_groups |= PyUnicode_CompareWithASCIIString(name, "param_groups") == 0;
    g->names_state |= PyUnicode_CompareWithASCIIString(name, "state") == 0;
    g->names_anything |= tpy_word_is_lookup(name);
    return PySet_Add(g->names, name) == 0;
}

bool tpy_code_names(tpy_guards *g, PyObject *code, PyObject *globals, PyObject *ran) {
    reader r;
    if ((!g->names && !(g->names = PySet_New(NULL))) || !open_code(&r, code, ran)) return false;
    bool ok = true;
    instruction i;
    while (ok && next_instruction(&r, &i)) {
        PyObject *name = i.ran ? name_of(&r, &i) : NULL;
        g->names_anything |=
            i.ran && i.kind == TPY_OP_MATCH_CLASS; /* its patterns hold names of attributes as constants */
        if (name && i.kind == TPY_OP_ATTRIBUTE && tpy_word_is_refused(name) && !tpy_is_trusted(globals))
            ok = tpy_guards_refuse(g, "%s is read", PyUnicode_AsUTF8(name));
        ok = ok && (!name || (add_name(g, name) && (i.kind != TPY_OP_STORE || PySet_Add(g->stored, name) == 0)));
    }
    Py_DECREF(r.bytes);
    return ok;
}

/* ---- Imports ---- */
/* The module of that name, and those it is in: what the program reads of them counts. */
static bool read_import(tpy_guards *g, PyObject *name, bool *found) {
    PyObject *modules = PyImport_GetModuleDict(), *text = Py_NewRef(name);
    *found = false;
    for (bool ok = true; ok && text;) {
        PyObject *module = PyDict_GetItemWithError(modules, text);
        *found |= module != NULL;
        ok = !module || (tpy_watch_name(g, modules, text) && tpy_follow(g, module));
        Py_ssize_t dot = ok ? PyUnicode_FindChar(text, '.', 0, PyUnicode_GET_LENGTH(text), -1) : -1;
        Py_SETREF(text, dot > 0 ? PyUnicode_Substring(text, 0, dot) : NULL);
        if (!ok) return false;
    }
    return !PyErr_Occurred();
}

static bool read_imports(tpy_guards *g, PyObject *name, PyObject *globals) {
    PyObject *package = PyDict_GetItemString(globals, "__package__"), *relative;
    bool found = false, within;
    if (PyUnicode_GET_LENGTH(name) && !read_import(g, name, &found)) return false;
    if (package && PyUnicode_Check(package) &&
        PyUnicode_GET_LENGTH(
            package)) { /* `from . import x` and `from .x import y` have no sign of it but a number before */
        relative = PyUnicode_GET_LENGTH(name) ? PyUnicode_FromFormat("%U.%U", package, name) : Py_NewRef(package);
        bool ok = relative && read_import(g, relative, &within);
        Py_XDECREF(relative);
        if (!ok) return false;
        found |= within;
    }
    return found || tpy_guards_refuse(g, "%s is imported", PyUnicode_AsUTF8(name));
}

/* ---- Globals, and what is read of modules at once: F.relu, np.random.rand ---- */
static bool read_global(tpy_guards *g, PyObject *globals, PyObject *name, PyObject **value) {
    bool own = tpy_is_own(globals);
    *value = PyDict_GetItemWithError(globals, name);
    if (!tpy_watch_name(g, globals, name)) return false;
    if (*value || own) return true;
    PyObject *builtins = PyEval_GetBuiltins();
    *value = PyDict_GetItemWithError(builtins, name);
    return !*value || tpy_watch_name(g, builtins, name);
}

/* Hooks that hold for all optimisers and the like: the package keeps them in ordered dicts. */
static bool follow_hooks(tpy_guards *g, PyObject *hooks) {
    g->ours = true;
    bool ok = tpy_follow(g, hooks);
    g->ours = false;
    return ok;
}

/* What this package's own code reads is not followed, but for functions that a program has put there. */
static bool follow_read(tpy_guards *g, PyObject *value, PyObject *globals) {
    if (PyCFunction_Check(value) && tpy_is_trusted(globals)) return true;
    if (PyFrozenSet_CheckExact(value) && tpy_is_trusted(globals))
        return PyList_Append(g->later, value) == 0; /* a table that is asked with a type, as in dataclasses */
    if (!tpy_is_own(globals)) return tpy_follow(g, value);
    if (PyODict_CheckExact(value)) return follow_hooks(g, value);
    return !PyFunction_Check(value) || tpy_is_own(((PyFunctionObject *)value)->func_globals) || tpy_follow(g, value);
}

bool tpy_code_reads(tpy_guards *g, PyObject *code, PyObject *globals, PyObject *ran) {
    reader r;
    instruction i;
    PyObject *module = NULL; /* the instruction before put it there, and nothing was read of it yet */
    bool ok = open_code(&r, code, ran), own = tpy_is_own(globals), more = ok && next_instruction(&r, &i);
    for (; ok && more; more = next_instruction(&r, &i)) {
        PyObject *name = i.ran ? name_of(&r, &i) : NULL, *value = NULL, *held = module;
        module = NULL;
        if (held && name && i.kind == TPY_OP_ATTRIBUTE)
            ok = tpy_follow_module_name(g, held, name, &value);
        else if (held && !own)
            ok = tpy_follow(g, held);
        if (ok && name && i.kind == TPY_OP_GLOBAL) ok = read_global(g, globals, name, &value);
        if (ok && name && i.kind == TPY_OP_IMPORT && !own) ok = read_imports(g, name, globals);
        if (value && PyModule_Check(value))
            module = value;
        else
            ok = ok && (!value || follow_read(g, value, globals));
    }
    if (ok && module && !own) ok = tpy_follow(g, module);
    Py_XDECREF(r.bytes);
    return ok && !PyErr_Occurred();
}

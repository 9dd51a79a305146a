/* What is known of objects and functions that are not Python code: a graph may stand for a call only if all that the
 * call read is watched, and what a function or an object of C reads cannot be seen. So those are listed that are known
 * to read their arguments alone, by identity (taper/_dynamo/_proven.py), and everything else ends a capture. */
#include "guards.h"

static PyObject *functions, *own_functions,
    *lookups; /* functions of C that compute; names of this package's that do; those that read attributes by a text */
static PyObject *types, *layouts, *opaque, *own_types;
static PyObject *lookup_words, *refused_words;
static PyObject *package; /* what the package's own module holds; where programs say `torch`, it has that name */
static PyTypeObject *python_class; /* any class made by a class statement */
static struct { uint8_t kind, shift; } opcodes[256];

static bool has(PyObject *set, PyObject *o) {
    int found = set && o ? PySet_Contains(set, o) : 0;
    if (found < 0) PyErr_Clear(); /* it cannot be hashed */
    return found > 0;
}

/* Do Taper's classes say that they are PyTorch's, as under `taper run`? The package does, too, then. */
static bool presents_torch(void) {
    PyObject *name = package ? PyDict_GetItemString(package, "__name__") : NULL;
    return name && PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, "torch");
}

bool tpy_is_own_name(PyObject *name) {
    if (!name || !PyUnicode_Check(name)) return false;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) {
        PyErr_Clear();
        return false;
    }
    if (strncmp(text, "taper", 5) && strncmp(text, "torch", 5)) return false;
    return (!text[5] || text[5] == '.') && (text[1] == 'a' || presents_torch());
}

bool tpy_is_own(PyObject *globals) {
    return globals == package || tpy_is_own_name(PyDict_GetItemString(globals, "__name__"));
}

/* ---- Types ---- */
/* Classes that C makes at run time look like those of class statements but for how their objects end, and their
 * methods. */
bool tpy_is_python_class(PyTypeObject *type) {
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && python_class && type->tp_dealloc == python_class->tp_dealloc &&
           !type->tp_methods && type->tp_dict;
}

bool tpy_is_own_type(PyTypeObject *type) {
    if (has(own_types, (PyObject *)type)) return true;
    return tpy_is_python_class(type) && tpy_is_own_name(PyDict_GetItemString(type->tp_dict, "__module__"));
}

bool tpy_type_is_proven(PyTypeObject *type) {
    return has(types, (PyObject *)type) || has(own_types, (PyObject *)type) ||
           PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException);
}

bool tpy_layout_is_proven(PyTypeObject *type) { return has(layouts, (PyObject *)type); }
bool tpy_is_opaque(PyObject *o) { return has(opaque, (PyObject *)Py_TYPE(o)); }

/* ---- Functions ---- */
/* A bound method of C: what its type has under its name, for the list of harmless ones. */
static bool is_listed(PyObject *set, PyObject *function) {
    if (has(set, function)) return true;
    PyObject *self = PyCFunction_Check(function) ? PyCFunction_GET_SELF(function) : NULL;
    if (!self || PyModule_Check(self)) return false;
    PyObject *method =
        PyObject_GetAttrString((PyObject *)Py_TYPE(self), ((PyCFunctionObject *)function)->m_ml->ml_name);
    if (!method) PyErr_Clear();
    bool listed = has(set, method);
    Py_XDECREF(method);
    return listed;
}

static bool belongs_to_us(PyObject *function) {
    if (!PyCFunction_Check(function)) return has(own_types, (PyObject *)((PyDescrObject *)function)->d_type);
    PyObject *self = PyCFunction_GET_SELF(function);
    PyTypeObject *type = !self ? NULL : PyType_Check(self) ? (PyTypeObject *)self : Py_TYPE(self);
    for (; type; type = type->tp_base) /* a class of the program's may derive from one of ours */
        if (has(own_types, (PyObject *)type)) return !is_listed(functions, function);
    return tpy_is_own_name(((PyCFunctionObject *)function)->m_module);
}

/* Modules whose functions call what they need without doing more than they say. */
bool tpy_is_trusted(PyObject *globals) {
    static const char *const names[] = {"contextlib",
                                        "functools",
                                        "collections",
                                        "typing",
                                        "abc",
                                        "enum",
                                        "dataclasses",
                                        "copy",
                                        "copyreg",
                                        "warnings",
                                        "operator",
                                        "types",
                                        "importlib",
                                        "importlib._bootstrap",
                                        "importlib._bootstrap_external",
                                        "_frozen_importlib",
                                        "_frozen_importlib_external",
                                        NULL};
    PyObject *name = PyDict_GetItemString(globals, "__name__");
    if (tpy_is_own(globals)) return true;
    for (int i = 0; name && names[i]; i++)
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, names[i]) == 0) return true;
    return false;
}

const char *tpy_function_name(PyObject *function) {
    return PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_ml->ml_name
                                       : ((PyMethodDescrObject *)function)->d_method->ml_name;
}

bool tpy_function_is_proven(PyObject *function, PyObject *globals) {
    if (!belongs_to_us(function)) return (globals && tpy_is_trusted(globals)) || is_listed(functions, function);
    PyObject *self = PyCFunction_Check(function) ? PyCFunction_GET_SELF(function) : NULL,
             *name = PyUnicode_FromString(tpy_function_name(function));
    const PyTypeObject *type = self                          ? Py_TYPE(self)
                               : PyCFunction_Check(function) ? NULL
                                                             : ((PyDescrObject *)function)->d_type;
    bool fine = has(own_functions, name);
    for (; name && type && !fine; type = type->tp_base) {
        const char *dot = strrchr(type->tp_name, '.');
        PyObject *whole = PyUnicode_FromFormat("%s.%U", dot ? dot + 1 : type->tp_name, name);
        fine = has(own_functions, whole);
        Py_XDECREF(whole);
    }
    Py_XDECREF(name);
    PyErr_Clear();
    return fine;
}

bool tpy_is_lookup(PyObject *function) { return is_listed(lookups, function); }
bool tpy_word_is_lookup(PyObject *name) { return has(lookup_words, name); }
bool tpy_word_is_refused(PyObject *name) { return has(refused_words, name); }

int tpy_opcode(int op, int *shift) {
    *shift = opcodes[op & 255].shift;
    return opcodes[op & 255].kind;
}

/* ---- The lists ---- */
static bool read_opcodes(PyObject *dict) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        long op = PyLong_AsLong(key);
        int kind, shift;
        if (op < 0 || op > 255 || !PyArg_ParseTuple(value, "ii", &kind, &shift)) return false;
        opcodes[op].kind = (uint8_t)kind;
        opcodes[op].shift = (uint8_t)shift;
    }
    return true;
}

static PyObject *set_up(PyObject *module, PyObject *lists) {
    (void)module;
    static const struct {
        const char *name;
        PyObject **at;
    } sets[] = {{"functions", &functions},
                {"own_functions", &own_functions},
                {"lookups", &lookups},
                {"types", &types},
                {"layouts", &layouts},
                {"opaque", &opaque},
                {"own_types", &own_types},
                {"lookup_words", &lookup_words},
                {"refused_words", &refused_words}};
    if (!PyDict_Check(lists)) return PyErr_Format(PyExc_TypeError, "_graph_proven takes a dict of sets");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        PyObject *set = PyDict_GetItemString(lists, sets[i].name);
        if (!set || !PyFrozenSet_Check(set))
            return PyErr_Format(PyExc_TypeError, "_graph_proven needs a frozenset '%s'", sets[i].name);
        Py_XSETREF(*sets[i].at, Py_NewRef(set));
    }
    PyObject *codes = PyDict_GetItemString(lists, "opcodes"), *example = PyDict_GetItemString(lists, "python_class"),
             *own = PyDict_GetItemString(lists, "package");
    if (!codes || !PyDict_Check(codes) || !example || !PyType_Check(example) || !own || !PyDict_Check(own))
        return PyErr_Format(PyExc_TypeError, "_graph_proven needs 'opcodes', 'package' and 'python_class'");
    if (!read_opcodes(codes))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "_graph_proven: an opcode is a byte");
    Py_XSETREF(package, Py_NewRef(own));
    Py_XSETREF(python_class, (PyTypeObject *)Py_NewRef(example));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"_graph_proven", set_up, METH_O, NULL}, {0}};
int tpy_proven_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }

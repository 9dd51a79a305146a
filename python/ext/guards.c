/* Guards: what a captured call saw of the program's Python objects, and whether it is all still so. A set of guards is a list of containers
 * (dicts, lists, cells, names in a module), each with the objects it held. Objects are compared by identity, numbers and texts by value; what
 * is in a container that was held is guarded by a container of its own. Checking makes no objects: a few nanoseconds for each entry.
 *
 * What is walked: everything that the function, its closure, its defaults, the globals that its code names and the arguments lead to.
 * Functions of the package itself and of modules are left out, and so is what Python cannot change. */
#include "graph.h"
#include <math.h>

enum { MOST_WATCHES = 100000 };
typedef enum watch_kind { WATCH_DICT, WATCH_LIST, WATCH_SET, WATCH_CELL, WATCH_NAME, WATCH_FUNCTION, WATCH_SLOTS, WATCH_TENSOR } watch_kind;

typedef struct watch {
    uint8_t kind;
    PyObject *object;  /* owned */
    Py_ssize_t n;
    PyObject **items;  /* owned: keys and values; items; what a cell holds; slots and values */
    const void *data;  /* of a tensor: where its elements are, and what it is */
    int64_t numel;
    int8_t dtype, ndim;
    bool tracked, hooked;
} watch;

struct tpy_guards {
    watch *watches;
    Py_ssize_t n, room;
    PyObject *seen;    /* while it is made: addresses of what was walked */
    bool full;
    const char *hidden; /* type of an object that changes unseen */
    PyObject *optimisers; /* while it is made: a list of what was met of them; NULL: none */
    bool names_groups, names_state; /* some code may read or write their options, their state */
    PyObject *names;      /* while it is made: the names in all code that runs; NULL: that is not known yet */
    bool names_anything;  /* some of it looks attributes up by a text */
    bool ran_known;       /* what ran is added by itself (tpy_watch_code): other functions that are met may name what they like */
};

/* ---- Making ---- */
static watch *new_watch(tpy_guards *g, watch_kind kind, PyObject *object, Py_ssize_t n) {
    if (g->n == MOST_WATCHES) return g->full = true, PyErr_NoMemory(), NULL;
    if (g->n == g->room) {
        Py_ssize_t room = g->room ? 2 * g->room : 64;
        watch *moved = PyMem_Realloc(g->watches, (size_t)room * sizeof *moved);
        if (!moved) return PyErr_NoMemory(), NULL;
        g->watches = moved, g->room = room;
    }
    PyObject **items = PyMem_Calloc((size_t)(n ? n : 1), sizeof *items);
    if (!items) return PyErr_NoMemory(), NULL;
    watch *w = &g->watches[g->n++];
    *w = (watch){.kind = (uint8_t)kind, .object = Py_NewRef(object), .n = n, .items = items};
    return w;
}

static bool is_plain(PyObject *o) {
    PyTypeObject *t = Py_TYPE(o);
    return o == Py_None || t == &PyLong_Type || t == &PyFloat_Type || t == &PyUnicode_Type || t == &PyBool_Type || t == &PyBytes_Type || t == &PyComplex_Type || t == &PyCode_Type ||
           PyCFunction_Check(o) || t == &PyMethodDescr_Type || t == &PyEllipsis_Type || t == &PySlice_Type || PyModule_Check(o) || t == tpy_dtype_type || t == tpy_device_type ||
           t == tpy_memory_format_type || t == tpy_layout_type || t == &PyProperty_Type || t == &PyGetSetDescr_Type || t == &PyMemberDescr_Type || t == &PyWrapperDescr_Type;
}

bool tpy_is_own_name(PyObject *name) {
    if (!name || !PyUnicode_Check(name)) return false;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return PyErr_Clear(), false;
    return !strncmp(text, "taper", 5) && (!text[5] || text[5] == '.');
}

static bool walk(tpy_guards *g, PyObject *o);

static bool walk_dict(tpy_guards *g, PyObject *dict) {
    watch *w = new_watch(g, WATCH_DICT, dict, 2 * PyDict_GET_SIZE(dict));
    if (!w) return false;
    PyObject *key, *value;
    Py_ssize_t at = 0, i = 0, mine = w - g->watches;
    while (PyDict_Next(dict, &at, &key, &value) && i < w->n) w->items[i++] = Py_NewRef(key), w->items[i++] = Py_NewRef(value);
    for (i = 0; i < g->watches[mine].n; i += 2)
        if (!walk(g, g->watches[mine].items[i + 1])) return false;
    return true;
}

static bool walk_items(tpy_guards *g, PyObject *o, bool watched) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o), mine = g->n;
    if (watched) {
        watch *w = new_watch(g, WATCH_LIST, o, n);
        if (!w) return false;
        for (Py_ssize_t i = 0; i < n; i++) w->items[i] = Py_NewRef(PySequence_Fast_GET_ITEM(o, i));
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (!walk(g, watched ? g->watches[mine].items[i] : PySequence_Fast_GET_ITEM(o, i))) return false;
    return true;
}

static bool watch_one(tpy_guards *g, watch_kind kind, PyObject *object, PyObject *item) {
    watch *w = new_watch(g, kind, object, 1);
    if (w) w->items[0] = Py_XNewRef(item);
    return w != NULL;
}

static bool watch_name(tpy_guards *g, PyObject *dict, PyObject *name, PyObject *value) {
    watch *w = new_watch(g, WATCH_NAME, dict, 2);
    if (w) w->items[0] = Py_NewRef(name), w->items[1] = Py_XNewRef(value); /* NULL: it is not there */
    return w != NULL;
}

/* A name by which code reaches attributes that it does not name. */
static bool is_lookup(PyObject *name) {
    static const char *const words[] = {"getattr", "hasattr", "setattr", "delattr", "vars", "__dict__", "__getattribute__", "attrgetter", "copy", "deepcopy", "fields", NULL};
    for (int i = 0; words[i]; i++)
        if (PyUnicode_CompareWithASCIIString(name, words[i]) == 0) return true;
    return false;
}

static void note_name(tpy_guards *g, PyObject *name) {
    g->names_groups |= PyUnicode_CompareWithASCIIString(name, "param_groups") == 0;
    g->names_state |= PyUnicode_CompareWithASCIIString(name, "state") == 0;
    g->names_anything |= is_lookup(name);
}

void tpy_guards_know_what_ran(tpy_guards *g) { g->ran_known = true; }

bool tpy_guards_names(tpy_guards *g, PyObject *code) {
    PyObject *names = ((PyCodeObject *)code)->co_names;
    if (!g->names && !(g->names = PySet_New(NULL))) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        note_name(g, PyTuple_GET_ITEM(names, i));
        if (PySet_Add(g->names, PyTuple_GET_ITEM(names, i)) < 0) return false;
    }
    return true;
}

/* The globals that the code names; of modules among them the attributes that it names. */
bool tpy_guards_code(tpy_guards *g, PyObject *code, PyObject *globals) {
    PyObject *own = PyDict_GetItemString(globals, "__name__"), *names = ((PyCodeObject *)code)->co_names;
    if (tpy_is_own_name(own)) return true;
    int known = PySet_Contains(g->seen, code);
    if (known) return known > 0;
    if (PySet_Add(g->seen, code) < 0) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i), *value = PyDict_GetItemWithError(globals, name);
        if (!g->names) note_name(g, name);
        if (!value) continue;
        if (!watch_name(g, globals, name, value) || !walk(g, value)) return false;
        if (!PyModule_Check(value)) continue;
        PyObject *inside = PyModule_GetDict(value);
        bool ours = tpy_is_own_name(PyDict_GetItemString(inside, "__name__"));
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names) && !ours; k++) {
            PyObject *found = PyDict_GetItemWithError(inside, PyTuple_GET_ITEM(names, k));
            if (found && (!watch_name(g, inside, PyTuple_GET_ITEM(names, k), found) || !walk(g, found))) return false;
        }
    }
    for (Py_ssize_t i = 0; !g->ran_known && i < PyTuple_GET_SIZE(((PyCodeObject *)code)->co_consts); i++) { /* functions inside of it */
        PyObject *inner = PyTuple_GET_ITEM(((PyCodeObject *)code)->co_consts, i);
        if (PyCode_Check(inner) && !tpy_guards_code(g, inner, globals)) return false;
    }
    return !PyErr_Occurred();
}

static bool walk_function(tpy_guards *g, PyObject *o) {
    PyFunctionObject *f = (PyFunctionObject *)o;
    watch *w = new_watch(g, WATCH_FUNCTION, o, 3);
    if (!w) return false;
    w->items[0] = Py_NewRef(f->func_code), w->items[1] = Py_XNewRef(f->func_defaults), w->items[2] = Py_XNewRef(f->func_kwdefaults);
    if (f->func_defaults && !walk(g, f->func_defaults)) return false;
    if (f->func_kwdefaults && !walk(g, f->func_kwdefaults)) return false;
    for (Py_ssize_t i = 0; f->func_closure && i < PyTuple_GET_SIZE(f->func_closure); i++)
        if (!walk(g, PyTuple_GET_ITEM(f->func_closure, i))) return false;
    if (f->func_dict && PyDict_GET_SIZE(f->func_dict) && !walk(g, f->func_dict)) return false;
    return g->ran_known || tpy_guards_code(g, f->func_code, f->func_globals);
}

static bool watch_tensor(tpy_guards *g, PyObject *o) {
    watch *w = new_watch(g, WATCH_TENSOR, o, 0);
    if (!w) return false;
    const tp_tensor *t = tpy_unwrap(o);
    w->data = tp_data(t), w->numel = tp_numel(t), w->dtype = (int8_t)tp_dtype_of(t), w->ndim = (int8_t)tp_ndim(t), w->tracked = tp_requires_grad(t), w->hooked = tp_has_hooks(t);
    return true;
}

/* Classes of the program's: a method or attribute that is set later counts. */
static bool walk_type(tpy_guards *g, PyTypeObject *type) {
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return true;
    PyObject *dict = type->tp_dict, *module = dict ? PyDict_GetItemString(dict, "__module__") : NULL;
    if (!dict || tpy_is_own_name(module)) return true;
    if (!walk(g, dict)) return false;
    PyObject *bases = type->tp_bases;
    for (Py_ssize_t i = 0; bases && i < PyTuple_GET_SIZE(bases); i++)
        if (!walk(g, PyTuple_GET_ITEM(bases, i))) return false;
    return true;
}

static bool walk_slots(tpy_guards *g, PyObject *o) {
    PyObject *dict = Py_TYPE(o)->tp_dict, *key, *value;
    Py_ssize_t at = 0, n = 0;
    while (PyDict_Next(dict, &at, &key, &value)) n += Py_TYPE(value) == &PyMemberDescr_Type;
    watch *w = n ? new_watch(g, WATCH_SLOTS, o, 2 * n) : NULL;
    if (!w) return n == 0;
    Py_ssize_t mine = w - g->watches;
    n = at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (Py_TYPE(value) != &PyMemberDescr_Type) continue;
        w->items[n++] = Py_NewRef(key);
        if (!(w->items[n++] = PyObject_GetAttr(o, key))) PyErr_Clear();
    }
    for (Py_ssize_t i = 1; i < g->watches[mine].n; i += 2)
        if (g->watches[mine].items[i] && !walk(g, g->watches[mine].items[i])) return false;
    return true;
}

/* A plain object of the program's (no module, nothing that the package reads): of its attributes those count that the code names which ran. The rest, a count of
 * steps or a list of losses, may change. */
static bool is_plain_object(const tpy_guards *g, PyObject *o) {
    PyObject *module = PyDict_GetItemString(Py_TYPE(o)->tp_dict, "__module__");
    return g->names && !g->names_anything && module && !tpy_is_own_name(module) && !PyDict_Check(o) && !PyObject_HasAttrString((PyObject *)Py_TYPE(o), "_version");
}

static bool walk_named(tpy_guards *g, PyObject *dict) {
    PyObject *names = PySequence_List(g->names);
    bool ok = names;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(names); i++) { /* those that are not there, too */
        PyObject *name = PyList_GET_ITEM(names, i), *held = PyDict_GetItemWithError(dict, name);
        ok = !PyErr_Occurred() && watch_name(g, dict, name, held) && (!held || walk(g, held));
    }
    Py_XDECREF(names);
    return ok;
}

static PyTypeObject *simple_namespace(void) { return Py_TYPE(PySys_GetObject("implementation")); } /* types.SimpleNamespace: of C, but with attributes */

static bool walk_dict_of(tpy_guards *g, PyObject *o) {
    PyObject *dict = PyObject_GetAttrString(o, "__dict__");
    bool ok = dict && walk(g, dict);
    Py_XDECREF(dict);
    return ok;
}

/* Objects of C whose contents may change and cannot be watched: a graph that has read them would not know. */
static bool hides(PyObject *o) {
    static const char *const names[] = {"collections.deque", "array.array", "bytearray", "memoryview", "numpy.ndarray", "mappingproxy"};
    const char *name = Py_TYPE(o)->tp_name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return PyIter_Check(o) && !(Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

static bool walk_instance(tpy_guards *g, PyObject *o) {
    if (g->names && hides(o)) { /* once it is known what the code names; before, all that it leads to is walked */
        g->hidden = Py_TYPE(o)->tp_name;
        PyErr_SetString(PyExc_ValueError, "what is reached cannot be watched");
        return false;
    }
    if (Py_TYPE(o) == simple_namespace()) return walk_dict_of(g, o);
    if (!(Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return true; /* of C: nothing to see */
    PyObject *module = PyDict_GetItemString(Py_TYPE(o)->tp_dict, "__module__");
    bool of_c = module && PyUnicode_Check(module) && !PyUnicode_CompareWithASCIIString(module, "taper._C"); /* its members are its own affair */
    if (!walk(g, (PyObject *)Py_TYPE(o)) || (!of_c && !walk_slots(g, o))) return false;
    PyObject *dict = PyObject_GenericGetDict(o, NULL);
    if (!dict) return PyErr_Clear(), true;
    bool ok = is_plain_object(g, o) ? walk_named(g, dict) : walk(g, dict);
    Py_DECREF(dict);
    return ok;
}

/* ---- Optimisers of the package: their step is in a graph as a call that reads options and state at each run, so that these may change. What must stay is which
 * parameters they have and which hooks. Schedules are left alone, since their step ends a capture. Where the program's own code names the options, it may read them, and they are watched like the rest. ---- */
static PyObject *attribute(PyObject *o, const char *name) { /* borrowed, from its dict */
    PyObject *dict = PyObject_GenericGetDict(o, NULL), *found = dict ? PyDict_GetItemString(dict, name) : NULL;
    Py_XDECREF(dict);
    PyErr_Clear();
    return found;
}

static bool is_optimiser(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    PyObject *module = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_dict ? PyDict_GetItemString(type->tp_dict, "__module__") : NULL;
    return tpy_is_own_name(module) && !strncmp(PyUnicode_AsUTF8(module), "taper.optim", 11) && (attribute(o, "param_groups") || attribute(o, "last_epoch"));
}

static bool walk_optimiser(tpy_guards *g, PyObject *o) {
    static const char *const hooks[] = {"_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"};
    PyObject *groups = attribute(o, "param_groups"), *word = PyUnicode_InternFromString("params");
    bool ok = word && (g->optimisers || (g->optimisers = PyList_New(0))) && PyList_Append(g->optimisers, o) == 0;
    for (int i = 0; i < 2 && ok; i++) ok = !attribute(o, hooks[i]) || walk(g, attribute(o, hooks[i]));
    if (ok && groups && PyList_Check(groups)) {
        watch *w = new_watch(g, WATCH_LIST, groups, PyList_GET_SIZE(groups));
        ok = w;
        for (Py_ssize_t i = 0; ok && i < w->n; i++) w->items[i] = Py_NewRef(PyList_GET_ITEM(groups, i));
        for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(groups); i++) {
            PyObject *group = PyList_GET_ITEM(groups, i), *params = PyDict_Check(group) ? PyDict_GetItemWithError(group, word) : NULL;
            ok = !params || (watch_name(g, group, word, params) && walk(g, params));
        }
    }
    Py_XDECREF(word);
    static const char *const kept[] = {"step", "param_groups", "state", "defaults"}; /* a schedule puts its own step there, load_state_dict() new groups and state */
    PyObject *dict = ok ? PyObject_GenericGetDict(o, NULL) : NULL;
    for (int i = 0; i < 4 && (ok = ok && dict); i++) {
        PyObject *name = PyUnicode_InternFromString(kept[i]);
        ok = name && watch_name(g, dict, name, PyDict_GetItemWithError(dict, name));
        Py_XDECREF(name);
    }
    Py_XDECREF(dict);
    return ok;
}

/* What the program's own code may read of an optimiser or a schedule: attributes that it names, and what a schedule's methods that it names answer from. */
static bool walk_answers(tpy_guards *g, PyObject *o) {
    static const char *const answers[] = {"_last_lr", "last_epoch"};
    PyObject *dict = PyObject_GenericGetDict(o, NULL), *asks = PyUnicode_InternFromString("get_last_lr");
    bool ok = dict && asks && (!g->names || walk_named(g, dict));
    for (int i = 0; i < 2 && ok && g->names && PySet_Contains(g->names, asks) > 0; i++) {
        PyObject *name = PyUnicode_InternFromString(answers[i]), *held = name ? PyDict_GetItemWithError(dict, name) : NULL;
        ok = name && watch_name(g, dict, name, held) && (!held || walk(g, held));
        Py_XDECREF(name);
    }
    Py_XDECREF(asks);
    Py_XDECREF(dict);
    return ok;
}

/* Once all is walked. */
static bool walk_options(tpy_guards *g) {
    for (Py_ssize_t i = 0; g->optimisers && i < PyList_GET_SIZE(g->optimisers); i++) {
        PyObject *o = PyList_GET_ITEM(g->optimisers, i), *groups = attribute(o, "param_groups"), *state = attribute(o, "state");
        if ((g->names_groups && groups && !walk(g, groups)) || (g->names_state && state && !walk(g, state)) || !walk_answers(g, o)) return false;
    }
    return true;
}

static bool walk_kind(tpy_guards *g, PyObject *o) {
    if (tpy_is_tensor(o)) return watch_tensor(g, o);
    if (PyDict_Check(o)) return walk_dict(g, o) && (PyDict_CheckExact(o) || walk_instance(g, o));
    if (PyList_Check(o)) return walk_items(g, o, true);
    if (PyTuple_Check(o)) return walk_items(g, o, false);
    if (PyAnySet_Check(o)) {
        PyObject *copy = PySet_New(o);
        bool ok = copy && watch_one(g, WATCH_SET, o, copy);
        Py_XDECREF(copy);
        return ok;
    }
    if (PyCell_Check(o)) return watch_one(g, WATCH_CELL, o, PyCell_GET(o)) && (!PyCell_GET(o) || walk(g, PyCell_GET(o)));
    if (PyFunction_Check(o)) return walk_function(g, o);
    if (PyMethod_Check(o)) return walk(g, PyMethod_GET_SELF(o)) && walk(g, PyMethod_GET_FUNCTION(o));
    if (PyType_Check(o)) return walk_type(g, (PyTypeObject *)o);
    if (is_optimiser(o)) return walk_optimiser(g, o);
    return walk_instance(g, o);
}

static bool walk(tpy_guards *g, PyObject *o) {
    if (is_plain(o) || (!g->ran_known && o == PyImport_GetModuleDict())) return true; /* before the call, sys.modules would lead to everything there is */
    PyObject *address = PyLong_FromVoidPtr(o);
    int known = address ? PySet_Contains(g->seen, address) : -1;
    bool ok = known == 0 && PySet_Add(g->seen, address) == 0;
    Py_XDECREF(address);
    if (known > 0 || !ok) return known > 0;
    if (Py_EnterRecursiveCall(" while a call is captured")) return false;
    ok = walk_kind(g, o);
    Py_LeaveRecursiveCall();
    return ok;
}

tpy_guards *tpy_guards_new(void) {
    tpy_guards *g = PyMem_Calloc(1, sizeof *g);
    if (!g) return PyErr_NoMemory(), NULL;
    if ((g->seen = PySet_New(NULL))) return g;
    PyMem_Free(g);
    return NULL;
}

bool tpy_guards_add(tpy_guards *g, PyObject *o) { return walk(g, o) && walk_options(g); }
void tpy_guards_done(tpy_guards *g) {
    Py_CLEAR(g->seen);
    Py_CLEAR(g->optimisers);
    Py_CLEAR(g->names);
}

void tpy_guards_free(tpy_guards *g) {
    if (!g) return;
    for (Py_ssize_t i = 0; i < g->n; i++) {
        for (Py_ssize_t k = 0; k < g->watches[i].n; k++) Py_XDECREF(g->watches[i].items[k]);
        PyMem_Free(g->watches[i].items);
        Py_DECREF(g->watches[i].object);
    }
    Py_XDECREF(g->seen);
    Py_XDECREF(g->optimisers);
    Py_XDECREF(g->names);
    PyMem_Free(g->watches);
    PyMem_Free(g);
}

int tpy_guards_visit(const tpy_guards *g, visitproc visit, void *arg) {
    for (Py_ssize_t i = 0; g && i < g->n; i++) {
        Py_VISIT(g->watches[i].object);
        for (Py_ssize_t k = 0; k < g->watches[i].n; k++) Py_VISIT(g->watches[i].items[k]);
    }
    return 0;
}

/* ---- Checking ---- */
bool tpy_same(PyObject *a, PyObject *b) {
    if (a == b) return true;
    if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
    if (PyFloat_CheckExact(a)) return PyFloat_AS_DOUBLE(a) == PyFloat_AS_DOUBLE(b) && copysign(1, PyFloat_AS_DOUBLE(a)) == copysign(1, PyFloat_AS_DOUBLE(b));
    if (!PyLong_CheckExact(a) && !PyUnicode_CheckExact(a) && !PyBytes_CheckExact(a) && Py_TYPE(a) != tpy_device_type && Py_TYPE(a) != tpy_size_type) return false;
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0) PyErr_Clear();
    return same > 0;
}

static bool holds_dict(const watch *w) {
    if (2 * PyDict_GET_SIZE(w->object) != w->n) return false;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < w->n; i += 2)
        if (!PyDict_Next(w->object, &at, &key, &value) || key != w->items[i] || (value != w->items[i + 1] && !tpy_same(value, w->items[i + 1]))) return false;
    return true;
}

static bool holds_slots(const watch *w) {
    for (Py_ssize_t i = 0; i < w->n; i += 2) {
        PyObject *value = PyObject_GetAttr(w->object, w->items[i]);
        if (!value) PyErr_Clear();
        bool same = tpy_same(value, w->items[i + 1]);
        Py_XDECREF(value);
        if (!same) return false;
    }
    return true;
}

static bool holds(const watch *w) {
    switch ((watch_kind)w->kind) {
    case WATCH_DICT: return holds_dict(w);
    case WATCH_LIST:
        if (PyList_GET_SIZE(w->object) != w->n) return false;
        for (Py_ssize_t i = 0; i < w->n; i++)
            if (!tpy_same(PyList_GET_ITEM(w->object, i), w->items[i])) return false;
        return true;
    case WATCH_SET: return PySet_GET_SIZE(w->object) == PySet_GET_SIZE(w->items[0]) && (!PySet_GET_SIZE(w->object) || PyObject_RichCompareBool(w->object, w->items[0], Py_EQ) > 0);
    case WATCH_CELL: return tpy_same(PyCell_GET(w->object), w->items[0]);
    case WATCH_NAME: return tpy_same(PyDict_GetItemWithError(w->object, w->items[0]), w->items[1]);
    case WATCH_FUNCTION: {
        const PyFunctionObject *f = (const PyFunctionObject *)w->object;
        return f->func_code == w->items[0] && f->func_defaults == w->items[1] && f->func_kwdefaults == w->items[2];
    }
    case WATCH_SLOTS: return holds_slots(w);
    case WATCH_TENSOR: {
        const tp_tensor *t = tpy_unwrap(w->object);
        return tp_data(t) == w->data && tp_numel(t) == w->numel && (int8_t)tp_dtype_of(t) == w->dtype && (int8_t)tp_ndim(t) == w->ndim && tp_requires_grad(t) == w->tracked && tp_has_hooks(t) == w->hooked;
    }
    }
    return false;
}

PyObject *tpy_guards_broken(const tpy_guards *g) {
    for (Py_ssize_t i = 0; i < g->n; i++)
        if (!holds(&g->watches[i])) return g->watches[i].object;
    return NULL;
}
const char *tpy_guards_refusal(const tpy_guards *g) {
    static _Thread_local char text[160];
    if (g->full) return "it leads to more objects than can be watched";
    if (!g->hidden) return NULL;
    snprintf(text, sizeof text, "it leads to an object of type %s, whose contents may change unseen", g->hidden);
    return text;
}

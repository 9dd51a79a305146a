/* Guards: what a captured call saw of the program's Python objects, and whether it is all still so. A set of guards is
 * a list of containers (dicts, lists, cells, names in a module), each with the objects it held. Objects are compared by
 * identity, numbers and texts by value; what is in a container that was held is guarded by a container of its own.
 * Checking makes no objects: a few nanoseconds for each entry, and one where Python counts changes of a dict or a
 * class.
 *
 * What is watched is found by follow_reads.c. */
#include "guards.h"
#include <math.h>
#include <stdarg.h>

enum { MOST_WATCHES = 100000 };

/* ---- Counts of changes ---- */
static uint64_t dict_version(PyObject *dict) { /* 0: Python does not count them */
#if PY_VERSION_HEX < 0x030C0000
    return ((PyDictObject *)dict)->ma_version_tag;
#else
    (void)dict;
    return 0;
#endif
}

static uint64_t version_of(const watch *w) {
    if (w->kind == WATCH_CLASS)
        return ((PyTypeObject *)w->object)->tp_version_tag; /* 0 from a change until the class is asked again */
    return w->kind == WATCH_DICT || w->kind == WATCH_NAME ? dict_version(w->object) : 0;
}

static void note_version(watch *w) {
    static PyObject *any;
    if (w->kind == WATCH_CLASS && !version_of(w) && (any || (any = PyUnicode_InternFromString("__module__"))))
        _PyType_Lookup((PyTypeObject *)w->object, any); /* asked, it has one */
    w->version = version_of(w);
}

/* ---- Reading what is there now ---- */
static bool reserve_items(watch *w, Py_ssize_t n) { /* empty places for n items */
    for (Py_ssize_t i = 0; i < w->n; i++) Py_CLEAR(w->items[i]);
    PyObject **items = PyMem_Calloc((size_t)(n ? n : 1), sizeof *items);
    if (!items) {
        PyErr_NoMemory();
        return false;
    }
    PyMem_Free(w->items);
    w->items = items;
    w->n = n;
    return true;
}

static bool record_pairs(watch *w, PyObject *dict, Py_ssize_t before) { /* after what is there before */
    PyObject *key, *value;
    Py_ssize_t at = 0, i = before;
    while (i + 1 < w->n && PyDict_Next(dict, &at, &key, &value)) {
        w->items[i++] = Py_NewRef(key);
        w->items[i++] = Py_NewRef(value);
    }
    return true;
}

static bool record_sequence(watch *w, PyObject *sequence) { /* steals the sequence */
    PyObject *list = sequence ? PySequence_Fast(sequence, "no items") : NULL;
    Py_XDECREF(sequence);
    if (!list || !reserve_items(w, PySequence_Fast_GET_SIZE(list))) {
        Py_XDECREF(list);
        return false;
    }
    for (Py_ssize_t i = 0; i < w->n; i++) w->items[i] = Py_NewRef(PySequence_Fast_GET_ITEM(list, i));
    Py_DECREF(list);
    return true;
}

enum { OF_CLASS = 4, OF_FUNCTION = 8 }; /* items of these kinds before pairs of names and values */

static PyObject *name_of_class(const PyTypeObject *type, bool qualified) { /* borrowed; NULL: it cannot be changed */
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return NULL;
    return qualified ? ((const PyHeapTypeObject *)type)->ht_qualname : ((const PyHeapTypeObject *)type)->ht_name;
}

static bool record_class(watch *w) {
    PyTypeObject *type = (PyTypeObject *)w->object;
    if (!reserve_items(w, OF_CLASS + 2 * PyDict_GET_SIZE(type->tp_dict))) return false;
    w->items[0] = Py_NewRef(type->tp_mro);
    w->items[1] = Py_NewRef((PyObject *)Py_TYPE(type));
    w->items[2] = Py_XNewRef(name_of_class(type, false));
    w->items[3] = Py_XNewRef(name_of_class(type, true));
    return record_pairs(w, type->tp_dict, OF_CLASS);
}

static PyObject *dict_of(PyObject *o) { /* new; NULL without an exception: it has none */
    PyObject *dict = PyObject_GenericGetDict(o, NULL);
    if (!dict) PyErr_Clear();
    return dict;
}

static bool record_tensor(watch *w) {
    const tp_tensor *t = tpy_unwrap(w->object);
    int64_t ndim = tp_ndim(t), *layout = PyMem_Malloc((size_t)(2 * ndim + 1) * sizeof *layout);
    if (!layout) {
        PyErr_NoMemory();
        return false;
    }
    PyMem_Free(w->layout);
    w->layout = layout;
    for (int64_t i = 0; i < ndim; i++) {
        layout[i] = tp_shape(t).v[i];
        layout[ndim + i] = tp_stride(t, i);
    }
    w->data = tp_data(t);
    w->dtype = (int8_t)tp_dtype_of(t);
    w->ndim = (int8_t)ndim;
    w->tracked = tp_requires_grad(t);
    w->hooked = tp_has_hooks(t);
    w->leaf = tp_is_leaf(t);
    w->marked = tp_is_conj(t) || tp_is_neg(t);
    if (!reserve_items(w, 2)) return false;
    w->items[0] = Py_NewRef((PyObject *)Py_TYPE(w->object));
    w->items[1] = Py_XNewRef(((tpy_tensor *)w->object)->dict);
    return true;
}

PyObject *tpy_annotations(PyObject *function) {
    if (!((PyFunctionObject *)function)->func_annotations) return NULL; /* there are none, or nobody asked so far */
    PyObject *annotations = PyFunction_GetAnnotations(function);
    if (!annotations) PyErr_Clear();
    return annotations;
}

static bool record_function(watch *w) {
    const PyFunctionObject *f = (const PyFunctionObject *)w->object;
    PyObject *annotations = tpy_annotations(w->object);
    if (!reserve_items(w, OF_FUNCTION + (annotations ? 2 * PyDict_GET_SIZE(annotations) : 0))) return false;
    PyObject *const held[OF_FUNCTION] = {f->func_code, f->func_defaults, f->func_kwdefaults, f->func_dict,
                                         f->func_name, f->func_qualname, f->func_doc,        f->func_module};
    for (int i = 0; i < OF_FUNCTION; i++) w->items[i] = Py_XNewRef(held[i]);
    return !annotations || record_pairs(w, annotations, OF_FUNCTION);
}

static bool record(watch *w) {
    bool ok = true;
    switch ((watch_kind)w->kind) {
    case WATCH_DICT: ok = reserve_items(w, 2 * PyDict_GET_SIZE(w->object)) && record_pairs(w, w->object, 0); break;
    case WATCH_LIST: ok = record_sequence(w, Py_NewRef(w->object)); break;
    case WATCH_ORDER:
    case WATCH_SET: ok = record_sequence(w, PySequence_List(w->object)); break;
    case WATCH_CELL: Py_XSETREF(w->items[0], Py_XNewRef(PyCell_GET(w->object))); break;
    case WATCH_NAME: Py_XSETREF(w->items[1], Py_XNewRef(PyDict_GetItemWithError(w->object, w->items[0]))); break;
    case WATCH_FUNCTION: ok = record_function(w); break;
    case WATCH_SLOTS:
        for (Py_ssize_t i = 0; i < w->n; i += 2) {
            Py_XSETREF(w->items[i + 1], PyObject_GetAttr(w->object, w->items[i]));
            PyErr_Clear();
        }
        break;
    case WATCH_TENSOR: ok = record_tensor(w); break;
    case WATCH_OBJECT:
        Py_XSETREF(w->items[0], Py_NewRef((PyObject *)Py_TYPE(w->object)));
        Py_XSETREF(w->items[1], dict_of(w->object));
        break;
    case WATCH_CLASS: ok = record_class(w); break;
    }
    note_version(w);
    return ok && !PyErr_Occurred();
}

/* ---- Making ---- */
static watch *new_watch(tpy_guards *g, watch_kind kind, PyObject *object, Py_ssize_t n) {
    if (g->n == MOST_WATCHES) {
        g->full = true;
        PyErr_NoMemory();
        return NULL;
    }
    if (g->n == g->capacity) {
        Py_ssize_t capacity = g->capacity ? 2 * g->capacity : 64;
        watch *moved = PyMem_Realloc(g->watches, (size_t)capacity * sizeof *moved);
        if (!moved) {
            PyErr_NoMemory();
            return NULL;
        }
        g->watches = moved;
        g->capacity = capacity;
    }
    PyObject **items = PyMem_Calloc((size_t)(n ? n : 1), sizeof *items);
    if (!items) {
        PyErr_NoMemory();
        return NULL;
    }
    watch *w = &g->watches[g->n++];
    *w = (watch){.kind = (uint8_t)kind, .object = Py_NewRef(object), .n = n, .items = items, .ours = g->ours};
    return w;
}

static bool watch_whole(tpy_guards *g, watch_kind kind, PyObject *o, Py_ssize_t n) {
    watch *w = new_watch(g, kind, o, n);
    return w && record(w);
}

bool tpy_watch_whole(tpy_guards *g, watch_kind kind, PyObject *o) {
    return watch_whole(g, kind, o, kind == WATCH_CELL ? 1 : kind == WATCH_OBJECT ? 2 : 0);
}

bool tpy_watch_name(tpy_guards *g, PyObject *dict, PyObject *name) {
    watch *w = new_watch(g, WATCH_NAME, dict, 2);
    if (w) w->items[0] = Py_NewRef(name);
    return w && record(w);
}

bool tpy_watch_slots(tpy_guards *g, PyObject *o, PyObject *names) {
    watch *w = new_watch(g, WATCH_SLOTS, o, 2 * PyList_GET_SIZE(names));
    for (Py_ssize_t i = 0; w && i < PyList_GET_SIZE(names); i++) w->items[2 * i] = Py_NewRef(PyList_GET_ITEM(names, i));
    return w && record(w);
}

bool tpy_guards_refuse(tpy_guards *g, const char *format, ...) {
    if (!g->strict || g->lenient) return true;
    va_list list;
    va_start(list, format);
    vsnprintf(g->refusal, sizeof g->refusal, format, list);
    va_end(list);
    PyErr_SetString(PyExc_ValueError, "what is reached cannot be watched");
    return false;
}

tpy_guards *tpy_guards_new(bool strict) {
    tpy_guards *g = PyMem_Calloc(1, sizeof *g);
    if (!g) {
        PyErr_NoMemory();
        return NULL;
    }
    g->strict = strict;
    if ((g->seen = PySet_New(NULL)) && (g->later = PyList_New(0)) && (g->modules = PyList_New(0)) &&
        (g->codes = PySet_New(NULL)) && (g->own_names = PySet_New(NULL)) && (g->stored = PySet_New(NULL)))
        return g;
    tpy_guards_free(g);
    return NULL;
}

void tpy_guards_done(tpy_guards *g) {
    Py_CLEAR(g->seen);
    Py_CLEAR(g->optimisers);
    Py_CLEAR(g->names);
    Py_CLEAR(g->own_names);
    Py_CLEAR(g->stored);
    Py_CLEAR(g->later);
    Py_CLEAR(g->modules);
    Py_CLEAR(g->codes);
}

void tpy_guards_free(tpy_guards *g) {
    if (!g) return;
    for (Py_ssize_t i = 0; i < g->n; i++) {
        for (Py_ssize_t k = 0; k < g->watches[i].n; k++) Py_XDECREF(g->watches[i].items[k]);
        PyMem_Free(g->watches[i].items);
        PyMem_Free(g->watches[i].layout);
        Py_DECREF(g->watches[i].object);
    }
    tpy_guards_done(g);
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
    if (PyFloat_CheckExact(a))
        return PyFloat_AS_DOUBLE(a) == PyFloat_AS_DOUBLE(b) &&
               copysign(1, PyFloat_AS_DOUBLE(a)) == copysign(1, PyFloat_AS_DOUBLE(b));
    if (!PyLong_CheckExact(a) && !PyUnicode_CheckExact(a) && !PyBytes_CheckExact(a) && Py_TYPE(a) != tpy_device_type &&
        Py_TYPE(a) != tpy_size_type)
        return false;
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0) PyErr_Clear();
    return same > 0;
}

static bool holds_pairs(const watch *w, PyObject *dict, Py_ssize_t before) {
    if (2 * PyDict_GET_SIZE(dict) != w->n - before) return false;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = before; i < w->n; i += 2)
        if (!PyDict_Next(dict, &at, &key, &value) || key != w->items[i] ||
            (value != w->items[i + 1] && !tpy_same(value, w->items[i + 1])))
            return false;
    return true;
}

/* In the order in which it is iterated over: a set, whose order its members' history decides, and an ordered dict,
 * whose order is its own. */
static bool holds_order(const watch *w) {
    if (PyObject_Size(w->object) != w->n) {
        PyErr_Clear();
        return false;
    }
    PyObject *order = w->n ? PyObject_GetIter(w->object) : NULL, *one;
    bool same = order || !w->n;
    for (Py_ssize_t i = 0; same && i < w->n; i++) {
        same = (one = PyIter_Next(order)) && tpy_same(one, w->items[i]);
        Py_XDECREF(one);
    }
    Py_XDECREF(order);
    PyErr_Clear();
    return same;
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

static bool is_empty(PyObject *dict) { return !dict || !PyDict_GET_SIZE(dict); }

static bool holds_tensor(const watch *w) {
    const tp_tensor *t = tpy_unwrap(w->object);
    if (tp_data(t) != w->data || (int8_t)tp_dtype_of(t) != w->dtype || tp_ndim(t) != w->ndim ||
        (tp_is_conj(t) || tp_is_neg(t)) != w->marked || tp_requires_grad(t) != w->tracked ||
        tp_has_hooks(t) != w->hooked || tp_is_leaf(t) != w->leaf)
        return false;
    PyObject *dict = ((tpy_tensor *)w->object)->dict;
    if ((PyObject *)Py_TYPE(w->object) != w->items[0] ||
        (dict != w->items[1] && !(is_empty(dict) && is_empty(w->items[1]))))
        return false;
    return !memcmp(tp_shape(t).v, w->layout, (size_t)w->ndim * sizeof(int64_t)) &&
           !memcmp(tp_strides(t).v, w->layout + w->ndim, (size_t)w->ndim * sizeof(int64_t));
}

static bool holds_object(const watch *w) {
    if ((PyObject *)Py_TYPE(w->object) != w->items[0]) return false;
    if (!w->items[1]) return true;
    PyObject *dict = dict_of(w->object);
    Py_XDECREF(dict);
    return dict == w->items[1];
}

static bool holds_list(const watch *w) {
    if (PyList_GET_SIZE(w->object) != w->n) return false;
    for (Py_ssize_t i = 0; i < w->n; i++)
        if (!tpy_same(PyList_GET_ITEM(w->object, i), w->items[i])) return false;
    return true;
}

static bool holds_function(const watch *w) {
    const PyFunctionObject *f = (const PyFunctionObject *)w->object;
    if (f->func_code != w->items[0] || f->func_defaults != w->items[1] || f->func_kwdefaults != w->items[2])
        return false;
    if (f->func_dict != w->items[3] && !(is_empty(f->func_dict) && is_empty(w->items[3]))) return false;
    if (!tpy_same(f->func_name, w->items[4]) || !tpy_same(f->func_qualname, w->items[5])) return false;
    if (!tpy_same(f->func_doc, w->items[6]) || !tpy_same(f->func_module, w->items[7])) return false;
    PyObject *annotations = tpy_annotations(w->object);
    return annotations ? holds_pairs(w, annotations, OF_FUNCTION) : w->n == OF_FUNCTION;
}

static bool holds_class(const watch *w) {
    const PyTypeObject *type = (const PyTypeObject *)w->object;
    return type->tp_mro == w->items[0] && holds_pairs(w, type->tp_dict, OF_CLASS);
}

/* Another metaclass or name, which Python does not count as changes. */
static bool is_renamed(const watch *w) {
    const PyTypeObject *type = (const PyTypeObject *)w->object;
    if ((PyObject *)Py_TYPE(type) != w->items[1]) return true;
    return !tpy_same(name_of_class(type, false), w->items[2]) || !tpy_same(name_of_class(type, true), w->items[3]);
}

static bool holds(watch *w) {
    if (w->kind == WATCH_CLASS && is_renamed(w)) return false;
    if (w->version && w->version == version_of(w)) return true;
    bool same = false;
    switch ((watch_kind)w->kind) {
    case WATCH_DICT: same = holds_pairs(w, w->object, 0); break;
    case WATCH_NAME: same = tpy_same(PyDict_GetItemWithError(w->object, w->items[0]), w->items[1]); break;
    case WATCH_CLASS: same = holds_class(w); break;
    case WATCH_ORDER:
    case WATCH_SET: return holds_order(w);
    case WATCH_LIST: return holds_list(w);
    case WATCH_CELL: return tpy_same(PyCell_GET(w->object), w->items[0]);
    case WATCH_FUNCTION: return holds_function(w);
    case WATCH_SLOTS: return holds_slots(w);
    case WATCH_TENSOR: return holds_tensor(w);
    case WATCH_OBJECT: return holds_object(w);
    }
    if (same) note_version(w); /* something else in the dict was set */
    return same;
}

PyObject *tpy_guards_broken(tpy_guards *g) {
    for (Py_ssize_t i = 0; i < g->n; i++)
        if (!holds(&g->watches[i])) return g->watches[i].object;
    return NULL;
}

const char *tpy_guards_refusal(const tpy_guards *g) {
    if (g->full) return "it leads to more objects than can be watched";
    return *g->refusal ? g->refusal : NULL;
}

/* ---- One set of guards before a call and one made after it ---- */
bool tpy_guards_refresh(tpy_guards *g) {
    for (Py_ssize_t i = 0; i < g->n; i++)
        if (!record(&g->watches[i])) return false;
    return true;
}

/* The object; of a name in a dict, both. */
static PyObject *key_of(const watch *w, bool whole) {
    return whole || w->kind != WATCH_NAME ? PyLong_FromVoidPtr(w->object)
                                          : Py_BuildValue("(NO)", PyLong_FromVoidPtr(w->object), w->items[0]);
}

static int add_key(PyObject *set, const watch *w) {
    PyObject *key = key_of(w, false);
    int done = key ? PySet_Add(set, key) : -1;
    Py_XDECREF(key);
    return done ? -1 : 1;
}

static int has_key(PyObject *set, const watch *w) {
    for (int whole = 0; whole < 2; whole++) {
        PyObject *key = key_of(w, whole);
        int found = key ? PySet_Contains(set, key) : -1;
        Py_XDECREF(key);
        if (found) return found;
    }
    return 0;
}

/* Does code that ran set an attribute of that name, where the class has a value of its own and no descriptor? */
static bool sets_value_of(PyObject *stored, PyTypeObject *type) {
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(type->tp_dict, &at, &name, &value);)
        if (PySet_GET_SIZE(stored) && !Py_TYPE(value)->tp_descr_get && PySet_Contains(stored, name) > 0) return true;
    return false;
}

/* A call changes nothing of the package's own, but for attributes that its code sets, nor does it set built-in names;
 * and what is not there needs no look. */
static bool is_ours(const tpy_guards *g, const watch *w) {
    if (w->ours) return true;
    if (w->kind == WATCH_CLASS)
        return tpy_is_own_type((PyTypeObject *)w->object) && !sets_value_of(g->stored, (PyTypeObject *)w->object);
    if (w->kind == WATCH_FUNCTION) return tpy_is_own(((PyFunctionObject *)w->object)->func_globals);
    if (w->kind != WATCH_NAME) return false;
    if (!w->items[1] || w->object == PyEval_GetBuiltins() || w->object == PyImport_GetModuleDict()) return true;
    return tpy_is_own(w->object) && PySet_Contains(g->stored, w->items[0]) == 0;
}

int tpy_guards_cover(const tpy_guards *before, const tpy_guards *more, const tpy_guards *after) {
    PyObject *set = PySet_New(NULL);
    int ok = set ? 1 : -1;
    const tpy_guards *both[] = {before, more};
    for (int k = 0; k < 2; k++)
        for (Py_ssize_t i = 0; ok > 0 && both[k] && i < both[k]->n; i++) ok = add_key(set, &both[k]->watches[i]);
    for (Py_ssize_t i = 0; ok > 0 && i < after->n; i++)
        ok = is_ours(after, &after->watches[i]) ? 1 : has_key(set, &after->watches[i]);
    Py_XDECREF(set);
    return ok;
}

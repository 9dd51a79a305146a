/* Captured calls: a callable around a function that runs its operators without it once they were recorded.
 *
 * Each captured call is an entry: the shape of the arguments, the guards (guards.c), the graph, and the shape of the
 * result. A call looks for an entry that fits; if there is none, it asks `miss`, which is Python's
 * (taper/_dynamo/eval_frame.py): it captures, or runs the function as it is. */
#include "guards.h"
#include <stddef.h>
#include <structmember.h>

typedef struct settings { /* what operators and modules do depends on these */
    int64_t autocast;     /* on all devices, as one number */
    tp_device device;
    long hooks; /* that hold for all modules */
    int8_t deterministic, dtype;
    bool grad, inference;
} settings;

typedef struct entry {
    struct entry *next;
    tpy_tree *arguments, *result;
    tpy_guards *guards;
    PyObject *classes; /* tpy_classes_now(), where it matters */
    tp_compiled *graph;
    settings under;
    PyObject **known; /* in the order of their addresses: tensors, lists and dicts that guards watch. Borrowed */
    int64_t nknown;
    int64_t
        *same; /* for each tensor, list and dict of the arguments, which of those it is, -1: none. A program may ask */
    uint8_t *traits; /* for each tensor of the arguments, whether it asked for gradients: a program may ask it without
                      them */
} entry;

typedef struct tpy_captured {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function, *miss, *dict, *weakrefs;
    entry *entries;
    int64_t count;
    tpy_guards *found; /* what the last attempt found to watch beyond what was watched while it ran; NULL: all was */
    int retries;
    bool strict; /* torch.compile: never an old value. A trace or an export holds what it saw */
    bool busy;   /* it is being captured: what it calls runs as it is */
    int replay;  /* tp_replay: torch.compile's mode */
} tpy_captured;

static PyTypeObject *captured_type;
static bool enabled = true; /* torch.compiler.set_stance("force_eager") turns graphs off */

static void entry_free(entry *e) {
    tpy_tree_free(e->arguments);
    tpy_tree_free(e->result);
    tpy_guards_free(e->guards);
    Py_XDECREF(e->classes);
    tp_compiled_release(e->graph);
    PyMem_Free(e->traits);
    PyMem_Free(e->known);
    PyMem_Free(e->same);
    PyMem_Free(e);
}

static int64_t autocast_now(void) {
    int64_t all = 0;
    for (int type = TP_CPU; type < TP_DEVICE_TYPES; type++)
        all = all * 64 + tp_autocast_enabled((tp_device_type)type) * 32 +
              (int64_t)tp_autocast_dtype((tp_device_type)type);
    return all * 2 + tp_autocast_cache_enabled();
}

static settings settings_now(void) {
    return (settings){.autocast = autocast_now(),
                      .device = tp_default_device(),
                      .hooks = tpy_hooks_of_all_modules(),
                      .deterministic = (int8_t)tp_deterministic(),
                      .dtype = (int8_t)tp_default_dtype(),
                      .grad = tp_grad_enabled(),
                      .inference = tp_inference_enabled()};
}

static bool same_settings(const settings *a, const settings *b) {
    return a->autocast == b->autocast && a->device.type == b->device.type && a->device.index == b->device.index &&
           a->hooks == b->hooks && a->deterministic == b->deterministic && a->dtype == b->dtype && a->grad == b->grad &&
           a->inference == b->inference;
}

static bool has_attributes(const tp_tensor *t) { /* that a program has put on it */
    PyObject *o = tp_binding(t), *dict = o ? ((tpy_tensor *)o)->dict : NULL;
    return dict && PyDict_GET_SIZE(dict);
}

/* What a graph depends on besides dtype and shape: whether gradients flow, and the mark of a conjugate or negative. */
static uint8_t traits(const tp_tensor *t) {
    return (uint8_t)(tp_requires_grad(t) | (tp_is_conj(t) || tp_is_neg(t)) << 1);
}

static bool same_leaves(const entry *e, const tpy_leaves *leaves) {
    for (int64_t i = 0; e->traits && i < leaves->n; i++)
        if (traits(leaves->v[i]) != e->traits[i] || has_attributes(leaves->v[i])) return false;
    return true;
}

static int64_t which_known(const entry *e, const void *o) {
    for (int64_t low = 0, high = e->nknown; low < high;) {
        int64_t middle = (low + high) / 2;
        if ((const void *)e->known[middle] == o) return middle;
        if ((uintptr_t)e->known[middle] < (uintptr_t)o)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static const void *argument_at(const tpy_leaves *leaves, int64_t i) {
    return i < leaves->n ? tp_binding(leaves->v[i]) : leaves->boxes[i - leaves->n];
}

static bool same_identities(const entry *e, const tpy_leaves *leaves) {
    for (int64_t i = 0; e->same && i < leaves->n + leaves->nboxes; i++)
        if (which_known(e, argument_at(leaves, i)) != e->same[i]) return false;
    return true;
}

static bool same_classes(const entry *e) {
    if (!e->classes) return true;
    PyObject *now = tpy_classes_now();
    bool same = now && tpy_same(now, e->classes);
    Py_XDECREF(now);
    PyErr_Clear();
    return same;
}

/* ---- Calling ---- */
static PyObject *run(entry *e, tpy_leaves *leaves) {
    tp_tensor *few[16], **outputs = few;
    int64_t n = tp_compiled_outputs(e->graph);
    if (n > 16 && !(outputs = PyMem_Malloc((size_t)n * sizeof *outputs))) return PyErr_NoMemory();
    bool ok;
    PyThreadState *saved = PyEval_SaveThread();
    ok = tp_compiled_run(e->graph, (tp_tensors){leaves->v, leaves->n}, outputs);
    PyEval_RestoreThread(saved);
    for (int64_t i = 0; ok && i < n; i++) tpy_own(outputs[i]);
    PyObject *result = ok                 ? tpy_tree_build(e->result, outputs)
                       : PyErr_Occurred() ? NULL
                                          : tpy_raise(); /* a call of Python's may have failed with an exception */
    for (int64_t i = 0; ok && i < n; i++) tp_release(outputs[i]);
    if (outputs != few) PyMem_Free(outputs);
    return result;
}

/* Arguments as one tuple, keywords as a dict or None: the tree that is compared. */
static PyObject *pack(PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    Py_ssize_t k = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *all = PyTuple_New(n + (k ? 1 : 0)), *named = k ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; all && i < n; i++) PyTuple_SET_ITEM(all, i, Py_NewRef(args[i]));
    bool ok = all && (!k || named);
    for (Py_ssize_t i = 0; ok && i < k; i++) ok = PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[n + i]) == 0;
    if (ok && k)
        PyTuple_SET_ITEM(all, n, named);
    else
        Py_XDECREF(named);
    if (!ok) Py_CLEAR(all);
    return all;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t flags, PyObject *kwnames) {
    tpy_captured *c = (tpy_captured *)self;
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    if (c->busy || !enabled || tp_capturing() || tpy_overridden(NULL, 0))
        return PyObject_Vectorcall(c->function, args, (size_t)n, kwnames);
    PyObject *all = c->entries ? pack(args, n, kwnames) : NULL;
    if (c->entries && !all) return NULL;
    tpy_leaves leaves = {0};
    settings now = settings_now();
    for (entry *e = c->entries; e; e = e->next) {
        leaves.n = leaves.nboxes = 0;
        if (!tpy_tree_fits(e->arguments, all, &leaves) || !same_settings(&e->under, &now) ||
            !tp_compiled_fits(e->graph, (tp_tensors){leaves.v, leaves.n}) || !same_leaves(e, &leaves) ||
            !same_identities(e, &leaves) || !same_classes(e) || tpy_guards_broken(e->guards))
            continue;
        PyObject *result = run(e, &leaves);
        tpy_leaves_free(&leaves);
        Py_DECREF(all);
        return result;
    }
    tpy_leaves_free(&leaves);
    Py_XDECREF(all);
    return PyErr_Occurred() ? NULL : PyObject_Vectorcall(c->miss, args, (size_t)n, kwnames);
}

/* ---- Capturing ---- */
typedef struct attempt {
    entry *e;
    tpy_leaves leaves;
    PyObject *where; /* the line that ended it */
    char why[256];
    bool retried; /* nothing ended it, but the next call knows better what to watch */
} attempt;

static void told(const char *why, void *context) {
    attempt *a = context;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    snprintf(a->why, sizeof a->why, "%s", why);
    a->where = tpy_where();
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

static void fail(attempt *a, const char *why) {
    if (!*a->why) snprintf(a->why, sizeof a->why, "%s", why);
}

static bool plain_tensors(const tpy_leaves *leaves) {
    for (int64_t i = 0; i < leaves->n; i++) {
        PyObject *o = tp_binding(leaves->v[i]);
        if (o && tpy_overridden(&o, 1)) return false;
    }
    return true;
}

static bool has_changed(attempt *a, tpy_guards *g) {
    PyObject *changed = g ? tpy_guards_broken(g) : NULL;
    if (!changed) return false;
    PyObject *text = PyUnicode_FromFormat("an object of type %s is changed", Py_TYPE(changed)->tp_name);
    fail(a, text ? PyUnicode_AsUTF8(text) : "an object is changed");
    Py_XDECREF(text);
    return true;
}

/* Did the call change a list or dict that it was given, or a setting? */
static bool has_side_effects(attempt *a, PyObject *all) {
    tpy_leaves now = {0};
    settings after = settings_now();
    bool same = tpy_tree_fits(a->e->arguments, all, &now) && now.n == a->leaves.n &&
                !memcmp(now.v, a->leaves.v, (size_t)now.n * sizeof *now.v);
    tpy_leaves_free(&now);
    if (!same)
        fail(a, "an argument is changed");
    else if (!same_settings(&a->e->under, &after))
        fail(a, "a setting is changed");
    else if (!same_leaves(a->e, &a->leaves))
        fail(a, "an argument has attributes of the program's, or its requires_grad is changed");
    else
        return false;
    return true;
}

/* After the call ran: ends the capture and checks that the entry may be used. False: it may not, and a->why says why.
 */
static bool finish(tpy_captured *c, attempt *a, tp_capture *capture, PyObject *all, PyObject *result) {
    entry *e = a->e;
    tpy_leaves outputs = {0};
    e->result = tpy_tree_of(result, &outputs);
    bool ok = e->result != NULL;
    if (ok && tpy_tree_has_objects(e->result)) tp_capture_break("the result holds more than tensors and plain values");
    e->graph = ok ? tp_capture_end(capture, (tp_tensors){outputs.v, outputs.n}) : NULL;
    if (!ok) tp_capture_cancel(capture);
    tpy_leaves_free(&outputs);
    if (!e->graph) {
        fail(a, tp_error() ? tpy_error_text() : "there was no memory");
        tp_error_clear();
        return false;
    }
    tp_compiled_set_replay(e->graph, (tp_replay)c->replay);
    return !has_changed(a, e->guards) && !has_changed(a, c->found) && !(c->strict && has_side_effects(a, all));
}

/* Lists and dicts of the result that are the program's, or of the arguments: a graph's result has new ones. */
static bool is_shared(PyObject *o, PyObject *seen) {
    bool dict = PyDict_CheckExact(o);
    if (!dict && !PyList_CheckExact(o) && !PyTuple_Check(o)) return false;
    PyObject *address = PyLong_FromVoidPtr(o), *items = dict ? PyDict_Values(o) : PySequence_List(o);
    bool shared = !address || !items || (!PyTuple_Check(o) && PySet_Contains(seen, address) != 0);
    for (Py_ssize_t i = 0; !shared && i < PyList_GET_SIZE(items); i++)
        shared = is_shared(PyList_GET_ITEM(items, i), seen);
    Py_XDECREF(address);
    Py_XDECREF(items);
    return shared;
}

static bool note_containers(PyObject *o, PyObject *seen) {
    bool dict = PyDict_CheckExact(o);
    if (!dict && !PyList_CheckExact(o) && !PyTuple_Check(o)) return true;
    PyObject *address = PyLong_FromVoidPtr(o), *items = dict ? PyDict_Values(o) : PySequence_List(o);
    bool ok = address && items && PySet_Add(seen, address) == 0;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(items); i++) ok = note_containers(PyList_GET_ITEM(items, i), seen);
    Py_XDECREF(address);
    Py_XDECREF(items);
    return ok;
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (PyObject *const *)a, y = (uintptr_t) * (PyObject *const *)b;
    return (x > y) - (x < y);
}

static bool overlap(const tp_tensor *a, const tp_tensor *b) {
    const tp_tensor *both[] = {a, b};
    uintptr_t from[2], to[2];
    for (int k = 0; k < 2; k++) {
        int64_t size = tp_dtype_size(tp_dtype_of(both[k])), last = 0;
        if (!tp_numel(both[k])) return false;
        for (int64_t d = 0; d < tp_ndim(both[k]); d++) last += (tp_size(both[k], d) - 1) * tp_stride(both[k], d);
        from[k] = (uintptr_t)tp_data(both[k]);
        to[k] = from[k] + (uintptr_t)((last + 1) * size);
    }
    return from[0] < to[1] && from[1] < to[0];
}

/* Which of the arguments are objects that are watched too; one that shares memory with them otherwise would be taken
 * for them. */
static bool note_identities(attempt *a) {
    entry *e = a->e;
    tpy_guards *g = e->guards;
    e->known = PyMem_Malloc((size_t)(g->n + 1) * sizeof *e->known);
    e->same = PyMem_Malloc((size_t)(a->leaves.n + a->leaves.nboxes + 1) * sizeof *e->same);
    if (!e->known || !e->same) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < g->n; i++) {
        const watch *w = &g->watches[i];
        if (w->kind != WATCH_TENSOR && w->kind != WATCH_LIST && w->kind != WATCH_DICT) continue;
        e->known[e->nknown++] = w->object;
        for (int64_t k = 0; w->kind == WATCH_TENSOR && k < a->leaves.n; k++)
            if (tp_binding(a->leaves.v[k]) != w->object && overlap(a->leaves.v[k], tpy_unwrap(w->object)))
                return tpy_guards_refuse(g, "an argument shares memory with a tensor of the program's");
    }
    qsort(e->known, (size_t)e->nknown, sizeof *e->known, by_address);
    for (int64_t i = 0; i < a->leaves.n + a->leaves.nboxes; i++)
        e->same[i] = which_known(e, argument_at(&a->leaves, i));
    return true;
}

/* The guards that runs look at: made anew, now that it is known which code ran and what it names. */
static bool settle_once(tpy_captured *c, attempt *a, bool anything, bool *again) {
    tpy_guards *g = tpy_guards_new(c->strict);
    if (!g) return false;
    g->names_anything = anything;
    tpy_guards_free(a->e->guards);
    a->e->guards = g;
    if (!tpy_watch_names(g)) return false;
    bool before = g->names_anything;
    bool ok = tpy_guards_add(g, c->function) && tpy_tree_guard(a->e->arguments, g) && tpy_watch_code(g) &&
              tpy_guards_complete(g) && (!c->strict || tpy_watch_met(g));
    *again = c->strict && !before &&
             g->names_anything; /* it met a function that looks attributes up, and so reads more than it names */
    return ok;
}

static bool settle(tpy_captured *c, attempt *a, PyObject *all, PyObject *result) {
    bool again = false, ok = settle_once(c, a, false, &again);
    if (ok && again) ok = settle_once(c, a, true, &again);
    if (!ok || !c->strict) return ok;
    if (tpy_watch_asked_classes() && !(a->e->classes = tpy_classes_now())) return false;
    if (!note_identities(a) || !note_containers(all, a->e->guards->seen)) return false;
    return !is_shared(result, a->e->guards->seen) ||
           tpy_guards_refuse(a->e->guards, "the result holds a list or dict of the program's");
}

/* Was all that is watched now watched while the call ran, so that it did not change it? Otherwise the next call is
 * captured with that in view. */
static bool was_watched(tpy_captured *c, attempt *a, tpy_guards *before) {
    enum { MOST_RETRIES = 3 };
    int covered = c->strict ? tpy_guards_cover(before, c->found, a->e->guards) : 1;
    if (covered > 0) {
        c->retries = 0;
        return true;
    }
    PyErr_Clear();
    tpy_guards_free(c->found);
    c->found = NULL;
    if (++c->retries > MOST_RETRIES) {
        fail(a, "what it reads is made anew in each call");
        return false;
    }
    c->found = a->e->guards;
    a->e->guards = NULL;
    tpy_guards_done(c->found);
    a->retried = true;
    return false;
}

static PyObject *run_captured(tpy_captured *c, attempt *a, PyObject *all, PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames, bool *kept) {
    tp_capture *capture = tp_capture_begin((tp_tensors){a->leaves.v, a->leaves.n});
    if (!capture) return tpy_raise();
    tp_capture_on_break(capture, told, a);
    PyObject *result = NULL;
    if (tpy_watch_start(c->strict)) result = PyObject_Vectorcall(c->function, args, (size_t)n, kwnames);
    tpy_watch_stop();
    if (!result) {
        tpy_watch_drop();
        tp_capture_cancel(capture);
        return NULL;
    }
    *kept = finish(c, a, capture, all, result);
    tpy_guards *before = a->e->guards;
    if (*kept) a->e->guards = NULL;
    bool ok = !*kept || settle(c, a, all, result);
    tpy_watch_drop();
    if (ok && *kept) *kept = was_watched(c, a, before);
    if (before != a->e->guards) tpy_guards_free(before);
    if (ok) return result;
    const char *refusal = tpy_guards_refusal(a->e->guards);
    if (!refusal) {
        Py_DECREF(result);
        return NULL;
    }
    PyErr_Clear();
    fail(a, refusal);
    *kept = false;
    return result;
}

static bool note_traits(const tpy_captured *c, attempt *a) {
    if (!c->strict) return true;
    if (!(a->e->traits = PyMem_Malloc((size_t)a->leaves.n + 1))) {
        PyErr_NoMemory();
        return false;
    }
    for (int64_t i = 0; i < a->leaves.n; i++) a->e->traits[i] = traits(a->leaves.v[i]);
    return true;
}

/* All that the call may read, to see afterwards that it changed nothing. */
static bool look_before(tpy_captured *c, attempt *a) {
    tpy_guards *g = a->e->guards;
    if (tpy_guards_add(g, c->function) && tpy_tree_guard(a->e->arguments, g) && tpy_guards_complete(g))
        return !c->found || tpy_guards_refresh(c->found);
    const char *refusal = tpy_guards_refusal(g);
    if (!refusal) return false;
    PyErr_Clear();
    fail(a, refusal);
    return true;
}

static entry *prepare(tpy_captured *c, attempt *a, PyObject *all) {
    entry *e = PyMem_Calloc(1, sizeof *e);
    a->e = e;
    if (!e) return (entry *)PyErr_NoMemory();
    e->under = settings_now();
    e->arguments = tpy_tree_of(all, &a->leaves);
    e->guards = e->arguments ? tpy_guards_new(false) : NULL;
    if (e->guards && note_traits(c, a) && look_before(c, a)) return e;
    entry_free(e);
    return NULL;
}

/* capture(args...): runs the function once, recorded. Gives (result, None, None), or (result, why, where) where no
 * graph came of it. */
static PyObject *capture(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    tpy_captured *c = (tpy_captured *)self;
    attempt a = {0};
    if (tpy_watch_busy()) { /* one thread at a time; this call may be captured another time */
        PyObject *given = PyObject_Vectorcall(c->function, args, (size_t)n, kwnames),
                 *tuple = given ? Py_BuildValue("(OOO)", given, Py_None, Py_None) : NULL;
        Py_XDECREF(given);
        return tuple;
    }
    PyObject *all = pack(args, n, kwnames), *result = NULL;
    bool kept = false;
    if (!all) return NULL;
    a.e = prepare(c, &a, all);
    if (!a.e) {
        Py_DECREF(all);
        tpy_leaves_free(&a.leaves);
        return NULL;
    }
    c->busy = true;
    if (!plain_tensors(&a.leaves)) fail(&a, "an argument overrides operators");
    if (*a.why)
        result = PyObject_Vectorcall(c->function, args, (size_t)n, kwnames);
    else
        result = run_captured(c, &a, all, args, n, kwnames, &kept);
    c->busy = false;
    Py_DECREF(all);
    if (a.e->guards) tpy_guards_done(a.e->guards);
    tpy_leaves_free(&a.leaves);
    if (kept && result) {
        a.e->next = c->entries;
        c->entries = a.e;
        c->count++;
    } else
        entry_free(a.e);
    PyObject *given = !result             ? NULL
                      : kept || a.retried ? Py_BuildValue("(OOO)", result, Py_None, Py_None)
                                          : Py_BuildValue("(OsO)", result, a.why, a.where ? a.where : Py_None);
    Py_XDECREF(result);
    Py_XDECREF(a.where);
    return given;
}

/* ---- Graphs by themselves, in capsules: for export, files and traces ---- */
#define CAPSULE "taper.graph"
static void free_graph(PyObject *capsule) { tp_compiled_release(PyCapsule_GetPointer(capsule, CAPSULE)); }

static PyObject *newest(PyObject *self, PyObject *unused) {
    (void)unused;
    entry *e = ((tpy_captured *)self)->entries;
    if (!e) Py_RETURN_NONE;
    return PyCapsule_New(tp_compiled_retain(e->graph), CAPSULE, free_graph);
}

/* (graph, tensors) -> list of tensors */
static PyObject *run_graph(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule, *list;
    if (!PyArg_ParseTuple(args, "OO!:_graph_run", &capsule, &PyList_Type, &list)) return NULL;
    tp_compiled *g = PyCapsule_GetPointer(capsule, CAPSULE);
    int64_t n = PyList_GET_SIZE(list), m = g ? tp_compiled_outputs(g) : 0;
    tp_tensor **all = g ? PyMem_Calloc((size_t)(n + m + 1), sizeof *all) : NULL;
    if (!all) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        if ((ok = tpy_is_tensor(o))) all[i] = tpy_unwrap(o);
    }
    PyObject *results = ok ? NULL : PyErr_Format(PyExc_TypeError, "a graph takes tensors");
    if (ok && !tp_compiled_run(g, (tp_tensors){all, n}, all + n))
        tpy_raise();
    else if (ok && (results = PyList_New(m)))
        for (int64_t i = 0; i < m; i++) PyList_SET_ITEM(results, i, tpy_wrap(tpy_own(all[n + i])));
    PyMem_Free(all);
    return results;
}

static PyObject *save_graph(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    const char *path, *note;
    if (!PyArg_ParseTuple(args, "Oss:_graph_save", &capsule, &path, &note)) return NULL;
    tp_compiled *g = PyCapsule_GetPointer(capsule, CAPSULE);
    return g ? tpy_none_or_raise(tp_compiled_save(g, path, note)) : NULL;
}

/* path, and a graph whose tensors it is to have -> (graph, note) */
static PyObject *load_graph(PyObject *module, PyObject *args) {
    (void)module;
    const char *path;
    PyObject *with = NULL;
    if (!PyArg_ParseTuple(args, "s|O:_graph_load", &path, &with)) return NULL;
    const tp_compiled *other = with ? PyCapsule_GetPointer(with, CAPSULE) : NULL;
    tp_compiled *g = with && !other ? NULL : tp_compiled_load_with(path, other);
    if (!g) return PyErr_Occurred() ? NULL : tpy_raise();
    PyObject *capsule = PyCapsule_New(g, CAPSULE, free_graph);
    if (!capsule) {
        tp_compiled_release(g);
        return NULL;
    }
    return Py_BuildValue("(Nz)", capsule, tp_compiled_note(g));
}

/* graph -> [(number in files, tensor)] of what it uses of the program's */
static PyObject *tensors_of_graph(PyObject *module, PyObject *capsule) {
    (void)module;
    tp_compiled *g = PyCapsule_GetPointer(capsule, CAPSULE);
    PyObject *list = g ? PyList_New(0) : NULL;
    int64_t value;
    tp_tensor *t;
    for (int64_t i = 0; list && (t = tp_compiled_tensor(g, i, &value)); i++) {
        PyObject *one = Py_BuildValue("(LN)", (long long)value, tpy_wrap(tp_retain(t)));
        if (!one || PyList_Append(list, one) < 0) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* graph -> ([(dtype, shape) of each input], steps) */
static PyObject *describe_graph(PyObject *module, PyObject *capsule) {
    (void)module;
    tp_compiled *g = PyCapsule_GetPointer(capsule, CAPSULE);
    PyObject *inputs = g ? PyList_New(0) : NULL;
    for (int64_t i = 0; inputs && i < tp_compiled_inputs(g); i++) {
        tp_dtype dtype;
        tp_ints shape;
        tp_compiled_input(g, i, &dtype, &shape);
        PyObject *one = Py_BuildValue("(NN)", tpy_dtype_object(dtype), tpy_size_of(shape));
        if (!one || PyList_Append(inputs, one) < 0) Py_CLEAR(inputs);
        Py_XDECREF(one);
    }
    return inputs ? Py_BuildValue("(NL)", inputs, (long long)tp_compiled_steps(g)) : NULL;
}

/* ---- The type ---- */
static void forget(tpy_captured *c) {
    entry *e = c->entries;
    c->entries = NULL;
    c->count = 0;
    tpy_guards_free(c->found);
    c->found = NULL;
    c->retries = 0;
    while (e) {
        entry *next = e->next;
        entry_free(e);
        e = next;
    }
}

static PyObject *reset(PyObject *self, PyObject *unused) {
    (void)unused;
    forget((tpy_captured *)self);
    Py_RETURN_NONE;
}

static PyObject *counts(PyObject *self, PyObject *unused) { /* steps of each entry's forward, newest first */
    (void)unused;
    PyObject *list = PyList_New(0);
    for (entry *e = ((tpy_captured *)self)->entries; list && e; e = e->next) {
        PyObject *n = PyLong_FromLongLong(tp_compiled_steps(e->graph));
        if (!n || PyList_Append(list, n) < 0) Py_CLEAR(list);
        Py_XDECREF(n);
    }
    return list;
}

static PyObject *captured_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *function, *miss;
    int strict = 0, replay = TP_REPLAY_DEFAULT;
    if (!PyArg_ParseTuple(args, "OO|pi:Captured", &function, &miss, &strict, &replay)) return NULL;
    tpy_captured *c = (tpy_captured *)type->tp_alloc(type, 0);
    if (!c) return NULL;
    c->vectorcall = call;
    c->function = Py_NewRef(function);
    c->miss = Py_NewRef(miss);
    c->strict = strict;
    c->replay = replay;
    return (PyObject *)c;
}

static int captured_traverse(PyObject *self, visitproc visit, void *arg) {
    tpy_captured *c = (tpy_captured *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->function);
    Py_VISIT(c->miss);
    Py_VISIT(c->dict);
    for (entry *e = c->entries; e; e = e->next) {
        int stop = tpy_tree_visit(e->arguments, visit, arg);
        if (!stop) stop = tpy_tree_visit(e->result, visit, arg);
        if (!stop) stop = tpy_guards_visit(e->guards, visit, arg);
        if (stop) return stop;
    }
    return tpy_guards_visit(c->found, visit, arg);
}

static int captured_clear(PyObject *self) {
    tpy_captured *c = (tpy_captured *)self;
    forget(c);
    Py_CLEAR(c->function);
    Py_CLEAR(c->miss);
    Py_CLEAR(c->dict);
    return 0;
}

static void captured_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((tpy_captured *)self)->weakrefs) PyObject_ClearWeakRefs(self);
    captured_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *captured_get(PyObject *self, PyObject *instance,
                              PyObject *owner) { /* a compiled method binds as a function does */
    (void)owner;
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

static PyObject *of_function(PyObject *self, void *name) {
    return PyObject_GetAttrString(((tpy_captured *)self)->function, name);
} /* what programs ask functions for */

static PyMethodDef captured_methods[] = {
    {"capture", (PyCFunction)(void (*)(void))capture, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"reset", reset, METH_NOARGS, NULL},
    {"counts", counts, METH_NOARGS, NULL},
    {"newest", newest, METH_NOARGS, NULL},
    {0}};
static PyMemberDef captured_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(tpy_captured, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(tpy_captured, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(tpy_captured, weakrefs), READONLY, NULL},
    {"function", T_OBJECT, offsetof(tpy_captured, function), READONLY, NULL},
    {"miss", T_OBJECT, offsetof(tpy_captured, miss), 0, NULL},
    {"count", T_LONGLONG, offsetof(tpy_captured, count), READONLY, NULL},
    {0}};
static PyGetSetDef captured_properties[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                            {"__code__", of_function, NULL, NULL, "__code__"},
                                            {"__defaults__", of_function, NULL, NULL, "__defaults__"},
                                            {"__kwdefaults__", of_function, NULL, NULL, "__kwdefaults__"},
                                            {0}};
static PyType_Slot captured_slots[] = {{Py_tp_new, captured_new},           {Py_tp_call, PyVectorcall_Call},
                                       {Py_tp_traverse, captured_traverse}, {Py_tp_clear, captured_clear},
                                       {Py_tp_dealloc, captured_dealloc},   {Py_tp_methods, captured_methods},
                                       {Py_tp_members, captured_members},   {Py_tp_getset, captured_properties},
                                       {Py_tp_descr_get, captured_get},     {0, NULL}};
static PyType_Spec captured_spec = {
    "taper._C.Captured", sizeof(tpy_captured), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL, captured_slots};

static PyObject *break_graph(PyObject *module, PyObject *why) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(why);
    return text ? PyBool_FromLong(tp_capture_break(text)) : NULL;
}
static PyObject *is_capturing(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(tp_capturing());
}
static PyObject *enable(PyObject *module, PyObject *on) {
    (void)module;
    bool before = enabled;
    enabled = PyObject_IsTrue(on) > 0;
    return PyBool_FromLong(before);
}
static PyMethodDef functions[] = {{"_graph_break", break_graph, METH_O, NULL},
                                  {"_is_capturing", is_capturing, METH_NOARGS, NULL},
                                  {"_graph_enable", enable, METH_O, NULL},
                                  {"_graph_run", run_graph, METH_VARARGS, NULL},
                                  {"_graph_save", save_graph, METH_VARARGS, NULL},
                                  {"_graph_load", load_graph, METH_VARARGS, NULL},
                                  {"_graph_about", describe_graph, METH_O, NULL},
                                  {"_graph_tensors", tensors_of_graph, METH_O, NULL},
                                  {0}};

int tpy_init_graph(PyObject *module) {
    if (PyModule_AddFunctions(module, functions) < 0) return -1;
    captured_type = (PyTypeObject *)PyType_FromSpec(&captured_spec);
    if (!captured_type || PyModule_AddObjectRef(module, "Captured", (PyObject *)captured_type) < 0) return -1;
    return tpy_proven_init(module);
}

/* Optimisers for Python: the table's optimisers as the package's classes ask for them, and their step. A step walks
 * PyTorch's own objects, `param_groups` (a list of dicts) and `state` (a dict per parameter), so that whatever a
 * program changes there counts; per group it is one call of the library. */
#include "tpy.h"

/* An optimiser of the table with its names as Python's; lives for ever, in a capsule. */
typedef struct optimiser {
    const tp_optimiser_kind *kind;
    PyObject **option, **state;
} optimiser;
static PyObject *word_params;
enum { VALUES = 64 }; /* of a group, at most */
static const char capsule_name[] = "taper optimiser";

static optimiser *optimiser_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, capsule_name); }

/* ---- Options ---- */
static int read_number(PyObject *o, double *out) {
    if (PyFloat_CheckExact(o)) {
        *out = PyFloat_AS_DOUBLE(o);
        return 0;
    }
    if (o == Py_None) {
        *out = Py_NAN;
        return 0;
    }
    if (tpy_is_tensor(o)) {
        *out = tp_item(tpy_unwrap(o));
        return tpy_int_or_raise(tp_ok(), 0);
    }
    *out = PyFloat_AsDouble(o);
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_choice(const tp_option_info *info, PyObject *o, double *out) {
    *out = 0;
    if (o == Py_None) return 0;
    for (int64_t i = 0; PyUnicode_Check(o) && info->choices[i]; i++)
        if (!PyUnicode_CompareWithASCIIString(o, info->choices[i])) {
            *out = (double)(i + 1);
            return 0;
        }
    PyObject *args = PyDict_New(), *message = NULL, *format = PyUnicode_FromString(info->message);
    if (args && format && PyDict_SetItemString(args, info->name, o) == 0)
        message = PyObject_CallMethod(format, "format_map", "O", args);
    if (message) PyErr_SetObject(PyExc_ValueError, message);
    Py_XDECREF(args);
    Py_XDECREF(format);
    Py_XDECREF(message);
    return -1;
}

static int read_list(const tp_option_info *info, PyObject *o, double *out) {
    PyObject *list = PySequence_Fast(o, "expected a tuple of numbers");
    if (!list) return -1;
    int bad = 0;
    if (PySequence_Fast_GET_SIZE(list) < info->count) {
        PyErr_Format(PyExc_ValueError, "%s: expected %lld values, got %zd", info->name, (long long)info->count,
                     PySequence_Fast_GET_SIZE(list));
        bad = -1;
    }
    for (int64_t k = 0; k < info->count && !bad; k++) bad = read_number(PySequence_Fast_GET_ITEM(list, k), &out[k]);
    Py_DECREF(list);
    return bad;
}

/* The values of a group; NULL: an exception. An option that the group does not have (an old checkpoint's) has its
 * default. */
static int read_values(const optimiser *o, PyObject *group, double *values) {
    for (int64_t i = 0; i < o->kind->noptions; i++) {
        const tp_option_info *info = &o->kind->options[i];
        if (!info->count) continue;
        PyObject *given = PyDict_GetItemWithError(group, o->option[i]);
        if (!given && PyErr_Occurred()) return -1;
        double *out = values + info->at;
        if (!given) {
            for (int64_t k = 0; k < info->count; k++) out[k] = o->kind->defaults[info->at + k];
            continue;
        }
        int bad;
        if (info->kind == TP_OPTION_STRING)
            bad = read_choice(info, given, out);
        else if (info->is_list)
            bad = read_list(info, given, out);
        else if (info->kind == TP_OPTION_BOOL) {
            int truth = PyObject_IsTrue(given);
            *out = truth;
            bad = truth < 0 ? -1 : 0;
        } else
            bad = read_number(given, out);
        if (bad) return -1;
    }
    return 0;
}

/* ---- A group's tensors ---- */
typedef struct gathered { /* what the tensors are is held while other threads run: a gradient may be replaced meanwhile
                           */
    Py_ssize_t n;
    int64_t elements;
    PyObject *params;                             /* a sequence, owned */
    PyObject **dicts;                             /* each parameter's state, borrowed, or NULL */
    tp_tensor **param, **grad, **before, **state; /* state: as before, and what the step makes */
    void *memory;
} gathered;

static void drop(gathered *g, int64_t nstates) {
    for (Py_ssize_t i = 0; g->memory && i < g->n; i++) {
        tp_release(g->param[i]);
        tp_release(g->grad[i]);
        for (int64_t k = 0; k < nstates; k++) tp_release(g->before[i * nstates + k]);
    }
    PyMem_Free(g->memory);
    Py_XDECREF(g->params);
}

static int reserve(gathered *g, int64_t nstates) {
    size_t n = (size_t)g->n, entries = n * (3 + 2 * (size_t)nstates);
    void **at = PyMem_Calloc(entries + 1, sizeof(void *));
    g->memory = at;
    if (!at) {
        PyErr_NoMemory();
        return -1;
    }
    g->dicts = (PyObject **)at;
    g->param = (tp_tensor **)(at + n);
    g->grad = (tp_tensor **)(at + 2 * n);
    g->state = (tp_tensor **)(at + 3 * n);
    g->before = g->state + n * (size_t)nstates;
    return 0;
}

/* One parameter's state from its dict. A plain number, as old checkpoints have for `step`, becomes a tensor there. */
static int find_state(const optimiser *o, PyObject *dict, tp_tensor **out) {
    for (int64_t k = 0; k < o->kind->nstates; k++) {
        PyObject *s = PyDict_GetItemWithError(dict, o->state[k]);
        if (!s && PyErr_Occurred()) return -1;
        if (!s || s == Py_None) continue;
        if (!tpy_is_tensor(s)) {
            PyObject *made = tpy_wrap(tpy_tensor_of(s, TP_FLOAT32, (tp_device){TP_CPU, 0}));
            if (!made || PyDict_SetItem(dict, o->state[k], made) < 0) {
                Py_XDECREF(made);
                return -1;
            }
            Py_DECREF(made); /* the dict holds it */
            s = made;
        }
        out[k] = tp_retain(tpy_unwrap(s));
    }
    return 0;
}

static int gather(const optimiser *o, PyObject *group, PyObject *state, gathered *g, bool all) {
    PyObject *params = PyDict_GetItemWithError(group, word_params);
    if (!params) {
        if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, word_params);
        return -1;
    }
    g->params = PySequence_Fast(params, "param_groups: 'params' must be a list of tensors");
    if (!g->params) return -1;
    g->n = PySequence_Fast_GET_SIZE(g->params);
    const int64_t nstates = o->kind->nstates;
    if (reserve(g, nstates) < 0) return -1;
    for (Py_ssize_t i = 0; i < g->n; i++) {
        PyObject *p = PySequence_Fast_GET_ITEM(g->params, i);
        if (!tpy_is_tensor(p)) {
            PyErr_Format(PyExc_TypeError, "optimizer can only optimize Tensors, but one of the params is %s",
                         Py_TYPE(p)->tp_name);
            return -1;
        }
        g->param[i] = tp_retain(tpy_unwrap(p));
        g->grad[i] = tp_retain(tp_grad(g->param[i]));
        if (!g->grad[i] && !all) continue;
        g->elements += tp_numel(g->param[i]);
        g->dicts[i] = nstates ? PyDict_GetItemWithError(state, p) : NULL;
        if (!g->dicts[i] && PyErr_Occurred()) return -1;
        if (g->dicts[i] && find_state(o, g->dicts[i], g->before + i * nstates) < 0) return -1;
    }
    memcpy(g->state, g->before, (size_t)(g->n * nstates) * sizeof *g->state);
    return 0;
}

/* Puts the state that the library made into the parameters' dicts. */
static int keep_made(const optimiser *o, PyObject *state, gathered *g) {
    const int64_t nstates = o->kind->nstates;
    int bad = 0;
    for (Py_ssize_t at = 0; at < g->n * nstates; at++) {
        if (g->state[at] == g->before[at]) continue;
        Py_ssize_t i = at / nstates;
        PyObject *made = tpy_wrap(g->state[at]);
        if (made && !g->dicts[i] && !bad) {
            PyObject *dict = PyDict_New();
            if (!dict || PyDict_SetItem(state, PySequence_Fast_GET_ITEM(g->params, i), dict) < 0) bad = -1;
            Py_XDECREF(dict);
            g->dicts[i] = dict;
        }
        if (!made || bad || PyDict_SetItem(g->dicts[i], o->state[at % nstates], made) < 0) bad = -1;
        Py_XDECREF(made);
    }
    return bad;
}

/* Reads the groups, steps them at once, and keeps what was made. */
static int step_groups(const optimiser *o, PyObject *groups, PyObject *state, bool start, gathered *g,
                       tp_update_group *u, double *values) {
    const Py_ssize_t n = PyList_GET_SIZE(groups);
    int64_t elements = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *group = PyList_GET_ITEM(groups, i);
        if (!PyDict_Check(group)) {
            PyErr_SetString(PyExc_TypeError, "param_groups must be a list of dicts");
            return -1;
        }
        if (read_values(o, group, values + i * VALUES) < 0 || gather(o, group, state, &g[i], start) < 0) return -1;
        u[i] = (tp_update_group){values + i * VALUES, g[i].n, g[i].param, g[i].grad, g[i].state};
        elements += g[i].elements;
    }
    bool ok;
    TPY_HEAVY(elements, ok = start ? tp_optimiser_start(o->kind, n, u) : tp_optimiser_update(o->kind, n, u));
    if (!ok) {
        tpy_raise();
        return -1;
    }
    int bad = 0;
    for (Py_ssize_t i = 0; i < n; i++) bad |= keep_made(o, state, &g[i]);
    return bad;
}

static int run_step(const optimiser *o, PyObject *list, PyObject *state, bool start) {
    const size_t groups = (size_t)PyList_GET_SIZE(list),
                 bytes = sizeof(gathered) + sizeof(tp_update_group) + VALUES * sizeof(double);
    gathered *g = PyMem_Calloc(groups + 1, bytes);
    if (!g) {
        PyErr_NoMemory();
        return -1;
    }
    tp_update_group *u = (tp_update_group *)(g + groups);
    int bad = step_groups(o, list, state, start, g, u, (double *)(u + groups));
    for (size_t i = 0; i < groups; i++) drop(&g[i], o->kind->nstates);
    PyMem_Free(g);
    return bad;
}

/* A step in a graph: the call itself, which reads the options and the state as they are at each run. */
typedef struct graph_step {
    PyObject *optimiser, *groups, *state;
    bool captured; /* later runs are ranges of profiles as the first is, which Python opens */
} graph_step;

static bool step_again(void *context) {
    PyGILState_STATE gil = PyGILState_Ensure();
    graph_step *s = context;
    const optimiser *o = optimiser_of(s->optimiser);
    char name[96];
    snprintf(name, sizeof name, "Optimizer.step#%s.step", o->kind->name);
    int64_t range = s->captured ? tp_range_begin(name) : -1;
    s->captured = true;
    bool ok = PyList_Check(s->groups) && run_step(o, s->groups, s->state, false) == 0;
    tp_range_end(range);
    PyGILState_Release(gil);
    return ok;
}

static void drop_step(void *context) {
    PyGILState_STATE gil = PyGILState_Ensure();
    graph_step *s = context;
    Py_DECREF(s->optimiser);
    Py_DECREF(s->groups);
    Py_DECREF(s->state);
    PyMem_Free(s);
    PyGILState_Release(gil);
}

/* _optimiser_step(optimiser, param_groups, state, start=False): start makes the state and changes nothing else. */
static PyObject *optimiser_step(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    optimiser *o = n >= 3 ? optimiser_of(args[0]) : NULL;
    if (!o)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "expected an optimiser, param_groups and state");
    if (!PyList_Check(args[1]) || !PyDict_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "param_groups must be a list and state a dict");
    bool start = n > 3 && args[3] == Py_True, ok;
    if (!start && tp_capturing()) {
        graph_step *s = PyMem_Malloc(sizeof *s);
        if (!s) return PyErr_NoMemory();
        *s = (graph_step){Py_NewRef(args[0]), Py_NewRef(args[1]), Py_NewRef(args[2]), false};
        ok = tp_capture_call(step_again, drop_step, s);
        if (!ok && !PyErr_Occurred()) return tpy_raise();
    } else
        ok = run_step(o, args[1], args[2], start) == 0;
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

/* _forget_grads(param_groups): every p.grad becomes None. */
static PyObject *forget_grads(PyObject *module, PyObject *groups) {
    (void)module;
    if (!PyList_Check(groups)) return PyErr_Format(PyExc_TypeError, "param_groups must be a list");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups); i++) {
        PyObject *group = PyList_GET_ITEM(groups, i),
                 *params = PyDict_Check(group) ? PyDict_GetItemWithError(group, word_params) : NULL;
        PyObject *list = params ? PySequence_Fast(params, "param_groups: 'params' must be a list of tensors") : NULL;
        if (!list) {
            if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, word_params);
            return NULL;
        }
        bool ok = true;
        for (Py_ssize_t k = 0; ok && k < PySequence_Fast_GET_SIZE(list); k++) {
            PyObject *p = PySequence_Fast_GET_ITEM(list, k);
            ok = !tpy_is_tensor(p) || (tpy_forget_sparse_grad(p) && tp_zero_grad(tpy_unwrap(p)));
        }
        Py_DECREF(list);
        if (!ok) return PyErr_Occurred() ? NULL : tpy_raise();
    }
    Py_RETURN_NONE;
}

/* ---- L-BFGS: its memory is the dict of the first parameter, under PyTorch's names ---- */
typedef struct closure {
    PyObject *function, *first; /* first: what the first call gave, owned */
} closure;
static bool call_closure(void *context, double *loss) {
    closure *c = context;
    PyObject *result = PyObject_CallNoArgs(c->function);
    if (!result || read_number(result, loss) < 0) {
        Py_XDECREF(result);
        return false;
    }
    if (c->first)
        Py_DECREF(result);
    else
        c->first = result;
    return true;
}

static int get_number(PyObject *dict, const char *name, double *out) {
    PyObject *o = PyDict_GetItemString(dict, name);
    return o ? read_number(o, out) : 0;
}
static int get_tensor(PyObject *o, tp_tensor **out) {
    if (!o || o == Py_None) return 0;
    if (!tpy_is_tensor(o)) {
        PyErr_SetString(PyExc_TypeError, "LBFGS: its state holds something that should be a tensor");
        return -1;
    }
    *out = tpy_unwrap(o);
    return 0;
}

/* Fills the memory from the dict's lists, n long; `scratch` has space for 2 n tensors and n numbers. */
static int load_lists(PyObject *dict, Py_ssize_t n, tp_lbfgs_state *s, void *scratch) {
    tp_tensor **dirs = scratch, **steps = dirs + n;
    double *ro = (double *)(steps + n);
    PyObject *d = PyDict_GetItemString(dict, "old_dirs"), *t = PyDict_GetItemString(dict, "old_stps"),
             *r = PyDict_GetItemString(dict, "ro");
    if (!d || !t || !r || !PyList_Check(t) || !PyList_Check(r) || PyList_GET_SIZE(t) != n || PyList_GET_SIZE(r) != n) {
        PyErr_SetString(PyExc_ValueError, "LBFGS: old_dirs, old_stps and ro in its state must be lists of one length");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (get_tensor(PyList_GET_ITEM(d, i), &dirs[i]) < 0 || get_tensor(PyList_GET_ITEM(t, i), &steps[i]) < 0 ||
            read_number(PyList_GET_ITEM(r, i), &ro[i]) < 0)
            return -1;
    s->n = n;
    s->old_dirs = dirs;
    s->old_stps = steps;
    s->ro = ro;
    return 0;
}

static int load_memory(PyObject *dict, tp_lbfgs_memory *memory) {
    tp_lbfgs_state s = {.size = sizeof s};
    tp_lbfgs_get(memory, &s);
    double evals = 0, iterations = 0;
    if (get_number(dict, "func_evals", &evals) < 0 || get_number(dict, "n_iter", &iterations) < 0 ||
        get_number(dict, "t", &s.t) < 0 || get_number(dict, "H_diag", &s.h_diag) < 0 ||
        get_number(dict, "prev_loss", &s.prev_loss) < 0 || get_tensor(PyDict_GetItemString(dict, "d"), &s.d) < 0 ||
        get_tensor(PyDict_GetItemString(dict, "prev_flat_grad"), &s.prev_flat_grad) < 0)
        return -1;
    s.func_evals = (int64_t)evals;
    s.n_iter = (int64_t)iterations;
    PyObject *dirs = PyDict_GetItemString(dict, "old_dirs");
    Py_ssize_t n = dirs && PyList_Check(dirs) ? PyList_GET_SIZE(dirs) : 0;
    void *scratch = PyMem_Calloc((size_t)n + 1, 2 * sizeof(tp_tensor *) + sizeof(double));
    if (!scratch) {
        PyErr_NoMemory();
        return -1;
    }
    int bad = n ? load_lists(dict, n, &s, scratch) : 0;
    if (!bad && !tp_lbfgs_set(memory, &s)) {
        tpy_raise();
        bad = -1;
    }
    PyMem_Free(scratch);
    return bad;
}

static int put_new(PyObject *dict, const char *name, PyObject *value) { /* takes value over */
    int bad = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return bad;
}
static PyObject *tensor_list(int64_t n, tp_tensor *const *v) {
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *t = tpy_wrap(tp_retain(v[i]));
        if (t)
            PyList_SET_ITEM(list, i, t);
        else
            Py_CLEAR(list);
    }
    return list;
}
static PyObject *number_list(int64_t n, const double *v) {
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *x = PyFloat_FromDouble(v[i]);
        if (x)
            PyList_SET_ITEM(list, i, x);
        else
            Py_CLEAR(list);
    }
    return list;
}

static int store_memory(PyObject *dict, const tp_lbfgs_memory *memory) {
    tp_lbfgs_state s = {.size = sizeof s};
    tp_lbfgs_get(memory, &s);
    int bad = put_new(dict, "func_evals", PyLong_FromLongLong(s.func_evals)) |
              put_new(dict, "n_iter", PyLong_FromLongLong(s.n_iter));
    if (bad || !s.d) return bad;
    return put_new(dict, "d", tpy_wrap(tp_retain(s.d))) | put_new(dict, "t", PyFloat_FromDouble(s.t)) |
           put_new(dict, "old_dirs", tensor_list(s.n, s.old_dirs)) |
           put_new(dict, "old_stps", tensor_list(s.n, s.old_stps)) | put_new(dict, "ro", number_list(s.n, s.ro)) |
           put_new(dict, "H_diag", PyFloat_FromDouble(s.h_diag)) |
           put_new(dict, "prev_flat_grad", tpy_wrap(tp_retain(s.prev_flat_grad))) |
           put_new(dict, "prev_loss", PyFloat_FromDouble(s.prev_loss));
}

static int lbfgs_run(const optimiser *o, PyObject *group, PyObject *dict, closure *c, tp_lbfgs_memory *memory) {
    double values[VALUES], loss;
    if (!memory) {
        tpy_raise();
        return -1;
    }
    if (read_values(o, group, values) < 0 || load_memory(dict, memory) < 0) return -1;
    gathered g = {0};
    int bad = gather(o, group, dict, &g, true);
    if (!bad && !tp_lbfgs_step(memory, values, (tp_tensors){g.param, g.n}, call_closure, c, &loss)) {
        if (!PyErr_Occurred()) tpy_raise();
        bad = -1;
    }
    drop(&g, 0);
    return bad ? bad : store_memory(dict, memory);
}

/* _lbfgs_step(optimiser, group, state of the first parameter, closure): what the closure gave first. */
static PyObject *lbfgs_step(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule, *group, *dict;
    closure c = {NULL, NULL};
    if (!PyArg_ParseTuple(args, "OO!O!O", &capsule, &PyDict_Type, &group, &PyDict_Type, &dict, &c.function))
        return NULL;
    optimiser *o = optimiser_of(capsule);
    if (!o) return NULL;
    tp_lbfgs_memory *memory = tp_lbfgs_memory_new();
    int bad = lbfgs_run(o, group, dict, &c, memory);
    tp_lbfgs_memory_free(memory);
    if (!bad) return c.first;
    Py_XDECREF(c.first);
    return NULL;
}

/* _optimiser_check(optimiser, defaults): None, or the message of the first check that fails, to be formatted, and the
 * values for it. */
static PyObject *optimiser_check(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule, *defaults;
    double values[VALUES];
    if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyDict_Type, &defaults)) return NULL;
    optimiser *o = optimiser_of(capsule);
    if (!o || read_values(o, defaults, values) < 0) return NULL;
    int64_t failed = tp_optimiser_check(o->kind, values);
    return failed < 0 ? Py_NewRef(Py_None) : PyUnicode_FromString(o->kind->messages[failed]);
}

/* ---- The table ---- */
static void capsule_gone(PyObject *capsule) {
    optimiser *o = optimiser_of(capsule);
    for (int64_t i = 0; i < o->kind->noptions; i++) Py_XDECREF(o->option[i]);
    for (int64_t i = 0; i < o->kind->nstates; i++) Py_XDECREF(o->state[i]);
    PyMem_Free(o);
}

static PyObject *make_capsule(const tp_optimiser_kind *kind) {
    size_t words = (size_t)(kind->noptions + kind->nstates);
    optimiser *o = PyMem_Calloc(1, sizeof *o + words * sizeof(PyObject *));
    if (!o) return PyErr_NoMemory();
    o->kind = kind;
    o->option = (PyObject **)(o + 1);
    o->state = o->option + kind->noptions;
    bool ok = true;
    for (int64_t i = 0; i < kind->noptions && ok; i++)
        ok = (o->option[i] = PyUnicode_InternFromString(kind->options[i].name)) != NULL;
    for (int64_t i = 0; i < kind->nstates && ok; i++)
        ok = (o->state[i] = PyUnicode_InternFromString(kind->states[i])) != NULL;
    PyObject *capsule = ok ? PyCapsule_New(o, capsule_name, capsule_gone) : NULL;
    if (!capsule) PyMem_Free(o);
    return capsule;
}

static PyObject *option_rows(const tp_optimiser_kind *kind) {
    PyObject *rows = PyList_New(0);
    for (int64_t i = 0; rows && i < kind->noptions; i++) {
        const tp_option_info *p = &kind->options[i];
        PyObject *row = Py_BuildValue("(ssNN)", p->name, p->default_value, PyBool_FromLong(p->keyword_only),
                                      PyBool_FromLong(p->fixed));
        if (!row || PyList_Append(rows, row) < 0) Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

/* The values' names, in order, with the option that holds each and its place there (-1: it is the option). */
static PyObject *value_rows(const tp_optimiser_kind *kind) {
    PyObject *rows = PyList_New(0);
    for (int64_t i = 0; rows && i < kind->noptions; i++)
        for (int64_t k = 0; rows && k < kind->options[i].count; k++) {
            const tp_option_info *p = &kind->options[i];
            PyObject *row = Py_BuildValue("(ssL)", kind->values[p->at + k], p->name, (long long)(p->is_list ? k : -1));
            if (!row || PyList_Append(rows, row) < 0) Py_CLEAR(rows);
            Py_XDECREF(row);
        }
    return rows;
}

/* _optimiser(name): (capsule, doc, like, options, names in the order of groups, values, is state made early) */
static PyObject *optimiser_named(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    const tp_optimiser_kind *kind = text ? tp_optimiser_kind_named(text) : NULL;
    if (!kind) return text ? PyErr_Format(PyExc_ValueError, "no optimiser is called '%s'", text) : NULL;
    PyObject *order = PyList_New(0);
    for (int64_t i = 0; order && i < kind->noptions; i++) {
        PyObject *word = PyUnicode_FromString(kind->options[kind->group[i]].name);
        if (!word || PyList_Append(order, word) < 0) Py_CLEAR(order);
        Py_XDECREF(word);
    }
    return Py_BuildValue("(NszNNNN)", make_capsule(kind), kind->doc, kind->like, option_rows(kind), order,
                         value_rows(kind), PyBool_FromLong(kind->early));
}

/* _optimiser_formula(optimiser): the update as Python source, or None */
static PyObject *optimiser_formula(PyObject *module, PyObject *capsule) {
    (void)module;
    const optimiser *o = optimiser_of(capsule);
    if (!o) return NULL;
    return o->kind->formula ? PyUnicode_FromString(o->kind->formula) : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {{"_optimiser", optimiser_named, METH_O, NULL},
                                  {"_optimiser_formula", optimiser_formula, METH_O, NULL},
                                  {"_optimiser_check", optimiser_check, METH_VARARGS, NULL},
                                  {"_lbfgs_step", lbfgs_step, METH_VARARGS, NULL},
                                  {"_forget_grads", forget_grads, METH_O, NULL},
                                  {"_optimiser_step", (PyCFunction)(void (*)(void))optimiser_step, METH_FASTCALL, NULL},
                                  {0}};

int tpy_init_optim(PyObject *module) {
    if (!(word_params = PyUnicode_InternFromString("params"))) return -1;
    return PyModule_AddFunctions(module, functions);
}

/* Optimisers for Python: the table's optimisers as the package's classes ask for them, and their step. A step walks PyTorch's own objects,
 * `param_groups` (a list of dicts) and `state` (a dict per parameter), so that whatever a program changes there counts; per group it is one
 * call of the library. */
#include "tpy.h"

/* An optimiser of the table with its names as Python's; lives for ever, in a capsule. */
typedef struct optimiser {
    const tp_optimiser_kind *kind;
    PyObject **option, **state;
} optimiser;
static PyObject *word_params;
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
        return tp_ok() ? 0 : (tpy_raise(), -1);
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
    if (args && format && PyDict_SetItemString(args, info->name, o) == 0) message = PyObject_CallMethod(format, "format_map", "O", args);
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
        PyErr_Format(PyExc_ValueError, "%s: expected %lld values, got %zd", info->name, (long long)info->count, PySequence_Fast_GET_SIZE(list));
        bad = -1;
    }
    for (int64_t k = 0; k < info->count && !bad; k++) bad = read_number(PySequence_Fast_GET_ITEM(list, k), &out[k]);
    Py_DECREF(list);
    return bad;
}

/* The values of a group; NULL: an exception. An option that the group does not have (an old checkpoint's) has its default. */
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
        if (info->kind == TP_OPTION_STRING) bad = read_choice(info, given, out);
        else if (info->is_list) bad = read_list(info, given, out);
        else if (info->kind == TP_OPTION_BOOL) {
            int truth = PyObject_IsTrue(given);
            *out = truth;
            bad = truth < 0 ? -1 : 0;
        } else bad = read_number(given, out);
        if (bad) return -1;
    }
    return 0;
}

/* ---- A group's tensors ---- */
typedef struct gathered {
    Py_ssize_t n;
    int64_t elements;
    PyObject *params;     /* a sequence, owned */
    PyObject **dicts;     /* each parameter's state, borrowed, or NULL */
    tp_tensor **param, **grad, **state, **before;
    void *memory;
} gathered;

static void drop(gathered *g) {
    PyMem_Free(g->memory);
    Py_XDECREF(g->params);
}

static int make_room(gathered *g, int64_t nstates) {
    size_t n = (size_t)g->n, entries = n * (3 + 2 * (size_t)nstates);
    void **at = g->memory = PyMem_Calloc(entries + 1, sizeof(void *));
    if (!at) return PyErr_NoMemory(), -1;
    g->dicts = (PyObject **)at, g->param = (tp_tensor **)(at + n), g->grad = (tp_tensor **)(at + 2 * n);
    g->state = (tp_tensor **)(at + 3 * n), g->before = g->state + n * (size_t)nstates;
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
            if (!made || PyDict_SetItem(dict, o->state[k], made) < 0) return Py_XDECREF(made), -1;
            Py_DECREF(made); /* the dict holds it */
            s = made;
        }
        out[k] = tpy_unwrap(s);
    }
    return 0;
}

static int gather(const optimiser *o, PyObject *group, PyObject *state, gathered *g, bool all) {
    PyObject *params = PyDict_GetItemWithError(group, word_params);
    if (!params) return PyErr_Occurred() ? -1 : (PyErr_SetObject(PyExc_KeyError, word_params), -1);
    g->params = PySequence_Fast(params, "param_groups: 'params' must be a list of tensors");
    if (!g->params) return -1;
    g->n = PySequence_Fast_GET_SIZE(g->params);
    const int64_t nstates = o->kind->nstates;
    if (make_room(g, nstates) < 0) return -1;
    for (Py_ssize_t i = 0; i < g->n; i++) {
        PyObject *p = PySequence_Fast_GET_ITEM(g->params, i);
        if (!tpy_is_tensor(p)) return PyErr_Format(PyExc_TypeError, "optimizer can only optimize Tensors, but one of the params is %s", Py_TYPE(p)->tp_name), -1;
        g->param[i] = tpy_unwrap(p);
        g->grad[i] = tp_grad(g->param[i]);
        if (!g->grad[i] && !all) continue;
        g->elements += tp_numel(g->param[i]);
        g->dicts[i] = nstates ? PyDict_GetItemWithError(state, p) : NULL;
        if (!g->dicts[i] && PyErr_Occurred()) return -1;
        if (g->dicts[i] && find_state(o, g->dicts[i], g->state + i * nstates) < 0) return -1;
    }
    memcpy(g->before, g->state, (size_t)(g->n * nstates) * sizeof *g->state);
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

static int step_group(const optimiser *o, PyObject *group, PyObject *state, bool start) {
    if (!PyDict_Check(group)) return PyErr_SetString(PyExc_TypeError, "param_groups must be a list of dicts"), -1;
    double values[64];
    if (read_values(o, group, values) < 0) return -1;
    gathered g = {0};
    int bad = gather(o, group, state, &g, start);
    if (!bad) {
        bool ok;
        if (start) ok = tp_optimiser_start(o->kind, values, g.n, g.param, g.state);
        else TPY_HEAVY(g.elements, ok = tp_optimiser_update(o->kind, values, g.n, g.param, g.grad, g.state));
        if (ok) bad = keep_made(o, state, &g);
        else tpy_raise(), bad = -1;
    }
    drop(&g);
    return bad;
}

/* _optimiser_step(optimiser, param_groups, state, start=False): start makes the state and changes nothing else. */
static PyObject *optimiser_step(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    optimiser *o = n >= 3 ? optimiser_of(args[0]) : NULL;
    if (!o) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "expected an optimiser, param_groups and state");
    if (!PyList_Check(args[1]) || !PyDict_Check(args[2])) return PyErr_Format(PyExc_TypeError, "param_groups must be a list and state a dict");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[1]); i++)
        if (step_group(o, PyList_GET_ITEM(args[1], i), args[2], n > 3 && args[3] == Py_True) < 0) return NULL;
    Py_RETURN_NONE;
}

/* _optimiser_check(optimiser, defaults): None, or the message of the first check that fails, to be formatted, and the values for it. */
static PyObject *optimiser_check(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule, *defaults;
    double values[64];
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
    o->kind = kind, o->option = (PyObject **)(o + 1), o->state = o->option + kind->noptions;
    bool ok = true;
    for (int64_t i = 0; i < kind->noptions && ok; i++) ok = (o->option[i] = PyUnicode_InternFromString(kind->options[i].name)) != NULL;
    for (int64_t i = 0; i < kind->nstates && ok; i++) ok = (o->state[i] = PyUnicode_InternFromString(kind->states[i])) != NULL;
    PyObject *capsule = ok ? PyCapsule_New(o, capsule_name, capsule_gone) : NULL;
    if (!capsule) PyMem_Free(o);
    return capsule;
}

static PyObject *option_rows(const tp_optimiser_kind *kind) {
    PyObject *rows = PyList_New(0);
    for (int64_t i = 0; rows && i < kind->noptions; i++) {
        const tp_option_info *p = &kind->options[i];
        PyObject *row = Py_BuildValue("(ssNN)", p->name, p->default_value, PyBool_FromLong(p->keyword_only), PyBool_FromLong(p->fixed));
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
    return Py_BuildValue("(NszNNNN)", make_capsule(kind), kind->doc, kind->like, option_rows(kind), order, value_rows(kind), PyBool_FromLong(kind->early));
}

static PyMethodDef functions[] = {{"_optimiser", optimiser_named, METH_O, NULL}, {"_optimiser_check", optimiser_check, METH_VARARGS, NULL},
    {"_optimiser_step", (PyCFunction)(void (*)(void))optimiser_step, METH_FASTCALL, NULL}, {0}};

int tpy_init_optim(PyObject *module) {
    if (!(word_params = PyUnicode_InternFromString("params"))) return -1;
    return PyModule_AddFunctions(module, functions);
}

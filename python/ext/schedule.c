/* The formulas of learning-rate schedules for Python. The classes that users subclass keep groups, rates and counts in
 * Python's objects; what the numbers become is worked out by the library (taper/schedule.h). */
#include "tpy.h"
#include <math.h>
#include <taper/schedule.h>

/* A dict of options that are numbers, over the library's defaults. */
static bool read_options(PyObject *dict, tp_schedule_options *out) {
    *out = (tp_schedule_options){TP_SCHEDULE_DEFAULTS_};
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &name, &value)) {
        const char *text = PyUnicode_AsUTF8(name);
        const double number = text ? PyFloat_AsDouble(value) : -1;
        if (!text || (number == -1 && PyErr_Occurred())) return false;
        if (!tp_schedule_option(out, text, number)) {
            PyErr_Format(PyExc_TypeError, "schedules have no option '%s'", text);
            return false;
        }
    }
    return true;
}

static PyObject *described(const tp_rate_change *c) {
    if (c->keep) return Py_NewRef(Py_None);
    return Py_BuildValue("(ddNN)", c->by, c->low, PyBool_FromLong(c->from_base), PyBool_FromLong(c->rise));
}

/* _rate_change(kind, options, milestones, epoch, steps, T_cur, T_i, initial, closed): None or (by, low, from_base,
 * rise) */
static PyObject *rate_change(PyObject *module, PyObject *args) {
    (void)module;
    const char *kind;
    PyObject *dict, *list;
    tp_schedule_options options;
    tp_schedule_place place = {.size = sizeof place};
    int initial, closed;
    if (!PyArg_ParseTuple(args, "sO!O!ddddpp", &kind, &PyDict_Type, &dict, &PyList_Type, &list, &place.epoch,
                          &place.steps, &place.T_cur, &place.T_i, &initial, &closed) ||
        !read_options(dict, &options))
        return NULL;
    place.initial = initial;
    place.closed = closed;
    const Py_ssize_t n = PyList_GET_SIZE(list);
    int64_t *milestones = PyMem_Calloc((size_t)n + 1, sizeof *milestones);
    if (!milestones) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) milestones[i] = PyLong_AsLongLong(PyList_GET_ITEM(list, i));
    options.milestones = (tp_ints){.v = milestones, .n = n};
    tp_rate_change change = {.size = sizeof change};
    PyObject *result = NULL;
    if (!PyErr_Occurred())
        result = tp_rate_change_at(kind, &options, &place, &change) ? described(&change) : tpy_raise();
    PyMem_Free(milestones);
    return result;
}

/* _restarts_move(options, last_epoch, T_cur, T_i, epoch or NaN): (last_epoch, T_cur, T_i) */
static PyObject *restarts_move(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *dict;
    tp_schedule_options options;
    tp_schedule_place place = {.size = sizeof place};
    double epoch;
    if (!PyArg_ParseTuple(args, "O!dddd", &PyDict_Type, &dict, &place.epoch, &place.T_cur, &place.T_i, &epoch) ||
        !read_options(dict, &options))
        return NULL;
    if (!tp_restarts_move(&options, &place, epoch)) return tpy_raise();
    return Py_BuildValue("(ddd)", place.epoch, place.T_cur, place.T_i);
}

static PyObject *no_length(const char *what) {
    return PyErr_Format(PyExc_ZeroDivisionError, "%s of the schedule has no length", what);
}

/* _cycle_height(epoch, total_size, step_ratio): (height, cycle) */
static PyObject *cycle_height(PyObject *module, PyObject *args) {
    (void)module;
    double epoch, total, ratio, cycle;
    if (!PyArg_ParseTuple(args, "ddd", &epoch, &total, &ratio)) return NULL;
    const double height = tp_cycle_height(epoch, total, ratio, &cycle);
    if (!isfinite(height)) return no_length("a cycle");
    return Py_BuildValue("(dL)", height, (long long)cycle);
}
static PyObject *cycle_scale(PyObject *module, PyObject *args) {
    (void)module;
    const char *mode;
    double gamma, x;
    if (!PyArg_ParseTuple(args, "sdd", &mode, &gamma, &x)) return NULL;
    return PyFloat_FromDouble(tp_cycle_scale(mode, gamma, x));
}

/* _one_cycle_ends(total_steps, pct_start, three_phase): the last epoch of each phase */
static PyObject *one_cycle_ends(PyObject *module, PyObject *args) {
    (void)module;
    double total, share, ends[3];
    int three;
    if (!PyArg_ParseTuple(args, "ddp", &total, &share, &three)) return NULL;
    const int64_t n = tp_one_cycle_ends(total, share, three, ends);
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) PyList_SET_ITEM(list, i, PyFloat_FromDouble(ends[i]));
    return list;
}
/* _one_cycle_phase(epoch, ends): (number of the phase, share of it that has passed) */
static PyObject *one_cycle_phase(PyObject *module, PyObject *args) {
    (void)module;
    double epoch, ends[3], share;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "dO!", &epoch, &PyList_Type, &list)) return NULL;
    const Py_ssize_t n = PyList_GET_SIZE(list);
    if (n < 1 || n > 3) return PyErr_Format(PyExc_ValueError, "expected one to three phases, got %zd", n);
    for (Py_ssize_t i = 0; i < n; i++) ends[i] = PyFloat_AsDouble(PyList_GET_ITEM(list, i));
    if (PyErr_Occurred()) return NULL;
    const int64_t phase = tp_one_cycle_phase(epoch, n, ends, &share);
    if (!isfinite(share)) return no_length("a phase");
    return Py_BuildValue("(Ld)", (long long)phase, share);
}
static PyObject *anneal(PyObject *module, PyObject *args) {
    (void)module;
    const char *strategy;
    double start, end, share;
    if (!PyArg_ParseTuple(args, "sddd", &strategy, &start, &end, &share)) return NULL;
    return PyFloat_FromDouble(tp_anneal(strategy, start, end, share));
}

/* _plateau_is_better(options, mode, threshold_mode, figure, best) */
static PyObject *plateau_is_better(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *dict;
    const char *mode, *threshold_mode;
    double figure, best;
    tp_schedule_options options;
    if (!PyArg_ParseTuple(args, "O!ssdd", &PyDict_Type, &dict, &mode, &threshold_mode, &figure, &best) ||
        !read_options(dict, &options))
        return NULL;
    options.mode = mode;
    options.threshold_mode = threshold_mode;
    return PyBool_FromLong(tp_plateau_is_better(&options, figure, best));
}
/* _plateau_count(options, better, bad epochs, epochs to rest): (is it time to reduce, bad epochs, epochs to rest) */
static PyObject *plateau_count(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *dict;
    double bad, cooling;
    int better;
    tp_schedule_options options;
    if (!PyArg_ParseTuple(args, "O!pdd", &PyDict_Type, &dict, &better, &bad, &cooling) || !read_options(dict, &options))
        return NULL;
    const bool reduce = tp_plateau_count(&options, better, &bad, &cooling);
    return Py_BuildValue("(NLL)", PyBool_FromLong(reduce), (long long)bad, (long long)cooling);
}
/* _plateau_reduced(options, rate): the rate after a reduction */
static PyObject *plateau_reduced(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *dict;
    double rate;
    tp_schedule_options options;
    if (!PyArg_ParseTuple(args, "O!d", &PyDict_Type, &dict, &rate) || !read_options(dict, &options)) return NULL;
    return PyFloat_FromDouble(tp_plateau_reduced(&options, rate));
}

static PyMethodDef functions[] = {{"_rate_change", rate_change, METH_VARARGS, NULL},
                                  {"_restarts_move", restarts_move, METH_VARARGS, NULL},
                                  {"_cycle_height", cycle_height, METH_VARARGS, NULL},
                                  {"_cycle_scale", cycle_scale, METH_VARARGS, NULL},
                                  {"_one_cycle_ends", one_cycle_ends, METH_VARARGS, NULL},
                                  {"_one_cycle_phase", one_cycle_phase, METH_VARARGS, NULL},
                                  {"_anneal", anneal, METH_VARARGS, NULL},
                                  {"_plateau_is_better", plateau_is_better, METH_VARARGS, NULL},
                                  {"_plateau_count", plateau_count, METH_VARARGS, NULL},
                                  {"_plateau_reduced", plateau_reduced, METH_VARARGS, NULL},
                                  {0}};

int tpy_init_schedule(PyObject *module) { return PyModule_AddFunctions(module, functions); }

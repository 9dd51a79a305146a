/* Optimisers and schedules in files, in the layout of PyTorch's state_dict: {"state": {0: {"step": ..., "exp_avg":
 * ...}}, "param_groups": [{"lr": ..., "params": [0, 1]}]}. What is loaded goes into an optimiser of its own first, and
 * takes the place of the old state when everything has fitted. */
#include "autograd/glue.h"
#include "base/memory.h"
#include "data/training.h"
#include "optim/optimiser.h"
#include "optim/rates.h"
#include <math.h>
#include <string.h>

#define OF_KIND "_kind" /* beside PyTorch's keys: whose state it is. PyTorch reads over it */

/* ---- writing ---- */
static bool put_option_value(tp_file *f, tp_saved *into, const char *key, const tp_option_info *option, double value) {
    if (isnan(value)) return tp_put_none(f, into, key);
    switch (option->kind) {
    case TP_OPTION_BOOL: return tp_put_number(f, into, key, tp_truth(value != 0));
    case TP_OPTION_INT: return tp_put_number(f, into, key, tp_int((int64_t)value));
    case TP_OPTION_STRING:
        return value > 0 ? tp_put_text(f, into, key, option->choices[(int64_t)value - 1]) : tp_put_none(f, into, key);
    default: return tp_put_number(f, into, key, tp_float(value));
    }
}

static bool put_option(tp_file *f, tp_saved *group, const tp_option_info *option, const double *values) {
    if (!option->count) { /* without a meaning here: PyTorch's default */
        if (!strcmp(option->default_value, "True") || !strcmp(option->default_value, "False"))
            return tp_put_number(f, group, option->name, tp_truth(option->default_value[0] == 'T'));
        return tp_put_none(f, group, option->name);
    }
    if (!option->is_list) return put_option_value(f, group, option->name, option, values[option->at]);
    tp_saved *list = tp_put_tuple(f, group, option->name);
    bool fine = list != NULL;
    for (int64_t i = 0; fine && i < option->count; i++)
        fine = put_option_value(f, list, NULL, option, values[option->at + i]);
    return fine;
}

static bool put_group(tp_file *f, tp_saved *groups, const tp_optimiser *o, int64_t g, int64_t *param) {
    tp_saved *group = tp_put_dict(f, groups, NULL);
    bool fine = group != NULL;
    for (int64_t i = 0; fine && i < o->kind->noptions; i++)
        fine = put_option(f, group, &o->kind->options[o->kind->group[i]], o->groups[g].values);
    if (fine && !isnan(o->groups[g].initial_lr))
        fine = tp_put_number(f, group, "initial_lr", tp_float(o->groups[g].initial_lr));
    tp_saved *params = fine ? tp_put_list(f, group, "params") : NULL;
    fine = params != NULL;
    for (int64_t i = 0; fine && i < o->groups[g].n; i++) fine = tp_put_number(f, params, NULL, tp_int((*param)++));
    return fine;
}

static bool put_param_state(tp_file *f, tp_saved *states, const tp_optimiser *o, const tpi_group *g, int64_t i,
                            int64_t param) {
    tp_saved *dict = NULL;
    bool fine = true;
    for (int64_t k = 0; fine && k < o->kind->nstates; k++) {
        tp_tensor *t = g->states[i * o->kind->nstates + k];
        if (!t) continue;
        if (!dict) dict = tp_put_dict_int(f, states, param);
        fine = dict && tp_put_tensor(f, dict, o->kind->states[k], t);
    }
    return fine;
}

static bool put_numbers(tp_file *f, tp_saved *into, int64_t n, const char *const *names, const tp_scalar *numbers) {
    bool fine = true;
    for (int64_t i = 0; fine && i < n; i++) fine = tp_put_number(f, into, names[i], numbers[i]);
    return fine;
}

/* L-BFGS keeps everything under its first parameter. */
static bool put_lbfgs(tp_file *f, tp_saved *states, const tp_lbfgs_memory *memory) {
    tp_lbfgs_state s = {.size = (int64_t)sizeof s};
    tp_lbfgs_get(memory, &s);
    if (!s.n_iter) return true;
    tp_saved *dict = tp_put_dict_int(f, states, 0);
    bool fine = dict && put_numbers(f, dict, 5, (const char *[]){"func_evals", "n_iter", "t", "H_diag", "prev_loss"},
                                    (tp_scalar[]){tp_int(s.func_evals), tp_int(s.n_iter), tp_float(s.t),
                                                  tp_float(s.h_diag), tp_float(s.prev_loss)});
    if (fine && s.d) fine = tp_put_tensor(f, dict, "d", s.d);
    if (fine && s.prev_flat_grad) fine = tp_put_tensor(f, dict, "prev_flat_grad", s.prev_flat_grad);
    tp_saved *dirs = fine ? tp_put_list(f, dict, "old_dirs") : NULL;
    tp_saved *steps = dirs ? tp_put_list(f, dict, "old_stps") : NULL;
    tp_saved *ro = steps ? tp_put_list(f, dict, "ro") : NULL;
    fine = ro != NULL;
    for (int64_t i = 0; fine && i < s.n; i++)
        fine = tp_put_tensor(f, dirs, NULL, s.old_dirs[i]) && tp_put_tensor(f, steps, NULL, s.old_stps[i]) &&
               tp_put_number(f, ro, NULL, tp_float(s.ro[i]));
    return fine;
}

bool tp_put_optimiser(tp_file *file, tp_saved *into, const char *key, const tp_optimiser *o) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(file, "a file") || !TPI_HANDLE_GIVEN(o, "an optimiser")) return false;
    tp_saved *dict = tp_put_dict(file, into, key), *states = dict ? tp_put_dict(file, dict, "state") : NULL;
    bool fine = states && tp_put_text(file, dict, OF_KIND, o->kind->name);
    if (fine && o->lbfgs) fine = put_lbfgs(file, states, o->lbfgs);
    int64_t param = 0;
    for (int64_t g = 0; fine && g < o->ngroups; g++)
        for (int64_t i = 0; fine && i < o->groups[g].n; i++)
            fine = put_param_state(file, states, o, &o->groups[g], i, param++);
    tp_saved *groups = fine ? tp_put_list(file, dict, "param_groups") : NULL;
    fine = groups != NULL;
    param = 0;
    for (int64_t g = 0; fine && g < o->ngroups; g++) fine = put_group(file, groups, o, g, &param);
    return fine;
}

/* ---- reading ---- */
/* A number, also from a tensor of one element; None is NaN. */
static bool read_number(const tp_saved *v, double *out, const char *what) {
    const tp_saved_kind kind = tp_saved_kind_of(v);
    if (kind == TP_SAVED_NONE) {
        *out = NAN;
        return true;
    }
    if (kind == TP_SAVED_NUMBER) {
        *out = tp_scalar_to_double(tp_saved_number(v));
        return tp_ok();
    }
    if (kind == TP_SAVED_TENSOR) {
        tp_tensor *t = tp_own(tp_saved_tensor(v));
        if (t) *out = tp_item(t);
        tp_release(t);
        return t && tp_ok();
    }
    return tpi_refuse(TP_ERR_VALUE, "the saved state: '%s' is no number", what);
}

static bool read_option_value(const tp_optimiser *o, const tp_option_info *option, const tp_saved *v, double *out) {
    if (option->kind != TP_OPTION_STRING) return read_number(v, out, option->name);
    if (tp_saved_kind_of(v) == TP_SAVED_NONE) {
        *out = 0;
        return true;
    }
    const char *text = tp_saved_text(v);
    if (!text) return false;
    *out = tpi_option_choice(o->kind->name, option->name, text);
    return tp_ok();
}

static bool read_option(tp_optimiser *o, tpi_group *g, const tp_option_info *option, const tp_saved *group) {
    if (!option->count || !tp_saved_has(group, option->name)) return true; /* an older or newer PyTorch's group */
    const tp_saved *v = tp_saved_get(group, option->name);
    if (!option->is_list) return read_option_value(o, option, v, &g->values[option->at]);
    if (tp_saved_count(v) != option->count)
        return tpi_refuse(TP_ERR_VALUE, "the saved state: option '%s' has %lld numbers, expected %lld", option->name,
                          (long long)tp_saved_count(v), (long long)option->count);
    bool fine = true;
    for (int64_t i = 0; fine && i < option->count; i++)
        fine = read_option_value(o, option, tp_saved_at(v, i), &g->values[option->at + i]);
    return fine;
}

static bool read_group(tp_optimiser *o, tpi_group *g, const tp_saved *group) {
    const tp_saved *params = tp_saved_get(group, "params");
    if (!params) return false;
    if (tp_saved_count(params) != g->n)
        return tpi_refuse(TP_ERR_VALUE,
                          "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
                          "group: %lld parameters, expected %lld",
                          (long long)tp_saved_count(params), (long long)g->n);
    bool fine = true;
    for (int64_t i = 0; fine && i < o->kind->noptions; i++) fine = read_option(o, g, &o->kind->options[i], group);
    if (fine && tp_saved_has(group, "initial_lr"))
        fine = read_number(tp_saved_get(group, "initial_lr"), &g->initial_lr, "initial_lr");
    return fine;
}

/* The tensor of a state; a number (older files have steps as numbers) as a tensor of it. */
static tp_tensor *state_tensor(const tp_saved *v) {
    if (tp_saved_kind_of(v) == TP_SAVED_TENSOR) return tp_own(tp_saved_tensor(v));
    double number;
    return read_number(v, &number, "state") ? tp_own(tp_scalar_tensor_of(tp_float(number), TP_FLOAT32)) : NULL;
}

static bool read_param_state(tp_optimiser *o, int64_t param, const tp_saved *dict) {
    bool fine = true;
    for (int64_t k = 0; fine && k < o->kind->nstates; k++) {
        if (!tp_saved_has(dict, o->kind->states[k])) continue;
        const tp_saved *v = tp_saved_get(dict, o->kind->states[k]);
        if (tp_saved_kind_of(v) == TP_SAVED_NONE) continue;
        tp_tensor *t = state_tensor(v);
        fine = t && tp_optimiser_set_state(o, param, o->kind->states[k], t);
        tp_release(t);
    }
    return fine;
}

static bool read_lbfgs(tp_lbfgs_memory *memory, const tp_saved *dict) {
    tp_lbfgs_state s = {.size = (int64_t)sizeof s};
    double evals = 0, iterations = 0;
    const struct {
        const char *name;
        double *to;
    } numbers[] = {{"func_evals", &evals},
                   {"n_iter", &iterations},
                   {"t", &s.t},
                   {"H_diag", &s.h_diag},
                   {"prev_loss", &s.prev_loss}};
    bool fine = true;
    for (int i = 0; fine && i < 5; i++)
        if (tp_saved_has(dict, numbers[i].name))
            fine = read_number(tp_saved_get(dict, numbers[i].name), numbers[i].to, numbers[i].name);
    s.func_evals = (int64_t)evals;
    s.n_iter = (int64_t)iterations;
    const tp_saved *dirs = fine ? tp_saved_get(dict, "old_dirs") : NULL, *steps = tp_saved_get(dict, "old_stps"),
                   *ro = tp_saved_get(dict, "ro");
    s.n = tp_saved_count(dirs);
    fine = fine && ro && tp_saved_count(steps) == s.n && tp_saved_count(ro) == s.n;
    if (!fine && tp_ok()) tpi_fail(TP_ERR_VALUE, "the saved state: old_dirs, old_stps and ro differ in length");
    tp_tensor **both = fine ? tpi_malloc(sizeof *both * (size_t)(2 * s.n + 1)) : NULL;
    double *numbers_ro = both ? tpi_malloc(sizeof *numbers_ro * (size_t)(s.n + 1)) : NULL;
    fine = numbers_ro != NULL;
    for (int64_t i = 0; both && i < 2 * s.n; i++)
        both[i] = fine ? tp_own(tp_saved_tensor(tp_saved_at(i < s.n ? dirs : steps, i % s.n))) : NULL;
    for (int64_t i = 0; fine && i < s.n; i++) fine = read_number(tp_saved_at(ro, i), &numbers_ro[i], "ro");
    if (fine && tp_saved_has(dict, "d")) s.d = tp_own(tp_saved_tensor(tp_saved_get(dict, "d")));
    if (fine && tp_saved_has(dict, "prev_flat_grad"))
        s.prev_flat_grad = tp_own(tp_saved_tensor(tp_saved_get(dict, "prev_flat_grad")));
    s.old_dirs = both;
    s.old_stps = both ? both + s.n : NULL;
    s.ro = numbers_ro;
    fine = fine && tp_ok() && tp_lbfgs_set(memory, &s);
    for (int64_t i = 0; both && i < 2 * s.n; i++) tp_release(both[i]);
    tp_release(s.d);
    tp_release(s.prev_flat_grad);
    tpi_mfree(both);
    tpi_mfree(numbers_ro);
    return fine;
}

/* ---- Whose state it is ----
 * Files of ours say it. In PyTorch's the names of options and states tell: every option must be there, none that only
 * other kinds have, and no state of another name. Options that some kind takes by keyword do not count: PyTorch adds
 * such from version to version. */
static const tp_option_info *option_of(const tp_optimiser_kind *kind, const char *name) {
    for (int64_t i = 0; i < kind->noptions; i++)
        if (!strcmp(kind->options[i].name, name)) return &kind->options[i];
    return NULL;
}

static bool tells(const tp_option_info *option) {
    if (!option->count || option->kind == TP_OPTION_STRING) return false;
    for (int64_t k = 0; k < tp_optimiser_kind_count(); k++) {
        const tp_option_info *other = option_of(tp_optimiser_kind_at(k), option->name);
        if (other && (other->keyword_only || other->fixed)) return false;
    }
    return true;
}

static bool is_option_of_others(const tp_optimiser_kind *kind, const char *name) {
    for (int64_t k = 0; !option_of(kind, name) && k < tp_optimiser_kind_count(); k++) {
        const tp_option_info *option = option_of(tp_optimiser_kind_at(k), name);
        if (option && tells(option)) return true;
    }
    return false;
}

/* A variant of another kind (AdamW of Adam) differs by an option that it does not let the program set. */
static bool marks_variant(const tp_optimiser_kind *kind, const tp_option_info *option) {
    if (option->fixed) return true;
    for (int64_t k = 0; k < tp_optimiser_kind_count(); k++) {
        const tp_optimiser_kind *other = tp_optimiser_kind_at(k);
        if (!other->like || strcmp(other->like, kind->name)) continue;
        const tp_option_info *same = option_of(other, option->name);
        if (same && same->fixed) return true;
    }
    return false;
}
static bool is_variant(const tp_optimiser_kind *kind, const double *values, const tp_saved *group) {
    for (int64_t i = 0; i < kind->noptions; i++) {
        const tp_option_info *option = &kind->options[i];
        if (!option->count || !tp_saved_has(group, option->name) || !marks_variant(kind, option)) continue;
        const tp_saved *v = tp_saved_get(group, option->name);
        if (tp_saved_kind_of(v) == TP_SAVED_NUMBER && tp_scalar_to_double(tp_saved_number(v)) != values[option->at])
            return false;
    }
    return true;
}

static bool group_fits(const tp_optimiser_kind *kind, const double *values, const tp_saved *group) {
    for (int64_t i = 0; i < kind->noptions; i++)
        if (tells(&kind->options[i]) && !tp_saved_has(group, kind->options[i].name)) return false;
    for (int64_t i = 0; i < tp_saved_count(group); i++) {
        const tp_saved *key = tp_saved_key_at(group, i);
        if (tp_saved_kind_of(key) == TP_SAVED_TEXT && is_option_of_others(kind, tp_saved_text(key))) return false;
    }
    return is_variant(kind, values, group);
}

static bool state_fits(const tp_optimiser_kind *kind, const tp_saved *dict) {
    for (int64_t i = 0; i < tp_saved_count(dict); i++) {
        const tp_saved *key = tp_saved_key_at(dict, i);
        if (tp_saved_kind_of(key) != TP_SAVED_TEXT) return false;
        int64_t k = 0;
        while (k < kind->nstates && strcmp(kind->states[k], tp_saved_text(key))) k++;
        if (k == kind->nstates) return false;
    }
    return true;
}

static bool fits(const tp_optimiser_kind *kind, const double *values, const tp_saved *groups, const tp_saved *states) {
    for (int64_t i = 0; i < tp_saved_count(groups); i++)
        if (!group_fits(kind, values, tp_saved_at(groups, i))) return false;
    for (int64_t i = 0; kind->nstates && i < tp_saved_count(states); i++)
        if (!state_fits(kind, tp_saved_at(states, i))) return false;
    return true;
}

static const char *said_kind(const tp_saved *state) {
    const tp_saved *v = tp_saved_has(state, OF_KIND) ? tp_saved_get(state, OF_KIND) : NULL;
    return tp_saved_kind_of(v) == TP_SAVED_TEXT ? tp_saved_text(v) : NULL;
}

/* The kind whose state it is: the optimiser's own if it may be; NULL: none that is known. */
static const char *found_kind(const tp_optimiser *o, const tp_saved *state, const tp_saved *groups,
                              const tp_saved *states) {
    const char *said = said_kind(state);
    if (said || fits(o->kind, o->defaults, groups, states)) return said ? said : o->kind->name;
    for (int64_t k = 0; k < tp_optimiser_kind_count(); k++) {
        const tp_optimiser_kind *kind = tp_optimiser_kind_at(k);
        if (kind != o->kind && fits(kind, kind->defaults, groups, states)) return kind->name;
    }
    return NULL;
}

static bool is_of_kind(const tp_optimiser *o, const tp_saved *state, const tp_saved *groups, const tp_saved *states) {
    const char *found = found_kind(o, state, groups, states);
    if (!tp_ok()) return false;
    return (found && !strcmp(found, o->kind->name)) ||
           tpi_refuse(TP_ERR_VALUE, "the saved state is that of %s, expected that of %s",
                      found ? found : "an unknown optimizer", o->kind->name);
}

static bool read_all(const tp_saved *state, tp_optimiser *o) {
    const tp_saved *groups = tp_saved_get(state, "param_groups"), *states = tp_saved_get(state, "state");
    if (!groups || !states || !is_of_kind(o, state, groups, states)) return false;
    if (tp_saved_count(groups) != o->ngroups)
        return tpi_refuse(TP_ERR_VALUE,
                          "loaded state dict has a different number of parameter groups: %lld, expected %lld",
                          (long long)tp_saved_count(groups), (long long)o->ngroups);
    bool fine = true;
    int64_t params = 0;
    for (int64_t g = 0; fine && g < o->ngroups; g++) {
        fine = read_group(o, &o->groups[g], tp_saved_at(groups, g));
        params += o->groups[g].n;
    }
    for (int64_t i = 0; fine && i < tp_saved_count(states); i++) {
        const tp_saved *key = tp_saved_key_at(states, i);
        const int64_t param = tp_saved_kind_of(key) == TP_SAVED_NUMBER ? tp_scalar_to_int(tp_saved_number(key)) : -1;
        if (param < 0 || param >= params)
            return tpi_refuse(TP_ERR_VALUE, "the saved state: it has no parameter of that number: expected 0 to %lld",
                              (long long)params - 1);
        fine = o->lbfgs ? read_lbfgs(o->lbfgs, tp_saved_at(states, i))
                        : read_param_state(o, param, tp_saved_at(states, i));
    }
    return fine;
}

/* The same kind, parameters and options, without state. */
static tp_optimiser *fresh_like(const tp_optimiser *o) {
    tp_optimiser *copy = tp_optimiser_new(o->kind, tp_optimiser_params(o, 0), o->defaults);
    for (int64_t g = 1; copy && g < o->ngroups; g++)
        if (tp_optimiser_add_group(copy, tp_optimiser_params(o, g)) < 0) {
            tp_optimiser_free(copy);
            return NULL;
        }
    for (int64_t g = 0; copy && g < o->ngroups; g++) {
        memcpy(copy->groups[g].values, o->groups[g].values, sizeof(double) * (size_t)o->kind->nvalues);
        copy->groups[g].initial_lr = o->groups[g].initial_lr;
    }
    return copy;
}

tp_optimiser *tpi_loaded_optimiser(const tp_saved *state, const tp_optimiser *o) {
    tp_optimiser *fresh = fresh_like(o);
    if (!fresh || read_all(state, fresh)) return fresh;
    tp_optimiser_free(fresh);
    return NULL;
}
void tpi_replace_optimiser(tp_optimiser *o, tp_optimiser *loaded) {
    tpi_group *groups = o->groups;
    tp_lbfgs_memory *lbfgs = o->lbfgs;
    o->groups = loaded->groups;
    o->lbfgs = loaded->lbfgs;
    loaded->groups = groups;
    loaded->lbfgs = lbfgs;
    tp_optimiser_free(loaded);
}

bool tp_saved_load_optimiser(const tp_saved *state, tp_optimiser *o) {
    if (TPI_ENDED(o, "an optimiser")) return false;
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(state, "a saved value") || !TPI_HANDLE_GIVEN(o, "an optimiser")) return false;
    tp_optimiser *loaded = tpi_loaded_optimiser(state, o);
    if (loaded) tpi_replace_optimiser(o, loaded);
    return loaded != NULL;
}

/* ---- schedules: the numbers that move, under the names that PyTorch's schedules have ---- */
enum { NUMBERS = 7 }; /* what tp_schedule_state gives */
static const struct {
    const char *name, *kind; /* NULL: all kinds but ReduceLROnPlateau have it */
} moving[NUMBERS] = {{"last_epoch", ""},
                     {"_step_count", NULL},
                     {"T_cur", "CosineAnnealingWarmRestarts"},
                     {"T_i", "CosineAnnealingWarmRestarts"},
                     {"best", "ReduceLROnPlateau"},
                     {"num_bad_epochs", "ReduceLROnPlateau"},
                     {"cooldown_counter", "ReduceLROnPlateau"}};
static bool moves(int64_t i, const char *kind) {
    if (!moving[i].kind) return strcmp(kind, "ReduceLROnPlateau") != 0;
    return !*moving[i].kind || !strcmp(moving[i].kind, kind);
}

static bool put_rates(tp_file *file, tp_saved *dict, const char *key, const double *rates, int64_t n) {
    tp_saved *list = tp_put_list(file, dict, key);
    bool fine = list != NULL;
    for (int64_t i = 0; fine && i < n; i++) fine = tp_put_number(file, list, NULL, tp_float(rates[i]));
    return fine;
}

bool tp_put_schedule(tp_file *file, tp_saved *into, const char *key, tp_schedule *schedule) {
    TPI_STOP_ON_ERROR(false);
    int64_t n;
    const double *numbers = TPI_GIVEN(file, "a file") ? tp_schedule_state(schedule, &n) : NULL;
    tp_saved *dict = numbers ? tp_put_dict(file, into, key) : NULL;
    bool fine = dict && tp_put_text(file, dict, OF_KIND, tpi_schedule_kind(schedule));
    for (int64_t i = 0; fine && i < NUMBERS; i++) {
        if (!moves(i, tpi_schedule_kind(schedule))) continue;
        const bool whole =
            isfinite(numbers[i]) && numbers[i] == floor(numbers[i]) && strcmp(moving[i].name, "best") != 0;
        fine = tp_put_number(file, dict, moving[i].name, whole ? tp_int((int64_t)numbers[i]) : tp_float(numbers[i]));
    }
    if (!fine) return false;
    const tpi_schedule_rates rates = tpi_rates_of(schedule);
    return put_rates(file, dict, "base_lrs", rates.base, rates.ngroups) &&
           put_rates(file, dict, "_last_lr", rates.last, rates.ngroups);
}

/* By which key PyTorch's state of a kind is told from the others, those with more in common first. */
static const struct {
    const char *key, *kind, *or_kind;
} tell_tales[] = {{"_milestones", "SequentialLR", NULL},
                  {"_schedulers", "ChainedScheduler", NULL},
                  {"lr_lambdas", "LambdaLR", "MultiplicativeLR"},
                  {"milestones", "MultiStepLR", NULL},
                  {"step_size", "StepLR", NULL},
                  {"start_factor", "LinearLR", NULL},
                  {"patience", "ReduceLROnPlateau", NULL},
                  {"factor", "ConstantLR", NULL},
                  {"power", "PolynomialLR", NULL},
                  {"T_max", "CosineAnnealingLR", NULL},
                  {"T_0", "CosineAnnealingWarmRestarts", NULL},
                  {"total_size", "CyclicLR", NULL},
                  {"total_steps", "OneCycleLR", NULL},
                  {"anneal_epochs", "SWALR", NULL},
                  {"gamma", "ExponentialLR", NULL}};

static bool is_schedule_of_kind(const tp_saved *state, const char *kind) {
    const char *found = said_kind(state);
    for (size_t i = 0; !found && i < sizeof tell_tales / sizeof *tell_tales; i++) {
        if (!tp_saved_has(state, tell_tales[i].key)) continue;
        const bool second = tell_tales[i].or_kind && !strcmp(tell_tales[i].or_kind, kind);
        found = second ? kind : tell_tales[i].kind;
    }
    return tp_ok() && (!found || !strcmp(found, kind) ||
                       tpi_refuse(TP_ERR_VALUE, "the saved state is that of %s, expected that of %s", found, kind));
}

/* The rates that were set last, if the file has them: PyTorch keeps its own where it has not. */
static bool read_last_rates(const tp_saved *state, double *last, int64_t ngroups) {
    if (!tp_saved_has(state, "_last_lr")) return true;
    const tp_saved *list = tp_saved_get(state, "_last_lr");
    if (tp_saved_count(list) != ngroups)
        return tpi_refuse(TP_ERR_VALUE, "the saved schedule has the rates of %lld groups, expected %lld",
                          (long long)tp_saved_count(list), (long long)ngroups);
    bool fine = true;
    for (int64_t g = 0; fine && g < ngroups; g++) fine = read_number(tp_saved_at(list, g), &last[g], "_last_lr");
    return fine;
}

double *tpi_loaded_schedule(const tp_saved *state, tp_schedule *schedule) {
    int64_t n;
    const double *now = tp_schedule_state(schedule, &n);
    if (!now || !tp_saved_get(state, "last_epoch") || !is_schedule_of_kind(state, tpi_schedule_kind(schedule)))
        return NULL;
    const tpi_schedule_rates rates = tpi_rates_of(schedule);
    double *loaded = tpi_malloc(sizeof *loaded * (size_t)(NUMBERS + rates.ngroups));
    if (!loaded) return NULL;
    memcpy(loaded, now, sizeof *loaded * NUMBERS);
    memcpy(loaded + NUMBERS, rates.last, sizeof *loaded * (size_t)rates.ngroups);
    bool fine = true;
    for (int64_t i = 0; fine && i < NUMBERS; i++)
        if (moves(i, tpi_schedule_kind(schedule)) && tp_saved_has(state, moving[i].name))
            fine = read_number(tp_saved_get(state, moving[i].name), &loaded[i], moving[i].name);
    if (fine && read_last_rates(state, loaded + NUMBERS, rates.ngroups)) return loaded;
    tpi_mfree(loaded);
    return NULL;
}

void tpi_replace_schedule(tp_schedule *schedule, double *loaded) {
    int64_t n;
    double *numbers = loaded ? tp_schedule_state(schedule, &n) : NULL;
    if (numbers) {
        const tpi_schedule_rates rates = tpi_rates_of(schedule);
        memcpy(numbers, loaded, sizeof *loaded * NUMBERS);
        memcpy(rates.last, loaded + NUMBERS, sizeof *loaded * (size_t)rates.ngroups);
    }
    tpi_mfree(loaded);
}

bool tp_saved_load_schedule(const tp_saved *state, tp_schedule *schedule) {
    TPI_STOP_ON_ERROR(false);
    if (TPI_ENDED(schedule, "a schedule") || !TPI_GIVEN(state, "a saved value")) return false;
    double *loaded = tpi_loaded_schedule(state, schedule);
    tpi_replace_schedule(schedule, loaded);
    return loaded != NULL;
}

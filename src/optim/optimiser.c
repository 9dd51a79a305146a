/* Optimisers for C programs: objects that hold parameters in groups and their state, and step them by update.c. */
#include "optim/optimiser.h"
#include "tensor/check_arguments.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "dispatch/profile.h"

/* ---- Groups ---- */
static void free_group(const tp_optimiser_kind *kind, tpi_group *g) {
    for (int64_t i = 0; g->params && i < g->n; i++) tpi_release(g->params[i]);
    for (int64_t i = 0; g->states && i < g->n * kind->nstates; i++) tpi_release(g->states[i]);
    tpi_mfree(g->values);
    tpi_mfree(g->params);
    tpi_mfree(g->grads);
    tpi_mfree(g->states);
}

static bool is_known(const tp_optimiser *o, const tp_tensor *p) {
    for (int64_t g = 0; g < o->ngroups; g++)
        for (int64_t i = 0; i < o->groups[g].n; i++)
            if (o->groups[g].params[i] == p) return true;
    return false;
}

static bool check_params(const tp_optimiser *o, tp_tensors params) {
    if (!params.n) return tpi_refuse(TP_ERR_VALUE, "optimizer got an empty parameter list");
    for (int64_t i = 0; i < params.n; i++) {
        if (!params.v[i]) return tpi_refuse(TP_ERR_VALUE, "parameter %lld is NULL", (long long)i);
        if (!tp_is_leaf(params.v[i]) && !tp_retains_grad(params.v[i]))
            return tpi_refuse(TP_ERR_VALUE, "can't optimize a non-leaf Tensor");
        if (is_known(o, params.v[i]))
            return tpi_refuse(TP_ERR_VALUE, "some parameters appear in more than one parameter group");
    }
    return true;
}

static bool fill_group(const tp_optimiser *o, tpi_group *g, tp_tensors params) {
    const size_t n = (size_t)params.n, nstates = (size_t)o->kind->nstates, pointer = sizeof(tp_tensor *);
    g->values = tpi_malloc(((size_t)o->kind->nvalues + 1) * sizeof(double));
    g->params = tpi_malloc(n * pointer);
    g->grads = tpi_malloc(n * pointer);
    g->states = tpi_malloc((n * nstates + 1) * pointer);
    if (!g->values || !g->params || !g->grads || !g->states) return false;
    memcpy(g->values, o->defaults, (size_t)o->kind->nvalues * sizeof(double));
    memset(g->states, 0, n * nstates * pointer);
    g->n = params.n;
    g->initial_lr = NAN;
    for (int64_t i = 0; i < params.n; i++) g->params[i] = tpi_retain(params.v[i]);
    return true;
}

static bool add_group(tp_optimiser *o, tp_tensors params) {
    if (!check_params(o, params)) return false;
    tpi_group *groups = tpi_realloc(o->groups, (size_t)(o->ngroups + 1) * sizeof *groups);
    if (groups) o->groups = groups;
    tp_update_group *update = groups ? tpi_realloc(o->update, (size_t)(o->ngroups + 1) * sizeof *update) : NULL;
    if (update) o->update = update;
    tpi_group g = {0};
    bool ok = update && fill_group(o, &g, params);
    if (ok && o->kind->early) {
        const tp_update_group u = {g.values, g.n, g.params, NULL, g.states};
        ok = tp_optimiser_start(o->kind, 1, &u);
    }
    if (ok)
        o->groups[o->ngroups++] = g;
    else
        free_group(o->kind, &g);
    return ok;
}

int64_t tp_optimiser_add_group(tp_optimiser *o, tp_tensors params) {
    TPI_STOP_ON_ERROR(-1);
    if (!TPI_HANDLE_GIVEN(o, "an optimiser") || !TPI_TENSORS_GIVEN(params)) return -1;
    const char *outer = tpi_op_enter(o->kind->name);
    bool ok = add_group(o, params);
    tpi_op_leave(outer);
    return ok ? o->ngroups - 1 : -1;
}
int64_t tp_optimiser_groups(const tp_optimiser *o) { return TPI_HANDLE_GIVEN(o, "an optimiser") ? o->ngroups : 0; }
tp_tensors tp_optimiser_params(const tp_optimiser *o, int64_t group) {
    if (TPI_ENDED(o, "an optimiser")) return (tp_tensors){0};
    if (o && group >= 0 && group < o->ngroups) return (tp_tensors){o->groups[group].params, o->groups[group].n};
    tpi_fail(TP_ERR_INDEX, "argument 'group': expected 0 to %lld, got %lld", o ? (long long)o->ngroups - 1 : -1LL,
             (long long)group);
    return (tp_tensors){NULL, 0};
}

/* ---- Making ---- */

/* A check's message with its {names} exchanged for the values. */
static bool refuse_values(const tp_optimiser_kind *kind, const double *values, const char *message) {
    char text[256];
    size_t n = 0;
    for (const char *p = message; *p && n + 32 < sizeof text;) {
        const char *end = *p == '{' ? strchr(p, '}') : NULL;
        int64_t v = 0;
        while (end && v < kind->nvalues &&
               (strlen(kind->values[v]) != (size_t)(end - p - 1) ||
                strncmp(kind->values[v], p + 1, (size_t)(end - p - 1))))
            v++;
        if (end && v < kind->nvalues) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%.10g", values[v]);
            p = end + 1;
        } else
            text[n++] = *p++;
    }
    text[n] = 0;
    return tpi_refuse(TP_ERR_VALUE, "%s", text);
}

static tp_optimiser *make(const tp_optimiser_kind *kind, tp_tensors params, const double *values) {
    if (!values) values = kind->defaults;
    int64_t failed = tp_optimiser_check(kind, values);
    if (failed >= 0) {
        refuse_values(kind, values, kind->messages[failed]);
        return NULL;
    }
    tp_optimiser *o = tpi_new0(sizeof *o);
    if (!o) return NULL;
    o->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(o, "optimiser");
    o->kind = kind;
    o->defaults = tpi_malloc(((size_t)kind->nvalues + 1) * sizeof(double));
    bool ok = o->defaults != NULL;
    if (ok) memcpy(o->defaults, values, (size_t)kind->nvalues * sizeof(double));
    if (ok && !kind->ops->fn[0] && !kind->ops->native) ok = (o->lbfgs = tp_lbfgs_memory_new()) != NULL;
    if (ok && add_group(o, params)) return o;
    tp_optimiser_free(o);
    return NULL;
}

tp_optimiser *tp_optimiser_new(const tp_optimiser_kind *kind, tp_tensors params, const double *values) {
    if (!kind) return tpi_fail(TP_ERR_VALUE, "argument 'kind': expected an optimiser, got NULL");
    if (!TPI_TENSORS_GIVEN(params)) return NULL;
    const char *outer = tpi_op_enter(kind->name);
    tp_optimiser *o = make(kind, params, values);
    tpi_op_leave(outer);
    return o;
}
tp_optimiser *tpi_optimiser_new(const char *kind, tp_tensors params, const double *values) {
    return tp_ok() ? tp_optimiser_new(tp_optimiser_kind_named(kind), params, values)
                   : NULL; /* an option may have been refused already */
}

double tpi_option_choice(const char *kind, const char *option, const char *given) {
    if (!given) return 0;
    const tp_optimiser_kind *k = tp_optimiser_kind_named(kind);
    for (int64_t i = 0; i < k->noptions; i++) {
        if (strcmp(k->options[i].name, option)) continue;
        for (int64_t c = 0; k->options[i].choices[c]; c++)
            if (!strcmp(k->options[i].choices[c], given)) return (double)(c + 1);
    }
    tpi_fail(TP_ERR_VALUE, "%s: option '%s' cannot be '%s'", kind, option, given);
    return 0;
}

void tp_optimiser_free(tp_optimiser *o) {
    if (!o || !TPI_HANDLE_GIVEN(o, "an optimiser")) return;
    for (int64_t g = 0; g < o->ngroups; g++) free_group(o->kind, &o->groups[g]);
    tp_lbfgs_memory_free(o->lbfgs);
    tpi_mfree(o->groups);
    tpi_mfree(o->update);
    tpi_mfree(o->defaults);
    o->alive = 0;
    tpi_handle_delete(o, sizeof *o);
}
const tp_optimiser_kind *tp_optimiser_kind_of(const tp_optimiser *o) {
    return TPI_HANDLE_GIVEN(o, "an optimiser") ? o->kind : NULL;
}

/* ---- Steps ---- */
static bool step(tp_optimiser *o) {
    for (int64_t g = 0; g < o->ngroups; g++) {
        tpi_group *from = &o->groups[g];
        for (int64_t i = 0; i < from->n; i++) from->grads[i] = tp_grad(from->params[i]);
        o->update[g] = (tp_update_group){from->values, from->n, from->params, from->grads, from->states};
    }
    return tp_optimiser_update(o->kind, o->ngroups, o->update);
}

static bool step_again(void *o, tp_tensors in, tp_tensor **out) {
    (void)in;
    (void)out;
    return step(o);
}

bool tp_step(tp_optimiser *o) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(o, "an optimiser")) return false;
    if (o->lbfgs)
        return tpi_refuse(TP_ERR_VALUE, "%s computes the loss itself: call tp_step_with and give it a closure",
                          o->kind->name);
    tpi_recorder *recorder = tpi_recording_off();
    bool ok = step(o);
    tpi_recording_on(recorder);
    if (ok && recorder)
        recorder->custom(recorder, &(tpi_custom){"step", step_again, NULL, o}, (tp_tensors){NULL, 0},
                         (tp_tensors){NULL, 0});
    return ok;
}

typedef struct c_closure {
    tp_closure_fn fn;
    void *context;
} c_closure;
static bool call_closure(void *context, double *loss) {
    const c_closure *c = context;
    bool ok = false;
    TP_ENABLE_GRAD
        TP_SCOPE {
            tp_tensor *t = c->fn(c->context);
            *loss = t ? tp_item(t) : NAN;
            ok = t && tp_ok();
        }
    return ok;
}

bool tp_step_with(tp_optimiser *o, tp_closure_fn closure, void *context, double *loss) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(o, "an optimiser") || !TPI_GIVEN(closure, "a function")) return false;
    c_closure c = {closure, context};
    double first;
    if (!loss) loss = &first;
    if (!o->lbfgs) return call_closure(&c, loss) && tp_step(o);
    if (o->ngroups > 1)
        return tpi_refuse(TP_ERR_VALUE, "LBFGS doesn't support per-parameter options (parameter groups)");
    return tp_lbfgs_step(o->lbfgs, o->groups[0].values, tp_optimiser_params(o, 0), call_closure, &c, loss);
}

bool tp_optimiser_zero_grad(tp_optimiser *o) {
    TPI_STOP_ON_ERROR(false);
    bool ok = TPI_HANDLE_GIVEN(o, "an optimiser");
    for (int64_t g = 0; ok && g < o->ngroups; g++)
        for (int64_t i = 0; ok && i < o->groups[g].n; i++) ok = tp_zero_grad(o->groups[g].params[i]);
    return ok;
}

/* ---- Options and state by name ---- */
static int64_t find(const char *const *names, int64_t n, const char *name) {
    for (int64_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

static int64_t find_value(const tp_optimiser *o, int64_t group, int64_t least, const char *name) {
    int64_t v = find(o->kind->values, o->kind->nvalues, name);
    if (v < 0) tpi_fail(TP_ERR_VALUE, "%s has no option '%s'", o->kind->name, name);
    if (group >= least && group < o->ngroups) return v;
    tpi_fail(TP_ERR_INDEX, "argument 'group': expected 0 to %lld, got %lld", (long long)o->ngroups - 1,
             (long long)group);
    return -1;
}

double tp_optimiser_option(const tp_optimiser *o, int64_t group, const char *name) {
    int64_t v = TPI_HANDLE_GIVEN(o, "an optimiser") && TPI_GIVEN(name, "a name") ? find_value(o, group, 0, name) : -1;
    return v < 0 ? NAN : o->groups[group].values[v];
}

bool tp_optimiser_set_option(tp_optimiser *o, int64_t group, const char *name, double value) {
    TPI_STOP_ON_ERROR(false);
    int64_t v = TPI_HANDLE_GIVEN(o, "an optimiser") && TPI_GIVEN(name, "a name") ? find_value(o, group, -1, name) : -1;
    if (v < 0) return false;
    for (int64_t g = 0; g < o->ngroups; g++)
        if (group < 0 || g == group) o->groups[g].values[v] = value;
    return true;
}

/* Where a parameter's state stands, and its group; NULL and an error if there is none of that name. */
static tp_tensor **find_state(const tp_optimiser *o, int64_t param, const char *name, tpi_group **group) {
    int64_t k = find(o->kind->states, o->kind->nstates, name);
    if (k < 0) return tpi_fail(TP_ERR_VALUE, "%s has no state '%s'", o->kind->name, name);
    for (int64_t g = 0; g < o->ngroups && param >= 0; g++) {
        *group = &o->groups[g];
        if (param < (*group)->n) return &(*group)->states[param * o->kind->nstates + k];
        param -= (*group)->n;
    }
    return tpi_fail(TP_ERR_INDEX, "argument 'param': the optimiser has no such parameter");
}

tp_tensor *tp_optimiser_state(const tp_optimiser *o, int64_t param, const char *name) {
    tpi_group *group;
    tp_tensor **at =
        TPI_HANDLE_GIVEN(o, "an optimiser") && TPI_GIVEN(name, "a name") ? find_state(o, param, name, &group) : NULL;
    return at ? *at : NULL;
}

bool tp_optimiser_set_state(tp_optimiser *o, int64_t param, const char *name, tp_tensor *value) {
    TPI_STOP_ON_ERROR(false);
    tpi_group *group;
    tp_tensor **at = TPI_HANDLE_GIVEN(o, "an optimiser") && TPI_GIVEN(name, "a name") && tpi_is_tensor(value, "value")
                         ? find_state(o, param, name, &group)
                         : NULL;
    if (!at) return false;
    int64_t i = (at - group->states) / o->kind->nstates, k = (at - group->states) % o->kind->nstates;
    if (!*at) { /* made as a step would */
        const tp_update_group u = {group->values, 1, group->params + i, NULL, group->states + i * o->kind->nstates};
        if (!tp_optimiser_start(o->kind, 1, &u)) return false;
    }
    if (!*at)
        return tpi_refuse(TP_ERR_VALUE, "%s: this parameter has no state '%s' under its group's options", o->kind->name,
                          o->kind->states[k]);
    if (!tpi_same_shape(*at, value))
        return tpi_refuse(TP_ERR_VALUE, "%s: state '%s': expected shape %s, got %s", o->kind->name, name,
                          tpi_shape_text(tpi_shape(*at)), tpi_shape_text(tpi_shape(value)));
    return tpi_copy_data(*at, value);
}

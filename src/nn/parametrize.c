/* Parameters that are computed before each forward, from parameters and buffers under names of their own. The computed
 * tensor stands in the slot that the layer reads (kind TPI_COMPUTED), and in no list of parameters or buffers. */
#include "nn/parametrize.h"
#include "autograd/glue.h"
#include "base/memory.h"
#include <taper/ops.h>

/* ---- slots by a name and an ending ---- */
bool tpi_part_name(const char *name, const char *ending, char *out) {
    const size_t n = strlen(name), more = strlen(ending);
    if (n + more >= TPI_PART_NAME) return tpi_refuse(TP_ERR_VALUE, "argument 'name': '%.40s...' is too long", name);
    memcpy(out, name, n);
    memcpy(out + n, ending, more + 1);
    return true;
}
tp_tensor *tpi_slot_part(const tp_module *m, const char *name, const char *ending) {
    char full[TPI_PART_NAME];
    tpi_module_slot *slot = tpi_part_name(name, ending, full) ? tpi_find_module_slot(m, full) : NULL;
    return slot ? slot->tensor : NULL;
}
bool tpi_part_hold(tp_module *m, const char *name, const char *ending, tpi_module_slot_kind kind, tp_tensor *t) {
    char full[TPI_PART_NAME];
    return t && tpi_part_name(name, ending, full) && tpi_module_hold(m, full, kind, t);
}
static void part_drop(tp_module *m, const char *name, const char *ending) {
    char full[TPI_PART_NAME];
    tpi_module_slot *slot = tpi_part_name(name, ending, full) ? tpi_find_module_slot(m, full) : NULL;
    if (!slot) return;
    tp_release(slot->tensor);
    tpi_mfree(slot->name);
    const int64_t after = m->nslots - (slot - m->slots) - 1;
    memmove(slot, slot + 1, sizeof *slot * (size_t)after);
    m->nslots--;
}

/* ---- what is there ---- */
tpi_parametrization *tpi_parametrization_of(const tp_module *m, const char *name) {
    for (int64_t i = 0; i < m->nparametrizations; i++)
        if (!strcmp(m->parametrizations[i].name, name)) return &m->parametrizations[i];
    return NULL;
}

tp_tensor *tpi_parameter_to_compute(tp_module *m, const char *name) {
    if (m->layer && (m->layer->facts & TPI_LAYER_WEIGHT_LIST))
        return tpi_fail(TP_ERR_VALUE, "%s takes all its weights in a row: they cannot be parametrized", m->name);
    tpi_module_slot *slot = tpi_find_module_slot(m, name);
    if (slot && slot->kind == TPI_COMPUTED)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'name': '%s' of %s is parametrized already", name, m->name);
    if (!slot || slot->kind != TPI_PARAMETER || !slot->tensor)
        return tpi_fail(TP_ERR_VALUE, "argument 'name': %s has no parameter \"%s\"", m->name, name);
    return slot->tensor;
}

static bool add(tp_module *m, tpi_parametrization p) {
    tpi_parametrization *more = tpi_realloc(m->parametrizations, sizeof *more * (size_t)(m->nparametrizations + 1));
    if (!more) return false;
    m->parametrizations = more;
    if (!(p.name = tpi_strdup(p.name))) return false;
    more[m->nparametrizations++] = p;
    return true;
}

/* ---- computing ---- */
static tp_tensor *as_matrix(tp_tensor *weight, int64_t dim) {
    return tp_flatten(dim ? tp_movedim(weight, TP_INTS(dim), TP_INTS(0)) : weight, .start_dim = 1);
}

/* Moves the kept vectors; gives copies, so that what backward keeps is not what the next forward changes. */
static void iterate(const tpi_parametrization *p, tp_tensor *matrix, tp_tensor **u, tp_tensor **v) {
    TP_NO_GRAD {
        for (int64_t i = 0; i < p->iterations; i++) {
            tp_copy_(*v, tp_normalize(tp_mv(tp_t(matrix), *u), .dim = 0, .eps = p->eps));
            tp_copy_(*u, tp_normalize(tp_mv(matrix, *v), .dim = 0, .eps = p->eps));
        }
        *u = tp_clone(*u);
        *v = tp_clone(*v);
    }
}

static tp_tensor *spectral(const tp_module *m, const tpi_parametrization *p, bool moving) {
    tp_tensor *whole = tpi_slot_part(m, p->name, "_orig"), *u = tpi_slot_part(m, p->name, "_u"),
              *v = tpi_slot_part(m, p->name, "_v");
    tp_tensor *matrix = as_matrix(whole, p->dim);
    if (moving && matrix) iterate(p, matrix, &u, &v);
    return tp_div(whole, tp_dot(u, tp_mv(matrix, v)));
}

static tp_tensor *value_of(const tp_module *m, const tpi_parametrization *p, bool moving) {
    switch (p->kind) {
    case TPI_WEIGHT_NORM:
        return tp__weight_norm(tpi_slot_part(m, p->name, "_v"), tpi_slot_part(m, p->name, "_g"), .dim = p->dim);
    case TPI_SPECTRAL_NORM: return spectral(m, p, moving);
    case TPI_PRUNED: {
        tp_tensor *original = tpi_slot_part(m, p->name, "_orig");
        return tp_mul(tp_to(tpi_slot_part(m, p->name, "_mask"), .dtype = tp_dtype_of(original)), original);
    }
    }
    return NULL;
}

static bool compute(tp_module *m, bool moving) {
    for (int64_t i = 0; i < m->nparametrizations; i++) {
        const tpi_parametrization *p = &m->parametrizations[i];
        tp_tensor *now = NULL;
        TP_SCOPE
            now = tp_retain(value_of(m, p, moving));
        if (!now) return false;
        bool fine = tpi_module_hold(m, p->name, TPI_COMPUTED, now);
        tp_release(now);
        if (!fine) return false;
    }
    return true;
}
bool tpi_parametrize_now(tp_module *m) { return compute(m, m->training); }
bool tpi_parametrize_still(tp_module *m) { return compute(m, false); }

/* ---- making and ending ---- */
bool tpi_parametrize(tp_module *m, tpi_parametrization p) {
    return add(m, p) && tpi_module_hold(m, p.name, TPI_COMPUTED, tpi_find_module_slot(m, p.name)->tensor) &&
           compute(m, false);
}

bool tp_weight_norm(tp_module *m, const char *name, int64_t dim) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(m, "a module") || !TPI_GIVEN(name, "a text")) return false;
    tp_tensor *weight = tpi_parameter_to_compute(m, name);
    if (!weight) return false;
    const int64_t at = dim == TP_NONE ? -1 : dim;
    bool fine = false;
    TP_SCOPE {
        tp_tensor *norms = NULL;
        TP_NO_GRAD
            norms = tp_norm_except_dim(weight, .pow = 2, .dim = at);
        fine = norms && tp_set_requires_grad(norms, true) && tpi_part_hold(m, name, "_g", TPI_PARAMETER, norms) &&
               tpi_part_hold(m, name, "_v", TPI_PARAMETER, weight) &&
               tpi_parametrize(m, (tpi_parametrization){.kind = TPI_WEIGHT_NORM, .name = (char *)name, .dim = at});
    }
    return fine;
}

bool tp_spectral_norm(tp_module *m, const char *name, int64_t iterations, double eps, int64_t dim) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(m, "a module") || !TPI_GIVEN(name, "a text")) return false;
    if (iterations < 1)
        return tpi_refuse(TP_ERR_VALUE, "tp_spectral_norm: argument 'iterations': expected 1 or more, got %lld",
                          (long long)iterations);
    tp_tensor *weight = tpi_parameter_to_compute(m, name);
    if (!weight) return false;
    const int64_t at = dim != TP_NONE ? dim : tpi_get_bool(m, "transposed");
    bool fine = false;
    TP_SCOPE {
        tp_tensor *ends[2] = {NULL, NULL};
        TP_NO_GRAD {
            tp_tensor *matrix = as_matrix(weight, at);
            for (int i = 0; matrix && i < 2; i++) {
                tp_tensor *drawn =
                    tp_empty(TP_INTS(tp_size(matrix, i)), .dtype = tp_dtype_of(weight), .device = tp_device_of(weight));
                ends[i] = tp_normalize(tp_normal_(drawn), .dim = 0, .eps = eps);
            }
        }
        fine = tpi_part_hold(m, name, "_orig", TPI_PARAMETER, weight) &&
               tpi_part_hold(m, name, "_u", TPI_BUFFER, ends[0]) && tpi_part_hold(m, name, "_v", TPI_BUFFER, ends[1]) &&
               tpi_parametrize(m, (tpi_parametrization){.kind = TPI_SPECTRAL_NORM,
                                                        .name = (char *)name,
                                                        .dim = at,
                                                        .iterations = iterations,
                                                        .eps = eps});
    }
    return fine;
}

bool tp_unparametrize(tp_module *m, const char *name) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(m, "a module") || !TPI_GIVEN(name, "a text")) return false;
    tpi_parametrization *p = tpi_parametrization_of(m, name);
    if (!p)
        return tpi_refuse(TP_ERR_VALUE, "tp_unparametrize: argument 'name': '%s' of %s is not parametrized", name,
                          m->name);
    tp_tensor *whole = tpi_slot_part(m, name, p->kind == TPI_WEIGHT_NORM ? "_v" : "_orig");
    bool fine = false;
    TP_NO_GRAD
        TP_SCOPE
            fine = tp_copy_(whole, value_of(m, p, false)) != NULL;
    if (!fine || !tpi_module_hold(m, name, TPI_PARAMETER, whole)) return false;
    static const char *const endings[] = {"_g", "_v", "_orig", "_u", "_mask"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) part_drop(m, name, endings[i]);
    char *old = p->name;
    const int64_t after = m->nparametrizations - (p - m->parametrizations) - 1;
    memmove(p, p + 1, sizeof *p * (size_t)after);
    m->nparametrizations--;
    tpi_mfree(old);
    return true;
}

bool tpi_parametrizations_copy(tp_module *to, const tp_module *from) {
    for (int64_t i = 0; i < from->nparametrizations; i++)
        if (!add(to, from->parametrizations[i])) return false;
    return true;
}
void tpi_parametrizations_free(tp_module *m) {
    for (int64_t i = 0; i < m->nparametrizations; i++) tpi_mfree(m->parametrizations[i].name);
    tpi_mfree(m->parametrizations);
}

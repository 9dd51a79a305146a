/* Pruning: masks over parameters. A choice is made among the elements, or channels, that are not masked yet, so that
 * prunings of one tensor add up. */
#include "autograd/glue.h"
#include "base/memory.h"
#include "nn/parametrize.h"
#include <math.h>
#include <taper/ops.h>

/* How many of `all` an amount is; -1 and an error. */
static int64_t count_of(tp_scalar amount, int64_t all, const char *function) {
    if (amount.kind == TP_SCALAR_INT) {
        if (amount.as.i >= 0 && amount.as.i <= all) return amount.as.i;
    } else if (amount.kind == TP_SCALAR_FLOAT && amount.as.d[0] >= 0 && amount.as.d[0] <= 1)
        return (int64_t)nearbyint(amount.as.d[0] * (double)all); /* half to even, as Python rounds */
    tpi_fail(TP_ERR_VALUE,
             "%s: argument 'amount': expected a share from 0 to 1 as tp_float, or 0 to %lld elements as tp_int",
             function, (long long)all);
    return -1;
}

static bool given(const tp_module *m, const char *name, const char *function) {
    return tpi_handle_given(m, m ? m->alive : 0, function, "m", "a module") &&
           tpi_given(name, function, "name", "a text");
}

/* The value to choose by, and the mask so far, both without history. Makes the tensor a pruned one if it is none. */
static bool begin(tp_module *m, const char *name, tp_tensor **value, tp_tensor **mask) {
    tpi_parametrization *p = tpi_parametrization_of(m, name);
    if (!p || p->kind != TPI_PRUNED) {
        tp_tensor *weight = tpi_parameter_to_compute(m, name);
        tp_tensor *ones = weight ? tp_ones_like(tp_detach(weight)) : NULL;
        if (!ones || !tpi_part_hold(m, name, "_orig", TPI_PARAMETER, weight) ||
            !tpi_part_hold(m, name, "_mask", TPI_BUFFER, ones) ||
            !tpi_parametrize(m, (tpi_parametrization){.kind = TPI_PRUNED, .name = (char *)name}))
            return false;
    } else if (!tpi_parametrize_still(m))
        return false;
    *value = tp_detach(tpi_find_module_slot(m, name)->tensor);
    *mask = tp_clone(tpi_slot_part(m, name, "_mask"));
    return *value && *mask;
}
static bool end(tp_module *m, const char *name, tp_tensor *mask) {
    return mask && tp_ok() && tpi_part_hold(m, name, "_mask", TPI_BUFFER, mask) && tpi_parametrize_still(m);
}

/* ---- elements ---- */
typedef enum choice { ALL_STAY, AT_RANDOM, SMALLEST } choice;

/* The flat mask without `amount` of the elements that it has; scores are as many. */
static bool mask_elements(tp_tensor *mask, tp_tensor *scores, tp_scalar amount, choice how, const char *function) {
    tp_tensor *left = tp_squeeze_dim(tp_nonzero(mask), 1);
    tp_tensor *of = tp_index_select(scores, 0, left);
    if (!of) return false;
    const int64_t count = count_of(amount, tp_numel(left), function);
    if (count <= 0) return count == 0;
    tp_tensor *picked = how == AT_RANDOM ? tp_topk(tp_rand_like(of), count).indices
                                         : tp_topk(tp_abs(of), count, .largest = false).indices;
    return tp_index_fill_(mask, 0, tp_index_select(left, 0, picked), 0) != NULL;
}

static bool prune_elements(tp_module *m, const char *name, tp_scalar amount, choice how, const char *function) {
    TPI_STOP_ON_ERROR(false);
    if (!given(m, name, function)) return false;
    if (how != ALL_STAY && count_of(amount, INT64_MAX, function) < 0) return false; /* before anything is changed */
    bool fine = false;
    TP_NO_GRAD
        TP_SCOPE {
            tp_tensor *value, *mask;
            fine = begin(m, name, &value, &mask);
            if (fine && how != ALL_STAY) {
                tp_tensor *flat = tp_flatten(mask);
                fine = mask_elements(flat, tp_flatten(value), amount, how, function) &&
                       end(m, name, tp_reshape(flat, tp_shape(mask)));
            }
        }
    return fine && tpi_parametrize_still(m);
}
bool tp_prune_identity(tp_module *m, const char *name) {
    return prune_elements(m, name, tp_int(0), ALL_STAY, "tp_prune_identity");
}
bool tp_prune_random(tp_module *m, const char *name, tp_scalar amount) {
    return prune_elements(m, name, amount, AT_RANDOM, "tp_prune_random");
}
bool tp_prune_l1(tp_module *m, const char *name, tp_scalar amount) {
    return prune_elements(m, name, amount, SMALLEST, "tp_prune_l1");
}

bool tp_prune_mask(tp_module *m, const char *name, tp_tensor *mask) {
    TPI_STOP_ON_ERROR(false);
    if (!given(m, name, __func__) || !tpi_is_tensor(mask, "mask")) return false;
    bool fine = false;
    TP_NO_GRAD
        TP_SCOPE {
            tp_tensor *value, *so_far, *whole = tp_module_tensor(m, name);
            if (whole && !tpi_same_shape(whole, mask))
                fine = tpi_refuse(TP_ERR_VALUE, "tp_prune_mask: argument 'mask': expected shape %s, got %s",
                                  tpi_shape_text(tp_shape(whole)), tpi_shape_text(tp_shape(mask)));
            else
                fine = whole && begin(m, name, &value, &so_far) &&
                       end(m, name, tp_mul(so_far, tp_to(mask, .dtype = tp_dtype_of(so_far))));
        }
    return fine && tpi_parametrize_still(m);
}

bool tp_prune_global_l1(int64_t n, tp_module *const *modules, const char *const *names, tp_scalar amount) {
    TPI_STOP_ON_ERROR(false);
    if (n < 1 || !modules || !names)
        return tpi_refuse(TP_ERR_VALUE, "tp_prune_global_l1: expected modules and names, got %s",
                          n < 1 ? "none" : "NULL");
    for (int64_t i = 0; i < n; i++)
        if (!given(modules[i], names[i], __func__)) return false;
    if (count_of(amount, INT64_MAX, __func__) < 0) return false;
    tp_tensor **parts = tpi_malloc(2 * sizeof *parts * (size_t)n), **masks = parts ? parts + n : NULL;
    bool fine = parts != NULL;
    TP_NO_GRAD
        TP_SCOPE {
            for (int64_t i = 0; fine && i < n; i++) {
                fine = begin(modules[i], names[i], &parts[i], &masks[i]);
                if (!fine) break;
                parts[i] = tp_flatten(parts[i]);
                masks[i] = tp_flatten(masks[i]);
            }
            tp_tensor *mask = fine ? tp_cat(tp_list(n, masks)) : NULL;
            fine = mask && mask_elements(mask, tp_cat(tp_list(n, parts)), amount, SMALLEST, __func__);
            for (int64_t i = 0, at = 0; fine && i < n; i++) {
                tp_tensor *whole = tpi_slot_part(modules[i], names[i], "_orig");
                fine = end(modules[i], names[i],
                           tp_reshape(tp_clone(tp_narrow(mask, 0, at, tp_numel(whole))), tp_shape(whole)));
                at += tp_numel(whole);
            }
        }
    tpi_mfree(parts);
    for (int64_t i = 0; fine && i < n; i++) fine = tpi_parametrize_still(modules[i]);
    return fine;
}

/* ---- channels ---- */
/* Which of the channels in `of` go, as indices into it. */
static tp_tensor *channels_to_go(tp_tensor *of, int64_t dim, int64_t count, bool random, double order) {
    const int64_t channels = tp_size(of, dim);
    if (random) {
        tp_tensor *drawn = tp_rand(TP_INTS(channels), .device = tp_device_of(of));
        tp_tensor *last = tp_kthvalue(drawn, count).values;
        return tp_squeeze_dim(tp_nonzero(tp_logical_not(tp_gt(drawn, last))), 1);
    }
    int64_t others[TP_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < tp_ndim(of); d++)
        if (d != dim) others[n++] = d;
    tp_tensor *norms = tp_linalg_vector_norm(of, .ord = tp_float(order), .dim = tp_ints_view(others, n));
    tp_tensor *kept = tp_topk(norms, channels - count).indices;
    tp_tensor *going = tp_index_fill_(tp_ones(TP_INTS(channels), .device = tp_device_of(of)), 0, kept, 0);
    return tp_squeeze_dim(tp_nonzero(going), 1);
}

static bool prune_channels(tp_module *m, const char *name, tp_scalar amount, int64_t dim, bool random, double order,
                           const char *function) {
    TPI_STOP_ON_ERROR(false);
    if (!given(m, name, function)) return false;
    if (count_of(amount, INT64_MAX, function) < 0) return false;
    bool fine = false;
    TP_NO_GRAD
        TP_SCOPE {
            tp_tensor *value, *mask, *whole = tp_module_tensor(m, name);
            if (whole && (tp_ndim(whole) < 2 || dim >= tp_ndim(whole) || dim < -tp_ndim(whole)))
                tpi_fail(TP_ERR_INDEX, "%s: argument 'dim': %lld is no dim of channels of a tensor of shape %s",
                         function, (long long)dim, tpi_shape_text(tp_shape(whole)));
            else if (whole && begin(m, name, &value, &mask)) {
                const int64_t at = dim < 0 ? dim + tp_ndim(value) : dim;
                tp_tensor *rows = tp_flatten(tp_movedim(mask, TP_INTS(at), TP_INTS(0)), .start_dim = 1);
                tp_tensor *left = tp_squeeze_dim(tp_nonzero(tp_sum(rows, .dim = TP_INTS(1))), 1);
                const int64_t count = left ? count_of(amount, tp_numel(left), function) : -1;
                if (count > 0) {
                    tp_tensor *going = channels_to_go(tp_index_select(value, at, left), at, count, random, order);
                    mask = tp_index_fill(mask, at, tp_index_select(left, 0, going), 0);
                }
                fine = count >= 0 && end(m, name, mask);
            }
        }
    return fine && tpi_parametrize_still(m);
}
bool tp_prune_random_structured(tp_module *m, const char *name, tp_scalar amount, int64_t dim) {
    return prune_channels(m, name, amount, dim, true, 2, __func__);
}
bool tp_prune_ln_structured(tp_module *m, const char *name, tp_scalar amount, double order, int64_t dim) {
    return prune_channels(m, name, amount, dim, false, order, __func__);
}

bool tp_is_pruned(const tp_module *m) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    for (int64_t i = 0; i < m->nparametrizations; i++)
        if (m->parametrizations[i].kind == TPI_PRUNED) return true;
    for (int64_t i = 0; i < m->nchildren; i++)
        if (tp_is_pruned(m->children[i].module)) return true;
    return false;
}

/* Composed of sorting and indexing: quantiles, unravel_index. */
#include "ops/temporaries.h"
#include "ops/native.h"
#include "ops/sort/order.h"
#include "tpi_ops.h"
#include <math.h>

/* ---- quantile ---- */

/* Per sorted row (NaN last) the rank of its last element that counts: (rows, 1). A row with NaN answers -1 unless they
 * are ignored and others are left. */
tp_tensor *tpi_native_quantile_last(tp_tensor *sorted, bool ignore_nan) {
    int64_t n = sorted->shape[sorted->ndim - 1];
    tpi_temporaries temps = {0};
    tp_tensor *lost = tpi_put(&temps, tpo_isnan(sorted)),
              *nans = tpi_put(&temps, tpo_sum(lost, TP_INTS(-1), true, TP_INT64)),
              *last = tpi_put(&temps, tpo_sub(tp_operand_int(n - 1), tp_operand_tensor(nans), tp_int(1)));
    tp_tensor *any = last && !ignore_nan ? tpi_put(&temps, tpo_ne(nans, tp_operand_int(0))) : NULL;
    if (any) last = tpi_put(&temps, tpo_masked_fill(last, any, tp_int(-1)));
    return tpi_release_temporaries(&temps, last && (any || ignore_nan) ? tpi_as_dtype_data(last, TP_FLOAT64) : NULL);
}

/* Where in each sorted row each q falls: (rows, Q). In a row that answers NaN, at the end, where one stands. */
static tp_tensor *ranks_of(tp_tensor *sorted, tp_tensor *q, bool ignore_nan) {
    int64_t n = sorted->shape[sorted->ndim - 1];
    tp_tensor *last = tpo_quantile_last(sorted, ignore_nan), *line = tpo_reshape(q, TP_INTS(-1)),
              *wide = line ? tpo_to_dtype(line, TP_FLOAT64) : NULL;
    tp_tensor *ranks = last && wide ? tpo_mul(tp_operand_tensor(wide), tp_operand_tensor(last)) : NULL;
    tp_tensor *lost = ranks ? tpo_lt(last, tp_operand_int(0)) : NULL,
              *out = lost ? tpo_masked_fill(ranks, lost, tp_int(n - 1)) : NULL;
    tp_tensor *all[] = {last, line, wide, ranks, lost};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tpi_release(all[i]);
    return out;
}

static bool check_value(double q) {
    return (q >= 0 && q <= 1) ||
           tpi_refuse(TP_ERR_RUNTIME, "argument 'q': quantile() q must be in the range [0, 1] but got %g", q);
}

static bool check_q(tp_tensor *self, tp_tensor *q) {
    if (self->dtype != TP_FLOAT32 && self->dtype != TP_FLOAT64)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'self': quantile() input tensor must be either float or double dtype, got %s",
                          tp_dtype_name(self->dtype));
    if (self->numel == 0)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': expected elements, got shape %s",
                          tpi_shape_text(tpi_shape(self)));
    if (q->ndim > 1)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'q': expected at most one dimension, got shape %s",
                          tpi_shape_text(tpi_shape(q)));
    if (!tpi_check_same_dtype(q, "q", self, "self")) return false;
    tp_tensor *here = tpi_device(q).type == TP_CPU ? tpi_contiguous_data(q)
                                                   : NULL; /* as in PyTorch, other devices' values are not looked at */
    bool ok = here || tp_ok();
    for (int64_t i = 0; ok && here && i < q->numel; i++)
        ok = check_value(tp_scalar_to_double(tpi_load_scalar(here->data + i * (int64_t)tpi_itemsize(q), q->dtype)));
    tpi_release(here);
    return ok;
}

/* sorted's elements at the ranks, each rounded down, up, or to the nearest. */
static tp_tensor *at_ranks(tp_tensor *sorted, tp_tensor *ranks, tp_tensor *(*rounded)(tp_tensor *)) {
    tp_tensor *whole = rounded(ranks), *index = whole ? tpo_to_dtype(whole, TP_INT64) : NULL;
    tp_tensor *out = index ? tpo_gather(sorted, -1, index, false) : NULL;
    tpi_release(whole);
    return tpi_release_then(index, out);
}

static tp_tensor *between_ranks(tp_tensor *sorted, tp_tensor *ranks, bool midpoint) {
    tp_tensor *below = at_ranks(sorted, ranks, tpo_floor), *above = at_ranks(sorted, ranks, tpo_ceil), *weight = NULL,
              *out = NULL;
    tp_tensor *floor = tpo_floor(ranks),
              *rest = floor ? tpo_sub(tp_operand_tensor(ranks), tp_operand_tensor(floor), tp_int(1)) : NULL;
    if (rest) weight = tpo_to_dtype(rest, sorted->dtype);
    if (below && above && weight)
        out = tpo_lerp(below, above, midpoint ? tp_operand_scalar(tp_float(0.5)) : tp_operand_tensor(weight));
    tp_tensor *all[] = {below, above, floor, rest, weight};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tpi_release(all[i]);
    return out;
}

/* (rows, Q) to PyTorch's shape: Q first (not at all for a single q), the dim kept as one or dropped. */
static tp_tensor *arrange(tp_tensor *t, tp_tensor *self, tp_tensor *q, int64_t dim, bool keepdim) {
    int64_t shape[TP_MAX_DIMS], n = 0;
    t = tpi_release_then(t, tpo_movedim(t, TP_INTS(-1), TP_INTS(0)));
    if (!t) return NULL;
    if (q->ndim) shape[n++] = q->numel;
    for (int d = 0; d < self->ndim; d++) {
        bool gone = dim == TP_NONE || d == dim;
        if (!gone)
            shape[n++] = self->shape[d];
        else if (keepdim)
            shape[n++] = 1;
    }
    return tpi_release_then(t, tpo_reshape(t, (tp_ints){shape, n}));
}

static tp_tensor *quantile_of(tp_tensor *self, tp_tensor *q, int64_t dim, bool keepdim, const char *interpolation,
                              bool ignore_nan) {
    if (!check_q(self, q)) return NULL;
    int d = dim == TP_NONE ? 0 : TPI_DIM(self, dim);
    if (d < 0) return NULL;
    if (q->ndim && self->ndim == TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "argument 'self': already has %d dimensions", TP_MAX_DIMS);
    tp_tensor *rows =
        dim == TP_NONE || self->ndim == 0 ? tpo_reshape(self, TP_INTS(-1)) : tpo_movedim(self, TP_INTS(d), TP_INTS(-1));
    tp_tensor *sorted[2] = {NULL, NULL}, *ranks = NULL, *out = NULL;
    if (rows && tpo_sort(rows, -1, false, false, sorted)) ranks = ranks_of(sorted[0], q, ignore_nan);
    if (ranks) {
        if (strcmp(interpolation, "linear") == 0 || strcmp(interpolation, "midpoint") == 0)
            out = between_ranks(sorted[0], ranks, interpolation[0] == 'm');
        else if (strcmp(interpolation, "lower") == 0)
            out = at_ranks(sorted[0], ranks, tpo_floor);
        else if (strcmp(interpolation, "higher") == 0)
            out = at_ranks(sorted[0], ranks, tpo_ceil);
        else if (strcmp(interpolation, "nearest") == 0)
            out = at_ranks(sorted[0], ranks, tpo_round);
        else
            tpi_fail(TP_ERR_VALUE,
                     "argument 'interpolation': expected \"linear\", \"lower\", \"higher\", \"midpoint\" or "
                     "\"nearest\", got \"%s\"",
                     interpolation);
    }
    tp_tensor *all[] = {rows, sorted[0], sorted[1], ranks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tpi_release(all[i]);
    return out ? arrange(out, self, q, dim == TP_NONE ? TP_NONE : d, keepdim) : NULL;
}

tp_tensor *tpi_compose_quantile(tp_tensor *self, tp_tensor *q, int64_t dim, bool keepdim, const char *interpolation) {
    return quantile_of(self, q, dim, keepdim, interpolation, false);
}
tp_tensor *tpi_compose_nanquantile(tp_tensor *self, tp_tensor *q, int64_t dim, bool keepdim,
                                   const char *interpolation) {
    return quantile_of(self, q, dim, keepdim, interpolation, true);
}
tp_tensor *tpi_compose_quantile_scalar(tp_tensor *self, double q, int64_t dim, bool keepdim,
                                       const char *interpolation) {
    if (!check_value(q)) return NULL;
    tp_tensor *at = tpo_full((tp_ints){(const int64_t[]){0}, 0}, tp_float(q), self->dtype, tpi_device(self));
    return tpi_release_then(at, at ? quantile_of(self, at, dim, keepdim, interpolation, false) : NULL);
}
tp_tensor *tpi_compose_nanquantile_scalar(tp_tensor *self, double q, int64_t dim, bool keepdim,
                                          const char *interpolation) {
    if (!check_value(q)) return NULL;
    tp_tensor *at = tpo_full((tp_ints){(const int64_t[]){0}, 0}, tp_float(q), self->dtype, tpi_device(self));
    return tpi_release_then(at, at ? quantile_of(self, at, dim, keepdim, interpolation, true) : NULL);
}

/* ---- Flat positions as coordinates ---- */
tp_tensors tpi_compose_unravel_index(tp_tensor *indices, tp_ints shape) {
    tp_tensors list = {NULL, 0}, none = {NULL, 0};
    int64_t numel = tpi_numel_of(shape);
    tp_tensor *whole = numel < 0 ? NULL : tpi_index_data(indices, "indices"), *flat = whole ? tpi_on_host(whole) : NULL;
    tpi_release(whole);
    if (!flat) return none;
    const int64_t *at = (const int64_t *)(const void *)flat->data;
    bool ok = true;
    for (int64_t i = 0; i < flat->numel && ok; i++)
        if (at[i] < 0 || at[i] >= numel) ok = tpi_index_error("indices", at[i], 0, numel);
    if (ok) list.v = tpi_malloc(sizeof(tp_tensor *) * (size_t)(shape.n ? shape.n : 1));
    for (int64_t d = 0; list.v && d < shape.n; d++) {
        int64_t below = 1;
        for (int64_t k = d + 1; k < shape.n; k++) below *= shape.v[k];
        tp_tensor *t = tpi_empty(tpi_shape(indices), TP_INT64, (tp_device){TP_CPU, 0});
        for (int64_t i = 0; t && i < flat->numel; i++) ((int64_t *)(void *)t->data)[i] = at[i] / below % shape.v[d];
        t = tpi_moved_data(t, tpi_device(indices));
        if (!t) {
            tpi_release_list(list);
            list = none;
            break;
        }
        list.v[list.n++] = t;
    }
    tpi_release(flat);
    return list;
}

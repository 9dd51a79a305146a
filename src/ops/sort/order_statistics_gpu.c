/* kthvalue, medians and modes on GPUs: rows are sorted, which is stable and puts NaN last, and one place is taken from
 * each. */
#include "ops/temporaries.h"
#include "ops/sort/order_gpu.h"
#include "tpi_ops.h"

enum { MODE_THREADS = 256 }; /* for a row */

typedef struct ranked {
    tpi_temporaries temps;
    tp_tensor *x, *values, *indices; /* x and its rows in order, borrowed from `temps` */
    int d;
    int64_t n; /* elements of a row */
} ranked;

/* Empty rows, and tensors without a dim, are left to the CPU. */
static bool rank(ranked *r, tp_tensor *self, int64_t dim) {
    *r = (ranked){.d = TPI_DIM(self, dim)};
    if (r->d < 0 || !self->ndim || !self->numel) {
        tp_error_clear();
        return false;
    }
    tp_tensor *both[2];
    r->n = self->shape[r->d];
    r->x = tpi_put(&r->temps, tpi_detached(self));
    if (!r->x || !tpo_sort(r->x, r->d, false, true, both)) return false;
    r->values = tpi_put(&r->temps, both[0]);
    r->indices = tpi_put(&r->temps, both[1]);
    return r->values && r->indices;
}

static bool drop_dim(tp_tensor *t, int d) {
    tpi_geometry g = {.ndim = t->ndim - 1, .offset = 0};
    for (int i = 0; i < g.ndim; i++) g.shape[i] = t->shape[i < d ? i : i + 1];
    tpi_contiguous_strides(tp_ints_view(g.shape, g.ndim), g.strides);
    return tpi_set_geometry(t, &g);
}

/* The element at position `at` (int64, of size one along the dim) of each sorted row. Empties `temps`. */
static bool pick(ranked *r, tp_tensor *at, bool keepdim, tp_tensor **out) {
    out[0] = at ? tpo_gather(r->values, r->d, at, false) : NULL;
    out[1] = out[0] ? tpo_gather(r->indices, r->d, at, false) : NULL;
    tpi_release_temporaries(&r->temps, NULL);
    if (out[1] && (keepdim || (drop_dim(out[0], r->d) && drop_dim(out[1], r->d)))) return true;
    tpi_release(out[0]);
    tpi_release(out[1]);
    out[0] = out[1] = NULL;
    return false;
}

static tp_tensor *constant_position(ranked *r, int64_t at) {
    int64_t shape[TP_MAX_DIMS];
    for (int i = 0; i < r->x->ndim; i++) shape[i] = i == r->d ? 1 : r->x->shape[i];
    return tpi_put(&r->temps, tpo_full(tp_ints_view(shape, r->x->ndim), tp_int(at), TP_INT64, tpi_device(r->x)));
}

/* One element of each row, where rows are short enough that nothing else of their order need be written. */
static bool ranked_at_once(tp_tensor *self, int64_t dim, tpi_gpu_wanted wanted, int64_t k, bool keepdim,
                           tp_tensor **out) {
    int d = self->ndim ? TPI_DIM(self, dim) : -1;
    if (d < 0 || !self->numel || self->ndim == TP_MAX_DIMS || k < 0 || k >= self->shape[d]) {
        tp_error_clear();
        return false;
    }
    int64_t shape[TP_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) shape[i] = i == d ? 1 : self->shape[i];
    tp_tensor *last = tpi_dim_last(self, d), *x = last ? tpi_contiguous_data(last) : NULL;
    tp_tensor *value = x ? tpi_empty(tp_ints_view(shape, self->ndim), (tp_dtype)self->dtype, tpi_device(self)) : NULL,
              *index = value ? tpi_empty(tp_ints_view(shape, self->ndim), TP_INT64, tpi_device(self)) : NULL;
    bool ok = index && tpi_gpu_order_rows(x, self->shape[d], false, wanted, k, value, index) &&
              (keepdim || (drop_dim(value, d) && drop_dim(index, d)));
    tpi_release(last);
    tpi_release(x);
    if (!ok) {
        tpi_release(value);
        tpi_release(index);
        return false;
    }
    out[0] = value;
    out[1] = index;
    return true;
}

tpi_served tpi_gpu_kthvalue(tp_tensor *self, int64_t k, int64_t dim, bool keepdim, tp_tensor **out) {
    ranked r;
    if (ranked_at_once(self, dim, TPI_AT_RANK, k - 1, keepdim, out)) return TPI_SERVED;
    if (tp_error()) return tpi_not_served();
    if (!rank(&r, self, dim) || k < 1 || k > r.n) {
        tpi_release_temporaries(&r.temps, NULL);
        return tpi_not_served();
    }
    return tpi_serve_if(pick(&r, constant_position(&r, k - 1), keepdim, out));
}

/* A row with NaN answers the first of them, unless they are ignored and others are left. */
static tp_tensor *middle(ranked *r, bool ignore_nan) {
    if (!tp_dtype_is_floating((tp_dtype)r->x->dtype)) return constant_position(r, (r->n - 1) / 2);
    tpi_temporaries *temps = &r->temps;
    tp_tensor *lost = tpi_put(temps, tpo_isnan(r->x)),
              *nans = lost ? tpi_put(temps, tpo_sum(lost, TP_INTS(r->d), true, TP_INT64)) : NULL;
    tp_tensor *have = nans ? tpi_put(temps, tpo_sub(tp_operand_int(r->n), tp_operand_tensor(nans), tp_int(1))) : NULL;
    if (!have) return NULL;
    if (ignore_nan) {
        tp_tensor *last = tpi_put(temps, tpo_sub(tp_operand_tensor(have), tp_operand_int(1), tp_int(1))),
                  *half = last ? tpi_put(temps, tpo_floor_divide(tp_operand_tensor(last), tp_operand_int(2))) : NULL;
        return half ? tpi_put(temps, tpo_clamp_min(half, tp_operand_int(0))) : NULL;
    }
    tp_tensor *any = tpi_put(temps, tpo_ne(nans, tp_operand_int(0)));
    return any ? tpi_put(temps, tpo_where(any, tp_operand_tensor(have), tp_operand_int((r->n - 1) / 2))) : NULL;
}

static bool median_of_rows(tp_tensor *self, int64_t dim, bool keepdim, bool ignore_nan, tp_tensor **out) {
    ranked r = {.n = 0};
    if (ranked_at_once(self, dim, ignore_nan ? TPI_MEDIAN_OF_REST : TPI_MEDIAN, 0, keepdim, out)) return true;
    if (tp_error() || !rank(&r, self, dim)) {
        tpi_release_temporaries(&r.temps, NULL);
        return false;
    }
    return pick(&r, middle(&r, ignore_nan), keepdim, out);
}
tpi_served tpi_gpu_median_dim(tp_tensor *self, int64_t dim, bool keepdim, tp_tensor **out) {
    return tpi_serve_if(median_of_rows(self, dim, keepdim, false, out));
}
tpi_served tpi_gpu_nanmedian_dim(tp_tensor *self, int64_t dim, bool keepdim, tp_tensor **out) {
    return tpi_serve_if(median_of_rows(self, dim, keepdim, true, out));
}

static tp_tensor *median_of_all(tp_tensor *self, bool ignore_nan) {
    tp_tensor *alone = tpi_detached(self), *line = alone ? tpo_reshape(alone, TP_INTS(-1)) : NULL,
              *out[2] = {NULL, NULL};
    if (line && median_of_rows(line, 0, false, ignore_nan, out)) tpi_release(out[1]);
    tpi_release(alone);
    tpi_release(line);
    return out[0];
}
tpi_served tpi_gpu_median(tp_tensor *self, tp_tensor **result) { return tpi_serve(median_of_all(self, false), result); }
tpi_served tpi_gpu_nanmedian(tp_tensor *self, tp_tensor **result) {
    return tpi_serve(median_of_all(self, true), result);
}

/* The rows' most frequent elements, of rows in order that lie one behind the other. */
static bool find_modes(tp_tensor *sorted, tp_tensor *order, int64_t n, tp_tensor *value, tp_tensor *index) {
    static const tpi_gpu_site site = {"mode_gpu_kernel.h", "mode"};
    const tpi_gpu_define defines[] = {TPI_DEFINE("GROUP", MODE_THREADS), TPI_DEFINE("GROUPS", 1),
                                      TPI_DEFINE_DTYPE("X", sorted->dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(sorted), &site, sorted->dtype == TP_FLOAT64, 3, defines);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(value->data), TPI_GPU_PTR(index->data), TPI_GPU_PTR(sorted->data),
                                TPI_GPU_PTR(order->data), TPI_GPU_VAL(n)};
    return kernel && tpi_gpu_launch(tpi_device(sorted), kernel, value->numel, MODE_THREADS, 0, 5, args);
}

tpi_served tpi_gpu_mode(tp_tensor *self, int64_t dim, bool keepdim, tp_tensor **out) {
    int d = self->ndim ? TPI_DIM(self, dim) : -1;
    if (d < 0 || !self->numel || tp_dtype_is_complex((tp_dtype)self->dtype)) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    int64_t shape[TP_MAX_DIMS], n = self->shape[d];
    for (int i = 0; i < self->ndim; i++) shape[i] = i == d ? 1 : self->shape[i];
    tpi_temporaries temps = {0};
    tp_tensor *both[2] = {NULL, NULL}, *alone = tpi_put(&temps, tpi_detached(self)),
              *last = alone ? tpi_put(&temps, tpi_dim_last(alone, d)) : NULL,
              *x = last ? tpi_put(&temps, tpi_contiguous_data(last)) : NULL;
    bool ok = x && tpo_sort(x, -1, false, true, both);
    tp_tensor *sorted = ok ? tpi_put(&temps, tpi_contiguous_data(tpi_put(&temps, both[0]))) : NULL,
              *order = ok ? tpi_put(&temps, tpi_contiguous_data(tpi_put(&temps, both[1]))) : NULL;
    tp_tensor *value =
                  order ? tpi_empty(tp_ints_view(shape, self->ndim), (tp_dtype)self->dtype, tpi_device(self)) : NULL,
              *index = value ? tpi_empty(tp_ints_view(shape, self->ndim), TP_INT64, tpi_device(self)) : NULL;
    ok = sorted && index && find_modes(sorted, order, n, value, index) &&
         (keepdim || (drop_dim(value, d) && drop_dim(index, d)));
    tpi_release_temporaries(&temps, NULL);
    if (!ok) {
        tpi_release(value);
        tpi_release(index);
        return tpi_not_served();
    }
    out[0] = value;
    out[1] = index;
    return TPI_SERVED;
}

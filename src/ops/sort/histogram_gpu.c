/* Counting into bins on GPUs: bincount, histc, histogram in one and more dims. See ops/sort/histogram_gpu_kernel.h.
 * Weights are summed in the order of their elements (index_add). The host waits where a range is the elements' own, or
 * the largest number decides how many bins there are. */
#include "ops/sort/histogram.h"
#include "ops/temporaries.h"
#include "ops/native_gpu.h"
#include "tpi_ops.h"
#include <math.h>

enum { RANGE, EVEN, SORTED };                /* as ops/sort/histogram_gpu_kernel.h has them */
enum { PRIVATE_BINS = 2048, MOST_AXES = 5 }; /* what a block counts by itself */

static const tpi_gpu_site numbers_site = {"histogram_gpu_kernel.h", "numbers"},
                          count_site = {"histogram_gpu_kernel.h", "count"};

static const double *doubles_of(const tp_tensor *t) { return (const double *)(const void *)t->data; }

/* How often each of the numbers (int64, contiguous) from 0 on occurs, int32: owned. */
static tp_tensor *counts_of(tp_tensor *numbers, int64_t bins) {
    tp_device device = tpi_device(numbers);
    int64_t n = numbers->numel;
    tp_tensor *out = tpi_gpu_is_counted(numbers) ? tpo_zeros(TP_INTS(bins), TP_INT32, device) : NULL;
    if (!out || !n) return out;
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    bool private = caps && bins <= PRIVATE_BINS && !caps->host_memory;
    const tpi_gpu_define defines[] = {TPI_DEFINE("PRIVATE", private ? PRIVATE_BINS : 0)};
    tpi_gpu_function *kernel = caps ? tpi_gpu_site_kernel(device, &count_site, false, 1, defines) : NULL;
    int64_t blocks = tpi_ceil_div(n, 256), most = caps ? (int64_t)caps->units * 8 : 1;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(out->data), TPI_GPU_PTR(numbers->data), TPI_GPU_VAL(n), TPI_GPU_VAL(bins)};
    return kernel && tpi_gpu_launch(device, kernel, blocks < most ? blocks : most, 256, 0, 4, args)
               ? out
               : tpi_release_then(out, NULL);
}

/* ---- bincount ---- */
tpi_served tpi_gpu_bincount(tp_tensor *self, tp_tensor *weights, int64_t minlength, tp_tensor **result) {
    if (self->ndim != 1 || !self->numel || !(tpi_dtype_category[self->dtype] & TPI_CAT_INT) || minlength < 0 ||
        (weights && !tpi_same_shape(self, weights)))
        return TPI_DECLINED;
    tp_dtype dtype = weights && weights->dtype == TP_FLOAT32 ? TP_FLOAT32 : TP_FLOAT64;
    if (weights &&
        (tp_dtype_is_complex((tp_dtype)weights->dtype) || (dtype == TP_FLOAT64 && !tpi_gpu_has_f64(tpi_device(self)))))
        return TPI_DECLINED;
    tpi_temporaries temps = {0};
    tp_tensor *wide = tpi_put(&temps, tpi_as_dtype_data(self, TP_INT64)),
              *values = wide ? tpi_put(&temps, tpi_contiguous_data(wide)) : NULL;
    tp_tensor *least = tpi_put(&temps, tpo_min(values)), *most = tpi_put(&temps, tpo_max(values));
    tp_scalar low = most ? tp_item_scalar(least) : tp_no_scalar(), high = most ? tp_item_scalar(most) : tp_no_scalar();
    if (low.kind != TP_SCALAR_INT || high.kind != TP_SCALAR_INT ||
        low.as.i < 0) { /* negative numbers are the CPU's to refuse */
        tpi_release_temporaries(&temps, NULL);
        return tpi_not_served();
    }
    int64_t bins = high.as.i + 1 > minlength ? high.as.i + 1 : minlength;
    if (!weights) {
        tp_tensor *counts = tpi_put(&temps, counts_of(values, bins));
        return tpi_serve(tpi_release_temporaries(&temps, counts ? tpi_as_dtype_data(counts, TP_INT64) : NULL), result);
    }
    tp_tensor *w = tpi_put(&temps, tpi_as_dtype_data(weights, dtype)),
              *alone = w ? tpi_put(&temps, tpi_detached(w)) : NULL,
              *out = alone ? tpo_zeros(TP_INTS(bins), dtype, tpi_device(self)) : NULL;
    bool ok = out && tpo_index_add_(out, 0, values, alone, tp_int(1));
    return tpi_serve(tpi_release_temporaries(&temps, ok ? out : tpi_release_then(out, NULL)), result);
}

/* ---- Ranges and bins ---- */
/* The least and the largest of each of n columns, in float64 on the host. */
static bool limits_of(tp_tensor *x, int64_t n, tpi_temporaries *temps, const double **low, const double **high) {
    tp_tensor *columns = tpi_put(temps, tpo_reshape(x, TP_INTS(-1, n))), *end[2] = {NULL, NULL};
    for (int i = 0; i < 2 && columns; i++) {
        tp_tensor *found = tpi_put(temps, (i ? tpo_amax : tpo_amin)(columns, TP_INTS(0), false)),
                  *wide = found ? tpi_put(temps, tpi_as_dtype_data(found, TP_FLOAT64)) : NULL;
        if (wide && tpi_device(wide).type == TP_META)
            end[i] = tpi_put(temps, tpo_full(tpi_shape(wide), tp_int(i), TP_FLOAT64, (tp_device){TP_CPU, 0}));
        else
            end[i] = wide ? tpi_put(temps, tpi_on_host(wide)) : NULL;
    }
    if (!end[1]) return false;
    *low = doubles_of(end[0]);
    *high = doubles_of(end[1]);
    return true;
}

typedef struct axis {
    int way;
    tp_tensor *edges; /* float64, on the device; NULL with RANGE */
    double low, high;
    int64_t bins;
} axis;

/* numbers becomes, or is joined with (more), the bins of `count` values from column c of n on. */
static bool number(tp_tensor *numbers, tp_tensor *x, int64_t c, int64_t n, const axis *a, bool more) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("WAY", a->way), TPI_DEFINE("MORE", more),
                                      TPI_DEFINE_DTYPE("X", x->dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(x), &numbers_site, true, 3, defines);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(numbers->data),
                                TPI_GPU_PTR(x->data + c * (int64_t)tpi_itemsize(x)),
                                TPI_GPU_PTR(tpi_gpu_data(a->edges)),
                                TPI_GPU_VAL(numbers->numel),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(a->low),
                                TPI_GPU_VAL(a->high),
                                TPI_GPU_VAL(a->bins)};
    return !numbers->numel || tpi_gpu_launch_each(tpi_device(x), kernel, numbers->numel, 8, args);
}

/* The bins' sums of weights, or counts, in float64 and of the axes' shape: put into `temps`. x: points with n
 * coordinates, contiguous. */
static tp_tensor *binned(tp_tensor *x, int64_t n, const axis *axes, tp_tensor *weight, tpi_temporaries *temps) {
    int64_t cells = 1, shape[TP_MAX_DIMS];
    tp_tensor *numbers = tpi_put(temps, tpi_empty(TP_INTS(x->numel / n), TP_INT64, tpi_device(x))), *sums = NULL;
    bool ok = numbers;
    for (int64_t c = 0; c < n && ok; c++) {
        cells *= shape[c] = axes[c].bins;
        ok = number(numbers, x, c, n, &axes[c], c > 0);
    }
    if (ok && weight) {
        tp_tensor *wide = tpi_put(temps, tpi_as_dtype_data(weight, TP_FLOAT64)),
                  *alone = wide ? tpi_put(temps, tpi_detached(wide)) : NULL,
                  *line = tpi_put(temps, tpo_reshape(alone, TP_INTS(-1)));
        sums = line ? tpi_put(temps, tpo_zeros(TP_INTS(cells + 1), TP_FLOAT64, tpi_device(x))) : NULL;
        if (sums && !tpo_index_add_(sums, 0, numbers, line, tp_int(1))) sums = NULL;
    } else if (ok) {
        tp_tensor *counts = tpi_put(temps, counts_of(numbers, cells + 1));
        sums = counts ? tpi_put(temps, tpi_as_dtype_data(counts, TP_FLOAT64)) : NULL;
    }
    tp_tensor *inside = sums ? tpi_put(temps, tpo_narrow(sums, 0, 1, cells)) : NULL; /* without what is outside */
    return inside ? tpi_put(temps, tpo_reshape(inside, tp_ints_view(shape, n))) : NULL;
}

/* Over the total and each bin's volume. */
static tp_tensor *densities(tp_tensor *hist, int64_t n, const axis *axes, tpi_temporaries *temps) {
    tp_tensor *total = tpi_put(temps, tpo_sum(hist, tp_no_ints(), false, TP_NO_DTYPE)),
              *out = tpi_put(temps, tpo_div(TP_OPERAND(hist), TP_OPERAND(total)));
    for (int64_t c = 0; c < n && out; c++) {
        int64_t shape[TP_MAX_DIMS];
        for (int64_t i = 0; i < n; i++) shape[i] = i == c ? axes[c].bins : 1;
        tp_tensor *widths = tpi_put(temps, tpo_diff(axes[c].edges, 1, 0, NULL, NULL)),
                  *reshaped = tpi_put(temps, tpo_reshape(widths, tp_ints_view(shape, n)));
        out = tpi_put(temps, tpo_div(TP_OPERAND(out), TP_OPERAND(reshaped)));
    }
    return out;
}

/* A copy of a temporary in the dtype, which is the caller's alone. */
static tp_tensor *own(tp_tensor *t, tp_dtype dtype) {
    tp_tensor *copy = t ? tpi_empty(tpi_shape(t), dtype, tpi_device(t)) : NULL;
    return copy && !tpi_copy_data(copy, t) ? tpi_release_then(copy, NULL) : copy;
}

static bool served(const tp_tensor *self) {
    return tp_dtype_is_floating((tp_dtype)self->dtype) && self->numel && tpi_gpu_is_counted(self) &&
           tpi_gpu_has_f64(tpi_device(self));
}

static tp_tensor *plain(tp_tensor *self, tpi_temporaries *temps) {
    tp_tensor *alone = tpi_put(temps, tpi_detached(self));
    return alone ? tpi_put(temps, tpi_contiguous_data(alone)) : NULL;
}

/* ---- histc and histogram ---- */
tpi_served tpi_gpu_histc(tp_tensor *self, int64_t bins, tp_scalar min, tp_scalar max, tp_tensor **result) {
    if (!served(self) || bins <= 0) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    const double *from, *to;
    axis a = {.way = RANGE, .low = tp_scalar_to_double(min), .high = tp_scalar_to_double(max), .bins = bins};
    tp_tensor *x = plain(self, &temps), *hist = NULL;
    bool ok = x;
    if (ok && a.low == a.high && (ok = limits_of(x, 1, &temps, &from, &to))) {
        a.low = *from;
        a.high = *to;
    }
    if (ok && tpi_find_range(NULL, 0, 1, 1, &a.low, &a.high, "max")) hist = binned(x, 1, &a, NULL, &temps);
    return tpi_serve(tpi_release_temporaries(&temps, own(hist, (tp_dtype)self->dtype)), result);
}

/* Both results over one axis. */
static bool histogram_over(tp_tensor *x, const axis *a, tp_tensor *weight, bool density, tpi_temporaries *temps,
                           tp_tensor **out) {
    tp_tensor *hist = binned(x, 1, a, weight, temps);
    if (hist && density) hist = densities(hist, 1, a, temps);
    out[0] = own(hist, (tp_dtype)x->dtype);
    out[1] = out[0] ? own(a->edges, (tp_dtype)x->dtype) : NULL;
    if (!out[1]) out[0] = tpi_release_then(out[0], NULL);
    return out[1];
}

tpi_served tpi_gpu_histogram(tp_tensor *self, int64_t bins, tp_floats range, tp_tensor *weight, bool density,
                             tp_tensor **out) {
    if (!served(self) || bins <= 0 || (range.v && range.n != 2) || (weight && !tpi_same_shape(self, weight)))
        return TPI_DECLINED;
    tpi_temporaries temps = {0};
    const double *from, *to;
    axis a = {.way = EVEN, .bins = bins};
    tp_tensor *x = plain(self, &temps);
    bool ok = x && (range.v || limits_of(x, 1, &temps, &from, &to));
    if (ok) {
        a.low = range.v ? range.v[0] : *from;
        a.high = range.v ? range.v[1] : *to;
    }
    ok = ok && tpi_find_range(NULL, 0, 1, 0.5, &a.low, &a.high, "range") &&
         (a.edges = tpi_put(&temps, tpi_moved_data(tpi_even_edges(bins, a.low, a.high), tpi_device(self))));
    ok = ok && histogram_over(x, &a, weight, density, &temps, out);
    tpi_release_temporaries(&temps, NULL);
    return tpi_serve_if(ok);
}

/* Edges of any width, and so the range: the kernel reads both. */
static bool by_edges(axis *a, tp_tensor *edges, tpi_temporaries *temps) {
    tp_tensor *wide = tpi_put(temps, tpi_as_dtype_data(edges, TP_FLOAT64));
    *a = (axis){.way = SORTED, .edges = wide ? plain(wide, temps) : NULL, .bins = edges->numel - 1};
    return a->edges;
}

tpi_served tpi_gpu_histogram_bins_tensor(tp_tensor *self, tp_tensor *bins, tp_tensor *weight, bool density,
                                         tp_tensor **out) {
    if (!served(self) || bins->ndim != 1 || bins->numel < 2 || (weight && !tpi_same_shape(self, weight)))
        return TPI_DECLINED;
    tpi_temporaries temps = {0};
    axis a;
    tp_tensor *x = plain(self, &temps);
    bool ok = x && by_edges(&a, bins, &temps) && histogram_over(x, &a, weight, density, &temps, out);
    tpi_release_temporaries(&temps, NULL);
    return tpi_serve_if(ok);
}

/* ---- histogramdd: points (..., n) in n dims ---- */
static bool served_points(const tp_tensor *self, int64_t axes) {
    return served(self) && self->ndim >= 2 && axes == self->shape[self->ndim - 1] && axes <= MOST_AXES;
}

tpi_served tpi_gpu_histogramdd_edges(tp_tensor *self, tp_ints bins, tp_floats range, tp_tensor *weight, bool density,
                                     tp_tensors *result) {
    (void)weight;
    (void)density;
    tp_tensors none = {NULL, 0}, out = none;
    if (!served_points(self, bins.n) || (range.v && range.n != 2 * bins.n)) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    const double *from = NULL, *to = NULL;
    tp_tensor *x = plain(self, &temps);
    bool ok = x && (range.v || limits_of(x, bins.n, &temps, &from, &to)) &&
              (out.v = tpi_malloc(sizeof *out.v * (size_t)bins.n));
    for (int64_t i = 0; i < bins.n && ok; i++) {
        double low = range.v ? range.v[2 * i] : from[i], high = range.v ? range.v[2 * i + 1] : to[i];
        ok = (bins.v[i] > 0 || tpi_refuse(TP_ERR_RUNTIME, "argument 'bins': expected positive numbers, got %lld",
                                          (long long)bins.v[i])) &&
             tpi_find_range(NULL, 0, 1, 0.5, &low, &high, "range");
        tp_tensor *edges = ok ? tpi_even_edges(bins.v[i], low, high) : NULL,
                  *narrow = edges ? tpi_release_then(edges, tpi_as_dtype_data(edges, (tp_dtype)self->dtype)) : NULL;
        out.v[i] = narrow ? tpi_moved_data(narrow, tpi_device(self)) : NULL;
        ok = out.v[i];
        out.n = i + ok;
    }
    tpi_release_temporaries(&temps, NULL);
    if (!ok && out.v) {
        tpi_release_list(out);
        out = none;
    }
    return tpi_serve_list(out, result);
}

tpi_served tpi_gpu_histogramdd(tp_tensor *self, tp_tensors bins, tp_tensor *weight, bool density, tp_tensor **result) {
    if (!served_points(self, bins.n) || (weight && weight->numel != self->numel / bins.n)) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    axis axes[MOST_AXES];
    tp_tensor *x = plain(self, &temps);
    bool ok = x;
    for (int64_t c = 0; c < bins.n && ok; c++)
        ok = bins.v[c]->ndim == 1 && bins.v[c]->numel >= 2 && by_edges(&axes[c], bins.v[c], &temps);
    tp_tensor *hist = ok ? binned(x, bins.n, axes, weight, &temps) : NULL;
    if (hist && density) hist = densities(hist, bins.n, axes, &temps);
    return tpi_serve(tpi_release_temporaries(&temps, own(hist, (tp_dtype)self->dtype)), result);
}

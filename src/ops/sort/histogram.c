/* Counting into bins: bincount, histc, histogram. Sums run over the elements in order, so weights add up the same way
 * every time. */
#include "ops/sort/histogram.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include <math.h>

/* t as contiguous float64: owned. */
static tp_tensor *doubles(tp_tensor *t) {
    tp_tensor *d = tpi_as_dtype_data(t, TP_FLOAT64);
    return d ? tpi_release_then(d, tpi_contiguous_data(d)) : NULL;
}

/* ---- bincount ---- */

enum { TOGETHER = 4, FEW_BINS = 512 };

/* One more than the largest of n elements, 0 of none; -1: one is negative. */
static int64_t bins_for(const int64_t *v, int64_t n) {
    int64_t bins = 0;
    for (int64_t i = 0; i < n; i++) {
        if (v[i] < 0) return -1;
        if (v[i] >= bins) bins = tpi_size_plus(v[i], 1);
    }
    return bins;
}

/* How often each element is there, added to `out`. Few bins are counted several times over: an element does not wait
 * for the one before it, which is often its equal. */
static void count(const int64_t *v, int64_t n, int64_t bins, int64_t *out) {
    int64_t part[TOGETHER][FEW_BINS], i = 0;
    if (bins <= FEW_BINS && n >= TOGETHER * bins) {
        memset(part, 0, sizeof part);
        for (; i + TOGETHER <= n; i += TOGETHER)
            for (int k = 0; k < TOGETHER; k++) part[k][v[i + k]]++;
        for (int64_t b = 0; b < bins; b++)
            for (int k = 0; k < TOGETHER; k++) out[b] += part[k][b];
    }
    for (; i < n; i++) out[v[i]]++;
}

static void *refuse_negative(const int64_t *v) {
    int64_t i = 0;
    while (v[i] >= 0) i++;
    return tpi_fail(TP_ERR_RUNTIME,
                    "argument 'self': bincount only supports 1-d non-negative integral inputs. Got %lld at %lld",
                    (long long)v[i], (long long)i);
}

tp_tensor *tpi_native_bincount(tp_tensor *self, tp_tensor *weights, int64_t minlength) {
    if (!(tpi_dtype_category[self->dtype] & TPI_CAT_INT))
        return tpi_fail(TP_ERR_MISSING, "argument 'self': \"bincount_cpu\" not implemented for '%s'",
                        tp_dtype_word((tp_dtype)self->dtype));
    if (self->ndim != 1)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'self': bincount only supports 1-d non-negative integral inputs. Got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    if (minlength < 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'minlength': minlength should be >= 0, got %lld",
                        (long long)minlength);
    if (weights && !tpi_same_shape(self, weights))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'weights': expected shape %s like self, got %s",
                        tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(weights)));
    tp_tensor *wide = tpi_as_dtype_data(self, TP_INT64), *values = wide ? tpi_contiguous_data(wide) : NULL, *w = NULL,
              *out = NULL;
    tpi_release(wide);
    if (!values) return NULL;
    const int64_t *v = (const int64_t *)(const void *)values->data;
    int64_t bins = bins_for(v, values->numel);
    if (bins < 0) return tpi_release_then(values, refuse_negative(v));
    if (bins < minlength) bins = minlength;
    tp_dtype dtype = !weights ? TP_INT64 : weights->dtype == TP_FLOAT32 ? TP_FLOAT32 : TP_FLOAT64;
    if (weights) {
        tp_tensor *same = tpi_as_dtype_data(weights, dtype);
        w = same ? tpi_release_then(same, tpi_contiguous_data(same)) : NULL;
    }
    if (!weights || w) out = tpi_empty((tp_ints){&bins, 1}, dtype, tpi_device(self));
    if (out && !tpi_fill_data(out, tp_int(0))) out = tpi_release_then(out, NULL);
    if (out && dtype == TP_INT64) count(v, values->numel, bins, (int64_t *)(void *)out->data);
    for (int64_t i = 0; out && w && i < values->numel; i++) {
        if (dtype == TP_FLOAT32)
            ((float *)(void *)out->data)[v[i]] += ((const float *)(const void *)w->data)[i];
        else
            ((double *)(void *)out->data)[v[i]] += ((const double *)(const void *)w->data)[i];
    }
    tpi_release(w);
    return tpi_release_then(values, out);
}

bool tpi_find_range(const double *v, int64_t n, int64_t step, double widen, double *low, double *high,
                    const char *argument) {
    if (*low == *high && n > 0) {
        *low = *high = v[0];
        for (int64_t i = step; i < n * step; i += step) {
            if (v[i] < *low || v[i] != v[i]) *low = v[i];
            if (v[i] > *high || v[i] != v[i]) *high = v[i];
        }
    }
    if (!isfinite(*low) || !isfinite(*high))
        return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected a finite range, got [%g, %g]", argument, *low,
                          *high);
    if (*low == *high) {
        *low -= widen;
        *high += widen;
    }
    return *low < *high ||
           tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected max above min, got [%g, %g]", argument, *low, *high);
}

static int64_t bin_of(double v, double low, double high, int64_t bins) {
    if (!(v >= low && v <= high)) return -1;
    int64_t b = (int64_t)((v - low) * (double)bins / (high - low));
    return b >= bins ? bins - 1 : b;
}

tp_tensor *tpi_native_histc(tp_tensor *self, int64_t bins, tp_scalar min, tp_scalar max) {
    if (!tp_dtype_is_floating(self->dtype))
        return tpi_fail(TP_ERR_MISSING, "argument 'self': \"histogram_cpu\" not implemented for '%s'",
                        tp_dtype_word((tp_dtype)self->dtype));
    if (bins <= 0)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'bins': torch.histogram(): bins must be > 0, but got %lld for dimension 0",
                        (long long)bins);
    tp_tensor *values = doubles(self);
    if (!values) return NULL;
    const double *v = (const double *)(const void *)values->data;
    double low = tp_scalar_to_double(min), high = tp_scalar_to_double(max);
    if (!tpi_find_range(v, values->numel, 1, 1, &low, &high, "max")) return tpi_release_then(values, NULL);
    tp_tensor *counts = tpi_empty((tp_ints){&bins, 1}, TP_FLOAT64, tpi_device(self));
    if (!counts || !tpi_fill_data(counts, tp_int(0))) return tpi_release_then(values, tpi_release_then(counts, NULL));
    for (int64_t i = 0; i < values->numel; i++) {
        int64_t b = bin_of(v[i], low, high, bins);
        if (b >= 0) ((double *)(void *)counts->data)[b]++;
    }
    tpi_release(values);
    return tpi_release_then(counts, tpi_as_dtype_data(counts, self->dtype));
}

/* ---- histogram: edges of any width, weights, densities ---- */
typedef struct bins_of { /* along one axis */
    const double *edge;
    int64_t n;
    bool even;
} bins_of;

static int64_t bin_in(const bins_of *b, double v) {
    if (!(v >= b->edge[0] && v <= b->edge[b->n])) return -1;
    int64_t low = 0, high = b->n;
    if (b->even) { /* a guess that rounding may have put one off */
        int64_t at = bin_of(v, b->edge[0], b->edge[b->n], b->n);
        if (at + 1 < b->n && v >= b->edge[at + 1])
            at++;
        else if (at > 0 && v < b->edge[at])
            at--;
        return at;
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (v >= b->edge[middle])
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* hist (float64, zeroed) gets each of the n weights (NULL: ones); density divides by the total and the bin's width. */
static void fill_histogram(double *hist, const bins_of *b, const double *v, const double *w, int64_t n, bool density) {
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = bin_in(b, v[i]);
        if (at >= 0) hist[at] += w ? w[i] : 1;
    }
    for (int64_t i = 0; i < b->n; i++) total += hist[i];
    for (int64_t i = 0; density && i < b->n; i++) hist[i] /= total * (b->edge[i + 1] - b->edge[i]);
}

/* Both results from edges in float64 (given back) and what to count. */
static bool histogram_over(tp_tensor *self, tp_tensor *edges, bool even, tp_tensor *weight, bool density,
                           tp_tensor **out) {
    int64_t bins = edges->numel - 1;
    tp_tensor *values = doubles(self), *w = values && weight ? doubles(weight) : NULL;
    tp_tensor *hist = values && (!weight || w) ? tpi_empty((tp_ints){&bins, 1}, TP_FLOAT64, tpi_device(self)) : NULL;
    bool ok = hist && tpi_fill_data(hist, tp_int(0));
    if (ok) {
        bins_of b = {.edge = (const double *)(const void *)edges->data, .n = bins, .even = even};
        fill_histogram((double *)(void *)hist->data, &b, (const double *)(const void *)values->data,
                       w ? (const double *)(const void *)w->data : NULL, values->numel, density);
        out[0] = tpi_as_dtype_data(hist, self->dtype);
        out[1] = out[0] ? tpi_as_dtype_data(edges, self->dtype) : NULL;
        ok = out[1] != NULL;
        if (!ok) out[0] = tpi_release_then(out[0], NULL);
    }
    tpi_release(values);
    tpi_release(w);
    tpi_release(hist);
    tpi_release(edges);
    return ok;
}

static bool check_histogram(tp_tensor *self, tp_tensor *weight) {
    if (!tp_dtype_is_floating(self->dtype))
        return tpi_refuse(TP_ERR_TYPE, "argument 'self': expected a floating dtype, got %s",
                          tp_dtype_name(self->dtype));
    return !weight || tpi_same_shape(self, weight) ||
           tpi_refuse(TP_ERR_RUNTIME, "argument 'weight': expected shape %s like self, got %s",
                      tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(weight)));
}

tp_tensor *tpi_even_edges(int64_t bins, double low, double high) {
    int64_t count = tpi_size_plus(bins, 1);
    tp_tensor *edges = tpi_empty((tp_ints){&count, 1}, TP_FLOAT64, (tp_device){TP_CPU, 0});
    if (!edges) return NULL;
    double *e = (double *)(void *)edges->data, step = (high - low) / (double)bins;
    for (int64_t i = 0; i <= bins; i++)
        e[i] = i <= bins / 2 ? low + step * (double)i : high - step * (double)(bins - i);
    return edges;
}

bool tpi_native_histogram(tp_tensor *self, int64_t bins, tp_floats range, tp_tensor *weight, bool density,
                          tp_tensor **out) {
    if (!check_histogram(self, weight)) return false;
    if (bins <= 0)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'bins': expected a positive number, got %lld", (long long)bins);
    if (range.v && range.n != 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'range': expected two numbers, got %lld", (long long)range.n);
    tp_tensor *values = doubles(self);
    if (!values) return false;
    double low = range.v ? range.v[0] : 0, high = range.v ? range.v[1] : 0;
    bool ok = tpi_find_range((const double *)(const void *)values->data, range.v ? 0 : values->numel, 1, 0.5, &low,
                             &high, "range");
    tpi_release(values);
    tp_tensor *edges = ok ? tpi_even_edges(bins, low, high) : NULL;
    return edges && histogram_over(self, edges, true, weight, density, out);
}

bool tpi_native_histogram_bins_tensor(tp_tensor *self, tp_tensor *bins, tp_tensor *weight, bool density,
                                      tp_tensor **out) {
    if (!check_histogram(self, weight)) return false;
    if (bins->ndim != 1 || bins->numel < 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'bins': expected a vector of at least two edges, got shape %s",
                          tpi_shape_text(tpi_shape(bins)));
    tp_tensor *edges = doubles(bins);
    return edges && histogram_over(self, edges, false, weight, density, out);
}

/* ---- histogramdd: points (..., n) in n dims ---- */
tp_tensors tpi_native_histogramdd_edges(tp_tensor *self, tp_ints bins, tp_floats range, tp_tensor *weight,
                                        bool density) {
    (void)weight;
    (void)density;
    tp_tensors none = {NULL, 0}, out = none;
    if (!check_histogram(self, NULL)) return none;
    int64_t n = self->ndim ? self->shape[self->ndim - 1] : 0;
    if (self->ndim < 2 || bins.n != n) {
        tpi_fail(TP_ERR_RUNTIME,
                 "argument 'bins': expected one for each of the coordinates in points of shape (..., n), got "
                 "%lld for %s",
                 (long long)bins.n, tpi_shape_text(tpi_shape(self)));
        return none;
    }
    if (range.v && range.n != 2 * n) {
        tpi_fail(TP_ERR_RUNTIME, "argument 'range': expected %lld numbers, got %lld", (long long)(2 * n),
                 (long long)range.n);
        return none;
    }
    tp_tensor *values = doubles(self);
    out.v = values ? tpi_malloc(sizeof *out.v * (size_t)(n + 1)) : NULL;
    for (int64_t i = 0; out.v && i < n; i++) {
        double low = range.v ? range.v[2 * i] : 0, high = range.v ? range.v[2 * i + 1] : 0;
        bool fine = bins.v[i] > 0 || tpi_refuse(TP_ERR_RUNTIME, "argument 'bins': expected positive numbers, got %lld",
                                                (long long)bins.v[i]);
        fine = fine && tpi_find_range((const double *)(const void *)values->data + i, range.v ? 0 : values->numel / n,
                                      n, 0.5, &low, &high, "range");
        tp_tensor *edges = fine ? tpi_even_edges(bins.v[i], low, high) : NULL;
        out.v[out.n] = edges ? tpi_release_then(edges, tpi_as_dtype_data(edges, self->dtype)) : NULL;
        if (!out.v[out.n]) {
            tpi_release_list(out);
            out = none;
            break;
        }
        out.n++;
    }
    tpi_release(values);
    return out;
}

/* hist (zeroed, of the bins' shape) gets each point's weight; density divides by the total and each bin's volume. */
static void fill_histogramdd(double *hist, const bins_of *b, int64_t n, const double *points, const double *w,
                             int64_t count, bool density) {
    int64_t cells = 1;
    double total = 0;
    for (int64_t d = 0; d < n; d++) cells *= b[d].n;
    for (int64_t i = 0; i < count; i++) {
        int64_t cell = 0;
        for (int64_t d = 0; d < n && cell >= 0; d++) {
            int64_t at = bin_in(&b[d], points[i * n + d]);
            cell = at < 0 ? -1 : cell * b[d].n + at;
        }
        if (cell >= 0) hist[cell] += w ? w[i] : 1;
    }
    for (int64_t c = 0; c < cells; c++) total += hist[c];
    for (int64_t c = 0; density && c < cells; c++) {
        double volume = 1;
        for (int64_t d = n - 1, rest = c; d >= 0; d--) {
            int64_t at = rest % b[d].n;
            volume *= b[d].edge[at + 1] - b[d].edge[at];
            rest /= b[d].n;
        }
        hist[c] /= total * volume;
    }
}

tp_tensor *tpi_native_histogramdd(tp_tensor *self, tp_tensors bins, tp_tensor *weight, bool density) {
    if (!check_histogram(self, NULL)) return NULL;
    int64_t n = self->ndim ? self->shape[self->ndim - 1] : 0, count = n ? self->numel / n : 0, shape[TP_MAX_DIMS];
    if (self->ndim < 2 || bins.n != n || n > TP_MAX_DIMS)
        return tpi_fail(
            TP_ERR_RUNTIME,
            "argument 'bins': expected edges for each of the coordinates in points of shape (..., n), got %lld for %s",
            (long long)bins.n, tpi_shape_text(tpi_shape(self)));
    if (weight && weight->numel != count)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'weight': expected one for each of %lld points, got shape %s",
                        (long long)count, tpi_shape_text(tpi_shape(weight)));
    tp_tensor *edges[TP_MAX_DIMS] = {NULL}, *values = doubles(self), *w = values && weight ? doubles(weight) : NULL,
              *hist = NULL, *out = NULL;
    bins_of axes[TP_MAX_DIMS];
    bool ok = values && (!weight || w);
    for (int64_t d = 0; ok && d < n; d++) {
        ok = (bins.v[d]->ndim == 1 && bins.v[d]->numel >= 2) ||
             tpi_refuse(TP_ERR_RUNTIME, "argument 'bins': expected vectors of at least two edges, got shape %s",
                        tpi_shape_text(tpi_shape(bins.v[d])));
        ok = ok && (edges[d] = doubles(bins.v[d]));
        if (ok)
            axes[d] =
                (bins_of){.edge = (const double *)(const void *)edges[d]->data, .n = shape[d] = edges[d]->numel - 1};
    }
    if (ok && (hist = tpi_empty(tp_ints_view(shape, n), TP_FLOAT64, tpi_device(self))) &&
        tpi_fill_data(hist, tp_int(0))) {
        fill_histogramdd((double *)(void *)hist->data, axes, n, (const double *)(const void *)values->data,
                         w ? (const double *)(const void *)w->data : NULL, count, density);
        out = tpi_as_dtype_data(hist, self->dtype);
    }
    for (int64_t d = 0; d < n && d < TP_MAX_DIMS; d++) tpi_release(edges[d]);
    tpi_release(values);
    tpi_release(w);
    tpi_release(hist);
    return out;
}

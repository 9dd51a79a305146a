/* New tensors: uninitialised, of one value, of evenly spaced values, of index patterns. PyTorch's dtype rules. */
#include "tensor/fits.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "device/gpu/gpu.h"
#include "device/uninitialized.h"
#include "tensor/same_device.h"
#include <complex.h>
#include <math.h>

static tp_tensor *filled(tp_tensor *t, tp_scalar value) {
    return t && !tpi_fill_data(t, value) ? tpi_release_then(t, NULL) : t;
}

static tp_tensor *filled_with(tp_tensor *t, tp_scalar value) {
    return t && !tpi_check_fits(value, (tp_dtype)t->dtype) ? tpi_release_then(t, NULL) : filled(t, value);
}

static bool check_size(tp_ints size) {
    for (int64_t d = 0; d < size.n; d++)
        if (size.v[d] < 0)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'size': Trying to create tensor with negative dimension %lld: %s",
                              (long long)size.v[d], tpi_shape_text(size));
    return size.n <= TP_MAX_DIMS ||
           tpi_refuse(TP_ERR_VALUE, "argument 'size': expected at most %d dimensions, got %lld", TP_MAX_DIMS,
                      (long long)size.n);
}

static tp_tensor *fresh(const char *op, tp_ints size, tp_dtype dtype, tp_device device, tp_layout layout) {
    if (!check_size(size)) return NULL;
    device = tpi_device_or_default(device);
    bool mine = tpi_gpu_owner_begin(device, op);
    tp_tensor *t =
        tpi_empty_layout(size, tpi_dtype_or_default(dtype), device, layout == TP_PRESERVE ? TP_CONTIGUOUS : layout);
    tpi_gpu_owner_end(mine);
    return t;
}

/* The dtype a number stands for: integers are int64, floats of the default dtype. */
static tp_dtype dtype_of_scalar(tp_scalar s) {
    switch (s.kind) {
    case TP_SCALAR_BOOL: return TP_BOOL;
    case TP_SCALAR_INT:
    case TP_SCALAR_UINT: return TP_INT64;
    case TP_SCALAR_COMPLEX:
        return tp_default_dtype() == TP_FLOAT64 ? TP_COMPLEX128 : TP_COMPLEX64; /* as PyTorch's full has it */
    default: return tp_default_dtype();
    }
}

tp_tensor *tpi_native_empty(tp_ints size, tp_dtype dtype, tp_device device, tp_layout memory_format) {
    return tpi_uninitialized(fresh("empty", size, dtype, device, memory_format));
}

tp_tensor *tpi_native_empty_strided(tp_ints size, tp_ints stride, tp_dtype dtype, tp_device device) {
    if (!check_size(size)) return NULL;
    if (size.n != stride.n)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'stride': expected %lld strides for size %s, got %lld",
                        (long long)size.n, tpi_shape_text(size), (long long)stride.n);
    for (int64_t d = 0; d < stride.n; d++)
        if (stride.v[d] < 0)
            return tpi_fail(TP_ERR_RUNTIME, "argument 'stride': Negative strides are not supported, got strides: %s",
                            tpi_shape_text(stride));
    return tpi_uninitialized(
        tpi_empty_strided(size, stride, tpi_dtype_or_default(dtype), tpi_device_or_default(device)));
}

tp_tensor *tpi_native_zeros(tp_ints size, tp_dtype dtype, tp_device device) {
    return filled(fresh("zeros", size, dtype, device, TP_CONTIGUOUS), tp_int(0));
}
tp_tensor *tpi_native_ones(tp_ints size, tp_dtype dtype, tp_device device) {
    return filled(fresh("ones", size, dtype, device, TP_CONTIGUOUS), tp_int(1));
}
tp_tensor *tpi_native_full(tp_ints size, tp_scalar fill_value, tp_dtype dtype, tp_device device) {
    return filled_with(fresh("full", size, dtype ? dtype : dtype_of_scalar(fill_value), device, TP_CONTIGUOUS),
                       fill_value);
}

static tp_tensor *fresh_like(tp_tensor *self, tp_dtype dtype, tp_device device, tp_layout memory_format) {
    if (!dtype) dtype = self->dtype;
    if (!device.type) device = tpi_device(self);
    if (memory_format != TP_PRESERVE) return tpi_empty_layout(tpi_shape(self), dtype, device, memory_format);
    tp_tensor *t = tpi_empty_like(self, dtype);
    tp_device own = tpi_device(self);
    if (!t || tpi_same_device(own, device)) return t;
    return tpi_release_then(t, tpi_empty_strided(tpi_shape(t), tpi_strides(t), dtype, device));
}

tp_tensor *tpi_native_empty_like(tp_tensor *self, tp_dtype dtype, tp_device device, tp_layout memory_format) {
    return tpi_uninitialized(fresh_like(self, dtype, device, memory_format));
}

tp_tensor *tpi_native_zeros_like(tp_tensor *self, tp_dtype dtype, tp_device device, tp_layout memory_format) {
    return filled(fresh_like(self, dtype, device, memory_format), tp_int(0));
}
tp_tensor *tpi_native_ones_like(tp_tensor *self, tp_dtype dtype, tp_device device, tp_layout memory_format) {
    return filled(fresh_like(self, dtype, device, memory_format), tp_int(1));
}
tp_tensor *tpi_native_full_like(tp_tensor *self, tp_scalar fill_value, tp_dtype dtype, tp_device device,
                                tp_layout memory_format) {
    return filled_with(fresh_like(self, dtype, device, memory_format), fill_value);
}

static tp_tensor *fresh_of(tp_tensor *self, tp_ints size, tp_dtype dtype, tp_device device) {
    return fresh("new_empty", size, dtype ? dtype : (tp_dtype)self->dtype, device.type ? device : tpi_device(self),
                 TP_CONTIGUOUS);
}
tp_tensor *tpi_native_new_empty(tp_tensor *self, tp_ints size, tp_dtype dtype, tp_device device) {
    return tpi_uninitialized(fresh_of(self, size, dtype, device));
}
tp_tensor *tpi_native_new_zeros(tp_tensor *self, tp_ints size, tp_dtype dtype, tp_device device) {
    return filled(fresh_of(self, size, dtype, device), tp_int(0));
}
tp_tensor *tpi_native_new_ones(tp_tensor *self, tp_ints size, tp_dtype dtype, tp_device device) {
    return filled(fresh_of(self, size, dtype, device), tp_int(1));
}
tp_tensor *tpi_native_new_full(tp_tensor *self, tp_ints size, tp_scalar fill_value, tp_dtype dtype, tp_device device) {
    return filled_with(fresh_of(self, size, dtype, device), fill_value);
}

tp_tensor *tpi_native_scalar_tensor(tp_scalar s, tp_dtype dtype, tp_device device) {
    return filled_with(fresh("scalar_tensor", (tp_ints){NULL, 0}, dtype, device, TP_CONTIGUOUS), s);
}

/* ---- Evenly spaced values ---- */

/* start + step * i, as integers or as doubles rounded once. Each chunk writes its own stretch. */
#define CHUNK 16384
typedef struct progression {
    char *data;
    tp_dtype dtype; /* int64, float32 or float64 */
    int64_t n;
    int64_t start, step; /* int64 */
    double from, by, to; /* floating: counted from both ends when `mirrored`, so that the last value is exact */
    bool mirrored;
    double base; /* > 0: base to that power */
} progression;

static double term(const progression *p, int64_t i) {
    double v = p->mirrored && i >= p->n / 2 ? p->to - p->by * (double)(p->n - 1 - i) : p->from + p->by * (double)i;
    return p->base > 0 ? pow(p->base, v) : v;
}

static void write_terms(int64_t chunk, void *context) {
    const progression *p = context;
    int64_t i = chunk * CHUNK, end = i + CHUNK < p->n ? i + CHUNK : p->n;
    if (p->dtype == TP_INT64) {
        const uint64_t step =
            (uint64_t)p->step; /* sums instead of products, which few instruction sets have for vectors */
        uint64_t next = (uint64_t)p->start + step * (uint64_t)i, *to = (uint64_t *)(void *)p->data;
        for (; i < end; i++, next += step) to[i] = next;
    } else if (p->dtype == TP_FLOAT32) {
        for (; i < end; i++) ((float *)(void *)p->data)[i] = (float)term(p, i);
    } else {
        for (; i < end; i++) ((double *)(void *)p->data)[i] = term(p, i);
    }
}

/* Writes the terms in the widest type needed and converts to the dtype asked for. */
static tp_tensor *make_terms(progression *p, tp_dtype dtype, tp_device device) {
    device = tpi_device_or_default(device);
    if (device.type == TP_META) return tpi_empty((tp_ints){&p->n, 1}, dtype, device);
    tp_tensor *t = tpi_empty((tp_ints){&p->n, 1}, p->dtype, (tp_device){TP_CPU, 0});
    if (!t) return NULL;
    p->data = t->data;
    tpi_parallel_for(tpi_ceil_div(p->n, CHUNK), p->n > 2 * CHUNK, write_terms, p);
    if (dtype != p->dtype) t = tpi_release_then(t, tpi_as_dtype_data(t, dtype));
    if (!t || device.type == TP_CPU) return t;
    tp_tensor *there = tpi_empty(tpi_shape(t), dtype, device);
    if (there && !tpi_copy_data(there, t)) there = tpi_release_then(there, NULL);
    return tpi_release_then(t, there);
}

static bool integral(tp_scalar s) { return s.kind == TP_SCALAR_INT || s.kind == TP_SCALAR_BOOL; }

static bool check_range(double start, double end, double step) {
    if (step == 0 || step != step)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'step': step must be nonzero, got %g", step);
    if (!isfinite(start) || !isfinite(end))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'end': unsupported range: %g -> %g, expected finite bounds", start,
                          end);
    if ((step > 0 && start > end) || (step < 0 && start < end))
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'step': upper bound and lower bound inconsistent with step sign: %g leads away "
                          "from end: from %g to %g",
                          step, start, end);
    return true;
}

static tp_tensor *spaced(tp_scalar start, tp_scalar end, tp_scalar step, tp_dtype dtype, tp_device device,
                         bool with_end) {
    bool whole = integral(start) && integral(end) && integral(step);
    if (!dtype) dtype = whole && !with_end ? TP_INT64 : tp_default_dtype();
    if (tp_dtype_is_complex(dtype) || start.kind == TP_SCALAR_COMPLEX || end.kind == TP_SCALAR_COMPLEX ||
        step.kind == TP_SCALAR_COMPLEX)
        return tpi_fail(TP_ERR_TYPE, "argument 'dtype': expected real values, got complex ones");
    if (dtype == TP_BOOL)
        return tpi_fail(TP_ERR_TYPE, "argument 'dtype': expected integers or floating values, got bool");
    double from = tp_scalar_to_double(start), to = tp_scalar_to_double(end), by = tp_scalar_to_double(step), count;
    if (!check_range(from, to, by)) return NULL;
    bool counts = tpi_dtype_category[dtype] == TPI_CAT_INT;
    int64_t first = tp_scalar_to_int(start), each = tp_scalar_to_int(step), span = 0;
    if (whole && !__builtin_sub_overflow(end.as.i, first, &span) && span != INT64_MIN)
        count = (double)(span / each + (with_end || span % each != 0));
    else
        count = with_end ? floor((to - from) / by) + 1 : ceil((to - from) / by);
    if (count > 9e15) return tpi_fail(TP_ERR_RUNTIME, "argument 'step': %g makes too many elements", by);
    progression p = {.n = (int64_t)count, .start = first, .step = each, .from = from, .by = by};
    p.dtype = counts ? TP_INT64 : dtype == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32;
    return make_terms(&p, dtype, device);
}

tp_tensor *tpi_native_arange_start_step(tp_scalar start, tp_scalar end, tp_scalar step, tp_dtype dtype,
                                        tp_device device) {
    return spaced(start, end, step, dtype, device, false);
}
tp_tensor *tpi_native_arange_start(tp_scalar start, tp_scalar end, tp_dtype dtype, tp_device device) {
    return spaced(start, end, tp_int(1), dtype, device, false);
}
tp_tensor *tpi_native_arange(tp_scalar end, tp_dtype dtype, tp_device device) {
    return spaced(tp_int(0), end, tp_int(1), dtype, device, false);
}
tp_tensor *tpi_native_range(tp_scalar start, tp_scalar end, tp_scalar step, tp_dtype dtype, tp_device device) {
    return spaced(start, end, step, dtype, device, true);
}

static double complex complex_value(tp_scalar s) {
    return s.kind == TP_SCALAR_COMPLEX ? s.as.d[0] + s.as.d[1] * I : tp_scalar_to_double(s);
}

/* linspace, or base to its power, over complex numbers: the second half counts back from the end. */
static tp_tensor *complex_evenly_spaced(tp_scalar start, tp_scalar end, int64_t steps, double base, tp_dtype dtype,
                                        tp_device device) {
    device = tpi_device_or_default(device);
    if (device.type == TP_META) return tpi_empty((tp_ints){&steps, 1}, dtype, device);
    tp_tensor *t = tpi_empty((tp_ints){&steps, 1}, dtype, (tp_device){TP_CPU, 0});
    double complex from = complex_value(start), to = complex_value(end),
                   by = steps > 1 ? (to - from) / (double)(steps - 1) : 0;
    for (int64_t i = 0; t && i < steps; i++) {
        double complex v = i < steps / 2 || steps == 1 ? from + by * (double)i : to - by * (double)(steps - 1 - i);
        if (base > 0) v = cpow(base, v);
        tpi_store_scalar(t->data + (size_t)i * tpi_itemsize(t), dtype, tp_cplx(creal(v), cimag(v)));
    }
    if (!t || device.type == TP_CPU) return t;
    tp_tensor *there = tpi_empty(tpi_shape(t), dtype, device);
    if (there && !tpi_copy_data(there, t)) there = tpi_release_then(there, NULL);
    return tpi_release_then(t, there);
}

static tp_tensor *evenly_spaced(tp_scalar start, tp_scalar end, int64_t steps, double base, tp_dtype dtype,
                                tp_device device) {
    if (steps < 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'steps': number of steps must be non-negative, got %lld",
                        (long long)steps);
    bool complex_ends = start.kind == TP_SCALAR_COMPLEX || end.kind == TP_SCALAR_COMPLEX;
    if (complex_ends && dtype && !tp_dtype_is_complex(dtype))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'dtype': expected a complex dtype for complex values, got %s",
                        tp_dtype_name(dtype));
    dtype = complex_ends && !dtype ? tpi_dtype_to_complex(tp_default_dtype()) : tpi_dtype_or_default(dtype);
    if (dtype == TP_BOOL)
        return tpi_fail(TP_ERR_MISSING, "\"%s_cpu\" not implemented for 'Bool'", base > 0 ? "logspace" : "linspace");
    if (tp_dtype_is_complex(dtype)) return complex_evenly_spaced(start, end, steps, base, dtype, device);
    if (!tpi_check_fits(start, dtype) || !tpi_check_fits(end, dtype)) return NULL;
    double from = tp_scalar_to_double(start), to = tp_scalar_to_double(end);
    if (tpi_dtype_category[dtype] == TPI_CAT_INT) {
        from = trunc(from);
        to = trunc(to);
    }
    bool wide = dtype == TP_FLOAT64;
    if (dtype == TP_FLOAT32) { /* the ends are elements, so they are rounded before the rest is counted */
        from = (float)from;
        to = (float)to;
    }
    double by =
        steps > 1 ? (wide ? (to - from) / (double)(steps - 1) : (double)((float)(to - from) / (float)(steps - 1))) : 0;
    progression p = {.dtype = wide ? TP_FLOAT64 : TP_FLOAT32,
                     .n = steps,
                     .from = from,
                     .by = by,
                     .to = steps > 1 ? to : from,
                     .mirrored = true,
                     .base = base};
    return make_terms(&p, dtype, device);
}

tp_tensor *tpi_native_linspace(tp_scalar start, tp_scalar end, int64_t steps, tp_dtype dtype, tp_device device) {
    return evenly_spaced(start, end, steps, 0, dtype, device);
}
tp_tensor *tpi_native_logspace(tp_scalar start, tp_scalar end, int64_t steps, double base, tp_dtype dtype,
                               tp_device device) {
    if (!(base > 0)) return tpi_fail(TP_ERR_VALUE, "argument 'base': expected a positive number, got %g", base);
    return evenly_spaced(start, end, steps, base, dtype, device);
}

/* ---- Patterns ---- */

tp_tensor *tpi_native_eye(int64_t n, int64_t m, tp_dtype dtype, tp_device device) {
    if (n < 0) return tpi_fail(TP_ERR_RUNTIME, "argument 'n': n must be greater or equal to 0, got %lld", (long long)n);
    if (m == TP_NONE) m = n;
    if (m < 0) return tpi_fail(TP_ERR_RUNTIME, "argument 'm': m must be greater or equal to 0, got %lld", (long long)m);
    tp_tensor *t = tpi_native_zeros(TP_INTS(n, m), dtype, device);
    if (!t) return NULL;
    int64_t length = n < m ? n : m, stride = m + 1;
    tp_tensor *diagonal = tpi_alias(t, 1, &length, &stride, 0);
    bool ok = diagonal && tpi_fill_data(diagonal, tp_int(1));
    tpi_release(diagonal);
    return ok ? t : tpi_release_then(t, NULL);
}

/* Row r of the lower triangle holds columns below r + offset + 1, of the upper one those from r + offset on. */
static void row_part(int64_t r, int64_t col, int64_t offset, bool lower, int64_t *from, int64_t *to) {
    __int128 edge = (__int128)r + offset + (lower ? 1 : 0);
    int64_t inside = edge < 0 ? 0 : edge > col ? col : (int64_t)edge;
    *from = lower ? 0 : inside;
    *to = lower ? inside : col;
}

static int64_t clamp_row(__int128 r, int64_t row) { return r < 0 ? 0 : r > row ? row : (int64_t)r; }

/* How many elements the lower triangle has: rows from `first` on hold some, those from `full` on all col; in between
 * one more each. */
static __int128 lower_count(int64_t row, int64_t col, __int128 offset) {
    int64_t first = clamp_row(-offset, row), full = clamp_row((__int128)col - offset - 1, row);
    if (full < first) full = first;
    __int128 rising = full - first;
    return rising * ((__int128)first + full + 2 * offset + 1) / 2 + (__int128)(row - full) * col;
}

static tp_tensor *triangle(int64_t row, int64_t col, int64_t offset, bool lower, tp_dtype dtype, tp_device device) {
    if (row < 0 || col < 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument '%s': expected 0 or more, got %lld", row < 0 ? "row" : "col",
                        (long long)(row < 0 ? row : col));
    __int128 n =
        lower ? lower_count(row, col, offset) : (__int128)row * col - lower_count(row, col, (__int128)offset - 1);
    if (n > INT64_MAX / 16)
        return tpi_fail(TP_ERR_RUNTIME, "a triangle of %lld by %lld has too many elements", (long long)row,
                        (long long)col);
    device = tpi_device_or_default(device);
    if (device.type == TP_META) return tpi_empty(TP_INTS(2, (int64_t)n), dtype ? dtype : TP_INT64, device);
    tp_tensor *t = tpi_empty(TP_INTS(2, (int64_t)n), TP_INT64, (tp_device){TP_CPU, 0});
    if (!t) return NULL;
    int64_t *rows = (int64_t *)(void *)t->data, *cols = rows + n, from, to;
    int64_t begin = lower ? clamp_row(-(__int128)offset, row) : 0,
            end = lower ? row : clamp_row((__int128)col - offset, row);
    for (int64_t r = begin; r < end && n; r++) {
        row_part(r, col, offset, lower, &from, &to);
        for (int64_t c = from; c < to; c++) {
            *rows++ = r;
            *cols++ = c;
        }
    }
    if (dtype && dtype != TP_INT64) t = tpi_release_then(t, tpi_as_dtype_data(t, dtype));
    if (!t || device.type == TP_CPU) return t;
    tp_tensor *there = tpi_empty(tpi_shape(t), t->dtype, device);
    if (there && !tpi_copy_data(there, t)) there = tpi_release_then(there, NULL);
    return tpi_release_then(t, there);
}

tp_tensor *tpi_native_tril_indices(int64_t row, int64_t col, int64_t offset, tp_dtype dtype, tp_device device) {
    return triangle(row, col, offset, true, dtype, device);
}
tp_tensor *tpi_native_triu_indices(int64_t row, int64_t col, int64_t offset, tp_dtype dtype, tp_device device) {
    return triangle(row, col, offset, false, dtype, device);
}

/* Binomial coefficient; -1 if it does not fit. */
static int64_t choose(int64_t n, int64_t r) {
    if (r > n || r < 0) return 0;
    if (r > n - r) r = n - r;
    int64_t c = 1;
    for (int64_t i = 1; i <= r; i++) {
        int64_t product;
        if (__builtin_mul_overflow(c, n - r + i, &product)) return -1;
        c = product / i;
    }
    return c;
}

/* (r, count): column j holds the positions of the j-th combination, in lexicographic order. */
tp_tensor *tpi_native_combination_indices(int64_t n, int64_t r, bool with_replacement) {
    if (n < 0 || r < 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'r': expects a non-negative number, but got %lld of %lld",
                        (long long)r, (long long)n);
    int64_t from = with_replacement ? tpi_size_plus(n, r - 1) : n, count = r && n ? choose(from, r) : 0;
    if (count < 0)
        return tpi_fail(TP_ERR_VALUE, "argument 'r': %lld makes too many combinations of %lld elements", (long long)r,
                        (long long)n);
    tp_tensor *t = tpi_empty(TP_INTS(r, count), TP_INT64, (tp_device){TP_CPU, 0});
    if (!t || count == 0) return t; /* from here on memory for r * count values is there */
    int64_t *pick = tpi_malloc(sizeof(int64_t) * (size_t)(r + 1));
    if (!pick) return tpi_release_then(t, NULL);
    int64_t *out = (int64_t *)(void *)t->data;
    for (int64_t k = 0; k < r; k++) pick[k] = with_replacement ? 0 : k;
    for (int64_t j = 0; j < count; j++) {
        for (int64_t k = 0; k < r; k++) out[k * count + j] = pick[k];
        int64_t k = r - 1;
        while (k > 0 && pick[k] == (with_replacement ? n - 1 : n - r + k)) k--;
        pick[k]++;
        for (int64_t l = k + 1; l < r; l++) pick[l] = with_replacement ? pick[k] : pick[l - 1] + 1;
    }
    tpi_mfree(pick);
    return t;
}

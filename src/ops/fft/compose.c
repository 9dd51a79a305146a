/* The Fourier family composed of three transforms (complex, real to half, half to real): sizes, norms, several dims,
 * and the short-time transform. They differentiate themselves. */
#include "ops/temporaries.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"
#include <math.h>

/* ---- Arguments ---- */

/* Which dims are transformed, and to what sizes. */
typedef struct request {
    int ndim;
    int64_t dim[TP_MAX_DIMS], size[TP_MAX_DIMS];
    double scale;
} request;

/* norm: where 1 / n goes. "backward" (the default): to the inverse; "forward": to the forward transform; "ortho": half
 * of it to each. */
static bool read_norm(const char *norm, bool forward, int64_t n, double *scale) {
    const char *name = norm ? norm : "backward";
    if (!strcmp(name, "ortho"))
        *scale = 1 / sqrt((double)n);
    else if (!strcmp(name, "backward"))
        *scale = forward ? 1 : 1 / (double)n;
    else if (!strcmp(name, "forward"))
        *scale = forward ? 1 / (double)n : 1;
    else
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'norm': Invalid normalization mode: \"%s\", expected \"forward\", \"backward\" or \"ortho\"",
            name);
    return true;
}

static bool refuse_size(const char *argument, int64_t n) {
    return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': Invalid number of data points (%lld) specified", argument,
                      (long long)n);
}

/* s and dim as PyTorch reads them: dim not given means the last dims that s names, or all. halved: self holds the
 * non-redundant half along the last dim, whose size is then 2 (size - 1) unless given. */
static bool read_request(request *r, const tp_tensor *self, tp_ints s, tp_ints dim, const char *norm, bool forward,
                         bool halved) {
    bool mask[TP_MAX_DIMS] = {false};
    if (s.v && dim.v && s.n != dim.n)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "When given, dim and shape arguments must have the same length, got %lld and %lld",
                          (long long)dim.n, (long long)s.n);
    if (s.v && s.n > self->ndim)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 's': Got shape with %lld values but input tensor only has %d dimensions.",
                          (long long)s.n, self->ndim);
    if (dim.v && dim.n && !self->ndim)
        return tpi_refuse(TP_ERR_INDEX, "argument 'dim': Dimension specified as %lld but tensor has no dimensions",
                          (long long)dim.v[0]);
    r->ndim = 0;
    for (int64_t i = 0; dim.v && i < dim.n; i++) {
        int d = TPI_DIM(self, dim.v[i]);
        if (d < 0) return false;
        if (mask[d]) return tpi_refuse(TP_ERR_RUNTIME, "argument 'dim': FFT dims must be unique, got dim %d twice", d);
        mask[d] = true;
        r->dim[r->ndim++] = d;
    }
    if (!dim.v) {
        r->ndim = (int)(s.v ? s.n : self->ndim);
        for (int i = 0; i < r->ndim; i++) r->dim[i] = self->ndim - r->ndim + i;
    }
    int64_t total = 1;
    for (int i = 0; i < r->ndim; i++) {
        int64_t d = r->dim[i];
        bool half = halved && i == r->ndim - 1;
        int64_t given = s.v ? s.v[i] : -1;
        r->size[i] = given != -1 ? given : half ? tpi_size_times(2, self->shape[d] - 1) : self->shape[d];
        if (r->size[i] < 1) return refuse_size(s.v ? "s" : "self", r->size[i]);
        total = tpi_size_times(total, r->size[i]);
    }
    return read_norm(norm, forward, total, &r->scale);
}

/* One dim: n and dim as lists. */
static bool read_single(request *r, const tp_tensor *self, int64_t n, int64_t dim, const char *norm, bool forward,
                        bool halved) {
    if (n != TP_NONE && n < 1) return refuse_size("n", n);
    return read_request(r, self, n == TP_NONE ? tp_no_ints() : TP_INTS(n), TP_INTS(dim), norm, forward, halved);
}

static bool check_precision(const tp_tensor *t) {
    return (t->dtype != TP_FLOAT16 && t->dtype != TP_BFLOAT16) ||
           tpi_refuse(TP_ERR_MISSING, "argument 'self': Unsupported dtype %s", tp_dtype_word((tp_dtype)t->dtype));
}

static tp_tensor *in_dtype(tpi_temporaries *temps, tp_tensor *t, tp_dtype dtype) {
    return (tp_dtype)t->dtype == dtype ? t : tpi_put(temps, tpo_to_dtype(t, dtype));
}
static tp_tensor *as_complex(tpi_temporaries *temps, tp_tensor *t) {
    return in_dtype(temps, t, tpi_dtype_to_complex(tpi_dtype_to_float((tp_dtype)t->dtype)));
}

/* Cut to n elements along a dim, or filled up with zeros. */
static tp_tensor *resized(tpi_temporaries *temps, tp_tensor *t, int64_t dim, int64_t n) {
    if (!t || t->shape[dim] == n) return t;
    if (t->shape[dim] > n) return tpi_put(temps, tpo_narrow(t, dim, 0, n));
    int64_t pad[2 * TP_MAX_DIMS] = {0}, last = t->ndim - 1 - dim; /* pads are listed from the last dim on */
    pad[2 * last + 1] = n - t->shape[dim];
    return tpi_put(temps, tpo_constant_pad_nd(t, tp_ints_view(pad, 2 * last + 2), tp_int(0)));
}

/* ---- Transforms ---- */

static tp_tensor *complex_to_complex(tp_tensor *self, const request *r, bool forward) {
    if (!check_precision(self)) return NULL;
    tpi_temporaries temps = {0};
    tp_tensor *x = as_complex(&temps, self);
    for (int i = 0; i < r->ndim; i++) x = resized(&temps, x, r->dim[i], r->size[i]);
    return tpi_release_temporaries(&temps, tpo_fft_c2c(x, tp_ints_view(r->dim, r->ndim), r->scale, forward));
}

/* The last dim by the real transform, the others by the complex one. Backward: the conjugate, for ihfft. */
static tp_tensor *real_to_complex(tp_tensor *self, const request *r, bool forward) {
    if (!check_precision(self)) return NULL;
    if (r->ndim < 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'dim': %s must transform at least one axis",
                        forward ? "rfftn" : "ihfftn");
    tpi_temporaries temps = {0};
    tp_tensor *x = in_dtype(&temps, self, tpi_dtype_to_float((tp_dtype)self->dtype));
    for (int i = 0; i < r->ndim; i++) x = resized(&temps, x, r->dim[i], r->size[i]);
    const tp_ints others = tp_ints_view(r->dim, r->ndim - 1), none = tp_ints_view(r->dim, 0);
    x = tpi_put(&temps, tpo_fft_r2c(x, forward ? others : none, r->dim[r->ndim - 1], r->scale));
    if (!forward) x = tpi_put(&temps, tpo_conj_physical(x));
    if (!forward && others.n) x = tpi_put(&temps, tpo_fft_c2c(x, others, 1, false));
    return tpi_release_temporaries(&temps, tpi_retain(x));
}

/* forward: hfft, which is the inverse of the conjugate. */
static tp_tensor *complex_to_real(tp_tensor *self, const request *r, bool forward) {
    if (!check_precision(self)) return NULL;
    if (r->ndim < 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'dim': %s must transform at least one axis",
                        forward ? "hfftn" : "irfftn");
    tpi_temporaries temps = {0};
    int last = r->ndim - 1;
    tp_tensor *x = as_complex(&temps, self);
    for (int i = 0; i < r->ndim; i++) x = resized(&temps, x, r->dim[i], i == last ? r->size[i] / 2 + 1 : r->size[i]);
    const tp_ints others = tp_ints_view(r->dim, last), none = tp_ints_view(r->dim, 0);
    if (forward && last > 0) x = tpi_put(&temps, tpo_fft_c2c(x, others, 1, true));
    if (forward) x = tpi_put(&temps, tpo_conj_physical(x));
    x = tpo_fft_c2r(x, forward ? none : others, r->dim[last], r->size[last], r->scale);
    return tpi_release_temporaries(&temps, x);
}

tp_tensor *tpi_compose_fft(tp_tensor *self, int64_t n, int64_t dim, const char *norm, bool forward) {
    request r;
    return read_single(&r, self, n, dim, norm, forward, false) ? complex_to_complex(self, &r, forward) : NULL;
}
tp_tensor *tpi_compose_rfft(tp_tensor *self, int64_t n, int64_t dim, const char *norm, bool forward) {
    request r;
    if (tp_dtype_is_complex((tp_dtype)self->dtype))
        return tpi_fail(TP_ERR_TYPE, "argument 'self': %s expects a real input tensor, but got %s",
                        forward ? "rfft" : "ihfft", tp_dtype_word((tp_dtype)self->dtype));
    return read_single(&r, self, n, dim, norm, forward, false) ? real_to_complex(self, &r, forward) : NULL;
}
tp_tensor *tpi_compose_irfft(tp_tensor *self, int64_t n, int64_t dim, const char *norm, bool forward) {
    request r;
    return read_single(&r, self, n, dim, norm, forward, true) ? complex_to_real(self, &r, forward) : NULL;
}
tp_tensor *tpi_compose_fftn(tp_tensor *self, tp_ints s, tp_ints dim, const char *norm, bool forward) {
    request r;
    return read_request(&r, self, s, dim, norm, forward, false) ? complex_to_complex(self, &r, forward) : NULL;
}
tp_tensor *tpi_compose_rfftn(tp_tensor *self, tp_ints s, tp_ints dim, const char *norm, bool forward) {
    request r;
    if (tp_dtype_is_complex((tp_dtype)self->dtype))
        return tpi_fail(TP_ERR_TYPE, "argument 'self': %s %s",
                        forward ? "rfftn expects a real-valued input tensor, but got"
                                : "Only supports floating-point dtypes, but found:",
                        tp_dtype_word((tp_dtype)self->dtype));
    return read_request(&r, self, s, dim, norm, forward, false) ? real_to_complex(self, &r, forward) : NULL;
}
tp_tensor *tpi_compose_irfftn(tp_tensor *self, tp_ints s, tp_ints dim, const char *norm, bool forward) {
    request r;
    return read_request(&r, self, s, dim, norm, forward, true) ? complex_to_real(self, &r, forward) : NULL;
}

/* What the gradient of real-to-half needs: the half, filled up with zeros, transformed back along all dims. */
tp_tensor *tpi_compose_whole_back(tp_tensor *self, tp_ints others, int64_t dim, int64_t n, double scale) {
    tpi_temporaries temps = {0};
    tp_tensor *x = others.n ? tpi_put(&temps, tpo_fft_c2c(self, others, 1, false)) : self;
    x = x ? tpi_put(&temps, tpo_fill_up(x, dim, n)) : NULL;
    x = x ? tpi_put(&temps, tpo_fft_c2c(x, TP_INTS(dim), scale, false)) : NULL;
    return tpi_release_temporaries(&temps, x ? tpo_real(x) : NULL);
}

/* The half's inner elements stand for two each: what the gradient of half-to-real needs. */
tp_tensor *tpi_compose_double_inner(tp_tensor *self, int64_t dim, int64_t n) {
    int d = TPI_DIM(self, dim);
    if (d < 0) return NULL;
    if (n < 0 || self->ndim == 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'n': expected 0 or more and a dimension, got %lld for shape %s",
                        (long long)n, tpi_shape_text(tpi_shape(self)));
    int64_t inner = (n - 1) / 2;
    if (inner < 1) return tpi_retain(self);
    tpi_temporaries temps = {0};
    tp_tensor *first = tpi_put(&temps, tpo_narrow(self, d, 0, 1)),
              *middle = tpi_put(&temps, tpo_narrow(self, d, 1, inner));
    tp_tensor *twice = tpi_put(&temps, tpo_add(TP_OPERAND(middle), TP_OPERAND(middle), tp_int(1)));
    tp_tensor *parts[3] = {first, twice, NULL};
    int64_t count = 2;
    if (n % 2 == 0) parts[count++] = tpi_put(&temps, tpo_narrow(self, d, inner + 1, 1));
    if (!first || !twice || (n % 2 == 0 && !parts[2])) return tpi_release_temporaries(&temps, NULL);
    return tpi_release_temporaries(&temps, tpo_cat((tp_tensors){parts, count}, d));
}

tp_tensor *tpi_compose_fill_up(tp_tensor *self, int64_t dim, int64_t n) {
    tpi_temporaries temps = {0};
    int d = TPI_DIM(self, dim);
    if (d < 0) return NULL;
    if (n < 0 || self->ndim == 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'n': expected 0 or more and a dimension, got %lld for shape %s",
                        (long long)n, tpi_shape_text(tpi_shape(self)));
    return tpi_release_temporaries(&temps, tpi_retain(resized(&temps, self, d, n)));
}

/* inverse: undoes the shift of odd sizes too. */
tp_tensor *tpi_compose_fftshift(tp_tensor *self, tp_ints dim, bool inverse) {
    int64_t shifts[TP_MAX_DIMS] = {0}, dims[TP_MAX_DIMS];
    if (!self->ndim) return tpi_retain(self);
    int64_t n = dim.v ? dim.n : self->ndim;
    for (int64_t i = 0; i < n; i++) { /* a dim that is named twice is shifted twice */
        int d = dim.v ? TPI_DIM(self, dim.v[i]) : (int)i;
        if (d < 0) return NULL;
        shifts[d] += inverse ? (self->shape[d] + 1) / 2 : self->shape[d] / 2;
    }
    for (int d = 0; d < self->ndim; d++) dims[d] = d;
    return tpo_roll(self, tp_ints_view(shifts, self->ndim), tp_ints_view(dims, self->ndim));
}

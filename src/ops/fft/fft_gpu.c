/* Fourier transforms on GPUs by the driver's library, which transforms lines that lie one behind the other: a dim that
 * is not the last is brought there and back. Complex ones of up to three neighbouring dims that are the first or the
 * last go at once. What is not as it should be is declined, and the CPU's native says what is wrong. */
#include "device/gpu/trace.h"
#include "ops/native_gpu.h"
#include "tpi_ops.h"

/* t contiguous, with dim d the last; owned. A copy where the library may write over what it reads. */
static tp_tensor *lines_of(tp_tensor *t, int d, bool copied) {
    tp_tensor *view = tpo_transpose(t, d, -1);
    tp_tensor *lines = view ? (copied ? tpo_clone(view, TP_CONTIGUOUS) : tpo_contiguous(view, TP_CONTIGUOUS)) : NULL;
    return tpi_release_then(view, lines);
}

static bool ask(const tpi_gpu_driver *driver, tp_device device, const tpi_gpu_fft *f) {
    tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_LIBRARY, "fft", 0);
    bool served = driver->fft(device.index, tpi_gpu_stream_of(device), f) == TPI_SERVED;
    tpi_gpu_span_end(&span, served);
    return served;
}

/* One dim of x; n is the length of the longer side's lines. Owned; NULL without an error: declined. */
static tp_tensor *transform(tp_tensor *x, int d, int64_t n, int kind, tp_dtype dtype, bool forward) {
    tp_device device = tpi_device(x);
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver || !driver->fft || n < 1 || x->numel == 0) return NULL;
    tp_tensor *from = lines_of(x, d, kind == TPI_FFT_C2R), *to = NULL, *out = NULL;
    if (!from) return NULL;
    int64_t shape[TP_MAX_DIMS], size = kind == TPI_FFT_R2C ? n / 2 + 1 : n;
    for (int i = 0; i < from->ndim; i++) shape[i] = from->shape[i];
    int64_t lines = from->numel / shape[from->ndim - 1];
    shape[from->ndim - 1] = size;
    to = tpi_empty(tp_ints_view(shape, from->ndim), dtype, device);
    bool wide = x->dtype == TP_FLOAT64 || x->dtype == TP_COMPLEX128;
    const tpi_gpu_fft f = {.kind = kind,
                           .wide = wide,
                           .forward = forward,
                           .n = n,
                           .lines = lines,
                           .x = from->data,
                           .y = to ? to->data : NULL};
    bool served = to && ask(driver, device, &f);
    if (served) out = lines_of(to, d, false);
    tpi_release(from);
    return tpi_release_then(to, out);
}

static int dim_of(const tp_tensor *t, int64_t dim) { /* -1 without an error if there is no such dim */
    int64_t d = dim < 0 ? dim + t->ndim : dim;
    return d >= 0 && d < t->ndim ? (int)d : -1;
}

/* ---- Blocks of neighbouring dims ---- */
enum { MOST_RANK = 3 };

/* The first of the dims, if they are neighbours, each named once; -1 if not, or if there are too many. */
static int first_of_run(const tp_tensor *self, tp_ints dim) {
    bool named[TP_MAX_DIMS] = {false};
    int first = TP_MAX_DIMS;
    if (dim.n > MOST_RANK) return -1;
    for (int64_t i = 0; i < dim.n; i++) {
        int d = dim_of(self, dim.v[i]);
        if (d < 0 || named[d]) return -1;
        named[d] = true;
        if (d < first) first = d;
    }
    for (int i = 0; i < dim.n; i++)
        if (first + i >= self->ndim || !named[first + i]) return -1;
    return first;
}

/* NULL without an error: declined. */
static tp_tensor *transform_block(tp_tensor *self, int first, int rank, bool forward) {
    tp_device device = tpi_device(self);
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    tpi_gpu_fft f = {.kind = TPI_FFT_C2C, .wide = self->dtype == TP_COMPLEX128, .forward = forward, .rank = rank};
    int64_t before = 1, behind = 1;
    for (int d = 0; d < self->ndim; d++) {
        if (d < first) before *= self->shape[d];
        if (d >= first + rank) behind *= self->shape[d];
    }
    for (int i = 0; i < rank; i++) f.shape[i] = self->shape[first + i];
    f.woven = behind > 1;
    f.lines = before * behind;
    if (!driver || !driver->fft || !self->numel || (before > 1 && behind > 1)) return NULL;
    tp_tensor *from = tpi_contiguous_data(self),
              *to = from ? tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, device) : NULL;
    f.x = tpi_gpu_data(from);
    f.y = tpi_gpu_data(to);
    bool served = to && ask(driver, device, &f);
    tpi_release(from);
    return served ? to : tpi_release_then(to, NULL);
}

static tp_tensor *scaled(tp_tensor *t, double scale) { /* consumes t */
    if (!t || scale == 1) return t;
    return tpo_mul_(t, tp_operand_double(scale)) ? t : tpi_release_then(t, NULL);
}

tpi_served tpi_gpu_fft_c2c(tp_tensor *self, tp_ints dim, double scale, bool forward, tp_tensor **result) {
    if (!tp_dtype_is_complex((tp_dtype)self->dtype) || dim.n < 1) return TPI_DECLINED;
    int first = first_of_run(self, dim);
    tp_tensor *out = first < 0 ? NULL : transform_block(self, first, (int)dim.n, forward);
    if (out || !tp_ok()) return tpi_serve(scaled(out, scale), result);
    out = tpi_retain(self);
    for (int64_t i = dim.n - 1; i >= 0 && out; i--) {
        int d = dim_of(self, dim.v[i]);
        tp_tensor *next = d < 0 ? NULL : transform(out, d, self->shape[d], TPI_FFT_C2C, (tp_dtype)self->dtype, forward);
        tpi_release(out);
        out = next;
    }
    return tpi_serve(scaled(out, scale), result);
}

/* Along more dims, if there are any; consumes t. */
static tp_tensor *others_too(tp_tensor *t, tp_ints others, bool forward) {
    tp_tensor *out = NULL;
    if (!t || !others.n) return t;
    return tpi_gpu_fft_c2c(t, others, 1, forward, &out) == TPI_SERVED ? tpi_release_then(t, out)
                                                                      : tpi_release_then(t, NULL);
}

tpi_served tpi_gpu_fft_r2c(tp_tensor *self, tp_ints others, int64_t dim, double scale, tp_tensor **result) {
    int d = dim_of(self, dim);
    if (d < 0 || (self->dtype != TP_FLOAT32 && self->dtype != TP_FLOAT64)) return TPI_DECLINED;
    tp_tensor *half =
        transform(self, d, self->shape[d], TPI_FFT_R2C, tpi_dtype_to_complex((tp_dtype)self->dtype), true);
    return tpi_serve(others_too(scaled(half, scale), others, true), result);
}

tpi_served tpi_gpu_fft_c2r(tp_tensor *self, tp_ints others, int64_t dim, int64_t n, double scale, tp_tensor **result) {
    int d = dim_of(self, dim);
    if (d < 0 || n < 1 || !tp_dtype_is_complex((tp_dtype)self->dtype) || self->shape[d] != n / 2 + 1)
        return TPI_DECLINED;
    tp_tensor *half = others_too(tpi_retain(self), others, false);
    tp_tensor *out = half ? transform(half, d, n, TPI_FFT_C2R, tpi_dtype_to_real((tp_dtype)self->dtype), false) : NULL;
    tpi_release(half);
    return tpi_serve(scaled(out, scale), result);
}

/* Fourier transforms on GPUs by the driver's library, which transforms lines that lie one behind the other: a dim that
 * is not the last is brought there and back. What is not as it should be is declined, and the CPU's native says what is
 * wrong. */
#include "device/gpu/trace.h"
#include "ops/native_gpu.h"
#include "tpi_ops.h"

/* t contiguous, with dim d the last; owned. A copy where the library may write over what it reads. */
static tp_tensor *lines_of(tp_tensor *t, int d, bool copied) {
    tp_tensor *view = tpo_transpose(t, d, -1);
    tp_tensor *lines = view ? (copied ? tpo_clone(view, TP_CONTIGUOUS) : tpo_contiguous(view, TP_CONTIGUOUS)) : NULL;
    return tpi_release_then(view, lines);
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
    tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_LIBRARY, "fft", 0);
    bool served = to && driver->fft(device.index, tpi_gpu_stream_of(device), &f) == TPI_SERVED;
    tpi_gpu_span_end(&span, served);
    if (served) out = lines_of(to, d, false);
    tpi_release(from);
    return tpi_release_then(to, out);
}

static tp_tensor *scaled(tp_tensor *t, double scale) { /* consumes t */
    if (!t || scale == 1) return t;
    return tpo_mul_(t, tp_operand_double(scale)) ? t : tpi_release_then(t, NULL);
}

static int dim_of(const tp_tensor *t, int64_t dim) { /* -1 without an error if there is no such dim */
    int64_t d = dim < 0 ? dim + t->ndim : dim;
    return d >= 0 && d < t->ndim ? (int)d : -1;
}

tpi_served tpi_gpu_fft_c2c(tp_tensor *self, tp_ints dim, double scale, bool forward, tp_tensor **result) {
    if (!tp_dtype_is_complex((tp_dtype)self->dtype) || dim.n < 1) return TPI_DECLINED;
    tp_tensor *out = tpi_retain(self);
    for (int64_t i = dim.n - 1; i >= 0 && out; i--) {
        int d = dim_of(self, dim.v[i]);
        tp_tensor *next = d < 0 ? NULL : transform(out, d, self->shape[d], TPI_FFT_C2C, (tp_dtype)self->dtype, forward);
        tpi_release(out);
        out = next;
    }
    return tpi_serve(scaled(out, scale), result);
}

tpi_served tpi_gpu_fft_r2c(tp_tensor *self, int64_t dim, double scale, tp_tensor **result) {
    int d = dim_of(self, dim);
    if (d < 0 || (self->dtype != TP_FLOAT32 && self->dtype != TP_FLOAT64)) return TPI_DECLINED;
    return tpi_serve(
        scaled(transform(self, d, self->shape[d], TPI_FFT_R2C, tpi_dtype_to_complex((tp_dtype)self->dtype), true),
               scale),
        result);
}

tpi_served tpi_gpu_fft_c2r(tp_tensor *self, int64_t dim, int64_t n, double scale, tp_tensor **result) {
    int d = dim_of(self, dim);
    if (d < 0 || n < 1 || !tp_dtype_is_complex((tp_dtype)self->dtype) || self->shape[d] != n / 2 + 1)
        return TPI_DECLINED;
    return tpi_serve(scaled(transform(self, d, n, TPI_FFT_C2R, tpi_dtype_to_real((tp_dtype)self->dtype), false), scale),
                     result);
}

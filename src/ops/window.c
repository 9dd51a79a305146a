/* Window functions. A periodic window is the symmetric one of one more point, without its last. */
#include "ops/native.h"
#include <math.h>

typedef struct window {
    double a, b, c; /* cosine windows: a - b cos(x) + c cos(2x) */
    double beta;    /* Kaiser */
    enum { COSINES, TRIANGLE, KAISER } kind;
} window;

/* The modified Bessel function of the first kind and order zero: its power series, which converges for every x. */
static double bessel_i0(double x) {
    double sum = 1, part = 1, quarter = x * x / 4;
    for (int k = 1; k < 1000 && part > sum * 1e-17; k++) part *= quarter / ((double)k * k), sum += part;
    return sum;
}

static double window_at(const window *w, int64_t i, int64_t last) {
    double at = (double)i / (double)last;
    if (w->kind == TRIANGLE) return 1 - fabs(2 * at - 1);
    if (w->kind == KAISER) {
        double inside = 1 - (2 * at - 1) * (2 * at - 1);
        return bessel_i0(w->beta * sqrt(inside > 0 ? inside : 0)) / bessel_i0(w->beta);
    }
    double x = 2 * M_PI * at;
    return w->a - w->b * cos(x) + w->c * cos(2 * x);
}

static tp_tensor *make_window(int64_t length, bool periodic, window w, tp_dtype dtype, tp_device device) {
    if (length < 0) return tpi_fail(TP_ERR_RUNTIME, "argument 'window_length': expected 0 or more, got %lld", (long long)length);
    dtype = tpi_dtype_or_default(dtype);
    if (!tp_dtype_is_floating(dtype)) return tpi_fail(TP_ERR_TYPE, "argument 'dtype': expected a floating dtype, got %s", tp_dtype_name(dtype));
    tp_tensor *t = tpi_empty((tp_ints){&length, 1}, TP_FLOAT64, (tp_device){TP_CPU, 0});
    if (!t) return NULL;
    double *out = (double *)(void *)t->data;
    int64_t last = periodic ? length : length - 1;
    for (int64_t i = 0; i < length; i++) out[i] = length == 1 ? 1 : window_at(&w, i, last);
    t = tpi_after(t, tpi_as_dtype_data(t, dtype));
    device = tpi_device_or_default(device);
    if (!t || device.type == TP_CPU) return t;
    tp_tensor *there = tpi_empty(tpi_shape(t), dtype, device);
    if (there && !tpi_copy_data(there, t)) there = tpi_after(there, NULL);
    return tpi_after(t, there);
}

tp_tensor *tpi_native_hann_window(int64_t window_length, bool periodic, tp_dtype dtype, tp_device device) {
    return make_window(window_length, periodic, (window){.a = 0.5, .b = 0.5}, dtype, device);
}
tp_tensor *tpi_native_hamming_window(int64_t window_length, bool periodic, double alpha, double beta, tp_dtype dtype, tp_device device) {
    return make_window(window_length, periodic, (window){.a = alpha, .b = beta}, dtype, device);
}
tp_tensor *tpi_native_blackman_window(int64_t window_length, bool periodic, tp_dtype dtype, tp_device device) {
    return make_window(window_length, periodic, (window){.a = 0.42, .b = 0.5, .c = 0.08}, dtype, device);
}
tp_tensor *tpi_native_bartlett_window(int64_t window_length, bool periodic, tp_dtype dtype, tp_device device) {
    return make_window(window_length, periodic, (window){.kind = TRIANGLE}, dtype, device);
}
tp_tensor *tpi_native_kaiser_window(int64_t window_length, bool periodic, double beta, tp_dtype dtype, tp_device device) {
    return make_window(window_length, periodic, (window){.kind = KAISER, .beta = beta}, dtype, device);
}

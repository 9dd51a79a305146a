/* Window functions. A periodic window is the symmetric one of one more point, without its last. On GPUs a kernel writes
 * them (ops/creation/window_gpu.c): the tables name these natives on both lines. */
#include "tensor/same_device.h"
#include "ops/creation/window.h"
#include <math.h>

/* The modified Bessel function of the first kind and order zero: its power series, which converges for every x. */
static double bessel_i0(double x) {
    double sum = 1, part = 1, quarter = x * x / 4;
    for (int k = 1; k < 1000 && part > sum * 1e-17; k++) {
        part *= quarter / ((double)k * k);
        sum += part;
    }
    return sum;
}

static double window_at(const tpi_window *w, int64_t i, int64_t last) {
    double at = (double)i / (double)last;
    if (w->kind == TPI_WINDOW_TRIANGLE) return 1 - fabs(2 * at - 1);
    if (w->kind == TPI_WINDOW_KAISER) {
        double inside = 1 - (2 * at - 1) * (2 * at - 1);
        return bessel_i0(w->beta * sqrt(inside > 0 ? inside : 0)) / bessel_i0(w->beta);
    }
    if (w->kind == TPI_WINDOW_SINE) return sin(M_PI * ((double)i + 0.5) / (double)(last + 1));
    if (w->kind == TPI_WINDOW_GAUSSIAN)
        return exp(-0.5 * ((double)i - (double)last / 2) * ((double)i - (double)last / 2) / (w->beta * w->beta));
    if (w->kind == TPI_WINDOW_EXPONENTIAL)
        return exp(-fabs((double)i - (w->center == w->center ? w->center : (double)last / 2)) / w->beta);
    double x = 2 * M_PI * at, total = 0;
    if (w->kind == TPI_WINDOW_SUM) {
        for (int64_t k = 0; k < w->sum.n; k++) total += (k % 2 ? -1 : 1) * w->sum.v[k] * cos((double)k * x);
        return total;
    }
    return w->a - w->b * cos(x) + w->c * cos(2 * x);
}

static tp_tensor *make_window(int64_t length, bool periodic, tpi_window w, tp_dtype dtype, tp_device device) {
    if (length < 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'window_length': expected 0 or more, got %lld", (long long)length);
    dtype = tpi_dtype_or_default(dtype);
    if (!tp_dtype_is_floating(dtype))
        return tpi_fail(TP_ERR_TYPE, "argument 'dtype': expected a floating dtype, got %s", tp_dtype_name(dtype));
    int64_t last = periodic ? length : length - 1;
    device = tpi_device_or_default(device);
    if (tpi_is_gpu(device)) {
        tp_tensor *there = tpi_gpu_window(length, last, &w, dtype, device);
        if (there || tp_error()) return there;
    }
    tp_tensor *t = tpi_empty((tp_ints){&length, 1}, TP_FLOAT64, (tp_device){TP_CPU, 0});
    if (!t) return NULL;
    double *out = (double *)(void *)t->data;
    for (int64_t i = 0; i < length; i++) out[i] = length == 1 ? 1 : window_at(&w, i, last);
    t = tpi_release_then(t, tpi_as_dtype_data(t, dtype));
    if (!t || device.type == TP_CPU) return t;
    tp_tensor *there = tpi_empty(tpi_shape(t), dtype, device);
    if (there && !tpi_copy_data(there, t)) there = tpi_release_then(there, NULL);
    return tpi_release_then(t, there);
}

tp_tensor *tpi_native_hann_window(int64_t window_length, bool periodic, tp_dtype dtype, tp_device device) {
    return make_window(window_length, periodic, (tpi_window){.a = 0.5, .b = 0.5}, dtype, device);
}
tp_tensor *tpi_native_hamming_window(int64_t window_length, bool periodic, double alpha, double beta, tp_dtype dtype,
                                     tp_device device) {
    return make_window(window_length, periodic, (tpi_window){.a = alpha, .b = beta}, dtype, device);
}
tp_tensor *tpi_native_blackman_window(int64_t window_length, bool periodic, tp_dtype dtype, tp_device device) {
    return make_window(window_length, periodic, (tpi_window){.a = 0.42, .b = 0.5, .c = 0.08}, dtype, device);
}
tp_tensor *tpi_native_bartlett_window(int64_t window_length, bool periodic, tp_dtype dtype, tp_device device) {
    return make_window(window_length, periodic, (tpi_window){.kind = TPI_WINDOW_TRIANGLE}, dtype, device);
}
tp_tensor *tpi_native_kaiser_window(int64_t window_length, bool periodic, double beta, tp_dtype dtype,
                                    tp_device device) {
    return make_window(window_length, periodic, (tpi_window){.kind = TPI_WINDOW_KAISER, .beta = beta}, dtype, device);
}

/* ---- torch.signal.windows: symmetric unless asked otherwise ---- */
static tp_tensor *signal(int64_t M, bool sym, tpi_window w, tp_dtype dtype, tp_device device) {
    if (M < 0)
        return tpi_fail(TP_ERR_VALUE, "argument 'M': requires non-negative window length, got M=%lld", (long long)M);
    dtype = tpi_dtype_or_default(dtype);
    if (dtype != TP_FLOAT32 && dtype != TP_FLOAT64)
        return tpi_fail(TP_ERR_VALUE, "argument 'dtype': expects float32 or float64 dtypes, got: %s",
                        tp_dtype_name(dtype));
    return make_window(M, !sym, w, dtype, device);
}

tp_tensor *tpi_native_signal_bartlett(int64_t M, bool sym, tp_dtype dtype, tp_device device) {
    return signal(M, sym, (tpi_window){.kind = TPI_WINDOW_TRIANGLE}, dtype, device);
}
tp_tensor *tpi_native_signal_blackman(int64_t M, bool sym, tp_dtype dtype, tp_device device) {
    return signal(M, sym, (tpi_window){.a = 0.42, .b = 0.5, .c = 0.08}, dtype, device);
}
tp_tensor *tpi_native_signal_cosine(int64_t M, bool sym, tp_dtype dtype, tp_device device) {
    return signal(M, sym, (tpi_window){.kind = TPI_WINDOW_SINE}, dtype, device);
}
tp_tensor *tpi_native_signal_hamming(int64_t M, bool sym, tp_dtype dtype, tp_device device) {
    return signal(M, sym, (tpi_window){.a = 0.54, .b = 0.46}, dtype, device);
}
tp_tensor *tpi_native_signal_hann(int64_t M, bool sym, tp_dtype dtype, tp_device device) {
    return signal(M, sym, (tpi_window){.a = 0.5, .b = 0.5}, dtype, device);
}
tp_tensor *tpi_native_signal_general_hamming(int64_t M, double alpha, bool sym, tp_dtype dtype, tp_device device) {
    return signal(M, sym, (tpi_window){.a = alpha, .b = 1 - alpha}, dtype, device);
}
tp_tensor *tpi_native_signal_kaiser(int64_t M, double beta, bool sym, tp_dtype dtype, tp_device device) {
    if (beta < 0) return tpi_fail(TP_ERR_VALUE, "argument 'beta': beta must be non-negative, got %g", beta);
    return signal(M, sym, (tpi_window){.kind = TPI_WINDOW_KAISER, .beta = beta}, dtype, device);
}
tp_tensor *tpi_native_signal_gaussian(int64_t M, double std, bool sym, tp_dtype dtype, tp_device device) {
    if (std <= 0) return tpi_fail(TP_ERR_VALUE, "argument 'std': standard deviation must be positive, got %g", std);
    return signal(M, sym, (tpi_window){.kind = TPI_WINDOW_GAUSSIAN, .beta = std}, dtype, device);
}
tp_tensor *tpi_native_signal_exponential(int64_t M, double center, double tau, bool sym, tp_dtype dtype,
                                         tp_device device) {
    if (tau <= 0) return tpi_fail(TP_ERR_VALUE, "argument 'tau': tau must be positive, got %g", tau);
    if (sym && center == center)
        return tpi_fail(TP_ERR_VALUE, "argument 'center': center must be None for symmetric windows, got %g", center);
    return signal(M, sym, (tpi_window){.kind = TPI_WINDOW_EXPONENTIAL, .beta = tau, .center = center}, dtype, device);
}
tp_tensor *tpi_native_signal_general_cosine(int64_t M, tp_floats a, bool sym, tp_dtype dtype, tp_device device) {
    if (!a.n) return tpi_fail(TP_ERR_VALUE, "argument 'a': coefficients cannot be empty");
    return signal(M, sym, (tpi_window){.kind = TPI_WINDOW_SUM, .sum = a}, dtype, device);
}
tp_tensor *tpi_native_signal_nuttall(int64_t M, bool sym, tp_dtype dtype, tp_device device) {
    static const double a[] = {0.3635819, 0.4891775, 0.1365995, 0.0106411};
    return signal(M, sym, (tpi_window){.kind = TPI_WINDOW_SUM, .sum = {a, 4}}, dtype, device);
}

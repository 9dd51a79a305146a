/* Gamma and Dirichlet samples in PyTorch's order of draws. How a sample moves with its concentration is gamma_grad and
 * beta_grad of the element language (device/element/element_special.h). */
#include <float.h>
#include <math.h>
#include "ops/native.h"
#include "ops/random/fill.h"
#include "ops/compute_dtype.h"

/* Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); concentrations below one draw a uniform
 * more. The constants in float are part of the stream. */
static double draw_gamma(tp_generator *g, double a) {
    double scale = 1;
    if (a < 1) {
        if (a == 0) return 0;
        scale = pow(1 - tpi_uniform_double(g), 1 / a);
        a += 1;
    }
    double d = a - (double)(1.0f / 3.0f), c = 1 / sqrt(9 * d);
    for (;;) {
        double x, y;
        do {
            x = tpi_normal_double(g);
            y = 1 + c * x;
        } while (y <= 0);
        double v = y * y * y, u = 1 - tpi_uniform_double(g), xx = x * x;
        if (u < 1 - (double)0.0331f * xx * xx || log(u) < 0.5 * xx + d * (1 - v + log(v))) return scale * d * v;
    }
}

double tpi_least_normal(tp_dtype dtype) {
    return dtype == TP_FLOAT64 ? DBL_MIN : dtype == TP_FLOAT16 ? 0x1p-14 : (double)FLT_MIN;
}
double tpi_below_one(tp_dtype dtype) {
    return dtype == TP_FLOAT64    ? 1 - 0x1p-53
           : dtype == TP_FLOAT16  ? 1 - 0x1p-11
           : dtype == TP_BFLOAT16 ? 1 - 0x1p-8
                                  : 1 - 0x1p-24;
}

/* A sample for each concentration, in row-major order, in float64. */
static tp_tensor *gammas(tp_tensor *concentration, double least, tp_generator *g) {
    if (!tpi_compute_dtype(concentration, "self")) return NULL;
    tp_tensor *a = tpi_to_compute(concentration, TP_FLOAT64),
              *out = a ? tpi_empty(tpi_shape(a), TP_FLOAT64, tpi_device(a)) : NULL;
    if (out) {
        g = tpi_generator_lock(g);
        for (int64_t i = 0; i < a->numel; i++)
            ((double *)out->data)[i] = fmax(least, draw_gamma(g, ((double *)a->data)[i]));
        tpi_generator_unlock(g);
    }
    return tpi_release_then(a, out);
}

tp_tensor *tpi_native_standard_gamma(tp_tensor *self, tp_generator *g) {
    return tpi_from_compute(gammas(self, tpi_least_normal((tp_dtype)self->dtype), g), (tp_dtype)self->dtype);
}

tp_tensor *tpi_native_sample_dirichlet(tp_tensor *self, tp_generator *g) {
    if (!self->ndim) return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected at least one dimension");
    tp_tensor *out = gammas(self, DBL_MIN, g);
    if (!out) return NULL;
    double least = tpi_least_normal((tp_dtype)self->dtype), most = tpi_below_one((tp_dtype)self->dtype),
           *x = (double *)out->data;
    int64_t n = out->shape[out->ndim - 1];
    for (int64_t row = 0; row < out->numel; row += n) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[row + i];
        for (int64_t i = 0; i < n; i++) x[row + i] = fmin(most, fmax(least, x[row + i] / sum));
    }
    return tpi_from_compute(out, (tp_dtype)self->dtype);
}

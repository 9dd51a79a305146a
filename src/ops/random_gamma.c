/* Gamma and Dirichlet samples in PyTorch's order of draws, and how a sample moves with its concentration when its probability stays.
 *
 * A sample x of a distribution with the cumulative probability F(x; a) moves by dx/da = -(dF/da) / (dF/dx): the implicit derivative. F's
 * derivative is taken term by term of a series all of whose terms have one sign, on the side where it converges quickly, or of a continued
 * fraction; so it is exact to about double precision. */
#include <float.h>
#include <math.h>
#include "base/random.h"
#include "device/cpu/element.h"
#include "ops/native.h"
#include "ops/real.h"

#define ENOUGH 1e-16 /* a term that adds less, relative to the sum, ends a series */
enum { MOST_TERMS = 1000000, CHUNK = 256 };

/* Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); concentrations below one draw a uniform more. The constants
 * in float are part of the stream. */
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

static double least_of(tp_dtype dtype) { /* the smallest normal number */
    return dtype == TP_FLOAT64 ? DBL_MIN : dtype == TP_FLOAT16 ? 0x1p-14 : (double)FLT_MIN;
}
static double below_one(tp_dtype dtype) {
    return dtype == TP_FLOAT64 ? 1 - 0x1p-53 : dtype == TP_FLOAT16 ? 1 - 0x1p-11 : dtype == TP_BFLOAT16 ? 1 - 0x1p-8 : 1 - 0x1p-24;
}

/* A sample for each concentration, in row-major order, in float64. */
static tp_tensor *gammas(tp_tensor *concentration, double least, tp_generator *g) {
    if (!tpi_compute_dtype(concentration, "self")) return NULL;
    tp_tensor *a = tpi_real_data(concentration, TP_FLOAT64), *out = a ? tpi_empty(tpi_shape(a), TP_FLOAT64, tpi_device(a)) : NULL;
    if (out) {
        g = tpi_generator_lock(g);
        for (int64_t i = 0; i < a->numel; i++) ((double *)out->data)[i] = fmax(least, draw_gamma(g, ((double *)a->data)[i]));
        tpi_generator_unlock(g);
    }
    return tpi_after(a, out);
}

tp_tensor *tpi_native_standard_gamma(tp_tensor *self, tp_generator *g) {
    return tpi_real_finish(gammas(self, least_of((tp_dtype)self->dtype), g), (tp_dtype)self->dtype);
}

tp_tensor *tpi_native_sample_dirichlet(tp_tensor *self, tp_generator *g) {
    if (!self->ndim) return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected at least one dimension");
    tp_tensor *out = gammas(self, DBL_MIN, g);
    if (!out) return NULL;
    double least = least_of((tp_dtype)self->dtype), most = below_one((tp_dtype)self->dtype), *x = (double *)out->data;
    int64_t n = out->shape[out->ndim - 1];
    for (int64_t row = 0; row < out->numel; row += n) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[row + i];
        for (int64_t i = 0; i < n; i++) x[row + i] = fmin(most, fmax(least, x[row + i] / sum));
    }
    return tpi_real_finish(out, (tp_dtype)self->dtype);
}

/* ---- d sample / d concentration ---- */

/* x <= a + 1: P(a, x) / density = sum of t_n with t_0 = x / a, t_n = t_n-1 x / (a + n), and d log t_n / da follows psi(a + n + 1). */
static double gamma_grad_series(double a, double x) {
    double slope = el_digamma_f64(a) + 1 / a - log(x), t = x / a, sum = t * slope;
    for (int n = 1; n < MOST_TERMS; n++) {
        t *= x / (a + n);
        slope += 1 / (a + n);
        sum += t * slope;
        if (t * fabs(slope) <= ENOUGH * fabs(sum)) break;
    }
    return sum;
}
/* x > a + 1: 1 - P(a, x) = density times x times a continued fraction, evaluated by Lentz's method together with its derivative. */
static double gamma_grad_fraction(double a, double x) {
    double b = x + 1 - a, c = 1e300, dc = 0, d = 1 / b, dd = 1 / (b * b), h = d, dh = dd;
    for (int n = 1; n < MOST_TERMS; n++) {
        double an = -n * (n - a), dan = n;
        b += 2;
        double below = an * d + b, dbelow = dan * d + an * dd - 1; /* db / da = -1 */
        double above = b + an / c, dabove = -1 + dan / c - an * dc / (c * c);
        d = 1 / below, dd = -dbelow * d * d;
        c = above, dc = dabove;
        double factor = d * c, dfactor = dd * c + d * dc;
        dh = dh * factor + h * dfactor;
        h *= factor;
        if (fabs(factor - 1) + fabs(dfactor) <= ENOUGH) break;
    }
    return x * ((log(x) - el_digamma_f64(a)) * h + dh);
}
/* Large concentrations: by Wilson and Hilferty the cube root of x / a is normal. */
static double gamma_grad_large(double a, double x) {
    double w = cbrt(x / a), z = 3 * sqrt(a) * (w - 1 + 1 / (9 * a));
    return w * w * w + 3 * a * w * w * (1 / (9 * a * a) - z / (6 * a * sqrt(a)));
}
static double gamma_grad(double a, double x) {
    if (!(a > 0) || !(x > 0)) return x == 0 ? 0 : NAN;
    if (a > 1e5) return gamma_grad_large(a, x);
    return x <= a + 1 ? gamma_grad_series(a, x) : gamma_grad_fraction(a, x);
}

/* The same for the first parameter of a Beta(a, b), over 1 - x, which is what Dirichlet's derivative is made of. With I_x(a, b) = density times
 * x (1 - x) / a times the sum of c_n, c_n = c_n-1 x (a + b + n - 1) / (a + n), for x below the mean, and 1 - I_1-x(b, a) above it. */
static double beta_grad(double x, double a, double total) {
    double b = total - a;
    if (!(a > 0) || !(b > 0) || !(x > 0) || !(x < 1)) return x == 0 || x == 1 ? 0 : NAN;
    bool low = x < (a + 1) / (total + 2);
    double y = low ? x : 1 - x, p = low ? a : b, c = 1;
    double slope = log(x) + el_digamma_f64(total) - el_digamma_f64(a) - (low ? 1 / a : 0), sum = slope;
    for (int n = 1; n < MOST_TERMS; n++) {
        double up = total + n - 1, down = p + n;
        c *= y * up / down;
        slope += 1 / up - (low ? 1 / down : 0);
        sum += c * slope;
        if (c * fabs(slope) <= ENOUGH * fabs(sum)) break;
    }
    return (low ? -x : x) / p * sum;
}

typedef struct grad_job {
    tp_tensor *in[3], *out;
} grad_job;
static double in(const grad_job *job, int k, int64_t i) { return ((const double *)job->in[k]->data)[i]; }
static void gamma_chunk(int64_t chunk, void *context) {
    const grad_job *job = context;
    for (int64_t i = chunk * CHUNK; i < job->out->numel && i < (chunk + 1) * CHUNK; i++) ((double *)job->out->data)[i] = gamma_grad(in(job, 0, i), in(job, 1, i));
}
static void beta_chunk(int64_t chunk, void *context) {
    const grad_job *job = context;
    for (int64_t i = chunk * CHUNK; i < job->out->numel && i < (chunk + 1) * CHUNK; i++)
        ((double *)job->out->data)[i] = beta_grad(in(job, 0, i), in(job, 1, i), in(job, 2, i));
}

/* Tensors of one shape in double, the chunks, and the result in the first one's dtype. */
static tp_tensor *each(int n, tp_tensor *const *given, const char *const *names, tpi_chunk_fn chunk) {
    grad_job job = {{NULL}, NULL};
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        ok = tpi_compute_dtype(given[i], names[i]);
        if (ok && !tpi_same_shape(given[i], given[0]))
            ok = tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected the shape %s, got %s", names[i], tpi_shape_text(tpi_shape(given[0])), tpi_shape_text(tpi_shape(given[i])));
        ok = ok && (job.in[i] = tpi_real_data(given[i], TP_FLOAT64));
    }
    if (ok && (job.out = tpi_empty(tpi_shape(given[0]), TP_FLOAT64, tpi_device(given[0]))))
        tpi_parallel_for(tpi_ceil_div(job.out->numel, CHUNK), job.out->numel > CHUNK, chunk, &job);
    for (int i = 0; i < n; i++) tpi_release(job.in[i]);
    return tpi_real_finish(job.out, (tp_dtype)given[0]->dtype);
}
tp_tensor *tpi_native_standard_gamma_grad(tp_tensor *self, tp_tensor *output) {
    return each(2, (tp_tensor *[]){self, output}, (const char *[]){"self", "output"}, gamma_chunk);
}
tp_tensor *tpi_native_dirichlet_grad(tp_tensor *x, tp_tensor *alpha, tp_tensor *total) {
    return each(3, (tp_tensor *[]){x, alpha, total}, (const char *[]){"x", "alpha", "total"}, beta_chunk);
}

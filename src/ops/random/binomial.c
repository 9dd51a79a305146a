/* Binomial counts in PyTorch's order of draws: few expected successes go from success to success by geometric steps,
 * many use Hoermann's transformed rejection (BTRS, "The generation of binomial random variates", 1993). */
#include <math.h>
#include "base/random.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"

static double by_steps(tp_generator *g, double count, double p) {
    double passed = 0, successes = 0, log_miss = log1p(-p);
    for (;; successes++) {
        passed += ceil(log(tpi_uniform_double(g)) / log_miss);
        if (passed > count) return successes;
    }
}

/* log k! less (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2 */
static double stirling_rest(double k) {
    int sign;
    double n = k + 1, nn = n * n;
    if (k < 10) return lgamma_r(n, &sign) - (k + 0.5) * log(n) + n - 0.91893853320467274178;
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / nn) / nn) / n;
}
static double by_rejection(tp_generator *g, double count, double p) {
    double spread = sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double centre = count * p + 0.5, inside = 0.92 - 4.2 / b, odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * spread,
           mode = floor((count + 1) * p);
    for (;;) {
        double u = tpi_uniform_double(g) - 0.5, v = tpi_uniform_double(g), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + centre);
        if (k < 0 || k > count) continue;
        if (us >= 0.07 && v <= inside) return k;
        double bound = (mode + 0.5) * log((mode + 1) / (odds * (count - mode + 1))) +
                       (count + 1) * log((count - mode + 1) / (count - k + 1)) +
                       (k + 0.5) * log(odds * (count - k + 1) / (k + 1)) + stirling_rest(mode) +
                       stirling_rest(count - mode) - stirling_rest(k) - stirling_rest(count - k);
        if (log(v * alpha / (a / (us * us) + b)) <= bound) return k;
    }
}
static double draw_binomial(tp_generator *g, double count, double p) {
    if (isnan(p) || isnan(count)) return NAN;
    if (count <= 0 || p <= 0) return 0;
    if (p >= 1) return count;
    if (p > 0.5) return count - draw_binomial(g, count, 1 - p);
    return count * p >= 10 ? by_rejection(g, count, p) : by_steps(g, count, p);
}

tp_tensor *tpi_native_binomial(tp_tensor *count, tp_tensor *prob, tp_generator *g) {
    const tp_tensor *given[2] = {count, prob};
    for (int i = 0; i < 2; i++)
        if (!tp_dtype_is_floating((tp_dtype)given[i]->dtype))
            return tpi_fail(TP_ERR_VALUE, "binomial only supports floating-point dtypes for %s, got: %s",
                            i ? "prob" : "count", tp_dtype_word((tp_dtype)given[i]->dtype));
    if (!tpi_compute_dtype(count, "count") || !tpi_check_same_dtype(prob, "prob", count, "count")) return NULL;
    if (!tpi_same_shape(prob, count))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'prob': expected the shape of count, %s, got %s",
                        tpi_shape_text(tpi_shape(count)), tpi_shape_text(tpi_shape(prob)));
    tp_tensor *n = tpi_to_compute(count, TP_FLOAT64), *p = n ? tpi_to_compute(prob, TP_FLOAT64) : NULL;
    tp_tensor *out = p ? tpi_empty(tpi_shape(count), TP_FLOAT64, tpi_device(count)) : NULL;
    if (out) {
        g = tpi_generator_lock(g);
        for (int64_t i = 0; i < out->numel; i++)
            ((double *)out->data)[i] = draw_binomial(g, ((double *)n->data)[i], ((double *)p->data)[i]);
        tpi_generator_unlock(g);
    }
    tpi_release(n);
    tpi_release(p);
    return tpi_from_compute(out, (tp_dtype)count->dtype);
}

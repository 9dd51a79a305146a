/* The random tensors behind dropout and rrelu. The layers themselves are expressions over these in
 * tables/operators/random.op, so they differentiate themselves; nothing here is differentiated.
 *
 * `keep` is how many leading dims the noise has of its own; it is one in the others and broadcasts: -1 for all (plain
 * dropout), 2 for (N, C, ...) where whole channels are dropped together. */
#include <math.h>
#include "base/error.h"
#include "ops/native.h"
#include "ops/random/fill.h"
#include "tpi_ops.h"

static tp_tensor *empty_noise(tp_tensor *self, double p, int64_t keep) {
    if (!(p >= 0 && p <= 1))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'p': dropout probability has to be between 0 and 1, but got %g", p);
    tp_dtype dtype = tpi_dtype_to_real((tp_dtype)self->dtype); /* complex numbers go as a whole */
    if (!tp_dtype_is_floating(dtype))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected a floating tensor, got %s", tp_dtype_name(dtype));
    if (keep < 0) return tpi_empty_like(self, dtype);
    if (self->ndim < 2)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'input': Feature dropout requires at least 2 dimensions in the input, got %d",
                        self->ndim);
    int64_t shape[TP_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) shape[i] = i < keep ? self->shape[i] : 1;
    return tpi_empty(tp_ints_view(shape, self->ndim), dtype, tpi_device(self));
}

/* 1 where an element stays, 0 where it goes; nothing is drawn when none stays. */
tp_tensor *tpi_native_dropout_mask(tp_tensor *self, double p, int64_t keep, tp_generator *g) {
    tp_tensor *mask = empty_noise(self, p, keep);
    if (mask && (p == 1 ? tpi_fill_data(mask, tp_float(0)) : tpi_native_bernoulli_p(mask, 1 - p, g))) return mask;
    return tpi_release_then(mask, NULL);
}

/* What dropout multiplies with: 1 / (1 - p) where an element stays. */
tp_tensor *tpi_native_dropout_noise(tp_tensor *self, double p, int64_t keep, tp_generator *g) {
    tp_tensor *mask = tpi_native_dropout_mask(self, p, keep, g);
    if (!mask || p == 1) return mask;
    bool wide = mask->dtype == TP_FLOAT64;
    double kept = wide ? 1 / (1 - p) : (double)(1 / (float)(1 - p));
    return tpi_release_then(mask, tpo_mul(tp_operand_tensor(mask), tp_operand_double(kept)));
}

/* Alpha dropout sets dropped elements to -alpha and then restores mean 0 and variance 1: input * scale(mask) +
 * shift(mask). */
static const double alpha = 1.7580993408473766;
static double alpha_gain(double p) { return 1 / sqrt((alpha * alpha * p + 1) * (1 - p)); }

/* mask ? kept : gone, on any device. */
static tp_tensor *chosen(tp_tensor *mask, double kept, double gone) {
    tp_tensor *out = tpi_empty_like(mask, (tp_dtype)mask->dtype),
              *away = out && tpi_fill_data(out, tp_float(kept)) ? tpo_eq(mask, tp_operand_int(0)) : NULL;
    bool ok = away && tpo_masked_fill_(out, away, tp_float(gone));
    tpi_release(away);
    return ok ? out : tpi_release_then(out, NULL);
}

tp_tensor *tpi_native_alpha_dropout_scale(tp_tensor *mask, double p) {
    return chosen(mask, p == 1 ? 0 : alpha_gain(p), 0);
}

tp_tensor *tpi_native_alpha_dropout_shift(tp_tensor *mask, double p) {
    double a = p == 1 ? 0 : alpha * alpha_gain(p);
    return chosen(mask, a * p, a * p - a);
}

/* ---- rrelu's slopes: uniform in [lower, upper) for elements that are not positive, 1 for the others ---- */
tp_tensor *tpi_native_rrelu_noise(tp_tensor *self, tp_scalar lower, tp_scalar upper, tp_generator *g) {
    tp_dtype d = (tp_dtype)self->dtype;
    double from = tp_scalar_to_double(lower), to = tp_scalar_to_double(upper);
    if (!tp_dtype_is_floating(d))
        return tpi_fail(TP_ERR_MISSING, "argument 'self': expected a floating tensor, got %s", tp_dtype_name(d));
    if (!(from <= to))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'lower': expected lower <= upper, got %g > %g", from, to);
    tp_tensor *x = tpi_contiguous_data(self);
    tp_tensor *noise = x ? tpi_empty(tpi_shape(self), d, tpi_device(self)) : NULL;
    if (!noise) return tpi_release_then(x, NULL);
    int64_t item = (int64_t)tpi_itemsize(x);
    g = tpi_generator_lock(g);
    for (int64_t i = 0; i < x->numel; i++) {
        bool falls = tp_scalar_to_double(tpi_load_scalar(x->data + i * item, d)) <= 0;
        tpi_store_scalar(noise->data + i * item, d, tp_float(falls ? tpi_uniform_double(g) * (to - from) + from : 1));
    }
    tpi_generator_unlock(g);
    return tpi_release_then(x, noise);
}

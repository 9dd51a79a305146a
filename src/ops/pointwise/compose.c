/* Pointwise operators that look at their arguments before they choose a kernel. */
#include "ops/temporaries.h"
#include "ops/native.h"
#include "tensor/fits.h"
#include "tpi_ops.h"
#include <float.h>
#include <math.h>

/* Powers that need no logarithm: 1 of complex numbers, 2, 3, 1/2, -1/2, -1, -2 of tensors whose dtype the exponent does
 * not raise. */
static tp_tensor *easy_power(tp_tensor *self, tp_scalar exponent, bool *taken) {
    bool whole = tp_dtype_is_integral((tp_dtype)self->dtype), any = !whole && self->dtype != TP_BOOL;
    bool real =
        exponent.kind != TP_SCALAR_COMPLEX || (exponent.as.d[1] == 0 && tp_dtype_is_complex((tp_dtype)self->dtype));
    double e = real && exponent.kind != TP_SCALAR_BOOL ? tp_scalar_to_double(exponent) : 0;
    *taken = true;
    if (any || (whole && exponent.kind == TP_SCALAR_INT)) {
        if (e == 2) return tpo_times_itself(self);
        if (e == 3) return tpo_cube(self);
    }
    if (e == 1 && tp_dtype_is_complex((tp_dtype)self->dtype)) return tpo_clone(self, TP_PRESERVE);
    if (any && e == 0.5) return tpo_sqrt(self);
    if (any && e == -0.5) return tpo_rsqrt(self);
    if (any && e == -1) return tpo_reciprocal(self);
    if (any && e == -2) {
        tp_tensor *square = tpo_times_itself(self);
        return square ? tpi_release_then(square, tpo_reciprocal(square)) : NULL;
    }
    *taken = false;
    return NULL;
}

tp_tensor *tpi_compose_pow(tp_operand self, tp_operand other) {
    if (self.tensor && self.tensor->dtype == TP_BOOL && !other.tensor &&
        other.scalar.kind == TP_SCALAR_BOOL) /* True ** True and so on */
        return other.scalar.as.i ? tpo_clone(self.tensor, TP_PRESERVE)
                                 : tpo_ones_like(self.tensor, TP_NO_DTYPE, (tp_device){0}, TP_PRESERVE);
    if (self.tensor && !other.tensor) {
        bool taken, whole = tp_dtype_is_integral((tp_dtype)self.tensor->dtype) || self.tensor->dtype == TP_BOOL;
        if (whole && other.scalar.kind == TP_SCALAR_INT && other.scalar.as.i < 0)
            return tpi_fail(TP_ERR_RUNTIME, "argument 'other': Integers to negative integer powers are not allowed.");
        if (whole && other.scalar.kind == TP_SCALAR_INT && !tpi_check_fits(other.scalar, (tp_dtype)self.tensor->dtype))
            return NULL;
        tp_tensor *out = easy_power(self.tensor, other.scalar, &taken);
        if (taken) return out;
    }
    return tpo_power(self, other);
}

static bool is_complex(tp_operand a) {
    return a.tensor ? tp_dtype_is_complex((tp_dtype)a.tensor->dtype) : a.scalar.kind == TP_SCALAR_COMPLEX;
}

tp_tensor *tpi_compose_float_power(tp_operand self, tp_operand exponent) {
    tp_dtype dtype = is_complex(self) || is_complex(exponent) ? TP_COMPLEX128 : TP_FLOAT64;
    tpi_temporaries temps = {0};
    if (self.tensor && !(self.tensor = tpi_put(&temps, tpo_to_dtype(self.tensor, dtype))))
        return tpi_release_temporaries(&temps, NULL);
    if (exponent.tensor && !(exponent.tensor = tpi_put(&temps, tpo_to_dtype(exponent.tensor, dtype))))
        return tpi_release_temporaries(&temps, NULL);
    return tpi_release_temporaries(&temps, tpi_compose_pow(self, exponent));
}

/* A bound in the dtype that it and the tensor have together. */
static bool settle_bound(const tp_tensor *self, tp_scalar *bound, bool least) {
    if (bound->kind == TP_SCALAR_NONE) return true;
    if (tp_dtype_is_floating((tp_dtype)self->dtype)) return tpi_check_fits(*bound, (tp_dtype)self->dtype);
    tpi_promotion p = {0};
    tpi_promote_tensor(&p, (tp_dtype)self->dtype, self->ndim);
    tpi_promote_scalar(&p, *bound);
    tp_dtype dtype = tpi_promoted(&p);
    return tp_ok() && tpi_fit_bound(bound, dtype, least);
}

tp_tensor *tpi_compose_clamp(tp_tensor *self, tp_scalar min, tp_scalar max) {
    if (!settle_bound(self, &min, true) || !settle_bound(self, &max, false)) return NULL;
    tp_operand least = {.scalar = min}, most = {.scalar = max};
    if (min.kind == TP_SCALAR_NONE) return tpo_clamp_max_number(self, most);
    if (max.kind == TP_SCALAR_NONE) return tpo_clamp_min_number(self, least);
    return tpo_clamp_between((tp_operand){.tensor = self}, least, most);
}

tp_tensor *tpi_compose_clamp_min(tp_tensor *self, tp_operand min) {
    return min.tensor ? tpo_clamp_min_each(self, min) : tpi_compose_clamp(self, min.scalar, tp_no_scalar());
}

tp_tensor *tpi_compose_clamp_max(tp_tensor *self, tp_operand max) {
    return max.tensor ? tpo_clamp_max_each(self, max) : tpi_compose_clamp(self, tp_no_scalar(), max.scalar);
}

static void promote_operand(tpi_promotion *p, tp_operand a) {
    if (a.tensor)
        tpi_promote_tensor(p, (tp_dtype)a.tensor->dtype, a.tensor->ndim);
    else
        tpi_promote_scalar(p, a.scalar);
}

tp_tensor *tpi_compose_div_trunc(tp_operand self, tp_operand other) {
    tpi_promotion promotion = {0};
    promote_operand(&promotion, self);
    promote_operand(&promotion, other);
    tp_dtype dtype = tpi_promoted(&promotion);
    if (dtype != TP_FLOAT16 && dtype != TP_BFLOAT16) return tp_ok() ? tpo_div_trunc_exact(self, other) : NULL;
    tp_tensor *quotient = tpo_div(self, other);
    return quotient ? tpi_release_then(quotient, tpo_trunc(quotient)) : NULL;
}

static double largest(tp_dtype dtype) {
    switch (dtype) {
    case TP_FLOAT16: return 65504;
    case TP_BFLOAT16: return 3.38953138925153547590e38;
    case TP_FLOAT32:
    case TP_COMPLEX64: return FLT_MAX;
    default: return DBL_MAX;
    }
}

tp_tensor *tpi_compose_nextafter(tp_tensor *self, tp_tensor *other) {
    tpi_promotion promotion = {0};
    tpi_promote_tensor(&promotion, (tp_dtype)self->dtype, self->ndim);
    tpi_promote_tensor(&promotion, (tp_dtype)other->dtype, other->ndim);
    switch (tpi_promoted(&promotion)) { /* these two are computed in float32 */
    case TP_FLOAT16: return tpo_next_narrow(self, other, 0x1p13, 0x1p-24, 65504);
    case TP_BFLOAT16: return tpo_next_narrow(self, other, 0x1p16, 0x1p-133, 0x1.fep127);
    default: return tp_ok() ? tpo_next_wide(self, other) : NULL;
    }
}

tp_tensor *tpi_compose_nan_to_num(tp_tensor *self, double nan_value, double posinf, double neginf) {
    tp_dtype dtype = (tp_dtype)self->dtype;
    if (!tp_dtype_is_floating(dtype) && !tp_dtype_is_complex(dtype)) return tpo_clone(self, TP_PRESERVE);
    if (!tpi_float_given(nan_value)) nan_value = 0;
    if (!tpi_float_given(posinf)) posinf = largest(dtype);
    if (!tpi_float_given(neginf)) neginf = -largest(dtype);
    if (tp_dtype_is_floating(dtype)) return tpo_replace_nonfinite(self, nan_value, posinf, neginf);
    tpi_temporaries temps = {0};
    tp_tensor *parts = tpi_put(&temps, tpo_view_as_real(self)),
              *done = parts ? tpi_put(&temps, tpo_replace_nonfinite(parts, nan_value, posinf, neginf)) : NULL;
    return tpi_release_temporaries(&temps, done ? tpo_view_as_complex(done) : NULL);
}

/* ---- Plain answers ---- */
bool tpi_native_pow_ten(int64_t n, double *out) {
    *out = pow(10, (double)n);
    return true;
}

/* One element of a bool tensor that says whether all of another are true. */
static bool all_true(tp_tensor *t, bool *out) {
    tp_tensor *all = t ? tpo_all(t, tp_no_ints(), false) : NULL;
    tp_scalar answer = all ? tp_item_scalar(all) : tp_no_scalar();
    tpi_release(all);
    *out = answer.as.i != 0;
    return answer.kind != TP_SCALAR_NONE;
}

bool tpi_compose_allclose(tp_tensor *self, tp_tensor *other, double rtol, double atol, bool equal_nan, bool *out) {
    tp_tensor *close = tpo_isclose(self, other, rtol, atol, equal_nan);
    bool fine = all_true(close, out);
    tpi_release(close);
    return fine;
}

bool tpi_native_equal(tp_tensor *self, tp_tensor *other, bool *out) {
    *out = false;
    if (!tpi_same_shape(self, other)) return true;
    tp_tensor *same = tpo_eq(self, tp_operand_tensor(other));
    bool fine = all_true(same, out);
    tpi_release(same);
    return fine;
}

bool tpi_native_frexp(tp_tensor *self, tp_tensor **out) {
    tp_dtype dtype = (tp_dtype)self->dtype;
    if (!tp_dtype_is_floating(dtype))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': frexp only supports floating-point dtypes, got %s",
                          tp_dtype_name(dtype));
    tp_tensor *x = tpi_as_dtype_data(self, TP_FLOAT64), *plain = x ? tpi_contiguous_data(x) : NULL;
    tp_tensor *mantissa = plain ? tpi_empty(tpi_shape(self), TP_FLOAT64, tpi_device(self)) : NULL;
    tp_tensor *exponent = mantissa ? tpi_empty(tpi_shape(self), TP_INT32, tpi_device(self)) : NULL;
    for (int64_t i = 0; exponent && i < self->numel; i++) {
        int e = 0;
        ((double *)mantissa->data)[i] = frexp(((const double *)plain->data)[i], &e);
        ((int32_t *)exponent->data)[i] = e;
    }
    out[0] = exponent ? tpi_as_dtype_data(mantissa, dtype) : NULL;
    out[1] = exponent;
    tpi_release(x);
    tpi_release(plain);
    tpi_release(mantissa);
    if (out[0]) return true;
    tpi_release(exponent);
    out[1] = NULL;
    return false;
}

tp_tensor *tpi_compose_positive(tp_tensor *self) {
    if (self->dtype == TP_BOOL) return tpi_fail(TP_ERR_MISSING, "The `+` operator, on a bool tensor is not supported.");
    return tpi_retain(self);
}

tp_tensor *tpi_compose_derivative_missing(tp_tensor *grad, const char *why) {
    (void)grad;
    return tpi_fail(TP_ERR_MISSING, "%s", why);
}

/* Reductions put together from other operators. */
#include <math.h>
#include <string.h>
#include "ops/formula.h"

/* What the derivative of a reduction starts with: grad, given back the dims it lost and spread over the shape that was
 * reduced. */
tp_tensor *tpi_compose_unreduce(tp_tensor *grad, tp_ints size, tp_ints dim, bool keepdim) {
    bool reduced[TP_MAX_DIMS];
    int64_t shape[TP_MAX_DIMS];
    int ndim = (int)size.n, kept = 0;
    if (tpi_numel_of(size) < 0 || !tpi_wrap_dims(dim, ndim, reduced)) return NULL;
    if (keepdim || ndim == 0) return tpo_expand(grad, size, false);
    for (int i = 0; i < ndim; i++) kept += !reduced[i];
    if (grad->ndim != kept)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'grad': expected %d dimensions, got shape %s", kept,
                        tpi_shape_text(tpi_shape(grad)));
    for (int i = 0, k = 0; i < ndim; i++) shape[i] = reduced[i] ? 1 : grad->shape[k++];
    tp_tensor *whole = tpo_reshape(grad, tp_ints_view(shape, ndim));
    tp_tensor *r = whole ? tpo_expand(whole, size, false) : NULL;
    tp_release(whole);
    return r;
}

/* Where along dim the selected values stood: grad scattered back into zeros. */
tp_tensor *tpi_compose_value_selecting_backward(tp_tensor *grad, int64_t dim, tp_tensor *indices, tp_ints size,
                                                bool keepdim) {
    int d = tpi_wrap_dim(dim, (int)size.n);
    if (d < 0) return NULL;
    if (size.n == 0) return tpi_retain(grad);
    tp_tensor *r = NULL, *g = keepdim ? tpi_retain(grad) : tpo_unsqueeze(grad, d),
              *k = keepdim ? tpi_retain(indices) : tpo_unsqueeze(indices, d);
    tp_tensor *zeros = g && k ? tpo_zeros(size, (tp_dtype)grad->dtype, tpi_device(grad)) : NULL;
    if (zeros) r = tpo_scatter(zeros, d, k, g);
    tp_release(g);
    tp_release(k);
    tp_release(zeros);
    return r;
}

/* The running products along d of what stands before each element, and what they are the products of: ones, then self
 * without its last elements. */
static tp_tensor *products_before(tpi_temporaries *temps, tp_tensor *self, int d, tp_tensor **lead) {
    if (!self) return *lead = NULL;
    tp_tensor *one = tpi_put(
        temps, tpo_ones_like(tpi_put(temps, tpo_narrow(self, d, 0, 1)), TP_NO_DTYPE, (tp_device){0, 0}, TP_PRESERVE));
    *lead = joined(temps, one, tpi_put(temps, tpo_narrow(self, d, 0, self->shape[d] - 1)), d);
    return tpi_put(temps, tpo_cumprod(*lead, d, TP_NO_DTYPE));
}

static tp_tensor *flipped(tpi_temporaries *temps, tp_tensor *t, int d) {
    return tpi_put(temps, tpo_flip(t, tp_ints_view((const int64_t[]){d}, 1)));
}

/* The product of the others: on GPUs what stands before times what stands after. No division, so zeros are no trouble.
 */
tp_tensor *tpi_compose_prod_dim_backward(tp_tensor *grad, tp_tensor *self, int64_t dim) {
    int d = tpi_wrap_dim(dim, self->ndim);
    if (d < 0) return NULL;
    if (self->ndim == 0 || self->numel == 0) return tpi_retain(grad);
    tpi_temporaries temps = {0};
    tp_tensor *others, *lead;
    if (tpi_device(self).type == TP_CPU) {
        others = tpi_put(&temps, tpo_prod_of_others(self, d));
    } else {
        tp_tensor *before = products_before(&temps, self, d, &lead),
                  *after = flipped(&temps, products_before(&temps, flipped(&temps, self, d), d, &lead), d);
        others = times(&temps, before, after);
    }
    return tpi_release_temporaries(&temps, tpi_retain(times(&temps, grad, tpi_put(&temps, tpo_conj_physical(others)))));
}

/* What reaches an element, but the last along d, by the products of what stands before those that follow it. */
static tp_tensor *grad_before(tpi_temporaries *temps, tp_tensor *grad, tp_tensor *lead, int d) {
    tp_tensor *all = tpi_put(temps, tpo_cumprod_backward(grad, lead, d));
    if (!all) return NULL;
    tp_tensor *first = tpi_put(temps, tpo_narrow(all, d, 0, 1)),
              *none = tpi_put(temps, tpo_zeros_like(first, TP_NO_DTYPE, (tp_device){0, 0}, TP_PRESERVE));
    return joined(temps, tpi_put(temps, tpo_narrow(all, d, 1, all->shape[d] - 1)), none, d);
}

tp_tensor *tpi_compose_prod_of_others_backward(tp_tensor *grad, tp_tensor *self, int64_t dim) {
    int d = tpi_wrap_dim(dim, self->ndim);
    if (d < 0) return NULL;
    if (self->ndim == 0 || self->numel == 0) return tpo_zeros_like(self, TP_NO_DTYPE, (tp_device){0, 0}, TP_PRESERVE);
    tpi_temporaries temps = {0};
    tp_tensor *lead, *tail, *reverse = flipped(&temps, self, d);
    tp_tensor *before = products_before(&temps, self, d, &lead), *after = products_before(&temps, reverse, d, &tail);
    tp_tensor *to_before = times(&temps, grad, tpi_put(&temps, tpo_conj_physical(flipped(&temps, after, d))));
    tp_tensor *to_after = times(&temps, grad, tpi_put(&temps, tpo_conj_physical(before)));
    tp_tensor *left = grad_before(&temps, to_before, lead, d),
              *right = flipped(&temps, grad_before(&temps, flipped(&temps, to_after, d), tail, d), d);
    return tpi_release_temporaries(&temps, tpi_retain(plus(&temps, left, right)));
}

/* The forerunner of each element along dim, zero for the first; in reverse order, the follower. */
tp_tensor *tpi_compose_recurrence_before(tp_tensor *self, int64_t dim, bool reverse) {
    int d = tpi_wrap_dim(dim, self->ndim);
    if (d < 0) return NULL;
    if (self->ndim == 0 || self->shape[d] == 0)
        return tpo_zeros_like(self, TP_NO_DTYPE, (tp_device){0, 0}, TP_PRESERVE);
    tpi_temporaries temps = {0};
    int64_t n = self->shape[d];
    tp_tensor *zero = tpi_put(&temps, tpo_zeros_like(tpi_put(&temps, tpo_narrow(self, d, 0, 1)), TP_NO_DTYPE,
                                                     (tp_device){0, 0}, TP_PRESERVE));
    tp_tensor *rest = tpi_put(&temps, tpo_narrow(self, d, reverse, n - 1));
    return tpi_release_temporaries(&temps,
                                   tpi_retain(reverse ? joined(&temps, rest, zero, d) : joined(&temps, zero, rest, d)));
}

/* d out[j] / d x[k] for j >= k is the product of x[0..j] without x[k]. So the gradient at k is the product of what
 * stands before it, times grad[k] + x[k+1] * (grad[k+1] + x[k+2] * (...)): a running product and a recurrence from the
 * end. */
tp_tensor *tpi_compose_cumprod_backward(tp_tensor *grad, tp_tensor *self, int64_t dim) {
    int d = tpi_wrap_dim(dim, self->ndim);
    if (d < 0) return NULL;
    if (self->ndim == 0 || self->numel == 0) return tpi_retain(grad);
    tpi_temporaries temps = {0};
    tp_tensor *x = tpi_put(&temps, tpo_conj_physical(self));
    tp_tensor *after = tpi_put(&temps, tpo_recurrence_next(x, d, false));
    tp_tensor *tail = tpi_put(&temps, tpo_linear_recurrence(after, grad, d, true));
    tp_tensor *lead, *before = products_before(&temps, x, d, &lead);
    return tpi_release_temporaries(&temps, tpi_retain(times(&temps, before, tail)));
}

/* d result[j] / d x[k] for j >= k is exp(x[k] - result[j]). With s[k] = grad[k] + exp(result[k] - result[k+1]) *
 * s[k+1], the gradient is s[k] * exp(x[k] - result[k]): no exponent is above zero. Where nothing but -inf came so far,
 * both factors are zero. */
tp_tensor *tpi_compose_logcumsumexp_backward(tp_tensor *grad, tp_tensor *self, tp_tensor *result, int64_t dim) {
    int d = tpi_wrap_dim(dim, self->ndim);
    if (d < 0) return NULL;
    if (self->ndim == 0 || self->numel == 0) return tpi_retain(grad);
    tpi_temporaries temps = {0};
    int64_t n = self->shape[d];
    tp_tensor *none =
        tpi_put(&temps, tpo_isneginf(tp_dtype_is_complex(self->dtype) ? tpi_put(&temps, tpo_real(result)) : result));
    tp_tensor *follower = joined(&temps, tpi_put(&temps, tpo_narrow(result, d, 1, n - 1)),
                                 tpi_put(&temps, tpo_narrow(result, d, n - 1, 1)), d);
    tp_tensor *shrink = tpi_put(&temps, tpo_masked_fill(minus(&temps, result, follower), none, tp_float(-INFINITY)));
    tp_tensor *share = tpi_put(&temps, tpo_masked_fill(minus(&temps, self, result), none, tp_float(-INFINITY)));
    tp_tensor *decay = tpi_put(&temps, tpo_conj_physical(tpi_put(&temps, tpo_exp(shrink))));
    tp_tensor *sum = tpi_put(&temps, tpo_linear_recurrence(decay, grad, d, true));
    return tpi_release_temporaries(
        &temps, tpi_retain(times(&temps, sum, tpi_put(&temps, tpo_conj_physical(tpi_put(&temps, tpo_exp(share)))))));
}

/* Over all elements, nothing left to divide by makes the derivative infinite, and NaN where an element is the mean. */
tp_tensor *tpi_compose_var_backward(tp_tensor *grad, tp_tensor *self, tp_ints dim, tp_scalar correction, bool keepdim) {
    bool reduced[TP_MAX_DIMS];
    if (!tpi_wrap_dims(dim, self->ndim, reduced)) return NULL;
    double count = 1, less = correction.kind == TP_SCALAR_NONE ? 1 : tp_scalar_to_double(correction);
    for (int i = 0; i < self->ndim; i++)
        if (reduced[i]) count *= (double)self->shape[i];
    tpi_temporaries temps = {0};
    tp_tensor *off = minus(&temps, self, tpi_put(&temps, tpo_mean(self, dim, true, TP_NO_DTYPE)));
    tp_tensor *wide = tpi_put(&temps, tpo_unreduce(grad, tpi_shape(self), dim, keepdim));
    bool all = !dim.v || dim.n == 0;
    if (all && count <= less) {
        tp_tensor *still = tpi_put(&temps, tpo_eq(off, TP_OPERAND(0)));
        tp_tensor *slope = tpi_put(&temps, tpo_where(still, TP_OPERAND((double)NAN), TP_OPERAND((double)INFINITY)));
        return tpi_release_temporaries(&temps, tpi_retain(times(&temps, wide, slope)));
    }
    tp_tensor *scaled = tpi_put(&temps, tpo_mul(TP_OPERAND(wide), TP_OPERAND(2.0 / (count - less))));
    return tpi_release_temporaries(&temps, tpi_retain(times(&temps, scaled, off)));
}

/* ---- Norms ---- */
tp_tensor *tpi_compose_norm_str(tp_tensor *self, const char *p, tp_ints dim, bool keepdim, tp_dtype dtype) {
    if (!strcmp(p, "fro")) return tpo_linalg_vector_norm(self, tp_int(2), dim, keepdim, dtype);
    if (strcmp(p, "nuc"))
        return tpi_fail(TP_ERR_VALUE, "argument 'p': expected \"fro\" or \"nuc\", or a number, got \"%s\"", p);
    if (!dim.v && self->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'dim': expected two dims for the nuclear norm of a tensor of shape %s, got none",
                        tpi_shape_text(tpi_shape(self)));
    return tpo_linalg_matrix_norm_str_ord(self, "nuc", dim.v ? dim : TP_INTS(0, 1), keepdim, dtype);
}

tp_tensor *tpi_compose_renorm(tp_tensor *self, tp_scalar p, int64_t dim, tp_scalar maxnorm) {
    if (!(tp_scalar_to_double(p) > 0))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'p': expected a positive number, got %g", tp_scalar_to_double(p));
    double most = tp_scalar_to_double(maxnorm);
    if (!(most >= 0))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'maxnorm': expected zero or a positive number, got %g", most);
    if (self->ndim < 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected at least 2 dimensions, got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    int d = tpi_wrap_dim(dim, self->ndim);
    if (d < 0) return NULL;
    int64_t others[TP_MAX_DIMS], n = 0;
    for (int i = 0; i < self->ndim; i++)
        if (i != d) others[n++] = i;
    tpi_temporaries temps = {0};
    tp_tensor *size = tpi_put(&temps, tpo_linalg_vector_norm(self, p, tp_ints_view(others, n), true, TP_NO_DTYPE));
    tp_tensor *divisor = tpi_put(&temps, tpo_add(TP_OPERAND(size), TP_OPERAND(1e-7), tp_int(1)));
    tp_tensor *scale = tpi_put(&temps, tpo_div(TP_OPERAND(most), TP_OPERAND(divisor)));
    tp_tensor *large = tpi_put(&temps, tpo_gt(size, TP_OPERAND(most)));
    tp_tensor *factor = tpi_put(&temps, tpo_where(large, TP_OPERAND(scale), TP_OPERAND(1.0)));
    return tpi_release_temporaries(&temps, tpi_retain(times(&temps, self, factor)));
}

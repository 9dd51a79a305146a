/* Reductions put together from other operators. */
#include "tpi_ops.h"

/* What the derivative of a reduction starts with: grad, given back the dims it lost and spread over the shape that was reduced. */
tp_tensor *tpi_compose_unreduce(tp_tensor *grad, tp_ints size, tp_ints dim, bool keepdim) {
    bool reduced[TP_MAX_DIMS];
    int64_t shape[TP_MAX_DIMS];
    int ndim = (int)size.n;
    if (!tpi_wrap_dims(dim, ndim, reduced)) return NULL;
    if (keepdim || ndim == 0) return tpo_expand(grad, size, false);
    for (int i = 0, k = 0; i < ndim; i++) shape[i] = reduced[i] ? 1 : grad->shape[k++];
    tp_tensor *whole = tpo_reshape(grad, tp_ints_view(shape, ndim));
    tp_tensor *r = whole ? tpo_expand(whole, size, false) : NULL;
    tp_release(whole);
    return r;
}

/* Where along dim the selected values stood: grad scattered back into zeros. */
tp_tensor *tpi_compose_value_selecting_backward(tp_tensor *grad, int64_t dim, tp_tensor *indices, tp_ints size, bool keepdim) {
    int d = tpi_wrap_dim(dim, (int)size.n);
    if (d < 0) return NULL;
    if (size.n == 0) return tpi_retain(grad);
    tp_tensor *r = NULL, *g = keepdim ? tpi_retain(grad) : tpo_unsqueeze(grad, d), *k = keepdim ? tpi_retain(indices) : tpo_unsqueeze(indices, d);
    tp_tensor *zeros = g && k ? tpo_zeros(size, (tp_dtype)grad->dtype, tpi_device(grad)) : NULL;
    if (zeros) r = tpo_scatter(zeros, d, k, g);
    tp_release(g), tp_release(k), tp_release(zeros);
    return r;
}

static tp_tensor *with(tp_tensor *(*fn)(tp_operand, tp_operand), tp_tensor *a, tp_operand b) { return a ? fn(tp_operand_tensor(a), b) : NULL; }

/* The product of what stands before, times the product of what stands after: no division, so zeros are no trouble. */
tp_tensor *tpi_compose_prod_dim_backward(tp_tensor *grad, tp_tensor *self, int64_t dim) {
    int d = tpi_wrap_dim(dim, self->ndim);
    if (d < 0) return NULL;
    if (self->ndim == 0 || self->numel == 0) return tpi_retain(grad);
    int64_t n = self->shape[d], one[TP_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) one[i] = i == d ? 1 : self->shape[i];
    tp_ints along = tp_ints_view((const int64_t[]){d}, 1);
    tp_tensor *t[10] = {NULL}, *r = NULL;
    t[0] = tpo_ones(tp_ints_view(one, self->ndim), (tp_dtype)self->dtype, tpi_device(self));
    t[1] = t[0] ? tpo_narrow(self, d, 0, n - 1) : NULL;
    t[2] = t[1] ? tpo_cat((tp_tensors){(tp_tensor *[]){t[0], t[1]}, 2}, d) : NULL;
    t[3] = t[2] ? tpo_cumprod(t[2], d, TP_NO_DTYPE) : NULL; /* before */
    t[4] = t[3] ? tpo_narrow(self, d, 1, n - 1) : NULL;
    t[5] = t[4] ? tpo_flip(t[4], along) : NULL;
    t[6] = t[5] ? tpo_cat((tp_tensors){(tp_tensor *[]){t[0], t[5]}, 2}, d) : NULL;
    t[7] = t[6] ? tpo_cumprod(t[6], d, TP_NO_DTYPE) : NULL;
    t[8] = t[7] ? tpo_flip(t[7], along) : NULL; /* after */
    t[9] = with(tpo_mul, t[3], tp_operand_tensor(t[8]));
    tp_tensor *conj = t[9] ? tpo_conj(t[9]) : NULL;
    if (conj) r = tpo_mul(tp_operand_tensor(grad), tp_operand_tensor(conj));
    tp_release(conj);
    for (int i = 0; i < 10; i++) tp_release(t[i]);
    return r;
}

/* d out[j] / d x[k] = (product of x[0..j] without x[k]) for j >= k. By the shifted running products: with no zeros it is the reversed
 * running sum of grad * result over x; the general form sums, for each k, over the tail. */
tp_tensor *tpi_compose_cumprod_backward(tp_tensor *grad, tp_tensor *self, int64_t dim, tp_tensor *result) {
    int d = tpi_wrap_dim(dim, self->ndim);
    if (d < 0) return NULL;
    if (self->ndim == 0) return tpi_retain(grad);
    if (self->numel == 0) return tpo_zeros_like(self, TP_NO_DTYPE, (tp_device){0, 0}, TP_PRESERVE);
    (void)result;
    int64_t n = self->shape[d], one[TP_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) one[i] = i == d ? 1 : self->shape[i];
    tp_tensor **parts = tpi_malloc(sizeof(tp_tensor *) * (size_t)n), *ones = tpo_ones(tp_ints_view(one, self->ndim), (tp_dtype)self->dtype, tpi_device(self));
    tp_tensor *before = tpi_retain(ones), *r = NULL; /* the product of x[0..k-1] */
    int64_t made = 0;
    for (int64_t k = 0; parts && before && k < n; k++) {
        tp_tensor *rest = k + 1 < n ? tpo_narrow(self, d, k + 1, n - k - 1) : NULL;
        tp_tensor *tail = rest ? tpo_cat((tp_tensors){(tp_tensor *[]){before, rest}, 2}, d) : tpi_retain(before);
        tp_tensor *without = tail ? tpo_cumprod(tail, d, TP_NO_DTYPE) : NULL, *conj = without ? tpo_conj(without) : NULL;
        tp_tensor *g = conj ? tpo_narrow(grad, d, k, n - k) : NULL, *weighted = with(tpo_mul, g, tp_operand_tensor(conj));
        parts[made] = weighted ? tpo_sum(weighted, tp_ints_view((const int64_t[]){d}, 1), true, TP_NO_DTYPE) : NULL;
        tp_tensor *x = parts[made] ? tpo_narrow(self, d, k, 1) : NULL, *next = with(tpo_mul, x, tp_operand_tensor(before));
        tp_release(rest), tp_release(tail), tp_release(without), tp_release(conj), tp_release(g), tp_release(weighted), tp_release(x), tp_release(before);
        made += parts[made] != NULL;
        before = next;
    }
    if (before && made == n) r = tpo_cat((tp_tensors){parts, n}, d);
    tp_release(before), tp_release(ones);
    for (int64_t i = 0; i < made; i++) tp_release(parts[i]);
    tpi_mfree(parts);
    return r;
}

/* Indexing composed of other operators, and the derivative of scatter_reduce. */
#include "ops/native.h"
#include "tpi_ops.h"

static tp_operand number(double v) { return tp_operand_scalar(tp_float(v)); }

/* The index vector seen in source's shape, each slice along dim holding its index. */
tp_tensor *tpi_compose_index_reduce(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *source,
                                    const char *reduce, bool include_self) {
    int d = TPI_DIM(self, dim);
    if (d < 0) return NULL;
    if (strcmp(reduce, "sum") == 0)
        return tpi_fail(
            TP_ERR_VALUE,
            "argument 'reduce': expected \"prod\", \"mean\", \"amax\" or \"amin\", got \"%s\"; index_add sums", reduce);
    if (source->ndim != self->ndim || index->ndim > 1 || (source->ndim && source->shape[d] != index->numel))
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'source': expected self's shape %s with size %lld at dimension %d, got %s",
                        tpi_shape_text(tpi_shape(self)), (long long)index->numel, d, tpi_shape_text(tpi_shape(source)));
    int64_t shape[TP_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) shape[i] = i == d ? index->numel : 1;
    tp_tensor *wide = tpo_reshape(index, (tp_ints){shape, self->ndim});
    wide = tpi_release_then(wide, tpo_expand(wide, tpi_shape(source), false));
    return tpi_release_then(wide, wide ? tpo_scatter_reduce(self, dim, wide, source, reduce, include_self) : NULL);
}

static const char *scatter_name(const char *reduce) {
    if (strcmp(reduce, "add") == 0) return "sum";
    if (strcmp(reduce, "multiply") == 0) return "prod";
    return tpi_fail(TP_ERR_VALUE, "argument 'reduce': expected \"add\" or \"multiply\", got \"%s\"", reduce);
}

tp_tensor *tpi_compose_scatter_reduce_named(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *src,
                                            const char *reduce) {
    const char *name = scatter_name(reduce);
    return name ? tpo_scatter_reduce(self, dim, index, src, name, true) : NULL;
}

tp_tensor *tpi_compose_scatter_value_reduce(tp_tensor *self, int64_t dim, tp_tensor *index, tp_scalar value,
                                            const char *reduce) {
    const char *name = scatter_name(reduce);
    tp_tensor *src = name ? tpo_full(tpi_shape(index), value, self->dtype, tpi_device(self)) : NULL;
    return tpi_release_then(src, src ? tpo_scatter_reduce(self, dim, index, src, name, true) : NULL);
}

/* ---- scatter_reduce's derivative ---- */

typedef struct reduce_call { /* what the forward call was given */
    tp_tensor *grad, *self, *index, *src, *result;
    int64_t dim;
    bool include_self;
} reduce_call;

static tp_tensor *mul(tp_tensor *a, tp_tensor *b) {
    return a && b ? tpo_mul(tp_operand_tensor(a), tp_operand_tensor(b)) : NULL;
}
static tp_tensor *divide(tp_tensor *a, tp_tensor *b) {
    return a && b ? tpo_div(tp_operand_tensor(a), tp_operand_tensor(b)) : NULL;
}

/* Self's own part counts for nothing where something was scattered, unless include_self. */
static tp_tensor *self_part(const reduce_call *c, tp_tensor *t) {
    return c->include_self || !t ? t : tpi_release_then(t, tpo_scatter_value(t, c->dim, c->index, tp_int(0)));
}

static bool mean_backward(const reduce_call *c, tp_tensor **out) {
    tp_dtype dtype = c->grad->dtype;
    tp_tensor *counts = tpo_full(tpi_shape(c->self), tp_int(c->include_self), dtype, tpi_device(c->self));
    tp_tensor *ones = tpo_full(tpi_shape(c->index), tp_int(1), dtype, tpi_device(c->self));
    counts = tpi_release_then(counts, counts && ones ? tpo_scatter_add(counts, c->dim, c->index, ones) : NULL);
    tp_tensor *none = counts ? tpo_eq(counts, number(0)) : NULL;
    counts = tpi_release_then(counts, none ? tpo_masked_fill(counts, none, tp_int(1)) : NULL);
    tp_tensor *share = divide(c->grad, counts);
    if (share) {
        out[0] = self_part(c, tpi_retain(share));
        out[1] = tpo_gather(share, c->dim, c->index, false);
    }
    tpi_release(counts);
    tpi_release(ones);
    tpi_release(none);
    tpi_release(share);
    return out[0] && out[1];
}

/* The gradient goes evenly to all elements that equal the result. */
static bool extreme_backward(const reduce_call *c, tp_tensor **out) {
    tp_tensor *there = tpo_gather(c->result, c->dim, c->index, false);
    tp_tensor *self_is = tpo_eq(c->self, tp_operand_tensor(c->result)),
              *src_is = there ? tpo_eq(c->src, tp_operand_tensor(there)) : NULL;
    self_is = self_part(c, tpi_release_then(self_is, self_is ? tpo_to_dtype(self_is, c->grad->dtype) : NULL));
    src_is = tpi_release_then(src_is, src_is ? tpo_to_dtype(src_is, c->grad->dtype) : NULL);
    tp_tensor *count = self_is && src_is ? tpo_scatter_add(self_is, c->dim, c->index, src_is) : NULL;
    tp_tensor *none = count ? tpo_eq(count, number(0)) : NULL;
    count = tpi_release_then(count, none ? tpo_masked_fill(count, none, tp_int(1)) : NULL);
    tp_tensor *share = divide(c->grad, count), *picked = share ? tpo_gather(share, c->dim, c->index, false) : NULL;
    out[0] = mul(self_is, share);
    out[1] = mul(src_is, picked);
    tp_tensor *all[] = {there, self_is, src_is, count, none, share, picked};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tpi_release(all[i]);
    return out[0] && out[1];
}

tp_tensor *tpi_native_once_differentiable(tp_tensor *self, const char *why) {
    (void)why;
    return tpi_alias(self, self->ndim, self->shape, self->strides, tpi_offset(self));
}

/* A second derivative would divide by what stands in for several zeros: there is none then. Takes grad over. */
static tp_tensor *refused_twice(tp_tensor *grad, tp_tensor *zeros_there, tp_tensor *src_zero) {
    if (!grad || !zeros_there || !src_zero || !grad->requires_grad) return grad;
    if (tpi_device(grad).type == TP_META) return grad;
    tp_tensor *many = tpo_gt(zeros_there, number(1)), *met = many ? tpo_logical_and(many, src_zero) : NULL,
              *any = met ? tpo_any(met, tp_no_ints(), false) : NULL;
    bool refused = any && tp_scalar_to_double(tp_item_scalar(any)) != 0;
    tpi_release(many);
    tpi_release(met);
    tpi_release(any);
    if (!refused) return grad;
    return tpi_release_then(grad, tpo_once_differentiable(grad, "scatter_reduce(): Double backward is unsupported for "
                                                                "src when >1 zeros in src are scattered to the same "
                                                                "position in self"));
}

/* Each factor's derivative is the product of the others: by division where no factor is zero, and with zeros counted
 * where some are. */
static bool prod_backward(const reduce_call *c, tp_tensor **out) {
    tp_dtype dtype = c->grad->dtype;
    tp_tensor *own = c->include_self ? tpi_retain(c->self) : tpo_scatter_value(c->self, c->dim, c->index, tp_int(1));
    tp_tensor *own_zero = own ? tpo_eq(own, number(0)) : NULL, *src_zero = tpo_eq(c->src, number(0));
    tp_tensor *own_safe = own_zero ? tpo_masked_fill(own, own_zero, tp_int(1)) : NULL,
              *src_safe = src_zero ? tpo_masked_fill(c->src, src_zero, tp_int(1)) : NULL;
    tp_tensor *own_count = own_zero ? tpo_to_dtype(own_zero, dtype) : NULL,
              *src_count = src_zero ? tpo_to_dtype(src_zero, dtype) : NULL;
    /* zeros among the factors of each result, and the product of the factors that are not zero */
    tp_tensor *zeros = own_count && src_count ? tpo_scatter_add(own_count, c->dim, c->index, src_count) : NULL;
    tp_tensor *rest =
        own_safe && src_safe ? tpo_scatter_reduce(own_safe, c->dim, c->index, src_safe, "prod", true) : NULL;
    /* a factor's others: rest / factor, if none of the others is zero */
    tp_tensor *zeros_there = zeros ? tpo_gather(zeros, c->dim, c->index, false) : NULL,
              *rest_there = rest ? tpo_gather(rest, c->dim, c->index, false) : NULL;
    tp_tensor *grad_there = tpo_gather(c->grad, c->dim, c->index, false);
    tp_tensor *own_alone = zeros && own_count ? tpo_eq(zeros, tp_operand_tensor(own_count)) : NULL;
    tp_tensor *src_alone = zeros_there && src_count ? tpo_eq(zeros_there, tp_operand_tensor(src_count)) : NULL;
    tp_tensor *own_others = divide(rest, own_safe), *src_others = divide(rest_there, src_safe);
    tp_tensor *own_grad = mul(c->grad, own_others), *src_grad = mul(grad_there, src_others);
    tp_tensor *own_flag = own_alone ? tpo_to_dtype(own_alone, dtype) : NULL,
              *src_flag = src_alone ? tpo_to_dtype(src_alone, dtype) : NULL;
    out[0] = self_part(c, mul(own_grad, own_flag));
    out[1] = refused_twice(mul(src_grad, src_flag), zeros_there, src_zero);
    tp_tensor *all[] = {own,        own_zero,   src_zero,    own_safe,   src_safe,   own_count, src_count,
                        zeros,      rest,       zeros_there, rest_there, grad_there, own_alone, src_alone,
                        own_others, src_others, own_grad,    src_grad,   own_flag,   src_flag};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tpi_release(all[i]);
    return out[0] && out[1];
}

bool tpi_compose_scatter_reduce_backward(tp_tensor *grad, tp_tensor *self, int64_t dim, tp_tensor *index,
                                         tp_tensor *src, const char *reduce, bool include_self, tp_tensor *result,
                                         tp_tensor **out) {
    reduce_call c = {.grad = grad,
                     .self = self,
                     .index = index,
                     .src = src,
                     .result = result,
                     .dim = dim,
                     .include_self = include_self};
    out[0] = out[1] = NULL;
    bool ok;
    if (strcmp(reduce, "sum") == 0) {
        out[0] = self_part(&c, tpi_retain(grad));
        out[1] = tpo_gather(grad, dim, index, false);
        ok = out[0] && out[1];
    } else if (strcmp(reduce, "mean") == 0)
        ok = mean_backward(&c, out);
    else if (strcmp(reduce, "prod") == 0)
        ok = prod_backward(&c, out);
    else
        ok = extreme_backward(&c, out);
    if (ok) return true;
    tpi_release(out[0]);
    tpi_release(out[1]);
    out[0] = out[1] = NULL;
    return false;
}

/* ---- The rest ---- */

tp_tensor *tpi_compose_take_along_dim(tp_tensor *self, tp_tensor *indices, int64_t dim) {
    if (dim == TP_NONE) {
        tp_tensor *flat = tpo_reshape(self, TP_INTS(-1)), *at = tpo_reshape(indices, TP_INTS(-1));
        tp_tensor *out = flat && at ? tpo_gather(flat, 0, at, false) : NULL;
        tpi_release(at);
        return tpi_release_then(flat, out);
    }
    int d = TPI_DIM(self, dim), ndim;
    if (d < 0) return NULL;
    if (indices->dtype != TP_INT64)
        return tpi_fail(TP_ERR_RUNTIME, "torch.take_along_dim(): dtype of indices should be Long but got %s",
                        tp_dtype_word((tp_dtype)indices->dtype));
    if (self->ndim != indices->ndim)
        return tpi_fail(TP_ERR_RUNTIME,
                        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
                        "%d dimensions for input, and %d dimensions for "
                        "indices",
                        self->ndim, indices->ndim);
    int64_t a[TP_MAX_DIMS], b[TP_MAX_DIMS], both[TP_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) {
        a[i] = i == d ? 1 : self->shape[i];
        b[i] = i == d ? 1 : indices->shape[i];
    }
    if (!tpi_broadcast((tp_ints){a, self->ndim}, (tp_ints){b, self->ndim}, both, &ndim)) return NULL;
    both[d] = self->shape[d];
    tp_tensor *wide = tpo_expand(self, (tp_ints){both, ndim}, false);
    both[d] = indices->shape[d];
    tp_tensor *wrapped = tpo_index_from_front(indices, self->shape[d]),
              *at = wrapped ? tpo_expand(wrapped, (tp_ints){both, ndim}, false) : NULL;
    tp_tensor *out = wide && at ? tpo_gather(wide, d, at, false) : NULL;
    tpi_release(wrapped);
    tpi_release(at);
    return tpi_release_then(wide, out);
}

tp_tensor *tpi_compose_masked_fill_tensor(tp_tensor *self, tp_tensor *mask, tp_tensor *value) {
    if (value->ndim != 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'value': expected a zero-dimensional tensor, got shape %s",
                        tpi_shape_text(tpi_shape(value)));
    if (tp_dtype_is_complex((tp_dtype)value->dtype) && !tp_dtype_is_complex((tp_dtype)self->dtype))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'value': a complex value cannot be converted to %s without overflow",
                        tp_dtype_name((tp_dtype)self->dtype));
    tp_tensor *same = value->dtype == self->dtype ? tpi_retain(value) : tpo_to_dtype(value, self->dtype);
    return tpi_release_then(same, same ? tpo_where(mask, tp_operand_tensor(same), tp_operand_tensor(self)) : NULL);
}

tp_tensors tpi_compose_where_condition(tp_tensor *condition) {
    tp_tensor *rows = tpo_nonzero(condition);
    tp_tensors list = rows ? tpo_unbind(rows, 1) : (tp_tensors){NULL, 0};
    tpi_release(rows);
    return list;
}

tp_tensors tpi_compose_nonzero_numpy(tp_tensor *self) {
    tp_tensor *some = self->ndim ? tpi_retain(self) : tpo_unsqueeze(self, 0);
    tp_tensors list = some ? tpi_compose_where_condition(some) : (tp_tensors){NULL, 0};
    tpi_release(some);
    return list;
}

/* Operators composed of views: reshape and its kin, transposes, splits. Each call differentiates through the views it
 * makes. */
#include "ops/native.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"

tp_tensor *tpi_compose_reshape(tp_tensor *self, tp_ints shape) {
    int64_t size[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    if (shape.n > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "argument 'shape': expected at most %d dimensions, got %lld", TP_MAX_DIMS,
                        (long long)shape.n);
    if (!tpi_infer_size(shape, self->numel, size)) return NULL;
    tp_ints wanted = {size, shape.n};
    if (tpi_view_strides(self, wanted, strides)) return tpo_view(self, wanted);
    tp_tensor *copy = tpo_clone(self, TP_CONTIGUOUS);
    return tpi_release_then(copy, tpo_view(copy, wanted));
}

tp_tensor *tpi_compose_flatten(tp_tensor *self, int64_t start_dim, int64_t end_dim) {
    int from = TPI_DIM(self, start_dim), to = from < 0 ? -1 : TPI_DIM(self, end_dim);
    if (to < 0) return NULL;
    if (from > to)
        return tpi_fail(
            TP_ERR_RUNTIME,
            "argument 'start_dim': flatten() has invalid args: start_dim cannot come after end_dim, got %lld "
            "and %lld",
            (long long)start_dim, (long long)end_dim);
    if (self->ndim == 0) return tpo_reshape(self, TP_INTS(1));
    if (from == to) return tpi_retain(self);
    int64_t shape[TP_MAX_DIMS], n = 0;
    for (int d = 0; d < self->ndim; d++) {
        if (d <= from || d > to)
            shape[n++] = self->shape[d];
        else
            shape[n - 1] = tpi_size_times(shape[n - 1], self->shape[d]);
    }
    return tpo_reshape(self, (tp_ints){shape, n});
}

tp_tensor *tpi_compose_unflatten(tp_tensor *self, int64_t dim, tp_ints sizes) {
    int d = TPI_DIM(self, dim);
    if (d < 0) return NULL;
    if (self->ndim == 0 || sizes.n == 0 || self->ndim - 1 + sizes.n > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'sizes': %s cannot replace dimension %d of shape %s",
                        tpi_shape_text(sizes), d, tpi_shape_text(tpi_shape(self)));
    int64_t shape[TP_MAX_DIMS], product = 1, guess = -1;
    for (int64_t i = 0; i < sizes.n; i++) {
        if (sizes.v[i] == -1 && guess < 0)
            guess = i;
        else
            product = tpi_size_times(product, sizes.v[i]);
    }
    if (guess < 0 ? product != self->shape[d] : product <= 0 || self->shape[d] % product != 0)
        return tpi_fail(
            TP_ERR_RUNTIME,
            "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) in the input tensor",
            tpi_shape_text(sizes), d, (long long)self->shape[d]);
    int n = 0;
    for (int i = 0; i < d; i++) shape[n++] = self->shape[i];
    for (int64_t i = 0; i < sizes.n; i++) shape[n++] = i == guess ? self->shape[d] / product : sizes.v[i];
    for (int i = d + 1; i < self->ndim; i++) shape[n++] = self->shape[i];
    return tpo_view(self, (tp_ints){shape, n});
}

tp_tensor *tpi_compose_ravel(tp_tensor *self) {
    tp_tensor *whole = tpo_contiguous(self, TP_CONTIGUOUS);
    return tpi_release_then(whole, tpo_view(whole, TP_INTS(-1)));
}

tp_tensor *tpi_compose_sum_to(tp_tensor *self, tp_ints size) {
    int64_t dims[TP_MAX_DIMS], n = 0, lead = self->ndim - size.n;
    if (lead < 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'size': shape %s cannot be summed to %s",
                        tpi_shape_text(tpi_shape(self)), tpi_shape_text(size));
    for (int64_t d = 0; d < self->ndim; d++) {
        if (d < lead || (size.v[d - lead] == 1 && self->shape[d] != 1))
            dims[n++] = d;
        else if (size.v[d - lead] != self->shape[d])
            return tpi_fail(TP_ERR_RUNTIME, "argument 'size': shape %s cannot be summed to %s",
                            tpi_shape_text(tpi_shape(self)), tpi_shape_text(size));
    }
    if (n == 0) return tpi_retain(self);
    bool ready = n == lead; /* dims of size one that stay are kept */
    tp_tensor *sum = tpo_sum(self, (tp_ints){dims, n}, !ready, TP_NO_DTYPE);
    return lead && !ready ? tpi_release_then(sum, tpo_reshape(sum, size)) : sum;
}

tp_tensor *tpi_compose_T(tp_tensor *self) {
    int64_t dims[TP_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++) dims[d] = self->ndim - 1 - d;
    return tpo_permute(self, (tp_ints){dims, self->ndim});
}

/* A number is its own transpose. */
tp_tensor *tpi_compose_mT(tp_tensor *self) { return self->ndim ? tpo_transpose(self, -2, -1) : tpi_retain(self); }

tp_tensor *tpi_compose_adjoint(tp_tensor *self) {
    tp_tensor *t = tpi_compose_mT(self);
    return tpi_release_then(t, tpo_conj(t));
}

tp_tensor *tpi_compose_adjoint_physical(tp_tensor *self) {
    tp_tensor *t = tpi_compose_mT(self);
    return tp_dtype_is_complex(self->dtype) ? tpi_release_then(t, tpo_conj_physical(t)) : t;
}

tp_tensor *tpi_compose_movedim(tp_tensor *self, tp_ints source, tp_ints destination) {
    if (source.n != destination.n)
        return tpi_fail(TP_ERR_RUNTIME,
                        "movedim: Invalid source or destination dims: source (%s dims) should contain the same number "
                        "of dims as destination (%s dims)",
                        tpi_shape_text(source), tpi_shape_text(destination));
    int64_t order[TP_MAX_DIMS];
    bool moved[TP_MAX_DIMS] = {false}, filled[TP_MAX_DIMS] = {false};
    for (int64_t i = 0; i < source.n; i++) {
        int from = TPI_DIM(self, source.v[i]), to = from < 0 ? -1 : TPI_DIM(self, destination.v[i]);
        if (to < 0) return NULL;
        if (moved[from] || filled[to])
            return tpi_fail(TP_ERR_RUNTIME, "movedim: repeated dim in `%s` (%s)",
                            moved[from] ? "source" : "destination", tpi_shape_text(moved[from] ? source : destination));
        moved[from] = filled[to] = true;
        order[to] = from;
    }
    for (int d = 0, next = 0; d < self->ndim; d++) {
        if (filled[d]) continue;
        while (moved[next]) next++;
        order[d] = next++;
    }
    return tpo_permute(self, (tp_ints){order, self->ndim});
}

tp_tensor *tpi_compose_narrow(tp_tensor *self, int64_t dim, int64_t start, int64_t length) {
    if (self->ndim == 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'dim': a zero-dimensional tensor cannot be narrowed");
    int d = TPI_DIM(self, dim);
    if (d < 0) return NULL;
    int64_t size = self->shape[d], from = start < 0 ? start + size : start;
    if (from < 0 || from > size)
        return tpi_fail(TP_ERR_INDEX,
                        "argument 'start': start out of range (expected to be in range of [%lld, %lld], but got %lld)",
                        (long long)-size, (long long)size, (long long)start);
    if (length < 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'length': narrow(): length must be non-negative, got %lld",
                        (long long)length);
    if (length > size - from)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'length': start (%lld) + length (%lld) exceeds dimension size (%lld).",
                        (long long)from, (long long)length, (long long)size);
    return tpo_slice(self, d, from, from + length, 1);
}

/* Of a conjugate: that of its memory, the imaginary part as a negative. */
static tp_tensor *component(tp_tensor *self, int64_t which) {
    const bool conjugate = tpi_marked(self);
    tp_tensor *memory = conjugate ? tpo_conj_view(self) : tpi_retain(self);
    tp_tensor *pairs = tpi_release_then(memory, memory ? tpo_view_as_real(memory) : NULL);
    tp_tensor *part = tpi_release_then(pairs, pairs ? tpo_select(pairs, -1, which) : NULL);
    return conjugate && which == 1 ? tpi_release_then(part, part ? tpo_neg_view(part) : NULL) : part;
}

tp_tensor *tpi_compose_real(tp_tensor *self) {
    return tp_dtype_is_complex(self->dtype) ? component(self, 0) : tpi_retain(self);
}
tp_tensor *tpi_compose_imag(tp_tensor *self) {
    if (!tp_dtype_is_complex(self->dtype))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected a complex tensor, got %s",
                        tp_dtype_name(self->dtype));
    return component(self, 1);
}

tp_tensor *tpi_compose_atleast_1d(tp_tensor *self) {
    return self->ndim ? tpi_retain(self) : tpo_reshape(self, TP_INTS(1));
}
tp_tensor *tpi_compose_atleast_2d(tp_tensor *self) {
    if (self->ndim == 0) return tpo_reshape(self, TP_INTS(1, 1));
    return self->ndim == 1 ? tpo_unsqueeze(self, 0) : tpi_retain(self);
}
tp_tensor *tpi_compose_atleast_3d(tp_tensor *self) {
    if (self->ndim == 0) return tpo_reshape(self, TP_INTS(1, 1, 1));
    if (self->ndim == 1) return tpo_reshape(self, TP_INTS(1, self->shape[0], 1));
    return self->ndim == 2 ? tpo_unsqueeze(self, -1) : tpi_retain(self);
}

tp_tensor *tpi_compose_narrow_tensor(tp_tensor *self, int64_t dim, tp_tensor *start, int64_t length) {
    if (start->ndim != 0 || !tp_dtype_is_integral((tp_dtype)start->dtype))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'start': start must be an 0-dim integral Tensor, got %s of shape %s",
                        tp_dtype_name((tp_dtype)start->dtype), tpi_shape_text(tpi_shape(start)));
    return tpi_compose_narrow(self, dim, tp_item_int(start), length);
}

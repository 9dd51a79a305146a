/* Joins and rearrangements composed of other operators: stacks, repeats, rotations, block matrices, grids. */
#include "ops/native.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"

/* ---- stacks: each tensor seen in another shape, then cat ---- */

static tp_tensor *cat_each(tp_tensors tensors, int64_t dim, tp_tensor *(*as)(tp_tensor *t, int64_t dim),
                           int64_t as_dim) {
    if (tensors.n == 0) return tpi_fail(TP_ERR_RUNTIME, "argument 'tensors': expected at least one tensor, got none");
    tp_tensors seen = {tpi_malloc(sizeof(tp_tensor *) * (size_t)tensors.n), 0};
    if (!seen.v) return NULL;
    tp_tensor *out = NULL;
    while (seen.n < tensors.n) {
        tp_tensor *t = as(tensors.v[seen.n], as_dim);
        if (!t) break;
        seen.v[seen.n++] = t;
    }
    if (seen.n == tensors.n) out = tpo_cat(seen, dim);
    tpi_release_list(seen);
    return out;
}

tp_tensor *tpi_compose_stack(tp_tensors tensors, int64_t dim) {
    if (tensors.n == 0) return tpi_fail(TP_ERR_RUNTIME, "stack expects a non-empty TensorList");
    int d = tpi_wrap_dim(dim, tensors.v[0]->ndim + 1);
    if (d < 0) return NULL;
    for (int64_t i = 1; i < tensors.n; i++)
        if (!tpi_same_shape(tensors.v[0], tensors.v[i]))
            return tpi_fail(TP_ERR_RUNTIME,
                            "argument 'tensors': stack expects each tensor to be equal size, but got %s at entry 0 and "
                            "%s at entry %lld",
                            tpi_shape_text(tpi_shape(tensors.v[0])), tpi_shape_text(tpi_shape(tensors.v[i])),
                            (long long)i);
    return cat_each(tensors, d, tpo_unsqueeze, d);
}

static tp_tensor *at_least(tp_tensor *t, int64_t ndim) {
    return ndim == 1 ? tpo_atleast_1d(t) : ndim == 2 ? tpo_atleast_2d(t) : tpo_atleast_3d(t);
}
static tp_tensor *as_column(tp_tensor *t, int64_t ndim) {
    (void)ndim;
    return t->ndim <= 1 ? tpo_reshape(t, TP_INTS(t->numel, 1)) : tpi_retain(t);
}

tp_tensor *tpi_compose_hstack(tp_tensors tensors) {
    return cat_each(tensors, tensors.n && tensors.v[0]->ndim <= 1 ? 0 : 1, at_least, 1);
}
tp_tensor *tpi_compose_vstack(tp_tensors tensors) { return cat_each(tensors, 0, at_least, 2); }
tp_tensor *tpi_compose_dstack(tp_tensors tensors) { return cat_each(tensors, 2, at_least, 3); }
tp_tensor *tpi_compose_column_stack(tp_tensors tensors) { return cat_each(tensors, 1, as_column, 0); }

/* ---- repeats: a dim of its own per repeat, expanded, copied and folded in ---- */

tp_tensor *tpi_compose_repeat(tp_tensor *self, tp_ints repeats) {
    if (repeats.n < self->ndim)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'repeats': Number of dimensions of repeat dims can not be smaller than number of "
                        "dimensions of tensor, %d, got %s",
                        self->ndim, tpi_shape_text(repeats));
    int64_t from[TP_MAX_DIMS], to[TP_MAX_DIMS], final[TP_MAX_DIMS], n = 0, lead = repeats.n - self->ndim;
    for (int64_t i = 0; i < repeats.n; i++) {
        int64_t times = repeats.v[i], size = i < lead ? 1 : self->shape[i - lead];
        if (times < 0)
            return tpi_fail(TP_ERR_RUNTIME, "argument 'repeats': expected no negative numbers, got %s",
                            tpi_shape_text(repeats));
        if (n + 2 > TP_MAX_DIMS)
            return tpi_fail(TP_ERR_VALUE, "argument 'repeats': too many repeated dimensions, got %s",
                            tpi_shape_text(repeats));
        if (times != 1) {
            from[n] = 1;
            to[n++] = times;
        }
        from[n] = to[n] = size;
        n++;
        final[i] = tpi_size_times(times, size);
    }
    tp_tensor *spread = tpo_reshape(self, (tp_ints){from, n});
    spread = tpi_release_then(spread, tpo_expand(spread, (tp_ints){to, n}, false));
    spread = tpi_release_then(spread, tpo_clone(spread, TP_CONTIGUOUS));
    return tpi_release_then(spread, tpo_view(spread, (tp_ints){final, repeats.n}));
}

tp_tensor *tpi_compose_tile(tp_tensor *self, tp_ints dims) {
    int64_t repeats[TP_MAX_DIMS], n = dims.n > self->ndim ? dims.n : self->ndim;
    if (n > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "argument 'dims': expected at most %d, got %lld", TP_MAX_DIMS, (long long)n);
    for (int64_t i = 0; i < n; i++) repeats[i] = i < n - dims.n ? 1 : dims.v[i - (n - dims.n)];
    return tpo_repeat(self, (tp_ints){repeats, n});
}

tp_tensor *tpi_compose_repeat_interleave(tp_tensor *self, int64_t repeats, int64_t dim, int64_t output_size) {
    if (repeats < 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'repeats': Repeats must be non-negative, got %lld",
                        (long long)repeats);
    tp_tensor *x = dim == TP_NONE ? tpo_flatten(self, 0, -1) : self->ndim ? tpi_retain(self) : tpo_flatten(self, 0, -1);
    int d = !x ? -1 : dim == TP_NONE ? 0 : tpi_wrap_dim(dim, x->ndim);
    if (d < 0) return tpi_release_then(x, NULL);
    int64_t shape[TP_MAX_DIMS], n = x->ndim;
    if (n == TP_MAX_DIMS)
        return tpi_release_then(x, tpi_fail(TP_ERR_VALUE, "argument 'self': already has %d dimensions", TP_MAX_DIMS));
    for (int64_t i = 0; i <= n; i++) shape[i] = i <= d ? x->shape[i] : i == d + 1 ? repeats : x->shape[i - 1];
    int64_t total = tpi_size_times(x->shape[d], repeats);
    if (output_size != TP_NONE && output_size != total)
        return tpi_release_then(x, tpi_fail(TP_ERR_RUNTIME, "argument 'output_size': expected %lld, got %lld",
                                            (long long)total, (long long)output_size));
    x = tpi_release_then(x, tpo_unsqueeze(x, d + 1));
    x = tpi_release_then(x, tpo_expand(x, (tp_ints){shape, n + 1}, false));
    x = tpi_release_then(x, tpo_clone(x, TP_CONTIGUOUS));
    return tpi_release_then(x, tpo_flatten(x, d, d + 1));
}

tp_tensor *tpi_compose_repeat_interleave_self_Tensor(tp_tensor *self, tp_tensor *repeats, int64_t dim,
                                                     int64_t output_size) {
    tp_tensor *x = dim == TP_NONE || self->ndim == 0 ? tpo_flatten(self, 0, -1) : tpi_retain(self);
    int d = !x ? -1 : dim == TP_NONE ? 0 : tpi_wrap_dim(dim, x->ndim);
    if (d < 0) return tpi_release_then(x, NULL);
    tp_tensor *counts = NULL, *index = NULL, *out = NULL;
    if (repeats->numel == 1 && x->shape[d] != 1) { /* one count for all */
        counts = tpo_reshape(repeats, TP_INTS(1));
        counts = tpi_release_then(counts, tpo_expand(counts, TP_INTS(x->shape[d]), false));
    } else if (repeats->ndim > 1 || repeats->numel != x->shape[d]) {
        tpi_fail(TP_ERR_RUNTIME,
                 "argument 'repeats': repeats must have the same size as input along dim, but got repeats.size(0) = "
                 "%lld and input.size(%d) = %lld",
                 (long long)repeats->numel, d, (long long)x->shape[d]);
    } else
        counts = tpo_reshape(repeats, TP_INTS(repeats->numel));
    if (counts) index = tpo_repeat_interleave_Tensor(counts, output_size);
    if (index) out = tpo_index_select(x, d, index);
    tpi_release(counts);
    tpi_release(index);
    return tpi_release_then(x, out);
}

/* ---- roll, rot90 ---- */

tp_tensor *tpi_compose_roll(tp_tensor *self, tp_ints shifts, tp_ints dims) {
    if (dims.n > 0 || shifts.n != 1) return tpo_roll_dims(self, shifts, dims);
    tp_tensor *line = tpo_reshape(self, TP_INTS(-1)); /* no dims: all elements in a row */
    line = tpi_release_then(line, tpo_roll_dims(line, shifts, TP_INTS(0)));
    return tpi_release_then(line, tpo_view(line, tpi_shape(self)));
}

tp_tensor *tpi_compose_rot90(tp_tensor *self, int64_t k, tp_ints dims) {
    int a = dims.n == 2 ? TPI_DIM(self, dims.v[0]) : 0, b = dims.n == 2 && a >= 0 ? TPI_DIM(self, dims.v[1]) : 0;
    if (a < 0 || b < 0) return NULL;
    if (dims.n != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'dims': expected total rotation dims == 2, but got dims = %lld",
                        (long long)dims.n);
    if (a == b)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'dims': expected rotation dims to be different, but got dim0 = %lld and dim1 = %lld",
                        (long long)dims.v[0], (long long)dims.v[1]);
    k = ((k % 4) + 4) % 4;
    if (k == 0) return tpo_clone(self, TP_PRESERVE);
    if (k == 2) return tpo_flip(self, TP_INTS(a, b));
    tp_tensor *t = tpo_flip(self, k == 1 ? TP_INTS(b) : TP_INTS(a));
    return tpi_release_then(t, tpo_transpose(t, a, b));
}

/* ---- diagonals ---- */

tp_tensor *tpi_compose_diag(tp_tensor *self, int64_t diagonal) {
    if (self->ndim == 1) return tpo_diag_embed(self, diagonal, 0, 1);
    if (self->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': Supports 1D or 2D tensors. Got %dD", self->ndim);
    return tpo_diagonal_copy(self, diagonal, 0, 1);
}

tp_tensor *tpi_compose_diagflat(tp_tensor *self, int64_t offset) {
    tp_tensor *line = tpo_reshape(self, TP_INTS(-1));
    return tpi_release_then(line, tpo_diag_embed(line, offset, 0, 1));
}

tp_tensor *tpi_compose_trace(tp_tensor *self) {
    if (self->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': trace: expected a matrix, but got tensor with dim %d",
                        self->ndim);
    tp_tensor *d = tpo_diagonal(self, 0, 0, 1);
    return tpi_release_then(d, tpo_sum(d, tp_no_ints(), false, TP_NO_DTYPE));
}

/* ---- block_diag, cartesian_prod, combinations, vander ---- */

/* One band of the block matrix: zeros, the block, zeros. */
static tp_tensor *band(tp_tensor *block, int64_t before, int64_t width, tp_dtype dtype) {
    tp_tensor *matrix = tpo_atleast_2d(block), *left = NULL, *right = NULL, *out = NULL;
    if (matrix && matrix->ndim != 2)
        tpi_fail(TP_ERR_RUNTIME, "argument 'tensors': expected tensors of at most 2 dimensions, got shape %s",
                 tpi_shape_text(tpi_shape(block)));
    else if (matrix) {
        left = tpo_zeros(TP_INTS(matrix->shape[0], before), dtype, tpi_device(block));
        right = tpo_zeros(TP_INTS(matrix->shape[0], width - before - matrix->shape[1]), dtype, tpi_device(block));
        if (left && right) out = tpo_cat(TP_LIST(left, matrix, right), 1);
    }
    tpi_release(left);
    tpi_release(right);
    return tpi_release_then(matrix, out);
}

tp_tensor *tpi_compose_block_diag(tp_tensors tensors) {
    tpi_promotion promotion = {0};
    int64_t width = 0, at = 0;
    for (int64_t i = 0; i < tensors.n; i++) {
        const tp_tensor *t = tensors.v[i];
        tpi_promote_tensor(&promotion, t->dtype, t->ndim);
        width += t->ndim ? t->shape[t->ndim - 1] : 1;
    }
    if (tensors.n == 0) return tpo_zeros(TP_INTS(1, 0), TP_NO_DTYPE, (tp_device){0, 0});
    tp_dtype dtype = tpi_promoted(&promotion);
    if (dtype == TP_NO_DTYPE) return NULL;
    tp_tensors bands = {tpi_malloc(sizeof(tp_tensor *) * (size_t)tensors.n), 0};
    tp_tensor *out = NULL;
    while (bands.v && bands.n < tensors.n) {
        tp_tensor *t = tensors.v[bands.n], *b = band(t, at, width, dtype);
        if (!b) break;
        bands.v[bands.n++] = b;
        at += t->ndim ? t->shape[t->ndim - 1] : 1;
    }
    if (bands.v && bands.n == tensors.n) out = tpo_cat(bands, 0);
    if (bands.v) tpi_release_list(bands);
    return out;
}

tp_tensor *tpi_compose_cartesian_prod(tp_tensors tensors) {
    for (int64_t i = 0; i < tensors.n; i++)
        if (tensors.v[i]->ndim != 1)
            return tpi_fail(TP_ERR_RUNTIME, "argument 'tensors': Expect a 1D vector, but got shape %s",
                            tpi_shape_text(tpi_shape(tensors.v[i])));
    if (tensors.n == 1) return tpo_clone(tensors.v[0], TP_PRESERVE);
    tp_tensors grids = tpo_meshgrid(tensors, "ij");
    if (!grids.v) return NULL;
    tp_tensor *all = tpo_stack(grids, -1);
    tpi_release_list(grids);
    return tpi_release_then(all, tpo_reshape(all, TP_INTS(-1, tensors.n)));
}

tp_tensor *tpi_compose_combinations(tp_tensor *self, int64_t r, bool with_replacement) {
    if (self->ndim != 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': Expect a 1D vector, but got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    if (r < 0) return tpi_fail(TP_ERR_RUNTIME, "argument 'r': expected 0 or more, got %lld", (long long)r);
    if (r == 0) return tpo_empty(TP_INTS(0), self->dtype, tpi_device(self), TP_PRESERVE);
    tp_tensor *index = tpo_combination_indices(self->numel, r, with_replacement);
    if (!index) return NULL;
    int64_t count = index->shape[1];
    index = tpi_moved_data(tpi_release_then(index, tpo_reshape(index, TP_INTS(-1))), tpi_device(self));
    tp_tensor *picks = index ? tpo_index_select(self, 0, index) : NULL;
    tpi_release(index);
    picks = tpi_release_then(picks, tpo_view(picks, TP_INTS(r, count)));
    picks = tpi_release_then(picks, tpo_transpose(picks, 0, 1));
    return tpi_release_then(picks, tpo_contiguous(picks, TP_CONTIGUOUS));
}

/* Powers by running products, so that the derivative at zero is right. */
tp_tensor *tpi_compose_vander_matrix(tp_tensor *x, int64_t N, bool increasing) {
    if (x->ndim != 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'x': expected one dimension, got shape %s",
                        tpi_shape_text(tpi_shape(x)));
    if (N == TP_NONE) N = x->numel;
    if (N < 0) return tpi_fail(TP_ERR_RUNTIME, "argument 'N': expected 0 or more, got %lld", (long long)N);
    tp_dtype dtype = tpi_dtype_category[x->dtype] & (TPI_CAT_INT | TPI_CAT_BOOL) ? TP_INT64 : (tp_dtype)x->dtype;
    if (N == 0) return tpo_empty(TP_INTS(x->numel, 0), dtype, tpi_device(x), TP_PRESERVE);
    tp_tensor *powers = tpo_ones(TP_INTS(x->numel, 1), dtype, tpi_device(x));
    if (N > 1) {
        tp_tensor *column = tpo_unsqueeze(x, 1);
        column = tpi_release_then(column, tpo_expand(column, TP_INTS(x->numel, N - 1), false));
        column = tpi_release_then(column, tpo_cumprod(column, 1, dtype));
        tp_tensor *joined = powers && column ? tpo_cat(TP_LIST(powers, column), 1) : NULL;
        tpi_release(column);
        powers = tpi_release_then(powers, joined);
    }
    return increasing ? powers : tpi_release_then(powers, tpo_flip(powers, TP_INTS(1)));
}

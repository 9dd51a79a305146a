/* Splits: lists of views along a dim. */
#include "ops/native.h"
#include "tpi_ops.h"
#include <taper/autograd.h>

static const tp_tensors no_list = {NULL, 0};

/* Room for n tensors; v is never NULL when it worked, even for none. */
static tp_tensors list_of(int64_t n) {
    if (n > INT32_MAX) {
        tpi_fail(TP_ERR_RUNTIME, "%lld pieces are too many", (long long)n);
        return no_list;
    }
    tp_tensors list = {tpi_malloc(sizeof(tp_tensor *) * (size_t)(n ? n : 1)), 0};
    return list;
}

static bool push(tp_tensors *list, tp_tensor *t) {
    if (!t) return false;
    list->v[list->n++] = t;
    return true;
}

static tp_tensors drop(tp_tensors list) {
    tpi_release_list(list);
    return no_list;
}

static int dim_of(tp_tensor *self, int64_t dim) {
    if (self->ndim == 0) {
        tpi_fail(TP_ERR_RUNTIME, "argument 'self': a zero-dimensional tensor cannot be split");
        return -1;
    }
    return TPI_DIM(self, dim);
}

tp_tensors tpi_compose_unbind(tp_tensor *self, int64_t dim) {
    if (self->ndim == 0) {
        tpi_fail(TP_ERR_INDEX, "argument 'dim': Dimension specified as %lld but tensor has no dimensions",
                 (long long)dim);
        return no_list;
    }
    int d = TPI_DIM(self, dim);
    tp_tensors list = d < 0 ? no_list : list_of(self->shape[d]);
    for (int64_t i = 0; list.v && i < self->shape[d]; i++)
        if (!push(&list, tpo_select(self, d, i))) return drop(list);
    return list;
}

tp_tensors tpi_compose_split(tp_tensor *self, int64_t split_size, int64_t dim) {
    int d = dim_of(self, dim);
    if (d < 0) return no_list;
    int64_t size = self->shape[d];
    if (split_size < 0 || (split_size == 0 && size != 0)) {
        if (split_size < 0)
            tpi_fail(TP_ERR_RUNTIME,
                     "argument 'split_size': split expects split_size be non-negative, but got split_size=%lld",
                     (long long)split_size);
        else
            tpi_fail(TP_ERR_RUNTIME,
                     "argument 'split_size': split_size can only be 0 if dimension size is 0, but got dimension size "
                     "of %lld",
                     (long long)size);
        return no_list;
    }
    int64_t pieces = size == 0           ? 1
                     : split_size > size ? 1
                                         : tpi_ceil_div(size, split_size); /* a sum of both need not fit */
    tp_tensors list = list_of(pieces);
    for (int64_t i = 0; list.v && i < pieces; i++) {
        int64_t from = i * split_size, to = from + split_size < size ? from + split_size : size;
        if (!push(&list, tpo_slice(self, d, from, to, 1))) return drop(list);
    }
    return list;
}

tp_tensors tpi_compose_split_sizes(tp_tensor *self, tp_ints split_size, int64_t dim) {
    int d = dim_of(self, dim);
    if (d < 0) return no_list;
    int64_t total = 0;
    bool fits = true;
    for (int64_t i = 0; i < split_size.n; i++)
        fits = fits && split_size.v[i] >= 0 && !__builtin_add_overflow(total, split_size.v[i], &total);
    if (!fits || total != self->shape[d]) {
        tpi_fail(TP_ERR_RUNTIME,
                 "argument 'split_size': split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's "
                 "size at dimension %d), but got split_sizes=%s",
                 (long long)self->shape[d], d, tpi_shape_text(split_size));
        return no_list;
    }
    tp_tensors list = list_of(split_size.n);
    for (int64_t i = 0, at = 0; list.v && i < split_size.n; at += split_size.v[i++])
        if (!push(&list, tpo_slice(self, d, at, at + split_size.v[i], 1))) return drop(list);
    return list;
}

tp_tensors tpi_compose_chunk(tp_tensor *self, int64_t chunks, int64_t dim) {
    int d = dim_of(self, dim);
    if (d < 0) return no_list;
    if (chunks <= 0) {
        tpi_fail(TP_ERR_RUNTIME, "chunk expects `chunks` to be greater than 0, got: %lld", (long long)chunks);
        return no_list;
    }
    int64_t each = chunks > self->shape[d] ? self->shape[d] > 0 : tpi_ceil_div(self->shape[d], chunks);
    if (each > 0) return tpi_compose_split(self, each, d);
    tp_tensors list = list_of(chunks); /* as many empty pieces as asked for */
    while (list.v && list.n < chunks)
        if (!push(&list, tpo_slice(self, d, 0, 0, 1))) return drop(list);
    return list;
}

tp_tensors tpi_compose_tensor_split(tp_tensor *self, int64_t sections, int64_t dim) {
    int d = dim_of(self, dim);
    if (d < 0) return no_list;
    if (sections <= 0) {
        tpi_fail(TP_ERR_RUNTIME, "argument 'sections': expected a positive number, got %lld", (long long)sections);
        return no_list;
    }
    int64_t size = self->shape[d], larger = size % sections, at = 0;
    tp_tensors list = list_of(sections);
    for (int64_t i = 0; list.v && i < sections; i++) {
        int64_t length = size / sections + (i < larger);
        if (!push(&list, tpo_slice(self, d, at, at + length, 1))) return drop(list);
        at += length;
    }
    return list;
}

tp_tensors tpi_compose_tensor_split_indices(tp_tensor *self, tp_ints indices, int64_t dim) {
    int d = dim_of(self, dim);
    if (d < 0) return no_list;
    tp_tensors list = list_of(indices.n + 1);
    for (int64_t i = 0; list.v && i <= indices.n; i++) {
        int64_t from = i ? indices.v[i - 1] : 0, to = i < indices.n ? indices.v[i] : TP_NONE;
        if (!push(&list, tpo_slice(self, d, from, to, 1))) return drop(list);
    }
    return list;
}

/* hsplit, vsplit and dsplit: along dim 1 (0 for a vector), 0 and 2; an equal split must come out even. */
static bool split_dim(tp_tensor *self, int least, int64_t dim, int64_t sections) {
    char letter = least == 1 ? 'h' : least == 2 ? 'v' : 'd';
    if (self->ndim < least)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "torch.%csplit requires a tensor with at least %d dimension, but got a tensor with %d dimensions!", letter,
            least, self->ndim);
    if (sections != TP_NONE && (sections <= 0 || self->shape[dim] % sections != 0))
        return tpi_refuse(TP_ERR_RUNTIME,
                          "torch.%csplit attempted to split along dimension %lld, but the size of the dimension %lld "
                          "is not divisible by the split_size %lld!",
                          letter, (long long)dim, (long long)self->shape[dim], (long long)sections);
    return true;
}

tp_tensors tpi_compose_hsplit(tp_tensor *self, int64_t sections) {
    int64_t dim = self->ndim == 1 ? 0 : 1;
    return split_dim(self, 1, dim, sections) ? tpi_compose_tensor_split(self, sections, dim) : no_list;
}
tp_tensors tpi_compose_hsplit_array(tp_tensor *self, tp_ints indices) {
    int64_t dim = self->ndim == 1 ? 0 : 1;
    return split_dim(self, 1, dim, TP_NONE) ? tpi_compose_tensor_split_indices(self, indices, dim) : no_list;
}
tp_tensors tpi_compose_vsplit(tp_tensor *self, int64_t sections) {
    return split_dim(self, 2, 0, sections) ? tpi_compose_tensor_split(self, sections, 0) : no_list;
}
tp_tensors tpi_compose_vsplit_array(tp_tensor *self, tp_ints indices) {
    return split_dim(self, 2, 0, TP_NONE) ? tpi_compose_tensor_split_indices(self, indices, 0) : no_list;
}
tp_tensors tpi_compose_dsplit(tp_tensor *self, int64_t sections) {
    return split_dim(self, 3, 2, sections) ? tpi_compose_tensor_split(self, sections, 2) : no_list;
}
tp_tensors tpi_compose_dsplit_array(tp_tensor *self, tp_ints indices) {
    return split_dim(self, 3, 2, TP_NONE) ? tpi_compose_tensor_split_indices(self, indices, 2) : no_list;
}

tp_tensors tpi_compose_broadcast_tensors(tp_tensors tensors) {
    int64_t shape[TP_MAX_DIMS], next[TP_MAX_DIMS];
    int ndim = 0;
    for (int64_t i = 0; i < tensors.n; i++) {
        if (!tpi_broadcast((tp_ints){shape, ndim}, tpi_shape(tensors.v[i]), next, &ndim)) return no_list;
        memcpy(shape, next, sizeof(int64_t) * (size_t)ndim);
    }
    tp_tensors list = list_of(tensors.n);
    for (int64_t i = 0; list.v && i < tensors.n; i++)
        if (!push(&list, tpo_expand(tensors.v[i], (tp_ints){shape, ndim}, false))) return drop(list);
    return list;
}

/* Vectors (or single numbers) expanded to the grid they span; "xy" swaps the first two. */
tp_tensors tpi_compose_meshgrid(tp_tensors tensors, const char *indexing) {
    bool xy = strcmp(indexing, "xy") == 0;
    if (!xy && strcmp(indexing, "ij") != 0) {
        tpi_fail(TP_ERR_RUNTIME, "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %s",
                 indexing);
        return no_list;
    }
    if (tensors.n == 0 || tensors.n > TP_MAX_DIMS) {
        tpi_fail(TP_ERR_VALUE, "argument 'tensors': expected 1 to %d tensors, got %lld", TP_MAX_DIMS,
                 (long long)tensors.n);
        return no_list;
    }
    int64_t shape[TP_MAX_DIMS];
    for (int64_t i = 0; i < tensors.n; i++) {
        if (tensors.v[i]->ndim > 1) {
            tpi_fail(TP_ERR_RUNTIME, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got shape %s",
                     tpi_shape_text(tpi_shape(tensors.v[i])));
            return no_list;
        }
        if (tensors.v[i]->dtype != tensors.v[0]->dtype) {
            tpi_fail(TP_ERR_RUNTIME, "torch.meshgrid expects all tensors to have the same dtype");
            return no_list;
        }
        int64_t position = xy && tensors.n > 1 && i < 2 ? 1 - i : i;
        shape[position] = tensors.v[i]->numel;
    }
    tp_tensors list = list_of(tensors.n);
    for (int64_t i = 0; list.v && i < tensors.n; i++) {
        int64_t position = xy && tensors.n > 1 && i < 2 ? 1 - i : i, size[TP_MAX_DIMS];
        for (int64_t d = 0; d < tensors.n; d++) size[d] = d == position ? shape[d] : 1;
        tp_tensor *line = tpo_reshape(tensors.v[i], (tp_ints){size, tensors.n});
        if (!push(&list, tpi_release_then(line, tpo_expand(line, (tp_ints){shape, tensors.n}, false))))
            return drop(list);
    }
    return list;
}

/* Whole numbers from a tensor of them: a single one counts sections, a vector lists where to cut. */
tp_tensors tpi_compose_tensor_split_tensor(tp_tensor *self, tp_tensor *indices, int64_t dim) {
    if (indices->ndim > 1 || (tp_dtype)indices->dtype != TP_INT64) {
        tpi_fail(TP_ERR_RUNTIME,
                 "argument 'tensor_indices_or_sections': expected int64 with at most one dimension, got %s of shape %s",
                 tp_dtype_name((tp_dtype)indices->dtype), tpi_shape_text(tpi_shape(indices)));
        return no_list;
    }
    tp_tensor *flat = tpi_on_host(indices);
    if (!flat) return no_list;
    const int64_t *v = (const int64_t *)(const void *)flat->data;
    tp_tensors list = indices->ndim == 0 ? tpi_compose_tensor_split(self, v[0], dim)
                                         : tpi_compose_tensor_split_indices(self, tp_ints_view(v, flat->numel), dim);
    tpi_release(flat);
    return list;
}

/* ---- Copies of lists: takes the list over ---- */
static tp_tensors copied(tp_tensors list) {
    tp_tensors out = list.v ? list_of(list.n) : no_list;
    for (int64_t i = 0; out.v && i < list.n; i++)
        if (!push(&out, tpo_clone(list.v[i], TP_CONTIGUOUS))) out = drop(out);
    if (list.v) tpi_release_list(list);
    return out;
}
tp_tensors tpi_compose_unbind_copy(tp_tensor *self, int64_t dim) { return copied(tpi_compose_unbind(self, dim)); }
tp_tensors tpi_compose_split_copy(tp_tensor *self, int64_t split_size, int64_t dim) {
    return copied(tpi_compose_split(self, split_size, dim));
}
tp_tensors tpi_compose_split_sizes_copy(tp_tensor *self, tp_ints split_sizes, int64_t dim) {
    return copied(tpi_compose_split_sizes(self, split_sizes, dim));
}

/* ---- The same for each tensor of a list ---- */
static tp_tensors each_of(tp_tensors tensors, tp_tensor *(*as)(tp_tensor *t)) {
    tp_tensors list = list_of(tensors.n);
    for (int64_t i = 0; list.v && i < tensors.n; i++)
        if (!push(&list, as(tensors.v[i]))) return drop(list);
    return list;
}
tp_tensors tpi_compose_atleast_1d_each(tp_tensors tensors) { return each_of(tensors, tpo_atleast_1d); }
tp_tensors tpi_compose_atleast_2d_each(tp_tensors tensors) { return each_of(tensors, tpo_atleast_2d); }
tp_tensors tpi_compose_atleast_3d_each(tp_tensors tensors) { return each_of(tensors, tpo_atleast_3d); }

/* unsafe_chunk and its like: pieces may be written in place without the others, or self, counting as written. Where
 * gradients flow that takes memory of their own. */
static tp_tensors apart(const tp_tensor *self, tp_tensors list) {
    if (!list.v || !self->requires_grad || !tp_grad_enabled()) return list;
    for (int64_t i = 0; i < list.n; i++) {
        list.v[i] = tpi_release_then(list.v[i], tpo_clone(list.v[i], TP_PRESERVE));
        if (!list.v[i]) return drop(list);
    }
    return list;
}

tp_tensors tpi_compose_unsafe_chunk(tp_tensor *self, int64_t chunks, int64_t dim) {
    return apart(self, tpi_compose_chunk(self, chunks, dim));
}

tp_tensors tpi_compose_unsafe_split(tp_tensor *self, int64_t split_size, int64_t dim) {
    return apart(self, tpi_compose_split(self, split_size, dim));
}

tp_tensors tpi_compose_unsafe_split_sizes(tp_tensor *self, tp_ints split_sizes, int64_t dim) {
    return apart(self, tpi_compose_split_sizes(self, split_sizes, dim));
}

/* The backward of views: zeros with a gradient written (or added) where the view looked, and the *_scatter operators,
 * which do the same to a copy. Also the views that change the dtype, which geometry alone does not describe. */
#include <stdio.h>
#include "ops/native.h"
#include "tensor/sizes.h"
#include "ops/view/view.h"
#include "dispatch/grad_mode.h"
#include "tpi_ops.h"

tp_tensor *tpi_native_view_as_real(tp_tensor *self);

static tp_tensor *zeros_of(tp_ints size, const tp_tensor *like) {
    tp_tensor *t = tpi_empty(size, like->dtype, tpi_device(like));
    if (t && !tpi_fill_data(t, tp_int(0))) return tpi_release_then(t, NULL);
    return t;
}

/* The view of t that the geometry describes. */
static tp_tensor *seen(tp_tensor *t, bool ok, const tpi_geometry *g) {
    return ok ? tpi_alias(t, g->ndim, g->shape, g->strides, g->offset) : NULL;
}

/* Copies src into the part of t seen by `view` (given back); the shapes must agree exactly. */
static bool write_part(tp_tensor *view, tp_tensor *src) {
    if (!view) return false;
    bool ok = tpi_same_shape(view, src) ||
              tpi_refuse(TP_ERR_RUNTIME, "argument 'src': expected shape %s like the part of self it goes to, got %s",
                         tpi_shape_text(tpi_shape(view)), tpi_shape_text(tpi_shape(src)));
    ok = ok && tpi_copy_data(view, src);
    tpi_release(view);
    return ok;
}

bool tpi_native_select_scatter(tp_tensor *self, tp_tensor *src, int64_t dim, int64_t index) {
    tpi_geometry g;
    return write_part(seen(self, tpi_geometry_select(self, dim, index, &g), &g), src);
}

bool tpi_native_slice_scatter(tp_tensor *self, tp_tensor *src, int64_t dim, int64_t start, int64_t end, int64_t step) {
    tpi_geometry g;
    return write_part(seen(self, tpi_geometry_slice(self, dim, start, end, step, &g), &g), src);
}

bool tpi_native_diagonal_scatter(tp_tensor *self, tp_tensor *src, int64_t offset, int64_t dim1, int64_t dim2) {
    tpi_geometry g;
    return write_part(seen(self, tpi_geometry_diagonal(self, offset, dim1, dim2, &g), &g), src);
}

/* 0 + grad in a part of zeros: the engine adds such a gradient to a part of what came before, and no -0 may tell that
 * apart from adding this (engine.c). */
static tp_tensor *add_to_zeros(tp_tensor *zeros, tp_tensor *view, tp_tensor *grad) {
    bool ok = view && (tpi_same_shape(view, grad) ||
                       tpi_refuse(TP_ERR_RUNTIME,
                                  "argument 'part': expected shape %s like the part of the result it goes to, got %s",
                                  tpi_shape_text(tpi_shape(view)), tpi_shape_text(tpi_shape(grad))));
    const bool off = tpi_grad_off;
    tpi_grad_off = true; /* grad may have a history, which is the operator's affair */
    ok = ok && tpo_add_out(view, TP_OPERAND(view), TP_OPERAND(grad), tp_int(1));
    tpi_grad_off = off;
    tpi_release(view);
    return ok ? zeros : tpi_release_then(zeros, NULL);
}

tp_tensor *tpi_native_select_backward(tp_tensor *grad, tp_ints size, int64_t dim, int64_t index) {
    tpi_geometry g;
    tp_tensor *out = zeros_of(size, grad);
    return out ? add_to_zeros(out, seen(out, tpi_geometry_select(out, dim, index, &g), &g), grad) : NULL;
}

tp_tensor *tpi_native_slice_backward(tp_tensor *grad, tp_ints size, int64_t dim, int64_t start, int64_t end,
                                     int64_t step) {
    tpi_geometry g;
    tp_tensor *out = zeros_of(size, grad);
    return out ? add_to_zeros(out, seen(out, tpi_geometry_slice(out, dim, start, end, step, &g), &g), grad) : NULL;
}

tp_tensor *tpi_native_diagonal_backward(tp_tensor *grad, tp_ints size, int64_t offset, int64_t dim1, int64_t dim2) {
    tp_tensor *out = zeros_of(size, grad);
    if (out && !tpi_native_diagonal_scatter(out, grad, offset, dim1, dim2)) return tpi_release_then(out, NULL);
    return out;
}

/* ---- Views whose elements overlap: gradients add up ---- */

/* The type sums are kept in: the narrow floats add up in float32, small integers in int64. */
static tp_dtype sum_dtype(tp_dtype d) {
    return tpi_dtype_category[d] & (TPI_CAT_INT | TPI_CAT_BOOL) ? TP_INT64
                                                                : tpi_ctype_dtype((tpi_ctype)tpi_dtype_ctype[d]);
}

/* Rows along the last dim, whose elements are `parts` numbers. */
#define ADD_ROWS(type, parts)                                                             \
    for (int64_t row = 0; row < rows; row++, tpi_odometer_next(&w)) {                     \
        type *a = (type *)(void *)(to + w.offset[0]);                                     \
        const type *b = (const type *)(const void *)(from + w.offset[1]);                 \
        if (to_step == 1 && from_step == 1)                                               \
            for (int64_t i = 0; i < n * (parts); i++) a[i] += b[i];                       \
        else                                                                              \
            for (int64_t i = 0; i < n; i++)                                               \
                for (int64_t part = 0; part < (parts); part++)                            \
                    a[i * to_step * (parts) + part] += b[i * from_step * (parts) + part]; \
    }

/* Adds every element of src to the one of dst at the same index, one after the other: dst may overlap itself. */
static void add_in_order(char *to, const int64_t *to_strides, const tp_tensor *src) {
    tpi_odometer w = {.nargs = 2};
    const int last = src->ndim - 1;
    const int64_t size = (int64_t)tpi_itemsize(src), n = last >= 0 ? src->shape[last] : 1;
    const int64_t to_step = n > 1 ? to_strides[last] : 1, from_step = n > 1 ? src->strides[last] : 1;
    for (int d = 0; d < last; d++)
        tpi_odometer_dim(&w, src->shape[d],
                         (int64_t[]){src->shape[d] > 1 ? to_strides[d] * size : 0, src->strides[d] * size});
    const char *from = src->data;
    if (src->numel == 0) return;
    const int64_t rows = src->numel / n;
    switch (src->dtype) {
    case TP_INT64: ADD_ROWS(uint64_t, 1) break; /* integers wrap around */
    case TP_FLOAT32: ADD_ROWS(float, 1) break;
    case TP_FLOAT64: ADD_ROWS(double, 1) break;
    case TP_COMPLEX64: ADD_ROWS(float, 2) break;
    default: ADD_ROWS(double, 2)
    }
}

/* A tensor seen as numbers in rows: complex ones as pairs of reals. A view; owned. */
static tp_tensor *as_rows(tp_tensor *line) {
    tp_tensor *pairs = tp_dtype_is_complex((tp_dtype)line->dtype) ? tpi_native_view_as_real(line) : tpi_retain(line),
              *alone = pairs ? tpi_detached(pairs) : NULL;
    return tpi_release_then(pairs, alone);
}

/* The same where the elements are not at hand: by their places in the line `sum`, `offset` from its start on. */
static bool add_by_indices(tp_tensor *sum, int64_t offset, const int64_t *strides, tp_tensor *src) {
    tp_tensor *all = tpo_arange(tp_int(sum->numel), TP_INT64, tpi_device(sum)),
              *seen = all ? tpi_alias(all, src->ndim, src->shape, strides, offset) : NULL;
    tp_tensor *indices = seen ? tpo_reshape(seen, TP_INTS(-1)) : NULL, *alone = indices ? tpi_detached(src) : NULL,
              *line = alone ? tpo_reshape(alone, TP_INTS(-1)) : NULL;
    tp_tensor *terms = line ? as_rows(line) : NULL, *to = terms ? as_rows(sum) : NULL;
    bool ok = to && tpo_index_add_(to, 0, indices, terms, tp_int(1));
    tp_tensor *made[] = {all, seen, indices, alone, line, terms, to};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) tpi_release(made[i]);
    return ok;
}

/* sum, a line, gets the elements of src at the places that the strides say. */
static bool add_terms(tp_tensor *sum, int64_t offset, const int64_t *strides, tp_tensor *src) {
    if (!src->numel) return true;
    if (tpi_device(sum).type != TP_CPU) return add_by_indices(sum, offset, strides, src);
    add_in_order(sum->data + offset * (int64_t)tpi_itemsize(sum), strides, src);
    return true;
}

/* Every so many windows of an unfolded dim (the shape's d, `step` apart in sum) do not overlap: those are added at
 * once. */
static bool add_windows(tp_tensor *sum, const tpi_geometry *windows, int d, int64_t length, int64_t step,
                        tp_tensor *src) {
    int64_t every = tpi_ceil_div(length, step);
    bool ok = true;
    for (int64_t first = 0; first < every && first < src->shape[d] && ok; first++) {
        tpi_geometry to = *windows, from = {.ndim = src->ndim, .offset = tpi_offset(src) + first * src->strides[d]};
        for (int i = 0; i < src->ndim; i++) {
            from.shape[i] = src->shape[i];
            from.strides[i] = src->strides[i];
        }
        to.shape[d] = from.shape[d] = tpi_ceil_div(src->shape[d] - first, every);
        to.offset += first * to.strides[d];
        to.strides[d] *= every;
        from.strides[d] *= every;
        tp_tensor *into = seen(sum, true, &to), *part = into ? seen(src, true, &from) : NULL,
                  *terms = part ? tpi_detached(part) : NULL, *target = terms ? tpi_detached(into) : NULL;
        ok = target && tpo_add_(target, tp_operand_tensor(terms), tp_int(1));
        tpi_release(into);
        tpi_release(part);
        tpi_release(terms);
        tpi_release(target);
    }
    return ok;
}

/* unfold's windows, added back. */
tp_tensor *tpi_native_unfold_backward(tp_tensor *grad, tp_ints size, int64_t dimension, int64_t length, int64_t step) {
    tp_dtype dtype = sum_dtype(grad->dtype);
    tp_tensor *terms = tpi_as_dtype_data(grad, dtype), *sum = terms ? zeros_of(size, terms) : NULL, *out = NULL;
    tpi_geometry g;
    if (!sum || !tpi_geometry_unfold(sum, dimension, length, step, &g)) goto done;
    if (g.ndim != grad->ndim || memcmp(g.shape, grad->shape, sizeof(int64_t) * (size_t)g.ndim) != 0) {
        tpi_fail(TP_ERR_RUNTIME, "argument 'grad': expected shape %s, got %s",
                 tpi_shape_text((tp_ints){g.shape, g.ndim}), tpi_shape_text(tpi_shape(grad)));
        goto done;
    }
    if (tpi_device(sum).type == TP_CPU)
        add_in_order(sum->data, g.strides, terms);
    else if (sum->ndim && terms->numel && !add_windows(sum, &g, TPI_DIM(sum, dimension), length, step, terms))
        goto done;
    else if (!sum->ndim && !tpi_copy_data(sum, terms))
        goto done;
    out = tpi_as_dtype_data(sum, grad->dtype);
done:
    tpi_release(terms);
    tpi_release(sum);
    return out;
}

/* The stretch of storage that both a tensor and the strided view over it reach, in elements; and where each starts in
 * it. */
typedef struct stretch {
    int64_t first, count, offset, of_offset;
} stretch;

static void reach(tp_ints shape, tp_ints strides, int64_t offset, int64_t *first, int64_t *last) {
    int64_t end = offset;
    for (int64_t d = 0; d < shape.n; d++) {
        if (shape.v[d] == 0) return;
        end = tpi_size_plus(end, tpi_size_times(shape.v[d] - 1, strides.v[d]));
    }
    if (offset < *first) *first = offset;
    if (end > *last) *last = end;
}

static void find_stretch(const tpi_geometry *of, tp_ints size, tp_ints stride, int64_t offset, stretch *s) {
    int64_t first = INT64_MAX, last = -1;
    reach((tp_ints){of->shape, of->ndim}, (tp_ints){of->strides, of->ndim}, of->offset, &first, &last);
    reach(size, stride, offset, &first, &last);
    s->first = last < 0 ? 0 : first;
    s->count = last < 0 ? 0 : tpi_size_plus(tpi_size_minus(last, first), 1);
    s->offset = offset - s->first;
    s->of_offset = of->offset - s->first;
    if (s->count == 0) s->offset = s->of_offset = 0;
}

static bool geometry_of(tp_ints size, tp_ints stride, int64_t offset, tpi_geometry *g) {
    bool fits = size.n <= TP_MAX_DIMS && stride.n == size.n && offset >= 0;
    for (int64_t d = 0; fits && d < size.n; d++) fits = size.v[d] >= 0 && stride.v[d] >= 0;
    if (!fits)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'stride': expected an offset of 0 or more, and one stride of 0 or more per size, "
                          "got size %s, stride %s and offset %lld",
                          tpi_shape_text(size), tpi_shape_text(stride), (long long)offset);
    *g = (tpi_geometry){.ndim = (int)size.n, .offset = offset};
    for (int64_t d = 0; d < size.n; d++) {
        g->shape[d] = size.v[d];
        g->strides[d] = stride.v[d];
    }
    return true;
}

/* Elements that `of` sees more than once share what came in evenly, as their sum goes back to one place. */
static bool share_overlaps(tp_tensor *sum, const tp_tensor *of) {
    tp_dtype dtype = tpi_dtype_to_real((tp_dtype)sum->dtype);
    tp_tensor *count = tpi_empty(tpi_shape(sum), dtype, tpi_device(sum)),
              *ones = count ? tpi_empty(tpi_shape(of), dtype, tpi_device(sum)) : NULL;
    bool ok = ones && tpi_fill_data(count, tp_int(0)) && tpi_fill_data(ones, tp_int(1)) &&
              add_terms(count, tpi_offset(of), of->strides, ones);
    tp_tensor *times = ok ? tpo_clamp_min(count, tp_operand_int(1)) : NULL;
    tp_tensor *shared =
        times ? (dtype == TP_INT64 ? tpo_floor_divide : tpo_div)(tp_operand_tensor(sum), tp_operand_tensor(times))
              : NULL;
    ok = shared && tpi_copy_data(sum, shared);
    tpi_release(count);
    tpi_release(ones);
    tpi_release(times);
    tpi_release(shared);
    return ok;
}

tp_tensor *tpi_native_as_strided_backward(tp_tensor *grad, tp_ints of_size, tp_ints of_stride, int64_t of_offset,
                                          tp_ints size, tp_ints stride, int64_t storage_offset) {
    tpi_geometry of, seen;
    stretch s;
    int64_t offset = storage_offset == TP_NONE ? of_offset : storage_offset;
    if (!geometry_of(of_size, of_stride, of_offset, &of) || !geometry_of(size, stride, offset, &seen) ||
        !tpi_check_shape(grad, "grad", size))
        return NULL;
    find_stretch(&of, size, stride, offset, &s);
    tp_tensor *terms = tpi_as_dtype_data(grad, sum_dtype(grad->dtype)),
              *sum = terms ? zeros_of((tp_ints){&s.count, 1}, terms) : NULL;
    tp_tensor *part = sum ? tpi_alias(sum, of.ndim, of.shape, of.strides, s.of_offset) : NULL, *out = NULL;
    if (part && add_terms(sum, s.offset, stride.v, terms) && (!tpi_overlaps_itself(part) || share_overlaps(sum, part)))
        out = tpi_empty(of_size, grad->dtype, tpi_device(grad));
    if (out && !tpi_copy_data(out, part)) out = tpi_release_then(out, NULL);
    tpi_release(terms);
    tpi_release(sum);
    tpi_release(part);
    return out;
}

tp_tensor *tpi_native_as_strided_of(tp_tensor *values, tp_ints of_stride, int64_t of_offset, tp_ints size,
                                    tp_ints stride, int64_t storage_offset) {
    tpi_geometry of, seen;
    stretch s;
    int64_t offset = storage_offset == TP_NONE ? of_offset : storage_offset;
    if (!geometry_of(tpi_shape(values), of_stride, of_offset, &of) || !geometry_of(size, stride, offset, &seen))
        return NULL;
    find_stretch(&of, size, stride, offset, &s);
    tp_tensor *memory = zeros_of((tp_ints){&s.count, 1}, values), *part = NULL, *view = NULL, *out = NULL;
    if (!memory) return NULL;
    part = tpi_alias(memory, of.ndim, of.shape, of.strides, s.of_offset);
    if (part && tpi_copy_data(part, values)) view = tpi_alias(memory, (int)size.n, size.v, stride.v, s.offset);
    if (view) out = tpi_empty(size, values->dtype, tpi_device(values));
    if (out && !tpi_copy_data(out, view)) out = tpi_release_then(out, NULL);
    tpi_release(memory);
    tpi_release(part);
    tpi_release(view);
    return out;
}

/* A copy of self with the strides it has, the elements between them included, so that the offset keeps its meaning. */
tp_tensor *tpi_native_as_strided_scatter(tp_tensor *self, tp_tensor *src, tp_ints size, tp_ints stride,
                                         int64_t storage_offset) {
    tpi_geometry g;
    if (!tpi_geometry_as_strided(self, size, stride, storage_offset, &g)) return NULL;
    int64_t all = (int64_t)(self->storage->bytes / tpi_itemsize(self)), one = 1;
    tp_tensor *whole = tpi_alias(self, 1, &all, &one, 0),
              *copy = whole ? tpi_empty((tp_ints){&all, 1}, self->dtype, tpi_device(self)) : NULL, *out = NULL;
    if (copy && tpi_copy_data(copy, whole) && write_part(seen(copy, true, &g), src))
        out = tpi_alias(copy, self->ndim, self->shape, self->strides, tpi_offset(self));
    if (out) { /* a fresh result, nobody's view */
        tp_tensor *plain = tpi_detached(out);
        out = tpi_release_then(out, plain);
    }
    tpi_release(whole);
    tpi_release(copy);
    return out;
}

/* ---- Views of another dtype ---- */

/* A view of self's storage with elements of another dtype: the offset counts those. */
static tp_tensor *alias_as(tp_tensor *self, tp_dtype dtype, const tpi_geometry *g) {
    int64_t still[TP_MAX_DIMS] = {0}; /* the alias is made without strides: it still counts in self's elements */
    tp_tensor *t = tpi_alias(self, g->ndim, g->shape, still, 0);
    if (!t) return NULL;
    memcpy(t->strides, g->strides, sizeof(int64_t) * (size_t)g->ndim);
    t->dtype = (uint8_t)dtype;
    t->data = t->storage->data + g->offset * (int64_t)tpi_dtype_bytes[dtype];
    return t;
}

static void same_geometry(const tp_tensor *self, tpi_geometry *g) {
    g->ndim = self->ndim;
    g->offset = tpi_offset(self);
    for (int d = 0; d < self->ndim; d++) {
        g->shape[d] = self->shape[d];
        g->strides[d] = self->strides[d];
    }
}

tp_tensor *tpi_native_view_as_real(tp_tensor *self) {
    if (!tp_dtype_is_complex(self->dtype))
        return tpi_fail(TP_ERR_TYPE, "argument 'self': view_as_real is only supported for complex tensors, got %s",
                        tp_dtype_name(self->dtype));
    if (tpi_marked(self))
        return tpi_fail(TP_ERR_RUNTIME,
                        "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor "
                        "so you can view it as real, use self.resolve_conj(); however, be warned that the resulting "
                        "tensor will NOT alias the original.");
    if (self->ndim == TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "argument 'self': already has %d dimensions", TP_MAX_DIMS);
    tpi_geometry g;
    same_geometry(self, &g);
    for (int d = 0; d < g.ndim; d++) g.strides[d] *= 2;
    g.shape[g.ndim] = 2;
    g.strides[g.ndim++] = 1;
    g.offset *= 2;
    return alias_as(self, tpi_dtype_to_real(self->dtype), &g);
}

tp_tensor *tpi_native_view_as_complex(tp_tensor *self) {
    if (self->dtype != TP_FLOAT16 && self->dtype != TP_FLOAT32 && self->dtype != TP_FLOAT64)
        return tpi_fail(
            TP_ERR_MISSING,
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: %s",
            tp_dtype_word((tp_dtype)self->dtype));
    if (!self->ndim || self->shape[self->ndim - 1] != 2)
        return tpi_fail(TP_ERR_RUNTIME, "Tensor must have a last dimension of size 2, got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    tpi_geometry g;
    same_geometry(self, &g);
    bool even = g.offset % 2 == 0 && g.strides[g.ndim - 1] == 1;
    g.ndim--;
    g.offset /= 2;
    for (int d = 0; d < g.ndim; d++) {
        even = even && (g.strides[d] % 2 == 0 || g.shape[d] <= 1);
        g.strides[d] /= 2;
    }
    if (!even)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'self': expected a last stride of 1, other strides and the offset even, got strides "
                        "%s, offset %lld",
                        tpi_shape_text(tpi_strides(self)), (long long)tpi_offset(self));
    return alias_as(self, tpi_dtype_to_complex(self->dtype), &g);
}

/* got: the size, stride or offset that does not fit; -1 for none. */
static tp_tensor *refuse_view(const tp_tensor *self, tp_dtype dtype, const char *words, int64_t got) {
    char but[40] = "";
    if (got >= 0) snprintf(but, sizeof but, ", but got %lld", (long long)got);
    return tpi_fail(TP_ERR_RUNTIME, "%s to view %s as %s (different element sizes)%s", words,
                    tp_dtype_word((tp_dtype)self->dtype), tp_dtype_word(dtype), but);
}

/* Other bits read from the same memory have no gradient: no view, as detach() gives none. */
static tp_tensor *apart_as(tp_tensor *self, tp_dtype dtype, const tpi_geometry *g) {
    tp_tensor *view = alias_as(self, dtype, g);
    return view ? tpi_release_then(view, tpi_detached(view)) : NULL;
}

tp_tensor *tpi_native_view_dtype(tp_tensor *self, tp_dtype dtype) {
    if (dtype <= TP_NO_DTYPE || dtype >= TP_DTYPE_COUNT)
        return tpi_fail(TP_ERR_TYPE, "argument 'dtype': expected a dtype, got none");
    int64_t from = tpi_dtype_bytes[self->dtype], to = tpi_dtype_bytes[dtype];
    if (tpi_marked(self) && dtype != (tp_dtype)self->dtype)
        return tpi_fail(TP_ERR_RUNTIME,
                        "torch.Tensor.view is not supported for %s view tensors when converting to a different dtype.",
                        tp_dtype_is_complex((tp_dtype)self->dtype) ? "conjugate" : "neg");
    tpi_geometry g;
    same_geometry(self, &g);
    if (from == to) return apart_as(self, dtype, &g);
    int last = g.ndim - 1;
    if (last < 0) return refuse_view(self, dtype, "self.dim() cannot be 0", -1);
    if (g.strides[last] != 1) return refuse_view(self, dtype, "self.stride(-1) must be 1", g.strides[last]);
    if (to < from) {
        int64_t ratio = from / to;
        g.shape[last] *= ratio;
        g.offset *= ratio;
        for (int d = 0; d < last; d++) g.strides[d] *= ratio;
        return apart_as(self, dtype, &g);
    }
    int64_t ratio = to / from;
    char words[64];
    snprintf(words, sizeof words, "self.size(-1) must be divisible by %lld", (long long)ratio);
    if (g.shape[last] % ratio) return refuse_view(self, dtype, words, g.shape[last]);
    snprintf(words, sizeof words, "self.storage_offset() must be divisible by %lld", (long long)ratio);
    if (g.offset % ratio) return refuse_view(self, dtype, words, g.offset);
    g.shape[last] /= ratio;
    g.offset /= ratio;
    for (int d = 0; d < last; d++) {
        snprintf(words, sizeof words, "self.stride(%d) must be divisible by %lld", d, (long long)ratio);
        if (g.strides[d] % ratio) return refuse_view(self, dtype, words, g.strides[d]);
        g.strides[d] /= ratio;
    }
    return apart_as(self, dtype, &g);
}

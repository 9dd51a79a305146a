/* Geometry: questions about shapes and strides that every operator asks. Pure arithmetic: nothing here touches data or
 * memory. Rules, orders and messages are PyTorch's; answers that fail leave an error that names what was asked. */
#include "tensor/sizes.h"
#include "tensor/tensor.h"
#include <string.h>

int tpi_wrap_dim(int64_t dim, int ndim) {
    int n = ndim ? ndim : 1;
    if (dim >= -n && dim < n) return (int)(dim < 0 ? dim + n : dim);
    tpi_fail(TP_ERR_INDEX, "argument 'dim': Dimension out of range (expected to be in range of [%d, %d], but got %lld)",
             -n, n - 1, (long long)dim);
    return -1;
}

bool tpi_wrap_dims(tp_ints dims, int ndim, bool mask[TP_MAX_DIMS]) {
    bool all = !dims.v || dims.n == 0;
    for (int i = 0; i < TP_MAX_DIMS; i++) mask[i] = all && i < ndim;
    if (all) return true;
    for (int64_t i = 0; i < dims.n; i++) {
        int dim = tpi_wrap_dim(dims.v[i], ndim);
        if (dim < 0) return false;
        if (mask[dim])
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'dim': dim %d appears multiple times in the list of dims", dim);
        mask[dim] = true;
    }
    return true;
}

int64_t tpi_numel_of(tp_ints shape) {
    int64_t product = 1; /* zeros count as one in it, so that the strides are known to fit too */
    bool empty = false;
    if (shape.n > TP_MAX_DIMS) {
        tpi_fail(TP_ERR_RUNTIME, "argument 'shape': expected at most %d dimensions, got %lld", TP_MAX_DIMS,
                 (long long)shape.n);
        return -1;
    }
    for (int64_t i = 0; i < shape.n; i++) {
        int64_t size = shape.v[i];
        if (size < 0) {
            tpi_fail(TP_ERR_RUNTIME, "argument 'shape': Trying to create tensor with negative dimension %lld: %s",
                     (long long)size, tpi_shape_text(shape));
            return -1;
        }
        empty |= size == 0;
        if (size > 1 && __builtin_mul_overflow(product, size, &product)) {
            tpi_fail(TP_ERR_RUNTIME, "argument 'shape': the number of elements of %s overflows a 64-bit integer",
                     tpi_shape_text(shape));
            return -1;
        }
    }
    return empty ? 0 : product;
}

void tpi_contiguous_strides(tp_ints shape, int64_t *strides) {
    int64_t step = 1;
    for (int64_t i = shape.n - 1; i >= 0; i--) {
        strides[i] = step;
        if (shape.v[i] > 1) step = tpi_size_times(step, shape.v[i]);
    }
}

bool tpi_same_shape(const tp_tensor *a, const tp_tensor *b) {
    return a->ndim == b->ndim && (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

/* Both shapes are lined up at their last dims; `out` may be one of the inputs' own arrays. */
bool tpi_broadcast(tp_ints a, tp_ints b, int64_t *out, int *out_ndim) {
    int64_t n = a.n > b.n ? a.n : b.n;
    int64_t result[TP_MAX_DIMS];
    if (n > TP_MAX_DIMS)
        return tpi_refuse(TP_ERR_RUNTIME, "expected at most %d dimensions, got %lld", TP_MAX_DIMS, (long long)n);
    for (int64_t i = n - 1; i >= 0;
         i--) { /* from the last dim on, which is the one that PyTorch names where several do not fit */
        int64_t ia = i - (n - a.n), ib = i - (n - b.n);
        int64_t x = ia < 0 ? 1 : a.v[ia], y = ib < 0 ? 1 : b.v[ib];
        if (x != y && x != 1 && y != 1)
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %lld: "
                "shapes %s and %s do not broadcast",
                (long long)x, (long long)y, (long long)i, tpi_shape_text(a), tpi_shape_text(b));
        result[i] = x == 1 ? y : x;
    }
    if (n) memcpy(out, result, (size_t)n * sizeof *out);
    *out_ndim = (int)n;
    return true;
}

bool tpi_infer_size(tp_ints shape, int64_t numel, int64_t *out) {
    int64_t known = 1, inferred = -1;
    bool overflow = false;
    if (shape.n > TP_MAX_DIMS)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'shape': expected at most %d dimensions, got %lld", TP_MAX_DIMS,
                          (long long)shape.n);
    for (int64_t i = 0; i < shape.n; i++) {
        int64_t size = out[i] = shape.v[i];
        if (size == -1) {
            if (inferred >= 0)
                return tpi_refuse(TP_ERR_RUNTIME, "argument 'shape': only one dimension can be inferred, got %s",
                                  tpi_shape_text(shape));
            inferred = i;
        } else if (size < 0) {
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'shape': invalid shape dimension %lld at index %lld of shape %s",
                              (long long)size, (long long)i, tpi_shape_text(shape));
        } else {
            overflow |= __builtin_mul_overflow(known, size, &known);
        }
    }
    bool fits = !overflow && (numel == known || (inferred >= 0 && known > 0 && numel % known == 0));
    if (!fits)
        return tpi_refuse(TP_ERR_RUNTIME, "shape '%s' is invalid for input of size %lld", tpi_shape_text(shape),
                          (long long)numel);
    if (inferred < 0) return true;
    if (known == 0)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 "
                          "can be any value and is ambiguous",
                          tpi_shape_text(shape));
    out[inferred] = numel / known;
    return true;
}

/* Runs of old dims that lie in memory as one block are matched, from the last on, with runs of new dims of the same
 * number of elements; within a block any split of sizes has strides. */
bool tpi_view_strides(const tp_tensor *t, tp_ints shape, int64_t *strides) {
    if (t->numel == 0) {
        if (shape.n == t->ndim && (t->ndim == 0 || memcmp(t->shape, shape.v, (size_t)shape.n * sizeof *shape.v) == 0))
            for (int64_t i = 0; i < shape.n; i++) strides[i] = t->strides[i];
        else
            tpi_contiguous_strides(shape, strides);
        return true;
    }
    if (t->ndim == 0) {
        for (int64_t i = 0; i < shape.n; i++) strides[i] = 1;
        return true;
    }
    int64_t view = shape.n - 1;
    int64_t base = t->strides[t->ndim - 1]; /* the block's smallest stride */
    int64_t have = 1, used = 1;             /* elements of the block, and of the new dims placed in it */
    for (int64_t i = t->ndim - 1; i >= 0; i--) {
        have *= t->shape[i];
        bool block_ends = i == 0 || (t->shape[i - 1] != 1 && t->strides[i - 1] != have * base);
        if (!block_ends) continue;
        while (view >= 0 && (used < have || shape.v[view] == 1)) {
            strides[view] = used * base;
            used *= shape.v[view--];
        }
        if (used != have) return false;
        if (i > 0) {
            base = t->strides[i - 1];
            have = used = 1;
        }
    }
    return view == -1;
}

static bool contiguous_in_order(const tp_tensor *t, const int *order) {
    int64_t expected = 1;
    for (int i = 0; i < t->ndim; i++) {
        int dim = order[i];
        if (t->shape[dim] == 1) continue;
        if (t->strides[dim] != expected) return false;
        expected *= t->shape[dim];
    }
    return true;
}

bool tp_is_contiguous(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    if (!t) return false;
    if (t->numel == 0) return true;
    int64_t expected = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] == 1) continue;
        if (t->strides[i] != expected) return false;
        expected *= t->shape[i];
    }
    return true;
}

bool tp_is_contiguous_as(const tp_tensor *t, tp_layout layout) {
    if (TPI_ENDED(t, "a tensor")) return false;
    if (!t) return false;
    if (layout == TP_CHANNELS_LAST) return t->ndim == 4 && contiguous_in_order(t, (const int[]){1, 3, 2, 0});
    if (layout == TP_CHANNELS_LAST_3D) return t->ndim == 5 && contiguous_in_order(t, (const int[]){1, 4, 3, 2, 0});
    return tp_is_contiguous(t);
}

bool tpi_is_dense(const tp_tensor *t) {
    if (tp_is_contiguous(t)) return true;
    int order[TP_MAX_DIMS], n = 0; /* dims of size 2 or more, by stride */
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 2) continue;
        int at = n++;
        for (; at > 0 && t->strides[order[at - 1]] > t->strides[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t expected = 1;
    for (int i = 0; i < n; i++) {
        if (t->strides[order[i]] != expected) return false;
        expected *= t->shape[order[i]];
    }
    return true;
}

/* Like PyTorch, only what is certain counts: overlapping windows made by unfold are let through. */
bool tpi_overlaps_itself(const tp_tensor *t) {
    if (t->numel < 2) return false;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1 && t->strides[i] == 0) return true;
    return false;
}

/* > 0: dim a must come behind dim b; < 0: it is before it for certain; 0: no operand tells. */
static int compare_dims(int a, int b, const int64_t *shape, int nargs, const int64_t *const *strides) {
    for (int k = 0; k < nargs; k++) {
        int64_t x = strides[k][a], y = strides[k][b];
        if (x == 0 || y == 0) continue;
        if (x != y) return x < y ? -1 : 1;
        if (shape[a] > shape[b]) return 1;
    }
    return 0;
}

/* A stable insertion that steps over undecided neighbours: the order is not total, so a library sort would not do. */
void tpi_order_dims(int ndim, const int64_t *shape, int nargs, const int64_t *const *strides, int *perm) {
    for (int i = 0; i < ndim; i++) perm[i] = ndim - 1 - i;
    for (int i = 1; i < ndim; i++) {
        int at = i;
        for (int j = i - 1; j >= 0; j--) {
            int verdict = compare_dims(perm[j], perm[at], shape, nargs, strides);
            if (verdict < 0) break;
            if (verdict == 0) continue;
            int moved = perm[j];
            perm[j] = perm[at];
            perm[at] = moved;
            at = j;
        }
    }
}

void tpi_dense_strides(int ndim, const int64_t *shape, int nargs, const int64_t *const *strides, int64_t *out) {
    int perm[TP_MAX_DIMS];
    tpi_order_dims(ndim, shape, nargs, strides, perm);
    int64_t step = 1;
    for (int i = 0; i < ndim; i++) {
        out[perm[i]] = step;
        if (shape[perm[i]] > 1) step = tpi_size_times(step, shape[perm[i]]);
    }
}

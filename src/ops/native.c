/* What the natives of src/ops share; see native.h. */
#include "ops/native.h"

bool tpi_check_dtype(const tp_tensor *t, const char *name, tp_dtype expected) {
    return t->dtype == expected || tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected a tensor of %s, got %s", name,
                                              tp_dtype_name(expected), tp_dtype_name(t->dtype));
}

bool tpi_check_same_dtype(const tp_tensor *t, const char *name, const tp_tensor *as, const char *as_name) {
    return t->dtype == as->dtype ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "argument '%s': %s (%s) and %s (%s) must have the same scalar type: expected %s, got %s", name,
                      as_name, tp_dtype_word((tp_dtype)as->dtype), name, tp_dtype_word((tp_dtype)t->dtype),
                      tp_dtype_name(as->dtype), tp_dtype_name(t->dtype));
}

bool tpi_check_not_complex(const tp_tensor *t, const char *name) {
    return !tp_dtype_is_complex(t->dtype) ||
           tpi_refuse(TP_ERR_RUNTIME, "argument '%s': complex numbers have no order, expected a real tensor, got %s",
                      name, tp_dtype_name(t->dtype));
}

bool tpi_check_shape(const tp_tensor *t, const char *name, tp_ints expected) {
    bool same = t->ndim == expected.n;
    for (int64_t i = 0; same && i < expected.n; i++) same = t->shape[i] == expected.v[i];
    return same || tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected a tensor of shape %s, got %s", name,
                              tpi_shape_text(expected), tpi_shape_text(tpi_shape(t)));
}

bool tpi_check_numel(const tp_tensor *t, const char *name, int64_t expected) {
    return t->numel == expected ||
           tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected a tensor of %lld elements, got shape %s", name,
                      (long long)expected, tpi_shape_text(tpi_shape(t)));
}

tp_tensor *tpi_index_data(tp_tensor *index, const char *name) {
    if (index->dtype != TP_INT64 && index->dtype != TP_INT32)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument '%s': Expected dtype int32/int64 for index but got: %s: expected a tensor of int64 "
                        "or int32, got %s",
                        name, tp_dtype_word((tp_dtype)index->dtype), tp_dtype_name(index->dtype));
    tp_tensor *wide = tpi_as_dtype_data(index, TP_INT64);
    if (!wide) return NULL;
    return tpi_release_then(wide, tpi_contiguous_data(wide));
}

bool tpi_index_error(const char *name, int64_t index, int64_t dim, int64_t size) {
    if (!size)
        return tpi_refuse(TP_ERR_INDEX, "argument '%s': index %lld is out of bounds for dimension with size 0 (%lld)",
                          name, (long long)index, (long long)dim);
    return tpi_refuse(TP_ERR_INDEX, "argument '%s': index %lld is out of bounds for dimension %lld with size %lld",
                      name, (long long)index, (long long)dim, (long long)size);
}

tp_tensor *tpi_dim_last(tp_tensor *t, int dim) {
    if (t->ndim == 0) {
        int64_t one = 1;
        return tpi_alias(t, 1, &one, &one, tpi_offset(t));
    }
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < t->ndim; d++)
        if (d != dim) {
            shape[n] = t->shape[d];
            strides[n++] = t->strides[d];
        }
    shape[n] = t->shape[dim];
    strides[n] = t->strides[dim];
    return tpi_alias(t, t->ndim, shape, strides, tpi_offset(t));
}

tp_tensor *tpi_expanded(tp_tensor *t, tp_ints shape) {
    int64_t strides[TP_MAX_DIMS], lead = shape.n - t->ndim;
    for (int64_t d = 0; d < shape.n; d++) {
        int64_t have = d < lead ? 1 : t->shape[d - lead];
        if (lead < 0 || (have != shape.v[d] && have != 1))
            return tpi_fail(TP_ERR_RUNTIME, "shape %s does not broadcast to %s", tpi_shape_text(tpi_shape(t)),
                            tpi_shape_text(shape));
        strides[d] = d < lead || have != shape.v[d] ? 0 : t->strides[d - lead];
    }
    if (lead < 0)
        return tpi_fail(TP_ERR_RUNTIME, "shape %s does not broadcast to %s", tpi_shape_text(tpi_shape(t)),
                        tpi_shape_text(shape));
    return tpi_alias(t, (int)shape.n, shape.v, strides, tpi_offset(t));
}

tp_tensor *tpi_narrowed(tp_tensor *t, int dim, int64_t start, int64_t length) {
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, t->shape, sizeof(int64_t) * t->ndim);
    shape[dim] = length;
    return tpi_alias(t, t->ndim, shape, t->strides, tpi_offset(t) + start * t->strides[dim]);
}

typedef struct {
    uint64_t half[2];
} bytes16;
typedef uint32_t __attribute__((may_alias)) word4;
typedef uint64_t __attribute__((may_alias)) word8;

#define MOVE(type)                                                                                         \
    do {                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                  \
            *(type *)(void *)(dst + i * dst_stride) = *(const type *)(const void *)(src + i * src_stride); \
        }                                                                                                  \
    } while (0)

/* A run from its end to its beginning, by strides that the compiler knows. */
static bool reversed(char *dst, const char *src, int64_t n, size_t itemsize) {
    if (itemsize == 4)
        for (int64_t i = 0; i < n; i++) ((word4 *)(void *)dst)[i] = ((const word4 *)(const void *)src)[-i];
    else if (itemsize == 8)
        for (int64_t i = 0; i < n; i++) ((word8 *)(void *)dst)[i] = ((const word8 *)(const void *)src)[-i];
    return itemsize == 4 || itemsize == 8;
}

void tpi_move_run(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, size_t itemsize) {
    if (dst_stride == (int64_t)itemsize && src_stride == (int64_t)itemsize) {
        memcpy(dst, src, (size_t)n * itemsize);
        return;
    }
    if (dst_stride == (int64_t)itemsize && src_stride == -dst_stride && reversed(dst, src, n, itemsize)) return;
    switch (itemsize) {
    case 1: MOVE(uint8_t); break;
    case 2: MOVE(uint16_t); break;
    case 4: MOVE(uint32_t); break;
    case 8: MOVE(uint64_t); break;
    default: MOVE(bytes16); break;
    }
}

void tpi_odometer_dim(tpi_odometer *w, int64_t size, const int64_t *strides) {
    w->shape[w->ndim] = size;
    for (int a = 0; a < w->nargs; a++) w->stride[a][w->ndim] = strides[a];
    w->ndim++;
}

void tpi_odometer_seek(tpi_odometer *w, int64_t position) {
    for (int a = 0; a < w->nargs; a++) w->offset[a] = 0;
    for (int d = w->ndim - 1; d >= 0; d--) {
        int64_t size = w->shape[d];
        w->at[d] = position % size;
        position /= size;
        for (int a = 0; a < w->nargs; a++) w->offset[a] += w->at[d] * w->stride[a][d];
    }
}

void tpi_odometer_next(tpi_odometer *w) {
    for (int d = w->ndim - 1; d >= 0; d--) {
        for (int a = 0; a < w->nargs; a++) w->offset[a] += w->stride[a][d];
        if (++w->at[d] < w->shape[d]) return;
        for (int a = 0; a < w->nargs; a++) w->offset[a] -= w->shape[d] * w->stride[a][d];
        w->at[d] = 0;
    }
}

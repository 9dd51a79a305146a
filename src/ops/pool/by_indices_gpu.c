/* Pooling by recorded places on GPUs, as gather and scatter over flat planes: unpooling, its derivative, and the
 * gradient of pools without windows. */
#include "ops/native_gpu.h"
#include "ops/pool/by_indices_gpu.h"
#include "ops/compute_dtype.h"
#include "tpi_ops.h"

static int64_t product_of(const int64_t *v, int64_t n) {
    int64_t r = 1;
    for (int64_t i = 0; i < n; i++) r *= v[i];
    return r;
}

/* The last dims of a shape as one: (planes, elements of a plane). */
static bool flat_shape(tp_ints shape, int64_t dims, int64_t *flat) {
    if (dims < 1 || shape.n < dims) return false;
    flat[0] = product_of(shape.v, shape.n - dims);
    flat[1] = product_of(shape.v + shape.n - dims, dims);
    return flat[0] > 0 && flat[1] > 0;
}

static tp_tensor *shaped(tp_tensor *t, tp_ints shape) { /* t, contiguous, in another shape; takes it over */
    int64_t strides[TP_MAX_DIMS];
    tpi_contiguous_strides(shape, strides);
    return t ? tpi_release_then(t, tpi_alias(t, (int)shape.n, shape.v, strides, tpi_offset(t))) : NULL;
}

static tp_tensor *flattened(tp_tensor *t, int64_t dims) {
    int64_t flat[2];
    return flat_shape(tpi_shape(t), dims, flat) ? shaped(tpi_contiguous_data(t), tp_ints_view(flat, 2)) : NULL;
}

static bool fits(const tp_tensor *values, const tp_tensor *indices) {
    return tpi_gpu_floats(values) && indices->dtype == TP_INT64 && values->numel && indices->numel;
}

tpi_served tpi_gpu_max_pool_gather(tp_tensor *self, tp_tensor *indices, int64_t dims, tp_tensor **result) {
    if (!fits(self, indices)) return TPI_DECLINED;
    tp_tensor *x = flattened(self, dims), *k = x ? flattened(indices, dims) : NULL,
              *out = k && k->shape[0] == x->shape[0] ? tpo_gather(x, 1, k, false) : NULL;
    tpi_release(x);
    tpi_release(k);
    return tpi_serve(tpi_from_compute_like(shaped(out, tpi_shape(indices)), (tp_dtype)self->dtype, self), result);
}

/* The values at their places in planes of zeros. sum: places may come more than once. */
static tp_tensor *spread(tp_tensor *values, tp_tensor *indices, tp_ints shape, int64_t dims, bool sum) {
    int64_t flat[2];
    if (!fits(values, indices) || !tpi_same_shape(values, indices) || !flat_shape(shape, dims, flat)) return NULL;
    tp_tensor *v = flattened(values, dims), *k = v ? flattened(indices, dims) : NULL;
    tp_tensor *out = k && k->shape[0] == flat[0]
                         ? tpi_empty(tp_ints_view(flat, 2), (tp_dtype)values->dtype, tpi_device(values))
                         : NULL;
    bool ok =
        out && tpi_fill_data(out, tp_int(0)) && (sum ? tpo_scatter_add_(out, 1, k, v) : tpo_scatter_(out, 1, k, v));
    tpi_release(v);
    tpi_release(k);
    return ok ? tpi_from_compute_like(shaped(out, shape), (tp_dtype)values->dtype, values)
              : tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_max_unpool(tp_tensor *self, tp_tensor *indices, tp_ints output_size, int64_t dims,
                              tp_tensor **result) {
    int64_t shape[TP_MAX_DIMS];
    if (output_size.n != dims || self->ndim < dims) return TPI_DECLINED;
    for (int i = 0; i < self->ndim; i++)
        shape[i] = i < self->ndim - dims ? self->shape[i] : output_size.v[i - (self->ndim - dims)];
    return tpi_serve(spread(self, indices, tp_ints_view(shape, self->ndim), dims, false), result);
}

tp_tensor *tpi_gpu_pool_back_by_indices(tp_tensor *grad, tp_tensor *indices, tp_ints shape, int64_t dims) {
    return spread(grad, indices, shape, dims, true);
}

/* sort and topk on GPUs: places in order, and the elements there. */
#include "ops/sort/order_gpu.h"

static const tpi_gpu_site pick_site = {"sort_gpu_kernel.h", "pick"};

/* The first k of each row's order, along the last dim of a contiguous x. */
static bool pick(tp_tensor *x, int64_t n, int64_t k, bool backwards, tp_tensor *order, tp_tensor *keys,
                 tp_tensor *values, tp_tensor *indices) {
    int64_t rows = x->numel / n, blocks = tpi_ceil_div(rows * k, 256);
    tp_dtype d = (tp_dtype)x->dtype;
    bool decode = rows == 1 && d != TP_BOOL;
    const tpi_gpu_define defines[] = {
        TPI_DEFINE("KEY", tpi_itemsize(keys)), TPI_DEFINE("DECODE", decode), TPI_DEFINE("BACKWARDS", backwards),
        TPI_DEFINE("FLOATING", tp_dtype_is_floating(d) ? (d == TP_FLOAT64 ? 8 : 4) : 0), TPI_DEFINE_DTYPE("X", d)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(x), &pick_site, false, 5, defines);
    int width = (int)n, first = (int)k;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(values->data), TPI_GPU_PTR(indices->data), TPI_GPU_PTR(x->data),
                                TPI_GPU_PTR(order->data),  TPI_GPU_PTR(keys->data),    TPI_GPU_VAL(rows),
                                TPI_GPU_VAL(width),        TPI_GPU_VAL(first)};
    return kernel && tpi_gpu_launch(tpi_device(x), kernel, blocks < 65536 ? blocks : 65536, 256, 0, 8, args);
}

/* t, contiguous with the dim last, seen with the dim in its own place and laid out as a new tensor would be; takes t
 * over. */
static tp_tensor *put_back(tp_tensor *t, int dim, tp_ints shape) {
    if (!t || dim == shape.n - 1 || shape.n == 0) {
        if (!t || shape.n) return t;
        tp_tensor *scalar = tpi_alias(t, 0, t->shape, t->strides, 0), *own = scalar ? tpi_detached(scalar) : NULL;
        tpi_release(scalar);
        return tpi_release_then(t, own);
    }
    tp_tensor *out = tpi_empty(shape, (tp_dtype)t->dtype, tpi_device(t)), *target = out ? tpi_dim_last(out, dim) : NULL;
    bool ok = target && tpi_copy_data(target, t);
    tpi_release(target);
    tpi_release(t);
    return ok ? out : tpi_release_then(out, NULL);
}

static bool nothing_in_order(tp_tensor *self, int d, int64_t k, tp_tensor **out) {
    int64_t shape[TP_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) shape[i] = i == d ? k : self->shape[i];
    tp_tensor *values = tpi_empty(tp_ints_view(shape, self->ndim), (tp_dtype)self->dtype, tpi_device(self)),
              *indices = values ? tpi_empty(tp_ints_view(shape, self->ndim), TP_INT64, tpi_device(self)) : NULL;
    if (!indices) {
        tpi_release(values);
        return false;
    }
    out[0] = values;
    out[1] = indices;
    return true;
}

static bool first_of_order(tp_tensor *self, int64_t dim, int64_t k, bool backwards, tp_tensor **out) {
    int d = self->ndim ? TPI_DIM(self, dim) : 0;
    int64_t n = self->ndim && d >= 0 ? self->shape[d] : 1;
    if (d < 0 || k < 0 || k > n || self->ndim == TP_MAX_DIMS) {
        tp_error_clear();
        return false;
    }
    if (!self->numel) return nothing_in_order(self, d, k, out);
    tp_tensor *last = tpi_dim_last(self, d), *x = last ? tpi_contiguous_data(last) : NULL;
    int64_t shape[TP_MAX_DIMS], permuted[TP_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) shape[i] = i == d ? k : self->shape[i];
    for (int i = 0; x && i < x->ndim; i++) permuted[i] = i == x->ndim - 1 ? k : x->shape[i];
    tp_tensor *values = x ? tpi_empty(tp_ints_view(permuted, x->ndim), (tp_dtype)x->dtype, tpi_device(x)) : NULL;
    tp_tensor *indices = values ? tpi_empty(tp_ints_view(permuted, x->ndim), TP_INT64, tpi_device(x)) : NULL;
    bool ok = indices && (k == 0 || tpi_gpu_order_rows(x, n, backwards, TPI_FIRST_OF_ORDER, k, values, indices));
    if (indices && !ok && !tp_error()) {
        tp_tensor *keys = NULL, *order = tpi_gpu_order(x, n, backwards, &keys);
        ok = order && pick(x, n, k, backwards, order, keys, values, indices);
        tpi_release(order);
        tpi_release(keys);
    }
    tpi_release(last);
    tpi_release(x);
    if (!ok) {
        tpi_release(values);
        tpi_release(indices);
        return false;
    }
    out[0] = put_back(values, d, tp_ints_view(shape, self->ndim));
    out[1] = put_back(indices, d, tp_ints_view(shape, self->ndim));
    if (out[0] && out[1]) return true;
    tpi_release(out[0]);
    tpi_release(out[1]);
    out[0] = out[1] = NULL;
    return false;
}

tpi_served tpi_gpu_sort(tp_tensor *self, int64_t dim, bool descending, bool stable, tp_tensor **out) {
    (void)stable; /* always */
    int d = self->ndim ? TPI_DIM(self, dim) : 0;
    if (d < 0) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    return tpi_serve_if(first_of_order(self, d, self->ndim ? self->shape[d] : 1, descending, out));
}

tpi_served tpi_gpu_topk(tp_tensor *self, int64_t k, int64_t dim, bool largest, bool sorted, tp_tensor **out) {
    (void)sorted; /* sorted serves both */
    return tpi_serve_if(first_of_order(self, dim, k, largest, out));
}

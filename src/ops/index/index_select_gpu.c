/* Rows by their numbers on GPUs: index_select, embeddings and their gradients, and x[i] with one tensor of numbers. */
#include "ops/index/gather_index_gpu.h"
#include "ops/sort/order_gpu.h"

static const tpi_gpu_site rows_site = {"index_select_gpu_kernel.h", "rows"},
                          segments_site = {"index_select_gpu_kernel.h", "segments"};

/* out, contiguous, from rows along dim d of x; index has out's numbers in order. */
static bool copy_rows(tp_tensor *out, tp_tensor *x, int d, tp_tensor *index, bool wrap) {
    if (!out->numel) return true;
    int64_t size = x->ndim ? x->shape[d] : 1, inner = (int64_t)tpi_itemsize(x), count = index->numel;
    for (int i = d + 1; i < x->ndim; i++) inner *= x->shape[i];
    int piece = 16;
    while (inner % piece || (uintptr_t)x->data % (uintptr_t)piece || (uintptr_t)out->data % (uintptr_t)piece)
        piece /= 2;
    int64_t per = inner / piece, rows = out->numel * (int64_t)tpi_itemsize(out) / inner;
    int group = 1;
    while (group < 256 && group * 2 <= per) group *= 2;
    int64_t blocks = tpi_ceil_div(rows, 256 / group * 4); /* four rows at a time: ops/index/index_select_gpu_kernel.h */
    const tpi_gpu_define defines[] = {TPI_DEFINE("PIECE", piece), TPI_DEFINE("WRAP", wrap), TPI_DEFINE("GROUP", group),
                                      TPI_DEFINE_DTYPE("INDEX", index->dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(x), &rows_site, false, 4, defines);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(x));
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),     TPI_GPU_PTR(out->data), TPI_GPU_PTR(x->data),
                                TPI_GPU_PTR(index->data), TPI_GPU_VAL(rows),      TPI_GPU_VAL(count),
                                TPI_GPU_VAL(size),        TPI_GPU_VAL(per)};
    return fault.word && kernel &&
           tpi_gpu_launch(tpi_device(x), kernel, blocks < 1 << 20 ? blocks : 1 << 20, 256, 0, 9, args);
}

/* x's rows along d, with index's dims in the place of d. */
static tp_tensor *taken(tp_tensor *self, int d, tp_tensor *index, bool wrap) {
    int64_t shape[TP_MAX_DIMS];
    int n = 0;
    if (self->ndim + index->ndim - 1 > TP_MAX_DIMS || !self->numel) return NULL;
    for (int i = 0; i < d; i++) shape[n++] = self->shape[i];
    for (int i = 0; i < index->ndim; i++) shape[n++] = index->shape[i];
    for (int i = d + 1; i < self->ndim; i++) shape[n++] = self->shape[i];
    tp_tensor *x = tpi_contiguous_data(self), *k = tpi_contiguous_data(index),
              *out = x && k ? tpi_empty(tp_ints_view(shape, n), (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    bool ok = out && copy_rows(out, x, d, k, wrap);
    tpi_release(x);
    tpi_release(k);
    return ok ? out : tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_index_select(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor **result) {
    int d = self->ndim ? TPI_DIM(self, dim) : -1;
    if (d < 0 || index->ndim != 1 || !tpi_gpu_is_index(index)) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    return tpi_serve(taken(self, d, index, false), result);
}

tpi_served tpi_gpu_embedding_rows(tp_tensor *weight, tp_tensor *indices, int64_t padding_idx, bool scale_grad_by_freq,
                                  tp_tensor **result) {
    (void)padding_idx;
    (void)scale_grad_by_freq;
    return tpi_serve(weight->ndim == 2 && tpi_gpu_is_index(indices) ? taken(weight, 0, indices, false) : NULL, result);
}

/* Numbers count through all elements, in their order. */
tpi_served tpi_gpu_take(tp_tensor *self, tp_tensor *index, tp_tensor **result) {
    int64_t one = 1;
    tp_tensor *x = tpi_gpu_is_index(index) && self->numel ? tpi_contiguous_data(self) : NULL,
              *flat = x ? tpi_alias(x, 1, &x->numel, &one, tpi_offset(x)) : NULL;
    tp_tensor *out = flat ? taken(flat, 0, index, true) : NULL;
    tpi_release(x);
    tpi_release(flat);
    return tpi_serve(out, result);
}

/* One tensor of numbers among dims that are taken whole goes by rows. */
tpi_served tpi_gpu_index(tp_tensor *self, tp_tensors indices, tp_tensor **result) {
    int d = -1, found = 0;
    for (int64_t i = 0; i < indices.n; i++)
        if (indices.v[i]) {
            d = (int)i;
            found++;
        }
    if (found == 1 && d < self->ndim && tpi_gpu_is_index(indices.v[d]) && tp_is_contiguous(self))
        return tpi_serve(taken(self, d, indices.v[d], true), result);
    return tpi_serve(tpi_gpu_index_many(self, indices), result);
}

tpi_served tpi_gpu_embedding_backward(tp_tensor *grad, tp_tensor *indices, int64_t num_weights, int64_t padding_idx,
                                      bool scale_grad_by_freq, tp_tensor **result) {
    int64_t width = grad->ndim ? grad->shape[grad->ndim - 1] : 0;
    if (!tpi_gpu_floats(grad) || !tpi_gpu_is_index(indices) || !width || width > INT32_MAX ||
        indices->numel * width != grad->numel)
        return TPI_DECLINED;
    tp_device device = tpi_device(grad);
    tp_tensor *out = tpi_empty(TP_INTS(num_weights, width), (tp_dtype)grad->dtype, device);
    bool ok = out && tpi_fill_data(out, tp_int(0));
    if (!ok || !indices->numel) return tpi_serve(ok ? out : tpi_release_then(out, NULL), result);
    tp_tensor *wide = tpi_as_dtype_data(indices, TP_INT64), *index = wide ? tpi_contiguous_data(wide) : NULL,
              *g = tpi_contiguous_data(grad), *numbers = NULL;
    tp_tensor *order = index && g ? tpi_gpu_order_indices(index, num_weights, &numbers) : NULL;
    ok = order != NULL;
    if (ok) {
        const tpi_gpu_define defines[] = {TPI_DEFINE("SCALE", scale_grad_by_freq), TPI_DEFINE_DTYPE("G", g->dtype),
                                          TPI_DEFINE_DTYPE("Y", out->dtype)};
        tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, &segments_site, grad->dtype == TP_FLOAT64, 3, defines);
        int64_t n = index->numel;
        int columns = (int)width;
        const tpi_gpu_arg args[] = {TPI_GPU_PTR(out->data),   TPI_GPU_PTR(g->data),    TPI_GPU_PTR(numbers->data),
                                    TPI_GPU_PTR(order->data), TPI_GPU_VAL(n),          TPI_GPU_VAL(num_weights),
                                    TPI_GPU_VAL(columns),     TPI_GPU_VAL(padding_idx)};
        ok = kernel && tpi_gpu_launch(device, kernel, n, width >= 256 ? 256 : width >= 128 ? 128 : 64, 0, 8, args);
    }
    tpi_release(wide);
    tpi_release(index);
    tpi_release(g);
    tpi_release(numbers);
    tpi_release(order);
    return tpi_serve(ok ? out : tpi_release_then(out, NULL), result);
}

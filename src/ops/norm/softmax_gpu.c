/* softmax and log_softmax on GPUs: rows in registers where they fit. A dim that is not the last is brought there by a
 * copy. */
#include "ops/native_gpu.h"

static const tpi_gpu_site forward = {"softmax_gpu_kernel.h", "forward"},
                          backward = {"softmax_gpu_kernel.h", "backward"};

/* Over the last dim of contiguous tensors; grad NULL: forward of x, else back from the result x. */
static bool softmax_rows(bool log, tp_tensor *out, tp_tensor *grad, tp_tensor *x, int64_t n) {
    uintptr_t align = (uintptr_t)out->data | (uintptr_t)x->data | (grad ? (uintptr_t)grad->data : 0);
    size_t size = tpi_itemsize(out) > tpi_itemsize(x) ? tpi_itemsize(out) : tpi_itemsize(x);
    if (grad && tpi_itemsize(grad) > size) size = tpi_itemsize(grad);
    int64_t count = x->numel / n;
    int width = (int)n;
    tpi_gpu_rows r = tpi_gpu_rows_for(tpi_device(x), n, (int)size, align, grad ? 2 : 1);
    const tpi_gpu_define defines[] = {TPI_DEFINE("LOG", log), TPI_DEFINE_ROWS(r), TPI_DEFINE_DTYPE("X", x->dtype),
                                      TPI_DEFINE_DTYPE("Y", out->dtype),
                                      TPI_DEFINE_DTYPE("G", grad ? grad->dtype : x->dtype)};
    bool wide = x->dtype == TP_FLOAT64 || out->dtype == TP_FLOAT64;
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(x), grad ? &backward : &forward, wide, 9, defines);
    if (!kernel) return false;
    tpi_gpu_arg args[5] = {TPI_GPU_PTR(out->data)};
    int nargs = 1;
    if (grad) args[nargs++] = TPI_GPU_PTR(grad->data);
    args[nargs++] = TPI_GPU_PTR(x->data);
    args[nargs++] = TPI_GPU_VAL(count);
    args[nargs++] = TPI_GPU_VAL(width);
    return tpi_gpu_launch(tpi_device(x), kernel, tpi_ceil_div(count, r.groups), r.group * r.groups, 0, nargs, args);
}

/* t with the dim last, contiguous; owned. */
static tp_tensor *contiguous_along(tp_tensor *t, int dim) {
    tp_tensor *last = tpi_dim_last(t, dim);
    return last ? tpi_release_then(last, tpi_contiguous_data(last)) : NULL;
}

static tp_tensor *run(bool log, tp_tensor *grad, tp_tensor *x, int64_t dim, tp_dtype result) {
    int d = TPI_DIM(x, dim);
    if (d < 0 || !tpi_gpu_floats(x) || (grad && !tpi_gpu_floats(grad))) return NULL;
    int64_t n = x->ndim ? x->shape[d] : 1;
    if (n > INT32_MAX || (grad && !tpi_same_shape(grad, x))) return NULL;
    tp_tensor *out = tpi_empty(tpi_shape(x), result, tpi_device(x));
    if (!out || !x->numel) return out;
    bool straight = x->ndim == 0 || d == x->ndim - 1;
    tp_tensor *tx = straight ? tpi_contiguous_data(x) : contiguous_along(x, d),
              *tg = grad ? straight ? tpi_contiguous_data(grad) : contiguous_along(grad, d) : NULL;
    tp_tensor *to = !tx || (grad && !tg) ? NULL
                    : straight           ? tpi_retain(out)
                                         : tpi_empty(tpi_shape(tx), result, tpi_device(x));
    bool ok = to && softmax_rows(log, to, tg, tx, n);
    if (ok && !straight) {
        tp_tensor *target = tpi_dim_last(out, d);
        ok = target && tpi_copy_data(target, to);
        tpi_release(target);
    }
    tpi_release(tx);
    tpi_release(tg);
    tpi_release(to);
    return ok ? out : tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_softmax(tp_tensor *self, int64_t dim, tp_tensor **result) {
    return tpi_serve(run(false, NULL, self, dim, (tp_dtype)self->dtype), result);
}
tpi_served tpi_gpu_log_softmax(tp_tensor *self, int64_t dim, tp_tensor **result) {
    return tpi_serve(run(true, NULL, self, dim, (tp_dtype)self->dtype), result);
}
tpi_served tpi_gpu_softmax_backward(tp_tensor *grad, tp_tensor *output, int64_t dim, tp_dtype input_dtype,
                                    tp_tensor **result) {
    return tpi_serve(run(false, grad, output, dim, input_dtype ? input_dtype : (tp_dtype)output->dtype), result);
}
tpi_served tpi_gpu_log_softmax_backward(tp_tensor *grad, tp_tensor *output, int64_t dim, tp_dtype input_dtype,
                                        tp_tensor **result) {
    return tpi_serve(run(true, grad, output, dim, input_dtype ? input_dtype : (tp_dtype)output->dtype), result);
}

/* Cross entropy on GPUs, from scores to loss and from scores to gradient, without the probabilities in memory. */
#include "ops/native_gpu.h"
#include "ops/loss/loss.h"

static const tpi_gpu_site forward_site = {"cross_entropy_gpu_kernel.h", "forward"},
                          total_site = {"cross_entropy_gpu_kernel.h", "total"},
                          backward_site = {"cross_entropy_gpu_kernel.h", "backward"};

typedef struct call {
    tp_device device;
    int64_t rows, n;
    int width;
    bool wide, weighted;
    tp_dtype dtype; /* of the loss */
    tpi_reduction how;
    tpi_gpu_rows shape;
    tp_tensor *x, *target, *weight; /* contiguous, owned */
} call;

static void drop(call *c) {
    tpi_release(c->x);
    tpi_release(c->target);
    tpi_release(c->weight);
}

/* What does not fit, or is wrong, is the CPU's. */
static bool prepare(call *c, tp_tensor *self, tp_tensor *target, tp_tensor *weight, const char *reduction,
                    tp_dtype dtype) {
    *c = (call){.device = tpi_device(self),
                .how = tpi_reduction_of(reduction),
                .wide = self->dtype == TP_FLOAT64,
                .weighted = weight,
                .dtype = dtype};
    if (dtype != (tp_dtype)self->dtype && dtype != TP_FLOAT32) return false;
    if (c->how == TPI_REDUCE_BAD || !tpi_gpu_floats(self) || self->ndim != 2 || target->ndim != 1 ||
        target->shape[0] != self->shape[0])
        return false;
    if (target->dtype != TP_INT64 && target->dtype != TP_INT32 && target->dtype != TP_UINT8) return false;
    if (weight && (weight->ndim != 1 || weight->shape[0] != self->shape[1] || !tpi_gpu_floats(weight))) return false;
    if (!self->numel || self->shape[1] > INT32_MAX) return false;
    c->rows = self->shape[0];
    c->n = self->shape[1];
    c->width = (int)c->n;
    c->x = tpi_contiguous_data(self);
    c->target = tpi_contiguous_data(target);
    c->weight = weight ? tpi_contiguous_data(weight) : NULL;
    if (c->x && c->target && (c->weight || !weight)) return true;
    drop(c);
    return false;
}

/* Rows go by pieces, whatever their length: a group takes one until it ends. */
static void shape_rows(call *c, uintptr_t align) {
    int size = (int)tpi_itemsize(c->x);
    c->shape = tpi_gpu_rows_for(c->device, c->n, size, align, 1);
    int most = 4 * c->shape.vector;
    while (c->shape.group < 256 && (int64_t)c->shape.group * most < c->n) c->shape.group *= 2;
    while (c->shape.group > 256) c->shape.group /= 2;
    c->shape.groups = c->shape.group >= 128 ? 1 : 128 / c->shape.group;
}

static tpi_gpu_function *kernel_of(const call *c, const tpi_gpu_site *site) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("MEAN", c->how == TPI_REDUCE_MEAN),
                                      TPI_DEFINE("EACH", c->how == TPI_REDUCE_NONE),
                                      TPI_DEFINE("WEIGHT", c->weighted),
                                      TPI_DEFINE("GROUP", c->shape.group),
                                      TPI_DEFINE("GROUPS", c->shape.groups),
                                      TPI_DEFINE("PER", c->shape.vector),
                                      TPI_DEFINE("VEC", c->shape.vector),
                                      TPI_DEFINE_DTYPE("X", c->x->dtype),
                                      TPI_DEFINE_DTYPE("Y", c->dtype),
                                      TPI_DEFINE_DTYPE("INDEX", c->target->dtype),
                                      TPI_DEFINE_DTYPE("W", c->weighted ? c->weight->dtype : c->x->dtype)};
    return tpi_gpu_site_kernel(c->device, site, c->wide, 11, defines);
}

static bool run_forward(call *c, tp_tensor *parts, int64_t ignore, tp_tensor *const *out) {
    shape_rows(c, (uintptr_t)c->x->data);
    tpi_gpu_function *kernel = kernel_of(c, &forward_site);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(c->device);
    const tpi_gpu_arg args[] = {
        TPI_GPU_FAULT(fault),    TPI_GPU_PTR(out[2]->data),    TPI_GPU_PTR(parts->data),
        TPI_GPU_PTR(c->x->data), TPI_GPU_PTR(c->target->data), TPI_GPU_PTR(c->weighted ? c->weight->data : NULL),
        TPI_GPU_VAL(c->rows),    TPI_GPU_VAL(c->width),        TPI_GPU_VAL(ignore)};
    if (!fault.word || !kernel ||
        !tpi_gpu_launch(c->device, kernel, tpi_ceil_div(c->rows, c->shape.groups), c->shape.group * c->shape.groups, 0,
                        10, args))
        return false;
    c->shape.group = 256;
    c->shape.groups = 1;
    if (!(kernel = kernel_of(c, &total_site))) return false;
    const tpi_gpu_arg sums[] = {TPI_GPU_PTR(out[0]->data), TPI_GPU_PTR(out[1]->data), TPI_GPU_PTR(parts->data),
                                TPI_GPU_VAL(c->rows)};
    return tpi_gpu_launch(c->device, kernel, 1, 256, 0, 4, sums);
}

tpi_served tpi_gpu_cross_entropy_forward(tp_tensor *self, tp_tensor *target, tp_tensor *weight, const char *reduction,
                                         int64_t ignore_index, tp_dtype asked, tp_tensor **out) {
    call c;
    tp_dtype dtype = asked ? asked : (tp_dtype)self->dtype;
    if (!prepare(&c, self, target, weight, reduction, dtype)) return tpi_not_served();
    tp_dtype compute = c.wide ? TP_FLOAT64 : TP_FLOAT32;
    out[0] = tpi_empty((tp_ints){&c.rows, c.how == TPI_REDUCE_NONE}, dtype, c.device);
    out[1] = tpi_empty((tp_ints){&c.rows, 0}, dtype, c.device);
    out[2] = tpi_empty(TP_INTS(c.rows, 2), compute, c.device);
    tp_tensor *parts = tpi_empty(TP_INTS(2, c.rows), compute, c.device);
    bool ok = out[0] && out[1] && out[2] && parts && run_forward(&c, parts, ignore_index, out);
    tpi_release(parts);
    drop(&c);
    for (int i = 0; i < 3 && !ok; i++) {
        tpi_release(out[i]);
        out[i] = NULL;
    }
    return tpi_serve_if(ok);
}

tpi_served tpi_gpu_cross_entropy_backward(tp_tensor *grad_output, tp_tensor *self, tp_tensor *target, tp_tensor *weight,
                                          const char *reduction, int64_t ignore_index, tp_tensor *total_weight,
                                          tp_tensor *norms, tp_tensor **result) {
    call c;
    if (grad_output->dtype != total_weight->dtype ||
        !prepare(&c, self, target, weight, reduction, (tp_dtype)grad_output->dtype))
        return tpi_not_served();
    tp_tensor *out = tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, c.device), *g = tpi_contiguous_data(grad_output),
              *kept = tpi_contiguous_data(norms);
    bool ok = out && g && kept && (c.how != TPI_REDUCE_NONE || g->numel == c.rows);
    if (ok) {
        shape_rows(&c, (uintptr_t)c.x->data | (uintptr_t)out->data);
        tpi_gpu_function *kernel = kernel_of(&c, &backward_site);
        const tpi_gpu_arg args[] = {TPI_GPU_PTR(out->data),
                                    TPI_GPU_PTR(g->data),
                                    TPI_GPU_PTR(c.x->data),
                                    TPI_GPU_PTR(c.target->data),
                                    TPI_GPU_PTR(c.weighted ? c.weight->data : NULL),
                                    TPI_GPU_PTR(total_weight->data),
                                    TPI_GPU_PTR(kept->data),
                                    TPI_GPU_VAL(c.rows),
                                    TPI_GPU_VAL(c.width),
                                    TPI_GPU_VAL(ignore_index)};
        ok = kernel && tpi_gpu_launch(c.device, kernel, tpi_ceil_div(c.rows, c.shape.groups),
                                      c.shape.group * c.shape.groups, 0, 10, args);
    }
    tpi_release(g);
    tpi_release(kept);
    drop(&c);
    return tpi_serve(ok ? out : tpi_release_then(out, NULL), result);
}

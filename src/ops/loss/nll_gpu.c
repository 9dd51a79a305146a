/* The negative log likelihood on GPUs: a thread per position, and the sums by the table's reduction, whose order is
 * fixed; a batch that one block has threads for in one launch. */
#include "ops/native_gpu.h"
#include "ops/loss/loss.h"
#include "tpi_ops.h"

static const tpi_gpu_site forward_site = {"nll_gpu_kernel.h", "forward"}, finish_site = {"nll_gpu_kernel.h", "finish"},
                          block_site = {"nll_gpu_kernel.h", "block"}, backward_site = {"nll_gpu_kernel.h", "backward"};

enum { BLOCK_THREADS = 1024, BLOCK_POSITIONS = 4 * BLOCK_THREADS };

typedef struct call {
    tp_device device;
    tpi_class_shape s;
    tpi_reduction how;
    tp_dtype dtype;
    int64_t n; /* positions */
    int inner; /* as index_t, where that is narrow */
    bool wide;
    tp_tensor *target, *weight; /* contiguous, owned */
} call;

static void drop(call *c) {
    tpi_release(c->target);
    tpi_release(c->weight);
}

/* What does not fit, or is wrong, is the CPU's. */
static bool prepare(call *c, tp_device device, tp_dtype dtype, tp_ints shape, tp_tensor *target, tp_tensor *weight,
                    const char *reduction) {
    *c = (call){.device = device, .how = tpi_reduction_of(reduction), .dtype = dtype, .wide = dtype == TP_FLOAT64};
    if (c->how == TPI_REDUCE_BAD || !tpi_class_shape_of(shape, target, weight, &c->s)) {
        tp_error_clear();
        return false;
    }
    if ((target->dtype != TP_UINT8 && !tpi_gpu_is_index(target)) || (weight && !tpi_gpu_floats(weight)) ||
        !target->numel || !c->s.classes)
        return false;
    c->n = target->numel;
    c->inner = (int)c->s.inner;
    c->target = tpi_contiguous_data(target);
    c->weight = weight ? tpi_contiguous_data(weight) : NULL;
    return c->target && (c->weight || !weight);
}

static tpi_gpu_function *kernel_of(const call *c, const tpi_gpu_site *site) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("LARGE", tpi_gpu_is_large(c->n)),
                                      TPI_DEFINE("NONE", c->how == TPI_REDUCE_NONE),
                                      TPI_DEFINE("MEAN", c->how == TPI_REDUCE_MEAN),
                                      TPI_DEFINE("WEIGHT", c->weight != NULL),
                                      TPI_DEFINE("GROUP", BLOCK_THREADS),
                                      TPI_DEFINE("GROUPS", 1),
                                      TPI_DEFINE_DTYPE("X", c->dtype),
                                      TPI_DEFINE_DTYPE("INDEX", c->target->dtype),
                                      TPI_DEFINE_DTYPE("W", c->weight ? c->weight->dtype : c->dtype)};
    return tpi_gpu_site_kernel(c->device, site, c->wide, 9, defines);
}

static tpi_gpu_arg inner_arg(const call *c) {
    return tpi_gpu_is_large(c->n) ? TPI_GPU_VAL(c->s.inner) : TPI_GPU_VAL(c->inner);
}

static bool fits_block(const call *c) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(c->device);
    return c->how != TPI_REDUCE_NONE && c->n <= BLOCK_POSITIONS && caps && tpi_gpu_sharing(caps) &&
           caps->max_threads >= BLOCK_THREADS;
}

static bool run_block(const call *c, const tp_tensor *x, int64_t ignore, tp_tensor *const *out) {
    tpi_gpu_function *kernel = kernel_of(c, &block_site);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(c->device);
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),
                                TPI_GPU_PTR(out[0]->data),
                                TPI_GPU_PTR(out[1]->data),
                                TPI_GPU_PTR(x->data),
                                TPI_GPU_PTR(c->target->data),
                                TPI_GPU_PTR(tpi_gpu_data(c->weight)),
                                TPI_GPU_VAL(c->n),
                                inner_arg(c),
                                TPI_GPU_VAL(c->s.classes),
                                TPI_GPU_VAL(ignore)};
    return fault.word && kernel && tpi_gpu_launch(c->device, kernel, 1, BLOCK_THREADS, 0, 11, args);
}

static bool run_parts(const call *c, const tp_tensor *x, int64_t ignore, tp_tensor *const *out) {
    tp_tensor *parts = tpi_empty(TP_INTS(2, c->n), c->wide ? TP_FLOAT64 : TP_FLOAT32, c->device);
    if (!parts) return false;
    tpi_gpu_function *kernel = kernel_of(c, &forward_site);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(c->device);
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),
                                TPI_GPU_PTR(out[0]->data),
                                TPI_GPU_PTR(parts->data),
                                TPI_GPU_PTR(x->data),
                                TPI_GPU_PTR(c->target->data),
                                TPI_GPU_PTR(tpi_gpu_data(c->weight)),
                                TPI_GPU_VAL(c->n),
                                inner_arg(c),
                                TPI_GPU_VAL(c->s.classes),
                                TPI_GPU_VAL(ignore)};
    bool ok = fault.word && kernel && tpi_gpu_launch(c->device, kernel, tpi_gpu_blocks(c->n), 256, 0, 11, args);
    tp_tensor *sums = ok ? tpo_sum(parts, TP_INTS(1), false, TP_NO_DTYPE) : NULL;
    tpi_release(parts);
    kernel = sums ? kernel_of(c, &finish_site) : NULL;
    const tpi_gpu_arg ends[] = {TPI_GPU_PTR(out[0]->data), TPI_GPU_PTR(out[1]->data), TPI_GPU_PTR(tpi_gpu_data(sums))};
    ok = kernel && tpi_gpu_launch(c->device, kernel, 1, 1, 0, 3, ends);
    tpi_release(sums);
    return ok;
}

tpi_served tpi_gpu_nll_loss_forward(tp_tensor *self, tp_tensor *target, tp_tensor *weight, const char *reduction,
                                    int64_t ignore_index, tp_tensor **out) {
    call c = {0};
    bool ok = tpi_gpu_floats(self) &&
              prepare(&c, tpi_device(self), (tp_dtype)self->dtype, tpi_shape(self), target, weight, reduction);
    tp_tensor *x = ok ? tpi_contiguous_data(self) : NULL;
    out[0] = x ? tpi_empty((tp_ints){c.s.shape, c.how == TPI_REDUCE_NONE ? c.s.ndim : 0}, c.dtype, c.device) : NULL;
    out[1] = out[0] ? tpi_empty((tp_ints){c.s.shape, 0}, c.dtype, c.device) : NULL;
    ok = out[1] && (fits_block(&c) ? run_block : run_parts)(&c, x, ignore_index, out);
    tpi_release(x);
    drop(&c);
    if (!ok) {
        tpi_release(out[0]);
        tpi_release(out[1]);
    }
    return tpi_serve_if(ok);
}

tpi_served tpi_gpu_nll_loss_backward(tp_tensor *grad_output, tp_ints size, tp_dtype dtype, tp_tensor *target,
                                     tp_tensor *weight, const char *reduction, int64_t ignore_index,
                                     tp_tensor *total_weight, tp_tensor **result) {
    call c = {0};
    if (!tpi_gpu_floats(grad_output) || (dtype && dtype != (tp_dtype)grad_output->dtype) ||
        total_weight->dtype != grad_output->dtype)
        return TPI_DECLINED;
    bool ok = prepare(&c, tpi_device(grad_output), (tp_dtype)grad_output->dtype, size, target, weight, reduction) &&
              grad_output->numel == (c.how == TPI_REDUCE_NONE ? c.n : 1);
    tp_tensor *g = ok ? tpi_contiguous_data(grad_output) : NULL, *out = g ? tpi_empty(size, c.dtype, c.device) : NULL;
    tpi_gpu_function *kernel = out && tpi_fill_data(out, tp_int(0)) ? kernel_of(&c, &backward_site) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)),
                                TPI_GPU_PTR(tpi_gpu_data(g)),
                                TPI_GPU_PTR(tpi_gpu_data(c.target)),
                                TPI_GPU_PTR(tpi_gpu_data(c.weight)),
                                TPI_GPU_PTR(total_weight->data),
                                TPI_GPU_VAL(c.n),
                                inner_arg(&c),
                                TPI_GPU_VAL(c.s.classes),
                                TPI_GPU_VAL(ignore_index)};
    ok = kernel && tpi_gpu_launch(c.device, kernel, tpi_gpu_blocks(c.n), 256, 0, 9, args);
    tpi_release(g);
    drop(&c);
    return tpi_serve(ok ? out : tpi_release_then(out, NULL), result);
}

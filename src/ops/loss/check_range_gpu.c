/* Whether all elements lie in a range, on GPUs: only the answer comes to the host, or a fault if one does not. */
#include "ops/native_gpu.h"
#include "tpi_ops.h"

tpi_served tpi_gpu_within(tp_tensor *self, double low, double high, bool *out) {
    if (!tpi_gpu_floats(self) || !self->numel) return TPI_DECLINED;
    if (tpi_device(self).type == TP_META) {
        *out = true;
        return TPI_SERVED;
    }
    tp_tensor *x = tpi_detached(self), *above = x ? tpo_ge(x, tp_operand_double(low)) : NULL,
              *below = above ? tpo_le(x, tp_operand_double(high)) : NULL;
    tp_tensor *both = below ? tpo_logical_and(above, below) : NULL,
              *all = both ? tpo_all(both, tp_no_ints(), false) : NULL;
    tp_scalar answer = all ? tp_item_scalar(all) : tp_no_scalar();
    tpi_release(x);
    tpi_release(above);
    tpi_release(below);
    tpi_release(both);
    tpi_release(all);
    if (answer.kind == TP_SCALAR_NONE) return tpi_not_served();
    *out = tp_scalar_to_double(answer) != 0;
    return TPI_SERVED;
}

/* ---- Faults ---- */
static const tpi_gpu_site numbers_site = {"watch.h", "numbers"}, values_site = {"watch.h", "values"};

static tpi_gpu_function *watcher(const tpi_gpu_site *site, const tp_tensor *t, bool above) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("LARGE", tpi_gpu_is_large(t->numel)), TPI_DEFINE("ABOVE", above),
                                      TPI_DEFINE_DTYPE("X", t->dtype)};
    return tpi_gpu_site_kernel(tpi_device(t), site, t->dtype == TP_FLOAT64, 3, defines);
}

bool tpi_gpu_watch_numbers(const tp_tensor *t, int64_t size) {
    tpi_gpu_function *kernel = watcher(&numbers_site, t, false);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(t));
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault), TPI_GPU_PTR(t->data), TPI_GPU_VAL(t->numel), TPI_GPU_VAL(size)};
    return fault.word && tpi_gpu_launch_each(tpi_device(t), kernel, t->numel, 5, args);
}

bool tpi_gpu_watch_values(const tp_tensor *t, double low, bool above, double high, int64_t kind) {
    bool wide = t->dtype == TP_FLOAT64;
    tpi_gpu_function *kernel = watcher(&values_site, t, above);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(t));
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),    TPI_GPU_PTR(t->data),     TPI_GPU_VAL(t->numel),
                                TPI_GPU_REAL(low, wide), TPI_GPU_REAL(high, wide), TPI_GPU_VAL(kind)};
    return fault.word && tpi_gpu_launch_each(tpi_device(t), kernel, t->numel, 7, args);
}

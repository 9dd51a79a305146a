/* Cross products on GPUs, a thread per vector, of contiguous tensors. */
#include "ops/matmul/matmul_gpu.h"
#include "ops/native_gpu.h"

tpi_served tpi_gpu_cross_product(tp_tensor *self, tp_tensor *other, int64_t dim, tp_tensor **result) {
    static const tpi_gpu_site site = {"cross_gpu_kernel.h", "cross"};
    int d = TPI_DIM(self, dim);
    if (d < 0) return TPI_FAILED;
    if (!tpi_same_shape(self, other) || self->shape[d] != 3) return TPI_DECLINED;
    bool fits = tpi_gpu_floats(self) && other->dtype == self->dtype && self->numel && tp_is_contiguous(self) &&
                tp_is_contiguous(other);
    if (!fits) return tpi_serve(tpi_native_cross_product(self, other, dim), result); /* made of operators */
    int64_t n = self->numel / 3, inner = 1;
    for (int i = d + 1; i < self->ndim; i++) inner *= self->shape[i];
    tp_device device = tpi_device(self);
    tp_tensor *out = tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, device);
    const tpi_gpu_define defines[] = {TPI_DEFINE("LARGE", tpi_gpu_is_large(n)), TPI_DEFINE_DTYPE("X", self->dtype)};
    tpi_gpu_function *kernel = out ? tpi_gpu_site_kernel(device, &site, self->dtype == TP_FLOAT64, 2, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_PTR(self->data), TPI_GPU_PTR(other->data),
                                TPI_GPU_VAL(n), TPI_GPU_VAL(inner)};
    bool ok = tpi_gpu_launch_each(device, kernel, n, 5, args);
    return tpi_serve(ok ? out : tpi_release_then(out, NULL), result);
}

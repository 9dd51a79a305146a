/* Cross products on GPUs, a thread per vector. */
#include "ops/native_gpu.h"

tpi_served tpi_gpu_cross_product(tp_tensor *self, tp_tensor *other, int64_t dim, tp_tensor **result) {
    static const tpi_gpu_site site = {"cross.gpu.h", "cross"};
    int d = TPI_DIM(self, dim);
    if (d < 0) return TPI_FAILED;
    if (!tpi_gpu_floats(self) || other->dtype != self->dtype || !tpi_same_shape(self, other) || self->shape[d] != 3 ||
        !self->numel)
        return TPI_DECLINED;
    int64_t n = self->numel / 3, inner = 1;
    for (int i = d + 1; i < self->ndim; i++) inner *= self->shape[i];
    tp_device device = tpi_device(self);
    tp_tensor *a = tpi_contiguous_data(self), *b = a ? tpi_contiguous_data(other) : NULL,
              *out = b ? tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, device) : NULL;
    const tpi_gpu_define defines[] = {TPI_DEFINE("LARGE", tpi_gpu_is_large(n)), TPI_DEFINE_DTYPE("X", self->dtype)};
    tpi_gpu_function *kernel = out ? tpi_gpu_site_kernel(device, &site, self->dtype == TP_FLOAT64, 2, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_PTR(tpi_gpu_data(a)),
                                TPI_GPU_PTR(tpi_gpu_data(b)), TPI_GPU_VAL(n), TPI_GPU_VAL(inner)};
    bool ok = tpi_gpu_launch_each(device, kernel, n, 5, args);
    tpi_release(a), tpi_release(b);
    return tpi_serve(ok ? out : tpi_after(out, NULL), result);
}

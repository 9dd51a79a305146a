/* frexp on GPUs: see src/ops/pointwise/compose.c. */
#include "ops/native_gpu.h"

static const tpi_gpu_site site = {"frexp_gpu_kernel.h", "frexp"};

tpi_served tpi_gpu_frexp(tp_tensor *self, tp_tensor **out) {
    if (!tpi_gpu_floats(self)) return TPI_DECLINED;
    tp_device device = tpi_device(self);
    tp_tensor *x = tpi_contiguous_data(self),
              *mantissa = x ? tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, device) : NULL,
              *exponent = mantissa ? tpi_empty(tpi_shape(self), TP_INT32, device) : NULL;
    bool ok = exponent;
    if (ok && x->numel) {
        const tpi_gpu_define defines[] = {TPI_DEFINE_DTYPE("X", self->dtype)};
        tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, &site, self->dtype == TP_FLOAT64, 1, defines);
        const tpi_gpu_arg args[] = {TPI_GPU_PTR(mantissa->data), TPI_GPU_PTR(exponent->data), TPI_GPU_PTR(x->data),
                                    TPI_GPU_VAL(x->numel)};
        ok = tpi_gpu_launch_each(device, kernel, x->numel, 4, args);
    }
    tpi_release(x);
    if (ok) {
        out[0] = mantissa;
        out[1] = exponent;
        return TPI_SERVED;
    }
    tpi_release(mantissa);
    tpi_release(exponent);
    return tpi_not_served();
}

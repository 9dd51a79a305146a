/* im2col and col2im on GPUs. */
#include "ops/native_gpu.h"
#include "ops/conv/im2col.h"
#include "ops/spatial_arguments.h"

static const tpi_gpu_site columns_site = {"patches_gpu_kernel.h", "columns"},
                          images_site = {"patches_gpu_kernel.h", "images"};

typedef struct geometry { /* as ops/resample/patches_gpu_kernel.h has it */
    int x[2], y[2], k[2], stride[2], pad[2], dilation[2];
} geometry;

static tp_tensor *run(const tpi_gpu_site *site, const tpi_conv *c, tp_tensor *self, tp_ints shape) {
    geometry g;
    for (int i = 0; i < 2; i++) {
        if (c->x[1 + i] + c->pad[1 + i] > INT32_MAX / 2 || c->k[1 + i] * c->dilation[1 + i] > INT32_MAX / 2 ||
            c->stride[1 + i] > INT32_MAX / 2)
            return NULL;
        g.x[i] = (int)c->x[1 + i];
        g.y[i] = (int)c->y[1 + i];
        g.k[i] = (int)c->k[1 + i];
        g.stride[i] = (int)c->stride[1 + i];
        g.pad[i] = (int)c->pad[1 + i];
        g.dilation[i] = (int)c->dilation[1 + i];
    }
    tp_tensor *x = tpi_contiguous_data(self),
              *out = x ? tpi_empty(shape, (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    int64_t n = out ? out->numel : 0;
    const tpi_gpu_define defines[] = {TPI_DEFINE("LARGE", tpi_gpu_is_large(n)), TPI_DEFINE_DTYPE("X", self->dtype)};
    tpi_gpu_function *kernel =
        out ? tpi_gpu_site_kernel(tpi_device(self), site, self->dtype == TP_FLOAT64, 2, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_PTR(tpi_gpu_data(x)), TPI_GPU_VAL(g),
                                TPI_GPU_VAL(n)};
    bool ok = kernel && tpi_gpu_launch(tpi_device(self), kernel, tpi_gpu_blocks(n), 256, 0, 4, args);
    tpi_release(x);
    return ok ? out : tpi_release_then(out, NULL);
}

/* What does not fit, or is wrong, is the CPU's. */
tpi_served tpi_gpu_im2col(tp_tensor *self, tp_ints kernel, tp_ints dilation, tp_ints padding, tp_ints stride,
                          tp_tensor **result) {
    tpi_conv c;
    int n = self->ndim;
    if ((n != 3 && n != 4) || !tpi_gpu_floats(self) || !self->numel) return TPI_DECLINED;
    if (!tpi_patches_geometry(&c, self->shape[n - 2], self->shape[n - 1], kernel, dilation, padding, stride)) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    int64_t shape[3] = {self->shape[0], self->shape[n - 3] * tpi_conv_taps(&c), tpi_conv_ysize(&c)};
    return tpi_serve(run(&columns_site, &c, self, n == 4 ? tp_ints_view(shape, 3) : tp_ints_view(shape + 1, 2)),
                     result);
}

tpi_served tpi_gpu_col2im(tp_tensor *self, tp_ints output_size, tp_ints kernel, tp_ints dilation, tp_ints padding,
                          tp_ints stride, tp_tensor **result) {
    tpi_conv c;
    int n = self->ndim;
    int64_t size[2];
    if ((n != 2 && n != 3) || !tpi_gpu_floats(self) || !self->numel) return TPI_DECLINED;
    if (!tpi_expand_ints("output_size", output_size, 2, NULL, size) ||
        !tpi_patches_geometry(&c, size[0], size[1], kernel, dilation, padding, stride)) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    int64_t taps = tpi_conv_taps(&c), shape[4] = {self->shape[0], self->shape[n - 2] / taps, size[0], size[1]};
    if (self->shape[n - 2] % taps || self->shape[n - 1] != tpi_conv_ysize(&c)) return tpi_not_served();
    return tpi_serve(run(&images_site, &c, self, n == 3 ? tp_ints_view(shape, 4) : tp_ints_view(shape + 1, 3)), result);
}

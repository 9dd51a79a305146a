/* Padding by index on GPUs: reflected, replicated, around. Gradients are gathered, so their sums have one order. */
#include "ops/native_gpu.h"
#include "ops/resample/pad.h"
#include "ops/compute_dtype.h"

static const tpi_gpu_site forward_site = {"pad_gpu_kernel.h", "forward"},
                          backward_site = {"pad_gpu_kernel.h", "backward"};

typedef struct geometry { /* as ops/resample/pad_gpu_kernel.h has it */
    int in[3], out[3], left[3], cut[3], kept[3];
} geometry;

static bool geometry_of(geometry *g, tp_ints shape, tp_ints pad) {
    for (int i = 0; i < 3; i++) {
        g->in[i] = g->out[i] = g->kept[i] = 1;
        g->left[i] = g->cut[i] = 0;
    }
    if (pad.n / 2 > 3 || pad.n / 2 > shape.n) return false;
    for (int64_t k = 0; k < pad.n / 2; k++) {
        int64_t left = pad.v[2 * k], right = pad.v[2 * k + 1], n = shape.v[shape.n - 1 - k], out = n + left + right,
                cut = left < 0 ? -left : 0;
        if (n < 1 || out < 1 || n > INT32_MAX / 4 || out > INT32_MAX / 4) return false;
        int at = 2 - (int)k;
        g->in[at] = (int)n;
        g->out[at] = (int)out;
        g->left[at] = (int)left;
        g->cut[at] = (int)cut;
        g->kept[at] = (int)(n - cut - (right < 0 ? -right : 0));
        if (g->kept[at] < 1) g->kept[at] = 1; /* only `around` asks, and refuses that */
    }
    return true;
}

tpi_served tpi_gpu_pad_index(tp_tensor *self, tp_ints pad, const char *mode_text, tp_tensor **result) {
    tpi_pad_mode mode;
    geometry g;
    int64_t shape[TP_MAX_DIMS];
    if (!tpi_pad_read(self, pad, mode_text, &mode, shape)) return tpi_not_served(); /* with what is wrong */
    if (!tpi_gpu_has_dtype(self) || !self->numel || !geometry_of(&g, tpi_shape(self), pad)) return tpi_not_served();
    tp_tensor *x = tpi_contiguous_data(self),
              *out = x ? tpi_empty(tp_ints_view(shape, self->ndim), (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    int64_t n = out ? out->numel : 0;
    const tpi_gpu_define defines[] = {TPI_DEFINE("MODE", mode), TPI_DEFINE("LARGE", tpi_gpu_is_large(n)),
                                      TPI_DEFINE_DTYPE("X", self->dtype)};
    tpi_gpu_function *kernel = out ? tpi_gpu_site_kernel(tpi_device(self), &forward_site, false, 3, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_PTR(tpi_gpu_data(x)), TPI_GPU_VAL(g),
                                TPI_GPU_VAL(n)};
    bool ok = kernel && tpi_gpu_launch(tpi_device(self), kernel, tpi_gpu_blocks(n), 256, 0, 4, args);
    tpi_release(x);
    return tpi_serve(ok ? tpi_from_compute_like(out, (tp_dtype)self->dtype, self) : tpi_release_then(out, NULL),
                     result);
}

tpi_served tpi_gpu_pad_index_backward(tp_tensor *grad, tp_ints input_shape, tp_ints pad, const char *mode_text,
                                      tp_tensor **result) {
    tpi_pad_mode mode;
    geometry g;
    bool complex = tp_dtype_is_complex((tp_dtype)grad->dtype);
    tp_dtype real = tpi_dtype_to_real((tp_dtype)grad->dtype);
    if (!tpi_pad_mode_of(mode_text, &mode) || !grad->numel || !geometry_of(&g, input_shape, pad))
        return tpi_not_served();
    if (!tpi_gpu_has_dtype(grad) || !tp_dtype_is_floating(real)) return TPI_DECLINED;
    tp_tensor *large = tpi_contiguous_data(grad),
              *out = large ? tpi_empty(input_shape, (tp_dtype)grad->dtype, tpi_device(grad)) : NULL;
    int inner = complex ? 2 : 1;
    int64_t n = out ? out->numel * inner : 0;
    const tpi_gpu_define defines[] = {TPI_DEFINE("MODE", mode), TPI_DEFINE("LARGE", tpi_gpu_is_large(n)),
                                      TPI_DEFINE_DTYPE("X", real)};
    tpi_gpu_function *kernel =
        out ? tpi_gpu_site_kernel(tpi_device(grad), &backward_site, real == TP_FLOAT64, 3, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_PTR(tpi_gpu_data(large)), TPI_GPU_VAL(g),
                                TPI_GPU_VAL(n), TPI_GPU_VAL(inner)};
    bool ok = kernel && tpi_gpu_launch(tpi_device(grad), kernel, tpi_gpu_blocks(n), 256, 0, 5, args);
    tpi_release(large);
    return tpi_serve(ok ? tpi_from_compute_like(out, (tp_dtype)grad->dtype, grad) : tpi_release_then(out, NULL),
                     result);
}

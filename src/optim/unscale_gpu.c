/* Unscaling on a GPU: a launch per gradient, and one flag for all of them. */
#include "optim/unscale.h"
#include "ops/native_gpu.h"

static const tpi_gpu_site site = {"unscale_gpu_kernel.h", "unscale"};

static bool unscale(tp_device device, tp_tensor *g, tp_tensor *flag, double scale) {
    const tpi_gpu_define defines[] = {TPI_DEFINE_DTYPE("X", g->dtype)};
    bool wide = g->dtype == TP_FLOAT64;
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, &site, wide, 1, defines);
    int64_t blocks = tpi_ceil_div(g->numel, 1024);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(g->data), TPI_GPU_PTR(flag->data), TPI_GPU_VAL(g->numel),
                                TPI_GPU_REAL(scale, wide)};
    return kernel && tpi_gpu_launch(device, kernel, blocks, 256, 0, 4, args);
}

bool tpi_unscale_on_gpu(tp_device device, int64_t n, tp_tensor *const *grads, double scale, bool *found) {
    tp_tensor *flag = tpi_empty((tp_ints){&n, 0}, TP_INT32, device);
    bool ok = flag && tpi_fill_data(flag, tp_int(0));
    for (int64_t i = 0; i < n && ok; i++)
        if (grads[i]->numel) ok = unscale(device, grads[i], flag, scale);
    tp_scalar seen = ok ? tp_item_scalar(flag) : tp_no_scalar();
    tpi_release(flag);
    if (seen.kind == TP_SCALAR_NONE) return false;
    *found |= seen.as.i != 0;
    return true;
}

/* cdist on GPUs, from differences, which loses no digits. */
#include <math.h>
#include "ops/native_gpu.h"

static const tpi_gpu_site site = {"distance_gpu_kernel.h", "distance"};

static tp_tensor *spread(tp_tensor *t, const int64_t *batch,
                         int ndim) { /* (..., r, m) over the batch's dims, contiguous */
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, batch, sizeof *shape * (size_t)ndim);
    shape[ndim] = t->shape[t->ndim - 2];
    shape[ndim + 1] = t->shape[t->ndim - 1];
    tp_tensor *wide = tpi_expanded(t, tp_ints_view(shape, ndim + 2));
    return wide ? tpi_release_then(wide, tpi_contiguous_data(wide)) : NULL;
}

/* What does not fit, or is wrong, is the CPU's. */
tpi_served tpi_gpu_cdist(tp_tensor *x1, tp_tensor *x2, double p, const char *compute_mode, tp_tensor **result) {
    (void)compute_mode;
    int64_t shape[TP_MAX_DIMS], batch = 1;
    int ndim;
    if (!tpi_gpu_floats(x1) || x1->dtype != x2->dtype || x1->ndim < 2 || x2->ndim < 2 || !(p >= 0)) return TPI_DECLINED;
    int64_t r1 = x1->shape[x1->ndim - 2], r2 = x2->shape[x2->ndim - 2], m = x1->shape[x1->ndim - 1];
    if (m != x2->shape[x2->ndim - 1]) return TPI_DECLINED;
    if (!tpi_broadcast(tp_ints_view(x1->shape, x1->ndim - 2), tp_ints_view(x2->shape, x2->ndim - 2), shape, &ndim)) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    for (int d = 0; d < ndim; d++) batch *= shape[d];
    if (!x1->numel || !x2->numel || !batch || batch > UINT16_MAX || tpi_ceil_div(r1, 16) > UINT16_MAX ||
        tpi_ceil_div(r2, 16) > INT32_MAX)
        return TPI_DECLINED;
    tp_device device = tpi_device(x1);
    tp_tensor *a = spread(x1, shape, ndim), *b = a ? spread(x2, shape, ndim) : NULL;
    shape[ndim] = r1;
    shape[ndim + 1] = r2;
    tp_tensor *out = b ? tpi_empty(tp_ints_view(shape, ndim + 2), (tp_dtype)x1->dtype, device) : NULL;
    const tpi_gpu_define defines[] = {TPI_DEFINE("NORM", p == 0     ? 0
                                                         : p == 1   ? 1
                                                         : p == 2   ? 2
                                                         : isinf(p) ? 4
                                                                    : 3),
                                      TPI_DEFINE_DTYPE("X", x1->dtype)};
    bool wide = x1->dtype == TP_FLOAT64;
    tpi_gpu_function *kernel = out ? tpi_gpu_site_kernel(device, &site, wide, 2, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)),
                                TPI_GPU_PTR(tpi_gpu_data(a)),
                                TPI_GPU_PTR(tpi_gpu_data(b)),
                                TPI_GPU_VAL(r1),
                                TPI_GPU_VAL(r2),
                                TPI_GPU_VAL(m),
                                TPI_GPU_REAL(p, wide)};
    const unsigned grid[3] = {(unsigned)tpi_ceil_div(r2, 16), (unsigned)tpi_ceil_div(r1, 16), (unsigned)batch},
                   block[3] = {256, 1, 1};
    bool ok = kernel && tpi_gpu_launch3(device, kernel, grid, block, 0, 7, args);
    tpi_release(a);
    tpi_release(b);
    return tpi_serve(ok ? out : tpi_release_then(out, NULL), result);
}

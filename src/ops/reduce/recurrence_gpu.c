/* First-order linear recurrences on GPUs (ops/reduce/recurrence.c), a thread per row, or where rows lie one behind the
 * other by tiles of them: rows that are few and long are done sooner by way of the host. */
#include "ops/native_gpu.h"

enum { FEW = 64, LONG = 4096, SIDE = 32, TILE_THREADS = 256 };

static const tpi_gpu_site by_rows = {"recurrence_gpu_kernel.h", "recurrence"},
                          by_tiles = {"recurrence_gpu_kernel.h", "tiles"};

static tp_tensor *run(const tp_tensor *decay, const tp_tensor *input, int64_t rows, int64_t n, int64_t inner,
                      bool reverse) {
    bool complex = tp_dtype_is_complex((tp_dtype)input->dtype),
         wide = input->dtype == TP_FLOAT64 || input->dtype == TP_COMPLEX128;
    tp_device device = tpi_device(input);
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    bool tiled = caps && inner == 1 && n > SIDE && tpi_gpu_sharing(caps) && caps->max_threads >= TILE_THREADS &&
                 rows <= (int64_t)INT32_MAX * SIDE;
    const tpi_gpu_define defines[] = {TPI_DEFINE("COMPLEX", complex), TPI_DEFINE("TEAM", tiled ? TILE_THREADS : 1),
                                      TPI_DEFINE("LANES", 1), TPI_DEFINE("REVERSE", reverse),
                                      TPI_DEFINE("LARGE", tpi_gpu_is_large(rows))};
    tp_tensor *out = tpi_empty(tpi_shape(input), (tp_dtype)input->dtype, tpi_device(input));
    tpi_gpu_function *kernel = out ? tpi_gpu_site_kernel(device, tiled ? &by_tiles : &by_rows, wide, 5, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)),
                                TPI_GPU_PTR(decay->data),
                                TPI_GPU_PTR(input->data),
                                TPI_GPU_VAL(rows),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(inner)};
    bool ok = tiled && kernel ? tpi_gpu_launch(device, kernel, tpi_ceil_div(rows, SIDE), TILE_THREADS, 0, 6, args)
                              : tpi_gpu_launch_each(device, kernel, rows, 6, args);
    return ok ? out : tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_linear_recurrence(tp_tensor *decay, tp_tensor *input, int64_t dim, bool reverse,
                                     tp_tensor **result) {
    tp_dtype dtype = (tp_dtype)input->dtype, compute = dtype == TP_FLOAT16 || dtype == TP_BFLOAT16 ? TP_FLOAT32 : dtype;
    if (decay->dtype != input->dtype || !tpi_same_shape(decay, input) || !input->numel || dim < -input->ndim ||
        dim >= (input->ndim ? input->ndim : 1))
        return TPI_DECLINED;
    if (!(tp_dtype_is_floating(dtype) || tp_dtype_is_complex(dtype)) || !tpi_gpu_has_dtype(input)) return TPI_DECLINED;
    int d = (int)(dim < 0 ? dim + input->ndim : dim);
    int64_t n = input->ndim ? input->shape[d] : 1, inner = 1;
    for (int i = d + 1; i < input->ndim; i++) inner *= input->shape[i];
    int64_t rows = input->numel / n;
    if (rows < FEW && n > LONG) return TPI_DECLINED;
    tp_tensor *a = tpi_as_dtype_data(decay, compute), *x = a ? tpi_as_dtype_data(input, compute) : NULL;
    tp_tensor *ac = x ? tpi_contiguous_data(a) : NULL, *xc = ac ? tpi_contiguous_data(x) : NULL,
              *out = xc ? run(ac, xc, rows, n, inner, reverse) : NULL;
    tpi_release(a);
    tpi_release(x);
    tpi_release(ac);
    tpi_release(xc);
    return tpi_serve(out ? tpi_release_then(out, tpi_as_dtype_data(out, dtype)) : NULL, result);
}

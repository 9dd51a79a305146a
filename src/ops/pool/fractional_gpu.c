/* Fractional max pooling on GPUs: windows start at places that samples say, a thread per result. */
#include "ops/native_gpu.h"

static const tpi_gpu_site site = {"fractional_gpu_kernel.h", "fraction"};

typedef struct sizes { /* as ops/pool/fractional_gpu_kernel.h has it: depth, height, width */
    int64_t in[3], out[3], pool[3];
} sizes;

static bool sizes_of(const tp_tensor *self, tp_ints kernel, tp_ints output_size, int64_t dims, sizes *z) {
    *z = (sizes){{1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    for (int i = 0; i < dims; i++) {
        int to = 3 - (int)dims + i;
        z->in[to] = self->shape[self->ndim - dims + i];
        z->out[to] = output_size.v[output_size.n == 1 ? 0 : i];
        z->pool[to] = kernel.v[kernel.n == 1 ? 0 : i];
        if (z->out[to] < 1 || z->pool[to] < 1 || z->out[to] + z->pool[to] - 1 > z->in[to]) return false;
    }
    return true;
}

/* What does not fit, or is wrong, is the CPU's. */
tpi_served tpi_gpu_fractional_max_pool(tp_tensor *self, tp_ints kernel, tp_ints output_size, tp_tensor *samples,
                                       int64_t dims, tp_tensor **out) {
    sizes z;
    int64_t lead = self->ndim - dims, shape[TP_MAX_DIMS];
    bool fits = (dims == 2 || dims == 3) && (lead == 1 || lead == 2) && self->numel && tpi_gpu_floats(self) &&
                samples->dtype == self->dtype && (kernel.n == 1 || kernel.n == dims) &&
                (output_size.n == 1 || output_size.n == dims);
    if (!fits || !sizes_of(self, kernel, output_size, dims, &z)) return tpi_not_served();
    int64_t planes = self->numel / (z.in[0] * z.in[1] * z.in[2]), n = planes * z.out[0] * z.out[1] * z.out[2];
    if (samples->numel != planes * dims) return TPI_DECLINED;
    for (int i = 0; i < self->ndim; i++) shape[i] = i < lead ? self->shape[i] : z.out[3 - dims + i - lead];
    const tpi_gpu_define defines[] = {TPI_DEFINE("LARGE", tpi_gpu_is_large(n)), TPI_DEFINE("DIMS", dims),
                                      TPI_DEFINE_DTYPE("X", self->dtype)};
    tp_tensor *x = tpi_contiguous_data(self), *from = x ? tpi_contiguous_data(samples) : NULL,
              *y = from ? tpi_empty(tp_ints_view(shape, self->ndim), (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    tp_tensor *index = y ? tpi_empty(tp_ints_view(shape, self->ndim), TP_INT64, tpi_device(self)) : NULL;
    tpi_gpu_function *made =
        index ? tpi_gpu_site_kernel(tpi_device(self), &site, self->dtype == TP_FLOAT64, 3, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(y)),
                                TPI_GPU_PTR(tpi_gpu_data(index)),
                                TPI_GPU_PTR(tpi_gpu_data(x)),
                                TPI_GPU_PTR(tpi_gpu_data(from)),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(z)};
    bool ok = tpi_gpu_launch_each(tpi_device(self), made, n, 6, args);
    tpi_release(x);
    tpi_release(from);
    return tpi_serve_if(tpi_put_pair(ok, y, index, out));
}

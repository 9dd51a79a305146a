/* Pooling on GPUs, of contiguous and channels_last tensors. What goes back is gathered: every element looks at the
 * windows it is in, so sums have one order. */
#include "tensor/channels_last.h"
#include "ops/native_gpu.h"
#include "ops/pool/by_indices_gpu.h"
#include "ops/pool/pool.h"

typedef struct geometry { /* as ops/pool/pool_gpu_kernel.h has it */
    int x[3], y[3], k[3], stride[3], pad[3], dilation[3];
    int channels, count_pad;
    int64_t divisor;
} geometry;

static const tpi_gpu_site maximum = {"pool_gpu_kernel.h", "maximum"},
                          maximum_back = {"pool_gpu_kernel.h", "maximum_back"},
                          average = {"pool_gpu_kernel.h", "average"},
                          average_back = {"pool_gpu_kernel.h", "average_back"},
                          adaptive_average = {"pool_gpu_kernel.h", "adaptive_average"},
                          adaptive_maximum = {"pool_gpu_kernel.h", "adaptive_maximum"},
                          adaptive_back = {"pool_gpu_kernel.h", "adaptive_back"};

/* Neighbouring channels that a thread moves at once: 16 bytes of elements, where all addresses allow that. */
static int vector_of(const tp_tensor *out, const void *first, const void *second, int channels) {
    int size = (int)tpi_dtype_bytes[out->dtype], vec = 16 / size;
    uintptr_t bits = (uintptr_t)out->data | (uintptr_t)first | (uintptr_t)second;
    while (vec > 1 && (channels % vec || bits % (uintptr_t)(vec * (int)sizeof(int64_t)))) vec /= 2;
    return vec;
}

/* first and second: what the kernel takes besides `out`, in its order. to_x: it writes elements of the input, rather
 * than of the result. */
static bool launch(const tpi_gpu_site *site, const tpi_conv *c, const tpi_average *how, int channels, bool last,
                   bool to_x, tp_tensor *out, void *first, void *second) {
    geometry g = {.channels = channels, .count_pad = how && how->count_pad, .divisor = how ? how->divisor : 0};
    for (int i = 0; i < 3; i++) {
        if (c->x[i] > INT32_MAX || c->y[i] > INT32_MAX) return false;
        g.x[i] = (int)c->x[i];
        g.y[i] = (int)c->y[i];
        g.k[i] = (int)c->k[i];
        g.stride[i] = (int)c->stride[i];
        g.pad[i] = (int)c->pad[i];
        g.dilation[i] = (int)c->dilation[i];
    }
    if (!out->numel) return true;
    int vec = last ? vector_of(out, first, second, channels) : 1, group = 1;
    while (last && group < 256 && group * 2 * vec <= channels) group *= 2;
    int64_t n = out->numel, plane = 1, planes;
    for (int i = 0; i < 3; i++) plane *= to_x ? c->x[i] : c->y[i];
    planes = n / plane;
    int64_t positions = n / channels, blocks = last ? tpi_ceil_div(positions, 256 / group) : planes,
            along = last ? 1 : tpi_ceil_div(plane, 256);
    if (plane > INT32_MAX || (last && positions > INT32_MAX) || planes > INT32_MAX) return false;
    const tpi_gpu_define defines[] = {TPI_DEFINE("LAST", last), TPI_DEFINE("GROUP", group), TPI_DEFINE("VEC", vec),
                                      TPI_DEFINE_DTYPE("X", out->dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(out), site, out->dtype == TP_FLOAT64, 4, defines);
    const unsigned grid[3] = {(unsigned)(blocks < 1 << 22 || !last ? blocks : 1 << 22),
                              (unsigned)(along < 64 ? along : 64), 1};
    const unsigned block[3] = {last || plane > 128 ? 256 : plane > 32 ? 128 : 32, 1, 1};
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(out->data), TPI_GPU_PTR(first), TPI_GPU_PTR(second), TPI_GPU_VAL(g),
                                TPI_GPU_VAL(n)};
    return kernel && tpi_gpu_launch3(tpi_device(out), kernel, grid, block, 0, 5, args);
}

static tp_ints pooled_shape(const tpi_conv *c, tp_ints shape, int n, int64_t *buffer) {
    for (int64_t i = 0; i < shape.n; i++) buffer[i] = i < shape.n - n ? shape.v[i] : c->y[3 - n + (i - (shape.n - n))];
    return tp_ints_view(buffer, shape.n);
}

/* From the input's planes to smaller ones; places NULL: none are wanted. */
static tp_tensor *forth(const tpi_gpu_site *site, const tpi_conv *c, const tpi_average *how, tp_tensor *self, int n,
                        tp_tensor **indices) {
    if (!tpi_gpu_floats(self) || !self->numel) return NULL;
    int64_t buffer[5];
    bool last = tpi_is_only_channels_last(self);
    tp_layout layout = tpi_layout_of(last, self->ndim);
    tp_ints shape = pooled_shape(c, tpi_shape(self), n, buffer);
    tp_tensor *x = tpi_gpu_laid_out(self, layout),
              *out = x ? tpi_empty_layout(shape, (tp_dtype)self->dtype, tpi_device(self), layout) : NULL;
    tp_tensor *at = out && indices ? tpi_empty_layout(shape, TP_INT64, tpi_device(self), layout) : NULL;
    bool ok =
        out && (at || !indices) &&
        launch(site, c, how, (int)self->shape[self->ndim - n - 1], last, false, out, at ? at->data : NULL, x->data);
    tpi_release(x);
    if (!ok) {
        tpi_release(at);
        return tpi_release_then(out, NULL);
    }
    if (indices) *indices = at;
    return out;
}

/* From the result's planes back to the input's. channels_last: as the input lay, which a gradient of one element in a
 * plane does not show. */
static tp_tensor *back(const tpi_gpu_site *site, const tpi_conv *c, const tpi_average *how, tp_tensor *grad,
                       tp_tensor *indices, tp_ints shape, int n, bool channels_last) {
    if (!tpi_gpu_floats(grad) || !grad->numel ||
        (indices && (indices->dtype != TP_INT64 || !tpi_same_shape(indices, grad))))
        return NULL;
    bool last = tpi_is_only_channels_last(grad) ||
                (indices ? tpi_is_only_channels_last(indices) : channels_last && grad->ndim > 3);
    tp_layout layout = tpi_layout_of(last, grad->ndim);
    tp_tensor *g = tpi_gpu_laid_out(grad, layout), *at = indices ? tpi_gpu_laid_out(indices, layout) : NULL,
              *out = g && (at || !indices) ? tpi_empty_layout(shape, (tp_dtype)grad->dtype, tpi_device(grad), layout)
                                           : NULL;
    bool ok = out && launch(site, c, how, (int)grad->shape[grad->ndim - n - 1], last, true, out, g->data,
                            at ? at->data : NULL);
    tpi_release(g);
    tpi_release(at);
    return ok ? out : tpi_release_then(out, NULL);
}

/* What is wrong with a call is the CPU's to say. */
static bool geometry_of(tpi_conv *c, tp_ints shape, int n, tpi_windows w) {
    bool fine = tpi_pool_geometry(c, shape, n, &w, "pool");
    if (!fine) tp_error_clear();
    return fine;
}
static bool adaptive_of(tpi_conv *c, tp_ints shape, int n, tp_ints size) {
    if (!tpi_adaptive_geometry(c, shape, n, size, "pool")) {
        tp_error_clear();
        return false;
    }
    for (int i = 0; i < 3; i++)
        if ((c->x[i] + 1) * (c->y[i] + 1) > INT32_MAX) return false;
    return c->y[0] && c->y[1] && c->y[2];
}

static bool max_pool(int n, tp_tensor *self, tpi_windows w, tp_tensor **out) {
    tpi_conv c;
    return geometry_of(&c, tpi_shape(self), n, w) && (out[0] = forth(&maximum, &c, NULL, self, n, &out[1]));
}
tpi_served tpi_gpu_max_pool1d(tp_tensor *self, tp_ints kernel, tp_ints stride, tp_ints padding, tp_ints dilation,
                              bool ceil_mode, tp_tensor **out) {
    return tpi_serve_if(max_pool(1, self, (tpi_windows){kernel, stride, padding, dilation, ceil_mode}, out));
}
tpi_served tpi_gpu_max_pool2d(tp_tensor *self, tp_ints kernel, tp_ints stride, tp_ints padding, tp_ints dilation,
                              bool ceil_mode, tp_tensor **out) {
    return tpi_serve_if(max_pool(2, self, (tpi_windows){kernel, stride, padding, dilation, ceil_mode}, out));
}
tpi_served tpi_gpu_max_pool3d(tp_tensor *self, tp_ints kernel, tp_ints stride, tp_ints padding, tp_ints dilation,
                              bool ceil_mode, tp_tensor **out) {
    return tpi_serve_if(max_pool(3, self, (tpi_windows){kernel, stride, padding, dilation, ceil_mode}, out));
}

tpi_served tpi_gpu_max_pool_backward(tp_tensor *grad, tp_tensor *indices, tp_ints input_shape, int64_t dims,
                                     tp_ints kernel_size, tp_ints stride, tp_ints padding, tp_ints dilation,
                                     tp_tensor **result) {
    tpi_conv c;
    if (!kernel_size.n)
        return tpi_serve(tpi_gpu_pool_back_by_indices(grad, indices, input_shape, dims),
                         result); /* adaptive and fractional pools */
    if (input_shape.n < dims + 1 ||
        !geometry_of(&c, input_shape, (int)dims, (tpi_windows){kernel_size, stride, padding, dilation, false}))
        return TPI_DECLINED;
    for (int i = 0; i < dims; i++)
        c.y[3 - dims + i] = grad->shape[grad->ndim - dims + i]; /* ceil_mode may have made it larger */
    return tpi_serve(back(&maximum_back, &c, NULL, grad, indices, input_shape, (int)dims, false), result);
}

tpi_served tpi_gpu_avg_pool(tp_tensor *self, int64_t dims, tp_ints kernel, tp_ints stride, tp_ints padding,
                            bool ceil_mode, bool count_include_pad, int64_t divisor, tp_tensor **result) {
    tpi_conv c;
    tpi_average how = {count_include_pad, divisor == TP_NONE ? 0 : divisor};
    if (divisor == 0 ||
        !geometry_of(&c, tpi_shape(self), (int)dims, (tpi_windows){kernel, stride, padding, {0}, ceil_mode}))
        return TPI_DECLINED;
    return tpi_serve(forth(&average, &c, &how, self, (int)dims, NULL), result);
}
tpi_served tpi_gpu_avg_pool_backward(tp_tensor *grad, tp_ints input_shape, int64_t dims, tp_ints kernel, tp_ints stride,
                                     tp_ints padding, bool ceil_mode, bool count_include_pad, int64_t divisor,
                                     bool channels_last, tp_tensor **result) {
    tpi_conv c;
    tpi_average how = {count_include_pad, divisor == TP_NONE ? 0 : divisor};
    if (divisor == 0 ||
        !geometry_of(&c, input_shape, (int)dims, (tpi_windows){kernel, stride, padding, {0}, ceil_mode}))
        return TPI_DECLINED;
    return tpi_serve(back(&average_back, &c, &how, grad, NULL, input_shape, (int)dims, channels_last), result);
}

tpi_served tpi_gpu_adaptive_avg_pool(tp_tensor *self, tp_ints output_size, int64_t dims, tp_tensor **result) {
    tpi_conv c;
    return tpi_serve(adaptive_of(&c, tpi_shape(self), (int)dims, output_size)
                         ? forth(&adaptive_average, &c, NULL, self, (int)dims, NULL)
                         : NULL,
                     result);
}
tpi_served tpi_gpu_adaptive_avg_pool_backward(tp_tensor *grad, tp_ints input_shape, int64_t dims, bool channels_last,
                                              tp_tensor **result) {
    tpi_conv c;
    return tpi_serve(adaptive_of(&c, input_shape, (int)dims, tpi_shape(grad))
                         ? back(&adaptive_back, &c, NULL, grad, NULL, input_shape, (int)dims, channels_last)
                         : NULL,
                     result);
}
tpi_served tpi_gpu_adaptive_max_pool(tp_tensor *self, tp_ints output_size, int64_t dims, tp_tensor **out) {
    tpi_conv c;
    return tpi_serve_if(adaptive_of(&c, tpi_shape(self), (int)dims, output_size) &&
                        (out[0] = forth(&adaptive_maximum, &c, NULL, self, (int)dims, &out[1])));
}

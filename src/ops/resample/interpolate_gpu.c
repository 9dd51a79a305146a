/* Interpolation on GPUs. Forward all dims at once, unless an antialiasing filter makes that long: then dim by dim, as
 * all gradients go, which are gathered. */
#include "ops/native_gpu.h"
#include "ops/compute_dtype.h"
#include "tensor/channels_last.h"
#include "ops/resample/resample.h"

static const tpi_gpu_site direct_site = {"resample_gpu_kernel.h", "direct"},
                          back_site = {"resample_gpu_kernel.h", "back"},
                          table_site = {"resample_gpu_kernel.h", "table"},
                          filter_site = {"resample_gpu_kernel.h", "filter"};

#define AXIS(A)        \
    struct {           \
        int in, out;   \
        A each, reach; \
        int width;     \
    }
typedef AXIS(float) narrow_axis; /* as ops/resample/resample_gpu_kernel.h has it */
typedef AXIS(double) wide_axis;

typedef struct axis {
    int in, out, width;
    double each, reach;
} axis;

typedef union packed { /* axes as the kernel takes them */
    narrow_axis narrow[3];
    wide_axis wide[3];
} packed;

static tpi_gpu_arg axes_arg(packed *p, const axis *a, int n, bool wide) {
    for (int i = 0; i < n; i++) {
        if (wide)
            p->wide[i] = (wide_axis){a[i].in, a[i].out, a[i].each, a[i].reach, a[i].width};
        else
            p->narrow[i] = (narrow_axis){a[i].in, a[i].out, (float)a[i].each, (float)a[i].reach, a[i].width};
    }
    return (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)((size_t)n * (wide ? sizeof *p->wide : sizeof *p->narrow)), p};
}

typedef struct call {
    tp_device device;
    tpi_resample_kind kind;
    bool wide, back;
    int dims;
    axis axes[3]; /* of the spatial dims, in order */
} call;

static tpi_gpu_function *kernel_of(const call *c, const tpi_gpu_site *site, tp_dtype x, tp_dtype y, int64_t n,
                                   bool last) {
    const tpi_resample_kind *k = &c->kind;
    const tpi_gpu_define defines[] = {TPI_DEFINE("LARGE", tpi_gpu_is_large(n)),
                                      TPI_DEFINE("NEAREST", k->nearest),
                                      TPI_DEFINE("EXACT", k->exact),
                                      TPI_DEFINE("CUBIC", k->cubic),
                                      TPI_DEFINE("ALIGN", k->align_corners),
                                      TPI_DEFINE("ANTIALIAS", k->antialias),
                                      TPI_DEFINE("BYTES", y == TP_UINT8),
                                      TPI_DEFINE("DIMS", c->dims),
                                      TPI_DEFINE("LAST", last),
                                      TPI_DEFINE_DTYPE("X", x),
                                      TPI_DEFINE_DTYPE("Y", y)};
    return tpi_gpu_site_kernel(c->device, site, c->wide, 11, defines);
}

/* What does not fit, or is wrong, is the CPU's. */
static bool prepare(call *c, tp_tensor *t, tp_ints shape, tp_ints size, const char *mode, bool align_corners,
                    bool antialias, tp_floats scales, bool back) {
    *c = (call){.device = tpi_device(t), .wide = t->dtype == TP_FLOAT64, .back = back, .dims = (int)size.n};
    if ((!tpi_gpu_floats(t) && t->dtype != TP_UINT8) || !t->numel || size.n < 1 || size.n > 3 || shape.n != size.n + 2)
        return false;
    if (!tpi_resample_read(&c->kind, mode, align_corners, antialias, !c->wide)) {
        tp_error_clear();
        return false;
    }
    if (c->kind.lanczos) return false;
    for (int i = 0; i < c->dims; i++) {
        if (size.v[i] < 1 || shape.v[2 + i] < 1 || size.v[i] > INT32_MAX / 4 || shape.v[2 + i] > INT32_MAX / 4)
            return false;
        axis *a = &c->axes[i];
        a->in = (int)shape.v[2 + i];
        a->out = (int)size.v[i];
        a->each = tpi_resample_step(&c->kind, a->in, a->out, scales.v && i < scales.n ? scales.v[i] : TP_NO_FLOAT);
        a->reach = tpi_resample_reach(&c->kind, a->each);
        a->width = antialias ? (int)tpi_resample_width(&c->kind, a->each) : 1;
    }
    return true;
}

static tp_tensor *direct(const call *c, tp_tensor *self, tp_ints shape) {
    bool last = tpi_is_only_channels_last(self);
    tp_layout layout = tpi_layout_of(last, c->dims + 2);
    tp_tensor *x = tpi_gpu_laid_out(self, layout),
              *y = x ? tpi_empty_layout(shape, (tp_dtype)self->dtype, c->device, layout) : NULL;
    int64_t n = y ? y->numel : 0;
    tpi_gpu_function *kernel =
        y ? kernel_of(c, &direct_site, (tp_dtype)self->dtype, (tp_dtype)self->dtype, n, last) : NULL;
    axis all[3] = {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
    for (int i = 0; i < c->dims; i++) all[3 - c->dims + i] = c->axes[i];
    packed packed_axes;
    int channels = (int)shape.v[1];
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(y)), TPI_GPU_PTR(tpi_gpu_data(x)),
                                axes_arg(&packed_axes, all, 3, c->wide), TPI_GPU_VAL(n), TPI_GPU_VAL(channels)};
    bool ok = kernel && tpi_gpu_launch(c->device, kernel, tpi_gpu_blocks(n), 256, 0, 5, args);
    tpi_release(x);
    return ok ? y : tpi_release_then(y, NULL);
}

/* The filter's places and weights along a dim. */
static bool make_table(const call *c, const axis *a, tp_tensor **first, tp_tensor **weights) {
    tp_dtype compute = c->wide ? TP_FLOAT64 : TP_FLOAT32;
    *first = tpi_empty(TP_INTS(a->out), TP_INT32, c->device);
    *weights = *first ? tpi_empty(TP_INTS(a->out, a->width), compute, c->device) : NULL;
    tpi_gpu_function *kernel = *weights ? kernel_of(c, &table_site, compute, compute, 0, false) : NULL;
    packed packed_axes;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(*first)), TPI_GPU_PTR(tpi_gpu_data(*weights)),
                                axes_arg(&packed_axes, a, 1, c->wide)};
    return kernel && tpi_gpu_launch(c->device, kernel, tpi_ceil_div(a->out, 64), 64, 0, 3, args);
}

/* Takes over x (contiguous) and returns it resampled along one dim, as `dtype`. */
static tp_tensor *along(const call *c, tp_tensor *x, int dim, tp_dtype dtype) {
    const axis *a = &c->axes[dim - 2];
    int64_t shape[5], inner = 1;
    for (int i = 0; i < x->ndim; i++) shape[i] = x->shape[i];
    for (int i = dim + 1; i < x->ndim; i++) inner *= shape[i];
    shape[dim] = c->back ? a->in : a->out;
    tp_tensor *first = NULL, *weights = NULL,
              *y = inner <= INT32_MAX ? tpi_empty(tp_ints_view(shape, x->ndim), dtype, c->device) : NULL;
    bool ok = y && (!c->kind.antialias || make_table(c, a, &first, &weights));
    int64_t n = ok ? y->numel : 0;
    int narrow = (int)inner;
    tpi_gpu_function *kernel =
        ok ? kernel_of(c, c->back ? &back_site : &filter_site, (tp_dtype)x->dtype, dtype, n, false) : NULL;
    packed packed_axes;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(y)),
                                TPI_GPU_PTR(x->data),
                                TPI_GPU_PTR(tpi_gpu_data(first)),
                                TPI_GPU_PTR(tpi_gpu_data(weights)),
                                axes_arg(&packed_axes, a, 1, c->wide),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(narrow)};
    ok = kernel && tpi_gpu_launch(c->device, kernel, tpi_gpu_blocks(n), 256, 0, 7, args);
    tpi_release(x);
    tpi_release(first);
    tpi_release(weights);
    return ok ? y : tpi_release_then(y, NULL);
}

/* In the compute type between the dims; forward from the last dim on, back from the first. */
static tp_tensor *dim_by_dim(const call *c, tp_tensor *t) {
    tp_dtype compute = c->wide ? TP_FLOAT64 : TP_FLOAT32;
    tp_tensor *x = tpi_contiguous_data(t);
    for (int i = 0; x && i < c->dims; i++)
        x = along(c, x, c->back ? 2 + i : 1 + c->dims - i, i == c->dims - 1 ? (tp_dtype)t->dtype : compute);
    return tpi_from_compute_like(x, (tp_dtype)t->dtype, t);
}

tpi_served tpi_gpu_resample(tp_tensor *self, tp_ints output_size, const char *mode, bool align_corners, bool antialias,
                            tp_floats scales, tp_tensor **result) {
    call c;
    if (!prepare(&c, self, tpi_shape(self), output_size, mode, align_corners, antialias, scales, false))
        return tpi_not_served();
    int64_t shape[5] = {self->shape[0], self->shape[1]};
    for (int i = 0; i < c.dims; i++) shape[2 + i] = output_size.v[i];
    return tpi_serve(antialias ? dim_by_dim(&c, self) : direct(&c, self, tp_ints_view(shape, self->ndim)), result);
}

tpi_served tpi_gpu_resample_backward(tp_tensor *grad, tp_ints input_shape, tp_ints output_size, const char *mode,
                                     bool align_corners, bool antialias, tp_floats scales, tp_tensor **result) {
    call c;
    return tpi_serve(prepare(&c, grad, input_shape, output_size, mode, align_corners, antialias, scales, true)
                         ? dim_by_dim(&c, grad)
                         : NULL,
                     result);
}

/* Fractional max pooling: windows start at places drawn at random, at least as far apart as the sizes ask. Where they
 * start is the formula of fractional_element.h, which GPUs read too. */
#include "ops/pool/pool.h"
#include <math.h>
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "ops/spatial_arguments.h"
#include "tensor/sizes.h"
#define EL static inline
#include "ops/pool/fractional_element.h"

typedef struct fraction {
    tp_dtype dtype;
    const char *x, *samples;
    char *y;
    int64_t *index;
    int64_t in[3], out[3], pool[3];
    int dims;
} fraction;

static void fraction_task(int64_t p, void *context) {
    fraction *f = context;
    int64_t xsize = tpi_size_product(f->in, 3), ysize = tpi_size_product(f->out, 3);
    for (int64_t o = 0; o < ysize; o++) {
        int64_t at[3] = {o / f->out[2] / f->out[1], o / f->out[2] % f->out[1], o % f->out[2]}, start[3] = {0};
        for (int i = 0; i < f->dims; i++) {
            int d = sampled_dim(f->dims, i);
            start[d] = window_start(tpi_compute_get(f->samples, f->dtype, p * f->dims + i), at[d], f->in[d], f->out[d],
                                    f->pool[d]);
        }
        double best = -INFINITY;
        int64_t offset = (start[0] * f->in[1] + start[1]) * f->in[2] + start[2];
        for (int64_t d = start[0]; d < start[0] + f->pool[0]; d++)
            for (int64_t h = start[1]; h < start[1] + f->pool[1]; h++)
                for (int64_t w = start[2]; w < start[2] + f->pool[2]; w++) {
                    int64_t q = (d * f->in[1] + h) * f->in[2] + w;
                    double v = tpi_compute_get(f->x, f->dtype, p * xsize + q);
                    if (v > best || v != v) {
                        best = v;
                        offset = q;
                    }
                }
        tpi_compute_set(f->y, f->dtype, p * ysize + o, best);
        f->index[p * ysize + o] = offset;
    }
}

/* samples: (at least as many images, channels, dims) */
static bool check_samples(const tp_tensor *samples, int64_t images, int64_t channels, int64_t dims) {
    if (samples->ndim != 3)
        return tpi_refuse(TP_ERR_RUNTIME, "Expect _random_samples to have 3 dimensions, got %d.", samples->ndim);
    if (samples->shape[0] < images)
        return tpi_refuse(TP_ERR_RUNTIME, "Expect _random_samples.size(0) no less then input batch size.");
    if (samples->shape[1] != channels)
        return tpi_refuse(TP_ERR_RUNTIME, "Expect _random_samples.size(1) equals to input channel size.");
    return samples->shape[2] == dims ||
           tpi_refuse(TP_ERR_RUNTIME, "Expect _random_samples.size(2) equals to %lld; got %lld.", (long long)dims,
                      (long long)samples->shape[2]);
}

/* Do `out` windows of k elements fit into a dim of `in` elements? */
static bool check_window(const char *axis, int64_t in, int64_t k, int64_t out) {
    if (k < 1 || out < 0)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'kernel_size': kernel size should be greater than zero, but got %lld for an output of %lld",
            (long long)k, (long long)out);
    return out + k - 1 <= in ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "argument 'kernel_size': pool %s %lld too large relative to input %s %lld, for an output of %lld",
                      axis, (long long)k, axis, (long long)in, (long long)out);
}

/* The sizes of the input and of the result (`shape`), by the sizes of the pool and of the output. */
static bool read_sizes(fraction *f, const tp_tensor *self, int64_t *shape) {
    static const char *const axes[] = {"time", "height", "width"};
    int64_t lead = self->ndim - f->dims;
    if (lead != 1 && lead != 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'input': Expected %dD or %dD tensor, but got %s", f->dims + 1,
                          f->dims + 2, tpi_shape_text(tpi_shape(self)));
    for (int i = 0; i < self->ndim; i++) {
        if (i >= lead - 1 && self->shape[i] == 0)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'input': Expected input to have non-zero size for non-batch dimensions, but "
                              "got%s with dimension %d being empty.",
                              tpi_shape_text(tpi_shape(self)), i);
        shape[i] = self->shape[i];
        if (i < lead) continue;
        const int64_t axis = 3 - f->dims + i - lead;
        f->in[axis] = self->shape[i];
        shape[i] = f->out[axis];
        if (!check_window(axes[axis], f->in[axis], f->pool[axis], shape[i])) return false;
    }
    return true;
}

bool tpi_native_fractional_max_pool(tp_tensor *self, tp_ints kernel, tp_ints output_size, tp_tensor *samples,
                                    int64_t dims, tp_tensor **out) {
    if (dims != 2 && dims != 3)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'dims': expected 2 or 3, got %lld", (long long)dims);
    fraction f = {.in = {1, 1, 1},
                  .out = {1, 1, 1},
                  .pool = {1, 1, 1},
                  .dims = (int)dims,
                  .dtype = tpi_compute_dtype(self, "input")};
    int at = 3 - (int)dims;
    if (kernel.n != 1 && kernel.n != dims)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "fractional_max_pool%lldd: kernel_size must either be a single int or tuple of %s ints",
                          (long long)dims, dims == 2 ? "two" : "three");
    if (!f.dtype || !tpi_expand_steps("kernel_size", kernel, f.dims, NULL, f.pool + at) ||
        !tpi_expand_steps("output_size", output_size, f.dims, NULL, f.out + at))
        return false;
    int64_t shape[5], lead = self->ndim - dims;
    if (!read_sizes(&f, self, shape)) return false;
    int64_t planes = tpi_size_product(shape, lead);
    if (!check_samples(samples, lead == 2 ? shape[0] : 1, shape[lead - 1], dims)) return false;
    tp_tensor *x = tpi_to_compute(self, f.dtype), *r = tpi_to_compute(samples, f.dtype);
    tp_tensor *y = x && r ? tpi_empty(tp_ints_view(shape, self->ndim), f.dtype, tpi_device(self)) : NULL;
    tp_tensor *index = y ? tpi_empty(tp_ints_view(shape, self->ndim), TP_INT64, tpi_device(self)) : NULL;
    if (index) {
        f.x = x->data;
        f.samples = r->data;
        f.y = y->data;
        f.index = (int64_t *)index->data;
        tpi_parallel_for(planes, x->numel > 16384, fraction_task, &f);
    }
    tpi_release(x);
    tpi_release(r);
    if (!index) {
        tpi_release(y);
        return false;
    }
    out[0] = tpi_from_compute(y, (tp_dtype)self->dtype);
    out[1] = index;
    if (!out[0]) tpi_release(index);
    return out[0];
}

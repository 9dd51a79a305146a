/* Pooling by recorded places: what sends a max pool's gradient back, its own derivative, unpooling and fractional max
 * pooling. An index counts elements of its plane, the last `dims` dims together. */
#include "ops/pool/pool.h"
#include <math.h>
#include "base/min_max.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "tensor/sizes.h"

typedef enum action { SCATTER_ADD, SCATTER_SET, GATHER } action;

typedef struct job {
    action act;
    tp_dtype dtype;
    const char *from;
    char *to;
    const int64_t *index;
    int64_t planes, small, large; /* elements in a plane of indices, and in the plane they point into */
    int64_t planes_per_task;
} job;

static void plane(const job *j, int64_t p) {
    const int64_t *index = j->index + p * j->small;
    if (j->dtype == TP_FLOAT32) {
        if (j->act == GATHER) {
            const float *from = (const float *)j->from + p * j->large;
            for (int64_t i = 0; i < j->small; i++) ((float *)j->to)[p * j->small + i] = from[index[i]];
            return;
        }
        float *to = (float *)j->to + p * j->large;
        const float *from = (const float *)j->from + p * j->small;
        memset(to, 0, (size_t)j->large * sizeof *to);
        if (j->act == SCATTER_SET)
            for (int64_t i = 0; i < j->small; i++) to[index[i]] = from[i];
        else
            for (int64_t i = 0; i < j->small; i++) to[index[i]] += from[i];
        return;
    }
    if (j->act == GATHER) {
        const double *from = (const double *)j->from + p * j->large;
        for (int64_t i = 0; i < j->small; i++) ((double *)j->to)[p * j->small + i] = from[index[i]];
        return;
    }
    double *to = (double *)j->to + p * j->large;
    const double *from = (const double *)j->from + p * j->small;
    memset(to, 0, (size_t)j->large * sizeof *to);
    if (j->act == SCATTER_SET)
        for (int64_t i = 0; i < j->small; i++) to[index[i]] = from[i];
    else
        for (int64_t i = 0; i < j->small; i++) to[index[i]] += from[i];
}

static void task(int64_t number, void *context) {
    job *j = context;
    int64_t last = (number + 1) * j->planes_per_task;
    for (int64_t p = number * j->planes_per_task; p < last && p < j->planes; p++) plane(j, p);
}

static tp_tensor *move(action act, tp_tensor *from, tp_tensor *indices, tp_ints shape, int64_t dims) {
    tp_dtype compute = tpi_compute_dtype(from, "input");
    tp_ints large = act == GATHER ? tpi_shape(from) : shape;
    if (!compute || tpi_numel_of(shape) < 0) return NULL;
    if (dims < 1 || dims > large.n || indices->ndim != large.n)
        return tpi_fail(
            TP_ERR_RUNTIME,
            "argument 'indices': expected %lld dims like the other side, and dims within them, got %s and dims %lld",
            (long long)large.n, tpi_shape_text(tpi_shape(indices)), (long long)dims);
    for (int64_t i = 0; i < large.n - dims; i++)
        if (indices->shape[i] != large.v[i])
            return tpi_fail(TP_ERR_RUNTIME, "argument 'indices': expected as many planes as in %s, got %s",
                            tpi_shape_text(large), tpi_shape_text(tpi_shape(indices)));
    if (act != GATHER && !tpi_check_shape(from, "input", tpi_shape(indices))) return NULL;
    job j = {.act = act, .dtype = compute};
    tp_tensor *values = tpi_to_compute(from, compute), *index = tpi_index_data(indices, "indices");
    tp_tensor *to = values && index ? tpi_empty(shape, compute, tpi_device(from)) : NULL;
    if (to && to->numel > 0) {
        j.small = tpi_size_product(indices->shape + indices->ndim - dims, dims);
        j.large = tpi_size_product(large.v + large.n - dims, dims);
        j.planes = tpi_size_product(large.v, large.n - dims);
        j.from = values->data;
        j.to = to->data;
        j.index = (const int64_t *)index->data;
        for (int64_t i = 0; i < index->numel; i++)
            if (j.index[i] < 0 || j.index[i] >= j.large) {
                tpi_fail(TP_ERR_RUNTIME,
                         "argument 'indices': Found an invalid max index: %lld (output volumes are of size %lld)",
                         (long long)j.index[i], (long long)j.large);
                tpi_release(to);
                to = NULL;
                break;
            }
        j.planes_per_task = 1 + 16384 / (1 + (j.large > j.small ? j.large : j.small));
        if (to) tpi_parallel_for(tpi_ceil_div(j.planes, j.planes_per_task), j.planes * j.large > 16384, task, &j);
    }
    tpi_release(values);
    tpi_release(index);
    return tpi_from_compute_like(to, (tp_dtype)from->dtype, from);
}

tp_tensor *tpi_native_max_pool_backward(tp_tensor *grad, tp_tensor *indices, tp_ints input_shape, int64_t dims,
                                        tp_ints kernel_size, tp_ints stride, tp_ints padding, tp_ints dilation) {
    /* for devices that look at every place's windows */
    (void)kernel_size;
    (void)stride;
    (void)padding;
    (void)dilation;
    if (!tpi_check_pooled_grad(grad, dims)) return NULL;
    return move(SCATTER_ADD, grad, indices, input_shape, dims);
}

tp_tensor *tpi_native_max_pool_gather(tp_tensor *self, tp_tensor *indices, int64_t dims) {
    return move(GATHER, self, indices, tpi_shape(indices), dims);
}

/* ---- Unpooling: values go back to where they came from, zeros elsewhere ---- */

tp_tensor *tpi_native_max_unpool(tp_tensor *self, tp_tensor *indices, tp_ints output_size, int64_t dims) {
    int64_t shape[TP_MAX_DIMS];
    if (dims < 1 || dims > self->ndim || output_size.n != dims)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'output_size': expected %lld sizes for input %s, got %s",
                        (long long)dims, tpi_shape_text(tpi_shape(self)), tpi_shape_text(output_size));
    if (indices->dtype != TP_INT64)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'indices': elements in indices should be type int64 but got: %s",
                        tp_dtype_word((tp_dtype)indices->dtype));
    if (!tpi_same_shape(self, indices))
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'indices': Expected shape of indices to be same as that of the input tensor (%s) but "
                        "got indices tensor with shape: %s",
                        tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(indices)));
    for (int i = 0; i < self->ndim; i++)
        shape[i] = i < self->ndim - dims ? self->shape[i] : output_size.v[i - (self->ndim - dims)];
    return move(SCATTER_SET, self, indices, tp_ints_view(shape, self->ndim), dims);
}

/* ---- Fractional max pooling: windows start at places drawn at random, at least as far apart as the sizes ask ---- */

/* Where window number i starts: PyTorch's sequence from one uniform sample per dim. The user may hand in samples of any
 * size, and what is no number: the window stays inside. */
static int64_t window_start(double sample, int64_t i, int64_t in, int64_t out, int64_t pool) {
    if (i == out - 1) return in - pool;
    double alpha = (double)(in - pool) / (double)(out - 1);
    if (!(fabs(sample) < 0x1p20)) sample = 0;
    int64_t start = (int64_t)(((double)i + sample) * alpha) - (int64_t)(sample * alpha);
    return tpi_max64(0, tpi_min64(start, in - pool));
}

typedef struct fraction {
    tp_dtype dtype;
    const char *x, *samples;
    char *y;
    int64_t *index;
    int64_t in[3], out[3], pool[3];
    int dims;
} fraction;

static double element(const char *data, tp_dtype dtype, int64_t i) {
    return dtype == TP_FLOAT32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void fraction_task(int64_t p, void *context) {
    fraction *f = context;
    int64_t xsize = tpi_size_product(f->in, 3), ysize = tpi_size_product(f->out, 3);
    for (int64_t o = 0; o < ysize; o++) {
        int64_t at[3] = {o / f->out[2] / f->out[1], o / f->out[2] % f->out[1], o % f->out[2]}, start[3] = {0};
        for (int i = 0; i < f->dims; i++) { /* sample 0 belongs to the last dim of two, but to the first of three */
            int d = f->dims == 2 ? 2 - i : i;
            start[d] =
                window_start(element(f->samples, f->dtype, p * f->dims + i), at[d], f->in[d], f->out[d], f->pool[d]);
        }
        double best = -INFINITY;
        int64_t place = (start[0] * f->in[1] + start[1]) * f->in[2] + start[2];
        for (int64_t d = start[0]; d < start[0] + f->pool[0]; d++)
            for (int64_t h = start[1]; h < start[1] + f->pool[1]; h++)
                for (int64_t w = start[2]; w < start[2] + f->pool[2]; w++) {
                    int64_t q = (d * f->in[1] + h) * f->in[2] + w;
                    double v = element(f->x, f->dtype, p * xsize + q);
                    if (v > best || v != v) {
                        best = v;
                        place = q;
                    }
                }
        if (f->dtype == TP_FLOAT32)
            ((float *)f->y)[p * ysize + o] = (float)best;
        else
            ((double *)f->y)[p * ysize + o] = best;
        f->index[p * ysize + o] = place;
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
    static const char *const axes[] = {"time", "height", "width"};
    int64_t shape[5], lead = self->ndim - dims;
    if (lead != 1 && lead != 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'input': Expected %dD or %dD tensor, but got %s", f.dims + 1,
                          f.dims + 2, tpi_shape_text(tpi_shape(self)));
    for (int i = 0; i < self->ndim; i++) {
        if (i >= lead - 1 && self->shape[i] == 0)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'input': Expected input to have non-zero size for non-batch dimensions, but "
                              "got%s with dimension %d being empty.",
                              tpi_shape_text(tpi_shape(self)), i);
        shape[i] = i < lead ? self->shape[i] : f.out[at + i - lead];
        if (i < lead) continue;
        int64_t in = self->shape[i], k = f.pool[at + i - lead];
        f.in[at + i - lead] = in;
        if (k < 1 || shape[i] < 0)
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "argument 'kernel_size': kernel size should be greater than zero, but got %lld for an output of %lld",
                (long long)k, (long long)shape[i]);
        if (shape[i] + k - 1 > in)
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "argument 'kernel_size': pool %s %lld too large relative to input %s %lld, for an output of %lld",
                axes[at + i - lead], (long long)k, axes[at + i - lead], (long long)in, (long long)shape[i]);
    }
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

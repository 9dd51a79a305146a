/* Pooling by recorded places: what sends a max pool's gradient back, its own derivative, and unpooling. An index counts
 * elements of its plane, the last `dims` dims together. */
#include "ops/pool/pool.h"
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

#define PLANE(T)                                                            \
    static void plane_##T(const job *j, int64_t p) {                        \
        const int64_t *index = j->index + p * j->small;                     \
        if (j->act == GATHER) {                                             \
            const T *from = (const T *)j->from + p * j->large;              \
            T *to = (T *)j->to + p * j->small;                              \
            for (int64_t i = 0; i < j->small; i++) to[i] = from[index[i]];  \
            return;                                                         \
        }                                                                   \
        const T *from = (const T *)j->from + p * j->small;                  \
        T *to = (T *)j->to + p * j->large;                                  \
        memset(to, 0, (size_t)j->large * sizeof *to);                       \
        if (j->act == SCATTER_SET)                                          \
            for (int64_t i = 0; i < j->small; i++) to[index[i]] = from[i];  \
        else                                                                \
            for (int64_t i = 0; i < j->small; i++) to[index[i]] += from[i]; \
    }
PLANE(float)
PLANE(double)

static void task(int64_t number, void *context) {
    job *j = context;
    int64_t last = (number + 1) * j->planes_per_task;
    for (int64_t p = number * j->planes_per_task; p < last && p < j->planes; p++)
        if (j->dtype == TP_FLOAT32)
            plane_float(j, p);
        else
            plane_double(j, p);
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

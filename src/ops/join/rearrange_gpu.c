/* flip, and repeat_interleave with a count per element, on GPUs. */
#include "ops/temporaries.h"
#include "ops/native_gpu.h"
#include "tpi_ops.h"

static const tpi_gpu_site flip_site = {"flip.gpu.h", "flip"};

enum { MOST_DIMS = 8 };

/* Dims in the order of out's memory, outermost first; those that go on in one step in both are joined. */
typedef struct turned {
    int64_t shape[MOST_DIMS], stride[MOST_DIMS];
    int dims;
} turned;

static bool turn(turned *t, const tp_tensor *self, const tp_tensor *out, const bool *flipped) {
    int order[TP_MAX_DIMS];
    for (int d = 0; d < out->ndim; d++) {
        int at = d;
        for (; at > 0 && out->strides[order[at - 1]] < out->strides[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    t->dims = 0;
    for (int i = 0; i < out->ndim; i++) {
        int64_t size = self->shape[order[i]],
                step = flipped[order[i]] ? -self->strides[order[i]] : self->strides[order[i]];
        if (size == 1) continue;
        if (t->dims && t->stride[t->dims - 1] == step * size) {
            t->shape[t->dims - 1] *= size;
            t->stride[t->dims - 1] = step;
            continue;
        }
        if (t->dims == MOST_DIMS) return false;
        t->shape[t->dims] = size;
        t->stride[t->dims++] = step;
    }
    if (!t->dims) {
        t->shape[0] = 1;
        t->stride[0] = 0;
        t->dims = 1;
    }
    return true;
}

tpi_served tpi_gpu_flip(tp_tensor *self, tp_ints dims, tp_tensor **result) {
    bool flipped[TP_MAX_DIMS] = {false};
    if (!self->numel || !tpi_gpu_has_dtype(self) || (dims.n && !tpi_wrap_dims(dims, self->ndim, flipped))) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    tp_tensor *out = tpi_empty_like(self, (tp_dtype)self->dtype);
    turned t;
    if (!out || !turn(&t, self, out, flipped)) return tpi_serve(tpi_release_then(out, NULL), result);
    int64_t numbers[2 * MOST_DIMS], first = 0;
    memcpy(numbers, t.shape, sizeof *numbers * (size_t)t.dims);
    memcpy(numbers + t.dims, t.stride, sizeof *numbers * (size_t)t.dims);
    for (int d = 0; d < self->ndim; d++)
        if (flipped[d]) first += self->strides[d] * (self->shape[d] - 1);
    const tpi_gpu_define defines[] = {TPI_DEFINE("DIMS", t.dims), TPI_DEFINE("LARGE", self->numel > INT32_MAX),
                                      TPI_DEFINE_DTYPE("X", self->dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(self), &flip_site, false, 3, defines);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(out->data),
                                TPI_GPU_PTR(self->data + first * (int64_t)tpi_itemsize(self)),
                                {TPI_GPU_VALUE, (uint32_t)(2 * t.dims * 8), numbers},
                                TPI_GPU_VAL(self->numel)};
    return tpi_serve(tpi_gpu_launch_each(tpi_device(self), kernel, self->numel, 4, args) ? out
                                                                                         : tpi_release_then(out, NULL),
                     result);
}

/* The number of each element as often as its count says: where each place falls among the running sums. The host waits
 * for their last, unless it is told. */
tpi_served tpi_gpu_repeat_interleave_Tensor(tp_tensor *repeats, int64_t output_size, tp_tensor **result) {
    if (repeats->ndim != 1 || !repeats->numel || !tpi_gpu_is_index(repeats)) return TPI_DECLINED;
    tpi_temporaries bag = {0};
    tp_tensor *ends = tpi_put(&bag, tpo_cumsum(repeats, 0, TP_INT64));
    if (output_size == TP_NONE && ends) {
        tp_tensor *last = tpi_put(&bag, tpi_narrowed(ends, 0, repeats->numel - 1, 1)),
                  *least = last ? tpi_put(&bag, tpo_min(repeats)) : NULL;
        tp_scalar total = least ? tp_item_scalar(last) : tp_no_scalar(),
                  smallest = least ? tp_item_scalar(least) : tp_no_scalar();
        if (total.kind == TP_SCALAR_NONE || smallest.as.i < 0) { /* negative counts are the CPU's to refuse */
            tpi_release_temporaries(&bag, NULL);
            return tpi_not_served();
        }
        output_size = total.as.i;
    }
    if (!ends || output_size < 0) {
        tpi_release_temporaries(&bag, NULL);
        return tpi_not_served();
    }
    tp_tensor *at = tpi_put(&bag, tpo_arange(tp_int(output_size), TP_INT64, tpi_device(repeats)));
    return tpi_serve(tpi_release_temporaries(&bag, at ? tpo_searchsorted(ends, at, false, true, NULL, NULL) : NULL),
                     result);
}

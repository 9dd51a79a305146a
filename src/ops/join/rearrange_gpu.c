/* flip, roll, and repeat_interleave with a count per element, on GPUs. */
#include "ops/temporaries.h"
#include "ops/join/join.h"
#include "ops/native_gpu.h"
#include "tpi_ops.h"

static const tpi_gpu_site flip_site = {"flip_gpu_kernel.h", "flip"};

enum { MOST_DIMS = 8 };

/* Dims in the order of out's memory, outermost first; those that go on in one step in both are joined. */
typedef struct flip_layout {
    int64_t shape[MOST_DIMS], stride[MOST_DIMS], from[MOST_DIMS];
    int dims;
} flip_layout;

/* step: what a dim's stride is multiplied by, 1 or -1; from: the element that a dim begins with. */
static bool lay_out_flip(flip_layout *t, const tp_tensor *self, const tp_tensor *out, const int64_t *step,
                         const int64_t *from) {
    int order[TP_MAX_DIMS];
    for (int d = 0; d < out->ndim; d++) {
        int at = d;
        for (; at > 0 && out->strides[order[at - 1]] < out->strides[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    t->dims = 0;
    for (int i = 0; i < out->ndim; i++) {
        int d = order[i], last = t->dims - 1;
        int64_t size = self->shape[d], stride = step[d] * self->strides[d];
        if (size == 1) continue;
        if (t->dims && !from[d] && !t->from[last] && t->stride[last] == stride * size) {
            t->shape[last] *= size;
            t->stride[last] = stride;
            continue;
        }
        if (t->dims == MOST_DIMS) return false;
        t->shape[t->dims] = size;
        t->stride[t->dims] = stride;
        t->from[t->dims++] = from[d];
    }
    if (!t->dims) {
        t->shape[0] = 1;
        t->stride[0] = t->from[0] = 0;
        t->dims = 1;
    }
    return true;
}

/* self with its dims flipped, or rolled; NULL without an error: more dims than a kernel takes. */
static tp_tensor *moved(tp_tensor *self, const int64_t *step, const int64_t *from, bool roll) {
    tp_tensor *out = tpi_empty_like(self, (tp_dtype)self->dtype);
    flip_layout t;
    if (!out || !lay_out_flip(&t, self, out, step, from)) return tpi_release_then(out, NULL);
    int64_t numbers[3 * MOST_DIMS], first = 0;
    size_t bytes = sizeof *numbers * (size_t)t.dims;
    memcpy(numbers, t.shape, bytes);
    memcpy(numbers + t.dims, t.stride, bytes);
    memcpy(numbers + 2 * t.dims, t.from, bytes);
    for (int d = 0; d < self->ndim; d++)
        if (step[d] < 0) first += self->strides[d] * (self->shape[d] - 1);
    const tpi_gpu_define defines[] = {TPI_DEFINE("DIMS", t.dims), TPI_DEFINE("ROLL", roll),
                                      TPI_DEFINE("LARGE", self->numel > INT32_MAX), TPI_DEFINE_DTYPE("X", self->dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(self), &flip_site, false, 4, defines);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(out->data),
                                TPI_GPU_PTR(self->data + first * (int64_t)tpi_itemsize(self)),
                                {TPI_GPU_VALUE, (uint32_t)(bytes * (roll ? 3 : 2)), numbers},
                                TPI_GPU_VAL(self->numel)};
    bool ok = tpi_gpu_launch_each(tpi_device(self), kernel, self->numel, 4, args);
    return ok ? out : tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_flip(tp_tensor *self, tp_ints dims, tp_tensor **result) {
    bool flipped[TP_MAX_DIMS] = {false};
    if (!self->numel || !tpi_gpu_has_dtype(self) || (dims.n && !tpi_wrap_dims(dims, self->ndim, flipped))) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    int64_t step[TP_MAX_DIMS], from[TP_MAX_DIMS] = {0};
    for (int d = 0; d < self->ndim; d++) step[d] = flipped[d] ? -1 : 1;
    return tpi_serve(moved(self, step, from, false), result);
}

/* NULL without an error: declined. */
static tp_tensor *roll(tp_tensor *self, tp_ints shifts, tp_ints dims, bool back) {
    int64_t step[TP_MAX_DIMS], shift[TP_MAX_DIMS], from[TP_MAX_DIMS];
    if (!self->numel || !tpi_gpu_has_dtype(self) || !tpi_roll_shifts(self, shifts, dims, back, shift)) return NULL;
    for (int d = 0; d < self->ndim; d++) {
        step[d] = 1;
        from[d] = shift[d] ? self->shape[d] - shift[d] : 0; /* the last `shift` elements come first */
    }
    return moved(self, step, from, true);
}

tpi_served tpi_gpu_roll_dims(tp_tensor *self, tp_ints shifts, tp_ints dims, tp_tensor **result) {
    tp_tensor *out = roll(self, shifts, dims, false);
    return tpi_serve(out || !tp_ok() ? out : tpi_native_roll_dims(self, shifts, dims), result);
}
tpi_served tpi_gpu_roll_back(tp_tensor *self, tp_ints shifts, tp_ints dims, tp_tensor **result) {
    tp_tensor *out = roll(self, shifts, dims, true);
    return tpi_serve(out || !tp_ok() ? out : tpi_native_roll_back(self, shifts, dims), result);
}

/* The number of each element as often as its count says: where each place falls among the running sums. The host waits
 * for their last, unless it is told. */
tpi_served tpi_gpu_repeat_interleave_Tensor(tp_tensor *repeats, int64_t output_size, tp_tensor **result) {
    if (repeats->ndim != 1 || !repeats->numel || !tpi_gpu_is_index(repeats)) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    tp_tensor *ends = tpi_put(&temps, tpo_cumsum(repeats, 0, TP_INT64));
    if (output_size == TP_NONE && ends) {
        tp_tensor *last = tpi_put(&temps, tpi_narrowed(ends, 0, repeats->numel - 1, 1)),
                  *least = last ? tpi_put(&temps, tpo_min(repeats)) : NULL;
        tp_scalar total = least ? tp_item_scalar(last) : tp_no_scalar(),
                  smallest = least ? tp_item_scalar(least) : tp_no_scalar();
        if (total.kind == TP_SCALAR_NONE || smallest.as.i < 0) { /* negative counts are the CPU's to refuse */
            tpi_release_temporaries(&temps, NULL);
            return tpi_not_served();
        }
        output_size = total.as.i;
    }
    if (!ends || output_size < 0) {
        tpi_release_temporaries(&temps, NULL);
        return tpi_not_served();
    }
    tp_tensor *at = tpi_put(&temps, tpo_arange(tp_int(output_size), TP_INT64, tpi_device(repeats)));
    bool narrow = repeats->dtype == TP_INT32;
    return tpi_serve(tpi_release_temporaries(&temps, at ? tpo_searchsorted(ends, at, narrow, true, NULL, NULL) : NULL),
                     result);
}

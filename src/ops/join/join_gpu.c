/* cat on GPUs: the parts are copied into their places, each in one launch. */
#include "ops/native_gpu.h"

/* Empty one-dimensional tensors count as nothing, whatever the others' shapes. */
static bool is_nothing(const tp_tensor *t) { return t->ndim == 1 && t->numel == 0; }

tpi_served tpi_gpu_cat(tp_tensors tensors, int64_t dim, tp_tensor **result) {
    tp_tensor *first = NULL;
    for (int64_t i = 0; i < tensors.n && !first; i++)
        if (!is_nothing(tensors.v[i])) first = tensors.v[i];
    int d = first && first->ndim ? TPI_DIM(first, dim) : -1;
    if (d < 0) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    int64_t shape[TP_MAX_DIMS], length = 0;
    memcpy(shape, first->shape, (size_t)first->ndim * sizeof *shape);
    bool last = first->ndim == 4 && !tp_is_contiguous(first) && tp_is_contiguous_as(first, TP_CHANNELS_LAST);
    for (int64_t i = 0; i < tensors.n; i++) {
        const tp_tensor *t = tensors.v[i];
        if (is_nothing(t)) continue;
        if (t->dtype != first->dtype || t->ndim != first->ndim) return TPI_DECLINED;
        for (int k = 0; k < t->ndim; k++)
            if (k != d && t->shape[k] != shape[k]) return TPI_DECLINED;
        last = last && !tp_is_contiguous(t) && tp_is_contiguous_as(t, TP_CHANNELS_LAST);
        length += t->shape[d];
    }
    shape[d] = length;
    tp_tensor *out = tpi_empty_layout(tp_ints_view(shape, first->ndim), (tp_dtype)first->dtype, tpi_device(first),
                                      last ? TP_CHANNELS_LAST : TP_CONTIGUOUS);
    int64_t at = 0;
    bool ok = out;
    for (int64_t i = 0; i < tensors.n && ok; i++) {
        tp_tensor *t = tensors.v[i];
        if (is_nothing(t)) continue;
        tp_tensor *place = tpi_narrowed(out, d, at, t->shape[d]);
        ok = place && (!t->numel || tpi_copy_data(place, t));
        at += t->shape[d];
        tpi_release(place);
    }
    return tpi_serve(ok ? out : tpi_release_then(out, NULL), result);
}

/* See channels_last.h. */
#include "tensor/channels_last.h"

tp_layout tpi_layout_of(bool channels_last, int64_t ndim) {
    if (!channels_last) return TP_CONTIGUOUS;
    return ndim == 4 ? TP_CHANNELS_LAST : ndim == 5 ? TP_CHANNELS_LAST_3D : TP_CONTIGUOUS;
}

tp_layout tpi_suggested_layout(const tp_tensor *t) {
    if ((t->ndim != 4 && t->ndim != 5) || t->strides[1] == 0) return TP_CONTIGUOUS;
    /* What the next dim's stride must reach: channels, then the last dim back to the third, then images. */
    int64_t least = 0;
    for (int i = 0; i < t->ndim; i++) {
        int d = i == 0 ? 1 : i < t->ndim - 1 ? t->ndim - i : 0;
        if (t->shape[d] == 0 || t->strides[d] < least) return TP_CONTIGUOUS;
        if (d == 0 && least == t->strides[1]) return TP_CONTIGUOUS; /* all sizes but the first are one */
        least = t->strides[d] * (t->shape[d] > 1 ? t->shape[d] : 1);
    }
    return tpi_layout_of(true, t->ndim);
}

bool tpi_is_channels_last(const tp_tensor *t) {
    return (t->ndim == 4 && tp_is_contiguous_as(t, TP_CHANNELS_LAST)) ||
           (t->ndim == 5 && tp_is_contiguous_as(t, TP_CHANNELS_LAST_3D));
}

bool tpi_is_only_channels_last(const tp_tensor *t) { return !tp_is_contiguous(t) && tpi_is_channels_last(t); }

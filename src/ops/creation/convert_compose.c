/* to and its kin: the tensor itself where nothing is to be done, a differentiable conversion otherwise. */
#include "tensor/same_device.h"
#include "ops/native.h"
#include <taper/gpu.h>
#include "tpi_ops.h"

tp_tensor *tpi_compose_contiguous(tp_tensor *self, tp_layout memory_format) {
    tp_layout layout = memory_format == TP_PRESERVE ? TP_CONTIGUOUS : memory_format;
    return tp_is_contiguous_as(self, layout) ? tpi_retain(self) : tpo_clone(self, layout);
}

tp_tensor *tpi_compose_clone_in_rows(tp_tensor *self) { return tpo_clone(self, TP_CONTIGUOUS); }

/* Do the strides tell channels-last from contiguous? Where dims of size 1 leave both possible, PyTorch's `to` settles
 * it by a copy. */
static bool says_layout(const tp_tensor *t, tp_layout layout) {
    if (layout == TP_CONTIGUOUS) return true;
    int64_t stride = t->shape[1];
    bool exact = t->strides[1] == 1;
    for (int d = t->ndim - 1; d > 1; stride *= t->shape[d--]) exact &= t->strides[d] == stride;
    return exact && t->strides[0] == stride;
}

/* non_blocking: copies between a device and pinned memory do not wait; all others are done when the call returns. */
tp_tensor *tpi_compose_to(tp_tensor *self, tp_dtype dtype, tp_device device, bool copy, tp_layout memory_format,
                          bool non_blocking) {
    tp_device here = tpi_device(self);
    bool other_device = device.type && !tpi_same_device(device, here);
    bool other_dtype = dtype && dtype != (tp_dtype)self->dtype;
    tp_tensor *t = tpi_retain(self);
    if (other_dtype) t = tpi_release_then(t, tpo_to_dtype(t, dtype));
    if (other_device && t) {
        bool before = tp_set_non_blocking(non_blocking);
        t = tpi_release_then(t, tpo_to_device(t, device));
        tp_set_non_blocking(before);
    }
    if (!t) return NULL;
    bool relayout =
        memory_format != TP_PRESERVE && (!tp_is_contiguous_as(t, memory_format) || !says_layout(t, memory_format));
    if (relayout || (copy && !other_dtype && !other_device)) t = tpi_release_then(t, tpo_clone(t, memory_format));
    return t;
}

tp_tensor *tpi_compose_type_as(tp_tensor *self, tp_tensor *other) {
    return tpi_compose_to(self, other->dtype, tpi_device(other), false, TP_PRESERVE, false);
}

static tp_tensor *as(tp_tensor *self, tp_dtype dtype, tp_layout layout) {
    return tpi_compose_to(self, dtype, (tp_device){0}, false, layout, false);
}
tp_tensor *tpi_compose_to_bool(tp_tensor *self, tp_layout layout) { return as(self, TP_BOOL, layout); }
tp_tensor *tpi_compose_to_byte(tp_tensor *self, tp_layout layout) { return as(self, TP_UINT8, layout); }
tp_tensor *tpi_compose_to_char(tp_tensor *self, tp_layout layout) { return as(self, TP_INT8, layout); }
tp_tensor *tpi_compose_to_short(tp_tensor *self, tp_layout layout) { return as(self, TP_INT16, layout); }
tp_tensor *tpi_compose_to_int(tp_tensor *self, tp_layout layout) { return as(self, TP_INT32, layout); }
tp_tensor *tpi_compose_to_long(tp_tensor *self, tp_layout layout) { return as(self, TP_INT64, layout); }
tp_tensor *tpi_compose_to_half(tp_tensor *self, tp_layout layout) { return as(self, TP_FLOAT16, layout); }
tp_tensor *tpi_compose_to_bfloat16(tp_tensor *self, tp_layout layout) { return as(self, TP_BFLOAT16, layout); }
tp_tensor *tpi_compose_to_float(tp_tensor *self, tp_layout layout) { return as(self, TP_FLOAT32, layout); }
tp_tensor *tpi_compose_to_double(tp_tensor *self, tp_layout layout) { return as(self, TP_FLOAT64, layout); }
tp_tensor *tpi_compose_to_cfloat(tp_tensor *self, tp_layout layout) { return as(self, TP_COMPLEX64, layout); }
tp_tensor *tpi_compose_to_chalf(tp_tensor *self, tp_layout layout) { return as(self, TP_COMPLEX32, layout); }
tp_tensor *tpi_compose_to_cdouble(tp_tensor *self, tp_layout layout) { return as(self, TP_COMPLEX128, layout); }

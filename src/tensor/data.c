/* Plain data movement between tensors, no tape. The devices do the work (tensor/upcalls.h). */
#include "tensor/recorder.h"
#include "tensor/same_device.h"
#include "tensor/upcalls.h"

bool tpi_copy_data(tp_tensor *dst, const tp_tensor *src) { return tpi_above.copy(dst, src); }
bool tpi_fill_data(tp_tensor *dst, tp_scalar value) { return tpi_above.fill(dst, value); }

tp_tensor *tpi_contiguous_data(tp_tensor *t) {
    if (tp_is_contiguous(t)) return tpi_retain(t);
    tp_tensor *out = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, tpi_device(t));
    if (!out || tpi_copy_data(out, t)) return out;
    tpi_release(out);
    return NULL;
}

tp_tensor *tpi_as_dtype_data(tp_tensor *t, tp_dtype d) {
    if (t->dtype == d) return tpi_retain(t);
    tp_tensor *out = tpi_empty_like(t, d);
    if (!out || tpi_copy_data(out, t)) return out;
    tpi_release(out);
    return NULL;
}

tp_tensor *tpi_on_host(tp_tensor *t) {
    tpi_looked(t);
    if (tpi_device(t).type == TP_CPU) return tpi_contiguous_data(t);
    tp_tensor *here = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0});
    if (!here || tpi_copy_data(here, t)) return here;
    tpi_release(here);
    return NULL;
}

tp_tensor *tpi_moved_data(tp_tensor *t, tp_device to) {
    if (!t || tpi_same_device(tpi_device(t), to)) return t;
    tp_tensor *there = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, to);
    if (there && !tpi_copy_data(there, t)) {
        tpi_release(there);
        there = NULL;
    }
    tpi_release(t);
    return there;
}

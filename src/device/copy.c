/* Plain data movement between tensors, no tape: within a device by its own convert-and-copy, between devices as
 * contiguous bytes by way of the host. The caller raises the version of what it had written. */
#include "device/launch.h"
#include "tensor/recorder.h"
#include "tensor/same_device.h"

static const tpi_device_ops *device_with(tp_device where, bool copies) {
    const tpi_device_ops *ops = tpi_device_ops_of(where);
    if (!ops) return NULL;
    if (copies ? !ops->copy : !ops->fill)
        return tpi_fail(TP_ERR_MISSING, "device '%s' cannot %s tensors", ops->name, copies ? "copy" : "fill");
    return ops;
}

static bool copy_within(tp_tensor *dst, const tp_tensor *src) {
    const tpi_device_ops *ops = device_with(tpi_device(dst), true);
    tpi_plan plan;
    return ops && tpi_plan_make(&plan, tpi_shape(dst), 1, 2, (tp_tensor *[]){dst, (tp_tensor *)src}) &&
           ops->copy(tpi_device(dst), &plan);
}

/* The bytes of a contiguous tensor to a contiguous one of the same dtype and size on another device. */
static bool move_bytes(tp_tensor *dst, const tp_tensor *src) {
    const tpi_device_ops *to = tpi_device_ops_of(tpi_device(dst)), *from = tpi_device_ops_of(tpi_device(src));
    if (!to || !from) return false;
    size_t bytes = (size_t)src->numel * tpi_itemsize(src);
    if (bytes == 0) return true;
    tp_device there = tpi_device(dst), here = tpi_device(src);
    if (there.type == TP_CPU) return from->to_host(here, dst->data, src->data, bytes);
    if (here.type == TP_CPU) return to->from_host(there, dst->data, src->data, bytes);
    if (to == from && to->to_peer) return to->to_peer(there, dst->data, here, src->data, bytes);
    void *host = tpi_alloc(bytes);
    bool ok = host && from->to_host(here, host, src->data, bytes) && to->from_host(there, dst->data, host, bytes);
    if (host) tpi_free(host, bytes);
    return ok;
}

/* Made contiguous in the destination's dtype where it is, unless it is already, moved, and put in place there. */
static bool copy_between(tp_tensor *dst, const tp_tensor *src) {
    bool as_it_is = src->dtype == dst->dtype && tp_is_contiguous(src);
    tp_tensor *ready = as_it_is ? tpi_retain((tp_tensor *)src)
                                : tpi_empty(tpi_shape(src), (tp_dtype)dst->dtype, tpi_device(src)),
              *arrived = NULL;
    bool ok = ready && (as_it_is || copy_within(ready, src));
    if (ok && tp_is_contiguous(dst) && tpi_same_shape(dst, src)) {
        ok = move_bytes(dst, ready);
    } else if (ok) {
        arrived = tpi_empty(tpi_shape(src), (tp_dtype)dst->dtype, tpi_device(dst));
        ok = arrived && move_bytes(arrived, ready) && copy_within(dst, arrived);
    }
    if (arrived) tpi_release(arrived);
    if (ready) tpi_release(ready);
    return ok;
}

static bool copy(tp_tensor *dst, const tp_tensor *src) {
    bool convertible = tp_dtype_has_values((tp_dtype)src->dtype) && tp_dtype_has_values((tp_dtype)dst->dtype);
    if (dst->dtype != src->dtype && !convertible) {
        bool to = tp_dtype_has_values((tp_dtype)src->dtype);
        return tpi_refuse(TP_ERR_MISSING, "\"copy_\" not implemented for '%s'",
                          tp_dtype_word((tp_dtype)(to ? dst : src)->dtype));
    }
    if (!tpi_same_device(tpi_device(dst), tpi_device(src))) return copy_between(dst, src);
    if (!tpi_shares_memory(dst, src)) return copy_within(dst, src);
    tp_tensor *apart = tpi_empty_like(src, (tp_dtype)src->dtype);
    bool ok = apart && copy_within(apart, src) && copy_within(dst, apart);
    if (apart) tpi_release(apart);
    return ok;
}

static bool fill(tp_tensor *dst, tp_scalar value) {
    const tpi_device_ops *ops = device_with(tpi_device(dst), false);
    tpi_plan plan;
    return ops && tpi_plan_make(&plan, tpi_shape(dst), 1, 1, &dst) && ops->fill(tpi_device(dst), &plan, &value);
}

/* A copy by way of the host tells of itself alone. */
bool tpi_device_copy(tp_tensor *dst, const tp_tensor *src) {
    tpi_recorder *recorder = tpi_recording;
    if (__builtin_expect(!recorder, 1)) return copy(dst, src);
    tpi_recording = NULL;
    bool ok = copy(dst, src);
    tpi_recording = recorder;
    if (ok) recorder->copy(recorder, dst, src);
    return ok;
}

bool tpi_device_fill(tp_tensor *dst, tp_scalar value) {
    bool ok = fill(dst, value);
    if (__builtin_expect(tpi_recording != NULL, 0) && ok) tpi_recording->fill(tpi_recording, dst, value);
    return ok;
}

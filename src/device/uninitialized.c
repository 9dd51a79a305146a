/* See uninitialized.h. */
#include "device/uninitialized.h"
#include "device/device.h"
#include <math.h>

static bool wanted(void) { return tp_deterministic() != TP_DETERMINISTIC_OFF && tp_fill_uninitialized(); }

static tp_scalar filler(tp_dtype dtype) {
    static const int64_t largest[TP_DTYPE_COUNT] = {
        [TP_UINT8] = UINT8_MAX, [TP_INT8] = INT8_MAX,     [TP_INT16] = INT16_MAX,   [TP_INT32] = INT32_MAX,
        [TP_INT64] = INT64_MAX, [TP_UINT16] = UINT16_MAX, [TP_UINT32] = UINT32_MAX, [TP_UINT64] = -1,
    };
    if (dtype == TP_BOOL) return tp_truth(true);
    if (tp_dtype_is_complex(dtype)) return tp_cplx(NAN, NAN);
    return tp_dtype_is_floating(dtype) ? tp_float(NAN) : tp_int(largest[dtype]);
}

tp_tensor *tpi_uninitialized(tp_tensor *t) {
    if (!t || !wanted() || tpi_fill_data(t, filler((tp_dtype)t->dtype))) return t;
    tpi_release(t);
    return NULL;
}

bool tpi_uninitialized_from(tp_tensor *t, size_t bytes) {
    if (!wanted() || t->storage->bytes <= bytes) return true;
    size_t item = tpi_itemsize(t);
    int64_t first = (int64_t)((bytes + item - 1) / item), n = (int64_t)(t->storage->bytes / item) - first, one = 1;
    if (n <= 0) return true;
    tp_tensor *rest = tpi_alias(t, 1, &n, &one, first);
    bool ok = rest && tpi_fill_data(rest, filler((tp_dtype)t->dtype));
    tpi_release(rest);
    return ok;
}

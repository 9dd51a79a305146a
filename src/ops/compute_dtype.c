/* Getting tensors in and out of natives that compute in float or double. */
#include "ops/compute_dtype.h"
#include "tensor/channels_last.h"

tp_dtype tpi_compute_dtype(const tp_tensor *t, const char *argument) {
    if (t->dtype == TP_FLOAT64) return TP_FLOAT64;
    if (t->dtype == TP_FLOAT32 || t->dtype == TP_FLOAT16 || t->dtype == TP_BFLOAT16) return TP_FLOAT32;
    tpi_fail(TP_ERR_MISSING, "argument '%s': not implemented for '%s', expected a floating dtype, got %s", argument,
             tp_dtype_word((tp_dtype)t->dtype), tp_dtype_name((tp_dtype)t->dtype));
    return TP_NO_DTYPE;
}

bool tpi_check_mixed_dtypes(const tp_tensor *input, int n, const tp_tensor *const *others) {
    const bool lower = input->dtype == TP_FLOAT16 || input->dtype == TP_BFLOAT16;
    for (int i = 0; i < n; i++) {
        if (!others[i] || others[i]->dtype == input->dtype || (lower && others[i]->dtype == TP_FLOAT32)) continue;
        return tpi_refuse(TP_ERR_RUNTIME,
                          "mixed dtype (CPU): all inputs must share same datatype. The input is %s, a parameter %s",
                          tp_dtype_name((tp_dtype)input->dtype), tp_dtype_name((tp_dtype)others[i]->dtype));
    }
    return true;
}

tp_tensor *tpi_to_compute(tp_tensor *t, tp_dtype dtype) {
    if (!t) return NULL;
    tp_tensor *typed = tpi_as_dtype_data(t, dtype);
    if (!typed) return NULL;
    tp_tensor *plain = tpi_contiguous_data(typed);
    tpi_release(typed);
    return plain;
}

tp_tensor *tpi_from_compute(tp_tensor *computed, tp_dtype dtype) {
    if (!computed || computed->dtype == dtype) return computed;
    tp_tensor *cast = tpi_as_dtype_data(computed, dtype);
    tpi_release(computed);
    return cast;
}

tp_tensor *tpi_from_compute_like(tp_tensor *computed, tp_dtype dtype, const tp_tensor *like) {
    if (!computed) return NULL;
    return tpi_from_compute_as(computed, dtype,
                               computed->ndim == like->ndim ? tpi_suggested_layout(like) : TP_CONTIGUOUS);
}

tp_tensor *tpi_from_compute_as(tp_tensor *computed, tp_dtype dtype, tp_layout layout) {
    if (!computed) return NULL;
    if (layout == TP_CONTIGUOUS) return tpi_from_compute(computed, dtype);
    tp_tensor *out = tpi_empty_layout(tpi_shape(computed), dtype, tpi_device(computed), layout);
    if (out && !tpi_copy_data(out, computed)) {
        tpi_release(out);
        out = NULL;
    }
    tpi_release(computed);
    return out;
}

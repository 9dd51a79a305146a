/* Getting tensors in and out of natives that compute in float or double. */
#include "ops/compute_dtype.h"
#include <stdio.h>

tp_dtype tpi_compute_dtype(const tp_tensor *t, const char *argument) {
    if (t->dtype == TP_FLOAT64) return TP_FLOAT64;
    if (t->dtype == TP_FLOAT32 || t->dtype == TP_FLOAT16 || t->dtype == TP_BFLOAT16) return TP_FLOAT32;
    tpi_fail(TP_ERR_MISSING, "argument '%s': \"%s\" not implemented for '%s', expected a floating dtype, got %s",
             argument, tpi_op_now ? tpi_op_now : "cpu", tp_dtype_word((tp_dtype)t->dtype),
             tp_dtype_name((tp_dtype)t->dtype));
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

tp_layout tpi_suggested_layout(const tp_tensor *t) {
    if ((t->ndim != 4 && t->ndim != 5) || t->strides[1] == 0) return TP_CONTIGUOUS;
    int64_t least =
        0; /* what the next dim's stride must reach: channels, then the last dim back to the third, then images */
    for (int i = 0; i < t->ndim; i++) {
        int d = i == 0 ? 1 : i < t->ndim - 1 ? t->ndim - i : 0;
        if (t->shape[d] == 0 || t->strides[d] < least) return TP_CONTIGUOUS;
        if (d == 0 && least == t->strides[1]) return TP_CONTIGUOUS; /* all sizes but the first are one */
        least = t->strides[d] * (t->shape[d] > 1 ? t->shape[d] : 1);
    }
    return t->ndim == 4 ? TP_CHANNELS_LAST : TP_CHANNELS_LAST_3D;
}

bool tpi_is_channels_last(const tp_tensor *t) {
    return (t->ndim == 4 && tp_is_contiguous_as(t, TP_CHANNELS_LAST)) ||
           (t->ndim == 5 && tp_is_contiguous_as(t, TP_CHANNELS_LAST_3D));
}

bool tpi_is_only_channels_last(const tp_tensor *t) { return !tp_is_contiguous(t) && tpi_is_channels_last(t); }

tp_tensor *tpi_from_compute_like(tp_tensor *computed, tp_dtype dtype, const tp_tensor *like) {
    if (!computed) return NULL;
    tp_layout layout = computed->ndim == like->ndim ? tpi_suggested_layout(like) : TP_CONTIGUOUS;
    if (layout == TP_CONTIGUOUS) return tpi_from_compute(computed, dtype);
    tp_tensor *out = tpi_empty_layout(tpi_shape(computed), dtype, tpi_device(computed), layout);
    if (out && !tpi_copy_data(out, computed)) {
        tpi_release(out);
        out = NULL;
    }
    tpi_release(computed);
    return out;
}

const char *tpi_sizes_by_x(const int64_t *sizes, int n, const int64_t *around, char buffer[TPI_BY_X]) {
    int length = 0;
    for (int i = 0; i < n && length < TPI_BY_X; i++)
        length += snprintf(buffer + length, (size_t)(TPI_BY_X - length), "%s%lld", i ? " x " : "",
                           (long long)(sizes[i] + (around ? 2 * around[i] : 0)));
    return buffer;
}

bool tpi_expand_ints(const char *argument, tp_ints given, int n, const int64_t *fallback, int64_t *out) {
    if ((!given.v || given.n == 0) && fallback) {
        for (int i = 0; i < n; i++) out[i] = fallback[i];
        return true;
    }
    if (given.n != 1 && given.n != n)
        return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected one value or %d, got %lld", argument, n,
                          (long long)given.n);
    for (int i = 0; i < n; i++) out[i] = given.v[given.n == 1 ? 0 : i];
    return true;
}

bool tpi_expand_steps(const char *argument, tp_ints given, int n, const int64_t *fallback, int64_t *out) {
    if (!tpi_expand_ints(argument, given, n, fallback, out)) return false;
    for (int i = 0; i < n; i++)
        if (out[i] > INT32_MAX || out[i] < -INT32_MAX)
            return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': integer out of range, expected 31 bits, got %lld",
                              argument, (long long)out[i]);
    return true;
}

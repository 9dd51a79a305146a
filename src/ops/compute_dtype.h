/* Natives that compute in float or double: 16-bit tensors are widened to float on the way in and rounded once on the
 * way out. */
#ifndef TPI_COMPUTE_DTYPE_H
#define TPI_COMPUTE_DTYPE_H
#include "tensor/tensor.h"

/* float16, bfloat16 and float32 compute in float32, float64 in itself; TP_NO_DTYPE and an error that names the argument
 * for others. */
tp_dtype tpi_compute_dtype(const tp_tensor *t, const char *argument);
/* Normalisations: parameters and statistics have the input's dtype, or float32 beside 16 bits; entries may be NULL. */
bool tpi_check_mixed_dtypes(const tp_tensor *input, int n, const tp_tensor *const *others);
/* The values of t, contiguous, in the dtype. Owned; t itself when it is so already. NULL in gives NULL out without an
 * error. */
tp_tensor *tpi_to_compute(tp_tensor *t, tp_dtype dtype);
/* Takes over `computed` and returns it in the dtype (an owned reference); NULL stays NULL. */
tp_tensor *tpi_from_compute(tp_tensor *computed, tp_dtype dtype);
/* Takes over `computed` and returns it in the dtype and with the stride order of `like`, of the same rank
 * (channels_last survives). */
tp_tensor *tpi_from_compute_like(tp_tensor *computed, tp_dtype dtype, const tp_tensor *like);
tp_tensor *tpi_from_compute_as(tp_tensor *computed, tp_dtype dtype, tp_layout layout); /* the same, in a layout */
/* Element i of computed data, which is float32 or float64. */
static inline double tpi_compute_get(const char *data, tp_dtype dtype, int64_t i) {
    return dtype == TP_FLOAT32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}
static inline void tpi_compute_set(char *data, tp_dtype dtype, int64_t i, double v) {
    if (dtype == TP_FLOAT32)
        ((float *)data)[i] = (float)v;
    else
        ((double *)data)[i] = v;
}
#endif

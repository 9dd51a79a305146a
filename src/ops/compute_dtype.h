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
/* The layout that results of t have: channels_last where its strides are in that order, even with gaps between
 * elements, else contiguous. Where sizes of one leave the order open it is contiguous, unless the channels' stride says
 * otherwise. */
tp_layout tpi_suggested_layout(const tp_tensor *t);
/* Images or volumes without gaps whose channels are the fastest dim of memory; a tensor may be so and contiguous at
 * once. The second is true where it is not contiguous too. */
bool tpi_is_channels_last(const tp_tensor *t);
bool tpi_is_only_channels_last(const tp_tensor *t);
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
/* "3 x 4" into `buffer`, for messages; `around` (may be NULL) is added on both sides of each size. Returns the buffer.
 */
enum { TPI_BY_X = 80 };
const char *tpi_sizes_by_x(const int64_t *sizes, int n, const int64_t *around, char buffer[TPI_BY_X]);
/* An argument of type int[n]: one value serves for all n. `fallback` (may be NULL) serves when it is not given or
 * empty. */
bool tpi_expand_ints(const char *argument, tp_ints given, int n, const int64_t *fallback, int64_t *out);
/* The same for kernels, strides, paddings and dilations, which have 31 bits: sums and products of two of them need no
 * look at overflow. */
bool tpi_expand_steps(const char *argument, tp_ints given, int n, const int64_t *fallback, int64_t *out);
#endif

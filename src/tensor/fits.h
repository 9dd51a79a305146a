/* Whether a number fits into a dtype. */
#ifndef TPI_FITS_H
#define TPI_FITS_H
#include "tensor/tensor.h"

/* Does the dtype hold the number? False and PyTorch's error if not; negative integers wrap in unsigned types, as
 * PyTorch's do. */
bool tpi_check_fits(tp_scalar value, tp_dtype dtype);
/* The same of a number that takes part in computing: 16-bit floats compute in float32. */
bool tpi_check_number_fits(tp_scalar value, tp_dtype dtype);
/* A bound of clamp: false and PyTorch's error where no element of the dtype could keep it. A bound that every element
 * keeps becomes the dtype's limit. */
bool tpi_fit_bound(tp_scalar *bound, tp_dtype dtype, bool least);

/* Those that fit everywhere need no look: every call with a factor comes by here. */
static inline bool tpi_check_number(tp_scalar value, tp_dtype dtype) {
    bool small = value.kind == TP_SCALAR_INT && value.as.i >= INT8_MIN && value.as.i <= INT8_MAX;
    return small || value.kind == TP_SCALAR_NONE || tpi_check_number_fits(value, dtype);
}
#endif

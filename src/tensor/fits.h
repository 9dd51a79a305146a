/* Whether a number fits into a tensor's dtype. */
#ifndef TPI_FITS_H
#define TPI_FITS_H
#include "tensor/tensor.h"

/* Does t's dtype hold the number? False and PyTorch's error if not; negative integers wrap in unsigned types, as
 * PyTorch's do. */
bool tpi_check_fits(tp_scalar value, const tp_tensor *t);
#endif

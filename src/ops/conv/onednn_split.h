/* Convolution in float32 by oneDNN's kernels, for the shapes where they were measured to be faster than the products
 * over patches. */
#ifndef TPI_CONV_ONEDNN_H
#define TPI_CONV_ONEDNN_H
#include "ops/conv/onednn.h"

/* Is the library there, and is this convolution one for it? That is a matter of the shape alone. last: x and y are
 * stored channels last; bias: one is added to the result. */
bool tpi_conv_onednn_fits(const tpi_conv *c, tpi_conv_role role, bool last, bool bias);
/* Computes the one of x, y and w that the role names from the other two, for a shape that fits. w is contiguous, x and
 * y too, or channels last; bias has one value per channel of x or y, or is NULL. False and an error without memory. */
bool tpi_conv_onednn(const tpi_conv *c, tpi_conv_role role, bool last, const float *x, const float *w,
                     const float *bias, const float *y);
#endif

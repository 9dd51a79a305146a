/* What a linear layer with a ReLU behind it does besides products. */
#ifndef TPI_LINEAR_RELU_H
#define TPI_LINEAR_RELU_H
#include <stdint.h>
#include "device/cpu/isa.h"
#include "device/device.h"
#include "ops/bag.h"

/* Over `rows` rows of n floats that begin `step` floats after each other.
 * x = x <= 0 ? 0 : x, as relu says it: a NaN stays. */
TPI_ISA_DECLARE(void, tpi_relu_floats, (int64_t rows, int64_t n, int64_t step, float *x));
/* masked = y <= 0 ? 0 : grad, and sums[j] the sum of its column j in the order of the rows; each with a step of its own. The gradient may come in two parts: `rest`, laid
 * out like it, is added if not NULL. */
TPI_ISA_DECLARE(void, tpi_relu_back_floats, (int64_t rows, int64_t n, const float *grad, const float *rest, int64_t grad_step, const float *y, int64_t y_step, float *masked, int64_t masked_step,
                                             float *sums));
/* to += x. */
TPI_ISA_DECLARE(void, tpi_add_floats, (int64_t n, const float *x, float *to));
/* The gradient of what a ReLU that gave `result` was given, by operators; it is in the bag. NULL: an error. */
tp_tensor *tpi_behind_relu(tpi_bag *bag, tp_tensor *grad, tp_tensor *result);
#endif

/* What distributions know of transforms: how many dims a value has before and after, and the functions without checks.
 */
#ifndef TPI_TRANSFORM_H
#define TPI_TRANSFORM_H
#include "tensor/tensor.h"
#include <taper/distribution.h>

int64_t tpi_transform_in_dims(const tp_transform *t);
int64_t tpi_transform_out_dims(const tp_transform *t);
/* 1 or -1 (or a tensor of them): does it grow or fall? NULL without an error: 1. An error where it is not known. */
tp_tensor *tpi_transform_sign(tp_transform *t);
tp_tensor *tpi_transform_forward(tp_transform *t, tp_tensor *x);
tp_tensor *tpi_transform_inverse(tp_transform *t, tp_tensor *y);
tp_tensor *tpi_transform_log_abs_det(tp_transform *t, tp_tensor *x, tp_tensor *y);
/* The sum over the last dims. */
tp_tensor *tpi_sum_rightmost(tp_tensor *t, int64_t dims);
#endif

/* Depthwise convolution without patches: with one channel on either side of a group a matrix product has nothing to
 * reuse. */
#ifndef TPI_CONV_DEPTHWISE_H
#define TPI_CONV_DEPTHWISE_H
#include "device/cpu/isa.h"
#include "device/device.h"
#include "ops/conv/conv.h"

/* One plane of x, one filter, one plane of y. y and x are added to; w (the taps) is added to. */
TPI_ISA_DECLARE(void, tpi_plane_y_f32, (const tpi_conv *c, const float *x, const float *w, float *y));
TPI_ISA_DECLARE(void, tpi_plane_x_f32, (const tpi_conv *c, const float *y, const float *w, float *x));
TPI_ISA_DECLARE(void, tpi_plane_w_f32, (const tpi_conv *c, const float *x, const float *y, float *w));
TPI_ISA_DECLARE(void, tpi_plane_y_f64, (const tpi_conv *c, const double *x, const double *w, double *y));
TPI_ISA_DECLARE(void, tpi_plane_x_f64, (const tpi_conv *c, const double *y, const double *w, double *x));
TPI_ISA_DECLARE(void, tpi_plane_w_f64, (const tpi_conv *c, const double *x, const double *y, double *w));
#endif

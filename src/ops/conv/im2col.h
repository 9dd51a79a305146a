/* Patches of an image as columns of a matrix, and back: what turns convolutions into matrix products. */
#ifndef TPI_IM2COL_H
#define TPI_IM2COL_H
#include "device/cpu/isa.h"
#include "device/device.h"
#include "ops/conv/conv.h"

/* Writes cols, (channels * taps, rows * y[2]) with rows ld elements apart: for the output rows row0 .. row0 + rows - 1
 * (depth and height counted together), the value of x under each tap, 0 outside. x points at the first of `channels`
 * planes of x[0] * x[1] * x[2]. */
TPI_ISA_DECLARE(void, tpi_im2col_f32,
                (const tpi_conv *c, int64_t channels, int64_t row0, int64_t rows, const float *x, float *cols,
                 int64_t ld));
TPI_ISA_DECLARE(void, tpi_im2col_f64,
                (const tpi_conv *c, int64_t channels, int64_t row0, int64_t rows, const double *x, double *cols,
                 int64_t ld));
TPI_ISA_DECLARE(void, tpi_im2col_i64,
                (const tpi_conv *c, int64_t channels, int64_t row0, int64_t rows, const int64_t *x, int64_t *cols,
                 int64_t ld));
TPI_ISA_DECLARE(void, tpi_im2col_u16,
                (const tpi_conv *c, int64_t channels, int64_t row0, int64_t rows, const uint16_t *x, uint16_t *cols,
                 int64_t ld));
/* The reverse: adds each entry of cols to the element of x it was taken from. */
TPI_ISA_DECLARE(void, tpi_col2im_f32,
                (const tpi_conv *c, int64_t channels, int64_t row0, int64_t rows, const float *cols, int64_t ld,
                 float *x));
TPI_ISA_DECLARE(void, tpi_col2im_f64,
                (const tpi_conv *c, int64_t channels, int64_t row0, int64_t rows, const double *cols, int64_t ld,
                 double *x));
TPI_ISA_DECLARE(void, tpi_col2im_i64,
                (const tpi_conv *c, int64_t channels, int64_t row0, int64_t rows, const int64_t *cols, int64_t ld,
                 int64_t *x));
/* The convolution of one channel whose windows are the patches of an image; false and an error for sizes that give
 * none. */
bool tpi_patches_geometry(tpi_conv *c, int64_t height, int64_t width, tp_ints kernel, tp_ints dilation, tp_ints padding,
                          tp_ints stride);
#endif

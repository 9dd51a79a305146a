/* Convolution of images with few channels, stride one, two spatial dims, float32: directly from rows of the image,
 * without columns.
 *
 * Images are copied into rows that are padded on all sides and some way past their end, so that the kernels need not
 * look where they are. */
#ifndef TPI_CONV_NARROW_H
#define TPI_CONV_NARROW_H
#include "device/cpu/isa.h"
#include "ops/conv/conv.h"

enum { TPI_NARROW_WIDTH = 32 }; /* rows of results are rounded up to this many for the kernels */

/* One image: x is (channels, ., x_row) with `patch` places of a patch's elements counted from an output's own; filters
 * (outputs, patch). */
typedef struct tpi_narrow {
    int64_t outputs, patch, height, width; /* of the result */
    int64_t x_row;                         /* from one row of x to the next */
    const int64_t *places;
    const float *filters, *bias; /* bias: NULL for none */
} tpi_narrow;

/* y (outputs, height, width) of one image. */
TPI_ISA_DECLARE(void, tpi_narrow_image, (const tpi_narrow *n, const float *x, float *y));
/* The filters' gradient over several images, x_image and y_image apart: grads (outputs, patch). Rows of y are y_row
 * long, a multiple of 16, and hold zeros past the width. */
TPI_ISA_DECLARE(void, tpi_narrow_filters,
                (const tpi_narrow *n, int64_t images, const float *x, int64_t x_image, const float *y, int64_t y_image,
                 int64_t y_row, float *grads));
#endif

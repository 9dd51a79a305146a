/* The kernels of embedding_bag. */
#ifndef TPI_BAG_ROWS_H
#define TPI_BAG_ROWS_H
#include <stdint.h>
#include "device/cpu/isa.h"
#include "device/device.h"

/* to = the sum, in their order, of the rows of a table `width` wide that n indices name, without the padding row.
 * `known`: how many indices there are from index on, those of later bags included, whose rows may be fetched ahead. */
TPI_ISA_DECLARE(void, tpi_bag_rows_f32,
                (int64_t width, int64_t n, int64_t known, const int64_t *index, int64_t padding, const float *table,
                 float *to));
TPI_ISA_DECLARE(void, tpi_bag_rows_f64,
                (int64_t width, int64_t n, int64_t known, const int64_t *index, int64_t padding, const double *table,
                 double *to));
/* to += x. */
TPI_ISA_DECLARE(void, tpi_add_floats, (int64_t n, const float *x, float *to));
#endif

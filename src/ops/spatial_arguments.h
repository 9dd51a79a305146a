/* Arguments that hold a number per spatial dim (kernels, strides, paddings, sizes), and how messages write them. */
#ifndef TPI_SPATIAL_ARGUMENTS_H
#define TPI_SPATIAL_ARGUMENTS_H
#include "tensor/tensor.h"

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

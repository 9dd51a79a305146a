/* Distances from one row to many, in the p-norm: the kernel of cdist. */
#ifndef TPI_DISTANCE_H
#define TPI_DISTANCE_H
#include "device/cpu/isa.h"
#include <stdint.h>

/* out[j] = |x - y[j]| for j < n; x has m elements, y is (n, m). */
TPI_ISA_DECLARE(void, tpi_distances_f32, (int64_t n, int64_t m, const float *x, const float *y, float *out, double p));
TPI_ISA_DECLARE(void, tpi_distances_f64,
                (int64_t n, int64_t m, const double *x, const double *y, double *out, double p));
/* The same for `rows` rows of x, one after the other, at most TPI_DISTANCE_ROWS, and few columns: y is (m, stride), of
 * which the first n of each row count; rows of out are out_stride apart. */
enum { TPI_DISTANCE_ROWS = 4, TPI_DISTANCE_COLUMNS = 64 };
TPI_ISA_DECLARE(void, tpi_distances_narrow_f32,
                (int64_t rows, int64_t n, int64_t m, const float *x, const float *y, int64_t stride, float *out,
                 int64_t out_stride, double p));
TPI_ISA_DECLARE(void, tpi_distances_narrow_f64,
                (int64_t rows, int64_t n, int64_t m, const double *x, const double *y, int64_t stride, double *out,
                 int64_t out_stride, double p));
#endif

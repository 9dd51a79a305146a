/* Normalisation kernels. Rows: layer, rms and group norm, whose statistics run over contiguous elements. Columns: batch
 * norm over (rows, channels), which is a two-dimensional or channels_last input. */
#ifndef TPI_NORM_ROWS_H
#define TPI_NORM_ROWS_H
#include "device/cpu/isa.h"
#include "device/device.h"

typedef struct tpi_norm { /* a layer or rms norm over rows of n; weight and bias (n each) may be NULL */
    int64_t n;
    bool centered; /* false: rms norm, whose mean counts as 0 */
    double eps;
    const void *weight, *bias;
    bool past; /* the result goes past the caches: its rows are multiples of 32 bytes, and the caller ends the stream */
} tpi_norm;

typedef enum tpi_column_sum {
    TPI_COLUMN_SUM,
    TPI_COLUMN_SQUARES,
    TPI_COLUMN_DOT
} tpi_column_sum; /* of a; of (a - mean)^2; of b (a - mean) */

#define TPI_NORM_KERNELS(REAL, suffix)                                                                                 \
    /* The sum of n elements; of (x - mean)^2; of y (x - mean). Blocks are summed in lanes, blocks' sums in double. */ \
    TPI_ISA_DECLARE(double, tpi_sum_##suffix, (int64_t n, const REAL *x));                                             \
    TPI_ISA_DECLARE(double, tpi_squares_##suffix, (int64_t n, const REAL *x, REAL mean));                              \
    TPI_ISA_DECLARE(double, tpi_dot_##suffix, (int64_t n, const REAL *x, REAL mean, const REAL *y));                   \
    /* y = (x - mean) * scale + shift, and y = a g + b (x - mean) + c. */                                              \
    TPI_ISA_DECLARE(void, tpi_scale_##suffix, (int64_t n, const REAL *x, REAL mean, REAL scale, REAL shift, REAL *y)); \
    TPI_ISA_DECLARE(void, tpi_blend_##suffix,                                                                          \
                    (int64_t n, const REAL *g, REAL a, const REAL *x, REAL mean, REAL b, REAL c, REAL *y));            \
    TPI_ISA_DECLARE(void, tpi_norm_rows_##suffix,                                                                      \
                    (const tpi_norm *s, int64_t rows, const REAL *x, REAL *y, REAL *mean, REAL *rstd));                \
    /* dx of each row; dweight and dbias (n each, may be NULL) are added to. */                                        \
    TPI_ISA_DECLARE(void, tpi_norm_rows_back_##suffix,                                                                 \
                    (const tpi_norm *s, int64_t rows, const REAL *grad, const REAL *x, const REAL *mean,               \
                     const REAL *rstd, REAL *dx, REAL *dweight, REAL *dbias));                                         \
    /* Adds the columns' sums over the rows to out; rows of `columns` elements follow one another. */                  \
    TPI_ISA_DECLARE(void, tpi_column_sums_##suffix,                                                                    \
                    (tpi_column_sum what, int64_t rows, int64_t columns, const REAL *a, const REAL *mean,              \
                     const REAL *b, double *out));                                                                     \
    TPI_ISA_DECLARE(void, tpi_scale_columns_##suffix,                                                                  \
                    (int64_t rows, int64_t columns, const REAL *x, const REAL *mean, const REAL *scale,                \
                     const REAL *shift, REAL *y));                                                                     \
    TPI_ISA_DECLARE(void, tpi_blend_columns_##suffix,                                                                  \
                    (int64_t rows, int64_t columns, const REAL *g, const REAL *a, const REAL *x, const REAL *mean,     \
                     const REAL *b, const REAL *c, REAL *y));
TPI_NORM_KERNELS(float, f32)
TPI_NORM_KERNELS(double, f64)
#endif

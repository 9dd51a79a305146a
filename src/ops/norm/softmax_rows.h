/* Softmax, log-softmax and their gradients over rows (the dim is the last) and over columns (others follow it). */
#ifndef TPI_SOFTMAX_ROWS_H
#define TPI_SOFTMAX_ROWS_H
#include "device/cpu/isa.h"
#include "device/device.h"

#define TPI_SOFTMAX_COLUMNS 64 /* columns that a call may be given */
/* rows: `rows` contiguous rows of n; past: y goes past the caches, then its rows are multiples of 32 bytes and the
 * caller ends the stream. columns: n rows of `columns` elements each, `stride` elements apart. */
#define TPI_SOFTMAX_KERNELS(REAL, suffix)                                                            \
    TPI_ISA_DECLARE(void, tpi_softmax_rows_##suffix,                                                 \
                    (bool log, bool past, int64_t rows, int64_t n, const REAL *x, REAL *y));         \
    TPI_ISA_DECLARE(void, tpi_softmax_rows_back_##suffix,                                            \
                    (bool log, int64_t rows, int64_t n, const REAL *grad, const REAL *y, REAL *dx)); \
    TPI_ISA_DECLARE(void, tpi_softmax_columns_##suffix,                                              \
                    (bool log, int64_t columns, int64_t n, int64_t stride, const REAL *x, REAL *y)); \
    TPI_ISA_DECLARE(                                                                                 \
        void, tpi_softmax_columns_back_##suffix,                                                     \
        (bool log, int64_t columns, int64_t n, int64_t stride, const REAL *grad, const REAL *y, REAL *dx));
TPI_SOFTMAX_KERNELS(float, f32)
TPI_SOFTMAX_KERNELS(double, f64)
#endif

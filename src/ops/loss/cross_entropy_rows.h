/* Cross entropy straight from rows of scores: the forward reads each row once for its largest score and once for the
 * sum of exponentials, and keeps those two numbers; the backward reads the row and writes its gradient. */
#ifndef TPI_CROSS_ENTROPY_ROWS_H
#define TPI_CROSS_ENTROPY_ROWS_H
#include "device/cpu/isa.h"
#include "device/device.h"

/* norms: for each row its largest score m and the logarithm of the sum of exp(x - m).
 * back: dx = scale[r] (softmax(x) - onehot(target[r])); where scale is 0 the row is zero. */
#define TPI_CROSS_ENTROPY_KERNELS(REAL, suffix)                                                             \
    TPI_ISA_DECLARE(void, tpi_score_norms_##suffix, (int64_t rows, int64_t n, const REAL *x, REAL *norms)); \
    TPI_ISA_DECLARE(void, tpi_cross_entropy_back_##suffix,                                                  \
                    (int64_t rows, int64_t n, const REAL *x, const REAL *norms, const int64_t *target,      \
                     const REAL *scale, REAL *dx));
TPI_CROSS_ENTROPY_KERNELS(float, f32)
TPI_CROSS_ENTROPY_KERNELS(double, f64)
#endif

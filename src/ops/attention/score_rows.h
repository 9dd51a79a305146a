/* What attention does to a block of scores between its matrix products. Rows are `ld` elements apart. */
#ifndef TPI_ATTENTION_SCORE_ROWS_H
#define TPI_ATTENTION_SCORE_ROWS_H
#include "device/cpu/isa.h"
#include "device/device.h"

/* Forward: score rows become weights exp(score - m) with the running maximum m, and the running sums follow. valid[r]
 * columns of row r count, the others become 0. factor[r] is what earlier results of the row must be multiplied with.
 * Backward: weights from the final maxima and sums together (lse), then score gradients w (dp - d) scale, in place of
 * dp. */
#define TPI_ATTENTION_KERNELS(REAL, suffix)                                                                           \
    TPI_ISA_DECLARE(void, tpi_attend_rows_##suffix,                                                                   \
                    (int64_t rows, int64_t columns, int64_t ld, const int64_t *valid, const REAL *mask, REAL *s,      \
                     REAL *m, REAL *sum, REAL *factor));                                                              \
    TPI_ISA_DECLARE(void, tpi_attend_again_##suffix,                                                                  \
                    (int64_t rows, int64_t columns, int64_t ld, const int64_t *valid, const REAL *mask,               \
                     const REAL *lse, REAL *s));                                                                      \
    TPI_ISA_DECLARE(void, tpi_attend_back_##suffix,                                                                   \
                    (int64_t rows, int64_t columns, int64_t ld, const REAL *w, const REAL *d, REAL scale, REAL *dp)); \
    TPI_ISA_DECLARE(void, tpi_attend_scale_##suffix,                                                                  \
                    (int64_t rows, int64_t columns, int64_t ld, const REAL *factor, REAL *x));                        \
    TPI_ISA_DECLARE(REAL, tpi_attend_dot_##suffix, (int64_t n, const REAL *x, const REAL *y));
TPI_ATTENTION_KERNELS(float, f32)
TPI_ATTENTION_KERNELS(double, f64)
#endif

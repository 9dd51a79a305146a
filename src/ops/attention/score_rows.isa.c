/* Attention's row kernels, for float and double. */
#ifndef KERNELS
#include <math.h>
#include "ops/attention/score_rows.h"
#include "device/cpu/vector_math.h"

#define KERNELS "ops/attention/score_rows.isa.c"
#include "ops/float_and_double.h"
#else /* the bodies, once per element type */

#include "ops/lanes.h"

void TPI_ISA(K(tpi_attend_rows))(int64_t rows, int64_t columns, int64_t ld, const int64_t *valid, const REAL *mask,
                                 REAL *s, REAL *m, REAL *sum, REAL *factor) {
    for (int64_t r = 0; r < rows; r++, s += ld) {
        int64_t n = valid[r] < columns ? valid[r] : columns;
        if (mask)
            for (int64_t c = 0; c < n; c++) s[c] += mask[r * ld + c];
        REAL most = K(row_max)(n, s);
        most = most > m[r] ? most : m[r];
        if (most == -INFINITY) { /* nothing to attend to yet */
            for (int64_t c = 0; c < columns; c++) s[c] = 0;
            factor[r] = 1;
            continue;
        }
        factor[r] = EXP(m[r] - most);
        for (int64_t c = 0; c < n; c++) s[c] = EXP(s[c] - most);
        for (int64_t c = n; c < columns; c++) s[c] = 0;
        sum[r] = sum[r] * factor[r] + K(row_sum)(n, s);
        m[r] = most;
    }
}

void TPI_ISA(K(tpi_attend_again))(int64_t rows, int64_t columns, int64_t ld, const int64_t *valid, const REAL *mask,
                                  const REAL *lse, REAL *s) {
    for (int64_t r = 0; r < rows; r++, s += ld) {
        int64_t n = lse[r] == -INFINITY ? 0 : valid[r] < columns ? valid[r] : columns;
        if (mask)
            for (int64_t c = 0; c < n; c++) s[c] += mask[r * ld + c];
        for (int64_t c = 0; c < n; c++) s[c] = EXP(s[c] - lse[r]);
        for (int64_t c = n; c < columns; c++) s[c] = 0;
    }
}

void TPI_ISA(K(tpi_attend_back))(int64_t rows, int64_t columns, int64_t ld, const REAL *w, const REAL *d, REAL scale,
                                 REAL *dp) {
    for (int64_t r = 0; r < rows; r++, w += ld, dp += ld)
        for (int64_t c = 0; c < columns; c++) dp[c] = w[c] * (dp[c] - d[r]) * scale;
}

void TPI_ISA(K(tpi_attend_scale))(int64_t rows, int64_t columns, int64_t ld, const REAL *factor, REAL *x) {
    for (int64_t r = 0; r < rows; r++, x += ld)
        for (int64_t c = 0; c < columns; c++) x[c] *= factor[r];
}

REAL TPI_ISA(K(tpi_attend_dot))(int64_t n, const REAL *x, const REAL *y) { return K(row_dot)(n, x, y); }
#endif

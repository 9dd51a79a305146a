/* The bodies of cross_entropy_rows.isa.c, included once per element type with REAL, BITS, EXP, LOG and K(name) defined. */

#include "ops/lanes.h"

#define PIECE 1024 /* exponentials in flight: they stay in the first cache */

void TPI_ISA(K(tpi_score_norms))(int64_t rows, int64_t n, const REAL *x, REAL *norms) {
    REAL e[PIECE];
    for (int64_t r = 0; r < rows; r++, x += n) {
        REAL m = K(row_max)(n, x), s = 0;
        for (int64_t first = 0; first < n; first += PIECE) {
            int64_t k = n - first < PIECE ? n - first : PIECE;
            for (int64_t i = 0; i < k; i++) e[i] = EXP(x[first + i] - m);
            s += K(row_sum)(k, e);
        }
        norms[2 * r] = m, norms[2 * r + 1] = LOG(s);
    }
}

void TPI_ISA(K(tpi_cross_entropy_back))(int64_t rows, int64_t n, const REAL *x, const REAL *norms, const int64_t *target, const REAL *scale, REAL *dx) {
    for (int64_t r = 0; r < rows; r++, x += n, dx += n) {
        const REAL k = scale[r], m = norms[2 * r], shift = norms[2 * r + 1];
        if (k == 0) {
            for (int64_t i = 0; i < n; i++) dx[i] = 0;
            continue;
        }
        for (int64_t i = 0; i < n; i++) dx[i] = k * EXP(x[i] - m - shift);
        dx[target[r]] -= k;
    }
}
#undef PIECE

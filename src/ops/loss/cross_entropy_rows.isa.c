/* Cross entropy over rows of scores, for float and double. */
#ifndef KERNELS
#include <math.h>
#include <string.h>
#include "ops/loss/cross_entropy_rows.h"
#include "device/cpu/vector_math.h"

#define KERNELS "ops/loss/cross_entropy_rows.isa.c"
#include "ops/float_and_double.h"
#else /* the bodies, once per element type */

#include "ops/lanes.h"

#define PIECE 1024 /* exponentials in flight: they stay in the first cache */
#define SHORT 64   /* rows below this length go several at a time */

/* Short rows: the exponentials of as many as fit in a piece are taken in one go. */
static void K(short_norms)(int64_t rows, int64_t n, const REAL *x, REAL *norms) {
    REAL e[PIECE];
    int64_t most = PIECE / n;
    for (int64_t first = 0; first < rows; first += most) {
        int64_t k = rows - first < most ? rows - first : most;
        const REAL *from = x + first * n;
        for (int64_t r = 0; r < k; r++) {
            REAL m = -INFINITY;
            for (int64_t i = 0; i < n; i++) m = from[r * n + i] > m ? from[r * n + i] : m;
            for (int64_t i = 0; i < n; i++) e[r * n + i] = from[r * n + i] - m;
            norms[2 * (first + r)] = m;
        }
        for (int64_t i = 0; i < k * n; i++) e[i] = EXP(e[i]);
        for (int64_t r = 0; r < k; r++) {
            REAL s = 0;
            for (int64_t i = 0; i < n; i++) s += e[r * n + i];
            norms[2 * (first + r) + 1] = s;
        }
    }
    for (int64_t r = 0; r < rows; r++) norms[2 * r + 1] = LOG(norms[2 * r + 1]);
}

void TPI_ISA(K(tpi_score_norms))(int64_t rows, int64_t n, const REAL *x, REAL *norms) {
    REAL e[PIECE];
    if (n > 0 && n < SHORT) {
        K(short_norms)(rows, n, x, norms);
        return;
    }
    for (int64_t r = 0; r < rows; r++, x += n) {
        REAL m = K(row_max)(n, x), s = 0;
        for (int64_t first = 0; first < n; first += PIECE) {
            int64_t k = n - first < PIECE ? n - first : PIECE;
            for (int64_t i = 0; i < k; i++) e[i] = EXP(x[first + i] - m);
            s += K(row_sum)(k, e);
        }
        norms[2 * r] = m;
        norms[2 * r + 1] = LOG(s);
    }
}

static void K(short_back)(int64_t rows, int64_t n, const REAL *x, const REAL *norms, const int64_t *target,
                          const REAL *scale, REAL *dx) {
    int64_t most = PIECE / n;
    for (int64_t first = 0; first < rows; first += most) {
        int64_t k = rows - first < most ? rows - first : most;
        const REAL *from = x + first * n;
        REAL *to = dx + first * n;
        for (int64_t r = 0; r < k; r++) {
            const REAL m = norms[2 * (first + r)], shift = norms[2 * (first + r) + 1];
            for (int64_t i = 0; i < n; i++) to[r * n + i] = from[r * n + i] - m - shift;
        }
        for (int64_t i = 0; i < k * n; i++) to[i] = EXP(to[i]);
        for (int64_t r = 0; r < k; r++) {
            const REAL by = scale[first + r];
            for (int64_t i = 0; i < n; i++) to[r * n + i] = by == 0 ? 0 : by * to[r * n + i];
            if (by != 0) to[r * n + target[first + r]] -= by;
        }
    }
}

void TPI_ISA(K(tpi_cross_entropy_back))(int64_t rows, int64_t n, const REAL *x, const REAL *norms,
                                        const int64_t *target, const REAL *scale, REAL *dx) {
    if (n > 0 && n < SHORT) {
        K(short_back)(rows, n, x, norms, target, scale, dx);
        return;
    }
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
#undef SHORT
#endif

/* One step of an LSTM, forward and backward, for float and double. */
#ifndef KERNELS
#include "ops/recurrent/lstm_rows.h"
#include "device/cpu/element.h"

#define KERNELS "ops/recurrent/lstm_rows.isa.c"
#include "ops/float_and_double.h"
#else /* the bodies, once per element type */

/* 1 / (1 + exp(-x)): exp overflows to infinity, which gives 0. */
static inline REAL K(sigmoid)(REAL x) { return 1 / (1 + K(el_exp)(-x)); }

void TPI_ISA(K(tpi_lstm_step))(int64_t rows, int64_t width, REAL *gates, const REAL *before, REAL *cells, REAL *out) {
    for (int64_t r = 0; r < rows; r++, before += width, cells += width, out += width, gates += 4 * width) {
        REAL *restrict i = gates, *restrict f = gates + width, *restrict g = gates + 2 * width,
                       *restrict o = gates + 3 * width;
        REAL *restrict c = cells, *restrict h = out;
#pragma omp simd
        for (int64_t k = 0; k < width; k++) {
            i[k] = K(sigmoid)(i[k]);
            f[k] = K(sigmoid)(f[k]);
            o[k] = K(sigmoid)(o[k]);
        }
#pragma omp simd
        for (int64_t k = 0; k < width; k++) {
            g[k] = K(el_tanh)(g[k]);
            c[k] = f[k] * before[k] + i[k] * g[k];
            h[k] = o[k] * K(el_tanh)(c[k]);
        }
    }
}

void TPI_ISA(K(tpi_lstm_back))(int64_t rows, int64_t width, const REAL *acts, const REAL *before, const REAL *cells,
                               const REAL *grad, const REAL *dh, REAL *dc, REAL *dgates) {
    for (int64_t r = 0; r < rows; r++, acts += 4 * width, dgates += 4 * width) {
        const REAL *i = acts, *f = acts + width, *g = acts + 2 * width, *o = acts + 3 * width;
        const REAL *b = before + r * width, *c = cells + r * width, *above = grad + r * width, *later = dh + r * width;
        REAL *restrict dcell = dc + r * width, *restrict di = dgates, *restrict df = dgates + width,
                       *restrict dg = dgates + 2 * width, *restrict ddo = dgates + 3 * width;
#pragma omp simd
        for (int64_t k = 0; k < width; k++) {
            REAL t = K(el_tanh)(c[k]), h = above[k] + later[k], whole = dcell[k] + h * o[k] * (1 - t * t);
            di[k] = whole * g[k] * i[k] * (1 - i[k]);
            df[k] = whole * b[k] * f[k] * (1 - f[k]);
            dg[k] = whole * i[k] * (1 - g[k] * g[k]);
            ddo[k] = h * t * o[k] * (1 - o[k]);
            dcell[k] = whole * f[k];
        }
    }
}
#endif

/* Normalisation kernels, for float and double. */
#ifndef KERNELS
#include <math.h>
#include "ops/norm/norm_rows.h"

#define COLUMNS 64 /* columns whose partial sums are kept at a time */
#define KERNELS "ops/norm/norm_rows.isa.c"
#include "ops/float_and_double.h"
#else /* the bodies, once per element type */

#include "ops/lanes.h"

#define BLOCK    2048 /* elements summed in the element type before the sum moves to double */

double TPI_ISA(K(tpi_sum))(int64_t n, const REAL *x) {
    double total = 0;
    for (int64_t i = 0; i < n; i += BLOCK) total += (double)K(row_sum)(n - i < BLOCK ? n - i : BLOCK, x + i);
    return total;
}

/* With what lies at `ahead`, if anything, on its way. */
static inline REAL K(block_squares)(int64_t n, const REAL *x, REAL mean, const REAL *ahead) {
#define EACH(i)  (LOAD(x + (i)) - mean) * (LOAD(x + (i)) - mean)
#define ALONE(i) (x[i] - mean) * (x[i] - mean)
#define FETCH \
    if (ahead) K(fetch)(ahead + i), K(fetch)(ahead + i + 2 * LANES)
    ROW_TOTAL(n, EACH, ALONE, FETCH);
#undef EACH
#undef ALONE
#undef FETCH
}

static inline REAL K(block_dot)(int64_t n, const REAL *x, REAL mean, const REAL *y) {
#define EACH(i)  (LOAD(x + (i)) - mean) * LOAD(y + (i))
#define ALONE(i) (x[i] - mean) * y[i]
    ROW_TOTAL(n, EACH, ALONE, (void)0);
#undef EACH
#undef ALONE
}

static inline double K(squares)(int64_t n, const REAL *x, REAL mean, const REAL *ahead) {
    double total = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        total += (double)K(block_squares)(n - i < BLOCK ? n - i : BLOCK, x + i, mean, ahead ? ahead + i : NULL);
    return total;
}

double TPI_ISA(K(tpi_squares))(int64_t n, const REAL *x, REAL mean) { return K(squares)(n, x, mean, NULL); }

double TPI_ISA(K(tpi_dot))(int64_t n, const REAL *x, REAL mean, const REAL *y) {
    double total = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        total += (double)K(block_dot)(n - i < BLOCK ? n - i : BLOCK, x + i, mean, y + i);
    return total;
}

void TPI_ISA(K(tpi_scale))(int64_t n, const REAL *x, REAL mean, REAL scale, REAL shift, REAL *y) {
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale + shift;
}

void TPI_ISA(K(tpi_blend))(int64_t n, const REAL *g, REAL a, const REAL *x, REAL mean, REAL b, REAL c, REAL *y) {
    for (int64_t i = 0; i < n; i++) y[i] = a * g[i] + b * (x[i] - mean) + c;
}

/* y = (x - mean) k w + b. */
static inline void K(norm_row)(int64_t n, const REAL *x, REAL mean, REAL k, const REAL *w, const REAL *b, REAL *y,
                               bool past) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        K(lanes) v = (LOAD(x + i) - mean) * k;
        if (w) v *= LOAD(w + i);
        if (b) v += LOAD(b + i);
        K(put)(y + i, &v, past);
    }
    for (; i < n; i++) {
        REAL v = (x[i] - mean) * k;
        if (w) v *= w[i];
        y[i] = b ? v + b[i] : v;
    }
}

void TPI_ISA(K(tpi_norm_rows))(const tpi_norm *s, int64_t rows, const REAL *x, REAL *y, REAL *mean, REAL *rstd) {
    const REAL *w = s->weight, *b = s->bias;
    int64_t n = s->n;
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        REAL m = s->centered ? (REAL)(TPI_ISA(K(tpi_sum))(n, x) / (double)n) : 0;
        REAL k = (REAL)(1.0 / sqrt(K(squares)(n, x, m, x + n) / (double)n +
                                   s->eps)); /* the next row comes while memory has nothing to write */
        if (w && b)
            K(norm_row)(n, x, m, k, w, b, y, s->past);
        else if (w)
            K(norm_row)(n, x, m, k, w, NULL, y, s->past);
        else
            K(norm_row)(n, x, m, k, NULL, b, y, s->past);
        if (mean) mean[r] = m;
        rstd[r] = k;
    }
}

/* With h = (x - mean) rstd and v = grad w:  dx = rstd (v - sum(v) / n - h sum(v h) / n);  an rms norm has no middle
 * term. */
void TPI_ISA(K(tpi_norm_rows_back))(const tpi_norm *s, int64_t rows, const REAL *grad, const REAL *x, const REAL *mean,
                                    const REAL *rstd, REAL *dx, REAL *dweight, REAL *dbias) {
    const REAL *w = s->weight;
    int64_t n = s->n;
    for (int64_t r = 0; r < rows; r++, grad += n, x += n, dx += n) {
        REAL m = s->centered ? mean[r] : 0, k = rstd[r];
        const REAL *v = grad;
        if (w) {
            for (int64_t i = 0; i < n; i++) dx[i] = grad[i] * w[i];
            v = dx;
        }
        REAL plain = s->centered ? (REAL)(TPI_ISA(K(tpi_sum))(n, v) / (double)n) : 0;
        REAL along = (REAL)(TPI_ISA(K(tpi_dot))(n, x, m, v) * (double)k * (double)k / (double)n);
        if (dweight)
            for (int64_t i = 0; i < n; i++) dweight[i] += grad[i] * ((x[i] - m) * k);
        if (dbias)
            for (int64_t i = 0; i < n; i++) dbias[i] += grad[i];
        for (int64_t i = 0; i < n; i++) dx[i] = k * (v[i] - plain - (x[i] - m) * along);
    }
}

void TPI_ISA(K(tpi_column_sums))(tpi_column_sum what, int64_t rows, int64_t columns, const REAL *a, const REAL *mean,
                                 const REAL *b, double *out) {
    for (int64_t c0 = 0; c0 < columns; c0 += COLUMNS) {
        int64_t cols = columns - c0 < COLUMNS ? columns - c0 : COLUMNS;
        for (int64_t r0 = 0; r0 < rows; r0 += 256) { /* short runs in the element type, their sums in double */
            int64_t end = rows - r0 < 256 ? rows : r0 + 256;
            REAL part[COLUMNS] = {0};
            for (int64_t r = r0; r < end; r++) {
                const REAL *x = a + r * columns + c0, *y = b ? b + r * columns + c0 : NULL, *m = mean + c0;
                if (what == TPI_COLUMN_SUM)
                    for (int64_t c = 0; c < cols; c++) part[c] += x[c];
                else if (what == TPI_COLUMN_SQUARES)
                    for (int64_t c = 0; c < cols; c++) part[c] += (x[c] - m[c]) * (x[c] - m[c]);
                else
                    for (int64_t c = 0; c < cols; c++) part[c] += (x[c] - m[c]) * y[c];
            }
            for (int64_t c = 0; c < cols; c++) out[c0 + c] += (double)part[c];
        }
    }
}

void TPI_ISA(K(tpi_scale_columns))(int64_t rows, int64_t columns, const REAL *x, const REAL *mean, const REAL *scale,
                                   const REAL *shift, REAL *y) {
    for (int64_t r = 0; r < rows; r++, x += columns, y += columns)
        for (int64_t c = 0; c < columns; c++) y[c] = (x[c] - mean[c]) * scale[c] + shift[c];
}

void TPI_ISA(K(tpi_blend_columns))(int64_t rows, int64_t columns, const REAL *g, const REAL *a, const REAL *x,
                                   const REAL *mean, const REAL *b, const REAL *c, REAL *y) {
    for (int64_t r = 0; r < rows; r++, g += columns, x += columns, y += columns)
        for (int64_t i = 0; i < columns; i++) y[i] = a[i] * g[i] + b[i] * (x[i] - mean[i]) + c[i];
}
#undef BLOCK
#endif

/* The bodies of norm_rows.isa.c, included once per element type with REAL, BITS and K(name) defined. */
#include "ops/lanes.h"

#define BLOCK 2048 /* elements summed in the element type before the sum moves to double */

double TPI_ISA(K(tpi_sum))(int64_t n, const REAL *x) {
    double total = 0;
    for (int64_t i = 0; i < n; i += BLOCK) total += (double)K(row_sum)(n - i < BLOCK ? n - i : BLOCK, x + i);
    return total;
}

static inline REAL K(block_squares)(int64_t n, const REAL *x, REAL mean) {
    K(lanes) a = {0}, b = {0};
    REAL rest = 0;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        K(lanes) u = LOAD(x + i) - mean, v = LOAD(x + i + LANES) - mean;
        a += u * u, b += v * v;
    }
    for (; i < n; i++) rest += (x[i] - mean) * (x[i] - mean);
    a += b;
    return K(lanes_sum)(&a) + rest;
}

static inline REAL K(block_dot)(int64_t n, const REAL *x, REAL mean, const REAL *y) {
    K(lanes) a = {0}, b = {0};
    REAL rest = 0;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a += (LOAD(x + i) - mean) * LOAD(y + i);
        b += (LOAD(x + i + LANES) - mean) * LOAD(y + i + LANES);
    }
    for (; i < n; i++) rest += (x[i] - mean) * y[i];
    a += b;
    return K(lanes_sum)(&a) + rest;
}

double TPI_ISA(K(tpi_squares))(int64_t n, const REAL *x, REAL mean) {
    double total = 0;
    for (int64_t i = 0; i < n; i += BLOCK) total += (double)K(block_squares)(n - i < BLOCK ? n - i : BLOCK, x + i, mean);
    return total;
}

double TPI_ISA(K(tpi_dot))(int64_t n, const REAL *x, REAL mean, const REAL *y) {
    double total = 0;
    for (int64_t i = 0; i < n; i += BLOCK) total += (double)K(block_dot)(n - i < BLOCK ? n - i : BLOCK, x + i, mean, y + i);
    return total;
}

void TPI_ISA(K(tpi_scale))(int64_t n, const REAL *x, REAL mean, REAL scale, REAL shift, REAL *y) {
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale + shift;
}

void TPI_ISA(K(tpi_blend))(int64_t n, const REAL *g, REAL a, const REAL *x, REAL mean, REAL b, REAL c, REAL *y) {
    for (int64_t i = 0; i < n; i++) y[i] = a * g[i] + b * (x[i] - mean) + c;
}

void TPI_ISA(K(tpi_norm_rows))(const tpi_norm *s, int64_t rows, const REAL *x, REAL *y, REAL *mean, REAL *rstd) {
    const REAL *w = s->weight, *b = s->bias;
    int64_t n = s->n;
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        REAL m = s->centered ? (REAL)(TPI_ISA(K(tpi_sum))(n, x) / (double)n) : 0;
        REAL k = (REAL)(1.0 / sqrt(TPI_ISA(K(tpi_squares))(n, x, m) / (double)n + s->eps));
        for (int64_t from = 0; from < n; from += 512) {
            int64_t to = n - from < 512 ? n : from + 512;
            K(fetch_ahead)(to - from, x + n + from);
            if (w && b)
                for (int64_t i = from; i < to; i++) y[i] = (x[i] - m) * k * w[i] + b[i];
            else if (w)
                for (int64_t i = from; i < to; i++) y[i] = (x[i] - m) * k * w[i];
            else
                for (int64_t i = from; i < to; i++) y[i] = (x[i] - m) * k + (b ? b[i] : 0);
        }
        if (mean) mean[r] = m;
        rstd[r] = k;
    }
}

/* With h = (x - mean) rstd and v = grad w:  dx = rstd (v - sum(v) / n - h sum(v h) / n);  an rms norm has no middle term. */
void TPI_ISA(K(tpi_norm_rows_back))(const tpi_norm *s, int64_t rows, const REAL *grad, const REAL *x, const REAL *mean, const REAL *rstd, REAL *dx,
                                    REAL *dweight, REAL *dbias) {
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

void TPI_ISA(K(tpi_column_sums))(tpi_column_sum what, int64_t rows, int64_t columns, const REAL *a, const REAL *mean, const REAL *b, double *out) {
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

void TPI_ISA(K(tpi_scale_columns))(int64_t rows, int64_t columns, const REAL *x, const REAL *mean, const REAL *scale, const REAL *shift, REAL *y) {
    for (int64_t r = 0; r < rows; r++, x += columns, y += columns)
        for (int64_t c = 0; c < columns; c++) y[c] = (x[c] - mean[c]) * scale[c] + shift[c];
}

void TPI_ISA(K(tpi_blend_columns))(int64_t rows, int64_t columns, const REAL *g, const REAL *a, const REAL *x, const REAL *mean, const REAL *b, const REAL *c,
                                   REAL *y) {
    for (int64_t r = 0; r < rows; r++, g += columns, x += columns, y += columns)
        for (int64_t i = 0; i < columns; i++) y[i] = a[i] * g[i] + b[i] * (x[i] - mean[i]) + c[i];
}
#undef BLOCK

/* The bodies of softmax_rows.isa.c, included once per element type with REAL, BITS, EXP, LOG and K(name) defined. */

#include "ops/lanes.h"

#define AT_ONCE 16 /* exponentials side by side */
#define PIECE 2048 /* elements whose exponentials stay in the first cache */

/* y = exp(x - m), and lane by lane onto s. */
static inline void K(exp_step)(const REAL *x, REAL m, REAL *y, REAL *s) {
#pragma omp simd
    for (int l = 0; l < AT_ONCE; l++) {
        y[l] = EXP(x[l] - m);
        s[l] += y[l];
    }
}

/* y = exp(x - m) for n elements and their sum, with the next row on its way. */
static inline REAL K(exp_sum)(int64_t n, const REAL *x, REAL m, REAL *y) {
    REAL s[AT_ONCE] = {0};
    int64_t i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        K(fetch)(x + n + i);
        K(exp_step)(x + i, m, y + i, s);
    }
    if (i < n) { /* through a whole step: nothing comes of what fills it up */
        REAL in[AT_ONCE], out[AT_ONCE];
        for (int l = 0; l < AT_ONCE; l++) in[l] = i + l < n ? x[i + l] : -INFINITY;
        K(exp_step)(in, m, out, s);
        memcpy(y + i, out, (size_t)(n - i) * sizeof(REAL));
    }
    return K(row_sum)(AT_ONCE, s);
}

static inline void K(times)(int64_t n, const REAL *x, REAL by, REAL *y, bool past) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        K(lanes) v = LOAD(x + i) * by;
        K(put)(y + i, &v, past);
    }
    for (; i < n; i++) y[i] = x[i] * by;
}

static inline void K(less)(int64_t n, const REAL *x, REAL m, REAL shift, REAL *y, bool past) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        K(lanes) v = LOAD(x + i) - m - shift;
        K(put)(y + i, &v, past);
    }
    for (; i < n; i++) y[i] = x[i] - m - shift;
}

void TPI_ISA(K(tpi_softmax_rows))(bool log_form, bool past, int64_t rows, int64_t n, const REAL *x, REAL *y) {
    _Alignas(64) REAL room[PIECE];
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        REAL *e = n <= PIECE ? room : y, m = K(row_max)(n, x), s = K(exp_sum)(n, x, m, e);
        if (log_form) K(less)(n, x, m, LOG(s), y, past && e == room);
        else K(times)(n, e, 1 / s, y, past && e == room);
    }
}

/* softmax: dx = y (g - sum(g y)); log_softmax: dx = g - exp(y) sum(g). */
void TPI_ISA(K(tpi_softmax_rows_back))(bool log_form, int64_t rows, int64_t n, const REAL *grad, const REAL *y, REAL *dx) {
    for (int64_t r = 0; r < rows; r++, grad += n, y += n, dx += n) {
        REAL s = log_form ? K(row_sum)(n, grad) : K(row_dot)(n, grad, y);
        if (log_form)
            for (int64_t i = 0; i < n; i++) dx[i] = grad[i] - EXP(y[i]) * s;
        else
            for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (grad[i] - s);
    }
}

void TPI_ISA(K(tpi_softmax_columns))(bool log_form, int64_t columns, int64_t n, int64_t stride, const REAL *x, REAL *y) {
    REAL m[TPI_SOFTMAX_COLUMNS], s[TPI_SOFTMAX_COLUMNS];
    for (int64_t c = 0; c < columns; c++) m[c] = -INFINITY, s[c] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) m[c] = x[i * stride + c] > m[c] ? x[i * stride + c] : m[c];
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) {
            REAL e = EXP(x[i * stride + c] - m[c]);
            s[c] += e;
            y[i * stride + c] = e;
        }
    if (log_form)
        for (int64_t c = 0; c < columns; c++) s[c] = LOG(s[c]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++)
            y[i * stride + c] = log_form ? x[i * stride + c] - m[c] - s[c] : y[i * stride + c] / s[c];
}

void TPI_ISA(K(tpi_softmax_columns_back))(bool log_form, int64_t columns, int64_t n, int64_t stride, const REAL *grad, const REAL *y, REAL *dx) {
    REAL s[TPI_SOFTMAX_COLUMNS];
    for (int64_t c = 0; c < columns; c++) s[c] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) s[c] += log_form ? grad[i * stride + c] : grad[i * stride + c] * y[i * stride + c];
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) {
            REAL g = grad[i * stride + c], v = y[i * stride + c];
            dx[i * stride + c] = log_form ? g - EXP(v) * s[c] : v * (g - s[c]);
        }
}
#undef AT_ONCE
#undef PIECE

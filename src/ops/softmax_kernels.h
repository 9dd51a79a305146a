/* The bodies of softmax_rows.isa.c, included once per element type with REAL, BITS, EXP, LOG and K(name) defined. */

#include "ops/lanes.h"

#define PART 512 /* elements gone over at once */

/* y = exp(x - m) and its sum, with the next row on its way. y may be a scratch row. */
static inline REAL K(exp_sum)(int64_t n, const REAL *x, REAL m, REAL *y) {
    REAL s = 0;
    for (int64_t i = 0; i < n; i += PART) {
        int64_t part = n - i < PART ? n - i : PART;
        K(fetch_ahead)(part, x + n + i);
        for (int64_t j = i; j < i + part; j++) y[j] = EXP(x[j] - m);
        s += K(row_sum)(part, y + i);
    }
    return s;
}

void TPI_ISA(K(tpi_softmax_rows))(bool log_form, int64_t rows, int64_t n, const REAL *x, REAL *y) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        REAL m = K(row_max)(n, x), s = K(exp_sum)(n, x, m, y);
        if (log_form) {
            REAL shift = LOG(s);
            for (int64_t i = 0; i < n; i++) y[i] = x[i] - m - shift;
        } else {
            REAL share = 1 / s;
            for (int64_t i = 0; i < n; i++) y[i] *= share;
        }
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
#undef PART

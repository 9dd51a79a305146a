/* Softmax over rows and columns, for float and double. */
#ifndef KERNELS
#include <math.h>
#include <string.h>
#include "ops/norm/softmax_rows.h"
#include "device/cpu/vector_math.h"

/* EXP gives 0 for a share that is denormal in float32: what it is, then. In float64 it gives that itself. */
static inline float faint_share_f32(float x) { return x < -87.0f && x > -104.0f ? tpi_exp_f32(x) : 0.0f; }
static inline double faint_share_f64(double x) { return tpi_exp_f64(x); }

#define KERNELS "ops/norm/softmax_rows.isa.c"
#include "ops/float_and_double.h"
#else /* the bodies, once per element type */

#include "ops/lanes.h"

#define AT_ONCE 16   /* exponentials side by side */
#define PIECE   2048 /* elements whose exponentials stay in the first cache */

/* y = exp(x - m), and lane by lane onto s; `least` is the least so far. */
static inline void K(exp_step)(const REAL *x, REAL m, REAL *y, REAL *s, REAL *least) {
#pragma omp simd
    for (int l = 0; l < AT_ONCE; l++) {
        y[l] = EXP(x[l] - m);
        s[l] += y[l];
        least[l] = y[l] < least[l] ? y[l] : least[l];
    }
}

/* Denormal shares count for nothing in a sum, but they have a logarithm. */
static void K(put_faint)(int64_t n, int64_t stride, const REAL *x, REAL m, REAL *y) {
    for (int64_t i = 0; i < n; i++)
        if (y[i * stride] == 0) y[i * stride] = K(faint_share)(x[i * stride] - m);
}

/* y = exp(x - m) for n elements and their sum, with the next row on its way. */
static inline REAL K(exp_sum)(int64_t n, const REAL *x, REAL m, REAL *y, bool faint) {
    REAL s[AT_ONCE] = {0}, least[AT_ONCE];
    bool any = false;
    for (int l = 0; l < AT_ONCE; l++) least[l] = 1;
    int64_t i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        K(fetch)(x + n + i);
        K(exp_step)(x + i, m, y + i, s, least);
    }
    if (i < n) { /* through a whole step: nothing comes of what fills it up */
        REAL in[AT_ONCE], out[AT_ONCE], unused[AT_ONCE] = {0};
        for (int l = 0; l < AT_ONCE; l++) in[l] = i + l < n ? x[i + l] : -INFINITY;
        K(exp_step)(in, m, out, s, unused);
        memcpy(y + i, out, (size_t)(n - i) * sizeof(REAL));
        for (int l = 0; i + l < n; l++) any |= out[l] == 0;
    }
    for (int l = 0; l < AT_ONCE; l++) any |= least[l] == 0;
    if (any && faint) K(put_faint)(n, 1, x, m, y);
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
    _Alignas(64) REAL scratch[PIECE];
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        REAL *e = n <= PIECE ? scratch : y, m = K(row_max)(n, x), s = K(exp_sum)(n, x, m, e, !log_form);
        if (log_form)
            K(less)(n, x, m, LOG(s), y, past && e == scratch);
        else
            K(times)(n, e, 1 / s, y, past && e == scratch);
    }
}

/* softmax: dx = y (g - sum(g y)); log_softmax: dx = g - exp(y) sum(g). */
void TPI_ISA(K(tpi_softmax_rows_back))(bool log_form, int64_t rows, int64_t n, const REAL *grad, const REAL *y,
                                       REAL *dx) {
    for (int64_t r = 0; r < rows; r++, grad += n, y += n, dx += n) {
        REAL s = log_form ? K(row_sum)(n, grad) : K(row_dot)(n, grad, y);
        if (log_form)
            for (int64_t i = 0; i < n; i++) dx[i] = grad[i] - s * EXP(y[i]);
        else
            for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (grad[i] - s);
    }
}

/* A row of columns side by side: the largest so far; y = exp(x - m) onto s, with the least so far. */
static inline void K(columns_max)(int64_t columns, const REAL *restrict x, REAL *restrict m) {
    for (int64_t c = 0; c < columns; c++) m[c] = x[c] > m[c] ? x[c] : m[c];
}

static inline void K(columns_exp)(int64_t columns, const REAL *restrict x, const REAL *restrict m, REAL *restrict y,
                                  REAL *restrict s, REAL *restrict least) {
    for (int64_t c = 0; c < columns; c++) {
        REAL e = EXP(x[c] - m[c]);
        s[c] += e;
        least[c] = e < least[c] ? e : least[c];
        y[c] = e;
    }
}

static inline void K(columns_end)(bool log_form, int64_t columns, const REAL *restrict x, const REAL *restrict m,
                                  const REAL *restrict s, REAL *restrict y) {
    if (log_form)
        for (int64_t c = 0; c < columns; c++) y[c] = x[c] - m[c] - s[c];
    else
        for (int64_t c = 0; c < columns; c++) y[c] /= s[c];
}

void TPI_ISA(K(tpi_softmax_columns))(bool log_form, int64_t columns, int64_t n, int64_t stride, const REAL *x,
                                     REAL *y) {
    REAL m[TPI_SOFTMAX_COLUMNS], s[TPI_SOFTMAX_COLUMNS], least[TPI_SOFTMAX_COLUMNS];
    for (int64_t c = 0; c < columns; c++) {
        m[c] = -INFINITY;
        s[c] = 0;
        least[c] = 1;
    }
    for (int64_t i = 0; i < n; i++) K(columns_max)(columns, x + i * stride, m);
    for (int64_t i = 0; i < n; i++) K(columns_exp)(columns, x + i * stride, m, y + i * stride, s, least);
    for (int64_t c = 0; c < columns && !log_form; c++)
        if (least[c] == 0) K(put_faint)(n, stride, x + c, m[c], y + c);
    if (log_form)
        for (int64_t c = 0; c < columns; c++) s[c] = LOG(s[c]);
    for (int64_t i = 0; i < n; i++) K(columns_end)(log_form, columns, x + i * stride, m, s, y + i * stride);
}

static inline void K(columns_add)(bool log_form, int64_t columns, const REAL *restrict grad, const REAL *restrict y,
                                  REAL *restrict s) {
    if (log_form)
        for (int64_t c = 0; c < columns; c++) s[c] += grad[c];
    else
        for (int64_t c = 0; c < columns; c++) s[c] += grad[c] * y[c];
}

static inline void K(columns_back)(bool log_form, int64_t columns, const REAL *restrict grad, const REAL *restrict y,
                                   const REAL *restrict s, REAL *restrict dx) {
    if (log_form)
        for (int64_t c = 0; c < columns; c++) dx[c] = grad[c] - s[c] * EXP(y[c]);
    else
        for (int64_t c = 0; c < columns; c++) dx[c] = y[c] * (grad[c] - s[c]);
}

void TPI_ISA(K(tpi_softmax_columns_back))(bool log_form, int64_t columns, int64_t n, int64_t stride, const REAL *grad,
                                          const REAL *y, REAL *dx) {
    REAL s[TPI_SOFTMAX_COLUMNS];
    for (int64_t c = 0; c < columns; c++) s[c] = 0;
    for (int64_t i = 0; i < n; i++) K(columns_add)(log_form, columns, grad + i * stride, y + i * stride, s);
    for (int64_t i = 0; i < n; i++)
        K(columns_back)(log_form, columns, grad + i * stride, y + i * stride, s, dx + i * stride);
}
#undef AT_ONCE
#undef PIECE
#endif

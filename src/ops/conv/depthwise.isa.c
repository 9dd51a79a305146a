/* Depthwise planes: rows of the output against rows of the input, tap by tap. */
#ifndef KERNELS
#include "ops/conv/depthwise.h"

#define KERNELS "ops/conv/depthwise.isa.c"
#include "ops/float_and_double.h"
#else /* the bodies, once per element type */

/* For each tap and each output row it meets: outputs lo .. hi - 1 of the row at `yrow` see x[stride * w] from `xrow`
 * on. */
#define FOR_EACH_TAP_ROW(c, tap, xrow, yrow, lo, hi)                                \
    for (int64_t kd = 0, tap = 0; kd < c->k[0]; kd++)                               \
        for (int64_t kh = 0; kh < c->k[1]; kh++)                                    \
            for (int64_t kw = 0; kw < c->k[2]; kw++, tap++)                         \
                for (int64_t r = 0, lo, hi, xrow, yrow; r < c->y[0] * c->y[1]; r++) \
                    if (tpi_conv_tap_row(c, r, kd, kh, kw, &xrow, &yrow, &lo, &hi))

void TPI_ISA(K(tpi_plane_y))(const tpi_conv *c, const REAL *x, const REAL *w, REAL *y) {
    int64_t s = c->stride[2];
    FOR_EACH_TAP_ROW(c, tap, xrow, yrow, lo, hi) {
        const REAL *from = x + xrow;
        REAL *to = y + yrow, f = w[tap];
        if (s == 1)
            for (int64_t i = lo; i < hi; i++) to[i] += f * from[i];
        else
            for (int64_t i = lo; i < hi; i++) to[i] += f * from[i * s];
    }
}

void TPI_ISA(K(tpi_plane_x))(const tpi_conv *c, const REAL *y, const REAL *w, REAL *x) {
    int64_t s = c->stride[2];
    FOR_EACH_TAP_ROW(c, tap, xrow, yrow, lo, hi) {
        REAL *to = x + xrow, f = w[tap];
        const REAL *from = y + yrow;
        if (s == 1)
            for (int64_t i = lo; i < hi; i++) to[i] += f * from[i];
        else
            for (int64_t i = lo; i < hi; i++) to[i * s] += f * from[i];
    }
}

void TPI_ISA(K(tpi_plane_w))(const tpi_conv *c, const REAL *x, const REAL *y, REAL *w) {
    int64_t s = c->stride[2];
    FOR_EACH_TAP_ROW(c, tap, xrow, yrow, lo, hi) {
        const REAL *a = x + xrow, *b = y + yrow;
        REAL lane[8] = {0}, sum = 0;
        int64_t i = lo;
        for (; i + 8 <= hi; i += 8)
            for (int l = 0; l < 8; l++) lane[l] += a[(i + l) * s] * b[i + l];
        for (; i < hi; i++) sum += a[i * s] * b[i];
        for (int l = 0; l < 8; l++) sum += lane[l];
        w[tap] += sum;
    }
}
#undef FOR_EACH_TAP_ROW
#endif

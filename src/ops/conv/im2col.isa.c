/* Patches as columns, and back, for each element type. */
#ifndef REAL
#include <string.h>
#include "base/wrap.h"
#include "ops/conv/im2col.h"

#define REAL    float
#define K(name) name##_f32
#include "ops/conv/im2col.isa.c"
#undef REAL
#undef K
#define REAL    double
#define K(name) name##_f64
#include "ops/conv/im2col.isa.c"
#undef REAL
#undef K
#define REAL    int64_t
#define K(name) name##_i64
#include "ops/conv/im2col.isa.c"
#undef REAL
#undef K
#define REAL    uint16_t
#define K(name) name##_u16
#define COLUMNS_ALONE
#include "ops/conv/im2col.isa.c"
#else /* the bodies, once per element type; COLUMNS_ALONE: there is no way back */

void TPI_ISA(K(tpi_im2col))(const tpi_conv *c, int64_t channels, int64_t row0, int64_t rows, const REAL *x, REAL *cols,
                            int64_t ld) {
    int64_t width = c->y[2], plane = tpi_conv_xsize(c), s = c->stride[2];
    for (int64_t ch = 0; ch < channels; ch++, x += plane)
        for (int64_t kd = 0; kd < c->k[0]; kd++)
            for (int64_t kh = 0; kh < c->k[1]; kh++)
                for (int64_t kw = 0; kw < c->k[2]; kw++, cols += ld) {
                    int64_t lo, hi, xrow, yrow;
                    for (int64_t r = 0; r < rows; r++) {
                        if (!tpi_conv_tap_row(c, row0 + r, kd, kh, kw, &xrow, &yrow, &lo, &hi)) {
                            memset(cols + r * width, 0, (size_t)width * sizeof(REAL));
                            continue;
                        }
                        const REAL *from = x + xrow;
                        REAL *to = cols + r * width;
                        for (int64_t w = 0; w < lo; w++) to[w] = 0;
                        if (s == 1)
                            for (int64_t w = lo; w < hi; w++) to[w] = from[w];
                        else
                            for (int64_t w = lo; w < hi; w++) to[w] = from[w * s];
                        for (int64_t w = hi; w < width; w++) to[w] = 0;
                    }
                }
}

#ifndef COLUMNS_ALONE
void TPI_ISA(K(tpi_col2im))(const tpi_conv *c, int64_t channels, int64_t row0, int64_t rows, const REAL *cols,
                            int64_t ld, REAL *x) {
    int64_t width = c->y[2], plane = tpi_conv_xsize(c), s = c->stride[2];
    for (int64_t ch = 0; ch < channels; ch++, x += plane)
        for (int64_t kd = 0; kd < c->k[0]; kd++)
            for (int64_t kh = 0; kh < c->k[1]; kh++)
                for (int64_t kw = 0; kw < c->k[2]; kw++, cols += ld) {
                    int64_t lo, hi, xrow, yrow;
                    for (int64_t r = 0; r < rows; r++) {
                        if (!tpi_conv_tap_row(c, row0 + r, kd, kh, kw, &xrow, &yrow, &lo, &hi)) continue;
                        REAL *to = x + xrow;
                        const REAL *from = cols + r * width;
                        if (s == 1)
                            for (int64_t w = lo; w < hi; w++) to[w] = TPI_WRAPPING_SUM(to[w], from[w]);
                        else
                            for (int64_t w = lo; w < hi; w++) to[w * s] = TPI_WRAPPING_SUM(to[w * s], from[w]);
                    }
                }
}
#endif
#endif

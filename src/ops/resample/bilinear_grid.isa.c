/* See bilinear_grid.h: plain loops that the compiler vectorises. */
#include "ops/resample/bilinear_grid.h"
#include <math.h>

typedef int32_t __attribute__((may_alias))
bits; /* of a float: one that is outside counts as 0 whatever stands in its place, NaN or infinity */

static inline double pixel_of(double at, double n, bool align) {
    return align ? (at + 1) / 2 * (n - 1) : ((at + 1) * n - 1) / 2;
}

/* One axis of n pixels: the lower neighbour, whether it and the one above are inside, and how far the place is from it.
 * What is far away has none; what is no finite number has none either, but a distance that is NaN. */
static inline void axis(double at, double n, bool align, bool border, int32_t *low, int32_t *in, int32_t *in_next,
                        float *part) {
    double pixel = pixel_of(at, n, align);
    if (border) pixel = !(pixel > 0) ? 0 : pixel >= n - 1 ? n - 1 : pixel;
    const double lost = pixel - pixel; /* 0 or NaN */
    pixel = pixel > -2 && pixel < n + 1 ? pixel : -2;
    double floored = floor(pixel);
    *low = (int32_t)floored;
    *part = (float)(pixel - floored + lost);
    *in = -(floored >= 0 && floored < n);
    *in_next = -(floored >= -1 && floored < n - 1);
}

void TPI_ISA(tpi_grid_find)(int64_t n, const float *restrict grid, int64_t height, int64_t width, bool align,
                            bool border, tpi_grid_points *restrict p) {
    const double h = (double)height, w = (double)width;
    const int32_t step = (int32_t)width;
    int32_t x[TPI_GRID_BLOCK], y[TPI_GRID_BLOCK], xin[2][TPI_GRID_BLOCK], yin[2][TPI_GRID_BLOCK];
    float *restrict right = p->right, *restrict below = p->below;
    for (int64_t i = 0; i < n; i++)
        axis((double)grid[2 * i], w, align, border, &x[i], &xin[0][i], &xin[1][i], &right[i]);
    for (int64_t i = 0; i < n; i++)
        axis((double)grid[2 * i + 1], h, align, border, &y[i], &yin[0][i], &yin[1][i], &below[i]);
    for (int t = 0; t < 4; t++) {
        const int32_t *a = yin[t / 2], *b = xin[t % 2];
        for (int64_t i = 0; i < n; i++) {
            p->in[t][i] = a[i] & b[i];
            p->at[t][i] = ((y[i] + t / 2) * step + x[i] + t % 2) & p->in[t][i];
            p->weight[t][i] = (t / 2 ? below[i] : 1 - below[i]) * (t % 2 ? right[i] : 1 - right[i]);
        }
    }
}

typedef union value {
    int32_t i;
    float f;
} value;

void TPI_ISA(tpi_grid_read)(int64_t n, const float *restrict plane, const tpi_grid_points *restrict p,
                            float *restrict to) {
    const bits *from = (const bits *)plane;
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int t = 0; t < 4; t++) {
            const value v = {from[p->at[t][i]] & p->in[t][i]};
            sum += v.f * p->weight[t][i];
        }
        to[i] = sum;
    }
}

/* Sums over places are taken one after the other, as two may have the same neighbour; one that is outside adds 0. */
void TPI_ISA(tpi_grid_spread)(int64_t n, const float *restrict plane, const float *restrict grad,
                              const tpi_grid_points *restrict p, float *restrict back,
                              float dots[restrict 4][TPI_GRID_BLOCK]) {
    const bits *from = (const bits *)plane;
    float share[TPI_GRID_BLOCK][4];
    for (int t = 0; t < 4; t++)
        for (int64_t i = 0; i < n; i++) {
            const value v = {from[p->at[t][i]] & p->in[t][i]}, part = {.f = grad[i] * p->weight[t][i]};
            dots[t][i] += grad[i] * v.f;
            share[i][t] = ((value){part.i & p->in[t][i]}).f;
        }
    for (int64_t i = 0; i < n; i++) {
        TPI_UNROLL
        for (int t = 0; t < 4; t++) back[p->at[t][i]] += share[i][t];
    }
}

/* The derivative of a pixel's number by the grid's coordinate: none where the border holds it. */
static inline float pixel_slope(double at, double n, bool align, bool border) {
    const double pixel = pixel_of(at, n, align), slope = align ? (n - 1) / 2 : n / 2;
    return (float)(!border || (pixel > 0 && pixel < n - 1) ? slope : 0);
}

void TPI_ISA(tpi_grid_slopes)(int64_t n, const float *restrict grid, int64_t height, int64_t width, bool align,
                              bool border, const tpi_grid_points *restrict p, float dots[restrict 4][TPI_GRID_BLOCK],
                              float *restrict to) {
    for (int64_t i = 0; i < n; i++) {
        const float right = p->right[i], below = p->below[i];
        const float x = (1 - below) * (dots[1][i] - dots[0][i]) + below * (dots[3][i] - dots[2][i]);
        const float y = (1 - right) * (dots[2][i] - dots[0][i]) + right * (dots[3][i] - dots[1][i]);
        to[2 * i] = x * pixel_slope((double)grid[2 * i], (double)width, align, border);
        to[2 * i + 1] = y * pixel_slope((double)grid[2 * i + 1], (double)height, align, border);
    }
}

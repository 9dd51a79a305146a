/* See grid_places.h: plain loops that the compiler vectorises. */
#include "ops/resample/grid_places.h"
#include <math.h>

typedef int32_t __attribute__((may_alias))
bits; /* of a float: one that is outside counts as 0 whatever stands in its place, NaN or infinity */

/* One axis of n pixels: the lower neighbour, whether it and the one above are inside, and how far the place is from it.
 * What is far away has none; what is no finite number has none either, but a distance that is NaN. */
static inline void axis(double at, double n, bool align, bool border, int32_t *low, int32_t *in, int32_t *in_next,
                        float *part) {
    double pixel = align ? (at + 1) / 2 * (n - 1) : ((at + 1) * n - 1) / 2;
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
                            bool border, tpi_grid_places *restrict p) {
    const double h = (double)height, w = (double)width;
    const int32_t step = (int32_t)width;
    int32_t x[TPI_GRID_BLOCK], y[TPI_GRID_BLOCK], xin[2][TPI_GRID_BLOCK], yin[2][TPI_GRID_BLOCK];
    float right[TPI_GRID_BLOCK], below[TPI_GRID_BLOCK];
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

void TPI_ISA(tpi_grid_read)(int64_t n, const float *restrict plane, const tpi_grid_places *restrict p,
                            float *restrict to) {
    const bits *from = (const bits *)plane;
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int t = 0; t < 4; t++) {
            const union {
                int32_t i;
                float f;
            } v = {from[p->at[t][i]] & p->in[t][i]};
            sum += v.f * p->weight[t][i];
        }
        to[i] = sum;
    }
}

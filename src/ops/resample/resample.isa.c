/* Resampling rows, for float and double. */
#ifndef KERNELS
#include "ops/resample/resample.h"

#define KERNELS "ops/resample/resample.isa.c"
#include "ops/float_and_double.h"
#else /* the bodies, once per element type */

/* Elements that follow each other along the resampled dim: the loop is over outputs, and a sum stays in a register. */
static void K(resample_line)(const tpi_taps *t, const REAL *restrict x, REAL *restrict y) {
    const int64_t *index = t->index;
    const double *weight = t->weight;
    if (t->width == 1) {
        for (int64_t o = 0; o < t->out; o++) y[o] = (REAL)weight[o] * x[index[o]];
        return;
    }
    for (int64_t o = 0; o < t->out; o++, index += t->width, weight += t->width) {
        REAL sum = (REAL)weight[0] * x[index[0]];
        for (int64_t k = 1; k < t->width; k++) {
            const REAL w = (REAL)weight[k], v = x[index[k]];
            sum = w == 0 ? sum : sum + w * v;
        }
        y[o] = sum;
    }
}

void TPI_ISA(K(tpi_resample))(const tpi_taps *t, int64_t inner, const REAL *x, REAL *y) {
    if (inner == 1) {
        K(resample_line)(t, x, y);
        return;
    }
    for (int64_t o = 0; o < t->out; o++, y += inner) {
        const int64_t *index = t->index + o * t->width;
        const double *weight = t->weight + o * t->width;
        REAL w = (REAL)weight[0];
        const REAL *from = x + index[0] * inner;
        if (t->width == 1 && w == 1) {
            for (int64_t i = 0; i < inner; i++) y[i] = from[i];
            continue;
        }
        for (int64_t i = 0; i < inner; i++) y[i] = w * from[i];
        for (int64_t k = 1; k < t->width; k++) {
            w = (REAL)weight[k];
            from = x + index[k] * inner;
            if (w == 0) continue;
            for (int64_t i = 0; i < inner; i++) y[i] += w * from[i];
        }
    }
}

static void K(resample_line_back)(const tpi_taps *t, const REAL *restrict y, REAL *restrict x) {
    const int64_t *index = t->index;
    const double *weight = t->weight;
    for (int64_t o = 0; o < t->out; o++)
        for (int64_t k = 0; k < t->width; k++, index++, weight++)
            if (*weight != 0) x[*index] += (REAL)*weight * y[o];
}

void TPI_ISA(K(tpi_resample_back))(const tpi_taps *t, int64_t inner, const REAL *y, REAL *x) {
    if (inner == 1) {
        K(resample_line_back)(t, y, x);
        return;
    }
    for (int64_t o = 0; o < t->out; o++, y += inner)
        for (int64_t k = 0; k < t->width; k++) {
            REAL w = (REAL)t->weight[o * t->width + k], *to = x + t->index[o * t->width + k] * inner;
            if (w == 0) continue;
            for (int64_t i = 0; i < inner; i++) to[i] += w * y[i];
        }
}
#endif

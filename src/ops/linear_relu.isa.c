/* See linear_relu.h: plain loops that the compiler vectorises. */
#include "ops/linear_relu.h"

void TPI_ISA(tpi_relu_floats)(int64_t rows, int64_t n, int64_t step, float *x) {
    for (int64_t i = 0; i < rows; i++, x += step)
        for (int64_t j = 0; j < n; j++) x[j] = x[j] <= 0 ? 0 : x[j];
}

void TPI_ISA(tpi_relu_back_floats)(int64_t rows, int64_t n, int64_t step, const float *restrict grad, const float *restrict y, float *restrict masked, float *restrict sums) {
    for (int64_t j = 0; j < n; j++) sums[j] = 0;
    for (int64_t i = 0; i < rows; i++, grad += step, y += step, masked += step)
        for (int64_t j = 0; j < n; j++) {
            float g = y[j] > 0 ? grad[j] : 0;
            masked[j] = g, sums[j] += g;
        }
}

void TPI_ISA(tpi_add_floats)(int64_t n, const float *restrict x, float *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += x[i];
}

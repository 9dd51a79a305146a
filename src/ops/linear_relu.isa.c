/* See linear_relu.h: plain loops that the compiler vectorises. */
#include "ops/linear_relu.h"

void TPI_ISA(tpi_relu_floats)(int64_t rows, int64_t n, int64_t step, float *x) {
    for (int64_t i = 0; i < rows; i++, x += step)
        for (int64_t j = 0; j < n; j++) x[j] = x[j] <= 0 ? 0 : x[j];
}

void TPI_ISA(tpi_relu_back_floats)(int64_t rows, int64_t n, const float *restrict grad, const float *restrict rest, int64_t grad_step, const float *restrict y, int64_t y_step,
                                   float *restrict masked, int64_t masked_step, float *restrict sums) {
    for (int64_t j = 0; j < n; j++) sums[j] = 0;
    for (int64_t i = 0; i < rows; i++, grad += grad_step, y += y_step, masked += masked_step) {
        if (rest) {
            for (int64_t j = 0; j < n; j++) masked[j] = y[j] <= 0 ? 0 : grad[j] + rest[j];
            rest += grad_step;
        } else {
            for (int64_t j = 0; j < n; j++) masked[j] = y[j] <= 0 ? 0 : grad[j];
        }
        for (int64_t j = 0; j < n; j++) sums[j] += masked[j];
    }
}

void TPI_ISA(tpi_add_floats)(int64_t n, const float *restrict x, float *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += x[i];
}

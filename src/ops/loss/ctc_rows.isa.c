/* See ctc_rows.h. Arguments of exp stay where vector versions of it need no second look. */
#include "ops/loss/ctc_rows.h"
#include "device/cpu/element.h"

#define SAFE 300.0

/* Next to exp(0), what is below exp(-50) does not count. Volatile: of a constant the compiler takes exp beforehand, and
 * then calls it with the numbers as they were. */
static const volatile double least = -50, nothing = 0;

void TPI_ISA(tpi_ctc_step)(int64_t n, const double *restrict a, const double *restrict b, const double *restrict c,
                           const double *restrict skip, const double *restrict emit, double *restrict out) {
    const double low = least;
#pragma omp simd
    for (int64_t s = 0; s < n; s++) {
        const double third = c[s] + skip[s], two = a[s] > b[s] ? a[s] : b[s], most = two > third ? two : third;
        const double base = most > -INFINITY ? most : 0;
        const double x = a[s] - base, y = b[s] - base, z = third - base;
        const double sum = exp(x > low ? x : low) + exp(y > low ? y : low) + exp(z > low ? z : low);
        const double all = most + log(sum);
        out[s] = (most > -INFINITY ? all : most) + emit[s];
    }
}

void TPI_ISA(tpi_ctc_exp)(int64_t n, const double *restrict x, double *restrict out) {
    const double zero = nothing;
    int64_t far = 0;
#pragma omp simd reduction(+ : far)
    for (int64_t i = 0; i < n; i++) {
        const bool near = x[i] >= -SAFE && x[i] <= SAFE;
        out[i] = exp(near ? x[i] : zero);
        far += !near;
    }
    for (int64_t i = 0; far && i < n; i++)
        if (!(x[i] >= -SAFE && x[i] <= SAFE)) out[i] = exp(x[i]);
}

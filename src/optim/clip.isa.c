/* clip.c's kernels, compiled per instruction set: sixteen running values in double, so that the order of additions is
 * fixed, the loop vectorises and the square of a large float does not overflow. */
#include "optim/clip.h"
#include <math.h>

enum { LANES = 16 };
#define LARGER(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))

#define MEASURE(T, NAME, STEP, MERGE)                    \
    static double NAME(int64_t n, const T *x) {          \
        double sum[LANES] = {0};                         \
        int64_t k = 0;                                   \
        for (; k + LANES <= n; k += LANES)               \
            for (int l = 0; l < LANES; l++) {            \
                double v = (double)x[k + l], s = sum[l]; \
                sum[l] = STEP;                           \
            }                                            \
        for (int l = 0; k < n; k++, l++) {               \
            double v = (double)x[k], s = sum[l];         \
            sum[l] = STEP;                               \
        }                                                \
        for (int half = LANES / 2; half; half /= 2)      \
            for (int l = 0; l < half; l++) {             \
                double s = sum[l], v = sum[l + half];    \
                sum[l] = MERGE;                          \
            }                                            \
        return sum[0];                                   \
    }

#define KERNELS(T, SUFFIX)                                                      \
    MEASURE(T, squares##SUFFIX, s + v * v, s + v)                               \
    MEASURE(T, sum##SUFFIX, s + fabs(v), s + v)                                 \
    MEASURE(T, largest##SUFFIX, LARGER(fabs(v), s), LARGER(v, s))               \
    double TPI_ISA(tpi_clip_measure##SUFFIX)(int kind, int64_t n, const T *x) { \
        return kind == TPI_CLIP_SQUARES ? squares##SUFFIX(n, x)                 \
               : kind == TPI_CLIP_SUM   ? sum##SUFFIX(n, x)                     \
                                        : largest##SUFFIX(n, x);                  \
    }                                                                           \
    void TPI_ISA(tpi_clip_scale##SUFFIX)(int64_t n, T * x, T by) {              \
        for (int64_t k = 0; k < n; k++) x[k] *= by;                             \
    }

KERNELS(float, _f32)
KERNELS(double, _f64)

/* cdist's kernels, compiled per instruction set: sixteen running sums, so that the order of additions is fixed and the
 * loop vectorises. */
#include "ops/matmul/distance.h"
#include <math.h>

enum { LANES = 16 };

/* d * d + s, rounded once where the processor does that in one step. */
#if defined(__FMA__)
#define ADD_SQUARE(d, s)                                                                                           \
    (__typeof__(d))(sizeof(d) == sizeof(float) ? (__typeof__(d))__builtin_fmaf((float)(d), (float)(d), (float)(s)) \
                                               : (__typeof__(d))__builtin_fma(d, d, s))
#else
#define ADD_SQUARE(d, s) ((s) + (d) * (d))
#endif

/* One pass over a pair of rows: STEP folds the absolute difference d into s; MERGE joins two sums. */
#define PASS(T, NAME, STEP, MERGE)                          \
    static T NAME(int64_t m, const T *x, const T *y, T p) { \
        T sum[LANES] = {0};                                 \
        int64_t k = 0;                                      \
        (void)p;                                            \
        for (; k + LANES <= m; k += LANES)                  \
            for (int l = 0; l < LANES; l++) {               \
                T d = x[k + l] - y[k + l], s = sum[l];      \
                sum[l] = STEP;                              \
            }                                               \
        for (int l = 0; k < m; k++, l++) {                  \
            T d = x[k] - y[k], s = sum[l];                  \
            sum[l] = STEP;                                  \
        }                                                   \
        for (int half = LANES / 2; half; half /= 2)         \
            for (int l = 0; l < half; l++) {                \
                T s = sum[l], r = sum[l + half];            \
                sum[l] = MERGE;                             \
            }                                               \
        return sum[0];                                      \
    }

/* The largest difference; a NaN stays. */
#define LARGER(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))

#define DISTANCES(T, SUFFIX, FABS, SQRT, POW)                                                             \
    PASS(T, zero_norm##SUFFIX, s + (T)(d != 0), s + r)                                                    \
    PASS(T, one_norm##SUFFIX, s + FABS(d), s + r)                                                         \
    PASS(T, two_norm##SUFFIX, ADD_SQUARE(d, s), s + r)                                                    \
    PASS(T, largest##SUFFIX, LARGER(FABS(d), s), LARGER(s, r))                                            \
    PASS(T, p_norm##SUFFIX, s + POW(FABS(d), p), s + r)                                                   \
    void TPI_ISA(tpi_distances##SUFFIX)(int64_t n, int64_t m, const T *x, const T *y, T *out, double p) { \
        for (int64_t j = 0; j < n; j++, y += m) {                                                         \
            if (p == 2)                                                                                   \
                out[j] = SQRT(two_norm##SUFFIX(m, x, y, 2));                                              \
            else if (p == 1)                                                                              \
                out[j] = one_norm##SUFFIX(m, x, y, 1);                                                    \
            else if (p == 0)                                                                              \
                out[j] = zero_norm##SUFFIX(m, x, y, 0);                                                   \
            else if (isinf(p))                                                                            \
                out[j] = largest##SUFFIX(m, x, y, 0);                                                     \
            else                                                                                          \
                out[j] = POW(p_norm##SUFFIX(m, x, y, (T)p), (T)(1 / p));                                  \
        }                                                                                                 \
    }

DISTANCES(float, _f32, fabsf, sqrtf, powf)
DISTANCES(double, _f64, fabs, sqrt, pow)

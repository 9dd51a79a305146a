/* Triangular systems, a thread per right-hand side. Before this text: what matrix_gpu_kernel.h asks for; UPPER, UNIT:
 * the diagonal counts as ones. Matrix number b begins at b * n * n and has the strides `down` and `across`; a
 * right-hand side has the stride `step`, the next one is `next` further on, and those of the next matrix `matrix`. The
 * solutions take their places. */
#include "matrix_gpu_kernel.h"

KERNEL(entry)
(PTR(a), PTR(x), const int64_t systems, const int64_t sides, const int n, const int64_t down, const int64_t across,
 const int64_t step, const int64_t next, const int64_t matrix) {
    const int64_t i = (int64_t)BLOCK * THREADS + THREAD, b = i / sides;
    if (b >= systems) return;
    GLOBAL const num *m = AT(const num, a) + b * n * n;
    GLOBAL num *v = AT(num, x) + b * matrix + (i - b * sides) * next;
    for (int s = 0; s < n; s++) {
        const int row = UPPER ? n - 1 - s : s;
        num sum = v[row * step];
        for (int t = 0; t < s; t++) {
            const int k = UPPER ? n - 1 - t : t;
            sum = minus(sum, times(m[row * down + k * across], v[k * step]));
        }
        v[row * step] = UNIT ? sum : over(sum, m[row * (down + across)]);
    }
}

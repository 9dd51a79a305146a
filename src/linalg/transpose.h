/* Floats, or doubles where REAL is, transposed by eights, for kernels of *.isa.c files that pack what lies along the
 * other dim. */
#ifndef TPI_TRANSPOSE_H
#define TPI_TRANSPOSE_H
#include "linalg/float_vectors.h"
#include <stdint.h>

typedef REAL four __attribute__((vector_size(4 * sizeof(REAL))));
typedef REAL eight __attribute__((vector_size(8 * sizeof(REAL))));

/* Four elements of each of eight runs, transposed. */
INLINE void transpose_four(const REAL *const *from, int64_t at, eight *out) {
    eight r[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        four a, b;
        memcpy(&a, from[i] + at, sizeof a);
        memcpy(&b, from[i + 4] + at, sizeof b);
        r[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
    }
    eight low = __builtin_shufflevector(r[0], r[1], 0, 8, 1, 9, 4, 12, 5, 13),
          low2 = __builtin_shufflevector(r[2], r[3], 0, 8, 1, 9, 4, 12, 5, 13);
    eight high = __builtin_shufflevector(r[0], r[1], 2, 10, 3, 11, 6, 14, 7, 15),
          high2 = __builtin_shufflevector(r[2], r[3], 2, 10, 3, 11, 6, 14, 7, 15);
    out[0] = __builtin_shufflevector(low, low2, 0, 1, 8, 9, 4, 5, 12, 13);
    out[1] = __builtin_shufflevector(low, low2, 2, 3, 10, 11, 6, 7, 14, 15);
    out[2] = __builtin_shufflevector(high, high2, 0, 1, 8, 9, 4, 5, 12, 13);
    out[3] = __builtin_shufflevector(high, high2, 2, 3, 10, 11, 6, 7, 14, 15);
}

/* ... to four runs of eight, `to_step` apart. */
INLINE void transpose_half(const REAL *const *from, int64_t at, REAL *to, int64_t to_step) {
    eight out[4];
    transpose_four(from, at, out);
    UNROLL
    for (int i = 0; i < 4; i++) memcpy(to + i * to_step, &out[i], sizeof out[i]);
}

/* Eight runs of n elements, side by side in n runs of eight, `to_step` apart. The last few are taken together with some
 * that were there before. */
INLINE void transpose_eight(const REAL *const *from, int64_t n, REAL *to, int64_t to_step) {
    for (int64_t p = 0; n >= 4 && p < n; p += 4) {
        int64_t at = p < n - 4 ? p : n - 4;
        transpose_half(from, at, to + at * to_step, to_step);
    }
    for (int64_t p = 0; n < 4 && p < n; p++)
        for (int i = 0; i < 8; i++) memcpy(to + p * to_step + i, from[i] + p, sizeof *to); /* pairs may be unaligned */
}
#endif

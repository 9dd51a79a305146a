/* Panels of pairs of bfloat16s, packed for gemm_bf16.c and gemm_amx.c. */
#ifndef TPI_GEMM_PAIRS_H
#define TPI_GEMM_PAIRS_H
#include "linalg/float_vectors.h"
#include "linalg/gemm.h"
#include "linalg/transpose.h"

/* Two rows of PANEL bfloat16s become pairs, one from each. */
INLINE void interleave(const uint16_t *upper, const uint16_t *lower, uint16_t *to) {
    typedef uint16_t half __attribute__((vector_size(LANES * 2)));
    typedef uint16_t whole __attribute__((vector_size(LANES * 4)));
    UNROLL
    for (int i = 0; i < 2; i++) {
        half u, l;
        memcpy(&u, upper + i * LANES, sizeof u);
        memcpy(&l, lower + i * LANES, sizeof l);
        const whole both = __builtin_shufflevector(u, l, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24,
                                                   9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        memcpy(to + i * 2 * LANES, &both, sizeof both);
    }
}

/* gemm_kernels.h says what it does. The last pair of an odd k has a zero in it. */
static void pack_panel(const tpi_gemm *g, int64_t first, int64_t depth, int64_t at, int64_t columns, float *panel) {
    const uint16_t *b = (const uint16_t *)g->b + 2 * first * g->b_row + at * g->b_col;
    const int64_t whole = g->absent && first + depth == g->k ? depth - 1 : depth;
    uint16_t *to = (uint16_t *)(void *)panel;
    if (columns < PANEL || whole < depth) memset(panel, 0, (size_t)(depth * PANEL) * sizeof *panel);
    if (g->b_row == 1) { /* pairs lie there as they are */
        for (int64_t j = 0; j < PANEL; j += 8) {
            const float *from[8];
            for (int64_t i = 0; i < 8; i++)
                from[i] = (const float *)(const void *)(b + (j + i < columns ? j + i : columns - 1) * g->b_col);
            transpose_eight(from, whole, panel + j, PANEL);
        }
    } else if (g->b_col == 1 && columns == PANEL) {
        for (int64_t p = 0; p < whole; p++)
            interleave(b + 2 * p * g->b_row, b + (2 * p + 1) * g->b_row, to + 2 * p * PANEL);
    } else {
        for (int64_t p = 0; p < 2 * whole; p++)
            for (int64_t j = 0; j < columns; j++)
                to[p / 2 * 2 * PANEL + 2 * j + p % 2] = b[p * g->b_row + j * g->b_col];
    }
    for (int64_t j = 0; whole < depth && j < columns; j++)
        to[whole * 2 * PANEL + 2 * j] = b[2 * whole * g->b_row + j * g->b_col];
}
#endif

/* Panels of quads of bytes, packed for gemm_bytes.h and gemm_amx_bytes.c. An element of a and of a packed b is a quad
 * of bytes that follow each other in k. */
#ifndef TPI_GEMM_QUADS_H
#define TPI_GEMM_QUADS_H
#include <stdint.h>
#define REAL uint32_t
#include "base/memory.h"
#include "linalg/float_vectors.h"
#include "linalg/gemm.h"
#include "linalg/transpose.h"

/* Columns of four rows of b, side by side. */
INLINE void interleave_rows(const uint8_t *row, int64_t step, int64_t columns, uint8_t *to) {
    const uint8_t *second = row + step, *third = second + step, *fourth = third + step;
    for (int64_t j = 0; j < columns; j++) {
        to[4 * j] = row[j];
        to[4 * j + 1] = second[j];
        to[4 * j + 2] = third[j];
        to[4 * j + 3] = fourth[j];
    }
}

/* gemm_kernels.h says what it does. What k lacks of a quad is zero. */
static void pack_panel(const tpi_gemm *g, int64_t first, int64_t depth, int64_t at, int64_t columns, REAL *panel) {
    const uint8_t *b = (const uint8_t *)g->b + 4 * first * g->b_row + at * g->b_col;
    const int64_t whole = g->absent && first + depth == g->k ? depth - 1 : depth;
    uint8_t *to = (uint8_t *)panel;
    if (columns < PANEL || whole < depth) memset(panel, 0, (size_t)(depth * PANEL) * sizeof *panel);
    if (g->b_row == 1) { /* quads lie there as they are */
        for (int64_t j = 0; j < PANEL; j += 8) {
            const REAL *from[8];
            for (int64_t i = 0; i < 8; i++)
                from[i] = (const REAL *)(const void *)(b + (j + i < columns ? j + i : columns - 1) * g->b_col);
            transpose_eight(from, whole, panel + j, PANEL);
        }
    } else if (g->b_col == 1) {
        for (int64_t p = 0; p < whole; p++) {
            if (columns == PANEL)
                interleave_rows(b + 4 * p * g->b_row, g->b_row, PANEL, to + 4 * p * PANEL);
            else
                interleave_rows(b + 4 * p * g->b_row, g->b_row, columns, to + 4 * p * PANEL);
        }
    } else {
        for (int64_t p = 0; p < 4 * whole; p++)
            for (int64_t j = 0; j < columns; j++)
                to[p / 4 * 4 * PANEL + 4 * j + p % 4] = b[p * g->b_row + j * g->b_col];
    }
    for (int64_t p = 4 * whole; p < 4 * depth - g->absent; p++)
        for (int64_t j = 0; j < columns; j++) to[whole * 4 * PANEL + 4 * j + p % 4] = b[p * g->b_row + j * g->b_col];
}
#endif

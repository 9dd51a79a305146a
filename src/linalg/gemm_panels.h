/* Panels and rows of floats or doubles, packed for gemm_kernels.h. */
#ifndef TPI_GEMM_PANELS_H
#define TPI_GEMM_PANELS_H
#include "linalg/gemm.h"
#include "linalg/transpose.h"

static void pack_panel(const tpi_gemm *g, int64_t first, int64_t depth, int64_t at, int64_t columns, REAL *to) {
    const int64_t b_row = g->b_row, b_col = g->b_col;
    const REAL *b = (const REAL *)g->b + first * b_row + at * b_col;
    if (b_row == 1) {
        for (int64_t j = 0; j < PANEL; j += 8) {
            const REAL *from[8];
            for (int64_t i = 0; i < 8; i++) from[i] = b + (j + i < columns ? j + i : columns - 1) * b_col;
            transpose_eight(from, depth, to + j, PANEL);
        }
        return;
    }
    if (b_col == 1 && columns == PANEL) {
        for (int64_t p = 0; p < depth; p++, to += PANEL, b += b_row) {
            store(to, load(b));
            store(to + LANES, load(b + LANES));
        }
        return;
    }
    if (columns < PANEL) memset(to, 0, (size_t)(depth * PANEL) * sizeof *to);
    for (int64_t p = 0; p < depth; p++)
        for (int64_t j = 0; j < columns; j++) to[p * PANEL + j] = b[p * b_row + j * b_col];
}
#endif

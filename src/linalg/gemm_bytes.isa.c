/* The product of 8-bit integers: see gemm.h and gemm_bytes.h. */
#define G(name) TPI_ISA(tpi_gemm_bytes_##name)
#include "linalg/gemm_bytes.h"

/* Signed bytes of a become unsigned by adding 128, which 128 times the sum of b's column takes off again. */
void TPI_ISA(tpi_gemm_bytes_offsets)(const tpi_gemm *g, int64_t first, int64_t columns, uint32_t *offsets) {
    const int8_t *b = (const int8_t *)g->b + first * g->b_col;
    const int64_t depth = 4 * g->k - g->absent;
    for (int64_t j = 0; j < columns; j++) offsets[j] = 0;
    if (g->b_row == 1) {
        for (int64_t j = 0; j < columns; j++) {
            const int8_t *column = b + j * g->b_col;
            uint32_t sum = 0;
            for (int64_t p = 0; p < depth; p++) sum += (uint32_t)column[p];
            offsets[j] = sum;
        }
    } else {
        for (int64_t p = 0; p < depth; p++)
            for (int64_t j = 0; j < columns; j++) offsets[j] += (uint32_t)b[p * g->b_row + j * g->b_col];
    }
    for (int64_t j = 0; j < columns; j++) offsets[j] *= (uint32_t)-128;
}

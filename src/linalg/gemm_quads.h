/* The 8-bit product's kernels: see gemm.h. gemm_bytes.isa.c includes this for each instruction set, gemm_vnni.c for
 * AVX-512 with VNNI.
 *
 * An element of a and of a packed b is a quad of bytes that follow each other in k; the kernel's multiply_add adds the
 * four products of each lane. Sums wrap at 32 bits, so their order does not matter. The including file defines G. */
#ifndef TPI_GEMM_QUADS_H
#define TPI_GEMM_QUADS_H
#include <stdint.h>
#define REAL uint32_t
#include "linalg/gemm.h"
#include "base/memory.h"
#include "linalg/float_vectors.h"
#include "linalg/transpose.h"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* z + the products of each lane's four bytes: those of x count from 0 to 255, those of y from -128 to 127. */
INLINE vector add_quads(vector x, vector y, vector z) {
#if defined(__AVX512VNNI__)
    return (vector)_mm512_dpbusd_epi32((__m512i)z, (__m512i)x, (__m512i)y);
#elif defined(__SSE2__)
    typedef int16_t pairs __attribute__((vector_size(VECTOR_BYTES)));
    typedef uint16_t places __attribute__((vector_size(VECTOR_BYTES)));
    const pairs x_even = (pairs)((places)x & 0xff), x_odd = (pairs)((places)x >> 8);
    const pairs y_even = (pairs)((places)y << 8) >> 8, y_odd = (pairs)y >> 8;
#if defined(__AVX512F__)
    return z + (vector)_mm512_madd_epi16((__m512i)x_even, (__m512i)y_even) +
           (vector)_mm512_madd_epi16((__m512i)x_odd, (__m512i)y_odd);
#elif defined(__AVX2__)
    return z + (vector)_mm256_madd_epi16((__m256i)x_even, (__m256i)y_even) +
           (vector)_mm256_madd_epi16((__m256i)x_odd, (__m256i)y_odd);
#else
    return z + (vector)_mm_madd_epi16((__m128i)x_even, (__m128i)y_even) +
           (vector)_mm_madd_epi16((__m128i)x_odd, (__m128i)y_odd);
#endif
#else
    typedef int32_t wide __attribute__((vector_size(VECTOR_BYTES)));
    for (int q = 0; q < 4; q++) z += (x >> 8 * q & 0xff) * (vector)((wide)(y << (24 - 8 * q)) >> 24);
    return z;
#endif
}

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

#define BROADCAST(pointer)    broadcast(*(pointer))
#define MULTIPLY_ADD(x, y, z) add_quads(x, y, z)
#define ALWAYS_PACKS          true
#include "linalg/gemm_kernels.h"
#endif

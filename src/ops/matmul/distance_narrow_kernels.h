/* The body of distance_narrow.isa.c and distance_narrow_f64.isa.c, with BITS (an integer of the elements' size),
 * SQUARE_ROOT and TPI_DISTANCES_NARROW (the function's name) defined. Columns one after the other; a block of rows of y
 * stands side by side in vectors, and each vector of it serves some rows of x, whose sums stay in registers. A sum's
 * order is that of the columns, whatever the block. */
#include <math.h>
#include "linalg/float_vectors.h"
#include "ops/matmul/distance.h"

enum { WIDE = VECTOR_BYTES == 64 ? 4 : 2, BLOCK = WIDE * LANES };

typedef BITS
bits __attribute__((vector_size(VECTOR_BYTES)));

INLINE vector magnitude(vector d) { return (vector)((bits)d & (BITS)(((uint64_t)1 << (8 * sizeof(BITS) - 1)) - 1)); }

typedef enum measure { COUNT, SUM, SQUARES, LARGEST } measure;

/* The difference d, folded into s. The largest keeps a NaN. */
INLINE vector fold(measure how, vector d, vector s) {
    if (how == SQUARES) return multiply_add(d, d, s);
    if (how == COUNT) return s - __builtin_convertvector((bits)(d != 0), vector);
    d = magnitude(d);
    if (how == SUM) return s + d;
    const bits larger = (bits)(d >= s) | (bits)(d != d);
    return (vector)(((bits)d & larger) | ((bits)s & ~larger));
}

/* `rows` rows of x, m apart, against one block of y; the sums go to out, BLOCK apart. */
INLINE void block(measure how, int rows, int64_t m, const REAL *x, const REAL *y, int64_t stride, REAL *out) {
    vector sum[TPI_DISTANCE_ROWS][WIDE];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < WIDE; v++) sum[r][v] = (vector){0};
    }
    for (int64_t k = 0; k < m; k++) {
        vector column[WIDE];
        UNROLL
        for (int v = 0; v < WIDE; v++) column[v] = load(y + k * stride + v * LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vector here = broadcast(x[r * m + k]);
            UNROLL
            for (int v = 0; v < WIDE; v++) sum[r][v] = fold(how, here - column[v], sum[r][v]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < WIDE; v++) store(out + r * BLOCK + v * LANES, sum[r][v]);
    }
}

INLINE void blocks(measure how, int rows, int64_t n, int64_t m, const REAL *x, const REAL *y, int64_t stride, REAL *out,
                   int64_t out_stride) {
    REAL part[TPI_DISTANCE_COLUMNS * BLOCK], sums[TPI_DISTANCE_ROWS * BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t wide = n - at < BLOCK ? n - at : BLOCK;
        if (wide == BLOCK) {
            block(how, rows, m, x, y + at, stride, sums);
        } else { /* the last block, filled up so that all go the same way */
            memset(part, 0, sizeof part);
            for (int64_t k = 0; k < m; k++) memcpy(part + k * BLOCK, y + k * stride + at, (size_t)wide * sizeof *part);
            block(how, rows, m, x, part, BLOCK, sums);
        }
        for (int i = 0; how == SQUARES && i < rows * BLOCK; i++) sums[i] = SQUARE_ROOT(sums[i]);
        for (int r = 0; r < rows; r++) memcpy(out + r * out_stride + at, sums + r * BLOCK, (size_t)wide * sizeof *out);
    }
}

#define BLOCKS(how)                                                                                                 \
    do {                                                                                                            \
        if (rows == TPI_DISTANCE_ROWS)                                                                              \
            blocks(how, TPI_DISTANCE_ROWS, n, m, x, y, stride, out, out_stride);                                    \
        else                                                                                                        \
            for (int64_t r = 0; r < rows; r++) blocks(how, 1, n, m, x + r * m, y, stride, out + r * out_stride, 0); \
    } while (0)

void TPI_DISTANCES_NARROW(int64_t rows, int64_t n, int64_t m, const REAL *x, const REAL *y, int64_t stride, REAL *out,
                          int64_t out_stride, double p) {
    if (p == 2)
        BLOCKS(SQUARES);
    else if (p == 1)
        BLOCKS(SUM);
    else if (p == 0)
        BLOCKS(COUNT);
    else
        BLOCKS(LARGEST);
}

/* Products of numbers with weights of eight bits: see byte_products.h. */
#include "ops/matmul/byte_products.h"
#include "linalg/float_vectors.h"

/* A sum has SUMS lanes in so many vectors; a tile has TALL rows and BROAD columns; so many rows at a time are read
 * again and again from a near cache. */
enum {
    SUMS = VECTOR_BYTES == 64 ? 16 : 8,
    WIDE = SUMS / LANES,
    TALL = 4,
    BROAD = VECTOR_BYTES == 64 ? 4 : 2,
    ROWS = 32
};

INLINE void widen(const int8_t *from, vector *to) {
#if defined(__AVX512F__)
    __m128i bytes;
    memcpy(&bytes, from, sizeof bytes);
    to[0] = (vector)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
#elif defined(__AVX2__)
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)from);
    to[0] = (vector)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
#else
    float numbers[SUMS];
    for (int i = 0; i < SUMS; i++) numbers[i] = from[i];
    memcpy(to, numbers, sizeof numbers);
#endif
}

/* SUMS elements of a row, times those of each column. */
INLINE void add_products(int columns, const float *x, const vector (*w)[WIDE], vector (*sum)[WIDE]) {
    UNROLL
    for (int q = 0; q < WIDE; q++) {
        const vector numbers = load(x + q * LANES);
        UNROLL
        for (int c = 0; c < columns; c++) sum[c][q] = multiply_add(numbers, w[c][q], sum[c][q]);
    }
}

INLINE float total_of(const vector *sum) {
    float lanes[SUMS];
    memcpy(lanes, sum, sizeof lanes);
    for (int half = SUMS / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    return lanes[0];
}

/* The sums of one row, with what is left of k, times the columns' scales. */
INLINE void finish(int columns, const tpi_weight_only *p, int64_t i, int64_t j, int64_t at, const vector (*sum)[WIDE]) {
    const float *x = p->x + i * p->k;
    for (int c = 0; c < columns; c++) {
        const int8_t *weight = p->weight + (j + c) * p->k;
        float total = total_of(sum[c]);
        for (int64_t k = at; k < p->k; k++) total += x[k] * (float)weight[k];
        p->out[i * p->n + j + c] = total * p->scales[j + c];
    }
}

INLINE void tile(int rows, int columns, const tpi_weight_only *p, int64_t i, int64_t j) {
    const float *x = p->x + i * p->k;
    const int8_t *weight = p->weight + j * p->k;
    vector sum[TALL][BROAD][WIDE];
    memset(sum, 0, sizeof sum);
    int64_t at = 0;
    for (; at + SUMS <= p->k; at += SUMS) {
        vector w[BROAD][WIDE];
        UNROLL
        for (int c = 0; c < columns; c++) widen(weight + c * p->k + at, w[c]);
        UNROLL
        for (int r = 0; r < rows; r++) add_products(columns, x + r * p->k + at, w, sum[r]);
    }
    UNROLL
    for (int r = 0; r < rows; r++) finish(columns, p, i + r, j, at, sum[r]);
}

/* Rows [i, end) at these columns. */
INLINE void rows_of(int columns, const tpi_weight_only *p, int64_t i, int64_t end, int64_t j) {
    for (; i + TALL <= end; i += TALL) tile(TALL, columns, p, i, j);
    for (; i < end; i++) tile(1, columns, p, i, j);
}

void TPI_ISA(tpi_weight_only_columns)(const tpi_weight_only *p, int64_t first, int64_t columns) {
    for (int64_t i = 0; i < p->m; i += ROWS) {
        const int64_t end = i + ROWS
        < p->m ? i + ROWS : p->m;
        int64_t j = first;
        for (; j + BROAD <= first + columns; j += BROAD) rows_of(BROAD, p, i, end, j);
        for (; j < first + columns; j++) rows_of(1, p, i, end, j);
    }
}

/* See bag_rows.h. A block of columns stays in registers while the rows go by; the first block's pass fetches rows
 * ahead, which no hardware guesses. */
#include "ops/embedding/bag_rows.h"

enum { AHEAD = 16, MOST_AHEAD = 512 }; /* rows; bytes of one */

#define BAG_ROWS(NAME, REAL, BLOCK)                                                                                    \
    void TPI_ISA(NAME)(int64_t width, int64_t n, int64_t known, const int64_t *restrict index, int64_t padding,        \
                       const REAL *restrict table, REAL *restrict to) {                                                \
        const int64_t bytes = width * (int64_t)sizeof(REAL) < MOST_AHEAD ? width * (int64_t)sizeof(REAL) : MOST_AHEAD; \
        for (int64_t first = 0; first < width; first += BLOCK) {                                                       \
            const int64_t columns = width - first < BLOCK ? width - first : BLOCK;                                     \
            REAL sum[BLOCK] = {0};                                                                                     \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                if (first == 0 && i + AHEAD < known)                                                                   \
                    for (int64_t at = 0; at < bytes; at += 64)                                                         \
                        __builtin_prefetch((const char *)(table + index[i + AHEAD] * width) + at);                     \
                const REAL *row = table + index[i] * width + first;                                                    \
                if (index[i] == padding) continue;                                                                     \
                if (columns == BLOCK) {                                                                                \
                    TPI_UNROLL                                                                                         \
                    for (int c = 0; c < BLOCK; c++) sum[c] += row[c];                                                  \
                } else {                                                                                               \
                    for (int64_t c = 0; c < columns; c++) sum[c] += row[c];                                            \
                }                                                                                                      \
            }                                                                                                          \
            for (int64_t c = 0; c < columns; c++) to[first + c] = sum[c];                                              \
        }                                                                                                              \
    }
BAG_ROWS(tpi_bag_rows_f32, float, 64)
BAG_ROWS(tpi_bag_rows_f64, double, 32)

void TPI_ISA(tpi_add_floats)(int64_t n, const float *restrict x, float *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += x[i];
}

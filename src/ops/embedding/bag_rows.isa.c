/* See bag_rows.h. As many columns as registers hold stay there while the rows go by. Rows are fetched ahead, which no
 * hardware guesses. */
#include "ops/embedding/bag_rows.h"
#include <string.h>

#if defined(__AVX512F__)
enum { VECTOR = 64, HELD = 16 };
#elif defined(__AVX2__)
enum { VECTOR = 32, HELD = 8 };
#else
enum { VECTOR = 16, HELD = 8 };
#endif
enum { AHEAD = 6 }; /* rows */

/* The sums of `held` vectors of columns from `first` on. */
#define BAG_ROWS(NAME, REAL)                                                                                     \
    typedef REAL NAME##_vector __attribute__((vector_size(VECTOR)));                                             \
    enum { NAME##_lanes = VECTOR / sizeof(REAL) };                                                               \
    static inline __attribute__((always_inline)) void NAME##_block(                                              \
        int held, int64_t first, int64_t width, int64_t n, int64_t known, const int64_t *restrict index,         \
        int64_t padding, const REAL *restrict table, REAL *restrict to) {                                        \
        NAME##_vector sum[HELD] = {{0}};                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                        \
            if (i + AHEAD < known) {                                                                             \
                const char *next = (const char *)(table + index[i + AHEAD] * width + first);                     \
                TPI_UNROLL                                                                                       \
                for (int v = 0; v < held * VECTOR; v += 64) __builtin_prefetch(next + v);                        \
            }                                                                                                    \
            if (index[i] == padding) continue;                                                                   \
            const REAL *row = table + index[i] * width + first;                                                  \
            TPI_UNROLL                                                                                           \
            for (int v = 0; v < held; v++) {                                                                     \
                NAME##_vector x;                                                                                 \
                memcpy(&x, row + v * NAME##_lanes, sizeof x);                                                    \
                sum[v] += x;                                                                                     \
            }                                                                                                    \
        }                                                                                                        \
        memcpy(to + first, sum, (size_t)held * sizeof *sum);                                                     \
    }                                                                                                            \
    void TPI_ISA(NAME)(int64_t width, int64_t n, int64_t known, const int64_t *restrict index, int64_t padding,  \
                       const REAL *restrict table, REAL *restrict to) {                                          \
        int64_t first = 0;                                                                                       \
        for (; first + HELD * NAME##_lanes <= width; first += HELD * NAME##_lanes)                               \
            NAME##_block(HELD, first, width, n, known, index, padding, table, to);                               \
        for (; first + NAME##_lanes <= width; first += NAME##_lanes)                                             \
            NAME##_block(1, first, width, n, known, index, padding, table, to);                                  \
        if (first == width) return;                                                                              \
        memset(to + first, 0, (size_t)(width - first) * sizeof *to);                                             \
        for (int64_t i = 0; i < n; i++)                                                                          \
            for (int64_t c = first; c < width && index[i] != padding; c++) to[c] += table[index[i] * width + c]; \
    }
BAG_ROWS(tpi_bag_rows_f32, float)
BAG_ROWS(tpi_bag_rows_f64, double)

void TPI_ISA(tpi_add_floats)(int64_t n, const float *restrict x, float *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += x[i];
}

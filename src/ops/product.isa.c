/* Product kernels compiled per instruction set: see product.h. Plain loops over fixed-size register tiles. */
#include "ops/product.h"
#include <string.h>

enum { ROWS = 4, COLS = 16 };

/* A (rows <= ROWS, cols <= COLS) tile: the sums stay in registers while k runs. b's rows have unit stride. */
#define INTEGER_KERNEL(T, NAME)                                                                                          \
    static void NAME##_tile(const tpi_product *p, const T *a, const T *b, T *c, int64_t rows, int64_t cols, T alpha, T beta) \
    {                                                                                                                    \
        T sum[ROWS][COLS] = {{0}};                                                                                       \
        for (int64_t k = 0; k < p->k; k++) {                                                                             \
            const T *line = b + k * p->b.row;                                                                            \
            for (int64_t i = 0; i < rows; i++) {                                                                         \
                T x = a[i * p->a.row + k * p->a.col];                                                                    \
                if (cols == COLS)                                                                                        \
                    for (int j = 0; j < COLS; j++) sum[i][j] += x * line[j];                                             \
                else                                                                                                     \
                    for (int64_t j = 0; j < cols; j++) sum[i][j] += x * line[j * p->b.col];                              \
            }                                                                                                            \
        }                                                                                                                \
        for (int64_t i = 0; i < rows; i++)                                                                               \
            for (int64_t j = 0; j < cols; j++) {                                                                         \
                T *at = c + i * p->c_row + j;                                                                            \
                *at = alpha * sum[i][j] + (beta ? beta * *at : 0);                                                       \
            }                                                                                                            \
    }                                                                                                                    \
    static void NAME(const tpi_product *p, int64_t batch, int64_t first, int64_t rows)                                   \
    {                                                                                                                    \
        const T *a = (const T *)p->a.data + batch * p->a.batch, *b = (const T *)p->b.data + batch * p->b.batch;          \
        T *c = (T *)p->c + batch * p->c_batch;                                                                           \
        T alpha = (T)tp_scalar_to_int(p->alpha), beta = (T)tp_scalar_to_int(p->beta);                                    \
        int64_t wide = p->b.col == 1 ? COLS : COLS - 1; /* strided columns take the element-wise branch */               \
        for (int64_t j = 0; j < p->n; j += wide) {                                                                       \
            int64_t cols = p->n - j < wide ? p->n - j : wide;                                                            \
            for (int64_t i = first; i < first + rows; i += ROWS) {                                                       \
                int64_t height = first + rows - i < ROWS ? first + rows - i : ROWS;                                      \
                NAME##_tile(p, a + i * p->a.row, b + j * p->b.col, c + i * p->c_row + j, height, cols, alpha, beta);     \
            }                                                                                                            \
        }                                                                                                                \
    }
INTEGER_KERNEL(uint32_t, rows_u32)
INTEGER_KERNEL(uint64_t, rows_u64)

void TPI_ISA(tpi_integer_rows)(const tpi_product *p, int64_t batch, int64_t first, int64_t rows) {
    if (p->dtype == TP_INT32) rows_u32(p, batch, first, rows);
    else rows_u64(p, batch, first, rows);
}

#define SMALL_KERNEL(T, NAME)                                                                                             \
    static void NAME(const tpi_product *p, int64_t batch)                                                                 \
    {                                                                                                                     \
        const T *a = (const T *)p->a.data + batch * p->a.batch, *b = (const T *)p->b.data + batch * p->b.batch;           \
        T *c = (T *)p->c + batch * p->c_batch;                                                                            \
        T alpha = (T)tp_scalar_to_double(p->alpha), beta = (T)tp_scalar_to_double(p->beta);                               \
        for (int64_t i = 0; i < p->m; i++) {                                                                              \
            T *row = c + i * p->c_row;                                                                                    \
            if (p->every_row) memcpy(row, p->every_row, (size_t)p->n * sizeof(T));                                        \
            else if (beta == 0) memset(row, 0, (size_t)p->n * sizeof(T));                                                 \
            else if (beta != 1)                                                                                           \
                for (int64_t j = 0; j < p->n; j++) row[j] *= beta;                                                        \
            for (int64_t k = 0; k < p->k; k++) {                                                                          \
                T x = alpha * a[i * p->a.row + k * p->a.col];                                                             \
                const T *line = b + k * p->b.row;                                                                         \
                if (p->b.col == 1)                                                                                        \
                    for (int64_t j = 0; j < p->n; j++) row[j] += x * line[j];                                             \
                else                                                                                                      \
                    for (int64_t j = 0; j < p->n; j++) row[j] += x * line[j * p->b.col];                                  \
            }                                                                                                             \
        }                                                                                                                 \
    }
SMALL_KERNEL(float, small_f32)
SMALL_KERNEL(double, small_f64)

void TPI_ISA(tpi_small_product)(const tpi_product *p, int64_t batch) {
    if (p->dtype == TP_FLOAT32) small_f32(p, batch);
    else small_f64(p, batch);
}

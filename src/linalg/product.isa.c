/* Product kernels compiled per instruction set: see product.h. Plain loops over fixed-size register tiles. */
#include "linalg/float_vectors.h"
#include "linalg/product.h"

enum { ROWS = 4, DEPTH = 256 };

/* Rows by COLS sums stay in registers while k runs over a panel, DEPTH by COLS, of b. Integers wrap, so sums of panels
 * may be added in any order. */
#define INTEGER_KERNEL(T, COLS, NAME)                                                                                 \
    INLINE void NAME##_tile(int rows, int64_t depth, const T *a, int64_t a_row, int64_t a_col, const T *panel, T *c,  \
                            int64_t c_row, int64_t cols, T alpha) {                                                   \
        typedef T half __attribute__((vector_size(COLS / 2 * sizeof(T))));                                            \
        half sums[ROWS][2] = {{{0}}};                                                                                 \
        for (int64_t k = 0; k < depth; k++) {                                                                         \
            half left, right;                                                                                         \
            memcpy(&left, panel + k * COLS, sizeof left), memcpy(&right, panel + k * COLS + COLS / 2, sizeof right);  \
            UNROLL                                                                                                    \
            for (int i = 0; i < rows; i++) {                                                                          \
                T x = a[i * a_row + k * a_col];                                                                       \
                sums[i][0] += x * left, sums[i][1] += x * right;                                                      \
            }                                                                                                         \
        }                                                                                                             \
        T sum[ROWS][COLS];                                                                                            \
        memcpy(sum, sums, sizeof sum);                                                                                \
        for (int i = 0; i < rows; i++)                                                                                \
            for (int64_t j = 0; j < cols; j++) c[i * c_row + j] += alpha * sum[i][j];                                 \
    }                                                                                                                 \
    static void NAME##_panel(const tpi_product *p, int64_t depth, const T *a, const T *b, T *c, int64_t rows,         \
                             int64_t cols, T alpha) {                                                                 \
        T panel[DEPTH * COLS];                                                                                        \
        for (int64_t k = 0; k < depth; k++)                                                                           \
            for (int64_t j = 0; j < COLS; j++) panel[k * COLS + j] = j < cols ? b[k * p->b.row + j * p->b.col] : 0;   \
        int64_t i = 0;                                                                                                \
        for (; i + ROWS <= rows; i += ROWS)                                                                           \
            NAME##_tile(ROWS, depth, a + i * p->a.row, p->a.row, p->a.col, panel, c + i * p->c_row, p->c_row, cols,   \
                        alpha);                                                                                       \
        for (; i < rows; i++)                                                                                         \
            NAME##_tile(1, depth, a + i * p->a.row, p->a.row, p->a.col, panel, c + i * p->c_row, p->c_row, cols,      \
                        alpha);                                                                                       \
    }                                                                                                                 \
    static void NAME(const tpi_product *p, int64_t batch, int64_t first, int64_t rows) {                              \
        const T *a = (const T *)p->a.data + batch * p->a.batch + first * p->a.row;                                    \
        const T *b = (const T *)p->b.data + batch * p->b.batch;                                                       \
        T *c = (T *)p->c + batch * p->c_batch + first * p->c_row;                                                     \
        T alpha = (T)tp_scalar_to_int(p->alpha), beta = (T)tp_scalar_to_int(p->beta);                                 \
        if (p->n == 1 && p->a.col == 1 && p->b.row == 1) { /* a vector */                                             \
            for (int64_t i = 0; i < rows; i++) {                                                                      \
                const T *row = a + i * p->a.row;                                                                      \
                T sum = 0, *to = c + i * p->c_row;                                                                    \
                for (int64_t k = 0; k < p->k; k++) sum += row[k] * b[k];                                              \
                *to = alpha * sum + (beta ? beta * *to : 0);                                                          \
            }                                                                                                         \
            return;                                                                                                   \
        }                                                                                                             \
        for (int64_t i = 0; i < rows; i++)                                                                            \
            for (int64_t j = 0; j < p->n; j++) c[i * p->c_row + j] = beta ? beta * c[i * p->c_row + j] : 0;           \
        for (int64_t k = 0; k < p->k; k += DEPTH)                                                                     \
            for (int64_t j = 0; j < p->n; j += COLS)                                                                  \
                NAME##_panel(p, p->k - k < DEPTH ? p->k - k : DEPTH, a + k * p->a.col,                                \
                             b + k * p->b.row + j * p->b.col, c + j, rows, p->n - j < COLS ? p->n - j : COLS, alpha); \
    }
INTEGER_KERNEL(uint32_t, 16, rows_u32)
INTEGER_KERNEL(uint64_t, 8, rows_u64)

void TPI_ISA(tpi_integer_rows)(const tpi_product *p, int64_t batch, int64_t first, int64_t rows) {
    if (p->dtype == TP_INT32)
        rows_u32(p, batch, first, rows);
    else
        rows_u64(p, batch, first, rows);
}

#define SMALL_KERNEL(T, NAME)                                                                                   \
    static void NAME(const tpi_product *p, int64_t batch) {                                                     \
        const T *a = (const T *)p->a.data + batch * p->a.batch, *b = (const T *)p->b.data + batch * p->b.batch; \
        T *c = (T *)p->c + batch * p->c_batch;                                                                  \
        T alpha = (T)tp_scalar_to_double(p->alpha), beta = (T)tp_scalar_to_double(p->beta);                     \
        for (int64_t i = 0; i < p->m; i++) {                                                                    \
            T *row = c + i * p->c_row;                                                                          \
            if (p->every_row)                                                                                   \
                memcpy(row, p->every_row, (size_t)p->n * sizeof(T));                                            \
            else if (beta == 0)                                                                                 \
                memset(row, 0, (size_t)p->n * sizeof(T));                                                       \
            else if (beta != 1)                                                                                 \
                for (int64_t j = 0; j < p->n; j++) row[j] *= beta;                                              \
            for (int64_t k = 0; k < p->k; k++) {                                                                \
                T x = alpha * a[i * p->a.row + k * p->a.col];                                                   \
                const T *line = b + k * p->b.row;                                                               \
                if (p->b.col == 1)                                                                              \
                    for (int64_t j = 0; j < p->n; j++) row[j] += x * line[j];                                   \
                else                                                                                            \
                    for (int64_t j = 0; j < p->n; j++) row[j] += x * line[j * p->b.col];                        \
            }                                                                                                   \
        }                                                                                                       \
    }
SMALL_KERNEL(float, small_f32)
SMALL_KERNEL(double, small_f64)

void TPI_ISA(tpi_small_product)(const tpi_product *p, int64_t batch) {
    if (p->dtype == TP_FLOAT32)
        small_f32(p, batch);
    else
        small_f64(p, batch);
}

/* Complex products by the kernels of real ones.
 *
 * A row of a, re and im by turns, is a row of 2k reals as it is. If b's element x + yi becomes the two rows (x, y) and
 * (-y, x), then a's reals times that matrix, (2k, 2n), are the re and im by turns of the complex product: as many
 * multiplications as it has, and none in vain. alpha goes into those rows; c starts as beta times itself. */
#include "base/dtype.h"
#include "base/memory.h"
#include "base/threads.h"
#include "linalg/gemm.h"

typedef struct job {
    const tpi_product *p;
    int64_t batch;
    void *spread; /* b's two rows for one */
    void *rows;   /* a, contiguous in k; NULL: it is */
    tpi_c128 alpha, beta;
    bool unit, scales; /* is alpha 1, and c to be scaled? */
} job;

#define OF_REAL(real, NAME)                                                                    \
    static void spread_##NAME(int64_t k, void *context) {                                      \
        const job *j = context;                                                                \
        const tpi_product *p = j->p;                                                           \
        const real *from = (const real *)(const void *)p->b.data;                              \
        from += 2 * (j->batch * p->b.batch + k * p->b.row);                                    \
        real *upper = (real *)j->spread + 4 * k * p->n, *lower = upper + 2 * p->n;             \
        const real ar = (real)j->alpha.re, ai = (real)j->alpha.im;                             \
        for (int64_t i = 0; i < p->n; i++) {                                                   \
            const real x = from[2 * i * p->b.col], y = from[2 * i * p->b.col + 1];             \
            const real re = j->unit ? x : ar * x - ai * y, im = j->unit ? y : ar * y + ai * x; \
            upper[2 * i] = re, upper[2 * i + 1] = im;                                          \
            lower[2 * i] = -im, lower[2 * i + 1] = re;                                         \
        }                                                                                      \
    }                                                                                          \
    static void copy_row_##NAME(int64_t row, void *context) {                                  \
        const job *j = context;                                                                \
        const tpi_product *p = j->p;                                                           \
        const real *from = (const real *)(const void *)p->a.data;                              \
        from += 2 * (j->batch * p->a.batch + row * p->a.row);                                  \
        real *to = (real *)j->rows + 2 * row * p->k;                                           \
        for (int64_t i = 0; i < p->k; i++) {                                                   \
            to[2 * i] = from[2 * i * p->a.col];                                                \
            to[2 * i + 1] = from[2 * i * p->a.col + 1];                                        \
        }                                                                                      \
    }                                                                                          \
    static void scale_row_##NAME(int64_t row, void *context) {                                 \
        const job *j = context;                                                                \
        const tpi_product *p = j->p;                                                           \
        real *c = (real *)(void *)p->c + 2 * (j->batch * p->c_batch + row * p->c_row);         \
        const real br = (real)j->beta.re, bi = (real)j->beta.im;                               \
        for (int64_t i = 0; i < p->n; i++) {                                                   \
            const real x = c[2 * i], y = c[2 * i + 1];                                         \
            c[2 * i] = br * x - bi * y, c[2 * i + 1] = br * y + bi * x;                        \
        }                                                                                      \
    }
OF_REAL(float, f32)
OF_REAL(double, f64)

static tpi_product real_product(const job *j, tp_dtype real) {
    const tpi_product *p = j->p;
    const int64_t item = tpi_dtype_bytes[p->dtype];
    const char *a = j->rows ? j->rows : p->a.data + j->batch * p->a.batch * item;
    return (tpi_product){.dtype = real,
                         .batches = 1,
                         .m = p->m,
                         .n = 2 * p->n,
                         .k = 2 * p->k,
                         .a = {a, 0, 2 * (j->rows ? p->k : p->a.row), 1},
                         .b = {j->spread, 0, 2 * p->n, 1},
                         .c = p->c + j->batch * p->c_batch * item,
                         .c_row = 2 * p->c_row,
                         .alpha = tp_int(1),
                         .beta = tp_int(tp_scalar_to_bool(p->beta)),
                         .every_row = p->every_row};
}

bool tpi_gemm_multiply_complex(const tpi_product *p, int64_t batch) {
    const bool single = p->dtype == TP_COMPLEX64;
    const size_t item = tpi_dtype_bytes[p->dtype], spread_bytes = 2 * (size_t)(p->k * p->n) * item,
                 rows_bytes = (size_t)(p->m * p->k) * item;
    job j = {.p = p, .batch = batch, .spread = tpi_gemm_scratch(spread_bytes)};
    j.alpha = tpi_param_of(p->alpha, TPI_C128).c128;
    j.beta = tpi_param_of(p->beta, TPI_C128).c128;
    j.unit = j.alpha.re == 1 && j.alpha.im == 0;
    j.scales = tp_scalar_to_bool(p->beta) && !p->every_row && (j.beta.re != 1 || j.beta.im != 0);
    if (p->a.col != 1) j.rows = tpi_gemm_scratch(rows_bytes);
    const bool ready = j.spread && (p->a.col == 1 || j.rows);
    if (ready) {
        tpi_parallel_for(p->k, true, single ? spread_f32 : spread_f64, &j);
        if (j.rows) tpi_parallel_for(p->m, true, single ? copy_row_f32 : copy_row_f64, &j);
        if (j.scales) tpi_parallel_for(p->m, true, single ? scale_row_f32 : scale_row_f64, &j);
        const tpi_product real = real_product(&j, single ? TP_FLOAT32 : TP_FLOAT64);
        tpi_gemm_multiply(&real);
    }
    if (j.spread) tpi_free(j.spread, spread_bytes);
    if (j.rows) tpi_free(j.rows, rows_bytes);
    return ready;
}

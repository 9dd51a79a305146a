/* The one file that declares and calls the BLAS, through cblas's names, which OpenBLAS, BLIS, MKL, FlexiBLAS, LibSci
 * and the reference have in common. Calls that only one of them has (its version, its number of threads) are weak:
 * missing ones are NULL. Products of matrices go to our own kernels (gemm.h) where the processor has AVX2; the rest
 * comes here.
 *
 * A threaded GEMM splits its work by the number of threads, and the split changes the rounding. So the library is only
 * ever called single-threaded, on tiles of the result whose shape depends on m, n and k alone, inside our own parallel
 * loop. k is never split across tiles; so a tile's bits depend on nothing but its operands. A dot product is the
 * exception (there is nothing else to split): its chunks have a fixed length and their sums are added in order.
 *
 * Tiles are wide and low because the library packs the wide operand once per call: on two Zen cores, 1024^3 float32,
 * tiles of 256 x 1024 took the time of one threaded library call, tiles of 256 x 256 took 4% more. */
#define _GNU_SOURCE /* dladdr */
#include "linalg/blas.h"
#include "base/scratch.h"
#include "base/threads.h"
#include "device/cpu/convert.h"
#include "device/device.h"
#include "linalg/gemm.h"
#include "linalg/product.h"
#include <complex.h>
#include <dlfcn.h>
#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    TILE_ROWS = 256,
    TILE_COLS = 1024,
    SMALL_WORK = 512, /* m * n * k up to which our own loop beats a library call */
    COMPLEX_ROWS = 8, /* of a complex product, from which on it is worth laying out b twice */
    DOT_CHUNK = 1 << 15,
    DOT_PARTS = 256,        /* longer dot products have longer chunks */
    WORTH_THREADS = 1 << 17 /* multiply-adds below which one thread does all */
};

/* cblas's numbers and functions. Headers are not asked for: some have them under another name, in another folder or
 * with other types. */
enum { CblasRowMajor = 101 };
typedef enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 } CBLAS_TRANSPOSE;
#define DECLARE_REAL(t, real)                                                                                         \
    void cblas_##t##gemm(int, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, int, int, int, real, const real *, int, const real *, \
                         int, real, real *, int);                                                                     \
    void cblas_##t##gemv(int, CBLAS_TRANSPOSE, int, int, real, const real *, int, const real *, int, real, real *,    \
                         int);                                                                                        \
    real cblas_##t##dot(int, const real *, int, const real *, int)
#define DECLARE_COMPLEX(t)                                                                                      \
    void cblas_##t##gemm(int, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, int, int, int, const void *, const void *, int, \
                         const void *, int, const void *, void *, int);                                         \
    void cblas_##t##gemv(int, CBLAS_TRANSPOSE, int, int, const void *, const void *, int, const void *, int,    \
                         const void *, void *, int);                                                            \
    void cblas_##t##dotu_sub(int, const void *, int, const void *, int, void *)
DECLARE_REAL(s, float);
DECLARE_REAL(d, double);
DECLARE_COMPLEX(c);
DECLARE_COMPLEX(z);

/* What a single implementation has. */
#define OPTIONAL __attribute__((weak))
OPTIONAL char *openblas_get_config(void);
OPTIONAL int openblas_get_parallel(void); /* 0: one thread, 1: its own threads, 2: OpenMP's */
OPTIONAL void openblas_set_num_threads(int n);
OPTIONAL const char *bli_info_get_version_str(void);
OPTIONAL void bli_thread_set_num_threads(int64_t n);
OPTIONAL void MKL_Get_Version_String(char *text, int capacity);
OPTIONAL int MKL_Set_Num_Threads_Local(int n);
OPTIONAL void flexiblas_get_version(int *major, int *minor, int *patch);
OPTIONAL int flexiblas_current_backend(char *name, size_t capacity);
OPTIONAL void flexiblas_set_num_threads(int n);

static char version_text[128];

static void keep_words(int n) { /* of the version's text, the first n */
    char *end = version_text;
    while (n-- > 0) end += strcspn(end, " ") + (n > 0 && end[strcspn(end, " ")]);
    *end = 0;
}

/* An OpenBLAS that was built for one thread, without locks, must not be called by two at once. Behind FlexiBLAS it has
 * a name alone. */
static bool is_for_one_caller(void) {
    char backend[64] = "";
    if (flexiblas_current_backend) flexiblas_current_backend(backend, sizeof backend);
    if (strcasestr(backend, "openblas") && strcasestr(backend, "serial")) return true;
    return openblas_get_config && openblas_get_parallel && openblas_get_parallel() == 0 &&
           !strstr(openblas_get_config(), "USE_LOCKING");
}

/* FlexiBLAS comes first: it passes on what others are asked, and has their names. */
static void find_version(void) {
    if (flexiblas_get_version) {
        int v[3] = {0};
        char backend[64] = "";
        flexiblas_get_version(&v[0], &v[1], &v[2]);
        if (flexiblas_current_backend) flexiblas_current_backend(backend, sizeof backend);
        snprintf(version_text, sizeof version_text, "FlexiBLAS %d.%d.%d%s%s", v[0], v[1], v[2],
                 *backend ? " over " : "", backend);
    } else if (openblas_get_config) { /* "OpenBLAS 0.3.21 NO_LAPACKE ..." */
        snprintf(version_text, sizeof version_text, "%s", openblas_get_config());
        keep_words(2);
        if (is_for_one_caller()) strcat(version_text, " for one thread: products take turns");
    } else if (MKL_Get_Version_String) { /* "Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build ..." */
        char text[200] = "";
        MKL_Get_Version_String(text, sizeof text);
        const char *number = strstr(text, "Version ");
        snprintf(version_text, sizeof version_text, "MKL %s", number ? number + strlen("Version ") : text);
        keep_words(2);
        version_text[strcspn(version_text, "-")] = 0;
    } else if (bli_info_get_version_str) {
        snprintf(version_text, sizeof version_text, "BLIS %s", bli_info_get_version_str());
        keep_words(2);
    } else { /* the reference and LibSci tell nothing: the file's name */
        Dl_info where;
        const char *file = dladdr((void *)cblas_sgemm, &where) && where.dli_fname ? where.dli_fname : "";
        const char *slash = strrchr(file, '/');
        snprintf(version_text, sizeof version_text, "%s", slash ? slash + 1 : file);
    }
}

const char *tpi_blas_version(void **function) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_version);
    *function = (void *)cblas_sgemm;
    return version_text;
}

static bool one_caller;
static pthread_mutex_t caller_lock; /* recursive: what holds it may call what takes it */

/* Threads that belong to the BLAS and not to OpenMP are counted for the whole process: that count becomes 1, and stays.
 */
static void keep_own_threads_out(void) {
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&caller_lock, &recursive);
    one_caller = is_for_one_caller();
    if (flexiblas_set_num_threads)
        flexiblas_set_num_threads(1);
    else if (openblas_get_parallel && openblas_set_num_threads && openblas_get_parallel() == 1)
        openblas_set_num_threads(1);
}

/* BLIS counts for a thread or, in older versions, for all. */
static void keep_blis_alone(void) {
    static _Thread_local bool told;
    if (told || !bli_thread_set_num_threads) return;
    told = true;
    bli_thread_set_num_threads(1);
}

/* A library that is built with OpenMP asks OpenMP how many threads it may use; that number belongs to the calling
 * thread. MKL has a number of its own for a thread, of which 0 means the process's. */
int tpi_blas_quiet(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, keep_own_threads_out);
    if (one_caller) pthread_mutex_lock(&caller_lock);
    keep_blis_alone();
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(1);
    int before = omp_get_max_threads();
    if (before != 1) omp_set_num_threads(1);
    return before;
}

void tpi_blas_restore(int before) {
    if (one_caller) pthread_mutex_unlock(&caller_lock);
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(0);
    if (before != 1) omp_set_num_threads(before);
}

static tpi_gemm plain_product(bool ta, bool tb, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                              int64_t ldc) {
    return (tpi_gemm){.m = m,
                      .n = n,
                      .k = k,
                      .a_row = ta ? 1 : lda,
                      .a_col = ta ? lda : 1,
                      .b_row = tb ? 1 : ldb,
                      .b_col = tb ? ldb : 1,
                      .c_row = ldc};
}

#define PLAIN_GEMM(name, real, alone, library)                                                                         \
    void name(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *a, int64_t lda,               \
              const real *b, int64_t ldb, real beta, real *c, int64_t ldc) {                                           \
        if (tpi_gemm_serves(m, n, k)) {                                                                                \
            tpi_gemm g = plain_product(ta, tb, m, n, k, lda, ldb, ldc);                                                \
            g.a = a, g.b = b, g.c = c;                                                                                 \
            g.alpha = alpha, g.beta = beta;                                                                            \
            alone(&g);                                                                                                 \
            return;                                                                                                    \
        }                                                                                                              \
        int before = tpi_blas_quiet();                                                                                 \
        library(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, \
                alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);                                                   \
        tpi_blas_restore(before);                                                                                      \
    }
PLAIN_GEMM(tpi_gemm_f32, float, tpi_gemm_alone, cblas_sgemm)
PLAIN_GEMM(tpi_gemm_f64, double, tpi_gemm_alone_f64, cblas_dgemm)

typedef struct handed {
    CBLAS_TRANSPOSE trans;
    int ld;
} handed;

static bool hand_over(int64_t rows, int64_t cols, int64_t row, int64_t col, handed *h) {
    int64_t least_row = cols > 1 ? cols : 1, least_col = rows > 1 ? rows : 1;
    if ((col == 1 || cols <= 1) && (row >= least_row || rows <= 1)) {
        int64_t ld = rows <= 1 ? least_row : row;
        *h = (handed){CblasNoTrans, (int)ld};
        return ld <= INT_MAX;
    }
    if ((row == 1 || rows <= 1) && (col >= least_col || cols <= 1)) {
        int64_t ld = cols <= 1 ? least_col : col;
        *h = (handed){CblasTrans, (int)ld};
        return ld <= INT_MAX;
    }
    return false;
}

bool tpi_blas_fits(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
    handed h;
    return hand_over(rows, cols, row_stride, col_stride, &h);
}

/* What every call of one product shares. */
typedef struct job {
    const tpi_product *p;
    handed a, b;
    tpi_param alpha, beta;
    size_t item;
    int64_t tile_rows, tile_cols, tiles_down, tiles_across;
    int64_t group;     /* products per chunk when they are small */
    int64_t dot_chunk; /* of a dot product */
    char *partial;     /* DOT_PARTS sums */
} job;

static void gemm_call(const job *j, int m, int n, int k, const void *a, const void *b, void *c, const tpi_param *beta) {
    int ldc = (int)j->p->c_row;
    switch (j->p->dtype) {
    case TP_FLOAT32:
        cblas_sgemm(CblasRowMajor, j->a.trans, j->b.trans, m, n, k, j->alpha.f32, a, j->a.ld, b, j->b.ld, beta->f32, c,
                    ldc);
        break;
    case TP_FLOAT64:
        cblas_dgemm(CblasRowMajor, j->a.trans, j->b.trans, m, n, k, j->alpha.f64, a, j->a.ld, b, j->b.ld, beta->f64, c,
                    ldc);
        break;
    case TP_COMPLEX64:
        cblas_cgemm(CblasRowMajor, j->a.trans, j->b.trans, m, n, k, &j->alpha, a, j->a.ld, b, j->b.ld, beta, c, ldc);
        break;
    default:
        cblas_zgemm(CblasRowMajor, j->a.trans, j->b.trans, m, n, k, &j->alpha, a, j->a.ld, b, j->b.ld, beta, c, ldc);
        break;
    }
}

static void complex_gemv(const job *j, CBLAS_TRANSPOSE trans, int rows, int cols, const char *matrix, int ld,
                         const char *x, int incx, void *y, int incy, const tpi_param *beta) {
    if (j->p->dtype == TP_COMPLEX64)
        cblas_cgemv(CblasRowMajor, trans, rows, cols, &j->alpha, matrix, ld, x, incx, beta, y, incy);
    else
        cblas_zgemv(CblasRowMajor, trans, rows, cols, &j->alpha, matrix, ld, x, incx, beta, y, incy);
}

/* OpenBLAS's kernels for transposed complex matrices (seen in 0.3.21) read one element behind x's last, which may be on
 * a page that is not there. So the last element is multiplied on its own, out of an array that has one more. */
static void complex_gemv_transposed(const job *j, int rows, int cols, const char *matrix, int ld, const char *x,
                                    int incx, void *y, int incy, const tpi_param *beta) {
    tpi_param one = tpi_param_of(tp_float(1), (tpi_ctype)tpi_dtype_ctype[j->p->dtype]);
    int64_t before = rows - 1, item = (int64_t)j->item;
    double _Complex last[2] = {0};
    memcpy(last, x + before * incx * item, j->item);
    if (before) complex_gemv(j, CblasTrans, (int)before, cols, matrix, ld, x, incx, y, incy, beta);
    complex_gemv(j, CblasTrans, 1, cols, matrix + before * ld * item, ld, (const char *)last, 1, y, incy,
                 before ? &one : beta);
}

/* y = alpha * op(matrix) x + beta * y; the matrix is stored (rows, cols) with rows ld apart. */
static void gemv_call(const job *j, CBLAS_TRANSPOSE trans, int rows, int cols, const void *matrix, int ld,
                      const void *x, int incx, void *y, int incy, const tpi_param *beta) {
    switch (j->p->dtype) {
    case TP_FLOAT32:
        cblas_sgemv(CblasRowMajor, trans, rows, cols, j->alpha.f32, matrix, ld, x, incx, beta->f32, y, incy);
        break;
    case TP_FLOAT64:
        cblas_dgemv(CblasRowMajor, trans, rows, cols, j->alpha.f64, matrix, ld, x, incx, beta->f64, y, incy);
        break;
    default:
        if (trans == CblasTrans)
            complex_gemv_transposed(j, rows, cols, matrix, ld, x, incx, y, incy, beta);
        else
            complex_gemv(j, trans, rows, cols, matrix, ld, x, incx, y, incy, beta);
    }
}

/* (m, n) = (m, k) (k, n) where m or n may be 1, with k that fits an int. */
static void call_library(const job *j, int m, int n, int k, const char *a, const char *b, char *c,
                         const tpi_param *beta) {
    if (n == 1 && k > 0) {
        bool t = j->a.trans == CblasTrans;
        gemv_call(j, j->a.trans, t ? k : m, t ? m : k, a, j->a.ld, b, j->b.trans == CblasTrans ? 1 : j->b.ld, c,
                  (int)j->p->c_row, beta);
    } else if (m == 1 && k > 0) { /* the transposed problem: c^T = b^T a^T */
        bool t = j->b.trans == CblasTrans;
        gemv_call(j, t ? CblasNoTrans : CblasTrans, t ? n : k, t ? k : n, b, j->b.ld, a,
                  j->a.trans == CblasTrans ? j->a.ld : 1, c, 1, beta);
    } else {
        gemm_call(j, m, n, k, a, b, c, beta);
    }
}

static void clear_rows(const job *j, char *c, int64_t m, int64_t n) {
    for (int64_t i = 0; i < m; i++) memset(c + i * j->p->c_row * (int64_t)j->item, 0, (size_t)n * j->item);
}

/* Rows [i, i + m) and columns [at, at + n) of one product. */
static void compute_tile(const job *j, int64_t batch, int64_t i, int64_t m, int64_t at, int64_t n) {
    const tpi_product *p = j->p;
    int64_t item = (int64_t)j->item;
    const char *a = p->a.data + (batch * p->a.batch + i * p->a.row) * item;
    const char *b = p->b.data + (batch * p->b.batch + at * p->b.col) * item;
    char *c = p->c + (batch * p->c_batch + i * p->c_row + at) * item;
    if (p->every_row)
        for (int64_t r = 0; r < m; r++) memcpy(c + r * p->c_row * item, p->every_row + at * item, (size_t)n * j->item);
    tpi_param beta = j->beta;
    /* BLAS versions disagree on whether a gemv with beta 0 reads y. */
    if (!p->every_row && !tp_scalar_to_bool(p->beta)) clear_rows(j, c, m, n);
    const int64_t most = 1 << 30;
    for (int64_t k = 0; k < p->k || k == 0; k += most) {
        int64_t length = p->k - k < most ? p->k - k : most;
        call_library(j, (int)m, (int)n, (int)length, a + k * p->a.col * item, b + k * p->b.row * item, c, &beta);
        beta = tpi_param_of(tp_float(1), (tpi_ctype)tpi_dtype_ctype[p->dtype]);
    }
}

static void tile_chunk(int64_t chunk, void *context) {
    const job *j = context;
    const tpi_product *p = j->p;
    int64_t tiles = j->tiles_down * j->tiles_across, batch = chunk / tiles, tile = chunk % tiles;
    int64_t i = tile / j->tiles_across * j->tile_rows, at = tile % j->tiles_across * j->tile_cols;
    int64_t m = p->m - i < j->tile_rows ? p->m - i : j->tile_rows,
            n = p->n - at < j->tile_cols ? p->n - at : j->tile_cols;
    if (p->dtype == TP_INT32 || p->dtype == TP_INT64) {
        TPI_ISA_PICK(tpi_integer_rows)(p, batch, i, m);
        return;
    }
    int before = tpi_blas_quiet();
    compute_tile(j, batch, i, m, at, n);
    tpi_blas_restore(before);
}

static void group_chunk(int64_t chunk, void *context) {
    const job *j = context;
    int64_t first = chunk * j->group, end = first + j->group < j->p->batches ? first + j->group : j->p->batches;
    bool small = j->p->m * j->p->n * j->p->k <= SMALL_WORK && (j->p->dtype == TP_FLOAT32 || j->p->dtype == TP_FLOAT64);
    if (small) {
        for (int64_t i = first; i < end; i++) TPI_ISA_PICK(tpi_small_product)(j->p, i);
        return;
    }
    if (j->p->dtype == TP_INT32 || j->p->dtype == TP_INT64) {
        for (int64_t i = first; i < end; i++) TPI_ISA_PICK(tpi_integer_rows)(j->p, i, 0, j->p->m);
        return;
    }
    int before = tpi_blas_quiet();
    for (int64_t i = first; i < end; i++) compute_tile(j, i, 0, j->p->m, 0, j->p->n);
    tpi_blas_restore(before);
}

static void dot_chunk(int64_t chunk, void *context) {
    const job *j = context;
    const tpi_product *p = j->p;
    int64_t first = chunk * j->dot_chunk, n = p->k - first < j->dot_chunk ? p->k - first : j->dot_chunk;
    int64_t step_a = j->a.trans == CblasTrans ? j->a.ld : 1, step_b = j->b.trans == CblasTrans ? 1 : j->b.ld;
    const char *a = p->a.data + first * step_a * (int64_t)j->item, *b = p->b.data + first * step_b * (int64_t)j->item;
    char *sum = j->partial + chunk * (int64_t)j->item;
    int before = tpi_blas_quiet();
    switch (p->dtype) {
    case TP_FLOAT32:
        *(float *)sum = cblas_sdot((int)n, (const float *)a, (int)step_a, (const float *)b, (int)step_b);
        break;
    case TP_FLOAT64:
        *(double *)sum = cblas_ddot((int)n, (const double *)a, (int)step_a, (const double *)b, (int)step_b);
        break;
    case TP_COMPLEX64: cblas_cdotu_sub((int)n, a, (int)step_a, b, (int)step_b, sum); break;
    default: cblas_zdotu_sub((int)n, a, (int)step_a, b, (int)step_b, sum); break;
    }
    tpi_blas_restore(before);
}

static double _Complex number(tp_scalar s) {
    tpi_c128 v = tpi_param_of(s, TPI_C128).c128;
    double _Complex z;
    __real__ z = v.re;
    __imag__ z = v.im;
    return z;
}

/* One row times one column: chunks of k, added in order. */
static void multiply_dot(job *j) {
    const tpi_product *p = j->p;
    double scratch[2 * DOT_PARTS] = {0};
    j->partial = (char *)scratch;
    j->dot_chunk = tpi_ceil_div(p->k, DOT_PARTS) > DOT_CHUNK ? tpi_ceil_div(p->k, DOT_PARTS) : DOT_CHUNK;
    int64_t chunks = tpi_ceil_div(p->k, j->dot_chunk);
    tpi_parallel_for(chunks, p->k >= WORTH_THREADS, dot_chunk, j);
    double _Complex sum = 0;
    for (int64_t i = 0; i < chunks; i++) sum += number(tpi_load_scalar(j->partial + i * (int64_t)j->item, p->dtype));
    sum *= number(p->alpha);
    if (p->every_row)
        sum += number(tpi_load_scalar(p->every_row, p->dtype));
    else if (number(p->beta) != 0)
        sum += number(p->beta) * number(tpi_load_scalar(p->c, p->dtype));
    bool real = tp_dtype_is_floating(p->dtype);
    tpi_store_scalar(p->c, p->dtype, real ? tp_float(creal(sum)) : tp_cplx(creal(sum), cimag(sum)));
}

/* The tile shape: a function of m, n and k alone. Few large tiles would leave cores idle, many small ones repeat the
 * packing: a big problem is cut down to tiles of at least 64 rows and 256 columns until there are 32 of them. */
static void choose_tiles(job *j) {
    const tpi_product *p = j->p;
    j->tile_rows = TILE_ROWS;
    j->tile_cols = TILE_COLS;
    if (p->m == 1 || p->n == 1) { /* gemv: memory-bound, any slice will do */
        int64_t slice = 65536 / (p->k > 1 ? p->k : 1);
        slice = slice < 64 ? 64 : (slice + 15) / 16 * 16;
        j->tile_rows = j->tile_cols = slice;
    } else if (p->dtype == TP_INT32 || p->dtype == TP_INT64) {
        j->tile_rows = 32;
        j->tile_cols = p->n;
    } else {
        while (j->tile_rows > 64 && tpi_ceil_div(p->m, j->tile_rows) * tpi_ceil_div(p->n, j->tile_cols) < 4) {
            if (p->n > p->m && j->tile_cols > 256)
                j->tile_cols /= 2;
            else
                j->tile_rows /= 2;
            if (p->m * p->n * p->k < (int64_t)WORTH_THREADS * 8) break;
        }
    }
    j->tiles_down = tpi_ceil_div(p->m, j->tile_rows);
    j->tiles_across = tpi_ceil_div(p->n, j->tile_cols);
}

static job job_of(const tpi_product *p) {
    tpi_ctype compute = (tpi_ctype)tpi_dtype_ctype[p->dtype];
    job j = {.p = p,
             .alpha = tpi_param_of(p->alpha, compute),
             .beta = tpi_param_of(p->every_row ? tp_float(1) : p->beta, compute)};
    j.item = tpi_dtype_bytes[p->dtype];
    hand_over(p->m, p->k, p->a.row, p->a.col, &j.a);
    hand_over(p->k, p->n, p->b.row, p->b.col, &j.b);
    return j;
}

static void multiply_by_library(const tpi_product *p, int64_t work) {
    job j = job_of(p);
    bool integer = p->dtype == TP_INT32 || p->dtype == TP_INT64;
    if (p->m == 1 && p->n == 1 && p->batches == 1 && !integer && p->k > 0) {
        multiply_dot(&j);
        return;
    }
    if (work <= WORTH_THREADS) {
        j.group = WORTH_THREADS / work;
        int64_t chunks = tpi_ceil_div(p->batches, j.group);
        tpi_parallel_for(chunks, chunks > 1, group_chunk, &j);
        return;
    }
    choose_tiles(&j);
    tpi_parallel_for(p->batches * j.tiles_down * j.tiles_across, true, tile_chunk, &j);
}

/* ---- A vector and a matrix of 16-bit floats ---- */
typedef struct narrow_job {
    job j;
    tp_dtype dtype; /* of the matrix */
    bool is_a;      /* the matrix is a; otherwise b */
    bool by_rows;   /* elements that meet the vector's lie together */
    int64_t total;  /* elements of the result */
    int64_t step;   /* that are computed at a time */
    tpi_scratch scratch;
} narrow_job;

/* Elements [i, i + count) of the result, by a part of the matrix that is float32 in scratch. */
static void narrow_part(const narrow_job *n, int64_t i, int64_t count, char *scratch) {
    tpi_product part = *n->j.p;
    job j = n->j;
    tpi_operand_matrix *matrix = n->is_a ? &part.a : &part.b;
    int64_t *along = n->is_a ? &matrix->col : &matrix->row, *across = n->is_a ? &matrix->row : &matrix->col;
    const int64_t size = tpi_dtype_bytes[n->dtype], shape[2][2] = {{count, part.k}, {part.k, count}},
                  strides[2][2] = {{*across * size, *along * size}, {*along * size, *across * size}};
    tpi_load_walk(&(tpi_walk){2, shape[n->by_rows], strides[n->by_rows]}, 0, count * part.k,
                  matrix->data + i * *across * size, n->dtype, scratch, part.dtype);
    matrix->data = scratch;
    *along = n->by_rows ? 1 : count;
    *across = n->by_rows ? part.k : 1;
    (n->is_a ? &j.a : &j.b)->ld = (int)(n->by_rows ? part.k : count);
    j.p = &part;
    part.c += i * (n->is_a ? part.c_row : 1) * (int64_t)j.item;
    if (part.every_row && !n->is_a) part.every_row += i * (int64_t)j.item;
    compute_tile(&j, 0, 0, n->is_a ? count : 1, 0, n->is_a ? 1 : count);
}

static void narrow_chunk(int64_t chunk, void *context) {
    const narrow_job *n = context;
    const int64_t slice = n->j.tile_rows, first = chunk * slice,
                  end = first + slice < n->total ? first + slice : n->total;
    _Alignas(64) char stack[TPI_SCRATCH_STACK];
    char *scratch = tpi_scratch_acquire(&n->scratch, stack);
    int before = tpi_blas_quiet();
    for (int64_t i = first; i < end; i += n->step) narrow_part(n, i, end - i < n->step ? end - i : n->step, scratch);
    tpi_blas_restore(before);
    tpi_scratch_release(&n->scratch, scratch);
}

bool tpi_multiplies_narrow(int64_t m, int64_t n, int64_t k) {
    return (m == 1) != (n == 1) && m * n * k > WORTH_THREADS && !tpi_gemm_serves(m, n, k);
}

bool tpi_multiply_narrow(const tpi_product *p, tp_dtype matrix) {
    enum { TOGETHER = 16 }; /* rows that stay in the second cache; a library's groups of rows divide it */
    narrow_job n = {.j = job_of(p), .dtype = matrix, .is_a = p->n == 1, .total = p->m * p->n};
    choose_tiles(&n.j);
    n.by_rows = n.is_a ? n.j.a.trans == CblasNoTrans : n.j.b.trans == CblasTrans;
    n.step = n.by_rows ? TOGETHER : n.j.tile_rows;
    const int64_t chunks = tpi_ceil_div(n.total, n.j.tile_rows);
    if (!tpi_scratch_make(&n.scratch, (size_t)(n.step * p->k) * n.j.item, chunks, true)) return false;
    tpi_parallel_for(chunks, true, narrow_chunk, &n);
    tpi_scratch_free(&n.scratch);
    return true;
}

/* One matrix of a batch after the other, by real products; by the library where there is no memory for that. */
static void multiply_complex(const tpi_product *p, int64_t work) {
    const int64_t item = tpi_dtype_bytes[p->dtype];
    for (int64_t i = 0; i < p->batches; i++) {
        if (tpi_gemm_multiply_complex(p, i)) continue;
        tpi_product one = *p;
        one.batches = 1;
        one.a.data += i * p->a.batch * item;
        one.b.data += i * p->b.batch * item;
        one.c += i * p->c_batch * item;
        multiply_by_library(&one, work);
    }
}

void tpi_multiply(const tpi_product *p) {
    if (p->m == 0 || p->n == 0 || p->batches == 0) return;
    const int64_t work = p->m * p->n * (p->k > 0 ? p->k : 1);
    const bool serves = work > SMALL_WORK && tpi_gemm_serves(p->m, p->n, p->k);
    const bool real = p->dtype == TP_FLOAT32 || p->dtype == TP_FLOAT64;
    if (serves && real)
        tpi_gemm_multiply(p);
    else if (serves && tp_dtype_is_complex(p->dtype) && work > WORTH_THREADS && p->m >= COMPLEX_ROWS)
        multiply_complex(p, work);
    else
        multiply_by_library(p, work);
}

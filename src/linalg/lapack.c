/* The one file that declares and calls LAPACK: its Fortran symbols, which every implementation has (LAPACKE is often
 * missing). Cholesky, LU and triangular systems of real numbers are our own (blocked_factor.h).
 *
 * Scratch memory is laid out here: the routine's own work array first, then real and integer work behind it. The
 * library is kept on the calling thread; callers run a batch's matrices in parallel. */
#include "linalg/lapack.h"
#include "base/dtype.h"
#include "linalg/blas.h"
#include "linalg/blocked_factor.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A routine whose four versions differ only in the type of the elements; Fortran's string lengths come last. */
#define DECLARE4(name, ...)       \
    void s##name##_(__VA_ARGS__); \
    void d##name##_(__VA_ARGS__); \
    void c##name##_(__VA_ARGS__); \
    void z##name##_(__VA_ARGS__)
#define CALL4(t, name, ...)                          \
    ((t) == TP_FLOAT32     ? s##name##_(__VA_ARGS__) \
     : (t) == TP_FLOAT64   ? d##name##_(__VA_ARGS__) \
     : (t) == TP_COMPLEX64 ? c##name##_(__VA_ARGS__) \
                           : z##name##_(__VA_ARGS__))
/* The real versions and the complex ones have different names or arguments. */
#define DECLARE2(a, b, name, ...) \
    void a##name##_(__VA_ARGS__); \
    void b##name##_(__VA_ARGS__)
#define CALL2(first, a, b, name, ...) ((first) ? a##name##_(__VA_ARGS__) : b##name##_(__VA_ARGS__))

typedef const char *chr;
typedef const int *in;
typedef const void *arr;
DECLARE4(potrf, chr, in, void *, in, int *, size_t);
DECLARE4(getrf, in, in, void *, in, int *, int *);
DECLARE4(getrs, chr, in, in, arr, in, in, void *, in, int *, size_t);
DECLARE4(sytrf, chr, in, void *, in, int *, void *, in, int *, size_t);
DECLARE4(sytrs, chr, in, in, arr, in, in, void *, in, int *, size_t);
DECLARE2(c, z, hetrf, chr, in, void *, in, int *, void *, in, int *, size_t);
DECLARE2(c, z, hetrs, chr, in, in, arr, in, in, void *, in, int *, size_t);
DECLARE4(trsm, chr, chr, chr, chr, in, in, arr, arr, in, void *, in, size_t, size_t, size_t, size_t);
DECLARE4(geqrf, in, in, void *, in, void *, void *, in, int *);
DECLARE2(s, d, orgqr, in, in, in, void *, in, arr, void *, in, int *);
DECLARE2(c, z, ungqr, in, in, in, void *, in, arr, void *, in, int *);
DECLARE2(s, d, ormqr, chr, chr, in, in, in, arr, in, arr, void *, in, void *, in, int *, size_t, size_t);
DECLARE2(c, z, unmqr, chr, chr, in, in, in, arr, in, arr, void *, in, void *, in, int *, size_t, size_t);
DECLARE2(s, d, syevd, chr, chr, in, void *, in, void *, void *, in, int *, in, int *, size_t, size_t);
DECLARE2(c, z, heevd, chr, chr, in, void *, in, void *, void *, in, void *, in, int *, in, int *, size_t, size_t);
DECLARE2(s, d, geev, chr, chr, in, void *, in, void *, void *, void *, in, void *, in, void *, in, int *, size_t,
         size_t);
DECLARE2(c, z, geev, chr, chr, in, void *, in, void *, void *, in, void *, in, void *, in, void *, int *, size_t,
         size_t);
DECLARE2(s, d, gesdd, chr, in, in, void *, in, void *, void *, in, void *, in, void *, in, int *, int *, size_t);
DECLARE2(c, z, gesdd, chr, in, in, void *, in, void *, void *, in, void *, in, void *, in, void *, int *, int *,
         size_t);
DECLARE4(gels, chr, in, in, in, void *, in, void *, in, void *, in, int *, size_t);
DECLARE2(s, d, gelsy, in, in, in, void *, in, void *, in, int *, arr, int *, void *, in, int *);
DECLARE2(c, z, gelsy, in, in, in, void *, in, void *, in, int *, arr, int *, void *, in, void *, int *);
DECLARE2(s, d, gelsd, in, in, in, void *, in, void *, in, void *, arr, int *, void *, in, int *, int *);
DECLARE2(c, z, gelsd, in, in, in, void *, in, void *, in, void *, arr, int *, void *, in, void *, int *, int *);
DECLARE2(s, d, gelss, in, in, in, void *, in, void *, in, void *, arr, int *, void *, in, int *);
DECLARE2(c, z, gelss, in, in, in, void *, in, void *, in, void *, arr, int *, void *, in, void *, int *);
void ilaver_(int *major, int *minor, int *patch);

static char version_text[48];

static void find_version(void) {
    int v[3] = {0};
    ilaver_(&v[0], &v[1], &v[2]);
    snprintf(version_text, sizeof version_text, "%d.%d.%d", v[0], v[1], v[2]);
}

const char *tpi_lapack_version(void **function) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_version);
    *function = (void *)sgetrf_;
    return version_text;
}

static int at_least_1(int n) { return n > 1 ? n : 1; }
static bool is_complex(tp_dtype t) { return t == TP_COMPLEX64 || t == TP_COMPLEX128; }
static bool is_single(tp_dtype t) { return t == TP_FLOAT32 || t == TP_COMPLEX64; }
static size_t real_size(tp_dtype t) { return is_single(t) ? 4 : 8; }

/* A number that a routine left in an array after a query for its workspace. */
static int asked(tp_dtype t, const void *work) {
    double n = is_single(t) ? *(const float *)work : *(const double *)work;
    return at_least_1((int)(n * (1 + 1e-6) + 0.5)); /* a float32 may have rounded a large size down */
}

/* Space for `count` elements of `size` bytes at the end of what is laid out; NULL while the size is only being worked
 * out. */
static void *lay(tpi_scratch *s, size_t *at, size_t count, size_t size) {
    void *part = s->memory ? s->memory + *at : NULL;
    *at += (count * size + 15) / 16 * 16;
    return part;
}

/* Runs `statement` twice: as a query, and, when there is memory, for real. lwork is -1 and work `probe` the first time.
 */
#define WITH_WORK(t, s, statement)                             \
    do {                                                       \
        double probe[2] = {0};                                 \
        void *work = probe;                                    \
        int lwork = -1, before = tpi_blas_quiet();             \
        size_t at = 0;                                         \
        statement;                                             \
        lwork = asked(t, probe);                               \
        work = lay(s, &at, (size_t)lwork, tpi_dtype_bytes[t]); \
        if ((s)->memory) {                                     \
            statement;                                         \
        } else {                                               \
            (s)->bytes = at;                                   \
        }                                                      \
        tpi_blas_restore(before);                              \
    } while (0)

/* A packed column-major matrix of so many rows, and the same one transposed. */
static tpi_grid columns_of(const void *a, int rows) { return (tpi_grid){(char *)a, 1, at_least_1(rows)}; }
static tpi_grid rows_of(const void *a, int rows) { return (tpi_grid){(char *)a, at_least_1(rows), 1}; }

int tpi_lapack_potrf(tp_dtype t, bool upper, int n, void *a) {
    if (!is_complex(t)) return tpi_blocked_cholesky(t, n, upper ? rows_of(a, n) : columns_of(a, n));
    int info = 0, ld = at_least_1(n), before = tpi_blas_quiet();
    CALL2(t == TP_COMPLEX64, c, z, potrf, upper ? "U" : "L", &n, a, &ld, &info, 1);
    tpi_blas_restore(before);
    return info;
}

int tpi_lapack_getrf(tp_dtype t, int m, int n, void *a, int *pivots) {
    if (!is_complex(t)) return tpi_blocked_lu(t, m, n, columns_of(a, m), pivots);
    int info = 0, ld = at_least_1(m), before = tpi_blas_quiet();
    CALL2(t == TP_COMPLEX64, c, z, getrf, &m, &n, a, &ld, pivots, &info);
    tpi_blas_restore(before);
    return info;
}

static void solve_real(tp_dtype t, char op, int n, int columns, const void *lu, const int *pivots, void *b) {
    const tpi_grid right = columns_of(b, n);
    if (op == 'N') {
        const tpi_grid factors = columns_of(lu, n);
        tpi_blocked_exchange(t, right, columns, pivots, 0, n, false);
        tpi_blocked_solve(t, (tpi_triangle){factors, false, true}, n, right, columns);
        tpi_blocked_solve(t, (tpi_triangle){factors, true, false}, n, right, columns);
    } else {
        const tpi_grid factors = rows_of(lu, n);
        tpi_blocked_solve(t, (tpi_triangle){factors, false, false}, n, right, columns);
        tpi_blocked_solve(t, (tpi_triangle){factors, true, true}, n, right, columns);
        tpi_blocked_exchange(t, right, columns, pivots, 0, n, true);
    }
}

int tpi_lapack_getrs(tp_dtype t, char op, int n, int columns, const void *lu, const int *pivots, void *b) {
    if (!is_complex(t)) {
        solve_real(t, op, n, columns, lu, pivots, b);
        return 0;
    }
    int info = 0, ld = at_least_1(n), before = tpi_blas_quiet();
    CALL2(t == TP_COMPLEX64, c, z, getrs, &op, &n, &columns, lu, &ld, pivots, b, &ld, &info, 1);
    tpi_blas_restore(before);
    return info;
}

static void swap_bytes(char *a, char *b, size_t n) {
    char held[256];
    for (size_t at = 0; at < n; at += sizeof held) {
        const size_t some = n - at < sizeof held ? n - at : sizeof held;
        memcpy(held, a + at, some);
        memcpy(a + at, b + at, some);
        memcpy(b + at, held, some);
    }
}

void tpi_lapack_inverse(tp_dtype t, int n, const void *lu, const int *pivots, void *b) {
    if (is_complex(t)) {
        tpi_lapack_getrs(t, 'N', n, n, lu, pivots, b);
        return;
    }
    /* A with its rows exchanged is L U: the inverse is that of U times that of L, with columns exchanged. */
    const tpi_grid factors = columns_of(lu, n), inverse = columns_of(b, n);
    tpi_blocked_invert(t, (tpi_triangle){factors, false, true}, n, inverse);
    tpi_blocked_solve(t, (tpi_triangle){factors, true, false}, n, inverse, n);
    const size_t column = (size_t)n * real_size(t);
    for (int i = n - 1; i >= 0; i--)
        if (pivots[i] != i + 1)
            swap_bytes((char *)b + (size_t)i * column, (char *)b + (size_t)(pivots[i] - 1) * column, column);
}

int tpi_lapack_sytrf(tp_dtype t, bool hermitian, bool upper, int n, void *a, int *pivots, tpi_scratch *s) {
    int info = 0, ld = at_least_1(n);
    const char *uplo = upper ? "U" : "L";
    if (hermitian && is_complex(t))
        WITH_WORK(t, s, CALL2(t == TP_COMPLEX64, c, z, hetrf, uplo, &n, a, &ld, pivots, work, &lwork, &info, 1));
    else
        WITH_WORK(t, s, CALL4(t, sytrf, uplo, &n, a, &ld, pivots, work, &lwork, &info, 1));
    return info;
}

int tpi_lapack_sytrs(tp_dtype t, bool hermitian, bool upper, int n, int columns, const void *ldl, const int *pivots,
                     void *b) {
    int info = 0, ld = at_least_1(n), before = tpi_blas_quiet();
    const char *uplo = upper ? "U" : "L";
    if (hermitian && is_complex(t))
        CALL2(t == TP_COMPLEX64, c, z, hetrs, uplo, &n, &columns, ldl, &ld, pivots, b, &ld, &info, 1);
    else
        CALL4(t, sytrs, uplo, &n, &columns, ldl, &ld, pivots, b, &ld, &info, 1);
    tpi_blas_restore(before);
    return info;
}

void tpi_lapack_trsm(tp_dtype t, bool left, bool upper, char op, bool unit, int m, int n, const void *a, void *b) {
    if (!is_complex(t)) { /* X op(A) = B is op(A)^T X^T = B^T */
        const bool transposed = (op != 'N') == left;
        const int size = left ? m : n;
        const tpi_triangle triangle = {transposed ? rows_of(a, size) : columns_of(a, size), upper != transposed, unit};
        tpi_blocked_solve(t, triangle, size, left ? columns_of(b, m) : rows_of(b, m), left ? n : m);
        return;
    }
    int lda = at_least_1(left ? m : n), ldb = at_least_1(m), before = tpi_blas_quiet();
    tpi_param one = tpi_param_of(tp_float(1), (tpi_ctype)tpi_dtype_ctype[t]);
    CALL2(t == TP_COMPLEX64, c, z, trsm, left ? "L" : "R", upper ? "U" : "L", &op, unit ? "U" : "N", &m, &n, &one, a,
          &lda, b, &ldb, 1, 1, 1, 1);
    tpi_blas_restore(before);
}

int tpi_lapack_geqrf(tp_dtype t, int m, int n, void *a, void *tau, tpi_scratch *s) {
    int info = 0, ld = at_least_1(m);
    WITH_WORK(t, s, CALL4(t, geqrf, &m, &n, a, &ld, tau, work, &lwork, &info));
    return info;
}

int tpi_lapack_orgqr(tp_dtype t, int m, int n, int k, void *a, const void *tau, tpi_scratch *s) {
    int info = 0, ld = at_least_1(m);
    if (is_complex(t))
        WITH_WORK(t, s, CALL2(t == TP_COMPLEX64, c, z, ungqr, &m, &n, &k, a, &ld, tau, work, &lwork, &info));
    else
        WITH_WORK(t, s, CALL2(t == TP_FLOAT32, s, d, orgqr, &m, &n, &k, a, &ld, tau, work, &lwork, &info));
    return info;
}

int tpi_lapack_ormqr(tp_dtype t, bool left, bool adjoint, int m, int n, int k, const void *a, const void *tau, void *c,
                     tpi_scratch *s) {
    int info = 0, lda = at_least_1(left ? m : n), ldc = at_least_1(m);
    const char *side = left ? "L" : "R", *op = adjoint ? (is_complex(t) ? "C" : "T") : "N";
    if (is_complex(t))
        WITH_WORK(t, s,
                  CALL2(t == TP_COMPLEX64, c, z, unmqr, side, op, &m, &n, &k, a, &lda, tau, c, &ldc, work, &lwork,
                        &info, 1, 1));
    else
        WITH_WORK(t, s,
                  CALL2(t == TP_FLOAT32, s, d, ormqr, side, op, &m, &n, &k, a, &lda, tau, c, &ldc, work, &lwork, &info,
                        1, 1));
    return info;
}

int tpi_lapack_syevd(tp_dtype t, bool vectors, bool upper, int n, void *a, void *w, tpi_scratch *s) {
    int info = 0, ld = at_least_1(n), minus = -1, ints = 0, before = tpi_blas_quiet();
    const char *job = vectors ? "V" : "N", *uplo = upper ? "U" : "L";
    double probe[2] = {0}, real_probe = 0;
    size_t at = 0;
    if (is_complex(t))
        CALL2(t == TP_COMPLEX64, c, z, heevd, job, uplo, &n, a, &ld, w, probe, &minus, &real_probe, &minus, &ints,
              &minus, &info, 1, 1);
    else
        CALL2(t == TP_FLOAT32, s, d, syevd, job, uplo, &n, a, &ld, w, probe, &minus, &ints, &minus, &info, 1, 1);
    int lwork = asked(t, probe), lreal = is_complex(t) ? asked(t, &real_probe) : 1, lint = at_least_1(ints);
    void *work = lay(s, &at, (size_t)lwork, tpi_dtype_bytes[t]), *real = lay(s, &at, (size_t)lreal, real_size(t));
    int *iwork = lay(s, &at, (size_t)lint, sizeof(int));
    if (!s->memory)
        s->bytes = at;
    else if (is_complex(t))
        CALL2(t == TP_COMPLEX64, c, z, heevd, job, uplo, &n, a, &ld, w, work, &lwork, real, &lreal, iwork, &lint, &info,
              1, 1);
    else
        CALL2(t == TP_FLOAT32, s, d, syevd, job, uplo, &n, a, &ld, w, work, &lwork, iwork, &lint, &info, 1, 1);
    tpi_blas_restore(before);
    return info;
}

/* A real matrix's eigenvalues come as real and imaginary arrays, and its eigenvectors with a conjugate pair in two
 * columns: its real part in the first and the imaginary part in the second. */
#define SPREAD_EIGEN(R)                                                                          \
    static void spread_eigen_##R(int n, const R *re, const R *im, const R *packed, R *w, R *v) { \
        for (int j = 0; j < n; j++) w[2 * j] = re[j], w[2 * j + 1] = im[j];                      \
        for (int j = 0; packed && j < n; j++) {                                                  \
            bool pair = im[j] != 0 && j + 1 < n;                                                 \
            const R *x = packed + (size_t)j * (size_t)n, *y = x + n;                             \
            R *out = v + 2 * (size_t)j * (size_t)n;                                              \
            for (int i = 0; i < n; i++) {                                                        \
                out[2 * i] = x[i], out[2 * i + 1] = pair ? y[i] : 0;                             \
                if (pair) out[2 * (i + n)] = x[i], out[2 * (i + n) + 1] = -y[i];                 \
            }                                                                                    \
            j += pair;                                                                           \
        }                                                                                        \
    }
SPREAD_EIGEN(float)
SPREAD_EIGEN(double)

static int real_geev(tp_dtype t, bool vectors, int n, void *a, void *w, void *v, tpi_scratch *s) {
    int info = 0, ld = at_least_1(n), minus = -1, before = tpi_blas_quiet();
    const char *job = vectors ? "V" : "N";
    double probe[2] = {0}, scrap[2];
    size_t at = 0, item = real_size(t), count = (size_t)n;
    CALL2(t == TP_FLOAT32, s, d, geev, "N", job, &n, a, &ld, scrap, scrap, scrap, &ld, scrap, &ld, probe, &minus, &info,
          1, 1);
    int lwork = asked(t, probe);
    void *work = lay(s, &at, (size_t)lwork, item), *re = lay(s, &at, count, item), *im = lay(s, &at, count, item);
    void *packed = vectors ? lay(s, &at, count * count, item) : NULL;
    if (!s->memory) {
        s->bytes = at;
    } else {
        CALL2(t == TP_FLOAT32, s, d, geev, "N", job, &n, a, &ld, re, im, NULL, &ld, packed, &ld, work, &lwork, &info, 1,
              1);
        if (t == TP_FLOAT32)
            spread_eigen_float(n, re, im, packed, w, v);
        else
            spread_eigen_double(n, re, im, packed, w, v);
    }
    tpi_blas_restore(before);
    return info;
}

int tpi_lapack_geev(tp_dtype t, bool vectors, int n, void *a, void *w, void *v, tpi_scratch *s) {
    if (!is_complex(t)) return real_geev(t, vectors, n, a, w, v, s);
    int info = 0, ld = at_least_1(n), minus = -1, before = tpi_blas_quiet();
    const char *job = vectors ? "V" : "N";
    double probe[2] = {0}, real_probe[2]; /* a query may write to the real work too */
    size_t at = 0;
    CALL2(t == TP_COMPLEX64, c, z, geev, "N", job, &n, a, &ld, w, NULL, &ld, v, &ld, probe, &minus, real_probe, &info,
          1, 1);
    int lwork = asked(t, probe);
    void *work = lay(s, &at, (size_t)lwork, tpi_dtype_bytes[t]), *real = lay(s, &at, 2 * (size_t)n + 1, real_size(t));
    if (!s->memory)
        s->bytes = at;
    else
        CALL2(t == TP_COMPLEX64, c, z, geev, "N", job, &n, a, &ld, w, NULL, &ld, v, &ld, work, &lwork, real, &info, 1,
              1);
    tpi_blas_restore(before);
    return info;
}

int tpi_lapack_gesdd(tp_dtype t, char job, int m, int n, void *a, void *sv, void *u, void *vh, tpi_scratch *s) {
    int info = 0, minus = -1, small = m < n ? m : n, large = m < n ? n : m, before = tpi_blas_quiet();
    int lda = at_least_1(m), ldu = lda, ldv = at_least_1(job == 'S' ? small : n);
    double probe[2] = {0}, real_probe[2];
    int int_probe[2];
    size_t at = 0, k = (size_t)small, most = (size_t)large;
    if (is_complex(t))
        CALL2(t == TP_COMPLEX64, c, z, gesdd, &job, &m, &n, a, &lda, sv, u, &ldu, vh, &ldv, probe, &minus, real_probe,
              int_probe, &info, 1);
    else
        CALL2(t == TP_FLOAT32, s, d, gesdd, &job, &m, &n, a, &lda, sv, u, &ldu, vh, &ldv, probe, &minus, int_probe,
              &info, 1);
    int lwork = asked(t, probe);
    /* LAPACK's bound for the real work of the complex versions */
    size_t reals = job == 'N' ? 7 * k : k * (5 * k + 7 > 2 * most + 2 * k + 1 ? 5 * k + 7 : 2 * most + 2 * k + 1);
    void *work = lay(s, &at, (size_t)lwork, tpi_dtype_bytes[t]), *real = lay(s, &at, reals + 1, real_size(t));
    int *ints = lay(s, &at, 8 * k + 1, sizeof(int));
    if (!s->memory)
        s->bytes = at;
    else if (is_complex(t))
        CALL2(t == TP_COMPLEX64, c, z, gesdd, &job, &m, &n, a, &lda, sv, u, &ldu, vh, &ldv, work, &lwork, real, ints,
              &info, 1);
    else
        CALL2(t == TP_FLOAT32, s, d, gesdd, &job, &m, &n, a, &lda, sv, u, &ldu, vh, &ldv, work, &lwork, ints, &info, 1);
    tpi_blas_restore(before);
    return info;
}

/* The arguments that all least squares drivers share. */
typedef struct least {
    tp_dtype t;
    int m, n, columns, lda, ldb;
    void *a, *b;
    tpi_param rcond;
    int *rank, *ints;
    void *sv, *real;
} least;

static int least_squares(const least *x, char driver, void *work, int lwork) {
    int info = 0;
    bool single = is_single(x->t);
    in m = &x->m, n = &x->n, p = &x->columns, lda = &x->lda, ldb = &x->ldb;
    if (driver == 'l')
        CALL4(x->t, gels, "N", m, n, p, x->a, lda, x->b, ldb, work, &lwork, &info, 1);
    else if (driver == 'y' && is_complex(x->t))
        CALL2(single, c, z, gelsy, m, n, p, x->a, lda, x->b, ldb, x->ints, &x->rcond, x->rank, work, &lwork, x->real,
              &info);
    else if (driver == 'y')
        CALL2(single, s, d, gelsy, m, n, p, x->a, lda, x->b, ldb, x->ints, &x->rcond, x->rank, work, &lwork, &info);
    else if (driver == 'd' && is_complex(x->t))
        CALL2(single, c, z, gelsd, m, n, p, x->a, lda, x->b, ldb, x->sv, &x->rcond, x->rank, work, &lwork, x->real,
              x->ints, &info);
    else if (driver == 'd')
        CALL2(single, s, d, gelsd, m, n, p, x->a, lda, x->b, ldb, x->sv, &x->rcond, x->rank, work, &lwork, x->ints,
              &info);
    else if (is_complex(x->t))
        CALL2(single, c, z, gelss, m, n, p, x->a, lda, x->b, ldb, x->sv, &x->rcond, x->rank, work, &lwork, x->real,
              &info);
    else
        CALL2(single, s, d, gelss, m, n, p, x->a, lda, x->b, ldb, x->sv, &x->rcond, x->rank, work, &lwork, &info);
    return info;
}

int tpi_lapack_gels(tp_dtype t, char driver, int m, int n, int columns, void *a, void *b, double rcond, int *rank,
                    void *sv, tpi_scratch *s) {
    int before = tpi_blas_quiet(), info = 0, scrap_rank = 0, int_probe = 0;
    double probe[2] = {0}, real_probe = 0;
    size_t at = 0, k = (size_t)(m < n ? m : n), item = real_size(t);
    least x = {t,
               m,
               n,
               columns,
               at_least_1(m),
               at_least_1(m > n ? m : n),
               a,
               b,
               {0},
               rank ? rank : &scrap_rank,
               &int_probe,
               sv,
               &real_probe};
    if (is_single(t))
        x.rcond.f32 = (float)rcond;
    else
        x.rcond.f64 = rcond;
    least_squares(&x, driver, probe, -1);
    int lwork = asked(t, probe);
    bool divide = driver == 'd';
    size_t reals = divide          ? (size_t)asked(t, &real_probe)
                   : driver == 'y' ? 2 * (size_t)n
                                   : 5 * k,
           ints = divide ? (size_t)at_least_1(int_probe) : (size_t)n;
    void *work = lay(s, &at, (size_t)lwork, tpi_dtype_bytes[t]);
    x.real = lay(s, &at, reals + 1, item);
    x.ints = lay(s, &at, ints + 1, sizeof(int));
    if (!sv) x.sv = lay(s, &at, k + 1, item);
    if (!s->memory) {
        s->bytes = at;
    } else {
        if (driver == 'y') memset(x.ints, 0, ints * sizeof(int)); /* every column is free to be exchanged */
        info = least_squares(&x, driver, work, lwork);
    }
    tpi_blas_restore(before);
    return info;
}

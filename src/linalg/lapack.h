/* LAPACK over raw memory: one matrix per call, column-major and packed (a leading size equal to the number of rows), in
 * float32, float64, complex64 or complex128. Each function returns LAPACK's info: 0, or what went wrong.
 *
 * Functions that need scratch memory take a tpi_scratch: with memory NULL they compute nothing and set bytes to what
 * they need. */
#ifndef TPI_LAPACK_H
#define TPI_LAPACK_H
#include <taper/base.h>

typedef struct tpi_scratch {
    char *memory;
    size_t bytes;
} tpi_scratch;

/* Cholesky: the triangle is replaced by its factor; the other one may be overwritten. */
int tpi_lapack_potrf(tp_dtype t, bool upper, int n, void *a);

/* LU with row exchanges: pivots are LAPACK's (from 1), min(m, n) of them. */
int tpi_lapack_getrf(tp_dtype t, int m, int n, void *a, int *pivots);
/* Solves op(A) X = B from getrf's factors; op is 'N', 'T' or 'C'. B is (n, columns). */
int tpi_lapack_getrs(tp_dtype t, char op, int n, int columns, const void *lu, const int *pivots, void *b);

/* The inverse from getrf's factors takes the place of b (n, n), which holds the identity. */
void tpi_lapack_inverse(tp_dtype t, int n, const void *lu, const int *pivots, void *b);

/* The symmetric (or Hermitian) indefinite factorisation of a triangle, and solving with it. */
int tpi_lapack_sytrf(tp_dtype t, bool hermitian, bool upper, int n, void *a, int *pivots, tpi_scratch *s);
int tpi_lapack_sytrs(tp_dtype t, bool hermitian, bool upper, int n, int columns, const void *ldl, const int *pivots,
                     void *b);

/* B (m, n) is replaced by X with op(A) X = B (left) or X op(A) = B; A is triangular of size m or n. */
void tpi_lapack_trsm(tp_dtype t, bool left, bool upper, char op, bool unit, int m, int n, const void *a, void *b);

/* QR: reflectors below the diagonal and in tau, R above; then Q's first n columns from k reflectors; op(Q) applied to c
 * (m, n). */
int tpi_lapack_geqrf(tp_dtype t, int m, int n, void *a, void *tau, tpi_scratch *s);
int tpi_lapack_orgqr(tp_dtype t, int m, int n, int k, void *a, const void *tau, tpi_scratch *s);
int tpi_lapack_ormqr(tp_dtype t, bool left, bool adjoint, int m, int n, int k, const void *a, const void *tau, void *c,
                     tpi_scratch *s);

/* Eigenvalues w (real, ascending) of a symmetric or Hermitian matrix; `a` is replaced by the eigenvectors if wanted. */
int tpi_lapack_syevd(tp_dtype t, bool vectors, bool upper, int n, void *a, void *w, tpi_scratch *s);
/* Eigenvalues w (complex) of any square matrix, and right eigenvectors v (complex) if v is not NULL. `a` is destroyed.
 */
int tpi_lapack_geev(tp_dtype t, bool vectors, int n, void *a, void *w, void *v, tpi_scratch *s);
/* Singular values; job 'A': all of u (m, m) and vh (n, n), 'S': the first min(m, n), 'N': neither. `a` is destroyed. */
int tpi_lapack_gesdd(tp_dtype t, char job, int m, int n, void *a, void *sv, void *u, void *vh, tpi_scratch *s);

/* Least squares. B has max(m, n) rows; its first n become the solution. driver: 'l' gels, 'y' gelsy, 'd' gelsd, 's'
 * gelss. rank is set by all but gels; sv (min(m, n) real values) by gelsd and gelss. */
int tpi_lapack_gels(tp_dtype t, char driver, int m, int n, int columns, void *a, void *b, double rcond, int *rank,
                    void *sv, tpi_scratch *s);

/* The version of the interface ("3.9.0"), a text that stays, and one of its functions. */
const char *tpi_lapack_version(void **function);
#endif

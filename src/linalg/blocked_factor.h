/* Cholesky, LU, and triangular systems of float32 and float64, by halves: the small blocks that are left have kernels
 * (blocked_factor_kernels.h), and everything else is matrix products (blas.h). Same bits on any number of threads.
 *
 * Matrices lie as a tpi_grid says: columns or rows have unit stride. */
#ifndef TPI_BLOCKED_H
#define TPI_BLOCKED_H
#include "device/cpu/isa.h"
#include "linalg/blas.h"

enum {
    TPI_BLOCK = 32,       /* the largest triangle that a kernel solves or factors */
    TPI_BLOCK_COLUMNS = 8 /* the widest panel of an LU factorisation that a kernel factors */
};

/* Where a matrix is: element (i, j) is at data + i * row + j * col, counted in elements. */
typedef struct tpi_grid {
    char *data;
    int64_t row, col;
} tpi_grid;

/* A triangle. `unit`: its diagonal counts as ones. */
typedef struct tpi_triangle {
    tpi_grid at;
    bool upper, unit;
} tpi_triangle;

/* X with T X = B takes the place of B (n, lanes). */
void tpi_blocked_solve(tp_dtype dtype, tpi_triangle t, int64_t n, tpi_grid b, int64_t lanes);
/* The inverse of a triangle takes the place of B (n, n), which holds the identity. */
void tpi_blocked_invert(tp_dtype dtype, tpi_triangle t, int64_t n, tpi_grid b);
/* The lower triangle's Cholesky factor takes its place; what is above the diagonal is overwritten too. Returns 0, or
 * the order of the first minor that is not positive. */
int tpi_blocked_cholesky(tp_dtype dtype, int64_t n, tpi_grid a);
/* LU of a column-major (m, n) matrix with rows exchanged; pivots are LAPACK's. Returns 0, or the first zero of U's
 * diagonal, counted from 1. */
int tpi_blocked_lu(tp_dtype dtype, int64_t m, int64_t n, tpi_grid a, int *pivots);
/* Exchanges rows of a column-major matrix's columns as pivots [first, end) say, or takes that back. */
void tpi_blocked_exchange(tp_dtype dtype, tpi_grid a, int64_t columns, const int *pivots, int64_t first, int64_t end,
                          bool back);

/* The kernels. solve: the same as above, n up to TPI_BLOCK. cholesky: n up to TPI_BLOCK. lu: n up to TPI_BLOCK_COLUMNS
 * and m, columns of unit stride. */
#define TPI_BLOCKED_DECLARE(name)                                                                              \
    TPI_ISA_DECLARE(void, name##_solve, (const tpi_triangle *t, int64_t n, const tpi_grid *b, int64_t lanes)); \
    TPI_ISA_DECLARE(int, name##_cholesky, (int64_t n, const tpi_grid *a));                                     \
    TPI_ISA_DECLARE(int, name##_lu, (int64_t m, int64_t n, const tpi_grid *a, int *pivots))
TPI_BLOCKED_DECLARE(tpi_block);
TPI_BLOCKED_DECLARE(tpi_block_f64);
#endif

/* Matrices on GPUs, a block of threads for each (factor_gpu_kernel.h, jacobi_gpu_kernel.h): for those that are
 * small enough, or many. */
#ifndef TPI_GPU_FACTOR_H
#define TPI_GPU_FACTOR_H
#include "ops/temporaries.h"
#include "ops/native_gpu.h"
#include "ops/linalg/batch.h"

static inline int64_t tpi_rows_of(const tp_tensor *t) { return t->shape[t->ndim - 2]; }
static inline int64_t tpi_cols_of(const tp_tensor *t) { return t->shape[t->ndim - 1]; }

/* Matrices of a dtype that the device computes in, none of them empty, of a size that a block is done with soon. */
bool tpi_gpu_blocks_fit(const tp_tensor *t);

/* A block for each matrix of t, which is in column order. */
typedef struct tpi_gpu_matrix_kernel {
    const tpi_gpu_site *site; /* static */
    int64_t held; /* numbers of t's dtype that it works on: in shared memory, if they fit. tpi_gpu_held(m, n) for a
                     matrix */
    int option;   /* see the kernel */
} tpi_gpu_matrix_kernel;
bool tpi_gpu_each_matrix(tpi_gpu_matrix_kernel kernel, const tp_tensor *t, int nargs, const tpi_gpu_arg *args);
static inline int64_t tpi_gpu_held(int64_t m, int64_t n) { return (m | 1) * n; }
bool tpi_gpu_holds(const tp_tensor *t, int64_t held); /* do they fit? */

/* All in place, and in column order. pivots: int32. */
bool tpi_gpu_block_lu(tp_tensor *a, tp_tensor *pivots, tp_tensor *info);
/* b becomes the solution, inverse: of the identity; what is in a afterwards is of no use. */
bool tpi_gpu_block_solve(tp_tensor *a, tp_tensor *b, bool inverse, tp_tensor *info);
bool tpi_gpu_block_cholesky(tp_tensor *a, tp_tensor *info);
bool tpi_gpu_fill_identity(tp_tensor *t);

/* The driver's library for t, where it is there and t is worth it; NULL without an error. */
const tpi_gpu_driver *tpi_gpu_solver_for(const tp_tensor *t);
bool tpi_gpu_library_solves(const tpi_gpu_driver *driver, const tp_tensor *a, tpi_gpu_solver s);

bool tpi_gpu_info_clear(const tp_tensor *info);                                  /* all zero? waits for the device */
bool tpi_gpu_hand_over(int n, tp_tensor *const *made, bool ok, tp_tensor **out); /* hands over, or drops; returns ok */

bool tpi_gpu_is_finite(tpi_temporaries *temps, tp_tensor *t); /* every element? waits for the device */
/* A = U diag(S) Vh of matrices with no fewer rows than columns: out is U, as large as A, S and Vh. */
bool tpi_gpu_library_svd(tp_tensor *A, tp_tensor **out);

/* Columns of matrices whose vectors are found by rotations: jacobi_gpu_kernel.h has room for so many, and larger ones
 * take long. */
enum { TPI_GPU_MOST_ROTATED = 128 };

/* The natives of linalg_lu_factor_ex, linalg_solve_ex and linalg_qr, for others; false without an error: not served. */
tpi_served tpi_gpu_solve_ex(tp_tensor *A, tp_tensor *B, bool left, bool check_errors, tp_tensor **out);
tpi_served tpi_gpu_lu_factor_ex(tp_tensor *A, bool pivot, bool check_errors, tp_tensor **out);
tpi_served tpi_gpu_qr(tp_tensor *A, const char *mode, tp_tensor **out);
#endif

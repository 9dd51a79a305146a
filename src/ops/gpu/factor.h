/* Matrices on GPUs, a block of threads for each (device/gpu/kernels/factor.h, jacobi.h): for those that are small enough, or many. */
#ifndef TPI_GPU_FACTOR_H
#define TPI_GPU_FACTOR_H
#include "ops/gpu/kernel.h"
#include "ops/linalg_batch.h"

static inline int64_t tpi_rows_of(const tp_tensor *t) { return t->shape[t->ndim - 2]; }
static inline int64_t tpi_cols_of(const tp_tensor *t) { return t->shape[t->ndim - 1]; }

/* Matrices of a dtype that the device computes in, none of them empty, of a size that a block is done with soon. */
bool tpi_gpu_blocks_fit(const tp_tensor *t);

/* A block for each matrix of t, which is in column order. */
bool tpi_gpu_each_matrix(const tpi_gpu_site *site, const tp_tensor *t, int nargs, const tpi_gpu_arg *args);

/* All in place, and in column order. pivots: int32. */
bool tpi_gpu_block_lu(tp_tensor *a, tp_tensor *pivots, tp_tensor *info);
bool tpi_gpu_block_lu_solve(const tp_tensor *lu, const tp_tensor *pivots, tp_tensor *b);
bool tpi_gpu_block_cholesky(tp_tensor *a, tp_tensor *info);

/* The driver's library for t, where it is there and t is worth it; NULL without an error. */
const tpi_gpu_driver *tpi_gpu_solver_for(const tp_tensor *t);
bool tpi_gpu_library_solves(const tpi_gpu_driver *driver, const tp_tensor *a, tpi_gpu_solver s);

/* The natives of linalg_lu_factor_ex, linalg_solve_ex, linalg_svd_with and linalg_qr, for others; false without an error: not served. */
bool tpi_gpu_solve_ex(tp_tensor *A, tp_tensor *B, bool left, bool check_errors, tp_tensor **out);
bool tpi_gpu_lu_factor_ex(tp_tensor *A, bool pivot, bool check_errors, tp_tensor **out);
bool tpi_gpu_svd(tp_tensor *A, bool full_matrices, tp_tensor **out);
bool tpi_gpu_qr(tp_tensor *A, const char *mode, tp_tensor **out);
#endif

/* Batches of matrices for LAPACK: copies in column-major order, a loop over the batch with scratch memory, and shared
 * checks. */
#ifndef TPI_LINALG_BATCH_H
#define TPI_LINALG_BATCH_H
#include "linalg/lapack.h"
#include "ops/native.h"

/* One operand of a batched routine: matrix (or vector) i starts at data + i * step. */
typedef struct tpi_part {
    char *data;
    size_t step;  /* bytes */
    bool made_up; /* see tpi_is_made_up */
} tpi_part;

/* What a routine works on; which parts it uses is its own affair. */
typedef struct tpi_matrices {
    tp_dtype dtype;
    int64_t batches;
    int m, n, k;
    tpi_part a, b, c, d;
    int32_t *pivots;
    int32_t *info; /* one per matrix, may be NULL */
    bool upper, left, unit, adjoint, vectors, hermitian;
    char job;
    double tolerance;
} tpi_matrices;

typedef void (*tpi_matrix_fn)(const tpi_matrices *x, int64_t i, tpi_scratch *scratch);
/* Calls fn for each matrix, or for none where those of part a are made up. scratch: bytes that fn needs, allocated
 * before. False and an error without memory. */
bool tpi_each_matrix(const tpi_matrices *x, size_t scratch, tpi_matrix_fn fn);

static inline void *tpi_at(tpi_part p, int64_t i) { return p.data + (size_t)i * p.step; }

/* A new tensor (batch..., rows, cols) whose matrices are column-major. The batch shape is that of `like` without its
 * last `drop` dims. */
tp_tensor *tpi_columns_new(const tp_tensor *like, int drop, int64_t rows, int64_t cols, tp_dtype dtype);
/* A copy of t in that layout, its batch dims broadcast to `batch` (not given: as they are). */
tp_tensor *tpi_columns_copy(const tp_tensor *t, tp_ints batch);
tpi_part tpi_columns_part(const tp_tensor *t); /* of a tensor made by one of the two */
/* A new contiguous tensor (batch..., n), and one without the last dim. */
tp_tensor *tpi_rows_new(const tp_tensor *like, int drop, int64_t n, tp_dtype dtype);
tp_tensor *tpi_batch_new(const tp_tensor *like, int drop, tp_dtype dtype);
tpi_part tpi_rows_part(const tp_tensor *t); /* steps by the last dim */
int64_t tpi_batches_of(const tp_tensor *t, int drop);

/* A native that fails leaves no results: releases and clears them; returns false. */
bool tpi_no_results(tp_tensor **out, int n);

/* ---- Checks: false with an error that names the argument ---- */
bool tpi_check_matrices(const tp_tensor *t,
                        const char *name); /* float32, float64 or complex, two dims or more, sizes LAPACK can count */
bool tpi_check_square(const tp_tensor *t, const char *name);
bool tpi_are_vectors(const tp_tensor *A,
                     const tp_tensor *B); /* right-hand sides of A: B has one dim, or A's shape without the last */
/* info: int32, one per matrix. Returns the first that is not 0 (*batch is its place, -1 without batch dims), or 0. */
int tpi_first_info(const tp_tensor *info, int64_t *batch);
/* How a message about matrices begins, as PyTorch's do: "linalg.inv: (Batch element 2): ", without `op` where the
 * message begins with the operator that was called, without the element where there is no batch. In a thread-local
 * buffer. */
const char *tpi_failed_text(const char *op, int64_t batch);

extern const double tpi_pade[14]; /* coefficients of the fraction of degree 13 that stands for exp */
#endif

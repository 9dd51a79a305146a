/* Sparse tensors as objects: places and values, or compressed rows. As PyTorch's sparse_coo_tensor and
 * sparse_csr_tensor, over the same operators.
 *
 *     tp_sparse *a = tp_sparse_from_coo(places, values, TP_INTS(1000, 1000));    // places: int64, (2, stored)
 *     tp_sparse *rows = tp_sparse_as_csr(a);
 *     tp_tensor *y = tp_sparse_matmul(rows, x);                  // with gradients to the values and to x
 *     tp_sparse_free(rows);
 *     tp_sparse_free(a);
 *
 * An object holds its tensors and never changes. Results that are tensors go to the innermost scope, as an operator's
 * do; results that are objects are the caller's. */
#ifndef TAPER_SPARSE_H
#define TAPER_SPARSE_H
#include <taper/tensor.h>

TP_BEGIN

typedef struct tp_sparse tp_sparse;
/* Places (dims, stored) of int64 or int32, and a value for each; a place that comes twice stands for the sum. Places
 * out of range are an error. */
TP_API tp_sparse *tp_sparse_from_coo(tp_tensor *indices, tp_tensor *values, tp_ints size);
/* Where each row begins, crow (rows + 1), and the column of each value, col (stored). */
TP_API tp_sparse *tp_sparse_from_csr(tp_tensor *crow, tp_tensor *col, tp_tensor *values, tp_ints size);
TP_API tp_sparse *tp_sparse_from_dense(tp_tensor *dense); /* by places, those of elements other than 0, in order */
TP_API void tp_sparse_free(tp_sparse *sparse);            /* NULL is fine */

/* Is it stored by rows (CSR), not by places (COO)? */
TP_API bool tp_sparse_is_csr(const tp_sparse *sparse);
TP_API bool tp_sparse_is_coalesced(const tp_sparse *sparse); /* no place twice, all in order */
TP_API int64_t tp_sparse_nnz(const tp_sparse *sparse);       /* stored values; -1 on failure */
TP_API tp_ints tp_sparse_size(const tp_sparse *sparse);      /* lives as long as the object */
/* Borrowed, as long as the object lives. Of the other layout: NULL and an error. */
TP_API tp_tensor *tp_sparse_values(const tp_sparse *sparse);
TP_API tp_tensor *tp_sparse_indices(const tp_sparse *sparse);      /* by places */
TP_API tp_tensor *tp_sparse_crow_indices(const tp_sparse *sparse); /* by rows */
TP_API tp_tensor *tp_sparse_col_indices(const tp_sparse *sparse);

TP_API tp_sparse *tp_sparse_coalesced(const tp_sparse *sparse); /* each place once, in order */
/* The same tensor, stored by places. */
TP_API tp_sparse *tp_sparse_as_coo(const tp_sparse *sparse);
TP_API tp_sparse *tp_sparse_as_csr(const tp_sparse *sparse);     /* of a matrix; coalesced */
TP_API tp_sparse *tp_sparse_transposed(const tp_sparse *sparse); /* of a matrix; by places */
/* A dense tensor with the same values, and 0 elsewhere. */
TP_API tp_tensor *tp_sparse_to_dense(const tp_sparse *sparse);
/* A sparse matrix times a dense one, or a vector. */
TP_API tp_tensor *tp_sparse_matmul(const tp_sparse *sparse, tp_tensor *dense);
/* The product of two sparse matrices, and the sum of two sparse tensors of one size; both sparse. */
TP_API tp_sparse *tp_sparse_product(const tp_sparse *left, const tp_sparse *right);
TP_API tp_sparse *tp_sparse_plus(const tp_sparse *left, const tp_sparse *right);

TP_END
#endif

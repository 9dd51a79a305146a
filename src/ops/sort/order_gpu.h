/* Orders on GPUs: a stable radix sort of keys with their places (ops/sort/sort_gpu_kernel.h), which sort, topk,
 * embeddings' gradients and scattered sums are made of. At most 2^31 - 1 elements. */
#ifndef TPI_GPU_ORDER_H
#define TPI_GPU_ORDER_H
#include "ops/native_gpu.h"

/* The places of x's elements in their order, int32, owned; x is contiguous. Rows of n elements are sorted each by
 * itself, one behind the other. NULL: declined, or an error. *sorted (if wanted, and with one row): the keys in order,
 * uint32 or uint64 in the bytes of an int32 or int64 tensor, owned. */
tp_tensor *tpi_gpu_order(tp_tensor *x, int64_t n, bool backwards, tp_tensor **sorted);
/* The same for whole numbers from 0 to `limit`, int32 or int64: only the digits that they have are sorted by. */
tp_tensor *tpi_gpu_order_indices(tp_tensor *index, int64_t limit, tp_tensor **sorted);

/* Rows of n elements that a block, or a thread for each element, puts in order at once. What is wanted of the order is
 * as ops/sort/sort_gpu_kernel.h has it. */
typedef enum tpi_gpu_wanted {
    TPI_FIRST_OF_ORDER, /* the first k elements and their places in the row */
    TPI_AT_RANK,        /* element k alone, from 0 on */
    TPI_MEDIAN,         /* the one in the middle; the first NaN where there is one */
    TPI_MEDIAN_OF_REST  /* the one in the middle of those that are not NaN */
} tpi_gpu_wanted;
/* x is contiguous; values and indices (int64) are, with k elements for each row, or one. False without an error: rows
 * are too long, or of a dtype that has no order here. */
bool tpi_gpu_order_rows(tp_tensor *x, int64_t n, bool backwards, tpi_gpu_wanted wanted, int64_t k, tp_tensor *values,
                        tp_tensor *indices);
#endif

/* Orders on GPUs: a stable radix sort of keys with their places (ops/sort/sort.gpu.h), which sort, topk, embeddings'
 * gradients and scattered sums are made of. At most 2^31 - 1 elements. */
#ifndef TPI_GPU_ORDER_H
#define TPI_GPU_ORDER_H
#include "ops/native_gpu.h"

/* The places of x's elements in their order, int32, owned; x is contiguous. Rows of n elements are sorted each by
 * itself, one behind the other. NULL: declined, or an error. *sorted (if wanted, and with one row): the keys in order,
 * uint32 or uint64 in the bytes of an int32 or int64 tensor, owned. */
tp_tensor *tpi_gpu_order(tp_tensor *x, int64_t n, bool backwards, tp_tensor **sorted);
/* The same for whole numbers from 0 to `limit`: only the digits that they have are sorted by. */
tp_tensor *tpi_gpu_order_indices(tp_tensor *index, int64_t limit, tp_tensor **sorted);
#endif

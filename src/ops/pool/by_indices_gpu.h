/* The gradient of a max pool whose windows are not known, from the places alone: their sums in planes of zeros. NULL
 * without an error declines. */
#ifndef TPI_GPU_POOL_INDEX_H
#define TPI_GPU_POOL_INDEX_H
#include "tensor/tensor.h"
tp_tensor *tpi_gpu_pool_back_by_indices(tp_tensor *grad, tp_tensor *indices, tp_ints shape, int64_t dims);
#endif

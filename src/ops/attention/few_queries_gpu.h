/* Attention of a few queries, by kernels of our own. */
#ifndef TPI_OPS_FEW_QUERIES_GPU_H
#define TPI_OPS_FEW_QUERIES_GPU_H
#include "ops/native_gpu.h"

/* Does a's forward suit them? mask: NULL, or with four dims or fewer of q's batches and heads, its queries and keys. */
bool tpi_gpu_few_queries_suits(tp_device device, const tpi_gpu_attention *a, const tp_tensor *mask);
bool tpi_gpu_few_queries(tp_device device, const tpi_gpu_attention *a, const tp_tensor *mask); /* of one that suits */
#endif

/* Matrix products on GPUs: by the driver's library where it has one for the dtype and layout, else by kernels. */
#ifndef TPI_OPS_GPU_MATMUL_H
#define TPI_OPS_GPU_MATMUL_H
#include "ops/blas.h"
#include "tensor/tensor.h"

/* out (contiguous, of p's dtype, which is any number's) = alpha a b + beta out, plus `bias` (n elements, one per column) unless it is NULL. p->c is not read. */
bool tpi_gpu_multiply(tp_tensor *out, const tpi_product *p, const tp_tensor *bias);
#endif

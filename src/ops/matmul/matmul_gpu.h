/* Matrix products on GPUs: by the driver's library where it has one for the dtype and layout, else by kernels. */
#ifndef TPI_OPS_GPU_MATMUL_H
#define TPI_OPS_GPU_MATMUL_H
#include "device/gpu/driver.h"
#include "linalg/blas.h"

/* out (contiguous, of p's dtype, which is any number's) = alpha a b + beta out, plus `bias` (n elements, one per
 * column) unless it is NULL. p->c is not read. */
bool tpi_gpu_multiply(tp_tensor *out, const tpi_product *p, const tp_tensor *bias);

/* What a kernel of ops/matmul/matmul_gpu_kernel.h is written for. */
typedef struct tpi_gpu_matmul_form {
    tp_dtype dtype;
    bool tiled, sharing, a_down, b_down, has_c, has_bias;
    int side; /* threads of a block: side * side */
} tpi_gpu_matmul_form;
bool tpi_gpu_matmul_source(tpi_text *text, const void *form); /* a tpi_gpu_source */

/* few_rows_gpu.c: out[v][r] = sum over i of x[v][i] * weight[r][i], for a few vectors of a 16-bit or 32-bit dtype;
 * `scales`: the sum times the row's scale, `bias`: plus the row's; NULL: neither. */
typedef struct tpi_few_rows {
    void *out;
    const void *x, *weight, *scales, *bias;
    tp_dtype dtype, weight_dtype, scales_dtype; /* of x, out and bias; of the matrix; of its scales */
    int64_t vectors, rows, k;
    int64_t x_pitch, weight_pitch, out_pitch; /* elements from one vector or row to the next */
} tpi_few_rows;
bool tpi_gpu_few_rows_suits(tp_device device, const tpi_few_rows *p);
bool tpi_gpu_few_rows(tp_device device, const tpi_few_rows *p); /* of one that suits */

/* byte_products.c: products of 8-bit numbers, made of other operators, on any device. */
tp_tensor *tpi_native_byte_product(tp_tensor *self, tp_tensor *mat2);
tp_tensor *tpi_native_float8_product(tp_tensor *self, tp_tensor *mat2, tp_tensor *scale_a, tp_tensor *scale_b,
                                     tp_dtype dtype, bool fast);
tp_tensor *tpi_native_weight_only_product(tp_tensor *self, tp_tensor *weight, tp_tensor *scales);

/* byte_products_gpu.c: a float8 product by the library of the GPU that has the tensors; NULL: declined, or failed and
 * an error. */
tp_tensor *tpi_gpu_float8_product(tp_tensor *self, tp_tensor *mat2, tp_tensor *scale_a, tp_tensor *scale_b,
                                  tp_dtype dtype, bool fast);

/* compose.c: cross products made of other operators, on any device. */
tp_tensor *tpi_native_cross_product(tp_tensor *self, tp_tensor *other, int64_t dim);
#endif

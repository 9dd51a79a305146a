/* Matrix products over raw memory: by kernels of our own (gemm.h) where they serve, else by the BLAS, which no other
 * file calls for products. Same bits on any number of threads. */
#ifndef TPI_BLAS_H
#define TPI_BLAS_H
#include "base/dtype.h"

/* A batch of matrices somewhere in memory; strides count elements and may be anything tpi_blas_fits accepts. */
typedef struct tpi_operand_matrix {
    const char *data;
    int64_t batch, row, col; /* strides; batch may be 0: one matrix serves all */
} tpi_operand_matrix;

/* c[i] = alpha * a[i] b[i] + beta * c[i] for i < batches; a[i] is (m, k), b[i] is (k, n), c[i] is (m, n) with rows of
 * unit stride. */
typedef struct tpi_product {
    tp_dtype dtype; /* of a, b and c: int32, int64, float32, float64, complex64 or complex128. tpi_gemm_multiply
                       (gemm.h) alone takes bfloat16, then c is float32; and uint8 or int8, then b is int8, c int32, and
                       alpha 1 */
    int64_t batches, m, n, k;
    tpi_operand_matrix a, b;
    char *c;
    int64_t c_batch, c_row;
    tp_scalar alpha, beta; /* beta 0: what c held, NaN included, does not matter */
    const char *every_row; /* not NULL: c starts as this vector of n elements in every row, and beta counts as 1 */
    bool recurrent; /* of a recurrent layer. On GPUs: TP_GPU_CONV_TF32 says whether it may be made in TF32 if it is
                       large, as of all that is cuDNN's in PyTorch, and not TP_GPU_MATMUL_TF32 */
} tpi_product;

/* Can a matrix with these sizes and strides be handed over without a copy? */
bool tpi_blas_fits(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride);

/* Never fails: operands must fit. */
void tpi_multiply(const tpi_product *p);

/* The same of a vector and a matrix of 16-bit floats: a where n is 1, b where m is. p->dtype is float32; the matrix's
 * strides count its own elements. They are converted as they are read, and the bits are those of a matrix that was
 * converted before. */
bool tpi_multiplies_narrow(int64_t m, int64_t n, int64_t k);     /* is it of that kind, and worth it? */
bool tpi_multiply_narrow(const tpi_product *p, tp_dtype matrix); /* false and an error without memory */

/* One product on the calling thread, by our own kernel or by the library, row-major: c (m, n) = alpha * a b + beta * c.
 * ta, tb: the operand is stored transposed; lda, ldb, ldc: from one stored row to the next. For callers that split
 * their work themselves. */
void tpi_gemm_f32(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                  const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void tpi_gemm_f64(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                  const double *b, int64_t ldb, double beta, double *c, int64_t ldc);

/* Its name and version, a text that stays, and one of its functions. */
const char *tpi_blas_version(void **function);

/* While the LAPACK or BLAS is called directly: keeps the library on the calling thread, without touching other threads.
 */
int tpi_blas_quiet(void);
void tpi_blas_restore(int before);
#endif

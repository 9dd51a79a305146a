/* Our own float32 matrix product: kernels in gemm.isa.c, the split into tasks in gemm.c.
 *
 * An element of the result is the sum over k in blocks of GEMM_DEPTH, each block in the order of k: its bits depend on
 * nothing but its row of a and its column of b, not on where they stand, on the layout, on the tiles or on the threads.
 */
#ifndef TPI_GEMM_H
#define TPI_GEMM_H
#include "device/cpu/isa.h"
#include "linalg/blas.h"

enum {
    TPI_GEMM_DEPTH = 256, /* k's block: a panel of b this deep stays in the first cache */
    TPI_GEMM_ROWS =
        96, /* the most rows of a tile, as a rule: as many of a's rows, a block deep, stay in the second cache */
    TPI_GEMM_SHALLOW = 64, /* a k for which b and a transposed a are read where they are, as a rule */
    TPI_GEMM_WIDTH = 32    /* columns of tiles and room for packed panels are multiples of this */
};

/* c (m, n) = alpha a b + start; a (m, k) and b (k, n) have any strides, c's rows have unit stride. */
typedef struct tpi_gemm {
    int64_t m, n, k;
    const float *a, *b;
    int64_t a_row, a_col, b_row, b_col;
    float *c;
    int64_t c_row;
    float alpha, beta;      /* start is beta * c, and c is not read where beta is 0; */
    const float *every_row; /* or, if not NULL, this vector in every row */
    const float *packed;    /* not NULL: all of b in panels, from tpi_gemm_pack */
} tpi_gemm;

/* How many rows and columns of c this level's kernel makes at a time. */
TPI_ISA_DECLARE(void, tpi_gemm_kernel_size, (int64_t * rows, int64_t *columns));
/* Packs columns [first, first + columns) of b; first is a multiple of TPI_GEMM_WIDTH. `packed` has room for k times n,
 * rounded up, floats. */
TPI_ISA_DECLARE(void, tpi_gemm_pack, (const tpi_gemm *g, int64_t first, int64_t columns, float *packed));
/* Packs rows [first, first + rows) of a, contiguous in k and `step` floats apart. */
TPI_ISA_DECLARE(void, tpi_gemm_pack_rows,
                (const tpi_gemm *g, int64_t first, int64_t rows, float *packed, int64_t step));
/* Rows [i, i + rows) and columns [j, j + columns) of c; j is a multiple of TPI_GEMM_WIDTH, rows at most TPI_GEMM_ROWS,
 * unless a is contiguous in k. */
TPI_ISA_DECLARE(void, tpi_gemm_tile, (const tpi_gemm *g, int64_t i, int64_t rows, int64_t j, int64_t columns));

/* Is it the faster one on this processor, for this product? */
bool tpi_gemm_serves(int64_t m, int64_t n, int64_t k);
/* The whole product, on the calling thread. */
void tpi_gemm_alone(const tpi_gemm *g);
/* Memory for packing, whose absence is no error. The caller gives it back with tpi_free. */
float *tpi_gemm_room(size_t bytes);
/* A batch of float32 products, on the thread team. Never fails: without memory for packing it is slower. */
void tpi_gemm_multiply(const tpi_product *p);
#endif

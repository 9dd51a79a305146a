/* Our own matrix products of float32, float64, bfloat16 and 8-bit integers: kernels in gemm_kernels.h, compiled for
 * each type by a file of its own (gemm.isa.c, gemm_bf16.c, gemm_vnni.c ...); the split into tasks in gemm.c.
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

/* c (m, n) = alpha a b + start; a (m, k) and b (k, n) have any strides, c's rows have unit stride. Pointers are to
 * floats or doubles, as the function that is given it says. In a product of bfloat16s k counts pairs of them, and so do
 * a's strides, a is contiguous in k, and b's strides count single ones; c is of floats. In one of bytes k counts quads,
 * a's are from 0 to 255, b's from -128 to 127, and c is of uint32_t. */
typedef struct tpi_gemm {
    int64_t m, n, k;
    const void *a, *b;
    int64_t a_row, a_col, b_row, b_col;
    void *c;
    int64_t c_row;
    double alpha, beta;    /* start is beta * c, and c is not read where beta is 0; */
    const void *every_row; /* or, if not NULL, this vector in every row */
    const void *packed;    /* not NULL: all of b in panels, from tpi_gemm_pack */
    int absent;            /* of bfloat16s and bytes: how many elements b lacks of the last pair or quad; a has them */
} tpi_gemm;

/* For float and double:
 * kernel_size: how many rows and columns of c this level's kernel makes at a time.
 * pack: packs columns [first, first + columns) of b; first is a multiple of TPI_GEMM_WIDTH. `packed` has room for k
 * times n, rounded up, elements.
 * pack_rows: packs rows [first, first + rows) of a, contiguous in k and `step` elements apart.
 * tile: rows [i, i + rows) and columns [j, j + columns) of c; j is a multiple of TPI_GEMM_WIDTH, rows at most
 * TPI_GEMM_ROWS, unless a is contiguous in k. */
#define TPI_GEMM_DECLARE_BY(DECLARE, name)                                                                         \
    DECLARE(void, name##_kernel_size, (int64_t * rows, int64_t * columns));                                        \
    DECLARE(void, name##_pack, (const tpi_gemm *g, int64_t first, int64_t columns, void *packed));                 \
    DECLARE(void, name##_pack_rows, (const tpi_gemm *g, int64_t first, int64_t rows, void *packed, int64_t step)); \
    DECLARE(void, name##_tile, (const tpi_gemm *g, int64_t i, int64_t rows, int64_t j, int64_t columns))
#define TPI_GEMM_DECLARE(name) TPI_GEMM_DECLARE_BY(TPI_ISA_DECLARE, name)
TPI_GEMM_DECLARE(tpi_gemm);
TPI_GEMM_DECLARE(tpi_gemm_f64);

/* ... of bytes. offsets: for columns [first, first + columns) -128 times the sum of b's column. */
TPI_GEMM_DECLARE(tpi_gemm_bytes);
TPI_ISA_DECLARE(void, tpi_gemm_bytes_offsets, (const tpi_gemm *g, int64_t first, int64_t columns, uint32_t *offsets));

/* The same for bfloat16s and bytes, where compilers know the processors that have instructions for them (tpi_cpu_bf16,
 * tpi_cpu_bytes). */
#if defined(__x86_64__) && !defined(TPI_ISA_BASE_ONLY)
#define TPI_GEMM_NEWER_UNITS
#define TPI_ONE_DECLARE(type, name, args) type name args
TPI_GEMM_DECLARE_BY(TPI_ONE_DECLARE, tpi_gemm_bf16);
TPI_GEMM_DECLARE_BY(TPI_ONE_DECLARE, tpi_gemm_vnni);
/* By AMX's tiles. */
void tpi_gemm_amx_tile(const tpi_gemm *g, int64_t i, int64_t rows, int64_t j, int64_t columns);
void tpi_gemm_amx_bytes_tile(const tpi_gemm *g, int64_t i, int64_t rows, int64_t j, int64_t columns);
#endif

/* Is it the faster one on this processor, for this product? */
bool tpi_gemm_serves(int64_t m, int64_t n, int64_t k);
/* ... a product of bfloat16s, for which it needs more? */
bool tpi_gemm_serves_bf16(int64_t m, int64_t n, int64_t k);
/* The whole product, of floats or of doubles, on the calling thread. */
void tpi_gemm_alone(const tpi_gemm *g);
void tpi_gemm_alone_f64(const tpi_gemm *g);
/* Memory for packing, whose absence is no error. The caller gives it back with tpi_free. */
void *tpi_gemm_scratch(size_t bytes);
/* A batch of products of float32, float64 or bfloat16, or one of 8-bit integers, on the thread team. Without memory for
 * packing it is slower. False, with an error, and nothing is done: a had to be copied, and there was no memory for it.
 */
bool tpi_gemm_multiply(const tpi_product *p);
/* One product of complex numbers by the kernels of their real parts. False, and nothing is done: no memory. */
bool tpi_gemm_multiply_complex(const tpi_product *p, int64_t batch);
#endif

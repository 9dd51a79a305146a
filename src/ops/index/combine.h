/* Writing through an index: rows and columns of elements that an index array places, put or combined by dtype.
 * Elements are combined one after the other, rows first: where two meet, the result does not depend on anything else.
 */
#ifndef TPI_COMBINE_H
#define TPI_COMBINE_H
#include "device/cpu/isa.h"
#include "tensor/tensor.h"

typedef enum tpi_combine_op { TPI_PUT, TPI_ADD, TPI_MUL, TPI_MAX, TPI_MIN } tpi_combine_op; /* MAX and MIN keep NaN */

/* Element (r, c) of `at` lies at: indexed + index[r * index_row + c * index_col] * scale + c * indexed_col,
 * its partner at: plain + r * plain_row + c * plain_col. Strides in bytes, those of the index in elements. */
typedef struct tpi_indexed_block {
    char *indexed, *plain;
    const int64_t *index;
    int64_t rows, cols;
    int64_t index_row, index_col, scale, indexed_col;
    int64_t plain_row, plain_col;
    int64_t plain_bytes; /* all that is fetched, by other calls too: too much for the caches goes past them */
} tpi_indexed_block;

/* indexed = op(indexed, plain). MAX and MIN are not for complex numbers. */
void tpi_combine(tpi_combine_op op, tp_dtype dtype, const tpi_indexed_block *at);
/* The same for 16-bit floats, which tpi_combine calls. */
TPI_ISA_DECLARE(void, tpi_combine_f16, (tpi_combine_op op, const tpi_indexed_block *at));
TPI_ISA_DECLARE(void, tpi_combine_bf16, (tpi_combine_op op, const tpi_indexed_block *at));
/* plain = indexed, for elements of that many bytes. */
void tpi_fetch(size_t itemsize, const tpi_indexed_block *at);
bool tpi_check_combine(tpi_combine_op op, tp_dtype dtype, const char *argument);
#endif

/* Moving and converting elements: contiguous runs from one dtype to another, strided elements into packed blocks and
 * back, tiles transposed. convert.isa.c is compiled per instruction set; the functions below pick. Source and
 * destination never overlap.
 *
 * A value does not depend on where in a run it stands. Floating values out of an integer type's range go through int32
 * (int64 for int64), as PyTorch's do on x86. */
#ifndef TPI_CONVERT_H
#define TPI_CONVERT_H
#include "device/cpu/nontemporal.h"
#include "device/device.h"

#define TPI_BLOCK_BYTES 4096 /* a scratch block: several of them fit in L1 */

/* n elements of dtype `from` to n of dtype `to`, both contiguous. */
TPI_ISA_DECLARE(void, tpi_convert_run, (int64_t n, const char *src, int from, char *dst, int to));
/* rows x cols elements of `size` bytes at src + r * row + c * col, packed into dst one after the other; and the way
 * back. */
TPI_ISA_DECLARE(void, tpi_pack_rows,
                (int64_t rows, int64_t cols, const char *src, int64_t row, int64_t col, char *dst, int size));
TPI_ISA_DECLARE(void, tpi_unpack_rows,
                (int64_t rows, int64_t cols, const char *src, char *dst, int64_t row, int64_t col, int size));
/* n copies of one element. */
TPI_ISA_DECLARE(void, tpi_repeat, (int64_t n, const char *element, char *dst, int size));
/* dst[c][r] = src[r][c]: both have contiguous elements within a row, rows `src_row` and `dst_row` bytes apart. */
TPI_ISA_DECLARE(void, tpi_transpose,
                (int64_t rows, int64_t cols, const char *src, int64_t src_row, char *dst, int64_t dst_row, int size));

/* n elements `stride` bytes apart (0: one element n times) into a contiguous block of another dtype, and back. */
void tpi_load_run(int64_t n, const char *src, int64_t stride, int from, char *dst, int to);
void tpi_store_run(int64_t n, const char *src, int from, char *dst, int64_t stride, int to);

/* An N-dimensional strided walk, dimension 0 fastest, strides in bytes: what one operand of a plan looks like. */
typedef struct tpi_walk {
    int ndim;
    const int64_t *shape, *stride;
} tpi_walk;
int64_t tpi_walk_offset(const tpi_walk *w, int64_t at);   /* of linear position `at`, in bytes */
bool tpi_walk_is_packed(const tpi_walk *w, int64_t size); /* position i lies at byte i * size */
/* Positions at .. at + n - 1 of the walk over `data` into a contiguous block, and back. */
void tpi_load_walk(const tpi_walk *w, int64_t at, int64_t n, const char *data, int from, char *dst, int to);
void tpi_store_walk(const tpi_walk *w, int64_t at, int64_t n, const char *src, int from, char *data, int to);
#endif

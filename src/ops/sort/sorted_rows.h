/* Operators that put each row along a dim in order: the rows, brought next to each other, dealt out to threads, and the
 * results brought back to the shape they belong in. */
#ifndef TPI_SORTED_ROWS_H
#define TPI_SORTED_ROWS_H
#include "ops/sort/order.h"

typedef struct tpi_rows {
    tp_tensor *in;    /* owned: contiguous, the dim last */
    int64_t count, n; /* rows, and elements in each */
    int dim;
    tp_tensor *values,
        *indices; /* owned results under construction: contiguous, the dim (of size k) last; indices int64 */
    int64_t k;
} tpi_rows;

/* Row r of x, ordered by `order` (room for one row of n; nothing loaded), written to out (k values) and at (k indices).
 */
typedef void (*tpi_row_fn)(const tpi_rows *x, const char *row, tpi_row_order *order, char *out, int64_t *at,
                           const void *context);

/* Prepares rows of self along dim with k results each. */
bool tpi_rows_start(tpi_rows *x, tp_tensor *self, int64_t dim, int64_t k);
/* Runs fn over all rows; false and an error without memory. */
bool tpi_rows_run(tpi_rows *x, tpi_row_fn fn, const void *context);
/* The results in self's order of dims; keep: the dim stays (with size k), otherwise (k is 1) it goes. out[0] values,
 * out[1] indices. */
bool tpi_rows_finish(tpi_rows *x, tp_tensor *self, bool keep, tp_tensor **out);
void tpi_rows_free(tpi_rows *x);
/* out[j] = row[at[j]], by element size. */
void tpi_row_pick(char *out, const char *row, const int64_t *at, int64_t n, size_t itemsize);
#endif

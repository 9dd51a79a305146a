/* Folds of 8- and 16-bit integers whose step is a map that joins elements in any order, as the largest does: a kernel
 * of that map joins many elements of a column to a few, or many rows to one, before the fold's kernel widens them.
 * Integers have the same result whatever joins first, and however often. */
#ifndef TPI_JOIN_H
#define TPI_JOIN_H
#include "device/device.h"

enum {
    TPI_JOIN_LEAST = 512,    /* fewer elements of a column are as quickly widened */
    TPI_JOIN_SCRATCH = 4096, /* bytes */
};

typedef struct tpi_join {
    int n; /* kernels: one for each state variable; 0: there are none */
    tpi_block_fn fn[2];
    int64_t size; /* of an element */
} tpi_join;

tpi_join tpi_join_for(const tpi_fold_op *op, tp_dtype dtype);
/* n >= TPI_JOIN_LEAST elements, or `rows` >= 2 rows of n >= TPI_LANES, `row` bytes apart, joined by kernel number
 * `which`. The first come as at most TPI_JOIN_LEAST elements in scratch, and are counted; the others as one row. */
int64_t tpi_join_column(const tpi_join *join, int which, int64_t n, const char *x, char *scratch);
void tpi_join_rows(const tpi_join *join, int which, int64_t n, int64_t rows, const char *x, int64_t row, char *scratch);
#endif

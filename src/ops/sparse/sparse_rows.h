/* The loops over sparse matrices, once for each type to compute in: float, double, int64 (which also serves smaller
 * integers; sums wrap), complex64 and complex128. Every loop adds up in the order of its list. So a result does not
 * depend on how rows or places are dealt out to threads. */
#ifndef TPI_SPARSE_KERNELS_H
#define TPI_SPARSE_KERNELS_H
#include <stdbool.h>
#include <stdint.h>
#include "device/cpu/isa.h"
#include "device/device.h"

/* A matrix row by row: row i has the columns col[k] and the values values[k] for k from crow[i] to crow[i + 1]. */
typedef struct tpi_sparse_rows {
    const int64_t *crow, *col;
    const void *values; /* NULL: ones */
} tpi_sparse_rows;

typedef struct tpi_sparse_kernels {
    /* Rows first to last - 1 of out = a @ dense; dense and out are `width` wide. */
    void (*mm_rows)(const tpi_sparse_rows *a, int64_t first, int64_t last, int64_t width, const void *dense, void *out);
    /* out[to[k]] += values[k] * dense[from[k]] for each k of the list (NULL: for k from 0 to n - 1). */
    void (*mm_list)(int64_t n, const int64_t *list, const int64_t *to, const int64_t *from, const void *values,
                    int64_t width, const void *dense, void *out);
    /* out[k] = the sum over j of left[row[k]][j] * right[column[k]][j], for k from 0 to n - 1. */
    void (*dots)(int64_t n, const int64_t *row, const int64_t *column, int64_t width, const void *left,
                 const void *right, void *out);
    /* As mm_rows, with the largest or the smallest summand in the place of the sum, and its k in `place`; a row without
     * any is 0, with -1. NULL for complex numbers. */
    void (*extreme_rows)(const tpi_sparse_rows *a, int64_t first, int64_t last, int64_t width, bool largest,
                         const void *dense, void *out, int64_t *place);
    /* Rows first to last - 1 of a @ b, at the places of `at` alone; out has a value for each of them. `slot` has a zero
     * for each column of b before and after. */
    void (*mm_sampled)(const tpi_sparse_rows *at, const tpi_sparse_rows *a, const tpi_sparse_rows *b, int64_t first,
                       int64_t last, int32_t *slot, void *out);
} tpi_sparse_kernels;

/* For TP_FLOAT32, TP_FLOAT64, TP_INT64, TP_COMPLEX64 and TP_COMPLEX128. */
TPI_ISA_DECLARE(const tpi_sparse_kernels *, tpi_sparse_kernels_for, (tp_dtype dtype));
#endif

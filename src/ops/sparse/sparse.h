/* What the operators on sparse matrices share: their arguments, checked and ready for the kernels. */
#ifndef TPI_SPARSE_H
#define TPI_SPARSE_H
#include "ops/native.h"
#include "ops/sparse/sparse_rows.h"

/* The type to compute in, as sparse_rows.h has them; TP_NO_DTYPE and an error that names the argument for others. */
tp_dtype tpi_sparse_compute_dtype(const tp_tensor *t, const char *argument);

/* The index of a matrix row by row. Owned by the caller, who drops it also if reading failed. */
typedef struct tpi_row_index {
    tp_tensor *crow, *col; /* contiguous int64 */
    int64_t rows, stored;
    const int64_t *begins, *columns; /* their elements */
} tpi_row_index;
/* Checks that crow has one dim, begins at 0, never falls and ends with the length of col. */
bool tpi_row_index_read(tpi_row_index *r, tp_tensor *crow, tp_tensor *col);
void tpi_row_index_drop(tpi_row_index *r);

/* A number of rows or columns: one more, for the compressed index, is an int64 too. */
static inline bool tpi_sparse_size_fits(int64_t size) { return size >= 0 && size < INT64_MAX; }
/* The same with an error that names the argument. */
bool tpi_sparse_check_size(int64_t size, const char *argument);

/* Are all n numbers from 0 to size - 1? */
bool tpi_sparse_in_range(const int64_t *index, int64_t n, int64_t size);
/* The same with an error that names the argument. */
bool tpi_sparse_check_range(const int64_t *index, int64_t n, int64_t size, const char *argument);

/* Which numbers of an index are which: those that are i stand at order[begins[i]] to order[begins[i + 1] - 1], in their
 * order. `begins` has size + 1 places. The index is in range. */
void tpi_sparse_group(const int64_t *index, int64_t n, int64_t size, int64_t *begins, int64_t *order);
#endif

/* Combining what ranks sent, element by element. */
#ifndef TPI_DIST_REDUCE_H
#define TPI_DIST_REDUCE_H
#include <taper/dist.h>

/* out = rows[0] op rows[1] op ... in that order, and for TP_REDUCE_AVG divided by n_rows. Halves are combined in
 * float32 and rounded once. out may be one of the rows. */
void tpi_reduce_rows(tp_dtype dtype, tp_reduce_op op, void *out, const void *const *rows, int n_rows, int64_t n);
/* Is there such an operation on such numbers? False with an error. */
bool tpi_check_reduce(tp_dtype dtype, tp_reduce_op op);
#endif

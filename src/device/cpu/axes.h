/* What reductions and scans share: the dims, seen from the kernel (which of them are walked together, and in what
 * order), and the states of columns that are cut into pieces. */
#ifndef TPI_AXES_H
#define TPI_AXES_H
#include "device/cpu/convert.h"

#define TPI_AXES_OUTS 4

/* Some of a tensor's dims, dimension 0 fastest, neighbours merged where the input and every result allow it. Strides in
 * bytes. */
typedef struct tpi_axes {
    int ndim;
    int64_t total; /* product of the sizes */
    int64_t size[TP_MAX_DIMS], x[TP_MAX_DIMS], out[TPI_AXES_OUTS][TP_MAX_DIMS];
} tpi_axes;

/* The dims of x where mask[d] == which. Results either have all of x's dims, or only those that are taken here.
 * in_order keeps the tensor's own order (the last dim fastest); otherwise the dim with the smallest stride is fastest.
 */
void tpi_axes_select(tpi_axes *a, const tp_tensor *x, int nout, tp_tensor *const *outs, const bool *mask, bool which,
                     bool in_order);
static inline tpi_walk tpi_axes_walk(const tpi_axes *a) { return (tpi_walk){a->ndim, a->size, a->x}; }

/* Columns that stand side by side along the fastest kept axis. */
typedef struct tpi_columns {
    int64_t first, count; /* linear position of the first, how many */
    const char *x;        /* the first element of the first column */
    char *out[TPI_AXES_OUTS];
} tpi_columns;
/* Block number `block` of at most `width` columns; blocks never cross a run of the fastest axis. */
int64_t tpi_columns_blocks(const tpi_axes *kept, int64_t width);
tpi_columns tpi_columns_at(const tpi_axes *kept, const tp_tensor *x, int nout, tp_tensor *const *outs, int64_t width,
                           int64_t block);

/* The state variables of a kernel, and where each has its array [pieces][columns] when columns are cut. */
#define TPI_STATES 4
typedef struct tpi_states {
    int n;
    int64_t size[TPI_STATES]; /* bytes of one variable */
    int64_t columns;
    char *at[TPI_STATES]; /* at[0] is the start of one block of memory, NULL without one */
    size_t bytes;
} tpi_states;
tpi_states tpi_states_for(int n, const uint8_t *types, tpi_ctype compute);
/* Memory for the states of `pieces` pieces; none for 0. False, and an error, without memory. */
bool tpi_states_make(tpi_states *s, int64_t pieces, int64_t columns);
void tpi_states_free(tpi_states *s);
/* The states of a piece of the columns c. */
void tpi_states_of(const tpi_states *s, const tpi_columns *c, int64_t piece, char **state);
#endif

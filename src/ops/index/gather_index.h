/* What index tensors pick out of a tensor: the one piece behind index, index_put, index_select, index_add and their
 * kin.
 *
 * The dims of self are [before][indexed][after]; the index tensors, broadcast to one shape, replace the indexed dims.
 * If those do not stand side by side, the index dims come first (NumPy's rule): before is empty then and after holds
 * all the others. */
#ifndef TPI_GATHER_INDEX_H
#define TPI_GATHER_INDEX_H
#include "ops/index/combine.h"

typedef struct tpi_gather_index {
    tp_tensor *self; /* borrowed */
    int64_t n;       /* positions picked per place of `before` */
    int64_t *offset; /* n byte offsets from self's first element */
    bool distinct;   /* no two positions are the same (a mask) */
    int index_ndim;
    int64_t index_shape[TP_MAX_DIMS];
    int nbefore, nafter;
    int64_t before_shape[TP_MAX_DIMS], before_stride[TP_MAX_DIMS]; /* strides in bytes */
    int64_t after_shape[TP_MAX_DIMS], after_stride[TP_MAX_DIMS];
    /* after, as `pieces` runs of `run` elements; worked out by the maker */
    int64_t before, pieces, run, run_stride;
    int64_t *piece; /* byte offset of each run; NULL when there is one, at 0 */
} tpi_gather_index;

/* indices: int64, int32 or masks, NULL for a dim taken whole; negative ones count from the end. */
bool tpi_gather_index_advanced(tpi_gather_index *p, tp_tensor *self, tp_tensors indices);
/* One index vector (or number) along dim; negative ones are errors, or with `wrap` count from the end. */
bool tpi_gather_index_along(tpi_gather_index *p, tp_tensor *self, int64_t dim, tp_tensor *index, bool wrap);
/* Positions in self as if it were flat. */
bool tpi_gather_index_flat(tpi_gather_index *p, tp_tensor *self, tp_tensor *index);
void tpi_gather_index_free(tpi_gather_index *p);

int tpi_gather_index_shape(const tpi_gather_index *p,
                           int64_t *shape);            /* of what is picked; returns the number of dims */
tp_tensor *tpi_gather_index_read(tpi_gather_index *p); /* a new contiguous tensor */
/* self's picked elements combined with values, which broadcast to the picked shape and have self's dtype. */
bool tpi_gather_index_write(tpi_gather_index *p, tpi_combine_op op, tp_tensor *values);

/* Where a mask is true: one int64 tensor (n) per dim of the mask, in out[0 .. ndim-1], owned. */
bool tpi_mask_positions(tp_tensor *mask, tp_tensor **out);
#endif

/* The iteration plan: how to walk several tensors of broadcast-compatible shapes in step.
 * Dimensions of size one are dropped, the rest ordered so that the fastest one comes first and merged where every
 * operand allows it. Operands 0 .. nout-1 are written, the rest read. */
#ifndef TPI_PLAN_H
#define TPI_PLAN_H
#include "tensor/tensor.h"

#define TPI_MAX_OPERANDS 12

typedef struct tpi_plan {
    int ndim; /* 0 for a single element; dimension 0 is the fastest */
    int nout, nargs;
    int64_t numel;
    int64_t shape[TP_MAX_DIMS];
    int64_t stride[TPI_MAX_OPERANDS][TP_MAX_DIMS]; /* in bytes; 0 where broadcast */
    char *data[TPI_MAX_OPERANDS];
    uint8_t dtype[TPI_MAX_OPERANDS];
    uint16_t numbers; /* bit k: operand k is one number on the host, whatever the device */
} tpi_plan;

/* All operands must broadcast to `shape` (an error otherwise); outputs must have it. */
bool tpi_plan_make(tpi_plan *p, tp_ints shape, int nout, int nargs, tp_tensor *const *operands);

/* A walk over fixed-size runs of the fastest dimension(s), used by drivers:
 * moves data pointers to linear position `at` (in elements of the plan's order) and tells how many elements follow in
 * the fastest dimension. */
int64_t tpi_plan_seek(const tpi_plan *p, int64_t at, char **data);
#endif

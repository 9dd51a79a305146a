/* What the stanzas' `cost` lines ask of shapes, in doubles: costs of large calls do not fit into integers. */
#ifndef TPI_COST_H
#define TPI_COST_H
#include <taper/tensor.h>

static inline double tpi_shape_numel(tp_ints shape) {
    double n = 1;
    for (int64_t i = 0; i < shape.n; i++) n *= (double)shape.v[i];
    return n;
}

/* d may be -1, the last dim. A tensor without dims has one element along each. */
static inline double tpi_shape_size(tp_ints shape, int64_t d) {
    if (d < 0) d += shape.n;
    return d >= 0 && d < shape.n ? (double)shape.v[d] : 1;
}
#endif

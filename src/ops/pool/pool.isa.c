/* Pooling over one plane, for each element type. */
#include <math.h>
#include "base/wrap.h"
#include "base/min_max.h"
#include "ops/pool/pool.h"

static inline bool in_quarters(const tpi_conv *c) {
    return c->x[0] == 1 && c->k[0] == 1 && c->k[1] == 2 && c->k[2] == 2 && c->stride[1] == 2 && c->stride[2] == 2 &&
           !c->pad[0] && !c->pad[1] && !c->pad[2] && c->dilation[1] == 1 && c->dilation[2] == 1 &&
           2 * c->y[1] <= c->x[1] && 2 * c->y[2] <= c->x[2];
}

/* Windows of two elements of a row that do not overlap? */
static inline bool in_pairs(const tpi_conv *c) {
    for (int i = 0; i < 2; i++)
        if (c->k[i] != 1 || c->stride[i] != 1 || c->pad[i]) return false;
    return c->k[2] == 2 && c->stride[2] == 2 && !c->pad[2] && c->dilation[2] == 1 && 2 * c->y[2] <= c->x[2];
}

enum { PIECE = 512 };

/* What the sums of a row's windows are divided by: the count of depth and height, and of column w. */
static inline int64_t divisor_of(const tpi_pool_spans *s, int64_t over, int64_t rows, int64_t w) {
    const int64_t count = over ? over : tpi_size_times(rows, s->count[2][w]);
    return count == 0 ? 1 : count;
}

#define REAL      float
#define PLACE     uint32_t /* a window spans fewer elements than that */
#define LOWEST    (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#define K(name)   name##_f32
#include "ops/pool/pool_kernels.h"
#undef REAL
#undef PLACE
#undef K
#define REAL    double
#define PLACE   int64_t
#define K(name) name##_f64
#include "ops/pool/pool_kernels.h"
#undef REAL
#undef K
#undef LOWEST
#undef IS_NAN
#define REAL      int64_t
#define LOWEST    INT64_MIN
#define IS_NAN(v) false
#define K(name)   name##_i64
#include "ops/pool/pool_kernels.h"

/* Patches as columns, and back, for each element type. */
#include <string.h>
#include "base/wrap.h"
#include "ops/conv/im2col.h"

#define REAL    float
#define K(name) name##_f32
#include "ops/conv/im2col_kernels.h"
#undef REAL
#undef K
#define REAL    double
#define K(name) name##_f64
#include "ops/conv/im2col_kernels.h"
#undef REAL
#undef K
#define REAL    int64_t
#define K(name) name##_i64
#include "ops/conv/im2col_kernels.h"

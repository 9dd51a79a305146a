/* Normalisation kernels, for float and double. */
#include <math.h>
#include "ops/norm_rows.h"

#define COLUMNS 64 /* columns whose partial sums are kept at a time */

#define REAL float
#define BITS int32_t
#define K(name) name##_f32
#include "ops/norm_kernels.h"
#undef REAL
#undef BITS
#undef K
#undef LANES
#define REAL double
#define BITS int64_t
#define K(name) name##_f64
#include "ops/norm_kernels.h"

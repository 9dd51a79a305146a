/* Resampling rows, for float and double. */
#include "ops/resample.h"

#define REAL float
#define K(name) name##_f32
#include "ops/resample_kernels.h"
#undef REAL
#undef K
#define REAL double
#define K(name) name##_f64
#include "ops/resample_kernels.h"

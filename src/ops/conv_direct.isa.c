/* Depthwise planes: rows of the output against rows of the input, tap by tap. */
#include "ops/conv_direct.h"

#define REAL float
#define K(name) name##_f32
#include "ops/conv_direct_kernels.h"
#undef REAL
#undef K
#define REAL double
#define K(name) name##_f64
#include "ops/conv_direct_kernels.h"

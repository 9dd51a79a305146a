/* Softmax over rows and columns, for float and double. */
#include <math.h>
#include "ops/softmax_rows.h"
#include "device/cpu/vector_math.h"

#define REAL float
#define BITS int32_t
#define EXP tpi_exp_f32
#define LOG logf
#define K(name) name##_f32
#include "ops/softmax_kernels.h"
#undef REAL
#undef BITS
#undef LANES
#undef EXP
#undef LOG
#undef K
#define REAL double
#define BITS int64_t
#define EXP tpi_exp_f64
#define LOG log
#define K(name) name##_f64
#include "ops/softmax_kernels.h"

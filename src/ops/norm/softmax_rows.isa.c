/* Softmax over rows and columns, for float and double. */
#include <math.h>
#include <string.h>
#include "ops/norm/softmax_rows.h"
#include "device/cpu/vector_math.h"

/* EXP gives 0 for a share that is denormal in float32: what it is, then. In float64 it gives that itself. */
static inline float faint_share_f32(float x) { return x < -87.0f && x > -104.0f ? tpi_exp_f32(x) : 0.0f; }
static inline double faint_share_f64(double x) { return tpi_exp_f64(x); }

#define KERNELS "ops/norm/softmax_rows_kernels.h"
#include "ops/float_and_double.h"

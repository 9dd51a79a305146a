/* Resampling rows, for float and double. */
#include "ops/resample.h"

#define KERNELS "ops/resample_kernels.h"
#include "ops/both_reals.h"

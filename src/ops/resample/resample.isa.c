/* Resampling rows, for float and double. */
#include "ops/resample/resample.h"

#define KERNELS "ops/resample/resample_kernels.h"
#include "ops/float_and_double.h"

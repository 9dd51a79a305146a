/* Attention's row kernels, for float and double. */
#include <math.h>
#include "ops/attention/rows.h"
#include "device/cpu/vector_math.h"

#define KERNELS "ops/attention/rows_kernels.h"
#include "ops/float_and_double.h"

/* Cross entropy over rows of scores, for float and double. */
#include <math.h>
#include <string.h>
#include "ops/cross_entropy_rows.h"
#include "device/cpu/vector_math.h"

#define KERNELS "ops/cross_entropy_kernels.h"
#include "ops/both_reals.h"

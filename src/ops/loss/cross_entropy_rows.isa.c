/* Cross entropy over rows of scores, for float and double. */
#include <math.h>
#include <string.h>
#include "ops/loss/cross_entropy_rows.h"
#include "device/cpu/vector_math.h"

#define KERNELS "ops/loss/cross_entropy_rows_kernels.h"
#include "ops/float_and_double.h"

/* Softmax over rows and columns, for float and double. */
#include <math.h>
#include <string.h>
#include "ops/softmax_rows.h"
#include "device/cpu/vector_math.h"

#define KERNELS "ops/softmax_kernels.h"
#include "ops/both_reals.h"

/* Attention's row kernels, for float and double. */
#include <math.h>
#include "ops/attention/score_rows.h"
#include "device/cpu/vector_math.h"

#define KERNELS "ops/attention/score_rows_kernels.h"
#include "ops/float_and_double.h"

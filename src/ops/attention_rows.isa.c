/* Attention's row kernels, for float and double. */
#include <math.h>
#include "ops/attention_rows.h"
#include "device/cpu/vector_math.h"

#define KERNELS "ops/attention_kernels.h"
#include "ops/both_reals.h"

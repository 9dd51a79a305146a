/* Depthwise planes: rows of the output against rows of the input, tap by tap. */
#include "ops/conv/direct.h"

#define KERNELS "ops/conv/direct_kernels.h"
#include "ops/float_and_double.h"

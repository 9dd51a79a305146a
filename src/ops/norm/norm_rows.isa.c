/* Normalisation kernels, for float and double. */
#include <math.h>
#include "ops/norm/norm_rows.h"

#define COLUMNS 64 /* columns whose partial sums are kept at a time */
#define KERNELS "ops/norm/norm_rows_kernels.h"
#include "ops/float_and_double.h"

/* The float32 kernels of factorisations: see blocked_factor.h. */
#include "linalg/blocked_factor.h"
#include <math.h>
#include "linalg/float_vectors.h"
#include "linalg/transpose.h"

#define B(name) TPI_ISA(tpi_block_##name)
#include "linalg/blocked_factor_kernels.h"

/* The float64 kernels of factorisations: see blocked_factor.h. */
#define REAL double
#include "linalg/blocked_factor.h"
#include <math.h>
#include "linalg/float_vectors.h"
#include "linalg/transpose.h"

#define B(name) TPI_ISA(tpi_block_f64_##name)
#include "linalg/blocked_factor_kernels.h"

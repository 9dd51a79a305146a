/* The float64 kernels of factorisations: see blocked.h. */
#define REAL double
#include "linalg/blocked.h"
#include <math.h>
#include "linalg/float_vectors.h"
#include "linalg/transpose.h"

#define B(name) TPI_ISA(tpi_block_f64_##name)
#include "linalg/blocked_kernels.h"

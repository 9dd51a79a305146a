/* Distances between rows of few float64 columns: see distance.h. */
#define REAL                 double
#define BITS                 int64_t
#define SQUARE_ROOT          sqrt
#define TPI_DISTANCES_NARROW TPI_ISA(tpi_distances_narrow_f64)
#include "ops/matmul/distance_narrow_kernels.h"

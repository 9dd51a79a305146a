/* Distances between rows of few float32 columns: see distance.h. */
#define BITS                 int32_t
#define SQUARE_ROOT          sqrtf
#define TPI_DISTANCES_NARROW TPI_ISA(tpi_distances_narrow_f32)
#include "ops/matmul/distance_narrow_kernels.h"

/* Max pools of eight float64 planes at a time: see pool.h. */
#define REAL          double
#define INDEX         int64_t
#define TPI_MAX_LANES TPI_ISA(tpi_max_lanes_f64)
#include "ops/pool/max_lanes_kernels.h"

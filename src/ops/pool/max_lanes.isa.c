/* Max pools of eight float32 planes at a time: see pool.h. */
#define INDEX         int32_t
#define TPI_MAX_LANES TPI_ISA(tpi_max_lanes_f32)
#include "ops/pool/max_lanes_kernels.h"

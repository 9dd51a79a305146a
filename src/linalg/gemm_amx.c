/* The bfloat16 product's tiles by AMX: see gemm_amx.h. */
#include "linalg/gemm.h"
#ifdef TPI_GEMM_NEWER_UNITS
#include "linalg/gemm_pairs.h"
#define G(name)                 tpi_gemm_amx_##name
#define MULTIPLY_TILES(c, a, b) _tile_dpbf16ps(c, a, b)
#include "linalg/gemm_amx.h"
#endif

/* The 8-bit product's tiles by AMX: see gemm_amx.h. */
#include "linalg/gemm.h"
#ifdef TPI_GEMM_NEWER_UNITS
#include "linalg/gemm_quads.h"
#define G(name)                 tpi_gemm_amx_bytes_##name
#define MULTIPLY_TILES(c, a, b) _tile_dpbusd(c, a, b)
#include "linalg/gemm_amx.h"
#endif

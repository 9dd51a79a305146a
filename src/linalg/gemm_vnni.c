/* The product of 8-bit integers by AVX-512's VNNI: see gemm.h and gemm_bytes.h. Called on processors that have it. */
#include "linalg/gemm.h"
#ifdef TPI_GEMM_NEWER_UNITS
#define G(name) tpi_gemm_vnni_##name
#include "linalg/gemm_bytes.h"
#endif

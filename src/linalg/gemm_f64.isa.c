/* The float64 product's kernels: see gemm.h. */
#define REAL double
#include "linalg/gemm.h"
#include "base/memory.h"
#include "linalg/float_vectors.h"
#include "linalg/transpose.h"

#define G(name)               TPI_ISA(tpi_gemm_f64_##name)
#define BROADCAST(pointer)    broadcast(*(pointer))
#define MULTIPLY_ADD(x, y, z) multiply_add(x, y, z)
#define ALWAYS_PACKS          false
#include "linalg/gemm_panels.h"
#include "linalg/gemm_kernels.h"

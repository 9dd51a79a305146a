/* The float32 product's kernels: see gemm.h. */
#include "linalg/gemm.h"
#include "base/memory.h"
#include "linalg/float_vectors.h"
#include "linalg/transpose.h"

#define G(name)               TPI_ISA(tpi_gemm_##name)
#define BROADCAST(pointer)    broadcast(*(pointer))
#define MULTIPLY_ADD(x, y, z) multiply_add(x, y, z)
#define ALWAYS_PACKS          false
#include "linalg/gemm_panels.h"
#include "linalg/gemm_kernels.h"

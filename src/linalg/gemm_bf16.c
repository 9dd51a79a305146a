/* The bfloat16 product's kernels: see gemm.h. Compiled for AVX-512 with AVX512_BF16, and called on processors that have
 * it.
 *
 * An element of a and of a packed b is a pair of bfloat16s that follow each other in k; one instruction multiplies
 * pairs and adds both products to a float. */
#include "linalg/gemm.h"
#ifdef TPI_GEMM_NEWER_UNITS
#include "base/memory.h"
#include "linalg/float_vectors.h"
#include "linalg/gemm_pairs.h"
#include "linalg/transpose.h"

INLINE vector broadcast_pair(const float *pair) {
    int bits;
    memcpy(&bits, pair, sizeof bits);
    return (vector)_mm512_set1_epi32(bits);
}

#define G(name)               tpi_gemm_bf16_##name
#define BROADCAST(pointer)    broadcast_pair(pointer)
#define MULTIPLY_ADD(x, y, z) (vector) _mm512_dpbf16_ps((__m512)(z), (__m512bh)(x), (__m512bh)(y))
#define ALWAYS_PACKS          true
#include "linalg/gemm_kernels.h"
#endif

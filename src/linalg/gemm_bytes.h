/* The 8-bit product's kernels: see gemm.h. gemm_bytes.isa.c includes this for each instruction set, gemm_vnni.c for
 * AVX-512 with VNNI.
 *
 * The kernel's multiply_add adds the four products of each lane. Sums wrap at 32 bits, so their order does not matter.
 * The including file defines G. */
#ifndef TPI_GEMM_BYTES_H
#define TPI_GEMM_BYTES_H
#include "linalg/gemm_quads.h"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* z + the products of each lane's four bytes: those of x count from 0 to 255, those of y from -128 to 127. */
INLINE vector add_quads(vector x, vector y, vector z) {
#if defined(__AVX512VNNI__)
    return (vector)_mm512_dpbusd_epi32((__m512i)z, (__m512i)x, (__m512i)y);
#elif defined(__SSE2__)
    typedef int16_t pairs __attribute__((vector_size(VECTOR_BYTES)));
    typedef uint16_t places __attribute__((vector_size(VECTOR_BYTES)));
    const pairs x_even = (pairs)((places)x & 0xff), x_odd = (pairs)((places)x >> 8);
    const pairs y_even = (pairs)((places)y << 8) >> 8, y_odd = (pairs)y >> 8;
#if defined(__AVX512F__)
    return z + (vector)_mm512_madd_epi16((__m512i)x_even, (__m512i)y_even) +
           (vector)_mm512_madd_epi16((__m512i)x_odd, (__m512i)y_odd);
#elif defined(__AVX2__)
    return z + (vector)_mm256_madd_epi16((__m256i)x_even, (__m256i)y_even) +
           (vector)_mm256_madd_epi16((__m256i)x_odd, (__m256i)y_odd);
#else
    return z + (vector)_mm_madd_epi16((__m128i)x_even, (__m128i)y_even) +
           (vector)_mm_madd_epi16((__m128i)x_odd, (__m128i)y_odd);
#endif
#else
    typedef int32_t wide __attribute__((vector_size(VECTOR_BYTES)));
    for (int q = 0; q < 4; q++) z += (x >> 8 * q & 0xff) * (vector)((wide)(y << (24 - 8 * q)) >> 24);
    return z;
#endif
}

#define BROADCAST(pointer)    broadcast(*(pointer))
#define MULTIPLY_ADD(x, y, z) add_quads(x, y, z)
#define ALWAYS_PACKS          true
#include "linalg/gemm_kernels.h"
#endif

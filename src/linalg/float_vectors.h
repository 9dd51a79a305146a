/* Vectors of floats (or of doubles, in a file that defines REAL as double) as wide as the instruction set's registers,
 * for kernels of *.isa.c files that keep sums in them. HEIGHT rows of two vectors each, and what is needed beside them,
 * fit the registers. */
#ifndef TPI_FLOAT_VECTORS_H
#define TPI_FLOAT_VECTORS_H
#include <string.h>
#include "device/cpu/isa.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifndef REAL
#define REAL float
#endif

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, HEIGHT = 12 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, HEIGHT = 6 };
#else
enum { VECTOR_BYTES = 16, HEIGHT = 6 };
#endif
enum { LANES = VECTOR_BYTES / sizeof(REAL), PANEL = 2 * LANES };

typedef REAL vector __attribute__((vector_size(VECTOR_BYTES)));

#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLL TPI_UNROLL

INLINE vector load(const REAL *p) {
    vector v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store(REAL *p, vector v) { memcpy(p, &v, sizeof v); }
INLINE vector broadcast(REAL x) { return x - (vector){0}; }

/* x * y + z, in one step where the processor has one: the build's flags keep the compiler from joining them by itself.
 */
INLINE vector multiply_add(vector x, vector y, vector z) {
#if defined(__AVX512F__)
    if (sizeof(REAL) == sizeof(double)) return (vector)_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z);
    return (vector)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#elif defined(__AVX2__)
    if (sizeof(REAL) == sizeof(double)) return (vector)_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z);
    return (vector)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#else
    return x * y + z;
#endif
}
#endif

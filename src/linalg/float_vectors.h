/* Vectors of floats as wide as the instruction set's registers, for kernels of *.isa.c files that keep sums in them.
 * HEIGHT rows of two vectors each, and what is needed beside them, fit the registers. */
#ifndef TPI_FLOAT_VECTORS_H
#define TPI_FLOAT_VECTORS_H
#include <string.h>
#include "device/cpu/isa.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16, HEIGHT = 12 };
#elif defined(__AVX2__)
enum { LANES = 8, HEIGHT = 6 };
#else
enum { LANES = 4, HEIGHT = 6 };
#endif
enum { PANEL = 2 * LANES };

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLL TPI_UNROLL

INLINE vector load(const float *p) {
    vector v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store(float *p, vector v) { memcpy(p, &v, sizeof v); }
INLINE vector broadcast(float x) { return x - (vector){0}; }

/* x * y + z, in one step where the processor has one: the build's flags keep the compiler from joining them by itself.
 */
INLINE vector multiply_add(vector x, vector y, vector z) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(x, y, z);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(x, y, z);
#else
    return x * y + z;
#endif
}
#endif

/* Fills n contiguous elements with random numbers. A thread fills four neighbours from the words of one counter, or of
 * two (WORDS 2: double precision and wide integers), so that an element's number depends on seed, counter and place
 * alone. Before this text: A, WIDE; Y the dtype; WORDS; KIND, one of the list below; MOVED: the seed, and how far the
 * stream has moved since a graph was captured, are read from memory. */
#include "philox.h"
#define UNIFORM     1
#define NORMAL      2
#define EXPONENTIAL 3
#define CAUCHY      4
#define LOG_NORMAL  5
#define GEOMETRIC   6
#define BERNOULLI   7
#define INTEGERS    8

/* From the number that was drawn to the compute type of the dtype: CAST_TO is a tpi_ctype, 16 more where integers were
 * drawn. */
#if CAST_TO == 0 || CAST_TO == 16
#define CAST(v) ((uint8_t)((v) != 0))
#elif CAST_TO == 1 || CAST_TO == 17
#define CAST(v) ((int32_t)(v))
#elif CAST_TO == 2 || CAST_TO == 18
#define CAST(v) ((int64_t)(v))
#elif CAST_TO == 3 || CAST_TO == 19
#define CAST(v) ((float)(v))
#else
#define CAST(v) ((double)(v))
#endif

#if KIND != INTEGERS
#if defined(__OPENCL_VERSION__)
#define COS   cos
#define SIN   sin
#define TAN   tan
#define FLOOR floor
#else
#define COS(x)   (WIDE ? cos(x) : cosf(x))
#define SIN(x)   (WIDE ? sin(x) : sinf(x))
#define TAN(x)   (WIDE ? tan(x) : tanf(x))
#define FLOOR(x) (WIDE ? floor(x) : floorf(x))
#endif

/* In [0, 1), from 24 or 53 bits. */
#if WORDS == 2
INLINE A unit(const uint32_t high, const uint32_t low) {
    return (A)((((uint64_t)high << 32 | low) & 0x1fffffffffffffu)) * (A)1.1102230246251565e-16;
}
#else
INLINE A unit(const uint32_t word) { return (A)(word >> 8) * (A)5.9604644775390625e-08f; }
#endif

INLINE A shaped(const A u, const A a, const A b) {
#if KIND == UNIFORM
    const A v = a + u * (b - a);
    return v < b ? v : a; /* where rounding reaches the upper end */
#elif KIND == EXPONENTIAL
    return -LN(1 - u) / a;
#elif KIND == CAUCHY
    return a + b * TAN((A)3.14159265358979323846 * (u - (A)0.5));
#elif KIND == GEOMETRIC
    return FLOOR(LN(1 - u) / LN(1 - a)) + 1;
#elif KIND == BERNOULLI
    return u < a ? b : 0;
#else
    return u;
#endif
}
#endif

#if KIND == INTEGERS
KERNEL(entry)
(PTR(out), const int64_t n, DRAWS, const int64_t base, const uint64_t range DRAWS_MOVED) {
#else
KERNEL(entry)
(PTR(out), const int64_t n, DRAWS, const A a, const A b DRAWS_MOVED) {
#endif
    DRAWS_FROM(seed, first)
    GLOBAL T_Y *y = AT(T_Y, out);
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i * 4 < n; i += (int64_t)BLOCKS * THREADS) {
#if KIND == INTEGERS
        int64_t v[4];
        const words4 p = philox(seed, first + (uint64_t)i * WORDS);
#if WORDS == 2
        const words4 q = philox(seed, first + (uint64_t)i * WORDS + 1);
        const uint64_t whole[4] = {(uint64_t)p.w[0] << 32 | p.w[1], (uint64_t)p.w[2] << 32 | p.w[3],
                                   (uint64_t)q.w[0] << 32 | q.w[1], (uint64_t)q.w[2] << 32 | q.w[3]};
        for (int j = 0; j < 4; j++) v[j] = (int64_t)((range ? whole[j] % range : whole[j]) + (uint64_t)base);
#else
        for (int j = 0; j < 4; j++) v[j] = (int64_t)(p.w[j] % (uint32_t)range) + base;
#endif
#else
        A v[4];
        const words4 p = philox(seed, first + (uint64_t)i * WORDS);
#if WORDS == 2
        const words4 q = philox(seed, first + (uint64_t)i * WORDS + 1);
        v[0] = unit(p.w[0], p.w[1]);
        v[1] = unit(p.w[2], p.w[3]);
        v[2] = unit(q.w[0], q.w[1]);
        v[3] = unit(q.w[2], q.w[3]);
#else
        for (int j = 0; j < 4; j++) v[j] = unit(p.w[j]);
#endif
#if KIND == NORMAL || KIND == LOG_NORMAL
        for (int j = 0; j < 4; j += 2) {
            const A radius = SQRT(-2 * LN(1 - v[j])), turn = (A)6.28318530717958647693 * v[j + 1];
            v[j] = a + b * radius * COS(turn);
            v[j + 1] = a + b * radius * SIN(turn);
        }
#if KIND == LOG_NORMAL
        for (int j = 0; j < 4; j++) v[j] = EXP(v[j]);
#endif
#else
        for (int j = 0; j < 4; j++) v[j] = shaped(v[j], a, b);
#endif
#endif
        UNROLL
        for (int j = 0; j < 4; j++)
            if (i * 4 + j < n) y[i * 4 + j] = SET_Y(CAST(v[j]));
    }
}

/* Eight lanes of float or four of double as one value (GNU vectors of 32 bytes): sums and maxima that run in fixed
 * lanes vectorise on every instruction set and give the same bits on each. Loads need no alignment. Included once per
 * element type, with REAL, BITS (the integer type of the same size) and K(name) defined. Vectors travel through
 * pointers only: by value their ABI differs by target. */
#ifndef LANES
#define LANES       ((int64_t)(32 / sizeof(REAL)))
#define LOAD(p)     (*(const K(loose) *)(p))
#define STORE(p, v) (*(K(loose) *)(p) = (v))
#ifdef __AVX__
#include <immintrin.h>
#define widest_f32(v, m) _mm256_max_ps(v, m) /* v where it is larger, m elsewhere, also where one is NaN */
#define widest_f64(v, m) _mm256_max_pd(v, m)
#endif
/* Returns the sum of each(i), a set of lanes, in four running sums and a fixed order; alone(i) is the same for one
 * element. `also` is done once for every four sets, which are two cache lines. */
#define ROW_TOTAL(n, each, alone, also)                     \
    K(lanes) a = {0}, b = {0}, c = {0}, d = {0};            \
    REAL rest = 0;                                          \
    int64_t i = 0;                                          \
    for (; i + 4 * LANES <= (n); i += 4 * LANES) {          \
        a += each(i), b += each(i + LANES);                 \
        c += each(i + 2 * LANES), d += each(i + 3 * LANES); \
        also;                                               \
    }                                                       \
    for (; i + LANES <= (n); i += LANES) a += each(i);      \
    for (; i < (n); i++) rest += alone(i);                  \
    a = (a + b) + (c + d);                                  \
    return K(lanes_sum)(&a) + rest
#endif
typedef REAL K(lanes) __attribute__((vector_size(32)));
typedef BITS
K(masks) __attribute__((vector_size(32)));
typedef REAL K(loose) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));

/* To memory; past the caches if asked, then p is a multiple of 32 bytes (see tpi_nontemporal_bytes) and
 * tpi_nontemporal_end must follow. */
static inline void K(put)(REAL *p, const K(lanes) * v, bool past) {
#ifdef __AVX__
    if (past) {
        _mm256_stream_si256((__m256i *)p, (__m256i)*v);
        return;
    }
#else
    (void)past;
#endif
    STORE(p, *v);
}

static inline REAL K(lanes_sum)(const K(lanes) * v) { /* by halves: a fixed tree */
    REAL t[32 / sizeof(REAL)];
    STORE(t, *v);
    for (int64_t half = LANES / 2; half > 0; half /= 2)
        for (int64_t l = 0; l < half; l++) t[l] += t[l + half];
    return t[0];
}

/* Rows are gone over more than once; what comes next is fetched meanwhile, here the line at x. Beyond the last row this
 * asks for nothing that is used. */
static inline void K(fetch)(const REAL *x) { __builtin_prefetch(x, 0, 2); }

/* Per lane m = max(m, x); where x is NaN, m stays. */
static inline void K(raise)(K(lanes) * m, const REAL *x) {
    K(lanes) v = LOAD(x);
#ifdef __AVX__
    *m = K(widest)(v, *m);
#else
    K(masks) larger = v > *m;
    *m = (K(lanes))(((K(masks))v & larger) | ((K(masks)) * m & ~larger));
#endif
}

/* The largest of x[0 .. n-1]; NaN counts only when all are NaN or n is 0 (then -inf). */
static inline REAL K(row_max)(int64_t n, const REAL *x) {
    REAL m = -INFINITY;
    int64_t i = 0;
    if (n >= LANES) {
        const K(lanes) none = (K(lanes)){0} - (REAL)INFINITY;
        K(lanes) a[4] = {none, none, none, none};
        for (; i + 4 * LANES <= n; i += 4 * LANES)
            for (int k = 0; k < 4; k++) K(raise)(&a[k], x + i + k * LANES);
        for (; i + LANES <= n; i += LANES) K(raise)(&a[0], x + i);
        for (int k = 0; k < 4; k++)
            for (int64_t l = 0; l < LANES; l++) m = a[k][l] > m ? a[k][l] : m;
    }
    for (; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

/* The sum of x[i], and of x[i] * y[i]. */
static inline REAL K(row_sum)(int64_t n, const REAL *x) {
#define EACH(i)  LOAD(x + (i))
#define ALONE(i) x[i]
    ROW_TOTAL(n, EACH, ALONE, (void)0);
#undef EACH
#undef ALONE
}

static inline REAL K(row_dot)(int64_t n, const REAL *x, const REAL *y) {
#define EACH(i)  LOAD(x + (i)) * LOAD(y + (i))
#define ALONE(i) x[i] * y[i]
    ROW_TOTAL(n, EACH, ALONE, (void)0);
#undef EACH
#undef ALONE
}

/* Eight lanes of float or four of double as one value (GNU vectors of 32 bytes): sums and maxima that run in fixed lanes vectorise on
 * every instruction set and give the same bits on each. Loads need no alignment. Included once per element type, with REAL, BITS
 * (the integer type of the same size) and K(name) defined. Vectors travel through pointers only: by value their ABI differs by target. */
#define LANES ((int64_t)(32 / sizeof(REAL)))
typedef REAL K(lanes) __attribute__((vector_size(32)));
typedef BITS K(masks) __attribute__((vector_size(32)));
typedef REAL K(loose) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
#ifndef LOAD
#define LOAD(p) (*(const K(loose) *)(p))
#define STORE(p, v) (*(K(loose) *)(p) = (v))
#endif

static inline REAL K(lanes_sum)(const K(lanes) *v) { /* by halves: a fixed tree */
    REAL t[32 / sizeof(REAL)];
    STORE(t, *v);
    for (int64_t half = LANES / 2; half > 0; half /= 2)
        for (int64_t l = 0; l < half; l++) t[l] += t[l + half];
    return t[0];
}

/* Rows are gone over more than once; what comes next is fetched meanwhile. Beyond the last row this asks for nothing that is used. */
static inline void K(fetch_ahead)(int64_t n, const REAL *x) {
    for (int64_t i = 0; i < n; i += (int64_t)(64 / sizeof(REAL))) __builtin_prefetch(x + i, 0, 2);
}

/* Per lane m = max(m, x); where x is NaN, m stays. */
static inline void K(raise)(K(lanes) *m, const REAL *x) {
    K(lanes) v = LOAD(x);
    K(masks) take = v > *m;
    *m = (K(lanes))(((K(masks))v & take) | ((K(masks))*m & ~take));
}

/* The largest of x[0 .. n-1]; NaN counts only when all are NaN or n is 0 (then -inf). */
static inline REAL K(row_max)(int64_t n, const REAL *x) {
    REAL m = -INFINITY;
    int64_t i = 0;
    if (n >= 2 * LANES) {
        K(lanes) a, b;
        for (int64_t l = 0; l < LANES; l++) a[l] = b[l] = -INFINITY;
        for (; i + 2 * LANES <= n; i += 2 * LANES) {
            K(raise)(&a, x + i);
            K(raise)(&b, x + i + LANES);
        }
        for (int64_t l = 0; l < LANES; l++) {
            m = a[l] > m ? a[l] : m;
            m = b[l] > m ? b[l] : m;
        }
    }
    for (; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

/* The sum of x[i], and of x[i] * y[i], in two sets of lanes. */
static inline REAL K(row_sum)(int64_t n, const REAL *x) {
    K(lanes) a = {0}, b = {0};
    REAL rest = 0;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) a += LOAD(x + i), b += LOAD(x + i + LANES);
    for (; i < n; i++) rest += x[i];
    a += b;
    return K(lanes_sum)(&a) + rest;
}

static inline REAL K(row_dot)(int64_t n, const REAL *x, const REAL *y) {
    K(lanes) a = {0}, b = {0};
    REAL rest = 0;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a += LOAD(x + i) * LOAD(y + i);
        b += LOAD(x + i + LANES) * LOAD(y + i + LANES);
    }
    for (; i < n; i++) rest += x[i] * y[i];
    a += b;
    return K(lanes_sum)(&a) + rest;
}

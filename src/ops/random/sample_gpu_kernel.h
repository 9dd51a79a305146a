/* Samples whose distribution is itself a tensor, one per element; an element draws from a stream of its own
 * (philox_at), as long as it needs. Before this text: A, WIDE; X the dtype of parameters, Y that of samples; KIND, one
 * of the list below; MOVED as in random_gpu_kernel.h. The methods are those of the CPU. */
#include "philox.h"
#define POISSON  1
#define BINOMIAL 2
#define GAMMA    3
#if defined(__OPENCL_VERSION__) || WIDE
#define COS    cos
#define FLOOR  floor
#define CEIL   ceil
#define LOG1P  log1p
#define LGAMMA lgamma
#else
#define COS    cosf
#define FLOOR  floorf
#define CEIL   ceilf
#define LOG1P  log1pf
#define LGAMMA lgammaf
#endif

typedef struct drawn {
    uint64_t seed, counter;
    uint32_t step; /* groups drawn so far */
    int left;
    words4 group;
} drawn;

INLINE uint32_t next_word(drawn *d) {
    if (!d->left) {
        d->group = philox_at(d->seed, d->counter, d->step++);
        d->left = 4;
    }
    return d->group.w[4 - d->left--];
}
/* In [0, 1), from 53 or 24 bits. */
INLINE A uniform(drawn *d) {
#if WIDE
    const uint64_t high = next_word(d), low = next_word(d);
    return (A)((high << 32 | low) & 0x1fffffffffffffu) * (A)1.1102230246251565e-16;
#else
    return (A)(next_word(d) >> 8) * (A)5.9604644775390625e-08f;
#endif
}

#if KIND == POISSON
/* Small rates multiply uniforms until the product falls below exp(-rate); large ones use Hoermann's transformed
 * rejection (PTRS). */
INLINE A sample(drawn *d, const A rate, const A unused) {
    (void)unused;
    if (!(rate >= 10)) {
        A k = 0;
        const A least = EXP(-rate);
        if (!(rate > 0)) return rate == 0 ? 0 : (A)NAN;
        for (A product = uniform(d); product > least; product *= uniform(d)) k += 1;
        return k;
    }
    const A b = (A)0.931 + (A)2.53 * SQRT(rate), a = (A)-0.059 + (A)0.02483 * b;
    const A inverse_alpha = (A)1.1239 + (A)1.1328 / (b - (A)3.4), accept = (A)0.9277 - (A)3.6224 / (b - 2);
    for (;;) {
        const A u = uniform(d) - (A)0.5, v = uniform(d), us = (A)0.5 - FABS(u),
                k = FLOOR((2 * a / us + b) * u + rate + (A)0.43);
        if (us >= (A)0.07 && v <= accept) return k;
        if (k < 0 || (us < (A)0.013 && v > us)) continue;
        if (LN(v) + LN(inverse_alpha) - LN(a / (us * us) + b) <= -rate + k * LN(rate) - LGAMMA(k + 1)) return k;
    }
}
#endif

#if KIND == BINOMIAL
/* log k! less (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2 */
INLINE A stirling_rest(const A k) {
    const A n = k + 1, nn = n * n;
    if (k < 10) return LGAMMA(n) - (k + (A)0.5) * LN(n) + n - (A)0.91893853320467274178;
    return ((A)(1.0 / 12) - ((A)(1.0 / 360) - (A)(1.0 / 1260) / nn) / nn) / n;
}
/* Few expected successes go from success to success by geometric steps, many use Hoermann's transformed rejection
 * (BTRS). */
INLINE A sample_half(drawn *d, const A count, const A p) {
    if (count * p < 10) {
        A passed = 0, successes = 0;
        const A log_miss = LOG1P(-p);
        for (;; successes += 1) {
            passed += CEIL(LN(uniform(d)) / log_miss);
            if (!(passed <= count)) return successes;
        }
    }
    const A spread = SQRT(count * p * (1 - p)), b = (A)1.15 + (A)2.53 * spread,
            a = (A)-0.0873 + (A)0.0248 * b + (A)0.01 * p;
    const A centre = count * p + (A)0.5, inside = (A)0.92 - (A)4.2 / b, odds = p / (1 - p),
            alpha = ((A)2.83 + (A)5.1 / b) * spread, mode = FLOOR((count + 1) * p);
    for (;;) {
        const A u = uniform(d) - (A)0.5, v = uniform(d), us = (A)0.5 - FABS(u),
                k = FLOOR((2 * a / us + b) * u + centre);
        if (k < 0 || k > count) continue;
        if (us >= (A)0.07 && v <= inside) return k;
        const A bound = (mode + (A)0.5) * LN((mode + 1) / (odds * (count - mode + 1))) +
                        (count + 1) * LN((count - mode + 1) / (count - k + 1)) +
                        (k + (A)0.5) * LN(odds * (count - k + 1) / (k + 1)) + stirling_rest(mode) +
                        stirling_rest(count - mode) - stirling_rest(k) - stirling_rest(count - k);
        if (LN(v * alpha / (a / (us * us) + b)) <= bound) return k;
    }
}
INLINE A sample(drawn *d, const A count, const A p) {
    if (p != p || count != count) return (A)NAN;
    if (count <= 0 || p <= 0) return 0;
    if (p >= 1) return count;
    return p > (A)0.5 ? count - sample_half(d, count, 1 - p) : sample_half(d, count, p);
}
#endif

#if KIND == GAMMA
/* Marsaglia and Tsang; concentrations below one draw a uniform more. `least`: the smallest sample. */
INLINE A sample(drawn *d, const A concentration, const A least) {
    A a = concentration, scale = 1;
    if (!(a >= 0)) return (A)NAN;
    if (a == 0) return least;
    if (a < 1) {
        scale = POW(1 - uniform(d), 1 / a);
        a += 1;
    }
    const A e = a - (A)0.33333333333333333, c = 1 / SQRT(9 * e);
    for (;;) {
        A x, y;
        do {
            const A radius = SQRT(-2 * LN(1 - uniform(d)));
            x = radius * COS((A)6.28318530717958647693 * uniform(d));
            y = 1 + c * x;
        } while (y <= 0);
        const A v = y * y * y, u = 1 - uniform(d), xx = x * x;
        if (u < 1 - (A)0.0331 * xx * xx || LN(u) < (A)0.5 * xx + e * (1 - v + LN(v))) {
            const A out = scale * e * v;
            return out > least ? out : least;
        }
    }
}
#endif

/* out[i] = a sample of (in[i], more[i]); GAMMA has no second parameter, but `least`. */
KERNEL(entry)
(PTR(out), PTR(in), PTR(more), const int64_t n, const A least, DRAWS DRAWS_MOVED) {
    DRAWS_FROM(seed, first)
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i < n; i += (int64_t)BLOCKS * THREADS) {
        drawn d;
        d.seed = seed;
        d.counter = first + (uint64_t)i;
        d.step = 1;
        d.left = 0;
        const A a = (A)GET_X(AT(const T_X, in)[i]);
#if KIND == BINOMIAL
        const A b = (A)GET_X(AT(const T_X, more)[i]);
#else
        const A b = least;
#endif
        AT(T_Y, out)[i] = SET_Y(sample(&d, a, b));
    }
}

/* Exponentials and the normal distribution function, written so that loops over them vectorise: no branches, few steps,
 * short chains of steps that wait for each other. Where the instruction set multiplies and adds in one step, they do.
 * NaN stays NaN; what underflows, -inf included, gives 0. */
#ifndef TPI_VECTOR_MATH_H
#define TPI_VECTOR_MATH_H
#include <math.h>
#include <stdint.h>

#if defined(__FMA__) || defined(__aarch64__)
#define TPI_FMA_F32(a, b, c) __builtin_fmaf(a, b, c)
#define TPI_FMA_F64(a, b, c) __builtin_fma(a, b, c)
#define TPI_ONE_STEP         1
#else
#define TPI_FMA_F32(a, b, c) ((a) * (b) + (c))
#define TPI_FMA_F64(a, b, c) ((a) * (b) + (c))
#define TPI_ONE_STEP         0
#endif

typedef union tpi_bits32 {
    float f;
    uint32_t u;
    int32_t i;
} tpi_bits32;

/* x - n ln 2 for a whole n, with ln 2 in two parts, the first of few digits. */
static inline float tpi_less_ln2_f32(float n, float x) {
    return TPI_FMA_F32(n, 2.12194440e-4f, TPI_FMA_F32(n, -0.693359375f, x));
}

/* exp(r) - 1 - r over r^2 for |r| <= ln 2 / 2, of the least relative error of exp(r). */
static inline float tpi_exp_tail_f32(float r, float square) {
    float high = TPI_FMA_F32(8.368745113e-03f, r, 4.166839079e-02f),
          low = TPI_FMA_F32(1.666652040e-01f, r, 4.999999343e-01f);
    return TPI_FMA_F32(TPI_FMA_F32(1.381454003e-03f, square, high), square, low);
}

/* One unit in the last place: x = n ln 2 + r. Adding 1.5 * 2^23 rounds n into the low bits of z; 254 more are there for
 * 2^n, which is applied in two halves, so that denormal results and infinity come out, each half with an exponent
 * biased by 127. As whole numbers, the bits of z are cut off where the result is infinite anyway. */
static inline float tpi_exp_f32(float x) {
    const float shift = 12582912.0f + 254.0f;
    const int32_t most = 0x4b400000 + 254 + 252;
    tpi_bits32 z = {.f = TPI_FMA_F32(x, 1.44269504f, shift)}, low, high;
    z.i = z.i < most ? z.i : most;
    float n = z.f - shift, r = tpi_less_ln2_f32(n, x), square = r * r;
    uint32_t half = z.u >> 1;
    low.u = half << 23;
    high.u = (z.u - half) << 23;
    float p = TPI_FMA_F32(tpi_exp_tail_f32(r, square), square, r), y = TPI_FMA_F32(p, low.f, low.f) * high.f;
    return x < -104.0f ? 0.0f : y;
}

/* The same bits in fewer steps where |x| <= TPI_EXP_TAME: n is added to the exponent. */
#define TPI_EXP_TAME 87.0f
static inline float tpi_exp_tame_f32(float x) {
    const float shift = 12582912.0f;
    tpi_bits32 z = {.f = TPI_FMA_F32(x, 1.44269504f, shift)}, y;
    float r = tpi_less_ln2_f32(z.f - shift, x), square = r * r;
    y.f = 1.0f + TPI_FMA_F32(tpi_exp_tail_f32(r, square), square, r);
    y.u += z.u << 23;
    return y.f;
}

/* Are all of the n elements such? Bits without their sign order like sizes, NaN above all. */
static inline int tpi_exp_all_tame(int64_t n, const float *x) {
    const tpi_bits32 tame = {.f = TPI_EXP_TAME};
    int32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        tpi_bits32 size = {.f = x[i]};
        size.i &= 0x7fffffff;
        largest = size.i > largest ? size.i : largest;
    }
    return largest <= tame.i;
}

enum { TPI_EXP_TOGETHER = 256 }; /* elements that take the short way if all of them may */

/* y = exp(x) for n elements. y may be x. */
static inline void tpi_exp_run_f32(int64_t n, const float *x, float *y) {
    for (int64_t at = 0, m; at < n; at += m, x += m, y += m) {
        m = n - at < TPI_EXP_TOGETHER ? n - at : TPI_EXP_TOGETHER;
        if (tpi_exp_all_tame(m, x)) {
#pragma omp simd
            for (int64_t i = 0; i < m; i++) y[i] = tpi_exp_tame_f32(x[i]);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < m; i++) y[i] = tpi_exp_f32(x[i]);
        }
    }
}

/* The same for y = 1 / (1 + exp(-x)). */
static inline void tpi_sigmoid_run_f32(int64_t n, const float *x, float *y) {
    for (int64_t at = 0, m; at < n; at += m, x += m, y += m) {
        m = n - at < TPI_EXP_TOGETHER ? n - at : TPI_EXP_TOGETHER;
        if (tpi_exp_all_tame(m, x)) {
#pragma omp simd
            for (int64_t i = 0; i < m; i++) y[i] = 1.0f / (1.0f + tpi_exp_tame_f32(-x[i]));
        } else {
#pragma omp simd
            for (int64_t i = 0; i < m; i++) y[i] = 1.0f / (1.0f + tpi_exp_f32(-x[i]));
        }
    }
}

/* 1 - 2 / (exp(2 |x|) + 1), from 9.02 on one; below 0.6, where that loses digits, x times a polynomial in x^2. A NaN
 * takes the latter and stays. Two units in the last place at most. */
static inline float tpi_tanh_f32(float x) {
    tpi_bits32 sign = {.f = x}, size = {.f = x}, y;
    sign.u &= 0x80000000u;
    size.u &= 0x7fffffffu;
    float u = x * x, p = -5.895136e-03f;
    p = TPI_FMA_F32(p, u, 2.079595e-02f);
    p = TPI_FMA_F32(p, u, -5.3783823e-02f);
    p = TPI_FMA_F32(p, u, 1.33319244e-01f);
    p = TPI_FMA_F32(p, u, -3.33332986e-01f);
    float near = TPI_FMA_F32(p * u, size.f, size.f),
          far = 1.0f - 2.0f / (1.0f + tpi_exp_tame_f32(2.0f * (size.f < 9.02f ? size.f : 9.02f)));
    y.f = size.f >= 0.6f ? far : near;
    y.u |= sign.u;
    return y.f;
}

/* For arguments up to 0, as in a softmax: two units in the last place down to exp(-20), five below, and 0 from exp(-87)
 * on, where what is left would be denormal. */
static inline float tpi_exp_share_f32(float x) {
    const float shift = 12582912.0f + 127.0f;
    tpi_bits32 z = {.f = TPI_FMA_F32(x, 1.44269504f, shift)}, power = {.u = z.u << 23};
    float n = z.f - shift, r = TPI_ONE_STEP ? TPI_FMA_F32(n, -0.693147182f, x) : tpi_less_ln2_f32(n, x), square = r * r;
    float p = TPI_FMA_F32(tpi_exp_tail_f32(r, square), square, r), y = TPI_FMA_F32(p, power.f, power.f);
    return x < -87.0f ? 0.0f : y;
}

/* One or two units in the last place, for arguments up to 700. */
static inline double tpi_exp_f64(double x) {
    x = x < -746.0 ? -746.0 : x;
    union {
        double f;
        int64_t i;
    } z = {.f = x * 1.4426950408889634 + 6755399441055744.0}, low, high;
    double n = z.f - 6755399441055744.0, r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = TPI_FMA_F64(p, r, 1.0 / 479001600.0);
    p = TPI_FMA_F64(p, r, 1.0 / 39916800.0);
    p = TPI_FMA_F64(p, r, 1.0 / 3628800.0);
    p = TPI_FMA_F64(p, r, 1.0 / 362880.0);
    p = TPI_FMA_F64(p, r, 1.0 / 40320.0);
    p = TPI_FMA_F64(p, r, 1.0 / 5040.0);
    p = TPI_FMA_F64(p, r, 1.0 / 720.0);
    p = TPI_FMA_F64(p, r, 1.0 / 120.0);
    p = TPI_FMA_F64(p, r, 1.0 / 24.0);
    p = TPI_FMA_F64(p, r, 1.0 / 6.0);
    p = TPI_FMA_F64(p, r, 0.5);
    p = TPI_FMA_F64(p, r, 1.0);
    p = TPI_FMA_F64(p, r, 1.0);
    int64_t k = z.i - 0x4338000000000000, half = (k - (k & 1)) / 2;
    low.i = (int64_t)((uint64_t)(half + 1023) << 52);
    high.i = (int64_t)((uint64_t)(k - half + 1023) << 52);
    return p * low.f * high.f;
}

/* The normal distribution function to 2e-7, exactly 0 and 1 from -5.4 and 5.4 on: x times a ratio of polynomials in
 * x^2, which passes one half just before 5.4. Cutting off works on bits, which order like floats of the same sign; a
 * NaN may be cut to a number here, so what it came from must be part of the result, as in gelu's x * share. */
static inline float tpi_near_ndtr_f32(float x) {
    tpi_bits32 c = {.f = x}, most = {.f = 5.4f}, y;
    int32_t size = c.i & 0x7fffffff;
    size = size < most.i ? size : most.i;
    c.u = (uint32_t)size | (c.u & 0x80000000u);
    float u = c.f * c.f, p = 2.349487023e-08f, q = 1.220089921e-06f;
    p = TPI_FMA_F32(p, u, 6.365760791e-06f);
    p = TPI_FMA_F32(p, u, 1.638629999e-04f);
    p = TPI_FMA_F32(p, u, 4.648408630e-03f);
    p = TPI_FMA_F32(p, u, 3.331905458e-02f);
    p = TPI_FMA_F32(p, u, 3.989422463e-01f);
    q = TPI_FMA_F32(q, u, 7.229532065e-05f);
    q = TPI_FMA_F32(q, u, 1.856460288e-03f);
    q = TPI_FMA_F32(q, u, 2.835032477e-02f);
    q = TPI_FMA_F32(q, u, 2.501845883e-01f);
    q = TPI_FMA_F32(q, u, 1.0f);
    y.f = 0.5f + c.f * p / q;
    y.i = y.i > 0 ? y.i : 0;
    y.i = y.i < 0x3f800000 ? y.i : 0x3f800000;
    return y.f;
}
#endif

/* The exponential and the error function, written so that loops over them vectorise. Where the instruction set multiplies and adds in
 * one step, they do. NaN stays NaN; what underflows, -inf included, gives 0. */
#ifndef TPI_VECTOR_MATH_H
#define TPI_VECTOR_MATH_H
#include <math.h>
#include <stdint.h>

#ifdef __FMA__
#define TPI_FMA_F32(a, b, c) __builtin_fmaf(a, b, c)
#define TPI_FMA_F64(a, b, c) __builtin_fma(a, b, c)
#else
#define TPI_FMA_F32(a, b, c) ((a) * (b) + (c))
#define TPI_FMA_F64(a, b, c) ((a) * (b) + (c))
#endif

/* For arguments up to 89 (infinity is reached before), one unit in the last place: x = n ln 2 + r with |r| <= ln 2 / 2, and a polynomial of the least relative error for exp(r). Adding 1.5 * 2^23
 * rounds n into the low bits of z. 2^n is applied in two halves, so that denormal results and infinity come out. */
static inline float tpi_exp_f32(float x) {
    x = x < -104.0f ? -104.0f : x;
    union { float f; int32_t i; } z = {.f = TPI_FMA_F32(x, 1.44269504f, 12582912.0f)}, low, high;
    float n = z.f - 12582912.0f, r = TPI_FMA_F32(n, 2.12194440e-4f, TPI_FMA_F32(n, -0.693359375f, x));
    float p = 1.381454003e-03f;
    p = TPI_FMA_F32(p, r, 8.368745113e-03f);
    p = TPI_FMA_F32(p, r, 4.166839079e-02f);
    p = TPI_FMA_F32(p, r, 1.666652040e-01f);
    p = TPI_FMA_F32(p, r, 4.999999343e-01f);
    p = TPI_FMA_F32(p, r, 1.0f);
    p = TPI_FMA_F32(p, r, 1.0f);
    int32_t k = z.i - 0x4b400000, half = k >> 1;
    low.i = (int32_t)((uint32_t)(half + 127) << 23);
    high.i = (int32_t)((uint32_t)(k - half + 127) << 23);
    return p * low.f * high.f;
}

/* One or two units in the last place, for arguments up to 700. */
static inline double tpi_exp_f64(double x) {
    x = x < -746.0 ? -746.0 : x;
    union { double f; int64_t i; } z = {.f = x * 1.4426950408889634 + 6755399441055744.0}, low, high;
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

/* The error function to 4e-7: |x| times a ratio of polynomials in x^2, which reaches one at 3.925. */
static inline float tpi_near_erf_f32(float x) {
    float a = fabsf(x);
    a = a > 3.925f ? 3.925f : a;
    float u = a * a, p = 2.046025487e-06f, q = 3.804779518e-05f;
    p = TPI_FMA_F32(p, u, 2.848443047e-04f);
    p = TPI_FMA_F32(p, u, 3.772575980e-03f);
    p = TPI_FMA_F32(p, u, 5.276937859e-02f);
    p = TPI_FMA_F32(p, u, 1.905943345e-01f);
    p = TPI_FMA_F32(p, u, 1.128379146e+00f);
    q = TPI_FMA_F32(q, u, 1.163864398e-03f);
    q = TPI_FMA_F32(q, u, 1.498324953e-02f);
    q = TPI_FMA_F32(q, u, 1.141829644e-01f);
    q = TPI_FMA_F32(q, u, 5.022425614e-01f);
    q = TPI_FMA_F32(q, u, 1.0f);
    float y = a * p / q;
    return copysignf(y > 1.0f ? 1.0f : y, x);
}
#endif

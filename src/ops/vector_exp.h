/* The exponential for arguments up to 80, written so that loops over it vectorise; one or two units in the last place.
 * NaN stays NaN; what underflows, -inf included, gives 0. */
#ifndef TPI_VECTOR_EXP_H
#define TPI_VECTOR_EXP_H
#include <stdint.h>

/* x = n ln 2 + r with |r| <= ln 2 / 2; adding 1.5 * 2^23 rounds n into the low bits of z. 2^n is applied in two halves so that
 * denormal results come out. */
static inline float tpi_exp_f32(float x) {
    x = x < -104.0f ? -104.0f : x;
    union { float f; int32_t i; } z = {.f = x * 1.44269504f + 12582912.0f}, low, high;
    float n = z.f - 12582912.0f, r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t k = z.i - 0x4b400000, half = k >> 1;
    low.i = (int32_t)((uint32_t)(half + 127) << 23);
    high.i = (int32_t)((uint32_t)(k - half + 127) << 23);
    return p * low.f * high.f;
}

static inline double tpi_exp_f64(double x) {
    x = x < -746.0 ? -746.0 : x;
    union { double f; int64_t i; } z = {.f = x * 1.4426950408889634 + 6755399441055744.0}, low, high;
    double n = z.f - 6755399441055744.0, r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    int64_t k = z.i - 0x4338000000000000, half = (k - (k & 1)) / 2;
    low.i = (int64_t)((uint64_t)(half + 1023) << 52);
    high.i = (int64_t)((uint64_t)(k - half + 1023) << 52);
    return p * low.f * high.f;
}
#endif

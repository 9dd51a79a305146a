/* Box-Muller over blocks of sixteen floats, as PyTorch pairs them: the first eight with the last eight. The logarithm,
 * sine and cosine are series written out for exactly the ranges that come, so that the loop over a block vectorises;
 * each is good to about one unit in the last place. */
#include "ops/random/normal.h"
#include <math.h>
#include <string.h>

enum { PAIRS = 8 };

/* ln x for a normal x in (0, 1]: x = m 2^e with m in [sqrt(1/2), sqrt(2)), and ln m = 2 artanh((m - 1) / (m + 1)). */
static inline float log_unit(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t e = (bits - 0x3f3504f3) >> 23; /* 0x3f3504f3 is sqrt(1/2) */
    bits -= (int32_t)((uint32_t)e << 23);
    float m;
    memcpy(&m, &bits, sizeof m);
    float s = (m - 1) / (m + 1), z = s * s;
    float tail = z * (2.0f / 3 + z * (2.0f / 5 + z * (2.0f / 7 + z * (2.0f / 9))));
    return (float)e * 0.693359375f + (2 * s + (s * tail + (float)e * -2.12194440e-4f)); /* ln 2 in two parts */
}

/* sin and cos for t in [0, 2 pi]: t = q pi/2 + r with |r| <= pi/4, and the series of the two. */
static inline void sin_cos(float t, float *sine, float *cosine) {
    int32_t q = (int32_t)(t * 0.636619772f + 0.5f);
    float r = (t - (float)q * 1.5703125f) - (float)q * 4.83826795e-4f,
          z = r * r; /* pi/2 in two parts, the first of few bits */
    float s = r + r * (z * (-1.0f / 6 + z * (1.0f / 120 + z * (-1.0f / 5040 + z * (1.0f / 362880)))));
    float c = 1 + z * (-0.5f + z * (1.0f / 24 + z * (-1.0f / 720 + z * (1.0f / 40320 + z * (-1.0f / 3628800)))));
    float a = q & 1 ? c : s, b = q & 1 ? s : c;
    *sine = q & 2 ? -a : a;
    *cosine = (q + 1) & 2 ? -b : b;
}

void TPI_ISA(tpi_normal_blocks)(int64_t n, float *v, float mean, float std) {
    for (int64_t at = 0; at < n; at += 2 * PAIRS) {
        float *first = v + at, *second = first + PAIRS;
        for (int j = 0; j < PAIRS; j++) {
            float radius = sqrtf(-2 * log_unit(1 - first[j])), sine, cosine;
            sin_cos(6.28318548f * second[j], &sine, &cosine);
            first[j] = radius * cosine * std + mean;
            second[j] = radius * sine * std + mean;
        }
    }
}

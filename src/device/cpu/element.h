/* The functions of the tables' element language for the CPU: el_<name>_<type>. Kernels written by opgen call nothing
 * else, so another target needs only its own version of this header: most of it is the text of device/element, which
 * all targets share. Loops over these vectorise: on x86-64 glibc's libmvec serves the calls declared with TPI_VECTOR.
 */
#ifndef TPI_ELEMENT_H
#define TPI_ELEMENT_H
#include "device/cpu/vector_math.h"
#include "device/device.h"
#include <math.h>
#include <stdlib.h>

/* glibc offers vector versions of these; gcc calls them in simd loops when the declaration says so. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#include <gnu/libc-version.h>
#if __GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 22)
#define TPI_VECTOR(name)                                             \
    double name(double) __attribute__((const, simd("notinbranch"))); \
    float name##f(float) __attribute__((const, simd("notinbranch")));
#define TPI_VECTOR2(name)                                                    \
    double name(double, double) __attribute__((const, simd("notinbranch"))); \
    float name##f(float, float) __attribute__((const, simd("notinbranch")));
TPI_VECTOR(exp)
TPI_VECTOR(log)
TPI_VECTOR(sin)
TPI_VECTOR(cos)
TPI_VECTOR2(pow)
#if __GLIBC_MINOR__ >= 35
TPI_VECTOR(tan)
TPI_VECTOR(tanh)
TPI_VECTOR(sinh)
TPI_VECTOR(cosh)
TPI_VECTOR(asin)
TPI_VECTOR(acos)
TPI_VECTOR(atan)
TPI_VECTOR(asinh)
TPI_VECTOR(acosh)
TPI_VECTOR(atanh)
TPI_VECTOR(exp2)
TPI_VECTOR(expm1)
TPI_VECTOR(log2)
TPI_VECTOR(log10)
TPI_VECTOR(log1p)
TPI_VECTOR(cbrt)
TPI_VECTOR(erf)
TPI_VECTOR(erfc)
TPI_VECTOR2(atan2)
TPI_VECTOR2(hypot)
#endif
#endif
#endif

#define EL static inline __attribute__((unused, always_inline))

/* ---- where the CPU has something better than the C library ---- */
EL float el_exp_f32(float x) { return tpi_exp_f32(x); }
EL void el_run_exp_f32(int64_t n, const float *x, float *out) {
    tpi_exp_run_f32(n, x, out);
} /* opgen's maps that are nothing else */
EL double el_exp_f64(double x) { return exp(x); }
EL float el_tanh_f32(float x) { return tpi_tanh_f32(x); }
EL double el_tanh_f64(double x) { return tanh(x); }
EL void el_run_sigmoid_f32(int64_t n, const float *x, float *out) { tpi_sigmoid_run_f32(n, x, out); }
EL float el_near_ndtr_f32(float x) { return tpi_near_ndtr_f32(x); } /* faster than ndtr, to 2e-7; NaN may be lost */
EL double el_near_ndtr_f64(double x) { return 0.5 + 0.5 * erf(x * 0.70710678118654752440); }

/* The remainder by exact steps: each takes a whole multiple of y away with one rounding, which is exact as what is left
 * has few digits. A step shrinks a quotient by 2^50, so six serve for every float; those of doubles can be larger than
 * that, which is the C library's case. Without fused multiply-add there is only the C library's long division. */
#if defined(__FMA__) || defined(__aarch64__)
#define EL_HAS_FMA
#endif
#ifdef EL_HAS_FMA
EL double el_fmod_step(double r, double a, double inverse) { return fma(-trunc(r * inverse), a, r); }
EL float el_fmod_f32(float x, float y) {
    double a = fabs((double)y), r = fabs((double)x), inverse = 1 / a, big = a;
    a = a == INFINITY ? 1 : a;
    r = el_fmod_step(el_fmod_step(el_fmod_step(r, a, inverse), a, inverse), a, inverse);
    r = el_fmod_step(el_fmod_step(el_fmod_step(r, a, inverse), a, inverse), a, inverse);
    r = r < 0 ? r + a : r; /* a quotient may have been one too large, or too small */
    r = ((r >= a) & (big < INFINITY)) ? r - a : r;
    return copysignf((float)r, x);
}
#else
EL float el_fmod_f32(float x, float y) { return fmodf(x, y); }
#endif
EL double el_fmod_f64(double x, double y) {
#ifdef EL_HAS_FMA
    const double q = fabs(trunc(x / y)), a = fabs(y);
    if ((q < 0x1p50) & (a < INFINITY)) {
        double r = fma(-q, a, fabs(x)); /* the quotient may be one too large */
        r += r < 0 ? a : 0;
        r -= r >= a ? a : 0;
        return copysign(r, x);
    }
#endif
    return fmod(x, y);
}

#define EL_SIGNBIT(x) (__builtin_signbit(x) != 0)
/* Functions that are too long to put in line: no loop over them vectorises anyway. */
#define EL_HEAVY static __attribute__((unused, noinline))
/* lgamma(x) / ((x - 1) (x - 2)) from 0.75 to 2.25, with u = (x - 1.5) / 0.75. */
EL double el_lgamma_middle(double u) {
    double p = -2.54640564900322e-06;
    p = 5.049641245913097e-06 + u * p;
    p = -5.045248513776081e-07 + u * p;
    p = 2.4335747959615595e-06 + u * p;
    p = -2.207720965187321e-05 + u * p;
    p = 4.5768760825166567e-05 + u * p;
    p = -8.542558436622708e-05 + u * p;
    p = 0.00018968660121310187 + u * p;
    p = -0.00042938522730254084 + u * p;
    p = 0.0009700979759627043 + u * p;
    p = -0.002236642091889653 + u * p;
    p = 0.005314611260598077 + u * p;
    p = -0.013208275630318046 + u * p;
    p = 0.03538766775718257 + u * p;
    p = -0.10946992177753447 + u * p;
    p = 0.4831289505040409 + u * p;
    return p;
}
/* In double, without branches, so that loops over it vectorise. Around its zeros a polynomial keeps the digits. With z
 * = |x| and, below 6, six steps of the recurrence at once, whose product is that of t = z (z + 5) with t + 4 and t + 6:
 * lgamma(z) = stirling(z + 6) - log(product). Where x < 0: log(pi / (z |sin(pi x)|)) - lgamma(z). */
EL float el_lgamma_f32(float x) {
    const double log_pi = 1.1447298858494001741, half_log_2pi = 0.91893853320467274178;
    double z = fabs((double)x), f = z - rint(z), t = z * (z + 5);
    double product = z < 6 ? t * (t + 4) * (t + 6) : 1, w = z < 6 ? z + 6 : z, r = 1 / w, s = r * r;
    double series = r * (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s / 1188))));
    double stirling = (w - 0.5) * log(w) - w + half_log_2pi + series;
    double sine = fabs(sin(3.14159265358979323846 * f));
    double steps = log(x < 0 ? product / (z * sine) : product);
    double value = x < 0 ? log_pi - stirling + steps : stirling - steps;
    double middle = (z - 1) * (z - 2) * el_lgamma_middle((z - 1.5) * (1 / 0.75));
    value = ((x > 0.75f) & (x < 2.25f)) ? middle + 0.0 : value; /* no negative zero */
    value = ((z == 0) | (z == (double)INFINITY) | ((x < 0) & (f == 0))) ? (double)INFINITY : value;
    return (float)value;
}
EL double el_lgamma_f64(double x) {
    int sign;
    return lgamma_r(x, &sign);
}
EL double el_bessel_j0_f64(double x) { return j0(x); }
EL double el_bessel_j1_f64(double x) { return j1(x); }
EL double el_bessel_y0_f64(double x) { return x < 0 ? NAN : y0(x); }
EL double el_bessel_y1_f64(double x) { return x < 0 ? NAN : y1(x); }

#include "device/element/element_real.h"
#include "device/element/element_complex.h"
#include "device/cpu/element_narrow.h"
#include "device/cpu/element_running.h"
#include "device/element/element_special.h"
#endif

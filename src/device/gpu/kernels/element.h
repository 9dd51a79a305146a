/* The functions of the tables' element language for devices: el_<name>_<type>. The formulas are those of the CPU
 * (device/element); here is what the targets' libraries call them. */
#ifndef ELEMENT_H
#define ELEMENT_H
#define EL            INLINE
#define EL_HEAVY      HEAVY
#define EL_SIGNBIT(x) (signbit(x) != 0)

#if defined(__OPENCL_VERSION__) /* one name for both precisions */
#define acosf      acos
#define acoshf     acosh
#define asinf      asin
#define asinhf     asinh
#define atan2f     atan2
#define atanf      atan
#define atanhf     atanh
#define cbrtf      cbrt
#define ceilf      ceil
#define copysignf  copysign
#define cosf       cos
#define coshf      cosh
#define erfcf      erfc
#define erff       erf
#define exp2f      exp2
#define expf       exp
#define expm1f     expm1
#define fabsf      fabs
#define floorf     floor
#define fmaf       fma
#define fmodf      fmod
#define hypotf     hypot
#define lgammaf    lgamma
#define log10f     log10
#define log1pf     log1p
#define log2f      log2
#define logf       log
#define nextafterf nextafter
#define powf       pow
#define rintf      rint
#define sinf       sin
#define sinhf      sinh
#define sqrtf      sqrt
#define tanf       tan
#define tanhf      tanh
#define truncf     trunc
#endif

EL float el_exp_f32(float x) { return expf(x); }
EL double el_exp_f64(double x) { return exp(x); }
EL float el_tanh_f32(float x) { return tanhf(x); }
EL double el_tanh_f64(double x) { return tanh(x); }
EL float el_fmod_f32(float x, float y) { return fmodf(x, y); }
EL double el_fmod_f64(double x, double y) { return fmod(x, y); }
/* The tail is 2 to the power of a polynomial of |x|: to 8e-8, as 1 + erff, in half of its instructions, so that gelu
 * waits for memory alone (H200, 2^26 floats: 128.5 us, with erff 130.5, a copy 128.5). An infinity's tail is 0. */
EL float el_near_ndtr_f32(float x) {
    const float a = fabsf(x);
    float p = -2.772054813e-06f;
    p = fmaf(p, a, 3.862081576e-05f);
    p = fmaf(p, a, -1.825479267e-04f);
    p = fmaf(p, a, -1.458693441e-04f);
    p = fmaf(p, a, 7.075470872e-03f);
    p = fmaf(p, a, -5.250502750e-02f);
    p = fmaf(p, a, -4.592049122e-01f);
    p = fmaf(p, a, -1.151105762e+00f);
    p = fmaf(p, a, -1.0f);
    const float tail = exp2f(p);
    return x > 0 ? 1.0f - tail : tail;
}
EL double el_near_ndtr_f64(double x) { return 0.5 + 0.5 * erf(x * 0.70710678118654752440); }
EL float el_lgamma_f32(float x) { return lgammaf(x); }
EL double el_lgamma_f64(double x) { return lgamma(x); }
#include "element_real.h"
#endif

/* The functions of the tables' element language for the CPU: el_<name>_<type>. Kernels written by opgen call nothing else, so
 * another target needs only its own version of this header.
 * Loops over these vectorise: on x86-64 glibc's libmvec serves the calls declared with TPI_VECTOR. */
#ifndef TPI_ELEMENT_H
#define TPI_ELEMENT_H
#include "base/dtype.h"
#include "device/cpu/vector_math.h"
#include <math.h>
#include <stdlib.h>

/* glibc offers vector versions of these; gcc calls them in simd loops when the declaration says so. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#include <gnu/libc-version.h>
#if __GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 22)
#define TPI_VECTOR(name)                                           \
    double name(double) __attribute__((const, simd("notinbranch"))); \
    float name##f(float) __attribute__((const, simd("notinbranch")));
#define TPI_VECTOR2(name)                                                  \
    double name(double, double) __attribute__((const, simd("notinbranch"))); \
    float name##f(float, float) __attribute__((const, simd("notinbranch")));
TPI_VECTOR(exp) TPI_VECTOR(log) TPI_VECTOR(sin) TPI_VECTOR(cos) TPI_VECTOR2(pow)
#if __GLIBC_MINOR__ >= 35
TPI_VECTOR(tan) TPI_VECTOR(tanh) TPI_VECTOR(sinh) TPI_VECTOR(cosh) TPI_VECTOR(asin) TPI_VECTOR(acos) TPI_VECTOR(atan)
TPI_VECTOR(asinh) TPI_VECTOR(acosh) TPI_VECTOR(atanh) TPI_VECTOR(exp2) TPI_VECTOR(expm1) TPI_VECTOR(log2) TPI_VECTOR(log10)
TPI_VECTOR(log1p) TPI_VECTOR(cbrt) TPI_VECTOR(erf) TPI_VECTOR(erfc) TPI_VECTOR2(atan2) TPI_VECTOR2(hypot)
#endif
#endif
#endif

#define EL static inline __attribute__((unused, always_inline))

/* ---- real functions straight from the C library ---- */
#define EL_LIBM1(name)                                     \
    EL float el_##name##_f32(float x) { return name##f(x); } \
    EL double el_##name##_f64(double x) { return name(x); }
#define EL_LIBM2(name)                                                       \
    EL float el_##name##_f32(float x, float y) { return name##f(x, y); }       \
    EL double el_##name##_f64(double x, double y) { return name(x, y); }
EL float el_exp_f32(float x) { return tpi_exp_f32(x); }
EL double el_exp_f64(double x) { return exp(x); }
EL float el_near_ndtr_f32(float x) { return tpi_near_ndtr_f32(x); } /* faster than ndtr, to 2e-7; NaN may be lost */
EL double el_near_ndtr_f64(double x) { return 0.5 + 0.5 * erf(x * 0.70710678118654752440); }
EL_LIBM1(log) EL_LIBM1(sqrt) EL_LIBM1(sin) EL_LIBM1(cos) EL_LIBM1(tan) EL_LIBM1(sinh) EL_LIBM1(cosh) EL_LIBM1(tanh)
EL_LIBM1(asin) EL_LIBM1(acos) EL_LIBM1(atan) EL_LIBM1(asinh) EL_LIBM1(acosh) EL_LIBM1(atanh) EL_LIBM1(exp2) EL_LIBM1(expm1)
EL_LIBM1(log2) EL_LIBM1(log10) EL_LIBM1(log1p) EL_LIBM1(cbrt) EL_LIBM1(erf) EL_LIBM1(erfc) EL_LIBM1(floor) EL_LIBM1(ceil) EL_LIBM1(trunc)
EL_LIBM2(pow) EL_LIBM2(atan2) EL_LIBM2(hypot) EL_LIBM2(nextafter) EL_LIBM2(copysign)

/* The remainder by exact steps: each takes a whole multiple of y away with one rounding, which is exact as what is left has few digits. A
 * step shrinks a quotient by 2^50, so six serve for every float; those of doubles can be larger than that, which is the C library's case.
 * Without fused multiply-add there is only the C library's long division. */
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
    double q = trunc(x / y), a = fabs(y);
    if (fabs(q) < 0x1p50 && a < INFINITY) {
        double r = copysign(1, x) * fma(-q, y, x); /* the quotient may be one too large */
        return copysign(r < 0 ? r + a : r >= a ? r - a : r, x);
    }
#endif
    return fmod(x, y);
}

/* ---- reals, once per type ---- */
#define EL_REAL(T, s, m)                                                                                              \
    EL T el_rsqrt_##s(T x) { return (T)1 / sqrt##m(x); }                                                              \
    EL T el_reciprocal_##s(T x) { return (T)1 / x; }                                                                  \
    EL T el_sigmoid_##s(T x) { return (T)1 / ((T)1 + el_exp_##s(-x)); }                                                \
    EL T el_round_##s(T x) { return rint##m(x); }                                                                     \
    EL T el_abs_##s(T x) { return fabs##m(x); }                                                                       \
    EL T el_sign_##s(T x) { return x != x ? x : (T)((x > 0) - (x < 0)); }                                             \
    EL T el_sgn_##s(T x) { return el_sign_##s(x); }                                                                   \
    EL uint8_t el_signbit_##s(T x) { return __builtin_signbit(x) != 0; }                                              \
    EL T el_fmax_##s(T x, T y) { return ((y != y) | (x > y)) ? x : y; }                                               \
    EL T el_fmin_##s(T x, T y) { return ((y != y) | (x < y)) ? x : y; }                                               \
    EL T el_max_##s(T x, T y) { /* a machine's maximum is the second one unless the first is larger */                 \
        T larger = x > y ? x : y;                                                                                     \
        return x != x ? x : larger;                                                                                   \
    }                                                                                                                 \
    EL T el_min_##s(T x, T y) {                                                                                       \
        T smaller = x < y ? x : y;                                                                                    \
        return x != x ? x : smaller;                                                                                  \
    }                                                                                                                 \
    EL T el_ldexp_##s(T x, T y) { return x * exp2##m(y); }                                                            \
    EL T el_fma_##s(T x, T y, T z) { return fma##m(x, y, z); }                                                        \
    EL T el_remainder_##s(T x, T y) {                                                                                 \
        T r = el_fmod_##s(x, y);                                                                                          \
        T shifted = r + y;                                                                                            \
        return ((r != 0) & ((r < 0) != (y < 0))) ? shifted : r;                                                       \
    }                                                                                                                 \
    EL T el_floordiv_##s(T x, T y) { /* Python's: consistent with the remainder, exact where a quotient rounds up */  \
        T r = el_fmod_##s(x, y);                                                                                          \
        T q = (x - r) / y;                                                                                            \
        q = ((r != 0) & ((y < 0) != (r < 0))) ? q - 1 : q;                                                            \
        T f = floor##m(q);                                                                                            \
        f = q - f > (T)0.5 ? f + 1 : f;                                                                               \
        T whole = q != 0 ? f : copysign##m((T)0, x / y);                                                              \
        return y == 0 ? x / y : whole;                                                                                \
    }                                                                                                                 \
    EL uint8_t el_isnan_##s(T x) { return x != x; }                                                                   \
    EL uint8_t el_isinf_##s(T x) { return fabs##m(x) == (T)INFINITY; }                                                \
    EL uint8_t el_isfinite_##s(T x) { return fabs##m(x) < (T)INFINITY; }                                              \
    EL T el_conj_##s(T x) { return x; }                                                                               \
    EL T el_real_##s(T x) { return x; }                                                                               \
    EL T el_imag_##s(T x) { (void)x; return 0; }                                                                      \
    EL T el_angle_##s(T x) { return x != x ? x : x < 0 ? (T)3.14159265358979323846 : (T)0; }
EL_REAL(float, f32, f)
EL_REAL(double, f64, )

/* ---- integers: everything wraps, division by zero is caught before the kernel runs ---- */
#define EL_INT(T, U, s)                                                                              \
    EL T el_quotient_##s(T x, T y) { return y == 0 ? 0 : y == -1 ? (T)(0 - (U)x) : x / y; }          \
    EL T el_fmod_##s(T x, T y) { return y == 0 || y == -1 ? 0 : x % y; }                             \
    EL T el_floor_##s(T x) { return x; }                                                             \
    EL T el_ceil_##s(T x) { return x; }                                                              \
    EL T el_trunc_##s(T x) { return x; }                                                             \
    EL T el_round_##s(T x) { return x; }                                                             \
    EL T el_abs_##s(T x) { return x < 0 ? (T)(0 - (U)x) : x; }                                       \
    EL T el_sign_##s(T x) { return (x > 0) - (x < 0); }                                              \
    EL T el_sgn_##s(T x) { return (x > 0) - (x < 0); }                                               \
    EL uint8_t el_signbit_##s(T x) { return x < 0; }                                                 \
    EL T el_fmax_##s(T x, T y) { return x > y ? x : y; }                                             \
    EL T el_fmin_##s(T x, T y) { return x < y ? x : y; }                                             \
    EL T el_max_##s(T x, T y) { return x > y ? x : y; }                                              \
    EL T el_min_##s(T x, T y) { return x < y ? x : y; }                                              \
    EL T el_remainder_##s(T x, T y) {                                                                \
        T r = el_fmod_##s(x, y);                                                                     \
        return r != 0 && ((r < 0) != (y < 0)) ? r + y : r;                                           \
    }                                                                                                \
    EL T el_floordiv_##s(T x, T y) {                                                                 \
        T q = el_quotient_##s(x, y), r = el_fmod_##s(x, y);                                          \
        return r != 0 && ((r < 0) != (y < 0)) ? q - 1 : q;                                           \
    }                                                                                                \
    EL T el_pow_##s(T x, T y) { /* a negative power of a whole number is zero, or one of +-1 */      \
        if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;                               \
        U r = 1, b = (U)x;                                                                           \
        for (U e = (U)y; e; e >>= 1, b *= b)                                                         \
            if (e & 1) r *= b;                                                                       \
        return (T)r;                                                                                 \
    }                                                                                                \
    EL T el_gcd_##s(T x, T y) {                                                                      \
        U a = (U)el_abs_##s(x), b = (U)el_abs_##s(y);                                                \
        while (b) {                                                                                  \
            U r = a % b;                                                                             \
            a = b, b = r;                                                                            \
        }                                                                                            \
        return (T)a;                                                                                 \
    }                                                                                                \
    EL T el_lcm_##s(T x, T y) {                                                                      \
        T g = el_gcd_##s(x, y);                                                                      \
        return g == 0 ? 0 : el_abs_##s((T)((U)(x / g) * (U)y));                                      \
    }                                                                                                \
    EL T el_shl_##s(T x, T y) { return y < 0 || y >= (T)(8 * sizeof(T)) ? 0 : (T)((U)x << y); }      \
    EL T el_shr_##s(T x, T y) { return y < 0 || y >= (T)(8 * sizeof(T)) ? (x < 0 ? -1 : 0) : x >> y; } \
    EL uint8_t el_isnan_##s(T x) { (void)x; return 0; }                                              \
    EL uint8_t el_isinf_##s(T x) { (void)x; return 0; }                                              \
    EL uint8_t el_isfinite_##s(T x) { (void)x; return 1; }                                           \
    EL T el_conj_##s(T x) { return x; }                                                              \
    EL T el_real_##s(T x) { return x; }                                                              \
    EL T el_imag_##s(T x) { (void)x; return 0; }                                                     \
    EL T el_angle_##s(T x) { return x < 0 ? 3 : 0; }
EL_INT(int32_t, uint32_t, i32)
EL_INT(int64_t, uint64_t, i64)

#include "device/cpu/element_complex.h"
#include "device/cpu/element_running.h"
#include "device/cpu/element_special.h"
#endif

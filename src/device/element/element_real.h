/* Real and integer functions of the element language, one text for every target: CPUs compile it as C, GPUs as CUDA C,
 * HIP or OpenCL C. Whoever includes it has defined EL (how a function in line is declared), EL_SIGNBIT, and those
 * functions in which targets differ: el_exp_*, el_tanh_*, el_fmod_*. Names end in f as C's do for float; OpenCL's
 * dialect renames them. */
#ifndef TPI_ELEMENT_REAL_H
#define TPI_ELEMENT_REAL_H

/* ---- straight from the target's library ---- */
#define EL_LIBM1(name)                                       \
    EL float el_##name##_f32(float x) { return name##f(x); } \
    EL double el_##name##_f64(double x) { return name(x); }
#define EL_LIBM2(name)                                                   \
    EL float el_##name##_f32(float x, float y) { return name##f(x, y); } \
    EL double el_##name##_f64(double x, double y) { return name(x, y); }
EL_LIBM1(log)
EL_LIBM1(sqrt)
EL_LIBM1(sin)
EL_LIBM1(cos)
EL_LIBM1(tan)
EL_LIBM1(sinh)
EL_LIBM1(cosh)
EL_LIBM1(asin)
EL_LIBM1(acos)
EL_LIBM1(atan)
EL_LIBM1(asinh)
EL_LIBM1(acosh)
EL_LIBM1(atanh)
EL_LIBM1(exp2)
EL_LIBM1(expm1)
EL_LIBM1(log2)
EL_LIBM1(log10)
EL_LIBM1(log1p)
EL_LIBM1(cbrt)
EL_LIBM1(erf)
EL_LIBM1(erfc)
EL_LIBM1(floor)
EL_LIBM1(ceil)
EL_LIBM1(trunc)
EL_LIBM2(pow)
EL_LIBM2(atan2)
EL_LIBM2(hypot)
EL_LIBM2(nextafter)
EL_LIBM2(copysign)

/* ---- reals, once per type ---- */
#define EL_REAL(T, s, m)                                                                                             \
    EL T el_rsqrt_##s(T x) { return (T)1 / sqrt##m(x); }                                                             \
    EL T el_reciprocal_##s(T x) { return (T)1 / x; }                                                                 \
    EL T el_phase_##s(T x) { return x == x ? (T)1 : x; }                                                             \
    EL T el_sigmoid_##s(T x) { return (T)1 / ((T)1 + el_exp_##s(-x)); }                                              \
    EL T el_round_##s(T x) { return rint##m(x); }                                                                    \
    EL T el_abs_##s(T x) { return fabs##m(x); }                                                                      \
    EL T el_sign_##s(T x) { return (T)((x > 0) - (x < 0)); }                                                         \
    EL T el_sgn_##s(T x) { return el_sign_##s(x); }                                                                  \
    EL uint8_t el_signbit_##s(T x) { return EL_SIGNBIT(x); }                                                         \
    EL T el_fmax_##s(T x, T y) { return ((y != y) | (x > y)) ? x : y; }                                              \
    EL T el_fmin_##s(T x, T y) { return ((y != y) | (x < y)) ? x : y; }                                              \
    EL T el_max_##s(T x, T y) { /* a machine's maximum is the second one unless the first is larger */               \
        T larger = x > y ? x : y;                                                                                    \
        return x != x ? x : larger;                                                                                  \
    }                                                                                                                \
    EL T el_min_##s(T x, T y) {                                                                                      \
        T smaller = x < y ? x : y;                                                                                   \
        return x != x ? x : smaller;                                                                                 \
    }                                                                                                                \
    EL T el_ldexp_##s(T x, T y) { return x * exp2##m(y); }                                                           \
    EL T el_fma_##s(T x, T y, T z) { return fma##m(x, y, z); }                                                       \
    /* then, where r is not 0 and has not the sign of y. By orders alone: compilers branch on what is equal. */      \
    EL T el_apart_##s(T r, T y, T then, T others) {                                                                  \
        T above = y < 0 ? then : others, below = y < 0 ? others : then;                                              \
        T either = r < 0 ? below : above;                                                                            \
        return fabs##m(r) <= 0 ? others : either;                                                                    \
    }                                                                                                                \
    EL T el_remainder_##s(T x, T y) {                                                                                \
        T r = el_fmod_##s(x, y);                                                                                     \
        return r + el_apart_##s(r, y, y, (T)-0.0);                                                                   \
    }                                                                                                                \
    EL T el_floordiv_##s(T x, T y) { /* Python's: consistent with the remainder, exact where a quotient rounds up */ \
        T r = el_fmod_##s(x, y);                                                                                     \
        T q = (x - r) / y;                                                                                           \
        q -= el_apart_##s(r, y, (T)1, (T)0);                                                                         \
        T f = floor##m(q);                                                                                           \
        f += q - f > (T)0.5 ? (T)1 : (T)0;                                                                           \
        T whole = copysign##m(f, x / y); /* for the sign of a zero */                                                \
        return y == 0 ? x / y : whole;                                                                               \
    }                                                                                                                \
    EL uint8_t el_isnan_##s(T x) { return x != x; }                                                                  \
    EL uint8_t el_isinf_##s(T x) { return fabs##m(x) == (T)INFINITY; }                                               \
    EL uint8_t el_isfinite_##s(T x) { return fabs##m(x) < (T)INFINITY; }                                             \
    EL T el_conj_##s(T x) { return x; }                                                                              \
    EL T el_real_##s(T x) { return x; }                                                                              \
    EL T el_imag_##s(T x) {                                                                                          \
        (void)x;                                                                                                     \
        return 0;                                                                                                    \
    }                                                                                                                \
    EL T el_angle_##s(T x) { return x != x ? x : x < 0 ? (T)3.14159265358979323846 : (T)0; }
EL_REAL(float, f32, f)
EL_REAL(double, f64, )

/* ---- integers: everything wraps, division by zero is caught before the kernel runs ---- */
#define EL_INT(T, U, s)                                                                                \
    EL T el_quotient_##s(T x, T y) { return y == 0 ? 0 : y == -1 ? (T)(0 - (U)x) : x / y; }            \
    EL T el_fmod_##s(T x, T y) { return y == 0 || y == -1 ? 0 : x % y; }                               \
    EL T el_floor_##s(T x) { return x; }                                                               \
    EL T el_ceil_##s(T x) { return x; }                                                                \
    EL T el_trunc_##s(T x) { return x; }                                                               \
    EL T el_round_##s(T x) { return x; }                                                               \
    EL T el_abs_##s(T x) { return x < 0 ? (T)(0 - (U)x) : x; }                                         \
    EL T el_sign_##s(T x) { return (x > 0) - (x < 0); }                                                \
    EL T el_sgn_##s(T x) { return (x > 0) - (x < 0); }                                                 \
    EL uint8_t el_signbit_##s(T x) { return x < 0; }                                                   \
    EL T el_fmax_##s(T x, T y) { return x > y ? x : y; }                                               \
    EL T el_fmin_##s(T x, T y) { return x < y ? x : y; }                                               \
    EL T el_max_##s(T x, T y) { return x > y ? x : y; }                                                \
    EL T el_min_##s(T x, T y) { return x < y ? x : y; }                                                \
    EL T el_remainder_##s(T x, T y) {                                                                  \
        T r = el_fmod_##s(x, y);                                                                       \
        return r != 0 && ((r < 0) != (y < 0)) ? r + y : r;                                             \
    }                                                                                                  \
    EL T el_floordiv_##s(T x, T y) { /* one division */                                                \
        T d = ((y == 0) | (y == -1)) ? 1 : y, q = x / d, r = (T)(x - q * d);                           \
        T down = ((r != 0) & ((r < 0) != (y < 0))) ? q - 1 : q;                                        \
        return y == 0 ? 0 : y == -1 ? (T)(0 - (U)x) : down;                                            \
    }                                                                                                  \
    EL T el_pow_##s(T x, T y) { /* a negative power of a whole number is zero, or one of +-1 */        \
        if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;                                 \
        U r = 1, b = (U)x;                                                                             \
        for (U e = (U)y; e; e >>= 1, b *= b)                                                           \
            if (e & 1) r *= b;                                                                         \
        return (T)r;                                                                                   \
    }                                                                                                  \
    EL T el_gcd_##s(T x, T y) {                                                                        \
        U a = (U)el_abs_##s(x), b = (U)el_abs_##s(y);                                                  \
        while (b) {                                                                                    \
            U r = a % b;                                                                               \
            a = b, b = r;                                                                              \
        }                                                                                              \
        return (T)a;                                                                                   \
    }                                                                                                  \
    EL T el_lcm_##s(T x, T y) {                                                                        \
        T g = el_gcd_##s(x, y);                                                                        \
        return g == 0 ? 0 : el_abs_##s((T)((U)(x / g) * (U)y));                                        \
    }                                                                                                  \
    EL T el_shl_##s(T x, T y) { return y < 0 || y >= (T)(8 * sizeof(T)) ? 0 : (T)((U)x << y); }        \
    EL T el_shr_##s(T x, T y) { return y < 0 || y >= (T)(8 * sizeof(T)) ? (x < 0 ? -1 : 0) : x >> y; } \
    EL uint8_t el_isnan_##s(T x) {                                                                     \
        (void)x;                                                                                       \
        return 0;                                                                                      \
    }                                                                                                  \
    EL uint8_t el_isinf_##s(T x) {                                                                     \
        (void)x;                                                                                       \
        return 0;                                                                                      \
    }                                                                                                  \
    EL uint8_t el_isfinite_##s(T x) {                                                                  \
        (void)x;                                                                                       \
        return 1;                                                                                      \
    }                                                                                                  \
    EL T el_conj_##s(T x) { return x; }                                                                \
    EL T el_real_##s(T x) { return x; }                                                                \
    EL T el_imag_##s(T x) {                                                                            \
        (void)x;                                                                                       \
        return 0;                                                                                      \
    }                                                                                                  \
    EL T el_angle_##s(T x) { return x < 0 ? 3 : 0; }
EL_INT(int32_t, uint32_t, i32)
EL_INT(int64_t, uint64_t, i64)
#endif

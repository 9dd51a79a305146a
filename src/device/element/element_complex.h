/* Complex arithmetic and functions of the element language, from the real ones: plain formulas that vectorise, with the
 * branch cuts and signs that PyTorch (C99) has. One text for every target, included after element_real.h. */
#ifndef TPI_ELEMENT_COMPLEX_H
#define TPI_ELEMENT_COMPLEX_H

#define EL_COMPLEX(C, T, s, r, m)                                                                               \
    EL C el_make_##s(T re, T im) {                                                                              \
        C made;                                                                                                 \
        made.re = re, made.im = im;                                                                             \
        return made;                                                                                            \
    }                                                                                                           \
    EL C el_add_##s(C a, C b) { return el_make_##s(a.re + b.re, a.im + b.im); }                                 \
    EL C el_sub_##s(C a, C b) { return el_make_##s(a.re - b.re, a.im - b.im); }                                 \
    EL C el_neg_##s(C a) { return el_make_##s(-a.re, -a.im); }                                                  \
    EL C el_mul_##s(C a, C b) { return el_make_##s(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }     \
    EL C el_scale_##s(C a, T k) { return el_make_##s(a.re * k, a.im * k); }                                     \
    EL C el_div_##s(C a, C b) { /* Smith's; by zero both parts are divided by 0 */                              \
        T p = fabs##m(b.re), q = fabs##m(b.im);                                                                 \
        uint8_t turned = !(p >= q), none = (p == 0) & (q == 0);                                                 \
        T large = none ? p : turned ? b.im : b.re, ratio = none ? (T)0 : (turned ? b.re : b.im) / large;        \
        T k = (T)1 / (large + (turned ? b.re : b.im) * ratio);                                                  \
        T re = turned ? a.re * ratio + a.im : a.re + a.im * ratio;                                              \
        T im = turned ? a.im * ratio - a.re : a.im - a.re * ratio;                                              \
        return el_make_##s((none ? a.re : re) * k, (none ? a.im : im) * k);                                     \
    }                                                                                                           \
    EL C el_share_##s(C a, T k) { return el_make_##s(a.re / k, a.im / k); }                                     \
    EL uint8_t el_eq_##s(C a, C b) { return (a.re == b.re) & (a.im == b.im); }                                  \
    EL uint8_t el_iszero_##s(C a) { return (a.re == 0) & (a.im == 0); }                                         \
    EL uint8_t el_nonzero_##s(C a) { return (a.re != 0) | (a.im != 0); }                                        \
    EL C el_conj_##s(C a) { return el_make_##s(a.re, -a.im); }                                                  \
    EL T el_real_##s(C a) { return a.re; }                                                                      \
    EL T el_imag_##s(C a) { return a.im; }                                                                      \
    EL T el_abs_##s(C a) { return hypot##m(a.re, a.im); }                                                       \
    EL T el_angle_##s(C a) { return atan2##m(a.im, a.re); }                                                     \
    EL C el_sgn_##s(C a) {                                                                                      \
        T n = el_abs_##s(a), k = (T)1 / n;                                                                      \
        return n == 0 ? el_make_##s(0, 0) : el_make_##s(a.re * k, a.im * k);                                    \
    }                                                                                                           \
    EL uint8_t el_isnan_##s(C a) { return (a.re != a.re) | (a.im != a.im); }                                    \
    EL uint8_t el_isinf_##s(C a) { return el_isinf_##r(a.re) | el_isinf_##r(a.im); }                            \
    EL uint8_t el_isfinite_##s(C a) { return el_isfinite_##r(a.re) & el_isfinite_##r(a.im); }                   \
    EL C el_exp_##s(C a) { /* an infinite real part settles the size, whatever the angle is */                  \
        T angle = (el_isinf_##r(a.re) & !el_isfinite_##r(a.im)) ? (T)0 : a.im;                                  \
        T e = exp##m(a.re), c = cos##m(angle), n = sin##m(angle);                                               \
        return a.im == 0 ? el_make_##s(e, a.im) : el_make_##s(e * c, e * n);                                    \
    }                                                                                                           \
    EL C el_phase_##s(C a) { return el_make_##s(cos##m(a.im), sin##m(a.im)); }                                  \
    EL C el_log_##s(C a) { return el_make_##s(log##m(hypot##m(a.re, a.im)), atan2##m(a.im, a.re)); }            \
    EL C el_sqrt_##s(C a) { /* twice that of a quarter, whose sums do not overflow */                           \
        T p = fabs##m(a.re) / 4, q = fabs##m(a.im) / 4, root = sqrt##m((hypot##m(p, q) + p) / 2);               \
        T big = el_isinf_##r(q) ? q : root * 2, small = el_isinf_##r(q) ? q : root == 0 ? (T)0 : q / root;      \
        T re = a.re >= 0 ? big : small, im = a.re >= 0 ? small : big;                                           \
        return el_make_##s(re, copysign##m(im, a.im));                                                          \
    }                                                                                                           \
    EL C el_reciprocal_##s(C a) { return el_div_##s(el_make_##s(1, 0), a); }                                    \
    EL C el_rsqrt_##s(C a) { return el_reciprocal_##s(el_sqrt_##s(a)); }                                        \
    EL C el_sinh_##s(C a) { return el_make_##s(sinh##m(a.re) * cos##m(a.im), cosh##m(a.re) * sin##m(a.im)); }   \
    EL C el_cosh_##s(C a) { return el_make_##s(cosh##m(a.re) * cos##m(a.im), sinh##m(a.re) * sin##m(a.im)); }   \
    EL C el_tanh_##s(C a) {                                                                                     \
        T d = cosh##m(2 * a.re) + cos##m(2 * a.im), far = fabs##m(a.re) > 20 ? (T)1 : (T)0;                     \
        T re = far != 0 ? copysign##m((T)1, a.re) : sinh##m(2 * a.re) / d;                                      \
        return el_make_##s(re, far != 0 ? copysign##m((T)0, a.im) : sin##m(2 * a.im) / d);                      \
    }                                                                                                           \
    EL C el_turn_##s(C a) { return el_make_##s(-a.im, a.re); } /* times i */                                    \
    EL C el_back_##s(C a) { return el_make_##s(a.im, -a.re); } /* times -i */                                   \
    EL C el_sin_##s(C a) { return el_back_##s(el_sinh_##s(el_turn_##s(a))); }                                   \
    EL C el_cos_##s(C a) { return el_cosh_##s(el_turn_##s(a)); }                                                \
    EL C el_tan_##s(C a) { return el_back_##s(el_tanh_##s(el_turn_##s(a))); }                                   \
    EL C el_atanh_far_##s(C a, T n) { /* |a| = n so large that atanh(a) is 1 / a and a quarter turn */          \
        T re = el_isinf_##r(n) ? copysign##m((T)0, a.re) : a.re / n / n;                                        \
        return el_make_##s(re, copysign##m((T)1.57079632679489661923, a.im));                                   \
    }                                                                                                           \
    EL C el_atanh_##s(C a) {                                                                                    \
        T n = hypot##m(a.re, a.im);                                                                             \
        T p = (1 + a.re) * (1 + a.re) + a.im * a.im, q = (1 - a.re) * (1 - a.re) + a.im * a.im;                 \
        C near = el_make_##s(log##m(p / q) / 4, atan2##m(2 * a.im, (1 - a.re) * (1 + a.re) - a.im * a.im) / 2); \
        return n > (T)1e8 ? el_atanh_far_##s(a, n) : near;                                                      \
    }                                                                                                           \
    EL C el_atan_##s(C a) { return el_back_##s(el_atanh_##s(el_turn_##s(a))); }                                 \
    EL C el_asin_##s(C a) { /* by the distances to the branch points at -1 and 1 */                             \
        C p = el_sqrt_##s(el_make_##s(1 - a.re, -a.im)), q = el_sqrt_##s(el_make_##s(1 + a.re, a.im));          \
        return el_make_##s(atan2##m(a.re, p.re * q.re - p.im * q.im), asinh##m(p.re * q.im - p.im * q.re));     \
    }                                                                                                           \
    EL C el_acos_##s(C a) {                                                                                     \
        C p = el_sqrt_##s(el_make_##s(1 - a.re, -a.im)), q = el_sqrt_##s(el_make_##s(1 + a.re, a.im));          \
        return el_make_##s(2 * atan2##m(p.re, q.re), asinh##m(q.re * p.im - q.im * p.re));                      \
    }                                                                                                           \
    EL C el_asinh_##s(C a) { return el_back_##s(el_asin_##s(el_turn_##s(a))); }                                 \
    EL C el_acosh_##s(C a) {                                                                                    \
        C p = el_sqrt_##s(el_make_##s(a.re - 1, a.im)), q = el_sqrt_##s(el_make_##s(a.re + 1, a.im));           \
        return el_make_##s(asinh##m(p.re * q.re + p.im * q.im), 2 * atan2##m(p.im, q.re));                      \
    }                                                                                                           \
    EL C el_pow_##s(C a, C b) {                                                                                 \
        C l = el_exp_##s(el_mul_##s(b, el_log_##s(a)));                                                         \
        C plain = el_iszero_##s(a) && b.re >= 0 ? el_make_##s(0, 0) : ((b.re == 1) & (b.im == 0)) ? a : l;      \
        return el_iszero_##s(b) ? el_make_##s(1, 0) : plain;                                                    \
    }                                                                                                           \
    EL C el_exp2_##s(C a) { return el_exp_##s(el_scale_##s(a, (T)0.693147180559945309417)); }                   \
    EL C el_log2_##s(C a) { return el_scale_##s(el_log_##s(a), (T)1.44269504088896340736); }                    \
    EL C el_log10_##s(C a) { return el_scale_##s(el_log_##s(a), (T)0.434294481903251827651); }                  \
    EL C el_log1p_##s(C a) {                                                                                    \
        T n = a.re * (2 + a.re) + a.im * a.im; /* |1 + a|^2 - 1 without cancelling */                           \
        return el_make_##s(log1p##m(n) / 2, atan2##m(a.im, 1 + a.re));                                          \
    }                                                                                                           \
    EL C el_expm1_##s(C a) {                                                                                    \
        T h = sin##m(a.im / 2), e = expm1##m(a.re), c = cos##m(a.im);                                           \
        return el_make_##s(e * c - 2 * h * h, (e + 1) * sin##m(a.im));                                          \
    }                                                                                                           \
    EL C el_sigmoid_##s(C a) {                                                                                  \
        return el_div_##s(el_make_##s(1, 0), el_add_##s(el_make_##s(1, 0), el_exp_##s(el_neg_##s(a))));         \
    }
EL_COMPLEX(tpi_c64, float, c64, f32, f)
EL_COMPLEX(tpi_c128, double, c128, f64, )
EL tpi_c64 el_c64_of_c64(tpi_c64 a) { return a; }
EL tpi_c64 el_c64_of_c128(tpi_c128 a) { return el_make_c64((float)a.re, (float)a.im); }
EL tpi_c128 el_c128_of_c64(tpi_c64 a) { return el_make_c128(a.re, a.im); }
EL tpi_c128 el_c128_of_c128(tpi_c128 a) { return a; }
#endif

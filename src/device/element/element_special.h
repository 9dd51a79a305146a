/* Special functions of the element language: by series where they converge fast, by asymptotic expansions where those
 * are exact to double precision, and between the two by an integral (trapezoidal sums of smooth, fast decaying
 * functions are exact to double precision) or by Newton's method. Everything is computed in double; float results are
 * rounded once. One text for every target, included after element_real.h; the target defines EL_HEAVY (a function that
 * is not put in line), el_lgamma_* and el_bessel_j0, j1, y0 and y1_f64. */
#ifndef TPI_ELEMENT_SPECIAL_H
#define TPI_ELEMENT_SPECIAL_H
#define EL_PI      3.14159265358979323846
#define EL_SQRT_PI 1.77245385090551602730
#define EL_SQRT2   1.41421356237309504880
#define EL_EULER   0.57721566490153286061
#define EL_FLOAT1(name) \
    EL float el_##name##_f32(float x) { return (float)el_##name##_f64((double)x); }
#define EL_FLOAT2(name) \
    EL float el_##name##_f32(float x, float y) { return (float)el_##name##_f64((double)x, (double)y); }

/* ---- Gamma and zeta ---- */
/* Upwards by the recurrence until the asymptotic series holds. */
EL_HEAVY double el_digamma_f64(double x) {
    double r = 0;
    if (x == 0) return copysign((double)INFINITY, -x);
    if (x < 0) {
        if (x == floor(x)) return NAN;
        r = -EL_PI /
            tan(EL_PI * (x - rint(x))); /* reflection; what is left of x is exact, however near a whole number */
        x = 1 - x;
    }
    for (; x < 10; x += 1) r -= 1 / x;
    double y = 1 / (x * x);
    double series =
        y * (1.0 / 12 -
             y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y / 12))))));
    return r + log(x) - 0.5 / x - series;
}
/* For float results, without branches, so that loops over it vectorise. Below 6 the recurrence takes six steps at once:
 * the sum of 1 / (y + k) over k = 0 ... 5 is one fraction in t = y (y + 5). */
EL float el_digamma_f32(float x) {
    double z = x, f = z - rint(z), y = z < 0 ? 1 - z : z, t = y * (y + 5);
    double steps = y < 6 ? (2 * y + 5) * (3 * t * t + 20 * t + 24) / (t * (t + 4) * (t + 6)) : 0;
    double w = y < 6 ? y + 6 : y, r = 1 / (w * w);
    double series =
        r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760))))));
    double right = log(w) - 0.5 / w - series - steps;
    double left = right - EL_PI / tan(EL_PI * f);
    double value = z < 0 ? left : right;
    value = ((z < 0) & (f == 0)) ? (double)NAN : value;
    return (float)(z == 0 ? copysign((double)INFINITY, -z) : value);
}

/* The Hurwitz zeta function for s > 1: a direct sum, then Euler and Maclaurin. */
EL_HEAVY double el_zeta_sum(double s, double q) {
    const double b[10] = {1.0 / 12,
                          -1.0 / 720,
                          1.0 / 30240,
                          -1.0 / 1209600,
                          1.0 / 47900160,
                          -691.0 / 1307674368000.0,
                          1.0 / 74724249600.0,
                          -3617.0 / 10670622842880000.0,
                          43867.0 / 5109094217170944000.0,
                          -174611.0 / 802857662698291200000.0};
    double sum = 0;
    for (; q < 12; q += 1) sum += pow(q, -s);
    double p = pow(q, -s), term = s * p / q;
    sum += p * q / (s - 1) + 0.5 * p;
    for (int k = 0; k < 10; k++) {
        sum += b[k] * term;
        term *= (s + 2 * k + 1) * (s + 2 * k + 2) / (q * q);
    }
    return sum;
}
EL_HEAVY double el_zeta_f64(double s, double q) {
    if (s == 1) return INFINITY;
    if (s < 1) return NAN;
    if (q <= 0) {
        if (q == floor(q)) return INFINITY;
        if (s != floor(s)) return NAN;
    }
    if (q >= -1000) return el_zeta_sum(s, q);
    /* The terms below zero, taken from their other end: the sum would have as many as q. */
    double above = q - floor(q), sign = fmod(s, 2.0) == 0 ? 1 : -1;
    return sign * (el_zeta_sum(s, 1 - above) - el_zeta_sum(s, 1 - q)) + el_zeta_sum(s, above);
}
EL_FLOAT2(zeta)

/* (-1)^(n+1) n! zeta(n + 1, x) */
EL double el_polygamma_f64(double n, double x) {
    if (n == 0) return el_digamma_f64(x);
    double sign = fmod(n, 2.0) == 0 ? -1 : 1;
    return sign * tgamma(n + 1) * el_zeta_f64(n + 1, x);
}
/* The derivative of digamma for float results, without branches, in the same steps as el_digamma_f32: below 6 the sum
 * of 1 / (y + k)^2 over k = 0 ... 5, by pairs whose products are t, t + 4 and t + 6. */
EL float el_trigamma_f32(float x) {
    double z = x, f = z - rint(z), y = z < 0 ? 1 - z : z, t = y * (y + 5), square = (2 * y + 5) * (2 * y + 5);
    double first = 1 / t, second = 1 / (t + 4), third = 1 / (t + 6);
    double sum = (square - 2 * t) * first * first + (square - 2 * (t + 4)) * second * second +
                 (square - 2 * (t + 6)) * third * third;
    double steps = y < 6 ? sum : 0, w = y < 6 ? y + 6 : y, r = 1 / w, s = r * r;
    double series =
        s * (1.0 / 6 - s * (1.0 / 30 - s * (1.0 / 42 - s * (1.0 / 30 - s * (5.0 / 66 - s * (691.0 / 2730))))));
    double right = r + 0.5 * s + r * series + steps;
    double sine = sin(EL_PI * f), left = EL_PI * EL_PI / (sine * sine) - right;
    double value = z < 0 ? left : right;
    return (float)((z <= 0) & ((f == 0) | (z < -3.4e38)) ? (double)INFINITY : value);
}
EL float el_polygamma_f32(float n, float x) {
    return n == 1 ? el_trigamma_f32(x) : (float)el_polygamma_f64((double)n, (double)x);
}

/* The incomplete gamma functions: P by its series up to x = a + 1, Q by its continued fraction beyond. */
EL double el_gamma_front(double a, double x) { return exp(a * log(x) - x - el_lgamma_f64(a)); }
EL double el_gamma_series(double a, double x) {
    double term = 1 / a, sum = term;
    for (double k = a + 1; fabs(term) > 1e-17 * fabs(sum) && k < a + 100000; k += 1) sum += term *= x / k;
    return sum * el_gamma_front(a, x);
}
EL double el_gamma_fraction(double a, double x) { /* Lentz */
    const double tiny = 1e-300;
    double b = x + 1 - a, c = 1 / tiny, d = 1 / b, f = d;
    for (int i = 1; i < 100000; i++) {
        double n = -i * (i - a);
        b += 2;
        d = n * d + b;
        d = fabs(d) < tiny ? tiny : d;
        c = b + n / c;
        c = fabs(c) < tiny ? tiny : c;
        d = 1 / d;
        f *= d * c;
        if (fabs(d * c - 1) < 1e-16) break;
    }
    return f * el_gamma_front(a, x);
}
EL_HEAVY double el_igamma_f64(double a, double x) {
    if (!(x >= 0) || !(a >= 0)) return NAN;
    if (a == 0) return x > 0 ? 1 : NAN;
    if (x == 0) return 0;
    if (isinf(a)) return isinf(x) ? NAN : 0;
    if (isinf(x)) return 1;
    return x < a + 1 ? el_gamma_series(a, x) : 1 - el_gamma_fraction(a, x);
}
EL_HEAVY double el_igammac_f64(double a, double x) {
    if (!(x >= 0) || !(a >= 0)) return NAN;
    if (a == 0) return x > 0 ? 0 : NAN;
    if (x == 0) return 1;
    if (isinf(a)) return isinf(x) ? NAN : 1;
    if (isinf(x)) return 0;
    return x < a + 1 ? 1 - el_gamma_series(a, x) : el_gamma_fraction(a, x);
}
EL_FLOAT2(igamma)
EL_FLOAT2(igammac)

/* ---- The error function's relatives ---- */
/* exp(x^2) erfc(x): the square is kept in two parts so that its exponential loses nothing; far out the asymptotic
 * series. */
EL_HEAVY double el_erfcx_f64(double x) {
    double s = x * x, rest = fma(x, x, -s);
    if (x < 25) return x < -26.7 ? INFINITY : exp(s) * (1 + rest) * erfc(x);
    double y = 1 / s;
    return (1 - y * 0.5 * (1 - y * 1.5 * (1 - y * 2.5 * (1 - y * 3.5)))) / (x * EL_SQRT_PI);
}
EL double el_log_ndtr_f64(double x) {
    double y = x / EL_SQRT2;
    return x < -1 ? log(el_erfcx_f64(-y) / 2) - y * y : log1p(-erfc(y) / 2);
}
EL double el_ndtr_f64(double x) { return 0.5 * erfc(-x / EL_SQRT2); }

/* The inverse of the error function over its argument y, as polynomials in w = -log(1 - y^2): one up to w = 5, one in
 * sqrt(w) from there to 17. Fitted for this library to 2e-8, which is all that float can hold. */
#define EL_ERFINV(T, s)                                                                                 \
    EL T el_erfinv_low_##s(T t) {                                                                       \
        T r = (T)-8.791056544e-09;                                                                      \
        r = r * t + (T)2.323264413e-08, r = r * t + (T)4.661706647e-07, r = r * t - (T)3.462704756e-06, \
        r = r * t - (T)4.963347857e-06;                                                                 \
        r = r * t + (T)0.0002183444394, r = r * t - (T)0.001252741878, r = r * t - (T)0.004177386781,   \
        r = r * t + (T)0.2466402862;                                                                    \
        return r * t + (T)1.501409359;                                                                  \
    }                                                                                                   \
    EL T el_erfinv_high_##s(T t) {                                                                      \
        T r = (T)9.850038939e-05;                                                                       \
        r = r * t - (T)9.773177341e-05, r = r * t - (T)0.0003720480479, r = r * t + (T)0.001109611522,  \
        r = r * t - (T)0.001871224892;                                                                  \
        r = r * t + (T)0.002751580675, r = r * t - (T)0.004089530041, r = r * t + (T)0.005749324167,    \
        r = r * t + (T)1.004903893;                                                                     \
        return r * t + (T)3.051757052;                                                                  \
    }
EL_ERFINV(float, f32)
EL_ERFINV(double, f64)
EL float el_erfinv_f32(float y) {
    float w = -logf((1 - y) * (1 + y)), low = el_erfinv_low_f32(w - 2.5f),
          high = el_erfinv_high_f32(sqrtf(w) - 3.218033988749895f);
    return y * (w < 5 ? low : high);
}
/* x >= 0 with erf(x) = y and erfc(x) = q: the fit and a step of Halley's, or far out Newton's method on log(erfc). */
EL_HEAVY double el_inverse_erf(double y, double q) {
    double w = -log(q * (1 + y));
    if (w <= 16) {
        double x = y * (w < 5 ? el_erfinv_low_f64(w - 2.5) : el_erfinv_high_f64(sqrt(w) - 3.218033988749895));
        double u = (y < 0.5 ? erf(x) - y : q - erfc(x)) * (EL_SQRT_PI / 2) * exp(x * x);
        return x - u / (1 + x * u);
    }
    double l = -log(q), x = sqrt(l);
    for (int i = 0; i < 2; i++) x = sqrt(l - log(x * EL_SQRT_PI));
    for (int i = 0; i < 3; i++) {
        double scaled = el_erfcx_f64(x);
        x += (log(scaled) - x * x + l) * scaled * (EL_SQRT_PI / 2);
    }
    return x;
}
EL double el_erfinv_f64(double y) {
    double a = fabs(y);
    if (!(a <= 1)) return NAN;
    return copysign(a == 1 ? (double)INFINITY : el_inverse_erf(a, 1 - a), y);
}
EL double el_ndtri_f64(double p) {
    if (!(p >= 0 && p <= 1)) return NAN;
    if (p == 0 || p == 1) return p == 0 ? -INFINITY : INFINITY;
    return p <= 0.5 ? -EL_SQRT2 * el_inverse_erf(1 - 2 * p, 2 * p) : EL_SQRT2 * el_inverse_erf(2 * p - 1, 2 * (1 - p));
}
EL_FLOAT1(erfcx)
EL_FLOAT1(log_ndtr)
EL_FLOAT1(ndtr)
EL_FLOAT1(ndtri)

/* ---- Bessel functions ---- */
EL_FLOAT1(bessel_j0)
EL_FLOAT1(bessel_j1)
EL_FLOAT1(bessel_y0)
EL_FLOAT1(bessel_y1)

/* 1 + sign (4 v^2 - 1) / (8 x) + (4 v^2 - 1)(4 v^2 - 9) / (2! (8 x)^2) + ..., exact to double precision from x = 18 on;
 * sign -1 for I, 1 for K. */
EL double el_bessel_tail(double order, double x, double sign) {
    double term = 1, sum = 1;
    for (int k = 1; k < 30; k++) {
        double odd = 2 * k - 1, next = term * sign * (4 * order * order - odd * odd) / (8 * k * x);
        if (fabs(next) >= fabs(term) || fabs(next) < 1e-17) break;
        sum += term = next;
    }
    return sum;
}
/* exp(-x) I_order(x) for x >= 0, order 0 or 1. */
EL_HEAVY double el_bessel_ie(int order, double x) {
    if (x > 20) return isinf(x) ? 0 : el_bessel_tail(order, x, -1) / sqrt(2 * EL_PI * x);
    double q = x * x / 4, term = order ? x / 2 : 1, sum = term;
    for (int k = 1; term > 1e-17 * sum; k++) sum += term *= q / ((double)k * (k + order));
    return sum * exp(-x);
}
EL double el_i0e_f64(double x) { return el_bessel_ie(0, fabs(x)); }
EL double el_i1e_f64(double x) { return x < 0 ? -el_bessel_ie(1, -x) : el_bessel_ie(1, x); }
EL double el_i0_f64(double x) { return el_bessel_ie(0, fabs(x)) * exp(fabs(x)); }
EL double el_i1_f64(double x) { return el_i1e_f64(x) * exp(fabs(x)); }
/* Order 0 and 1 for float results: the power series in x^2 / 4 up to x = 8, a polynomial in 1 / x beyond it, both to
 * 2e-9. Both are computed and one is taken, so that loops over them vectorise. */
EL double el_bessel_i0_low(double q) {
    double p = 2.2843403570804838e-27;
    p = 5.8479113141260385e-25 + q * p;
    p = 1.3157800456783586e-22 + q * p;
    p = 2.5789288895295828e-20 + q * p;
    p = 4.358389823304995e-18 + q * p;
    p = 6.276081345559193e-16 + q * p;
    p = 7.594058428126623e-14 + q * p;
    p = 7.594058428126624e-12 + q * p;
    p = 6.151187326782565e-10 + q * p;
    p = 3.936759889140842e-08 + q * p;
    p = 1.9290123456790124e-06 + q * p;
    p = 6.944444444444444e-05 + q * p;
    p = 0.001736111111111111 + q * p;
    p = 0.027777777777777776 + q * p;
    p = 0.25 + q * p;
    p = 1.0 + q * p;
    p = 1.0 + q * p;
    return p;
}
EL double el_bessel_i0_high(double u) {
    double p = 1.0867942452024059e-07;
    p = 3.626670386314975e-07 + u * p;
    p = 1.47611573471876e-06 + u * p;
    p = 1.1112148285087811e-05 + u * p;
    p = 0.0001362171642431109 + u * p;
    p = 0.003360555700142743 + u * p;
    p = 0.4021765094192122 + u * p;
    return p;
}
EL double el_bessel_i1_low(double q) {
    double p = 1.3437296218120491e-28;
    p = 3.654944571328774e-26 + q * p;
    p = 8.771866971189057e-24 + q * p;
    p = 1.842092063949702e-21 + q * p;
    p = 3.352607556388458e-19 + q * p;
    p = 5.230067787965994e-17 + q * p;
    p = 6.903689480115112e-15 + q * p;
    p = 7.594058428126623e-13 + q * p;
    p = 6.834652585313961e-11 + q * p;
    p = 4.920949861426052e-09 + q * p;
    p = 2.755731922398589e-07 + q * p;
    p = 1.1574074074074073e-05 + q * p;
    p = 0.00034722222222222224 + q * p;
    p = 0.006944444444444444 + q * p;
    p = 0.08333333333333333 + q * p;
    p = 0.5 + q * p;
    p = 1.0 + q * p;
    return p;
}
EL double el_bessel_i1_high(double u) {
    double p = -3.5774359001052636e-08;
    p = -1.2273217192745783e-07 + u * p;
    p = -3.5842988746298506e-07 + u * p;
    p = -1.8256907322983987e-06 + u * p;
    p = -1.5035268030046568e-05 + u * p;
    p = -0.00021923712538174028 + u * p;
    p = -0.009749577457556703 + u * p;
    p = 0.3893984590596593 + u * p;
    return p;
}
#define EL_BESSEL_I(order, first, odd)                                                                     \
    EL float el_i##order##_f32(float x) {                                                                  \
        double a = fabs((double)x), low = el_bessel_i##order##_low(0.25 * a * a) * first;                  \
        double far = a > 8 ? a : 8, high = el_bessel_i##order##_high(16 / far - 1) * exp(far) / sqrt(far); \
        double y = a > 8 ? high : low;                                                                     \
        y = a > 1e4 ? (double)INFINITY : y;                                                                \
        return (float)(x != x ? (double)x : odd && x < 0 ? -y : y);                                        \
    }                                                                                                      \
    EL float el_i##order##e_f32(float x) {                                                                 \
        double a = fabs((double)x), near = a > 8 ? 8 : a, far = a > 8 ? a : 8;                             \
        double low = el_bessel_i##order##_low(0.25 * near * near) * (odd ? 0.5 * near : 1) * exp(-near);   \
        double y = a > 8 ? el_bessel_i##order##_high(16 / far - 1) / sqrt(far) : low;                      \
        return (float)(x != x ? (double)x : odd && x < 0 ? -y : y);                                        \
    }
EL_BESSEL_I(0, 1, 0)
EL_BESSEL_I(1, (0.5 * a), 1)

/* exp(x) K_order(x) = the integral of exp(-x (cosh t - 1)) cosh(order t) over t > 0, for 0.1 < x < 18: a trapezoidal
 * sum. */
EL double el_bessel_k_integral(double order, double x) {
    const double h = 0.125;
    double sum = 0.5;
    for (int k = 1; k < 80; k++) {
        double s = sinh(0.5 * h * k), part = exp(-2 * x * s * s) * cosh(order * h * k);
        sum += part;
        if (part < 1e-18 * sum) break;
    }
    return sum * h;
}
EL_HEAVY double el_bessel_ke(int order, double x) {
    if (x != x || x < 0) return NAN;
    if (x == 0) return INFINITY;
    if (x >= 18) return isinf(x) ? 0 : el_bessel_tail(order, x, 1) * sqrt(EL_PI / (2 * x));
    if (x > 2) return el_bessel_k_integral(order, x);
    /* K0 = -(log(x / 2) + euler) I0 + sum H_k q^k / k!^2; K1 = 1 / x + log(x / 2) I1 - sum (H_k + H_(k+1) - 2 euler) (x
     * / 4) q^k / (k! (k+1)!) */
    double q = x * x / 4, l = log(x / 2), harmonic = 0, term = order ? x / 2 : 1, sum = 0;
    for (int k = 0; k < 40; k++) {
        if (k) {
            term *= q / ((double)k * (k + order));
            harmonic += 1.0 / k;
        }
        double psi = harmonic - EL_EULER;
        sum += order ? term * (l - 0.5 * (2 * psi + 1.0 / (k + 1))) : term * (psi - l);
        if (term < 1e-19) break;
    }
    return ((order ? 1 / x : 0) + sum) * exp(x);
}
EL double el_bessel_k0e_f64(double x) { return el_bessel_ke(0, x); }
EL double el_bessel_k1e_f64(double x) { return el_bessel_ke(1, x); }
EL double el_bessel_k0_f64(double x) { return el_bessel_ke(0, x) * exp(-x); }
EL double el_bessel_k1_f64(double x) { return el_bessel_ke(1, x) * exp(-x); }
EL_FLOAT1(bessel_k0)
EL_FLOAT1(bessel_k1)
EL_FLOAT1(bessel_k0e)
EL_FLOAT1(bessel_k1e)

/* The Airy function: Maclaurin's series about zero, K of order 1/3 on the right, the oscillating asymptotic expansion
 * on the left. */
EL_HEAVY double el_airy_ai_f64(double x) {
    if (x != x || isinf(x)) return isinf(x) ? (x > 0 ? 0 : NAN) : NAN;
    double z = 2.0 / 3 * fabs(x) * sqrt(fabs(x));
    if (x > 2)
        return sqrt(x / 3) / EL_PI * exp(-z) *
               (z >= 18 ? el_bessel_tail(1.0 / 3, z, 1) * sqrt(EL_PI / (2 * z)) : el_bessel_k_integral(1.0 / 3, z));
    if (x > -7) {
        double c = x * x * x, f = 1, g = x, fs = 1, gs = x;
        for (int k = 1; k < 80; k++) {
            f *= c / ((3.0 * k - 1) * (3 * k));
            g *= c / ((3.0 * k) * (3 * k + 1));
            fs += f;
            gs += g;
            if (fabs(f) + fabs(g) < 1e-18 * (fabs(fs) + fabs(gs))) break;
        }
        return 0.35502805388781723926 * fs - 0.25881940379280679841 * gs;
    }
    double u = 1, even = 1, odd = 0; /* u_k / z^k, u_k = u_(k-1) (6k-5)(6k-1) / (72 k) */
    for (int k = 1; k < 40; k++) {
        double next = u * (6.0 * k - 5) * (6 * k - 1) / (72 * k * z);
        if (next >= u || next < 1e-17) break;
        u = next;
        double signed_u = k / 2 % 2 ? -u : u;
        if (k % 2)
            odd += signed_u;
        else
            even += signed_u;
    }
    return (cos(z - EL_PI / 4) * even + sin(z - EL_PI / 4) * odd) / (EL_SQRT_PI * sqrt(sqrt(-x)));
}
EL_FLOAT1(airy_ai)
EL double el_spherical_j0_f64(double x) { /* sin(x) / x */
    if (isinf(x)) return 0;
    double s = x * x;
    return fabs(x) < 0.5 ? 1 - s / 6 * (1 - s / 20 * (1 - s / 42 * (1 - s / 72 * (1 - s / 110 * (1 - s / 156)))))
                         : sin(x) / x;
}
EL_FLOAT1(spherical_j0)

/* ---- Orthogonal polynomials of degree n, a whole number in floating clothes ---- */
/* Recurrences go up to EL_MOST_TERMS; degrees beyond that have formulas, as a degree is a number that anyone may give.
 * What overflows is NaN, as it is by the recurrences, where infinity meets infinity. */
#define EL_MOST_TERMS 1000000
EL double el_nan_beyond(double v) { return isinf(v) ? NAN : v; }

/* All four kinds of Chebyshev's share the recurrence and differ in the polynomial of degree one: x, 2x, 2x - 1, 2x + 1.
 * Within (-1, 1) high degrees go through the angle; outside, very high ones through the hyperbolic one. */
EL double el_chebyshev_recur(double x, int64_t n, double first) {
    double p = 1, q = first;
    if (n == 0) return 1;
    for (int64_t k = 1; k < n && !isnan(q); k++) {
        double r = 2 * x * q - p;
        p = q;
        q = r;
    }
    return q;
}
EL double el_sign_of(int64_t n) { return n % 2 ? -1 : 1; }
/* T, U, V and W (kind 0 to 3) of a degree beyond the recurrence, |x| > 1: with |x| = cosh u, and for a negative x the
 * sign of n and V for W. */
EL double el_chebyshev_far(double x, int64_t n, int kind) {
    const double u = acosh(fabs(x)), m = (double)n, sign = x > 0 ? 1 : el_sign_of(n);
    const int here = x > 0 || kind < 2 ? kind : 5 - kind;
    const double v = here == 0   ? cosh(m * u)
                     : here == 1 ? sinh((m + 1) * u) / sinh(u)
                     : here == 2 ? cosh((m + 0.5) * u) / cosh(u / 2)
                                 : sinh((m + 0.5) * u) / sinh(u / 2);
    return el_nan_beyond(sign * v);
}
EL_HEAVY double el_chebyshev_t_f64(double x, double degree) {
    int64_t n = (int64_t)degree;
    if (n < 0) return 0;
    if (fabs(x) == 1) return x > 0 ? 1 : el_sign_of(n);
    if (n > EL_MOST_TERMS && fabs(x) > 1) return el_chebyshev_far(x, n, 0);
    return n > 6 && fabs(x) < 1 ? cos((double)n * acos(x)) : el_chebyshev_recur(x, n, x);
}
EL_HEAVY double el_chebyshev_u_f64(double x, double degree) {
    int64_t n = (int64_t)degree;
    if (n < 0) return 0;
    if (fabs(x) == 1) return ((double)n + 1) * (x > 0 ? 1 : el_sign_of(n));
    if (n > EL_MOST_TERMS && fabs(x) > 1) return el_chebyshev_far(x, n, 1);
    return n > 8 && fabs(x) < 1 ? sin(((double)n + 1) * acos(x)) / sin(acos(x)) : el_chebyshev_recur(x, n, 2 * x);
}
EL_HEAVY double el_chebyshev_v_f64(double x, double degree) {
    int64_t n = (int64_t)degree;
    if (n < 0) return 0;
    if (fabs(x) == 1) return x > 0 ? 1 : (2 * (double)n + 1) * el_sign_of(n);
    if (n > EL_MOST_TERMS && fabs(x) > 1) return el_chebyshev_far(x, n, 2);
    return n > 8 && fabs(x) < 1 ? cos(((double)n + 0.5) * acos(x)) / cos(acos(x) / 2)
                                : el_chebyshev_recur(x, n, 2 * x - 1);
}
EL_HEAVY double el_chebyshev_w_f64(double x, double degree) {
    int64_t n = (int64_t)degree;
    if (n < 0) return 0;
    if (fabs(x) == 1) return x > 0 ? (2 * (double)n + 1) : el_sign_of(n);
    if (n > EL_MOST_TERMS && fabs(x) > 1) return el_chebyshev_far(x, n, 3);
    return n > 8 && fabs(x) < 1 ? sin(((double)n + 0.5) * acos(x)) / sin(acos(x) / 2)
                                : el_chebyshev_recur(x, n, 2 * x + 1);
}
#define EL_RECUR(name, first, early, next)                     \
    EL_HEAVY double el_##name##_f64(double x, double degree) { \
        int64_t n = (int64_t)degree;                           \
        if (n < 0) return 0;                                   \
        early;                                                 \
        if (n == 0) return 1;                                  \
        double p = 1, q = first;                               \
        for (int64_t i = 1; i < n && !isnan(q); i++) {         \
            const double k = (double)i, r = next;              \
            p = q, q = r;                                      \
        }                                                      \
        return q;                                              \
    }
/* Legendre's of a degree beyond the recurrence: two terms of its expansion in Bessel functions, which is uniform in the
 * angle; the next is smaller by the degree's square. */
EL_HEAVY double el_legendre_far(double x, int64_t n) {
    const double m = (double)n + 0.5, sign = x < 0 ? el_sign_of(n) : 1;
    x = fabs(x);
    if (x < 1) {
        const double t = acos(x), s = sin(t);
        return sign * sqrt(t / s) * (el_bessel_j0_f64(m * t) + (t * x - s) / (8 * t * s) * el_bessel_j1_f64(m * t) / m);
    }
    const double u = acosh(x), s = sinh(u);
    return el_nan_beyond(sign * sqrt(u / s) * (el_i0_f64(m * u) + (u * x - s) / (8 * u * s) * el_i1_f64(m * u) / m));
}
/* Hermite's end at PyTorch's limits: 512, and 128 of floats. */
EL_RECUR(hermite_h, 2 * x, if (n > 512) return NAN, 2 * x * q - 2 * k * p)
EL_RECUR(hermite_he, x, if (n > 512) return NAN, x *q - k * p)
EL_RECUR(laguerre_l, 1 - x, if (x == 0) return 1;
         if (n > EL_MOST_TERMS) return NAN, ((2 * k + (1 - x)) * q - k * p) / (k + 1))
EL_RECUR(legendre_p, x, if (fabs(x) == 1) return x > 0 ? 1 : el_sign_of(n);
         if (n > EL_MOST_TERMS) return el_legendre_far(x, n), ((2 * k + 1) * x * q - k * p) / (k + 1))
EL_FLOAT2(chebyshev_t)
EL_FLOAT2(chebyshev_u)
EL_FLOAT2(chebyshev_v)
EL_FLOAT2(chebyshev_w)
EL float el_hermite_h_f32(float x, float n) { return n > 128 ? NAN : (float)el_hermite_h_f64((double)x, (double)n); }
EL float el_hermite_he_f32(float x, float n) { return n > 128 ? NAN : (float)el_hermite_he_f64((double)x, (double)n); }
EL_FLOAT2(laguerre_l)
EL_FLOAT2(legendre_p)

/* ---- How samples move with their concentration ----
 * A sample x of a distribution with the cumulative probability F(x; a) moves by dx/da = -(dF/da) / (dF/dx) when its
 * probability stays: the implicit derivative. F's derivative is taken term by term of a series all of whose terms have
 * one sign, on the side where it converges quickly, or of a continued fraction; so it is exact to about double
 * precision. */
#define EL_ENOUGH 1e-16 /* a term that adds less, relative to the sum, ends a series */

/* x <= a + 1: P(a, x) / density = sum of t_n with t_0 = x / a, t_n = t_n-1 x / (a + n), and d log t_n / da follows
 * psi(a + n + 1). */
EL_HEAVY double el_gamma_grad_series(double a, double x) {
    double slope = el_digamma_f64(a) + 1 / a - log(x), t = x / a, sum = t * slope;
    for (int n = 1; n < EL_MOST_TERMS; n++) {
        t *= x / (a + n);
        slope += 1 / (a + n);
        sum += t * slope;
        if (t * fabs(slope) <= EL_ENOUGH * fabs(sum)) break;
    }
    return sum;
}
/* x > a + 1: 1 - P(a, x) = density times x times a continued fraction, evaluated by Lentz's method together with its
 * derivative. */
EL_HEAVY double el_gamma_grad_fraction(double a, double x) {
    double b = x + 1 - a, c = 1e30, dc = 0, d = 1 / b, dd = 1 / (b * b), h = d, dh = dd;
    for (int n = 1; n < EL_MOST_TERMS; n++) {
        double an = -n * (n - a), dan = n;
        b += 2;
        double below = an * d + b, dbelow = dan * d + an * dd - 1; /* db / da = -1 */
        double above = b + an / c, dabove = -1 + dan / c - an * dc / (c * c);
        d = 1 / below;
        dd = -dbelow * d * d;
        c = above;
        dc = dabove;
        double factor = d * c, dfactor = dd * c + d * dc;
        dh = dh * factor + h * dfactor;
        h *= factor;
        if (fabs(factor - 1) + fabs(dfactor) <= EL_ENOUGH) break;
    }
    return x * ((log(x) - el_digamma_f64(a)) * h + dh);
}
/* Of a Gamma(a)'s sample x. Large concentrations: by Wilson and Hilferty the cube root of x / a is normal. */
EL_HEAVY double el_gamma_grad_f64(double a, double x) {
    if (!(a > 0) || !(x > 0)) return x == 0 ? 0 : NAN;
    if (a > 1e5) {
        double w = cbrt(x / a), z = 3 * sqrt(a) * (w - 1 + 1 / (9 * a));
        return w * w * w + 3 * a * w * w * (1 / (9 * a * a) - z / (6 * a * sqrt(a)));
    }
    return x <= a + 1 ? el_gamma_grad_series(a, x) : el_gamma_grad_fraction(a, x);
}
EL_FLOAT2(gamma_grad)

/* The same for the first parameter of a Beta(a, b), a + b = total, over 1 - x, which is what Dirichlet's derivative is
 * made of. With I_x(a, b) = density times x (1 - x) / a times the sum of c_n, c_n = c_n-1 x (a + b + n - 1) / (a + n),
 * for x below the mean, and 1 - I_1-x(b, a) above it. */
EL_HEAVY double el_beta_grad_f64(double x, double a, double total) {
    double b = total - a;
    if (!(a > 0) || !(b > 0) || !(x > 0) || !(x < 1)) return x == 0 || x == 1 ? 0 : NAN;
    const int low = x < (a + 1) / (total + 2);
    double y = low ? x : 1 - x, p = low ? a : b, c = 1;
    double slope = log(x) + el_digamma_f64(total) - el_digamma_f64(a) - (low ? 1 / a : 0), sum = slope;
    for (int n = 1; n < EL_MOST_TERMS; n++) {
        double up = total + n - 1, down = p + n;
        c *= y * up / down;
        slope += 1 / up - (low ? 1 / down : 0);
        sum += c * slope;
        if (c * fabs(slope) <= EL_ENOUGH * fabs(sum)) break;
    }
    return (low ? -x : x) / p * sum;
}
EL float el_beta_grad_f32(float x, float a, float total) {
    return (float)el_beta_grad_f64((double)x, (double)a, (double)total);
}
#endif

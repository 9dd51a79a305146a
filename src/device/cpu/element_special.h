/* Special functions of the element language. Included by element.h. */
#ifndef TPI_ELEMENT_SPECIAL_H
#define TPI_ELEMENT_SPECIAL_H
EL float el_lgamma_f32(float x) { int sign; return lgammaf_r(x, &sign); }
EL double el_lgamma_f64(double x) { int sign; return lgamma_r(x, &sign); }

/* Upwards by the recurrence until the asymptotic series holds. */
EL double el_digamma_f64(double x) {
    double r = 0;
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0) {
        if (x == floor(x)) return NAN;
        r = -3.14159265358979323846 / tan(3.14159265358979323846 * x); /* reflection */
        x = 1 - x;
    }
    for (; x < 10; x += 1) r -= 1 / x;
    double y = 1 / (x * x);
    double series = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y / 12))))));
    return r + log(x) - 0.5 / x - series;
}
EL float el_digamma_f32(float x) { return (float)el_digamma_f64((double)x); }

/* The Hurwitz zeta function for s > 1, q > 0: a direct sum, then Euler and Maclaurin. */
EL double el_zeta_f64(double s, double q) {
    static const double b[12] = {1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0,
        -3617.0 / 10670622842880000.0, 43867.0 / 5109094217170944000.0, -174611.0 / 802857662698291200000.0, 0, 0};
    if (s == 1) return INFINITY;
    if (s < 1) return NAN;
    if (q <= 0) {
        if (q == floor(q)) return INFINITY;
        if (s != floor(s)) return NAN;
    }
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
EL float el_zeta_f32(float s, float q) { return (float)el_zeta_f64((double)s, (double)q); }

/* (-1)^(n+1) n! zeta(n + 1, x) */
EL double el_polygamma_f64(double n, double x) {
    if (n == 0) return el_digamma_f64(x);
    double sign = fmod(n, 2) == 0 ? -1 : 1;
    return sign * tgamma(n + 1) * el_zeta_f64(n + 1, x);
}
EL float el_polygamma_f32(float n, float x) { return (float)el_polygamma_f64((double)n, (double)x); }
#endif

/* Bessel functions of order 0 and 1, which CUDA's and HIP's libraries have and OpenCL's has not. Up to 25: all orders
 * by Miller's backward recurrence, and Y from Neumann's series over them; beyond: Hankel's expansion, exact to double
 * precision there. */
#ifndef ELEMENT_BESSEL_H
#define ELEMENT_BESSEL_H
#if !defined(__OPENCL_VERSION__)
EL double el_bessel_j0_f64(double x) { return j0(x); }
EL double el_bessel_j1_f64(double x) { return j1(x); }
EL double el_bessel_y0_f64(double x) { return x < 0 ? NAN : y0(x); }
EL double el_bessel_y1_f64(double x) { return x < 0 ? NAN : y1(x); }
#else
/* J (or Y) of the order for x > 25. */
EL double el_bessel_hankel(int order, bool second, double x) {
    double p = 1, q = 0, term = 1, phase = x - (2 * order + 1) * 0.78539816339744830962;
    for (int k = 1; k < 60; k++) {
        double odd = 2 * k - 1, next = term * (4 * order * order - odd * odd) / (8 * k * x);
        if (fabs(next) >= fabs(term) || fabs(next) < 1e-18) break;
        term = next;
        double part = k / 2 % 2 ? -term : term;
        if (k % 2)
            q += part;
        else
            p += part;
    }
    double scale = sqrt(0.63661977236758134308 / x);
    return second ? scale * (p * sin(phase) + q * cos(phase)) : scale * (p * cos(phase) - q * sin(phase));
}
EL_HEAVY double el_bessel(int order, bool second, double x) {
    if (x != x || isinf(x)) return x != x ? x : 0;
    if (x == 0) return second ? -(double)INFINITY : order ? 0 : 1;
    if (x > 25) return el_bessel_hankel(order, second, x);
    double l = log(x / 2) + 0.57721566490153286061;
    if (x < 1e-10) return !second ? (order ? x / 2 : 1) : 0.63661977236758134308 * (order ? -1 / x : l);
    const double tiny = sizeof(double) == 8 ? 1e-200 : 1e-20f,
                 huge = 1 / tiny;                     /* float stands for double on some devices */
    double above = 0, j = tiny, unit = 0, series = 0; /* j is the multiple of J_k on the way down from k = 80 */
    for (int k = 80; k > 0; k--) {
        double below = 2 * k / x * j - above;
        above = j;
        j = below;
        int m = (k - 1 - order) / 2; /* j is now J_(k-1) */
        if (second && m > 0 && (k - 1 - order) % 2 == 0)
            series += (m % 2 ? -1.0 : 1.0) * (order + 2 * m) * j / ((double)m * (m + order));
        if ((k - 1) % 2 == 0) unit += k > 1 ? 2 * j : j;
        if (fabs(j) > huge) {
            j *= tiny;
            above *= tiny;
            unit *= tiny;
            series *= tiny;
        }
    }
    double zero = j / unit, one = above / unit;
    series /= unit;
    if (!second) return order ? one : zero;
    if (order) return 0.63661977236758134308 * ((l - 1) * one - series - zero / x);
    return 0.63661977236758134308 * (l * zero - series);
}
EL double el_bessel_j0_f64(double x) { return el_bessel(0, false, fabs(x)); }
EL double el_bessel_j1_f64(double x) { return x < 0 ? -el_bessel(1, false, -x) : el_bessel(1, false, x); }
EL double el_bessel_y0_f64(double x) { return x < 0 ? NAN : el_bessel(0, true, x); }
EL double el_bessel_y1_f64(double x) { return x < 0 ? NAN : el_bessel(1, true, x); }
#endif
#endif

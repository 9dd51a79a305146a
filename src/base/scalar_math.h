/* Arithmetic on typed scalars, for derivatives whose formulas compute with an operator's numbers (exponent - 1). */
#ifndef TPI_SCALAR_MATH_H
#define TPI_SCALAR_MATH_H
#include <taper/base.h>

static inline void tpi_scalar_parts(tp_scalar s, double *re, double *im) {
    *re = s.kind == TP_SCALAR_COMPLEX || s.kind == TP_SCALAR_FLOAT ? s.as.d[0] : tp_scalar_to_double(s);
    *im = s.kind == TP_SCALAR_COMPLEX ? s.as.d[1] : 0;
}
static inline tp_scalar tpi_scalar_conj(tp_scalar s) {
    if (s.kind == TP_SCALAR_COMPLEX) s.as.d[1] = -s.as.d[1];
    return s;
}
static inline bool tpi_scalar_whole(tp_scalar a, tp_scalar b) {
    return a.kind <= TP_SCALAR_INT && b.kind <= TP_SCALAR_INT;
}
static inline tp_scalar tpi_scalar_pack(tp_scalar a, tp_scalar b, double re, double im) {
    return a.kind == TP_SCALAR_COMPLEX || b.kind == TP_SCALAR_COMPLEX ? tp_cplx(re, im) : tp_float(re);
}
static inline tp_scalar tpi_scalar_add(tp_scalar a, tp_scalar b) {
    double p, q, r, s;
    if (tpi_scalar_whole(a, b)) return tp_int((int64_t)((uint64_t)a.as.i + (uint64_t)b.as.i));
    tpi_scalar_parts(a, &p, &q);
    tpi_scalar_parts(b, &r, &s);
    return tpi_scalar_pack(a, b, p + r, q + s);
}
static inline tp_scalar tpi_scalar_sub(tp_scalar a, tp_scalar b) {
    double p, q, r, s;
    if (tpi_scalar_whole(a, b)) return tp_int((int64_t)((uint64_t)a.as.i - (uint64_t)b.as.i));
    tpi_scalar_parts(a, &p, &q);
    tpi_scalar_parts(b, &r, &s);
    return tpi_scalar_pack(a, b, p - r, q - s);
}
static inline tp_scalar tpi_scalar_mul(tp_scalar a, tp_scalar b) {
    double p, q, r, s;
    if (tpi_scalar_whole(a, b)) return tp_int((int64_t)((uint64_t)a.as.i * (uint64_t)b.as.i));
    tpi_scalar_parts(a, &p, &q);
    tpi_scalar_parts(b, &r, &s);
    return tpi_scalar_pack(a, b, p * r - q * s, p * s + q * r);
}
static inline tp_scalar tpi_scalar_div(tp_scalar a, tp_scalar b) { /* true division: always floating or complex */
    double p, q, r, s;
    tpi_scalar_parts(a, &p, &q);
    tpi_scalar_parts(b, &r, &s);
    if (s == 0) return tpi_scalar_pack(a, b, p / r, q / r);
    double n = r * r + s * s;
    return tpi_scalar_pack(a, b, (p * r + q * s) / n, (q * r - p * s) / n);
}
#endif

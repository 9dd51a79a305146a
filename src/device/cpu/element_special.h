/* Special functions of the element language. Included by element.h. */
#ifndef TPI_ELEMENT_SPECIAL_H
#define TPI_ELEMENT_SPECIAL_H
EL float el_lgamma_f32(float x) { int sign; return lgammaf_r(x, &sign); }
EL double el_lgamma_f64(double x) { int sign; return lgamma_r(x, &sign); }
#endif

/* Floats of 8 and 16 bits to and from float, one number at a time and without the processor's help: the answers that
 * loops over arrays give too (device/cpu/convert.isa.c). bfloat16 is in dtype.h. */
#include "base/dtype.h"

/* ---- Half: 1 sign, 5 exponent (bias 15), 10 fraction bits; the same answers as the hardware's conversions ---- */
typedef union float_bits {
    float f;
    uint32_t u;
} float_bits;

float tpi_half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    float_bits v;
    if (exponent == 31) { /* infinity, or a NaN, made quiet */
        v.u = sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0);
    } else if (exponent == 0) { /* zero and subnormals: a whole number of 2^-24 */
        v.f = (float)fraction * 0x1p-24f;
        v.u |= sign;
    } else {
        v.u = sign | (exponent + 112) << 23 | fraction << 13;
    }
    return v.f;
}

uint16_t tpi_float_to_half(float f) {
    float_bits v = {f};
    uint16_t sign = (uint16_t)(v.u >> 16 & 0x8000);
    v.u &= 0x7fffffff;
    if (v.u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (v.u >> 13 & 0x3ff)); /* NaN: quiet, with what fits of its payload */
    if (v.u >= 0x477ff000) return (uint16_t)(sign | 0x7c00);    /* 65520 and more round to infinity */
    if (v.u <
        0x38800000) { /* below 2^-14: adding 1/2 lines the last bit up with 2^-24, and the addition rounds to even */
        v.f += 0.5f;
        return (uint16_t)(sign | (v.u - 0x3f000000));
    }
    v.u += 0xfff + (v.u >> 13 & 1) - (112u << 23); /* round to even, then the bias */
    return (uint16_t)(sign | v.u >> 13);
}

/* ---- Float8 ----
 * e4m3fn has 4 exponent and 3 fraction bits, and so on. "fn": no infinities; "uz": no negative zero, its code is the
 * one NaN. */
typedef struct float8_form {
    int fraction, bias;
    uint8_t largest, beyond, nan; /* codes without sign: of the largest value, of what is larger, of NaN */
    bool unsigned_zero;
} float8_form;

static const float8_form float8_forms[TP_DTYPE_COUNT] = {
    [TP_FLOAT8_E4M3FN] = {3, 7, 0x7e, 0x7e, 0x7f, false},
    [TP_FLOAT8_E5M2] = {2, 15, 0x7b, 0x7c, 0x7f, false},
    [TP_FLOAT8_E4M3FNUZ] = {3, 8, 0x7f, 0x80, 0x80, true},
    [TP_FLOAT8_E5M2FNUZ] = {2, 16, 0x7f, 0x80, 0x80, true},
};

static float e8m0_to_float(uint8_t code) {
    float_bits v = {.u = code == 255 ? 0x7fc00000 : code == 0 ? 0x400000 : (uint32_t)code << 23};
    return v.f;
}

/* The sign is dropped. A fraction of a half or more rounds up; among subnormal numbers, which are below the smallest
 * power, only more than a half. */
static uint8_t float_to_e8m0(float f) {
    float_bits v = {f};
    uint32_t exponent = v.u >> 23 & 255, fraction = v.u & 0x7fffff;
    if (exponent == 255) return 255;
    return (uint8_t)(exponent + (exponent ? fraction >= 0x400000 : fraction > 0x400000));
}

float tpi_float8_to_float(uint8_t code, tp_dtype dtype) {
    if (dtype == TP_FLOAT8_E8M0FNU) return e8m0_to_float(code);
    const float8_form *form = &float8_forms[dtype];
    uint32_t sign = (uint32_t)(code & 0x80) << 24, body = code & 0x7f, exponent = body >> form->fraction;
    uint32_t fraction = body & ((1u << form->fraction) - 1);
    float_bits v;
    if (form->unsigned_zero ? code == 0x80 : body > form->largest) {
        bool infinite = body == form->beyond && form->beyond > form->largest;
        v.u = infinite ? sign | 0x7f800000 : (form->unsigned_zero ? 0 : sign) | 0x7fc00000;
        return v.f;
    }
    if (exponent) {
        v.u = sign | (exponent + 127 - (uint32_t)form->bias) << 23 | fraction << (23 - form->fraction);
        return v.f;
    }
    float_bits unit = {.u = (uint32_t)(128 - form->bias - form->fraction) << 23}; /* the smallest value */
    v.f = (float)fraction * unit.f;
    v.u |= sign;
    return v.f;
}

uint8_t tpi_float_to_float8(float f, tp_dtype dtype) {
    if (dtype == TP_FLOAT8_E8M0FNU) return float_to_e8m0(f);
    const float8_form *form = &float8_forms[dtype];
    float_bits v = {f};
    uint32_t sign = v.u >> 24 & 0x80, code, rest = 23 - (uint32_t)form->fraction, shift = 127 - (uint32_t)form->bias;
    v.u &= 0x7fffffff;
    if (v.u > 0x7f800000) return (uint8_t)(form->unsigned_zero ? form->nan : sign | form->nan);
    if (v.u < (shift + 1) << 23) { /* subnormal: adding lines the last bit up with the smallest value, and the addition
                                      rounds to even */
        float_bits line = {.u = (shift + 1 + rest) << 23};
        v.f += line.f;
        code = v.u - line.u;
    } else {
        v.u += (1u << (rest - 1)) - 1 + (v.u >> rest & 1);
        code = (v.u - (shift << 23)) >> rest;
    }
    if (code > form->largest) return (uint8_t)(form->unsigned_zero ? form->beyond : sign | form->beyond);
    return (uint8_t)(form->unsigned_zero && code == 0 ? 0 : sign | code);
}

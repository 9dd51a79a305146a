/* Numbers that know their kind: conversions among them, compute types and the elements of tensors; 16-bit floats. */
#include <math.h>
#include <string.h>
#include "base/dtype.h"
#include "base/error.h"

/* ---- Conversions: C leaves a float out of the integer's range undefined; here it is the lowest integer, as on x86 --------- */
static int64_t to_int64(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }
static int32_t to_int32(double v) { return v > -0x1p31 - 1 && v < 0x1p31 ? (int32_t)v : INT32_MIN; }

static double real_part(tp_scalar s) { return s.kind == TP_SCALAR_FLOAT || s.kind == TP_SCALAR_COMPLEX ? s.as.d[0] : (double)s.as.i; }
static double imaginary_part(tp_scalar s) { return s.kind == TP_SCALAR_COMPLEX ? s.as.d[1] : 0; }
static bool is_whole(tp_scalar s) { return s.kind == TP_SCALAR_INT || s.kind == TP_SCALAR_BOOL; }

tp_scalar tp_uint(uint64_t v) {
    if (v <= INT64_MAX) return tp_int((int64_t)v);
    tpi_fail(TP_ERR_VALUE, "Overflow when unpacking long long: %llu is above the largest 64-bit integer with a sign", (unsigned long long)v);
    return tp_no_scalar();
}

double tp_scalar_to_double(tp_scalar s) { return s.kind == TP_SCALAR_NONE ? (double)NAN : real_part(s); }

int64_t tp_scalar_to_int(tp_scalar s) { return is_whole(s) ? s.as.i : s.kind == TP_SCALAR_NONE ? 0 : to_int64(s.as.d[0]); }

bool tp_scalar_to_bool(tp_scalar s) {
    if (s.kind == TP_SCALAR_NONE) return false;
    return is_whole(s) ? s.as.i != 0 : s.as.d[0] != 0 || imaginary_part(s) != 0;
}

static int32_t scalar_to_int32(tp_scalar s) { return is_whole(s) ? (int32_t)s.as.i : s.kind == TP_SCALAR_NONE ? 0 : to_int32(s.as.d[0]); }

tpi_param tpi_param_of(tp_scalar s, tpi_ctype c) {
    tpi_param p;
    memset(&p, 0, sizeof p);
    if (s.kind == TP_SCALAR_NONE && c >= TPI_F32) s = tp_float((double)NAN); /* a float argument that is not given */
    switch (c) {
    case TPI_B8: p.b8 = tp_scalar_to_bool(s); break;
    case TPI_I32: p.i32 = scalar_to_int32(s); break;
    case TPI_I64: p.i64 = tp_scalar_to_int(s); break;
    case TPI_F32: p.f32 = is_whole(s) ? (float)s.as.i : (float)s.as.d[0]; break;
    case TPI_F64: p.f64 = real_part(s); break;
    case TPI_C64: p.c64 = (tpi_c64){(float)real_part(s), (float)imaginary_part(s)}; break;
    case TPI_C128: p.c128 = (tpi_c128){real_part(s), imaginary_part(s)}; break;
    case TPI_CTYPES: break;
    }
    return p;
}

/* ---- One element of a tensor; memcpy because elements of foreign memory need not be aligned --------------------------------- */
#define STORE(type, to, value) memcpy((to), &(type){value}, sizeof(type))

tp_scalar tpi_load_scalar(const void *element, tp_dtype dtype) {
    union { uint8_t u8; int8_t i8; int16_t i16; uint16_t u16; int32_t i32; int64_t i64; float f32; double f64; tpi_c64 c64; tpi_c128 c128; } e;
    memcpy(&e, element, tpi_dtype_bytes[dtype]);
    switch (dtype) {
    case TP_BOOL: return tp_truth(e.u8 != 0);
    case TP_UINT8: return tp_int(e.u8);
    case TP_INT8: return tp_int(e.i8);
    case TP_INT16: return tp_int(e.i16);
    case TP_INT32: return tp_int(e.i32);
    case TP_INT64: return tp_int(e.i64);
    case TP_FLOAT16: return tp_float((double)tpi_half_to_float(e.u16));
    case TP_BFLOAT16: return tp_float((double)tpi_bf16_to_float(e.u16));
    case TP_FLOAT32: return tp_float((double)e.f32);
    case TP_FLOAT64: return tp_float(e.f64);
    case TP_COMPLEX64: return tp_cplx((double)e.c64.re, (double)e.c64.im);
    case TP_COMPLEX128: return tp_cplx(e.c128.re, e.c128.im);
    case TP_NO_DTYPE:
    case TP_DTYPE_COUNT: break;
    }
    return tp_no_scalar();
}

void tpi_store_scalar(void *element, tp_dtype dtype, tp_scalar s) {
    float f = tpi_param_of(s, TPI_F32).f32;
    switch (dtype) {
    case TP_BOOL: STORE(uint8_t, element, tp_scalar_to_bool(s)); break;
    case TP_UINT8: STORE(uint8_t, element, (uint8_t)scalar_to_int32(s)); break;
    case TP_INT8: STORE(int8_t, element, (int8_t)scalar_to_int32(s)); break;
    case TP_INT16: STORE(int16_t, element, (int16_t)scalar_to_int32(s)); break;
    case TP_INT32: STORE(int32_t, element, scalar_to_int32(s)); break;
    case TP_INT64: STORE(int64_t, element, tp_scalar_to_int(s)); break;
    case TP_FLOAT16: STORE(uint16_t, element, tpi_float_to_half(f)); break;
    case TP_BFLOAT16: STORE(uint16_t, element, tpi_float_to_bf16(f)); break;
    case TP_FLOAT32: STORE(float, element, f); break;
    case TP_FLOAT64: STORE(double, element, tpi_param_of(s, TPI_F64).f64); break;
    case TP_COMPLEX64: memcpy(element, &(tpi_c64){f, (float)imaginary_part(s)}, sizeof(tpi_c64)); break;
    case TP_COMPLEX128: memcpy(element, &(tpi_c128){tpi_param_of(s, TPI_F64).f64, imaginary_part(s)}, sizeof(tpi_c128)); break;
    case TP_NO_DTYPE:
    case TP_DTYPE_COUNT: break;
    }
}

/* ---- Half: 1 sign, 5 exponent (bias 15), 10 fraction bits; the same answers as the hardware's conversions ---------------------- */
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
    if (v.u > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (v.u >> 13 & 0x3ff)); /* NaN: quiet, with what fits of its payload */
    if (v.u >= 0x477ff000) return (uint16_t)(sign | 0x7c00);                      /* 65520 and more round to infinity */
    if (v.u < 0x38800000) { /* below 2^-14: adding 1/2 lines the last bit up with 2^-24, and the addition rounds to even */
        v.f += 0.5f;
        return (uint16_t)(sign | (v.u - 0x3f000000));
    }
    v.u += 0xfff + (v.u >> 13 & 1) - (112u << 23); /* round to even, then the bias */
    return (uint16_t)(sign | v.u >> 13);
}

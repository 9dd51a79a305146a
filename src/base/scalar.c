/* Numbers that know their kind: conversions among them, compute types and the elements of tensors. */
#include <math.h>
#include <string.h>
#include "base/dtype.h"
#include "base/error.h"

/* ---- Conversions: C leaves a float out of the integer's range undefined; here it is the lowest integer, as on x86
 * ---- */
static int64_t to_int64(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }
static int32_t to_int32(double v) { return v > -0x1p31 - 1 && v < 0x1p31 ? (int32_t)v : INT32_MIN; }

/* To unsigned integers as x86's vectors do it: the upper half of the range is shifted down first. */
static uint64_t to_uint64(double v) {
    return v >= 0x1p63 ? (uint64_t)to_int64(v - 0x1p63) ^ UINT64_C(1) << 63 : (uint64_t)to_int64(v);
}
static uint32_t to_uint32(double v) {
    return v >= 0x1p31 ? (uint32_t)to_int32(v - 0x1p31) ^ UINT32_C(1) << 31 : (uint32_t)to_int32(v);
}

static double real_part(tp_scalar s) {
    if (s.kind == TP_SCALAR_UINT) return (double)(uint64_t)s.as.i;
    return s.kind == TP_SCALAR_FLOAT || s.kind == TP_SCALAR_COMPLEX ? s.as.d[0] : (double)s.as.i;
}
static double imaginary_part(tp_scalar s) { return s.kind == TP_SCALAR_COMPLEX ? s.as.d[1] : 0; }
static bool is_whole(tp_scalar s) {
    return s.kind == TP_SCALAR_INT || s.kind == TP_SCALAR_BOOL || s.kind == TP_SCALAR_UINT;
}

tp_scalar tp_uint(uint64_t v) {
    tp_scalar s = tp_int((int64_t)v);
    if (v > INT64_MAX) s.kind = TP_SCALAR_UINT;
    return s;
}

double tp_scalar_to_double(tp_scalar s) { return s.kind == TP_SCALAR_NONE ? TP_NO_FLOAT : real_part(s); }

int64_t tp_scalar_to_int(tp_scalar s) {
    return is_whole(s) ? s.as.i : s.kind == TP_SCALAR_NONE ? 0 : to_int64(s.as.d[0]);
}

bool tp_scalar_to_bool(tp_scalar s) {
    if (s.kind == TP_SCALAR_NONE) return false;
    return is_whole(s) ? s.as.i != 0 : s.as.d[0] != 0 || imaginary_part(s) != 0;
}

static uint32_t scalar_to_uint32(tp_scalar s) {
    return is_whole(s) ? (uint32_t)s.as.i : s.kind == TP_SCALAR_NONE ? 0 : to_uint32(s.as.d[0]);
}
static uint64_t scalar_to_uint64(tp_scalar s) {
    return is_whole(s) ? (uint64_t)s.as.i : s.kind == TP_SCALAR_NONE ? 0 : to_uint64(s.as.d[0]);
}
static int32_t scalar_to_int32(tp_scalar s) {
    return is_whole(s) ? (int32_t)s.as.i : s.kind == TP_SCALAR_NONE ? 0 : to_int32(s.as.d[0]);
}

tpi_param tpi_param_of(tp_scalar s, tpi_ctype c) {
    tpi_param p;
    memset(&p, 0, sizeof p);
    if (s.kind == TP_SCALAR_NONE && c >= TPI_F32) s = tp_float((double)NAN); /* a float argument that is not given */
    switch (c) {
    case TPI_B8: p.b8 = tp_scalar_to_bool(s); break;
    case TPI_I32: p.i32 = scalar_to_int32(s); break;
    case TPI_I64: p.i64 = tp_scalar_to_int(s); break;
    case TPI_F32:
        p.f32 = s.kind == TP_SCALAR_UINT ? (float)(uint64_t)s.as.i : is_whole(s) ? (float)s.as.i : (float)s.as.d[0];
        break;
    case TPI_F64: p.f64 = real_part(s); break;
    case TPI_C64: p.c64 = (tpi_c64){(float)real_part(s), (float)imaginary_part(s)}; break;
    case TPI_C128: p.c128 = (tpi_c128){real_part(s), imaginary_part(s)}; break;
    case TPI_CTYPES: break;
    }
    return p;
}

/* ---- One element of a tensor; memcpy because elements of foreign memory need not be aligned ---- */
#define STORE(type, to, value) memcpy((to), &(type){value}, sizeof(type))

tp_scalar tpi_load_scalar(const void *element, tp_dtype dtype) {
    union {
        uint8_t u8;
        int8_t i8;
        int16_t i16;
        uint16_t u16, pair[2];
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
        tpi_c64 c64;
        tpi_c128 c128;
    } e;
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
    case TP_UINT16: return tp_int(e.u16);
    case TP_UINT32: return tp_int(e.u32);
    case TP_UINT64: return tp_uint(e.u64);
    case TP_FLOAT8_E4M3FN:
    case TP_FLOAT8_E5M2:
    case TP_FLOAT8_E4M3FNUZ:
    case TP_FLOAT8_E5M2FNUZ:
    case TP_FLOAT8_E8M0FNU: return tp_float((double)tpi_float8_to_float(e.u8, dtype));
    case TP_COMPLEX32: return tp_cplx((double)tpi_half_to_float(e.pair[0]), (double)tpi_half_to_float(e.pair[1]));
    case TP_BCOMPLEX32: return tp_cplx((double)tpi_bf16_to_float(e.pair[0]), (double)tpi_bf16_to_float(e.pair[1]));
    default: break; /* elements without a value */
    }
    return tp_no_scalar();
}

void tpi_store_scalar(void *element, tp_dtype dtype, tp_scalar s) {
    float f = tpi_param_of(s, TPI_F32).f32, imaginary = (float)imaginary_part(s);
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
    case TP_COMPLEX64: memcpy(element, &(tpi_c64){f, imaginary}, sizeof(tpi_c64)); break;
    case TP_COMPLEX128:
        memcpy(element, &(tpi_c128){tpi_param_of(s, TPI_F64).f64, imaginary_part(s)}, sizeof(tpi_c128));
        break;
    case TP_UINT16: STORE(uint16_t, element, (uint16_t)scalar_to_int32(s)); break;
    case TP_UINT32: STORE(uint32_t, element, scalar_to_uint32(s)); break;
    case TP_UINT64: STORE(uint64_t, element, scalar_to_uint64(s)); break;
    case TP_FLOAT8_E4M3FN:
    case TP_FLOAT8_E5M2:
    case TP_FLOAT8_E4M3FNUZ:
    case TP_FLOAT8_E5M2FNUZ:
    case TP_FLOAT8_E8M0FNU: STORE(uint8_t, element, tpi_float_to_float8(f, dtype)); break;
    case TP_COMPLEX32: memcpy(element, (uint16_t[]){tpi_float_to_half(f), tpi_float_to_half(imaginary)}, 4); break;
    case TP_BCOMPLEX32: memcpy(element, (uint16_t[]){tpi_float_to_bf16(f), tpi_float_to_bf16(imaginary)}, 4); break;
    default: memset(element, 0, tpi_dtype_bytes[dtype]); break; /* elements without a value */
    }
}

/* Storage types that few operators know, included by the programs that read or write one: see dialect.h for get_ and
 * set_, and src/base/scalar.c for the same conversions on the host. uint64 has casts of its own, for int64 holds half
 * of its values. */
#ifndef LIMITED_H
#define LIMITED_H

typedef uint16_t s_uint16;
typedef uint32_t s_uint32;
typedef uint64_t s_uint64;
typedef uint8_t s_float8_e4m3fn;
typedef uint8_t s_float8_e5m2;
typedef uint8_t s_float8_e4m3fnuz;
typedef uint8_t s_float8_e5m2fnuz;
typedef uint8_t s_float8_e8m0fnu;
typedef struct s_complex32 {
    s_float16 re, im;
} s_complex32;
typedef struct s_bcomplex32 {
    s_bfloat16 re, im;
} s_bcomplex32;

INLINE int32_t get_uint16(s_uint16 x) { return x; }
INLINE int64_t get_uint32(s_uint32 x) { return x; }
INLINE uint64_t get_uint64(s_uint64 x) { return x; }
INLINE s_uint16 set_uint16(int32_t x) { return (uint16_t)x; }
INLINE s_uint32 set_uint32(int64_t x) { return (uint32_t)x; }
INLINE s_uint64 set_uint64(uint64_t x) { return x; }
CASTS_OF_REAL(u64, uint64_t)
INLINE uint64_t to_u64_b8(uint8_t x) { return x; }
INLINE uint64_t to_u64_i32(int32_t x) { return (uint64_t)(int64_t)x; }
INLINE uint64_t to_u64_i64(int64_t x) { return (uint64_t)x; }
INLINE uint64_t to_u64_f32(float x) {
    const float half_range = 9223372036854775808.0f;
    return x >= half_range ? (uint64_t)(int64_t)(x - half_range) ^ (uint64_t)INT64_MIN : (uint64_t)(int64_t)x;
}
INLINE uint64_t to_u64_f64(double x) {
    const double half_range = (double)9223372036854775808.0f;
    return x >= half_range ? (uint64_t)(int64_t)(x - half_range) ^ (uint64_t)INT64_MIN : (uint64_t)(int64_t)x;
}
INLINE uint64_t to_u64_c64(tpi_c64 x) { return to_u64_f32(x.re); }
INLINE uint64_t to_u64_c128(tpi_c128 x) { return to_u64_f64(x.re); }

INLINE tpi_c64 get_complex32(s_complex32 x) {
    tpi_c64 c;
    c.re = get_float16(x.re);
    c.im = get_float16(x.im);
    return c;
}
INLINE s_complex32 set_complex32(tpi_c64 x) {
    s_complex32 c;
    c.re = set_float16(x.re);
    c.im = set_float16(x.im);
    return c;
}
INLINE tpi_c64 get_bcomplex32(s_bcomplex32 x) {
    tpi_c64 c;
    c.re = get_bfloat16(x.re);
    c.im = get_bfloat16(x.im);
    return c;
}
INLINE s_bcomplex32 set_bcomplex32(tpi_c64 x) {
    s_bcomplex32 c;
    c.re = set_bfloat16(x.re);
    c.im = set_bfloat16(x.im);
    return c;
}

/* A code without NaN or infinity; m: bits of the fraction. */
INLINE float float8_value(uint32_t code, int m, int bias) {
    uint32_t sign = (code & 0x80u) << 24, body = code & 0x7fu, exponent = body >> m, fraction = body & ((1u << m) - 1u);
    if (exponent) return BITS_F32(sign | (exponent + 127u - (uint32_t)bias) << 23 | fraction << (23 - m));
    return BITS_F32(sign | F32_BITS((float)fraction * BITS_F32((uint32_t)(128 - bias - m) << 23)));
}
/* The code of |x|, rounded to even and as large as it comes. */
INLINE uint32_t float8_code(float x, int m, int bias) {
    uint32_t u = F32_BITS(x) & 0x7fffffffu, rest = 23u - (uint32_t)m, shift = 127u - (uint32_t)bias;
    if (u < (shift + 1u) << 23) {
        uint32_t line = (shift + 1u + rest) << 23;
        return F32_BITS(BITS_F32(u) + BITS_F32(line)) - line;
    }
    return (u + (1u << (rest - 1u)) - 1u + (u >> rest & 1u) - (shift << 23)) >> rest;
}
#define SIGN8(x)   (F32_BITS(x) >> 24 & 0x80u)
#define IS_NAN8(x) ((F32_BITS(x) & 0x7fffffffu) > 0x7f800000u)

INLINE float get_float8_e4m3fn(s_float8_e4m3fn x) { return (x & 0x7f) == 0x7f ? NAN : float8_value(x, 3, 7); }
INLINE s_float8_e4m3fn set_float8_e4m3fn(float x) {
    uint32_t code = IS_NAN8(x) ? 0x7fu : float8_code(x, 3, 7);
    return (uint8_t)(SIGN8(x) | (IS_NAN8(x) || code <= 0x7eu ? code : 0x7eu));
}
INLINE float get_float8_e5m2(s_float8_e5m2 x) {
    if ((x & 0x7f) <= 0x7b) return float8_value(x, 2, 15);
    return (x & 0x7f) == 0x7c ? BITS_F32((uint32_t)(x & 0x80) << 24 | 0x7f800000u) : NAN;
}
INLINE s_float8_e5m2 set_float8_e5m2(float x) {
    uint32_t code = IS_NAN8(x) ? 0x7fu : float8_code(x, 2, 15);
    return (uint8_t)(SIGN8(x) | (IS_NAN8(x) || code <= 0x7bu ? code : 0x7cu));
}
INLINE float get_float8_e4m3fnuz(s_float8_e4m3fnuz x) { return x == 0x80 ? NAN : float8_value(x, 3, 8); }
INLINE float get_float8_e5m2fnuz(s_float8_e5m2fnuz x) { return x == 0x80 ? NAN : float8_value(x, 2, 16); }
INLINE uint8_t float8_fnuz(float x, int m, int bias) {
    uint32_t code = IS_NAN8(x) ? 0x80u : float8_code(x, m, bias);
    return (uint8_t)(code > 0x7fu ? 0x80u : code ? SIGN8(x) | code : 0u);
}
INLINE s_float8_e4m3fnuz set_float8_e4m3fnuz(float x) { return float8_fnuz(x, 3, 8); }
INLINE s_float8_e5m2fnuz set_float8_e5m2fnuz(float x) { return float8_fnuz(x, 2, 16); }
INLINE float get_float8_e8m0fnu(s_float8_e8m0fnu x) {
    return BITS_F32(x == 255 ? 0x7fc00000u : x == 0 ? 0x400000u : (uint32_t)x << 23);
}
INLINE s_float8_e8m0fnu set_float8_e8m0fnu(float x) {
    uint32_t u = F32_BITS(x), exponent = u >> 23 & 255u, fraction = u & 0x7fffffu;
    return (uint8_t)(exponent == 255u ? 255u : exponent + (exponent ? fraction >= 0x400000u : fraction > 0x400000u));
}
#endif

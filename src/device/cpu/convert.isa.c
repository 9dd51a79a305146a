/* The loops that move and convert elements, compiled once per instruction set: plain C that the compiler vectorises.
 * The interface is in convert.h. The 16-bit floats and float8 meet the other types by way of float32, the complex
 * numbers made of 16-bit floats by way of complex64, so the table of pairs stays 13 by 13. */
#include "base/threads.h"
#include "device/cpu/convert.h"
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

/* Memory that others wrote as float or int64 is moved here as words of its size. */
typedef uint8_t __attribute__((may_alias)) word1;
typedef uint16_t __attribute__((may_alias)) word2;
typedef uint32_t __attribute__((may_alias)) word4;
typedef uint64_t __attribute__((may_alias)) word8;
typedef struct {
    uint64_t lo, hi;
} __attribute__((may_alias)) word16;

/* ---- One element from type to type ---- */
typedef uint8_t __attribute__((may_alias)) t_b8;
typedef uint8_t __attribute__((may_alias)) t_u8;
typedef int8_t __attribute__((may_alias)) t_i8;
typedef int16_t __attribute__((may_alias)) t_i16;
typedef int32_t __attribute__((may_alias)) t_i32;
typedef int64_t __attribute__((may_alias)) t_i64;
typedef uint16_t __attribute__((may_alias)) t_u16;
typedef uint32_t __attribute__((may_alias)) t_u32;
typedef uint64_t __attribute__((may_alias)) t_u64;
typedef float __attribute__((may_alias)) t_f32;
typedef double __attribute__((may_alias)) t_f64;
typedef struct {
    float re, im;
} __attribute__((may_alias)) t_c64;
typedef struct {
    double re, im;
} __attribute__((may_alias)) t_c128;

/* How a value is read, by its source type: as a real number, and whether it is true. */
#define REAL_b8(x)   ((x) != 0)
#define REAL_u8(x)   (x)
#define REAL_i8(x)   (x)
#define REAL_i16(x)  (x)
#define REAL_i32(x)  (x)
#define REAL_i64(x)  (x)
#define REAL_u16(x)  (x)
#define REAL_u32(x)  (x)
#define REAL_u64(x)  (x)
#define REAL_f32(x)  (x)
#define REAL_f64(x)  (x)
#define REAL_c64(x)  ((x).re)
#define REAL_c128(x) ((x).re)
#define IMAG_b8(x)   0
#define IMAG_u8(x)   0
#define IMAG_i8(x)   0
#define IMAG_i16(x)  0
#define IMAG_i32(x)  0
#define IMAG_i64(x)  0
#define IMAG_u16(x)  0
#define IMAG_u32(x)  0
#define IMAG_u64(x)  0
#define IMAG_f32(x)  0
#define IMAG_f64(x)  0
#define IMAG_c64(x)  ((x).im)
#define IMAG_c128(x) ((x).im)
/* A real number as an int32, wrapping for wider integers: the way to the narrow ones. */
#define NARROW(x) _Generic((x), int64_t : (int32_t)(uint32_t)(uint64_t)(x), default : (int32_t)(x))
/* Floating values above the signed range are shifted down into it and back, as x86's vectors have it; others wrap. */
#define UPPER_HALF(x, half, wide, narrow) \
    ((x) >= half ? (narrow)(wide)((x)-half) ^ (narrow)1 << (8 * sizeof(narrow) - 1) : (narrow)(wide)(x))
static inline uint32_t u32_of_f32(float x) { return UPPER_HALF(x, 0x1p31f, int32_t, uint32_t); }
static inline uint32_t u32_of_f64(double x) { return UPPER_HALF(x, 0x1p31, int32_t, uint32_t); }
static inline uint32_t u32_of_i64(int64_t x) { return (uint32_t)x; }
static inline uint64_t u64_of_f32(float x) { return UPPER_HALF(x, 0x1p63f, int64_t, uint64_t); }
static inline uint64_t u64_of_f64(double x) { return UPPER_HALF(x, 0x1p63, int64_t, uint64_t); }
static inline uint64_t u64_of_i64(int64_t x) { return (uint64_t)x; }

/* How it is written, by the target type. */
#define MAKE_b8(from, x)  ((uint8_t)((REAL_##from(x) != 0) | (IMAG_##from(x) != 0)))
#define MAKE_u8(from, x)  ((uint8_t)NARROW(REAL_##from(x)))
#define MAKE_i8(from, x)  ((int8_t)NARROW(REAL_##from(x)))
#define MAKE_i16(from, x) ((int16_t)NARROW(REAL_##from(x)))
#define MAKE_i32(from, x) NARROW(REAL_##from(x))
#define MAKE_i64(from, x) ((int64_t)REAL_##from(x))
#define MAKE_u16(from, x) ((uint16_t)NARROW(REAL_##from(x)))
#define MAKE_u32(from, x) \
    _Generic(REAL_##from(x), float : u32_of_f32, double : u32_of_f64, default : u32_of_i64)(REAL_##from(x))
#define MAKE_u64(from, x) \
    _Generic(REAL_##from(x), float : u64_of_f32, double : u64_of_f64, default : u64_of_i64)(REAL_##from(x))
#define MAKE_f32(from, x)  ((float)REAL_##from(x))
#define MAKE_f64(from, x)  ((double)REAL_##from(x))
#define MAKE_c64(from, x)  ((t_c64){(float)REAL_##from(x), (float)IMAG_##from(x)})
#define MAKE_c128(from, x) ((t_c128){(double)REAL_##from(x), (double)IMAG_##from(x)})

#define PAIR(from, to)                                                  \
    static void from##_to_##to(int64_t n, const char *src, char *dst) { \
        const t_##from *restrict s = (const t_##from *)src;             \
        t_##to *restrict d = (t_##to *)dst;                             \
        for (int64_t i = 0; i < n; i++) d[i] = MAKE_##to(from, s[i]);   \
    }
#define TO_ALL(from) \
    PAIR(from, b8)   \
    PAIR(from, u8)   \
    PAIR(from, i8)   \
    PAIR(from, i16)  \
    PAIR(from, i32)  \
    PAIR(from, i64)  \
    PAIR(from, u16)  \
    PAIR(from, u32)  \
    PAIR(from, u64)  \
    PAIR(from, f32)  \
    PAIR(from, f64)  \
    PAIR(from, c64)  \
    PAIR(from, c128)
TO_ALL(b8)
TO_ALL(u8)
TO_ALL(i8)
TO_ALL(i16)
TO_ALL(i32)
TO_ALL(i64)
TO_ALL(u16)
TO_ALL(u32)
TO_ALL(u64)
TO_ALL(f32)
TO_ALL(f64)
TO_ALL(c64)
TO_ALL(c128)

/* ---- The 16-bit floats ---- */
static void half_to_f32(int64_t n, const char *src, char *dst) {
    const word2 *restrict s = (const word2 *)src;
    t_f32 *restrict d = (t_f32 *)dst;
    int64_t i = 0;
#ifdef __AVX512F__
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(s + i))));
#endif
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps((float *)(d + i), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i))));
    for (; i < n; i++) d[i] = _cvtsh_ss(s[i]);
#else
    for (; i < n; i++) d[i] = tpi_half_to_float(s[i]);
#endif
}

static void f32_to_half(int64_t n, const char *src, char *dst) {
    const t_f32 *restrict s = (const t_f32 *)src;
    word2 *restrict d = (word2 *)dst;
    int64_t i = 0;
#ifdef __AVX512F__
    for (; i + 16 <= n; i += 16) _mm256_storeu_si256((__m256i *)(d + i), _mm512_cvtps_ph(_mm512_loadu_ps(s + i), 0));
#endif
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps((const float *)(s + i)), 0));
    for (; i < n; i++) d[i] = (uint16_t)_cvtss_sh(s[i], 0);
#else
    for (; i < n; i++) d[i] = tpi_float_to_half(s[i]);
#endif
}

static void bf16_to_f32(int64_t n, const char *src, char *dst) {
    const word2 *restrict s = (const word2 *)src;
    word4 *restrict d = (word4 *)dst;
    for (int64_t i = 0; i < n; i++) d[i] = (uint32_t)s[i] << 16;
}

static void f32_to_bf16(int64_t n, const char *src, char *dst) { /* tpi_float_to_bf16 over the bits, without branches */
    const word4 *restrict s = (const word4 *)src;
    word2 *restrict d = (word2 *)dst;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = s[i];
        uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        d[i] = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
    }
}

/* ---- Complex numbers made of them are twice as many reals ---- */
static void chalf_to_c64(int64_t n, const char *src, char *dst) { half_to_f32(2 * n, src, dst); }
static void c64_to_chalf(int64_t n, const char *src, char *dst) { f32_to_half(2 * n, src, dst); }
static void bchalf_to_c64(int64_t n, const char *src, char *dst) { bf16_to_f32(2 * n, src, dst); }
static void c64_to_bchalf(int64_t n, const char *src, char *dst) { f32_to_bf16(2 * n, src, dst); }

/* ---- Float8: long runs look their 256 values up ---- */
static void float8_to_f32(int64_t n, const char *src, char *dst, tp_dtype dtype) {
    const word1 *restrict s = (const word1 *)src;
    t_f32 *restrict d = (t_f32 *)dst;
    if (n < 256) {
        for (int64_t i = 0; i < n; i++) d[i] = tpi_float8_to_float(s[i], dtype);
        return;
    }
    float value[256];
    for (int code = 0; code < 256; code++) value[code] = tpi_float8_to_float((uint8_t)code, dtype);
    for (int64_t i = 0; i < n; i++) d[i] = value[s[i]];
}

#define FLOAT8(name, dtype)                                                                                      \
    static void name##_to_f32(int64_t n, const char *src, char *dst) { float8_to_f32(n, src, dst, dtype); }      \
    static void f32_to_##name(int64_t n, const char *src, char *dst) {                                           \
        for (int64_t i = 0; i < n; i++) ((word1 *)dst)[i] = tpi_float_to_float8(((const t_f32 *)src)[i], dtype); \
    }
FLOAT8(e4m3fn, TP_FLOAT8_E4M3FN)
FLOAT8(e5m2, TP_FLOAT8_E5M2)
FLOAT8(e4m3fnuz, TP_FLOAT8_E4M3FNUZ)
FLOAT8(e5m2fnuz, TP_FLOAT8_E5M2FNUZ)
FLOAT8(e8m0fnu, TP_FLOAT8_E8M0FNU)

/* ---- The table of pairs ---- */
enum { VALUED = TP_BCOMPLEX32 + 1 }; /* dtypes from here on have no values to convert */
typedef void (*pair_fn)(int64_t n, const char *src, char *dst);
#define COLUMNS(from)                                                                                          \
    [TP_BOOL] = from##_to_b8, [TP_UINT8] = from##_to_u8, [TP_INT8] = from##_to_i8, [TP_INT16] = from##_to_i16, \
    [TP_INT32] = from##_to_i32, [TP_INT64] = from##_to_i64, [TP_FLOAT32] = from##_to_f32,                      \
    [TP_FLOAT64] = from##_to_f64, [TP_COMPLEX64] = from##_to_c64, [TP_COMPLEX128] = from##_to_c128,            \
    [TP_UINT16] = from##_to_u16, [TP_UINT32] = from##_to_u32, [TP_UINT64] = from##_to_u64
static const pair_fn pairs[VALUED][VALUED] = {
    [TP_BOOL] = {COLUMNS(b8)},
    [TP_UINT8] = {COLUMNS(u8)},
    [TP_INT8] = {COLUMNS(i8)},
    [TP_INT16] = {COLUMNS(i16)},
    [TP_INT32] = {COLUMNS(i32)},
    [TP_INT64] = {COLUMNS(i64)},
    [TP_FLOAT64] = {COLUMNS(f64)},
    [TP_COMPLEX128] = {COLUMNS(c128)},
    [TP_UINT16] = {COLUMNS(u16)},
    [TP_UINT32] = {COLUMNS(u32)},
    [TP_UINT64] = {COLUMNS(u64)},
    [TP_FLOAT32] =
        {COLUMNS(f32), [TP_FLOAT16] = f32_to_half, [TP_BFLOAT16] = f32_to_bf16, [TP_FLOAT8_E4M3FN] = f32_to_e4m3fn,
         [TP_FLOAT8_E5M2] = f32_to_e5m2, [TP_FLOAT8_E4M3FNUZ] = f32_to_e4m3fnuz, [TP_FLOAT8_E5M2FNUZ] = f32_to_e5m2fnuz,
         [TP_FLOAT8_E8M0FNU] = f32_to_e8m0fnu},
    [TP_COMPLEX64] = {COLUMNS(c64), [TP_COMPLEX32] = c64_to_chalf, [TP_BCOMPLEX32] = c64_to_bchalf},
    [TP_FLOAT16] = {[TP_FLOAT32] = half_to_f32},
    [TP_BFLOAT16] = {[TP_FLOAT32] = bf16_to_f32},
    [TP_FLOAT8_E4M3FN] = {[TP_FLOAT32] = e4m3fn_to_f32},
    [TP_FLOAT8_E5M2] = {[TP_FLOAT32] = e5m2_to_f32},
    [TP_FLOAT8_E4M3FNUZ] = {[TP_FLOAT32] = e4m3fnuz_to_f32},
    [TP_FLOAT8_E5M2FNUZ] = {[TP_FLOAT32] = e5m2fnuz_to_f32},
    [TP_FLOAT8_E8M0FNU] = {[TP_FLOAT32] = e8m0fnu_to_f32},
    [TP_COMPLEX32] = {[TP_COMPLEX64] = chalf_to_c64},
    [TP_BCOMPLEX32] = {[TP_COMPLEX64] = bchalf_to_c64},
};

/* By way of which dtype does one meet those that it has no pair with? */
static int way_of(int dtype) {
    if (dtype == TP_COMPLEX32 || dtype == TP_BCOMPLEX32) return TP_COMPLEX64;
    return dtype == TP_FLOAT16 || dtype == TP_BFLOAT16 || tpi_dtype_group[dtype] == TPI_CAT_FLOAT8 ? TP_FLOAT32 : dtype;
}

static void convert_by_way(int64_t n, const char *src, int from, int middle, char *dst, int to) {
    enum { STEP = 512 };
    int64_t in = tpi_dtype_bytes[from], out = tpi_dtype_bytes[to];
    tpi_c64 between[STEP]; /* or as many floats */
    for (int64_t i = 0; i < n; i += STEP) {
        int64_t m = n - i < STEP ? n - i : STEP;
        TPI_ISA(tpi_convert_run)(m, src + i * in, from, (char *)between, middle);
        TPI_ISA(tpi_convert_run)(m, (const char *)between, middle, dst + i * out, to);
    }
}

void TPI_ISA(tpi_convert_run)(int64_t n, const char *src, int from, char *dst, int to) {
    if (from == to) {
        memcpy(dst, src, (size_t)(n * tpi_dtype_bytes[from]));
        return;
    }
    if (from >= VALUED || to >= VALUED) return; /* copies of such dtypes are refused (copy.c) */
    pair_fn direct = pairs[from][to];
    if (direct)
        direct(n, src, dst);
    else
        convert_by_way(n, src, from, way_of(from) != from ? way_of(from) : way_of(to), dst, to);
}

/* ---- Strided elements ---- */
#define STRIDED(word)                                                                                                \
    static void pack_##word(int64_t rows, int64_t cols, const char *restrict src, int64_t row, int64_t col,          \
                            char *restrict dst) {                                                                    \
        word *restrict d = (word *)dst;                                                                              \
        if (cols <= 8) { /* short rows: long loops down the columns */                                               \
            for (int64_t c = 0; c < cols; c++)                                                                       \
                for (int64_t r = 0; r < rows; r++) d[r * cols + c] = *(const word *)(src + r * row + c * col);       \
            return;                                                                                                  \
        }                                                                                                            \
        if (col == (int64_t)sizeof(word)) {                                                                          \
            for (int64_t r = 0; r < rows; r++, d += cols)                                                            \
                for (int64_t c = 0; c < cols; c++) d[c] = ((const word *)(src + r * row))[c];                        \
            return;                                                                                                  \
        }                                                                                                            \
        if (col == 2 * (int64_t)sizeof(word)) { /* every other one: a stride that the compiler knows */              \
            for (int64_t r = 0; r < rows; r++, d += cols)                                                            \
                for (int64_t c = 0; c < cols; c++) d[c] = ((const word *)(src + r * row))[2 * c];                    \
            return;                                                                                                  \
        }                                                                                                            \
        if (col == -(int64_t)sizeof(word)) {                                                                         \
            for (int64_t r = 0; r < rows; r++, d += cols)                                                            \
                for (int64_t c = 0; c < cols; c++) d[c] = ((const word *)(src + r * row))[-c];                       \
            return;                                                                                                  \
        }                                                                                                            \
        if (col == 0) {                                                                                              \
            for (int64_t r = 0; r < rows; r++, d += cols) {                                                          \
                const word v = *(const word *)(src + r * row);                                                       \
                for (int64_t c = 0; c < cols; c++) d[c] = v;                                                         \
            }                                                                                                        \
            return;                                                                                                  \
        }                                                                                                            \
        for (int64_t r = 0; r < rows; r++)                                                                           \
            for (int64_t c = 0; c < cols; c++) *d++ = *(const word *)(src + r * row + c * col);                      \
    }                                                                                                                \
    static void unpack_##word(int64_t rows, int64_t cols, const char *restrict src, char *restrict dst, int64_t row, \
                              int64_t col) {                                                                         \
        const word *restrict s = (const word *)src;                                                                  \
        if (cols <= 8) {                                                                                             \
            for (int64_t c = 0; c < cols; c++)                                                                       \
                for (int64_t r = 0; r < rows; r++) *(word *)(dst + r * row + c * col) = s[r * cols + c];             \
            return;                                                                                                  \
        }                                                                                                            \
        for (int64_t r = 0; r < rows; r++)                                                                           \
            for (int64_t c = 0; c < cols; c++) *(word *)(dst + r * row + c * col) = *s++;                            \
    }                                                                                                                \
    static void repeat_##word(int64_t n, const char *element, char *dst) {                                           \
        const word v = *(const word *)element;                                                                       \
        word *restrict d = (word *)dst;                                                                              \
        for (int64_t i = 0; i < n; i++) d[i] = v;                                                                    \
    }
STRIDED(word1)
STRIDED(word2)
STRIDED(word4)
STRIDED(word8)
STRIDED(word16)

void TPI_ISA(tpi_pack_rows)(int64_t rows, int64_t cols, const char *src, int64_t row, int64_t col, char *dst,
                            int size) {
    if (col == size && cols * size >= 64) {
        for (int64_t r = 0; r < rows; r++) memcpy(dst + r * cols * size, src + r * row, (size_t)(cols * size));
        return;
    }
    switch (size) {
    case 1: pack_word1(rows, cols, src, row, col, dst); break;
    case 2: pack_word2(rows, cols, src, row, col, dst); break;
    case 4: pack_word4(rows, cols, src, row, col, dst); break;
    case 8: pack_word8(rows, cols, src, row, col, dst); break;
    default: pack_word16(rows, cols, src, row, col, dst); break;
    }
}

void TPI_ISA(tpi_unpack_rows)(int64_t rows, int64_t cols, const char *src, char *dst, int64_t row, int64_t col,
                              int size) {
    if (col == size && cols * size >= 64) {
        for (int64_t r = 0; r < rows; r++) memcpy(dst + r * row, src + r * cols * size, (size_t)(cols * size));
        return;
    }
    switch (size) {
    case 1: unpack_word1(rows, cols, src, dst, row, col); break;
    case 2: unpack_word2(rows, cols, src, dst, row, col); break;
    case 4: unpack_word4(rows, cols, src, dst, row, col); break;
    case 8: unpack_word8(rows, cols, src, dst, row, col); break;
    default: unpack_word16(rows, cols, src, dst, row, col); break;
    }
}

void TPI_ISA(tpi_repeat)(int64_t n, const char *element, char *dst, int size) {
    switch (size) {
    case 1: repeat_word1(n, element, dst); break;
    case 2: repeat_word2(n, element, dst); break;
    case 4: repeat_word4(n, element, dst); break;
    case 8: repeat_word8(n, element, dst); break;
    default: repeat_word16(n, element, dst); break;
    }
}

/* ---- Past the caches ---- */
/* Whole cache lines: dst is a multiple of one. */
static inline void stream_lines(int64_t lines, const char *src, char *dst) {
#ifdef __SSE2__
    for (; lines > 0; src += 64, dst += 64, lines--) {
#ifdef __AVX__
        for (int i = 0; i < 2; i++)
            _mm256_stream_si256((__m256i *)dst + i, _mm256_loadu_si256((const __m256i *)src + i));
#else
        for (int i = 0; i < 4; i++) _mm_stream_si128((__m128i *)dst + i, _mm_loadu_si128((const __m128i *)src + i));
#endif
    }
#else
    memcpy(dst, src, (size_t)(lines * 64));
#endif
}

void TPI_ISA(tpi_nontemporal_copy)(int64_t bytes, const char *src, char *dst) {
    int64_t head = -(intptr_t)dst & 63; /* lines are streamed, what is around them stored */
    if (head + 64 <= bytes) {
        if (head) memcpy(dst, src, (size_t)head);
        int64_t lines = (bytes - head) / 64;
        stream_lines(lines, src + head, dst + head);
        head += lines * 64;
        src += head;
        dst += head;
        bytes -= head;
    }
    if (bytes) memcpy(dst, src, (size_t)bytes);
}

void TPI_ISA(tpi_nontemporal_end)(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

void TPI_ISA(tpi_nontemporal_rows)(int64_t rows, int64_t bytes, const char *src, int64_t src_row, char *dst,
                                   int64_t dst_row, const tpi_ahead *next) {
    const int64_t each = tpi_ceil_div(next->rows, rows);
    const char *ahead = next->at;
    int64_t left = next->rows;
    const bool whole = (((uintptr_t)dst | (uintptr_t)dst_row | (uintptr_t)bytes) & 63) == 0;
    for (int64_t r = 0; r < rows; r++, src += src_row, dst += dst_row) {
        for (int64_t k = 0; k < each && left > 0; k++, left--, ahead += next->row)
            for (int64_t at = 0; at < next->bytes; at += 64) __builtin_prefetch(ahead + at, 0, 2);
        if (whole)
            stream_lines(bytes / 64, src, dst);
        else
            TPI_ISA(tpi_nontemporal_copy)(bytes, src, dst);
    }
}

/* ---- Transposition ---- */
/* By squares in registers, two at a time, one in each half of a register: interleaving row i with row i + side/2,
 * log2(side) times over, turns a square. Where the shape is no multiple, the last squares overlap those before; what is
 * smaller goes element by element. */
#define COUNT_4           0, 1, 2, 3
#define COUNT_8           COUNT_4, 4, 5, 6, 7
#define COUNT_16          COUNT_8, 8, 9, 10, 11, 12, 13, 14, 15
#define COUNT_32          COUNT_16, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
#define INTERLEAVE_2_LOW  0, 4, 2, 6
#define INTERLEAVE_2_HIGH 1, 5, 3, 7
#define INTERLEAVE_4_LOW  0, 8, 1, 9, 4, 12, 5, 13
#define INTERLEAVE_4_HIGH 2, 10, 3, 11, 6, 14, 7, 15
#define INTERLEAVE_8_LOW  0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27
#define INTERLEAVE_8_HIGH 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31
#define INTERLEAVE_16_LOW                                                                                           \
    0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, \
        23, 55
#define INTERLEAVE_16_HIGH                                                                                            \
    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, \
        62, 31, 63
#define EDGE(word, r, c)                                         \
    *(word *)(dst + (c)*dst_row + (r) * (int64_t)sizeof(word)) = \
        *(const word *)(src + (r)*src_row + (c) * (int64_t)sizeof(word))

#define SQUARES(word, side, count)                                                                             \
    typedef word __attribute__((vector_size(32))) pair_##word;                                                 \
    typedef word __attribute__((vector_size(16), aligned(sizeof(word)))) half_##word;                          \
    typedef word __attribute__((vector_size(32), aligned(sizeof(word)))) loose_##word;                         \
    static inline void transpose_square_##word(const char *src, int64_t src_row, char *dst, int64_t dst_row) { \
        pair_##word a[side], b[side];                                                                          \
        for (int i = 0; i < side; i++) {                                                                       \
            const half_##word low = *(const half_##word *)(src + i * src_row),                                 \
                              high = *(const half_##word *)(src + (i + side) * src_row);                       \
            a[i] = __builtin_shufflevector(low, high, count);                                                  \
        }                                                                                                      \
        for (int step = 1; step < side; step *= 2) {                                                           \
            for (int i = 0; i < side / 2; i++) {                                                               \
                b[2 * i] = __builtin_shufflevector(a[i], a[i + side / 2], INTERLEAVE_##side##_LOW);            \
                b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + side / 2], INTERLEAVE_##side##_HIGH);       \
            }                                                                                                  \
            for (int i = 0; i < side; i++) a[i] = b[i];                                                        \
        }                                                                                                      \
        for (int i = 0; i < side; i++) *(loose_##word *)(dst + i * dst_row) = a[i];                            \
    }                                                                                                          \
    static void transpose_##word(int64_t rows, int64_t cols, const char *restrict src, int64_t src_row,        \
                                 char *restrict dst, int64_t dst_row) {                                        \
        if (rows < 2 * side || cols < side) {                                                                  \
            for (int64_t c = 0; c < cols; c++)                                                                 \
                for (int64_t r = 0; r < rows; r++) EDGE(word, r, c);                                           \
            return;                                                                                            \
        }                                                                                                      \
        for (int64_t at = 0; at < rows; at += 2 * side) {                                                      \
            const int64_t r = at + 2 * side <= rows ? at : rows - 2 * side;                                    \
            for (int64_t to = 0; to < cols; to += side) {                                                      \
                const int64_t c = to + side <= cols ? to : cols - side;                                        \
                transpose_square_##word(src + r * src_row + c * (int64_t)sizeof(word), src_row,                \
                                        dst + c * dst_row + r * (int64_t)sizeof(word), dst_row);               \
            }                                                                                                  \
        }                                                                                                      \
    }
SQUARES(word1, 16, COUNT_32)
SQUARES(word2, 8, COUNT_16)
SQUARES(word4, 4, COUNT_8)
SQUARES(word8, 2, COUNT_4)

static void transpose_word16(int64_t rows, int64_t cols, const char *restrict src, int64_t src_row, char *restrict dst,
                             int64_t dst_row) {
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = 0; r < rows; r++) EDGE(word16, r, c);
}

void TPI_ISA(tpi_transpose)(int64_t rows, int64_t cols, const char *src, int64_t src_row, char *dst, int64_t dst_row,
                            int size) {
    switch (size) {
    case 1: transpose_word1(rows, cols, src, src_row, dst, dst_row); break;
    case 2: transpose_word2(rows, cols, src, src_row, dst, dst_row); break;
    case 4: transpose_word4(rows, cols, src, src_row, dst, dst_row); break;
    case 8: transpose_word8(rows, cols, src, src_row, dst, dst_row); break;
    default: transpose_word16(rows, cols, src, src_row, dst, dst_row); break;
    }
}

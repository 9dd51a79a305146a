/* See combine.h. Half and bfloat16 combine in float and are rounded at every step, bool is `or` and `and`. */
#include "ops/index/combine.h"
#include "device/cpu/convert.h"
#include <string.h>

static inline tpi_c64 add_c64(tpi_c64 a, tpi_c64 b) { return (tpi_c64){a.re + b.re, a.im + b.im}; }
static inline tpi_c64 mul_c64(tpi_c64 a, tpi_c64 b) {
    return (tpi_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static inline tpi_c128 add_c128(tpi_c128 a, tpi_c128 b) { return (tpi_c128){a.re + b.re, a.im + b.im}; }
static inline tpi_c128 mul_c128(tpi_c128 a, tpi_c128 b) {
    return (tpi_c128){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

#define SAME(x)       (x)
#define PLUS(a, b)    ((a) + (b))
#define TIMES(a, b)   ((a) * (b))
#define LARGER(a, b)  ((a) > (b) || (a) != (a) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

#define NAME      combine_bool
#define STORED    uint8_t
#define T         int
#define LOAD      SAME
#define STORE(x)  (uint8_t)(x)
#define ADD(a, b) ((a) | (b))
#define MUL(a, b) ((a) & (b))
#define MAX(a, b) ((a) | (b))
#define MIN(a, b) ((a) & (b))
#include "ops/index/combine_typed.h"

#define NAME     combine_u8
#define STORED   uint8_t
#define T        uint32_t
#define LOAD     SAME
#define STORE(x) (uint8_t)(x)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_i8
#define STORED   int8_t
#define T        int32_t
#define LOAD     SAME
#define STORE(x) (int8_t)(x)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_i16
#define STORED   int16_t
#define T        int32_t
#define LOAD     SAME
#define STORE(x) (int16_t)(x)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

/* Wider integers wrap: sums and products go through unsigned. */
#define NAME      combine_i32
#define STORED    int32_t
#define T         int32_t
#define LOAD      SAME
#define STORE(x)  (int32_t)(x)
#define ADD(a, b) ((uint32_t)(a) + (uint32_t)(b))
#define MUL(a, b) ((uint32_t)(a) * (uint32_t)(b))
#define MAX       LARGER
#define MIN       SMALLER
#include "ops/index/combine_typed.h"

#define NAME      combine_i64
#define STORED    int64_t
#define T         int64_t
#define LOAD      SAME
#define STORE(x)  (int64_t)(x)
#define ADD(a, b) ((uint64_t)(a) + (uint64_t)(b))
#define MUL(a, b) ((uint64_t)(a) * (uint64_t)(b))
#define MAX       LARGER
#define MIN       SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_u16
#define STORED   uint16_t
#define T        uint32_t
#define LOAD     SAME
#define STORE(x) (uint16_t)(x)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_u32
#define STORED   uint32_t
#define T        uint32_t
#define LOAD     SAME
#define STORE(x) (uint32_t)(x)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_u64
#define STORED   uint64_t
#define T        uint64_t
#define LOAD     SAME
#define STORE(x) (uint64_t)(x)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_e4m3fn
#define STORED   uint8_t
#define T        float
#define LOAD(x)  tpi_float8_to_float(x, TP_FLOAT8_E4M3FN)
#define STORE(x) tpi_float_to_float8(x, TP_FLOAT8_E4M3FN)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_e5m2
#define STORED   uint8_t
#define T        float
#define LOAD(x)  tpi_float8_to_float(x, TP_FLOAT8_E5M2)
#define STORE(x) tpi_float_to_float8(x, TP_FLOAT8_E5M2)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_e4m3fnuz
#define STORED   uint8_t
#define T        float
#define LOAD(x)  tpi_float8_to_float(x, TP_FLOAT8_E4M3FNUZ)
#define STORE(x) tpi_float_to_float8(x, TP_FLOAT8_E4M3FNUZ)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_e5m2fnuz
#define STORED   uint8_t
#define T        float
#define LOAD(x)  tpi_float8_to_float(x, TP_FLOAT8_E5M2FNUZ)
#define STORE(x) tpi_float_to_float8(x, TP_FLOAT8_E5M2FNUZ)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME     combine_e8m0fnu
#define STORED   uint8_t
#define T        float
#define LOAD(x)  tpi_float8_to_float(x, TP_FLOAT8_E8M0FNU)
#define STORE(x) tpi_float_to_float8(x, TP_FLOAT8_E8M0FNU)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      LARGER
#define MIN      SMALLER
#include "ops/index/combine_typed.h"

#define NAME   combine_f16
#define STORED uint16_t
#define T      float
#define LOAD   tpi_half_to_float
#define STORE  tpi_float_to_half
#define ADD    PLUS
#define MUL    TIMES
#define MAX    LARGER
#define MIN    SMALLER
#include "ops/index/combine_typed.h"

#define NAME   combine_bf16
#define STORED uint16_t
#define T      float
#define LOAD   tpi_bf16_to_float
#define STORE  tpi_float_to_bf16
#define ADD    PLUS
#define MUL    TIMES
#define MAX    LARGER
#define MIN    SMALLER
#include "ops/index/combine_typed.h"

#define NAME   combine_f32
#define STORED float
#define T      float
#define LOAD   SAME
#define STORE  SAME
#define ADD    PLUS
#define MUL    TIMES
#define MAX    LARGER
#define MIN    SMALLER
#include "ops/index/combine_typed.h"

#define NAME   combine_f64
#define STORED double
#define T      double
#define LOAD   SAME
#define STORE  SAME
#define ADD    PLUS
#define MUL    TIMES
#define MAX    LARGER
#define MIN    SMALLER
#include "ops/index/combine_typed.h"

#define NAME   combine_c64
#define STORED tpi_c64
#define T      tpi_c64
#define LOAD   SAME
#define STORE  SAME
#define ADD    add_c64
#define MUL    mul_c64
#include "ops/index/combine_typed.h"

#define NAME   combine_c128
#define STORED tpi_c128
#define T      tpi_c128
#define LOAD   SAME
#define STORE  SAME
#define ADD    add_c128
#define MUL    mul_c128
#include "ops/index/combine_typed.h"

/* Complex numbers of two 16-bit floats. */
typedef struct {
    uint16_t re, im;
} pair16;
static tpi_c64 load_chalf(pair16 x) { return (tpi_c64){tpi_half_to_float(x.re), tpi_half_to_float(x.im)}; }
static pair16 store_chalf(tpi_c64 x) { return (pair16){tpi_float_to_half(x.re), tpi_float_to_half(x.im)}; }
static tpi_c64 load_bchalf(pair16 x) { return (tpi_c64){tpi_bf16_to_float(x.re), tpi_bf16_to_float(x.im)}; }
static pair16 store_bchalf(tpi_c64 x) { return (pair16){tpi_float_to_bf16(x.re), tpi_float_to_bf16(x.im)}; }

#define NAME   combine_chalf
#define STORED pair16
#define T      tpi_c64
#define LOAD   load_chalf
#define STORE  store_chalf
#define ADD    add_c64
#define MUL    mul_c64
#include "ops/index/combine_typed.h"

#define NAME   combine_bchalf
#define STORED pair16
#define T      tpi_c64
#define LOAD   load_bchalf
#define STORE  store_bchalf
#define ADD    add_c64
#define MUL    mul_c64
#include "ops/index/combine_typed.h"

typedef void (*combine_fn)(tpi_combine_op op, const tpi_places *p);
static const combine_fn by_dtype[TP_DTYPE_COUNT] = {
    [TP_BOOL] = combine_bool,
    [TP_UINT8] = combine_u8,
    [TP_INT8] = combine_i8,
    [TP_INT16] = combine_i16,
    [TP_INT32] = combine_i32,
    [TP_INT64] = combine_i64,
    [TP_FLOAT16] = combine_f16,
    [TP_BFLOAT16] = combine_bf16,
    [TP_FLOAT32] = combine_f32,
    [TP_FLOAT64] = combine_f64,
    [TP_COMPLEX64] = combine_c64,
    [TP_COMPLEX128] = combine_c128,
    [TP_UINT16] = combine_u16,
    [TP_UINT32] = combine_u32,
    [TP_UINT64] = combine_u64,
    [TP_COMPLEX32] = combine_chalf,
    [TP_BCOMPLEX32] = combine_bchalf,
    [TP_FLOAT8_E4M3FN] = combine_e4m3fn,
    [TP_FLOAT8_E5M2] = combine_e5m2,
    [TP_FLOAT8_E4M3FNUZ] = combine_e4m3fnuz,
    [TP_FLOAT8_E5M2FNUZ] = combine_e5m2fnuz,
    [TP_FLOAT8_E8M0FNU] = combine_e8m0fnu,
};

bool tpi_check_combine(tpi_combine_op op, tp_dtype dtype, const char *argument) {
    if ((op == TPI_MAX || op == TPI_MIN) && tp_dtype_is_complex(dtype))
        return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': complex numbers have no largest or smallest", argument);
    return true;
}

/* ---- Plain moves, by size ---- */
typedef struct {
    uint64_t half[2];
} bytes16;

#define MOVE(type, to, from)                                                                        \
    for (int64_t r = 0; r < p->rows; r++) {                                                         \
        const int64_t *index = p->index + r * p->index_row;                                         \
        char *plain = p->plain + r * p->plain_row;                                                  \
        if (p->index_col == 0) {                                                                    \
            char *indexed = p->indexed + *index * p->scale;                                         \
            for (int64_t c = 0; c < p->cols; c++, indexed += p->indexed_col, plain += p->plain_col) \
                *(type *)(void *)to = *(const type *)(const void *)from;                            \
            continue;                                                                               \
        }                                                                                           \
        for (int64_t c = 0; c < p->cols; c++, plain += p->plain_col) {                              \
            char *indexed = p->indexed + index[c * p->index_col] * p->scale + c * p->indexed_col;   \
            *(type *)(void *)to = *(const type *)(const void *)from;                                \
        }                                                                                           \
    }

/* Contiguous elements, each with an index of its own into a contiguous line. */
static bool lines_of(size_t itemsize, const tpi_places *p) {
    const int64_t size = (int64_t)itemsize;
    return p->index_col == 1 && p->indexed_col == 0 && p->plain_col == size && p->scale == size &&
           (size == sizeof(uint32_t) || size == sizeof(uint64_t));
}

#define PUT_LINES(type)                                                               \
    for (int64_t r = 0; r < p->rows; r++) {                                           \
        const int64_t *index = p->index + r * p->index_row;                           \
        const type *from = (const type *)(const void *)(p->plain + r * p->plain_row); \
        type *to = (type *)(void *)p->indexed;                                        \
        for (int64_t c = 0, cols = p->cols; c < cols; c++) to[index[c]] = from[c];    \
    }
#define FETCH_LINES(type)                                                          \
    for (int64_t r = 0; r < p->rows; r++) {                                        \
        const int64_t *restrict index = p->index + r * p->index_row;               \
        const type *restrict from = (const type *)(const void *)p->indexed;        \
        type *restrict to = (type *)(void *)(p->plain + r * p->plain_row);         \
        for (int64_t c = 0, cols = p->cols; c < cols; c++) to[c] = from[index[c]]; \
    }

/* Rows of contiguous elements, one index each. */
static bool whole_rows(size_t itemsize, const tpi_places *p) {
    return p->index_col == 0 && p->indexed_col == (int64_t)itemsize && p->plain_col == (int64_t)itemsize &&
           p->cols * (int64_t)itemsize >= 32;
}

/* A row past the caches, with the next one, which no hardware guesses, on its way meanwhile. */
static void stream_row(int64_t bytes, const char *from, char *to, const char *next) {
    enum { PART = 4096 };
    for (int64_t at = 0; at < bytes; at += PART) {
        int64_t n = bytes - at < PART ? bytes - at : PART;
        tpi_ahead ahead = {next + at, 1, n, 0};
        TPI_ISA_PICK(tpi_stream_rows)(1, n, from + at, 0, to + at, 0, &ahead);
    }
}

void tpi_fetch(size_t itemsize, const tpi_places *p) {
    if (whole_rows(itemsize, p)) {
        size_t bytes = (size_t)p->cols * itemsize;
        bool stream = p->plain_bytes >= tpi_stream_bytes() && bytes >= 256;
        for (int64_t r = 0; r < p->rows; r++) {
            const char *from = p->indexed + p->index[r * p->index_row] * p->scale;
            char *to = p->plain + r * p->plain_row;
            if (stream) {
                stream_row((int64_t)bytes, from, to,
                           r + 1 < p->rows ? p->indexed + p->index[(r + 1) * p->index_row] * p->scale : from);
                continue;
            }
            if (r + 8 < p->rows) __builtin_prefetch(p->indexed + p->index[(r + 8) * p->index_row] * p->scale);
            memcpy(to, from, bytes);
        }
        if (stream) TPI_ISA_PICK(tpi_stream_end)();
        return;
    }
    if (lines_of(itemsize, p)) {
        if (itemsize == sizeof(uint32_t))
            FETCH_LINES(uint32_t)
        else
            FETCH_LINES(uint64_t)
        return;
    }
    switch (itemsize) {
    case 1: MOVE(uint8_t, plain, indexed) break;
    case 2: MOVE(uint16_t, plain, indexed) break;
    case 4: MOVE(uint32_t, plain, indexed) break;
    case 8: MOVE(uint64_t, plain, indexed) break;
    default: MOVE(bytes16, plain, indexed) break;
    }
}

static void put(size_t itemsize, const tpi_places *p) {
    if (whole_rows(itemsize, p)) {
        size_t bytes = (size_t)p->cols * itemsize;
        for (int64_t r = 0; r < p->rows; r++)
            memcpy(p->indexed + p->index[r * p->index_row] * p->scale, p->plain + r * p->plain_row, bytes);
        return;
    }
    if (lines_of(itemsize, p)) {
        if (itemsize == sizeof(uint32_t))
            PUT_LINES(uint32_t)
        else
            PUT_LINES(uint64_t)
        return;
    }
    switch (itemsize) {
    case 1: MOVE(uint8_t, indexed, plain) break;
    case 2: MOVE(uint16_t, indexed, plain) break;
    case 4: MOVE(uint32_t, indexed, plain) break;
    case 8: MOVE(uint64_t, indexed, plain) break;
    default: MOVE(bytes16, indexed, plain) break;
    }
}

void tpi_combine(tpi_combine_op op, tp_dtype dtype, const tpi_places *at) {
    if (op == TPI_PUT)
        put(tpi_dtype_bytes[dtype], at);
    else
        by_dtype[dtype](op, at);
}

/* See combine.h. Half and bfloat16 combine in float and are rounded at every step, bool is `or` and `and`. */
#include "ops/index/combine.h"
#include "device/cpu/convert.h"
#include "ops/embedding/bag_rows.h"
#include "ops/index/combine_choices.h"
#include <string.h>

static inline tpi_c64 add_c64(tpi_c64 a, tpi_c64 b) { return (tpi_c64){a.re + b.re, a.im + b.im}; }
static inline tpi_c64 mul_c64(tpi_c64 a, tpi_c64 b) {
    return (tpi_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static inline tpi_c128 add_c128(tpi_c128 a, tpi_c128 b) { return (tpi_c128){a.re + b.re, a.im + b.im}; }
static inline tpi_c128 mul_c128(tpi_c128 a, tpi_c128 b) {
    return (tpi_c128){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

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
#define MAX      larger_f32
#define MIN      smaller_f32
#include "ops/index/combine_typed.h"

#define NAME     combine_e5m2
#define STORED   uint8_t
#define T        float
#define LOAD(x)  tpi_float8_to_float(x, TP_FLOAT8_E5M2)
#define STORE(x) tpi_float_to_float8(x, TP_FLOAT8_E5M2)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      larger_f32
#define MIN      smaller_f32
#include "ops/index/combine_typed.h"

#define NAME     combine_e4m3fnuz
#define STORED   uint8_t
#define T        float
#define LOAD(x)  tpi_float8_to_float(x, TP_FLOAT8_E4M3FNUZ)
#define STORE(x) tpi_float_to_float8(x, TP_FLOAT8_E4M3FNUZ)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      larger_f32
#define MIN      smaller_f32
#include "ops/index/combine_typed.h"

#define NAME     combine_e5m2fnuz
#define STORED   uint8_t
#define T        float
#define LOAD(x)  tpi_float8_to_float(x, TP_FLOAT8_E5M2FNUZ)
#define STORE(x) tpi_float_to_float8(x, TP_FLOAT8_E5M2FNUZ)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      larger_f32
#define MIN      smaller_f32
#include "ops/index/combine_typed.h"

#define NAME     combine_e8m0fnu
#define STORED   uint8_t
#define T        float
#define LOAD(x)  tpi_float8_to_float(x, TP_FLOAT8_E8M0FNU)
#define STORE(x) tpi_float_to_float8(x, TP_FLOAT8_E8M0FNU)
#define ADD      PLUS
#define MUL      TIMES
#define MAX      larger_f32
#define MIN      smaller_f32
#include "ops/index/combine_typed.h"

static void combine_f16(tpi_combine_op op, const tpi_indexed_block *p) { TPI_ISA_PICK(tpi_combine_f16)(op, p); }
static void combine_bf16(tpi_combine_op op, const tpi_indexed_block *p) { TPI_ISA_PICK(tpi_combine_bf16)(op, p); }

#define NAME   combine_f32
#define STORED float
#define T      float
#define LOAD   SAME
#define STORE  SAME
#define ADD    PLUS
#define MUL    TIMES
#define MAX    larger_f32
#define MIN    smaller_f32
#include "ops/index/combine_typed.h"

#define NAME   combine_f64
#define STORED double
#define T      double
#define LOAD   SAME
#define STORE  SAME
#define ADD    PLUS
#define MUL    TIMES
#define MAX    larger_f64
#define MIN    smaller_f64
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

typedef void (*combine_fn)(tpi_combine_op op, const tpi_indexed_block *p);
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

/* Contiguous elements, each with an index of its own: a number of elements, or of bytes. */
static bool lines_of(size_t itemsize, const tpi_indexed_block *p) {
    const int64_t size = (int64_t)itemsize;
    return p->index_col == 1 && p->indexed_col == 0 && p->plain_col == size && (p->scale == size || p->scale == 1);
}

#define BY_NUMBER(type, line, i) (((type *)(void *)(line))[i])
#define BY_BYTES(type, line, i)  (*(type *)(void *)((line) + (i)))
#define PUT_LINES(type, CELL_AT)                                                                  \
    for (int64_t r = 0; r < p->rows; r++) {                                                       \
        const int64_t *index = p->index + r * p->index_row;                                       \
        const type *from = (const type *)(const void *)(p->plain + r * p->plain_row);             \
        char *to = p->indexed;                                                                    \
        for (int64_t c = 0, cols = p->cols; c < cols; c++) CELL_AT(type, to, index[c]) = from[c]; \
    }
#define FETCH_LINES(type, CELL_AT)                                                                \
    for (int64_t r = 0; r < p->rows; r++) {                                                       \
        const int64_t *restrict index = p->index + r * p->index_row;                              \
        char *restrict from = p->indexed;                                                         \
        type *restrict to = (type *)(void *)(p->plain + r * p->plain_row);                        \
        for (int64_t c = 0, cols = p->cols; c < cols; c++) to[c] = CELL_AT(type, from, index[c]); \
    }
#define LINES(MOVE_LINES, type)    \
    if (p->scale == 1)             \
        MOVE_LINES(type, BY_BYTES) \
    else                           \
        MOVE_LINES(type, BY_NUMBER)
#define LINES_ANY(MOVE_LINES)                  \
    switch (itemsize) {                        \
    case 1: LINES(MOVE_LINES, uint8_t) break;  \
    case 2: LINES(MOVE_LINES, uint16_t) break; \
    case 4: LINES(MOVE_LINES, uint32_t) break; \
    case 8: LINES(MOVE_LINES, uint64_t) break; \
    default: LINES(MOVE_LINES, bytes16) break; \
    }

/* Rows of contiguous elements, one index each. */
static bool whole_rows(size_t itemsize, const tpi_indexed_block *p) {
    return p->index_col == 0 && p->indexed_col == (int64_t)itemsize && p->plain_col == (int64_t)itemsize &&
           p->cols * (int64_t)itemsize >= 32;
}

/* A row past the caches, with the next one, which no hardware guesses, on its way meanwhile. */
static void stream_row(int64_t bytes, const char *from, char *to, const char *next) {
    enum { PART = 4096 };
    for (int64_t at = 0; at < bytes; at += PART) {
        int64_t n = bytes - at < PART ? bytes - at : PART;
        tpi_ahead ahead = {next + at, 1, n, 0};
        TPI_ISA_PICK(tpi_nontemporal_rows)(1, n, from + at, 0, to + at, 0, &ahead);
    }
}

/* Rows of one element each, as an expanded tensor has them. */
#define FILL_ROWS(type)                                                                             \
    for (int64_t r = 0; r < p->rows; r++) {                                                         \
        const type x = *(const type *)(void *)(p->indexed + p->index[r * p->index_row] * p->scale); \
        type *to = (type *)(void *)(p->plain + r * p->plain_row);                                   \
        for (int64_t c = 0, cols = p->cols; c < cols; c++) to[c] = x;                               \
    }
#define FILL_ANY                       \
    switch (itemsize) {                \
    case 1: FILL_ROWS(uint8_t) break;  \
    case 2: FILL_ROWS(uint16_t) break; \
    case 4: FILL_ROWS(uint32_t) break; \
    case 8: FILL_ROWS(uint64_t) break; \
    default: FILL_ROWS(bytes16) break; \
    }

#define MOVE_ANY(to, from)                  \
    switch (itemsize) {                     \
    case 1: MOVE(uint8_t, to, from) break;  \
    case 2: MOVE(uint16_t, to, from) break; \
    case 4: MOVE(uint32_t, to, from) break; \
    case 8: MOVE(uint64_t, to, from) break; \
    default: MOVE(bytes16, to, from) break; \
    }

void tpi_fetch(size_t itemsize, const tpi_indexed_block *p) {
    if (whole_rows(itemsize, p)) {
        size_t bytes = (size_t)p->cols * itemsize;
        bool stream = p->plain_bytes >= tpi_nontemporal_bytes() && bytes >= 256;
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
        if (stream) TPI_ISA_PICK(tpi_nontemporal_end)();
        return;
    }
    if (p->index_col == 0 && p->indexed_col == 0 && p->plain_col == (int64_t)itemsize) {
        FILL_ANY
        return;
    }
    if (lines_of(itemsize, p)) {
        LINES_ANY(FETCH_LINES)
        return;
    }
    MOVE_ANY(plain, indexed)
}

static void put(size_t itemsize, const tpi_indexed_block *p) {
    if (whole_rows(itemsize, p)) {
        size_t bytes = (size_t)p->cols * itemsize;
        for (int64_t r = 0; r < p->rows; r++)
            memcpy(p->indexed + p->index[r * p->index_row] * p->scale, p->plain + r * p->plain_row, bytes);
        return;
    }
    if (lines_of(itemsize, p)) {
        LINES_ANY(PUT_LINES)
        return;
    }
    MOVE_ANY(indexed, plain)
}

/* Rows of floats are added by the widest vectors, with the beginning of a row to come on its way. */
static void add_float_rows(const tpi_indexed_block *p) {
    enum { AHEAD = 2, LINE = 64, LINES_AHEAD = 4 };
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t line = 0; r + AHEAD < p->rows && line < LINES_AHEAD && line * LINE < p->cols * 4; line++)
            __builtin_prefetch(p->indexed + p->index[(r + AHEAD) * p->index_row] * p->scale + line * LINE, 1);
        TPI_ISA_PICK(tpi_add_floats)
        (p->cols, (const float *)(const void *)(p->plain + r * p->plain_row),
         (float *)(void *)(p->indexed + p->index[r * p->index_row] * p->scale));
    }
}

void tpi_combine(tpi_combine_op op, tp_dtype dtype, const tpi_indexed_block *at) {
    if (op == TPI_PUT)
        put(tpi_dtype_bytes[dtype], at);
    else if (op == TPI_ADD && dtype == TP_FLOAT32 && whole_rows(sizeof(float), at))
        add_float_rows(at);
    else
        by_dtype[dtype](op, at);
}

/* Combining rows in blocks that stay in the first cache: each block is widened to its compute type, combined row by
 * row, and narrowed. The order of the rows is the order of the operations, so the bits are the same however the ranks
 * arrive. An all-reduce therefore is no ring, in which each part of the sum would begin at another rank: whoever
 * combines has the rows of all ranks. */
#include "dist/collective/reduce.h"
#include <complex.h>
#include <string.h>
#include "base/dtype.h"
#include "base/error.h"

enum { BLOCK = 1024 };

#define COMBINE(T, expression)        \
    for (int64_t i = 0; i < n; i++) { \
        T a = acc[i], b = in[i];      \
        acc[i] = (T)(expression);     \
    }                                 \
    return

/* clang-format off */
#define ORDERED(T)                                                                    \
    case TP_REDUCE_MIN: COMBINE(T, a != a || a < b ? a : b);                          \
    case TP_REDUCE_MAX: COMBINE(T, a != a || a > b ? a : b);
#define BITS(T)                                                                       \
    case TP_REDUCE_BAND: COMBINE(T, a & b);                                           \
    case TP_REDUCE_BOR: COMBINE(T, a | b);                                            \
    case TP_REDUCE_BXOR: COMBINE(T, a ^ b);
/* clang-format on */
#define NOTHING(T)

/* acc = acc op in, and the division at the end. U: the type in which sums and products wrap. */
#define KIND(name, T, U, MORE, EVEN_MORE)                                                      \
    static void combine_##name(tp_reduce_op op, void *to, const void *from, int64_t n) {       \
        T *restrict acc = to;                                                                  \
        const T *restrict in = from;                                                           \
        switch (op) {                                                                          \
        case TP_REDUCE_SUM:                                                                    \
        case TP_REDUCE_AVG: COMBINE(T, (U)a + (U)b);                                           \
        case TP_REDUCE_PRODUCT: COMBINE(T, (U)a *(U)b); MORE(T) EVEN_MORE(T) default : return; \
        }                                                                                      \
    }                                                                                          \
    static void divide_##name(void *to, int by, int64_t n) {                                   \
        T *acc = to;                                                                           \
        for (int64_t i = 0; i < n; i++) acc[i] = (T)(acc[i] / (T)by);                          \
    }

KIND(int8, int8_t, uint32_t, ORDERED, BITS)
KIND(int16, int16_t, uint32_t, ORDERED, BITS)
KIND(int32, int32_t, uint32_t, ORDERED, BITS)
KIND(int64, int64_t, uint64_t, ORDERED, BITS)
KIND(float32, float, float, ORDERED, NOTHING)
KIND(float64, double, double, ORDERED, NOTHING)
KIND(complex64, float complex, float complex, NOTHING, NOTHING)
KIND(complex128, double complex, double complex, NOTHING, NOTHING)

static void combine_uint8(tp_reduce_op op, void *to, const void *from, int64_t n) {
    uint8_t *restrict acc = to;
    const uint8_t *restrict in = from;
    switch (op) {
    case TP_REDUCE_SUM:
    case TP_REDUCE_AVG: COMBINE(uint8_t, a + b);
    case TP_REDUCE_PRODUCT: COMBINE(uint8_t, a * b);
    case TP_REDUCE_MIN: COMBINE(uint8_t, a < b ? a : b);
    case TP_REDUCE_MAX: COMBINE(uint8_t, a > b ? a : b); BITS(uint8_t)
    default: return;
    }
}

static void divide_uint8(void *to, int by, int64_t n) {
    uint8_t *acc = to;
    for (int64_t i = 0; i < n; i++) acc[i] = (uint8_t)(acc[i] / by);
}

static tp_reduce_op bool_op(tp_reduce_op op) { /* truths add up to a truth */
    if (op == TP_REDUCE_SUM || op == TP_REDUCE_MAX || op == TP_REDUCE_AVG) return TP_REDUCE_BOR;
    return op == TP_REDUCE_PRODUCT || op == TP_REDUCE_MIN ? TP_REDUCE_BAND : op;
}

typedef struct kind {
    void (*combine)(tp_reduce_op op, void *acc, const void *in, int64_t n);
    void (*divide)(void *acc, int by, int64_t n);
} kind;
static const kind kinds[TP_DTYPE_COUNT] = {[TP_BOOL] = {combine_uint8, NULL},
                                           [TP_UINT8] = {combine_uint8, divide_uint8},
                                           [TP_INT8] = {combine_int8, divide_int8},
                                           [TP_INT16] = {combine_int16, divide_int16},
                                           [TP_INT32] = {combine_int32, divide_int32},
                                           [TP_INT64] = {combine_int64, divide_int64},
                                           [TP_FLOAT16] = {combine_float32, divide_float32},
                                           [TP_BFLOAT16] = {combine_float32, divide_float32}, /* in blocks of float */
                                           [TP_FLOAT32] = {combine_float32, divide_float32},
                                           [TP_FLOAT64] = {combine_float64, divide_float64},
                                           [TP_COMPLEX64] = {combine_complex64, divide_complex64},
                                           [TP_COMPLEX128] = {combine_complex128, divide_complex128}};

/* A block as its compute type, and back. */
static void widen(tp_dtype dtype, void *to, const char *from, int64_t n) {
    if (dtype != TP_FLOAT16 && dtype != TP_BFLOAT16) {
        memcpy(to, from, (size_t)n * tpi_dtype_bytes[dtype]);
        return;
    }
    float *wide = to;
    const uint16_t *half = (const uint16_t *)from;
    for (int64_t i = 0; i < n; i++)
        wide[i] = dtype == TP_FLOAT16 ? tpi_half_to_float(half[i]) : tpi_bf16_to_float(half[i]);
}

static void narrow(tp_dtype dtype, char *to, const void *from, int64_t n) {
    if (dtype != TP_FLOAT16 && dtype != TP_BFLOAT16) {
        memcpy(to, from, (size_t)n * tpi_dtype_bytes[dtype]);
        return;
    }
    uint16_t *half = (uint16_t *)to;
    const float *wide = from;
    for (int64_t i = 0; i < n; i++)
        half[i] = dtype == TP_FLOAT16 ? tpi_float_to_half(wide[i]) : tpi_float_to_bf16(wide[i]);
}

void tpi_reduce_rows(tp_dtype dtype, tp_reduce_op op, void *out, const void *const *rows, int n_rows, int64_t n) {
    _Alignas(64) char acc[BLOCK * 16], next[BLOCK * 4];
    bool half = dtype == TP_FLOAT16 || dtype == TP_BFLOAT16;
    const kind *k = &kinds[dtype];
    tp_reduce_op how = dtype == TP_BOOL ? bool_op(op) : op;
    size_t item = tpi_dtype_bytes[dtype];
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t m = n - from < BLOCK ? n - from : BLOCK;
        widen(dtype, acc, (const char *)rows[0] + (size_t)from * item, m);
        for (int r = 1; r < n_rows; r++) {
            const char *row = (const char *)rows[r] + (size_t)from * item;
            if (half) widen(dtype, next, row, m);
            k->combine(how, acc, half ? next : row, m);
        }
        if (op == TP_REDUCE_AVG && k->divide) k->divide(acc, n_rows, m);
        narrow(dtype, (char *)out + (size_t)from * item, acc, m);
    }
}

bool tpi_check_reduce(tp_dtype dtype, tp_reduce_op op) {
    static const char *const names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};
    if (op < 0 || op > TP_REDUCE_BXOR)
        return tpi_refuse(TP_ERR_VALUE, "argument 'op': there is no reduction number %d", (int)op);
    if (!kinds[dtype].combine)
        return tpi_refuse(TP_ERR_RUNTIME, "Invalid scalar type: reductions do not take %s", tp_dtype_name(dtype));
    bool whole = dtype == TP_BOOL || tp_dtype_is_integral(dtype);
    if (op >= TP_REDUCE_BAND && !whole)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'op': cannot use ReduceOp.%s with %s", names[op],
                          tp_dtype_name(dtype));
    if ((op == TP_REDUCE_MIN || op == TP_REDUCE_MAX) && tp_dtype_is_complex(dtype))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'op': all_reduce does not support ReduceOp.%s on complex tensors",
                          names[op]);
    if (op == TP_REDUCE_AVG && whole)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'op': ReduceOp.AVG: result type float32 can't be cast to the desired output type %s",
            tp_dtype_name(dtype));
    return true;
}

/* Dtypes inside the library: categories, promotion among tensors and numbers, compute types, 16-bit float conversions.
 */
#ifndef TPI_DTYPE_H
#define TPI_DTYPE_H
#include <taper/base.h>

/* The types that kernels compute in. Half, bfloat16 and float8 compute in float, complex32 in complex64; bool, uint8,
 * int8, int16, uint16 and int32 in int32, uint32 and uint64 in int64 (results wrap on the way back, as PyTorch's do);
 * operators with bitwise logic have a bool kernel of their own. */
typedef enum tpi_ctype { TPI_B8, TPI_I32, TPI_I64, TPI_F32, TPI_F64, TPI_C64, TPI_C128, TPI_CTYPES } tpi_ctype;

typedef struct tpi_c64 {
    float re, im;
} tpi_c64;
typedef struct tpi_c128 {
    double re, im;
} tpi_c128;

/* Categories, as bits: the first four order promotion. A table's `types` line lists groups, which are the categories of
 * the twelve dtypes that every operator may know, and groups of dtypes that an operator takes only if its stanza names
 * them: uint16 and uint32; uint64, which computes in int64 and so has no order there; the float8 types; complex32;
 * bcomplex32; and those whose elements have no value here. */
enum {
    TPI_CAT_BOOL = 1,
    TPI_CAT_INT = 2,
    TPI_CAT_FLOAT = 4,
    TPI_CAT_COMPLEX = 8,
    TPI_CAT_ALL = 15,
    TPI_CAT_UNSIGNED = 16,
    TPI_CAT_FLOAT8 = 32,
    TPI_CAT_CHALF = 64,
    TPI_CAT_BCHALF = 128,
    TPI_CAT_OPAQUE = 256,
    TPI_CAT_UNSIGNED64 = 512
};

extern const uint8_t tpi_dtype_bytes[TP_DTYPE_COUNT];
extern const uint8_t tpi_dtype_category[TP_DTYPE_COUNT];
extern const uint16_t tpi_dtype_group[TP_DTYPE_COUNT];
extern const uint8_t tpi_dtype_ctype[TP_DTYPE_COUNT]; /* bool counts as TPI_I32 here; see above */
extern const uint8_t tpi_ctype_bytes[TPI_CTYPES];
tp_dtype tpi_ctype_dtype(tpi_ctype c);  /* the dtype whose elements are that compute type (TPI_B8: bool) */
tp_dtype tpi_dtype_to_real(tp_dtype d); /* complex64 -> float32, others unchanged */
/* float32 -> complex64 and so on; integers by the default dtype; float8: an error */
tp_dtype tpi_dtype_to_complex(tp_dtype d);
tp_dtype tpi_dtype_to_float(tp_dtype d); /* bool and integers -> the default dtype, others unchanged */

/* Type promotion as PyTorch does it: tensors with dimensions, zero-dimensional tensors and numbers are three ranks; a
 * lower rank raises the result only across categories. Feed every operand, then ask. */
typedef struct tpi_promotion {
    tp_dtype dim, zero, number; /* TP_NO_DTYPE while there is none */
    bool refused;               /* two of them have no common dtype, and the error is set */
} tpi_promotion;
void tpi_promote_tensor(tpi_promotion *p, tp_dtype dtype, int ndim);
void tpi_promote_scalar(tpi_promotion *p, tp_scalar s);
/* TP_NO_DTYPE without operands, and with an error where promotion is refused */
tp_dtype tpi_promoted(tpi_promotion *p);

/* A scalar in a compute type: what kernels read their parameters from. */
typedef union tpi_param {
    uint8_t b8;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
    tpi_c64 c64;
    tpi_c128 c128;
} tpi_param;
tpi_param tpi_param_of(tp_scalar s, tpi_ctype c);

/* One element of any dtype as a scalar, and back (values wrap or round as a cast does). */
tp_scalar tpi_load_scalar(const void *element, tp_dtype dtype);
void tpi_store_scalar(void *element, tp_dtype dtype, tp_scalar s);

float tpi_half_to_float(uint16_t h);
uint16_t tpi_float_to_half(float f);
static inline float tpi_bf16_to_float(uint16_t h) {
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)h << 16};
    return v.f;
}
static inline uint16_t tpi_float_to_bf16(float f) { /* round to nearest even; NaN stays a NaN */
    union {
        float f;
        uint32_t u;
    } v = {f};
    if (f != f) return 0x7fc0;
    return (uint16_t)((v.u + 0x7fffu + ((v.u >> 16) & 1u)) >> 16);
}

/* Float8: values without a code round to the nearest, ties to even. What is too large becomes the largest value
 * (e4m3fn), infinity (e5m2) or NaN (the others); e8m0fnu has powers of two without a sign, and no zero. */
float tpi_float8_to_float(uint8_t code, tp_dtype dtype);
uint8_t tpi_float_to_float8(float f, tp_dtype dtype);
#endif

/* Dtypes: names, sizes, categories, and PyTorch's rules of type promotion. */
#include "base/dtype.h"
#include <stdatomic.h>
#include <string.h>
#include "base/error.h"

/* ---- What is known of each dtype ----
 * X(dtype, name, PyTorch's word, bytes, category, group, compute type) */
#define DTYPES(X)                                                                      \
    X(BOOL, "bool", "Bool", 1, BOOL, BOOL, I32)                                        \
    X(UINT8, "uint8", "Byte", 1, INT, INT, I32)                                        \
    X(INT8, "int8", "Char", 1, INT, INT, I32)                                          \
    X(INT16, "int16", "Short", 2, INT, INT, I32)                                       \
    X(INT32, "int32", "Int", 4, INT, INT, I32)                                         \
    X(INT64, "int64", "Long", 8, INT, INT, I64)                                        \
    X(FLOAT16, "float16", "Half", 2, FLOAT, FLOAT, F32)                                \
    X(BFLOAT16, "bfloat16", "BFloat16", 2, FLOAT, FLOAT, F32)                          \
    X(FLOAT32, "float32", "Float", 4, FLOAT, FLOAT, F32)                               \
    X(FLOAT64, "float64", "Double", 8, FLOAT, FLOAT, F64)                              \
    X(COMPLEX64, "complex64", "ComplexFloat", 8, COMPLEX, COMPLEX, C64)                \
    X(COMPLEX128, "complex128", "ComplexDouble", 16, COMPLEX, COMPLEX, C128)           \
    X(UINT16, "uint16", "UInt16", 2, INT, UNSIGNED, I32)                               \
    X(UINT32, "uint32", "UInt32", 4, INT, UNSIGNED, I64)                               \
    X(UINT64, "uint64", "UInt64", 8, INT, UNSIGNED64, I64)                             \
    X(FLOAT8_E4M3FN, "float8_e4m3fn", "Float8_e4m3fn", 1, FLOAT, FLOAT8, F32)          \
    X(FLOAT8_E5M2, "float8_e5m2", "Float8_e5m2", 1, FLOAT, FLOAT8, F32)                \
    X(FLOAT8_E4M3FNUZ, "float8_e4m3fnuz", "Float8_e4m3fnuz", 1, FLOAT, FLOAT8, F32)    \
    X(FLOAT8_E5M2FNUZ, "float8_e5m2fnuz", "Float8_e5m2fnuz", 1, FLOAT, FLOAT8, F32)    \
    X(FLOAT8_E8M0FNU, "float8_e8m0fnu", "Float8_e8m0fnu", 1, FLOAT, FLOAT8, F32)       \
    X(COMPLEX32, "complex32", "ComplexHalf", 4, COMPLEX, CHALF, C64)                   \
    X(BCOMPLEX32, "bcomplex32", "BComplex32", 4, COMPLEX, BCHALF, C64)                 \
    X(FLOAT4_E2M1FN_X2, "float4_e2m1fn_x2", "Float4_e2m1fn_x2", 1, FLOAT, OPAQUE, I32) \
    X(BITS1X8, "bits1x8", "Bits1x8", 1, INT, OPAQUE, I32)                              \
    X(BITS2X4, "bits2x4", "Bits2x4", 1, INT, OPAQUE, I32)                              \
    X(BITS4X2, "bits4x2", "Bits4x2", 1, INT, OPAQUE, I32)                              \
    X(BITS8, "bits8", "Bits8", 1, INT, OPAQUE, I32)                                    \
    X(BITS16, "bits16", "Bits16", 2, INT, OPAQUE, I32)                                 \
    X(UINT1, "uint1", "UInt1", 1, INT, OPAQUE, I32)                                    \
    X(UINT2, "uint2", "UInt2", 1, INT, OPAQUE, I32)                                    \
    X(UINT3, "uint3", "UInt3", 1, INT, OPAQUE, I32)                                    \
    X(UINT4, "uint4", "UInt4", 1, INT, OPAQUE, I32)                                    \
    X(UINT5, "uint5", "UInt5", 1, INT, OPAQUE, I32)                                    \
    X(UINT6, "uint6", "UInt6", 1, INT, OPAQUE, I32)                                    \
    X(UINT7, "uint7", "UInt7", 1, INT, OPAQUE, I32)                                    \
    X(INT1, "int1", "Int1", 1, INT, OPAQUE, I32)                                       \
    X(INT2, "int2", "Int2", 1, INT, OPAQUE, I32)                                       \
    X(INT3, "int3", "Int3", 1, INT, OPAQUE, I32)                                       \
    X(INT4, "int4", "Int4", 1, INT, OPAQUE, I32)                                       \
    X(INT5, "int5", "Int5", 1, INT, OPAQUE, I32)                                       \
    X(INT6, "int6", "Int6", 1, INT, OPAQUE, I32)                                       \
    X(INT7, "int7", "Int7", 1, INT, OPAQUE, I32)                                       \
    X(QINT8, "qint8", "QInt8", 1, INT, OPAQUE, I32)                                    \
    X(QUINT8, "quint8", "QUInt8", 1, INT, OPAQUE, I32)                                 \
    X(QINT32, "qint32", "QInt32", 4, INT, OPAQUE, I32)                                 \
    X(QUINT4X2, "quint4x2", "QUInt4x2", 1, INT, OPAQUE, I32)                           \
    X(QUINT2X4, "quint2x4", "QUInt2x4", 1, INT, OPAQUE, I32)

#define NAME(dtype, name, word, bytes, category, group, ctype)     [TP_##dtype] = name,
#define WORD(dtype, name, word, bytes, category, group, ctype)     [TP_##dtype] = word,
#define BYTES(dtype, name, word, bytes, category, group, ctype)    [TP_##dtype] = bytes,
#define CATEGORY(dtype, name, word, bytes, category, group, ctype) [TP_##dtype] = TPI_CAT_##category,
#define GROUP(dtype, name, word, bytes, category, group, ctype)    [TP_##dtype] = TPI_CAT_##group,
#define CTYPE(dtype, name, word, bytes, category, group, ctype)    [TP_##dtype] = TPI_##ctype,
static const char *const names[TP_DTYPE_COUNT] = {DTYPES(NAME)};
static const char *const words[TP_DTYPE_COUNT] = {DTYPES(WORD)};
const uint8_t tpi_dtype_bytes[TP_DTYPE_COUNT] = {DTYPES(BYTES)};
const uint8_t tpi_dtype_category[TP_DTYPE_COUNT] = {DTYPES(CATEGORY)};
const uint16_t tpi_dtype_group[TP_DTYPE_COUNT] = {DTYPES(GROUP)};
const uint8_t tpi_dtype_ctype[TP_DTYPE_COUNT] = {DTYPES(CTYPE)};

static const struct {
    const char *name;
    tp_dtype dtype;
} other_names[] = {
    {"half", TP_FLOAT16},    {"float", TP_FLOAT32}, {"double", TP_FLOAT64},   {"short", TP_INT16},
    {"int", TP_INT32},       {"long", TP_INT64},    {"cfloat", TP_COMPLEX64}, {"cdouble", TP_COMPLEX128},
    {"chalf", TP_COMPLEX32}, {"bit", TP_UINT1},
};

const uint8_t tpi_ctype_bytes[TPI_CTYPES] = {
    [TPI_B8] = 1, [TPI_I32] = 4, [TPI_I64] = 8, [TPI_F32] = 4, [TPI_F64] = 8, [TPI_C64] = 8, [TPI_C128] = 16,
};

static bool known(tp_dtype d) { return (unsigned)d < TP_DTYPE_COUNT && d != TP_NO_DTYPE; }
static unsigned category(tp_dtype d) { return known(d) ? tpi_dtype_category[d] : 0; }
static unsigned group(tp_dtype d) { return known(d) ? tpi_dtype_group[d] : 0; }
enum { UNSIGNED = TPI_CAT_UNSIGNED | TPI_CAT_UNSIGNED64 };
static bool is_quantized(tp_dtype d) { return d >= TP_QINT8 && d <= TP_QUINT2X4; }
static bool is_bits(tp_dtype d) { return d >= TP_BITS1X8 && d <= TP_BITS16; }
static bool is_limited_unsigned(tp_dtype d) { return group(d) & UNSIGNED || (d >= TP_UINT1 && d <= TP_UINT7); }

const char *tp_dtype_name(tp_dtype dtype) { return known(dtype) ? names[dtype] : "no dtype"; }
const char *tp_dtype_word(tp_dtype dtype) { return known(dtype) ? words[dtype] : "Undefined"; }

tp_dtype tp_dtype_by_name(const char *name) {
    if (!name) return TP_NO_DTYPE;
    if (strncmp(name, "torch.", 6) == 0) name += 6;
    for (int d = 1; d < TP_DTYPE_COUNT; d++) {
        if (strcmp(names[d], name) == 0) return (tp_dtype)d;
    }
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++) {
        if (strcmp(other_names[i].name, name) == 0) return other_names[i].dtype;
    }
    return TP_NO_DTYPE;
}

int64_t tp_dtype_size(tp_dtype dtype) { return known(dtype) ? tpi_dtype_bytes[dtype] : 0; }
bool tp_dtype_is_floating(tp_dtype dtype) { return category(dtype) == TPI_CAT_FLOAT; }
bool tp_dtype_is_complex(tp_dtype dtype) { return category(dtype) == TPI_CAT_COMPLEX; }
bool tp_dtype_is_integral(tp_dtype dtype) { return category(dtype) == TPI_CAT_INT && group(dtype) != TPI_CAT_OPAQUE; }
bool tp_dtype_has_values(tp_dtype dtype) { return known(dtype) && group(dtype) != TPI_CAT_OPAQUE; }

/* ---- The default dtype: what floating numbers and float results of integers become ---- */
static _Atomic tp_dtype default_dtype = TP_FLOAT32;

tp_dtype tp_default_dtype(void) { return atomic_load_explicit(&default_dtype, memory_order_relaxed); }

bool tp_set_default_dtype(tp_dtype dtype) {
    if (!tp_dtype_is_floating(dtype))
        return tpi_refuse(TP_ERR_TYPE, "argument 'dtype': expected a floating type as the default, got %s",
                          tp_dtype_name(dtype));
    atomic_store_explicit(&default_dtype, dtype, memory_order_relaxed);
    return true;
}

/* ---- Relatives ---- */
tp_dtype tpi_ctype_dtype(tpi_ctype c) {
    static const uint8_t of[TPI_CTYPES] = {
        [TPI_B8] = TP_BOOL,     [TPI_I32] = TP_INT32,     [TPI_I64] = TP_INT64,      [TPI_F32] = TP_FLOAT32,
        [TPI_F64] = TP_FLOAT64, [TPI_C64] = TP_COMPLEX64, [TPI_C128] = TP_COMPLEX128};
    return (tp_dtype)of[c];
}

tp_dtype tpi_dtype_to_real(tp_dtype d) {
    switch (d) {
    case TP_COMPLEX64: return TP_FLOAT32;
    case TP_COMPLEX128: return TP_FLOAT64;
    case TP_COMPLEX32: return TP_FLOAT16;
    case TP_BCOMPLEX32: return TP_BFLOAT16;
    default: return d;
    }
}
tp_dtype tp_dtype_to_real(tp_dtype dtype) { return tpi_dtype_to_real(dtype); }

tp_dtype tpi_dtype_to_float(tp_dtype d) { return category(d) & (TPI_CAT_BOOL | TPI_CAT_INT) ? tp_default_dtype() : d; }

tp_dtype tpi_dtype_to_complex(tp_dtype d) { return tp_dtype_to_complex(tpi_dtype_to_float(d)); }

tp_dtype tp_dtype_to_complex(tp_dtype dtype) {
    if (tp_dtype_is_complex(dtype)) return dtype;
    switch (dtype) {
    case TP_FLOAT16: return TP_COMPLEX32;
    case TP_BFLOAT16: return TP_BCOMPLEX32;
    case TP_FLOAT32: return TP_COMPLEX64;
    case TP_FLOAT64: return TP_COMPLEX128;
    default: tpi_fail(TP_ERR_RUNTIME, "Unknown Complex ScalarType for %s", tp_dtype_word(dtype)); return TP_NO_DTYPE;
    }
}

/* ---- Promotion of two dtypes ----
 * Across categories the higher one wins; within one the wider wins, with exceptions: uint8 with a signed type needs
 * room for both, and of the 16-bit floats, and of the complex numbers made of them, neither holds the other. A complex
 * type is as precise as the more precise of the two. The dtypes that few operators know meet none but themselves,
 * except that the unsigned ones give way to floating types. */
static tp_dtype refuse_promotion(tp_dtype a, tp_dtype b) {
    const char *x = tp_dtype_word(a), *y = tp_dtype_word(b);
    if (is_quantized(a) || is_quantized(b))
        tpi_fail(TP_ERR_RUNTIME,
                 "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be, "
                 "offending types: %s %s",
                 x, y);
    else if (is_bits(a) || is_bits(b))
        tpi_fail(TP_ERR_RUNTIME, "Promotion from %s and %s is unsupported.", x, y);
    else if (group(a) == TPI_CAT_FLOAT8 || group(b) == TPI_CAT_FLOAT8)
        tpi_fail(TP_ERR_RUNTIME, "Promotion for Float8 Types is not supported, attempted to promote %s and %s", x, y);
    else
        tpi_fail(TP_ERR_RUNTIME,
                 "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote %s and %s", x, y);
    return TP_NO_DTYPE;
}

static tp_dtype promote_limited(tp_dtype a, tp_dtype b) { /* different ones, not both of the twelve */
    bool plain = !is_quantized(a) && !is_quantized(b) && !is_bits(a) && !is_bits(b) && group(a) != TPI_CAT_FLOAT8 &&
                 group(b) != TPI_CAT_FLOAT8;
    if (plain && is_limited_unsigned(a) && tp_dtype_is_floating(b)) return b;
    if (plain && is_limited_unsigned(b) && tp_dtype_is_floating(a)) return a;
    return refuse_promotion(a, b);
}

static tp_dtype with_complex_of_halves(tp_dtype high, tp_dtype low) {
    if (low == TP_COMPLEX64 || low == TP_COMPLEX128) return low;
    if (low == TP_FLOAT64) return TP_COMPLEX128;
    if (category(low) & (TPI_CAT_BOOL | TPI_CAT_INT) || low == tpi_dtype_to_real(high)) return high;
    return TP_COMPLEX64;
}

static tp_dtype wider(tp_dtype a, tp_dtype b) { /* same category, both of the twelve, which are numbered by width */
    tp_dtype low = a < b ? a : b, high = a < b ? b : a;
    if (low == TP_UINT8 && high == TP_INT8) return TP_INT16;
    if (low == TP_FLOAT16 && high == TP_BFLOAT16) return TP_FLOAT32;
    return high;
}

tp_dtype tp_promote_types(tp_dtype a, tp_dtype b) {
    if (!known(a) || !known(b)) return known(a) ? a : known(b) ? b : TP_NO_DTYPE;
    if (a == b) return a;
    if ((group(a) | group(b)) & (UNSIGNED | TPI_CAT_FLOAT8 | TPI_CAT_OPAQUE)) return promote_limited(a, b);
    if (a == TP_COMPLEX32 || a == TP_BCOMPLEX32) return with_complex_of_halves(a, b);
    if (b == TP_COMPLEX32 || b == TP_BCOMPLEX32) return with_complex_of_halves(b, a);
    unsigned ca = category(a), cb = category(b);
    if (ca == cb) return wider(a, b);
    tp_dtype high = ca > cb ? a : b, low = ca > cb ? b : a;
    return high == TP_COMPLEX64 && low == TP_FLOAT64 ? TP_COMPLEX128 : high;
}

/* Never to a lower category; otherwise any width, as PyTorch allows. */
bool tp_can_cast(tp_dtype from, tp_dtype to) {
    if (!known(from) || !known(to)) return false;
    if (tp_dtype_is_complex(from) && !tp_dtype_is_complex(to)) return false;
    if (tp_dtype_is_floating(from) && tp_dtype_is_integral(to)) return false;
    return from == TP_BOOL || to != TP_BOOL;
}

/* ---- Promotion among operands of three ranks ---- */
void tpi_promote_tensor(tpi_promotion *p, tp_dtype dtype, int ndim) {
    tp_dtype *rank = ndim > 0 ? &p->dim : &p->zero;
    *rank = tp_promote_types(*rank, dtype);
    if (*rank == TP_NO_DTYPE) p->refused = true;
}

void tpi_promote_scalar(tpi_promotion *p, tp_scalar s) {
    tp_dtype dtype = TP_NO_DTYPE;
    switch ((tp_scalar_kind)s.kind) {
    case TP_SCALAR_NONE: return;
    case TP_SCALAR_BOOL: dtype = TP_BOOL; break;
    case TP_SCALAR_INT:
    case TP_SCALAR_UINT: dtype = TP_INT64; break;
    case TP_SCALAR_FLOAT: dtype = tp_default_dtype(); break;
    case TP_SCALAR_COMPLEX: dtype = tpi_dtype_to_complex(tp_default_dtype()); break;
    }
    p->number = tp_promote_types(p->number, dtype);
}

/* The lower rank counts only if its category is higher; then its precision counts too, unless the higher rank is
 * floating and merely becomes complex. Unsigned types beside complex numbers take those numbers' type. */
static tp_dtype combine(tp_dtype higher, tp_dtype lower, bool *refused) {
    if (!known(higher)) return lower;
    if (category(lower) <= category(higher)) return higher;
    tp_dtype both = TP_NO_DTYPE;
    if (tp_dtype_is_floating(higher))
        both = tp_dtype_to_complex(higher);
    else if (group(higher) & (UNSIGNED | TPI_CAT_OPAQUE) && tp_dtype_is_complex(lower))
        both = lower;
    else
        both = tp_promote_types(higher, lower);
    if (both == TP_NO_DTYPE) *refused = true;
    return both;
}

tp_dtype tpi_promoted(tpi_promotion *p) {
    tp_dtype low = p->refused ? TP_NO_DTYPE : combine(p->zero, p->number, &p->refused);
    tp_dtype dtype = p->refused ? TP_NO_DTYPE : combine(p->dim, low, &p->refused);
    return p->refused ? TP_NO_DTYPE : dtype;
}

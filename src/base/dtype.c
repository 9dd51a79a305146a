/* Dtypes: names, sizes, categories, and PyTorch's rules of type promotion. */
#include "base/dtype.h"
#include <stdatomic.h>
#include <string.h>
#include "base/error.h"

/* ---- What is known of each dtype ---------------------------------------------------------------------------------------- */
static const char *const names[TP_DTYPE_COUNT] = {
    [TP_BOOL] = "bool",         [TP_UINT8] = "uint8",     [TP_INT8] = "int8",           [TP_INT16] = "int16",
    [TP_INT32] = "int32",       [TP_INT64] = "int64",     [TP_FLOAT16] = "float16",     [TP_BFLOAT16] = "bfloat16",
    [TP_FLOAT32] = "float32",   [TP_FLOAT64] = "float64", [TP_COMPLEX64] = "complex64", [TP_COMPLEX128] = "complex128",
};

static const struct {
    const char *name;
    tp_dtype dtype;
} other_names[] = {
    {"half", TP_FLOAT16}, {"float", TP_FLOAT32}, {"double", TP_FLOAT64}, {"short", TP_INT16},
    {"int", TP_INT32},    {"long", TP_INT64},    {"cfloat", TP_COMPLEX64}, {"cdouble", TP_COMPLEX128},
};

const uint8_t tpi_dtype_bytes[TP_DTYPE_COUNT] = {
    [TP_BOOL] = 1,    [TP_UINT8] = 1,    [TP_INT8] = 1,    [TP_INT16] = 2,   [TP_INT32] = 4,     [TP_INT64] = 8,
    [TP_FLOAT16] = 2, [TP_BFLOAT16] = 2, [TP_FLOAT32] = 4, [TP_FLOAT64] = 8, [TP_COMPLEX64] = 8, [TP_COMPLEX128] = 16,
};

const uint8_t tpi_dtype_category[TP_DTYPE_COUNT] = {
    [TP_BOOL] = TPI_CAT_BOOL,         [TP_UINT8] = TPI_CAT_INT,          [TP_INT8] = TPI_CAT_INT,      [TP_INT16] = TPI_CAT_INT,
    [TP_INT32] = TPI_CAT_INT,         [TP_INT64] = TPI_CAT_INT,          [TP_FLOAT16] = TPI_CAT_FLOAT, [TP_BFLOAT16] = TPI_CAT_FLOAT,
    [TP_FLOAT32] = TPI_CAT_FLOAT,     [TP_FLOAT64] = TPI_CAT_FLOAT,      [TP_COMPLEX64] = TPI_CAT_COMPLEX,
    [TP_COMPLEX128] = TPI_CAT_COMPLEX,
};

const uint8_t tpi_dtype_ctype[TP_DTYPE_COUNT] = {
    [TP_BOOL] = TPI_I32,    [TP_UINT8] = TPI_I32,    [TP_INT8] = TPI_I32,    [TP_INT16] = TPI_I32,   [TP_INT32] = TPI_I32,
    [TP_INT64] = TPI_I64,   [TP_FLOAT16] = TPI_F32,  [TP_BFLOAT16] = TPI_F32, [TP_FLOAT32] = TPI_F32, [TP_FLOAT64] = TPI_F64,
    [TP_COMPLEX64] = TPI_C64, [TP_COMPLEX128] = TPI_C128,
};

const uint8_t tpi_ctype_bytes[TPI_CTYPES] = {
    [TPI_B8] = 1, [TPI_I32] = 4, [TPI_I64] = 8, [TPI_F32] = 4, [TPI_F64] = 8, [TPI_C64] = 8, [TPI_C128] = 16,
};

static bool known(tp_dtype d) { return (unsigned)d < TP_DTYPE_COUNT && d != TP_NO_DTYPE; }
static unsigned category(tp_dtype d) { return known(d) ? tpi_dtype_category[d] : 0; }

const char *tp_dtype_name(tp_dtype dtype) { return known(dtype) ? names[dtype] : "no dtype"; }

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
bool tp_dtype_is_integral(tp_dtype dtype) { return category(dtype) == TPI_CAT_INT; }

/* ---- The default dtype: what floating numbers and float results of integers become -------------------------------------- */
static _Atomic tp_dtype default_dtype = TP_FLOAT32;

tp_dtype tp_default_dtype(void) { return atomic_load_explicit(&default_dtype, memory_order_relaxed); }

bool tp_set_default_dtype(tp_dtype dtype) {
    if (!tp_dtype_is_floating(dtype))
        return tpi_refuse(TP_ERR_TYPE, "argument 'dtype': expected a floating type as the default, got %s", tp_dtype_name(dtype));
    atomic_store_explicit(&default_dtype, dtype, memory_order_relaxed);
    return true;
}

/* ---- Relatives ------------------------------------------------------------------------------------------------------------ */
tp_dtype tpi_ctype_dtype(tpi_ctype c) {
    static const uint8_t of[TPI_CTYPES] = {[TPI_B8] = TP_BOOL,     [TPI_I32] = TP_INT32,     [TPI_I64] = TP_INT64,      [TPI_F32] = TP_FLOAT32,
                                           [TPI_F64] = TP_FLOAT64, [TPI_C64] = TP_COMPLEX64, [TPI_C128] = TP_COMPLEX128};
    return (tp_dtype)of[c];
}

tp_dtype tpi_dtype_to_real(tp_dtype d) { return d == TP_COMPLEX64 ? TP_FLOAT32 : d == TP_COMPLEX128 ? TP_FLOAT64 : d; }

tp_dtype tpi_dtype_to_float(tp_dtype d) { return category(d) & (TPI_CAT_BOOL | TPI_CAT_INT) ? tp_default_dtype() : d; }

tp_dtype tpi_dtype_to_complex(tp_dtype d) {
    if (tp_dtype_is_complex(d)) return d;
    return tpi_dtype_to_float(d) == TP_FLOAT64 ? TP_COMPLEX128 : TP_COMPLEX64;
}

/* ---- Promotion of two dtypes ------------------------------------------------------------------------------------------------
 * Across categories the higher one wins; within one the wider wins, with three exceptions: uint8 with a signed type needs room
 * for both, and neither 16-bit float holds the other. A complex type is as precise as the more precise of the two. */
static tp_dtype wider(tp_dtype a, tp_dtype b) { /* same category; dtypes are numbered by width */
    tp_dtype low = a < b ? a : b, high = a < b ? b : a;
    if (low == TP_UINT8 && high == TP_INT8) return TP_INT16;
    if (low == TP_FLOAT16 && high == TP_BFLOAT16) return TP_FLOAT32;
    return high;
}

tp_dtype tp_promote_types(tp_dtype a, tp_dtype b) {
    if (!known(a) || !known(b)) return known(a) ? a : known(b) ? b : TP_NO_DTYPE;
    unsigned ca = category(a), cb = category(b);
    if (ca == cb) return wider(a, b);
    tp_dtype high = ca > cb ? a : b, low = ca > cb ? b : a;
    return high == TP_COMPLEX64 && low == TP_FLOAT64 ? TP_COMPLEX128 : high;
}

/* Never to a lower category; otherwise any width, as PyTorch allows. */
bool tp_can_cast(tp_dtype from, tp_dtype to) {
    return known(from) && known(to) && category(from) <= category(to);
}

/* ---- Promotion among operands of three ranks ---------------------------------------------------------------------------------- */
void tpi_promote_tensor(tpi_promotion *p, tp_dtype dtype, int ndim) {
    tp_dtype *rank = ndim > 0 ? &p->dim : &p->zero;
    *rank = tp_promote_types(*rank, dtype);
}

void tpi_promote_scalar(tpi_promotion *p, tp_scalar s) {
    tp_dtype dtype = TP_NO_DTYPE;
    switch ((tp_scalar_kind)s.kind) {
    case TP_SCALAR_NONE: return;
    case TP_SCALAR_BOOL: dtype = TP_BOOL; break;
    case TP_SCALAR_INT: dtype = TP_INT64; break;
    case TP_SCALAR_FLOAT: dtype = tp_default_dtype(); break;
    case TP_SCALAR_COMPLEX: dtype = tpi_dtype_to_complex(tp_default_dtype()); break;
    }
    p->number = tp_promote_types(p->number, dtype);
}

/* The lower rank counts only if its category is higher; then its precision counts too, unless the higher rank is floating and
 * merely becomes complex. */
static tp_dtype combine(tp_dtype higher, tp_dtype lower) {
    if (!known(higher)) return lower;
    if (category(lower) <= category(higher)) return higher;
    if (tp_dtype_is_floating(higher)) return tpi_dtype_to_complex(higher);
    return tp_promote_types(higher, lower);
}

tp_dtype tpi_promoted(const tpi_promotion *p) { return combine(p->dim, combine(p->zero, p->number)); }

const char *tpi_dtype_word(tp_dtype dtype) {
    static const char *const words[TP_DTYPE_COUNT] = {
        [TP_BOOL] = "Bool",      [TP_UINT8] = "Byte",        [TP_INT8] = "Char",     [TP_INT16] = "Short",
        [TP_INT32] = "Int",      [TP_INT64] = "Long",        [TP_FLOAT16] = "Half",  [TP_BFLOAT16] = "BFloat16",
        [TP_FLOAT32] = "Float",  [TP_FLOAT64] = "Double",    [TP_COMPLEX64] = "ComplexFloat",
        [TP_COMPLEX128] = "ComplexDouble",
    };
    return words[dtype] ? words[dtype] : tp_dtype_name(dtype);
}

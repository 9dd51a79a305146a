/* What numbers each dtype holds. */
#include "tensor/fits.h"
#include <float.h>
#include <math.h>

/* c: its name in PyTorch's messages, NULL where every number fits. */
typedef struct limits {
    const char *c;
    double least, most;
} limits;

static __attribute__((noinline)) limits limits_of(tp_dtype dtype) {
    switch (dtype) {
    case TP_UINT8: return (limits){"uint8_t", 0, UINT8_MAX};
    case TP_INT8: return (limits){"int8_t", INT8_MIN, INT8_MAX};
    case TP_INT16: return (limits){"int16_t", INT16_MIN, INT16_MAX};
    case TP_INT32: return (limits){"int", INT32_MIN, INT32_MAX};
    case TP_INT64: return (limits){"int64_t", -0x1p63, 0x1p63 - 1024};
    case TP_UINT16: return (limits){"uint16_t", 0, UINT16_MAX};
    case TP_UINT32: return (limits){"uint32_t", 0, UINT32_MAX};
    case TP_UINT64: return (limits){"uint64_t", 0, 0x1p64 - 2048};
    case TP_FLOAT16: return (limits){"c10::Half", -65504, 65504};
    case TP_BFLOAT16: return (limits){"c10::BFloat16", -0x1.fep127, 0x1.fep127};
    case TP_FLOAT32: return (limits){"float", -FLT_MAX, FLT_MAX};
    case TP_COMPLEX32: return (limits){"c10::complex<c10::Half>", -65504, 65504};
    case TP_COMPLEX64: return (limits){"c10::complex<float>", -FLT_MAX, FLT_MAX};
    case TP_FLOAT8_E4M3FN: return (limits){"c10::Float8_e4m3fn", -448, 448};
    case TP_FLOAT8_E5M2: return (limits){"c10::Float8_e5m2", -57344, 57344};
    case TP_FLOAT8_E4M3FNUZ: return (limits){"c10::Float8_e4m3fnuz", -240, 240};
    case TP_FLOAT8_E5M2FNUZ: return (limits){"c10::Float8_e5m2fnuz", -57344, 57344};
    case TP_FLOAT8_E8M0FNU: return (limits){"c10::Float8_e8m0fnu", 0, 0x1p127}; /* zero becomes the smallest */
    case TP_FLOAT64: return (limits){"double", -DBL_MAX, DBL_MAX};
    default: return (limits){0};
    }
}

static bool part_fits(double v, const limits *l, bool whole) {
    if (!isfinite(v)) return !whole;
    return v >= l->least && (whole ? v < l->most + 1 : v <= l->most);
}

bool tpi_check_fits(tp_scalar value, tp_dtype dtype) {
    limits l = limits_of(dtype);
    bool whole = tp_dtype_is_integral(dtype),
         number_is_whole = value.kind == TP_SCALAR_INT || value.kind == TP_SCALAR_UINT, fits = true;
    double v = tp_scalar_to_double(value);
    if (!l.c || value.kind == TP_SCALAR_BOOL) return true;
    if (number_is_whole && dtype == TP_INT64)
        fits = value.kind == TP_SCALAR_INT;
    else if (number_is_whole && dtype == TP_UINT64)
        fits = true;
    else if (number_is_whole && whole && l.least == 0)
        fits = v <= l.most && v >= -l.most;
    else
        fits = part_fits(v, &l, whole);
    if (value.kind == TP_SCALAR_COMPLEX)
        fits = fits && (tp_dtype_is_complex(dtype) ? part_fits(value.as.d[1], &l, false) : value.as.d[1] == 0);
    return fits || tpi_refuse(TP_ERR_RUNTIME, "value cannot be converted to type %s without overflow", l.c);
}

bool tpi_check_number_fits(tp_scalar value, tp_dtype dtype) {
    return tpi_check_fits(value,
                          tp_dtype_is_integral(dtype) ? dtype : tpi_ctype_dtype((tpi_ctype)tpi_dtype_ctype[dtype]));
}

bool tpi_fit_bound(tp_scalar *bound, tp_dtype dtype, bool least) {
    limits l = limits_of(dtype);
    if (bound->kind == TP_SCALAR_NONE || (dtype == TP_INT64 && bound->kind == TP_SCALAR_INT)) return true;
    if (!tp_dtype_is_integral(dtype)) return tpi_check_fits(*bound, dtype);
    double v = tp_scalar_to_double(*bound);
    bool above = v > l.most, below = v < l.least;
    if (least ? above : below)
        return tpi_refuse(TP_ERR_RUNTIME, "Clamp %s value %g is outside the representable range of %s",
                          least ? "min" : "max", v, tp_dtype_word(dtype));
    if (above) *bound = tp_int(dtype == TP_INT64 ? INT64_MAX : (int64_t)l.most);
    if (below) *bound = tp_int((int64_t)l.least);
    return true;
}

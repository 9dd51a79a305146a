/* In-place fills from one distribution: uniform_, normal_, exponential_, cauchy_, log_normal_, geometric_, bernoulli_,
 * random_.
 *
 * Streams are serial: element after element in memory order, one lock for the whole call. Numbers are drawn in blocks
 * of doubles (or of integers) and then rounded to the tensor's dtype. Two cases that training leans on have loops of
 * their own: uniform floats, and normals of 16 values or more in contiguous memory, where PyTorch's stream itself is
 * another. */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "device/cpu/convert.h"
#include "device/device.h"
#include "ops/random/normal.h"
#include "ops/random/fill.h"
#include "tensor/plan.h"

enum { BLOCK = 512, NORMAL_BLOCK = 16 };

typedef union drawn {
    double real[BLOCK];
    int64_t whole[BLOCK];
} drawn;

typedef struct distribution {
    void (*draw)(tp_generator *g, const struct distribution *of, int64_t n, drawn *out);
    bool whole;     /* draws integers */
    tp_dtype dtype; /* of the tensor */
    double a, b;    /* the distribution's parameters */
    uint64_t range; /* integers: [base, base + range), or all 64 bits if 0 */
    int64_t base;
    bool wide; /* integers: from two words each */
} distribution;

/* ---- Walking the tensor ---- */
static void store_run(char *data, int64_t stride, tp_dtype dtype, const distribution *of, int64_t n, const drawn *v) {
    if (!of->whole && dtype == TP_FLOAT32) {
        for (int64_t i = 0; i < n; i++) *(float *)(data + i * stride) = (float)v->real[i];
    } else if (!of->whole && dtype == TP_FLOAT64) {
        for (int64_t i = 0; i < n; i++) *(double *)(data + i * stride) = v->real[i];
    } else if (of->whole && dtype == TP_INT64) {
        for (int64_t i = 0; i < n; i++) *(int64_t *)(data + i * stride) = v->whole[i];
    } else if (!of->whole && stride == (int64_t)tpi_dtype_bytes[dtype]) {
        TPI_ISA_PICK(tpi_convert_run)(n, (const char *)v->real, TP_FLOAT64, data, dtype);
    } else {
        for (int64_t i = 0; i < n; i++)
            tpi_store_scalar(data + i * stride, dtype, of->whole ? tp_int(v->whole[i]) : tp_float(v->real[i]));
    }
}

static bool fill_from(tp_tensor *t, tp_generator *g, const distribution *of) {
    tpi_plan plan;
    if (!tpi_plan_make(&plan, tpi_shape(t), 1, 1, &t)) return false;
    drawn values;
    char *data[TPI_MAX_OPERANDS];
    g = tpi_generator_lock(g);
    for (int64_t at = 0, n; at < plan.numel; at += n) {
        n = tpi_plan_seek(&plan, at, data);
        if (n > BLOCK) n = BLOCK;
        of->draw(g, of, n, &values);
        store_run(data[0], plan.ndim ? plan.stride[0][0] : 0, (tp_dtype)t->dtype, of, n, &values);
    }
    tpi_generator_unlock(g);
    return true;
}

/* A complex tensor is filled as twice as many reals. `fill` gets t's memory, contiguous. */
typedef void (*fill_memory_fn)(char *data, tp_dtype dtype, int64_t n, tp_generator *g, const distribution *of);
static bool fill_contiguous(tp_tensor *t, tp_generator *g, const distribution *of, fill_memory_fn fill) {
    bool direct = tp_is_contiguous(t);
    tp_tensor *to = direct ? t : tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, tpi_device(t));
    if (!to) return false;
    bool is_complex = tp_dtype_is_complex((tp_dtype)t->dtype);
    g = tpi_generator_lock(g);
    fill(to->data, tpi_dtype_to_real((tp_dtype)t->dtype), to->numel * (is_complex ? 2 : 1), g, of);
    tpi_generator_unlock(g);
    if (direct) return true;
    bool ok = tpi_copy_data(t, to);
    tpi_release(to);
    return ok;
}

static bool check_floating(const tp_tensor *t, bool complex_too) {
    tp_dtype d = (tp_dtype)t->dtype;
    if (tp_dtype_is_floating(d) || (complex_too && tp_dtype_is_complex(d))) return true;
    return tpi_refuse(TP_ERR_MISSING, "argument 'self': expected a floating tensor%s, got %s",
                      complex_too ? " or a complex one" : "", tp_dtype_name(d));
}

/* ---- Uniform ---- */
static void uniform_doubles(tp_generator *g, int64_t n, double *out) {
    uint32_t words[2 * BLOCK];
    for (int64_t at = 0, run; at < n; at += run) {
        run = n - at < BLOCK ? n - at : BLOCK;
        tpi_random_words(g, 2 * run, words);
        for (int64_t i = 0; i < run; i++) {
            uint64_t both = (uint64_t)words[2 * i] << 32 | words[2 * i + 1];
            out[at + i] = (double)(int64_t)(both & ((1ULL << 53) - 1)) * 0x1p-53;
        }
    }
}

/* u * range + from, rounded once, as PyTorch's builds fuse it. Doubles hold the product of two floats exactly. */
static inline float stretch(float u, float range, float from) {
    return from == 0 ? u * range : (float)((double)u * (double)range + (double)from);
}

static void round_block(tp_dtype dtype, int64_t n, float *v) {
    if (dtype != TP_FLOAT16 && dtype != TP_BFLOAT16) return;
    uint16_t narrow[BLOCK];
    TPI_ISA_PICK(tpi_convert_run)(n, (const char *)v, TP_FLOAT32, (char *)narrow, dtype);
    TPI_ISA_PICK(tpi_convert_run)(n, (const char *)narrow, dtype, (char *)v, TP_FLOAT32);
}

/* As the dtype rounds them. The upper end is not part of the range: where rounding reaches it, the lower end stands in.
 */
static void uniform_floats(tp_generator *g, tp_dtype dtype, float *out, int64_t n, double low, double high) {
    uint32_t words[BLOCK];
    float from = (float)low, end = (float)high, range = end - from;
    round_block(dtype, 1, &end);
    for (int64_t at = 0, run; at < n; at += run) {
        float *v = out + at;
        run = n - at < BLOCK ? n - at : BLOCK;
        tpi_random_words(g, run, words);
        for (int64_t i = 0; i < run; i++) v[i] = stretch(tpi_word_to_uniform(words[i]), range, from);
        round_block(dtype, run, v);
        for (int64_t i = 0; i < run; i++) v[i] = v[i] == end ? from : v[i];
    }
}

static void draw_uniform_float(tp_generator *g, const distribution *of, int64_t n, drawn *out) {
    float v[BLOCK];
    uniform_floats(g, of->dtype, v, n, of->a, of->b);
    for (int64_t i = 0; i < n; i++) out->real[i] = (double)v[i];
}

static void stretch_doubles(const distribution *of, int64_t n, double *v) {
    double range = of->b - of->a;
    for (int64_t i = 0; i < n; i++) {
        v[i] = of->a == 0 ? v[i] * range : fma(v[i], range, of->a);
        if (v[i] == of->b) v[i] = of->a;
    }
}

static void draw_uniform_double(tp_generator *g, const distribution *of, int64_t n, drawn *out) {
    uniform_doubles(g, n, out->real);
    stretch_doubles(of, n, out->real);
}

static void uniform_memory(char *data, tp_dtype dtype, int64_t n, tp_generator *g, const distribution *of) {
    if (dtype == TP_FLOAT32) {
        uniform_floats(g, dtype, (float *)data, n, of->a, of->b);
        return;
    }
    if (dtype != TP_FLOAT64) { /* the parts of a complex number made of 16-bit floats */
        float v[BLOCK];
        for (int64_t at = 0, run; at < n; at += run) {
            run = n - at < BLOCK ? n - at : BLOCK;
            uniform_floats(g, dtype, v, run, of->a, of->b);
            TPI_ISA_PICK(tpi_convert_run)(run, (const char *)v, TP_FLOAT32, data + 2 * at, dtype);
        }
        return;
    }
    uniform_doubles(g, n, (double *)data);
    stretch_doubles(of, n, (double *)data);
}

bool tpi_native_uniform(tp_tensor *t, double from, double to, tp_generator *g) {
    if (!check_floating(t, true)) return false;
    if (!(from <= to))
        return tpi_refuse(TP_ERR_RUNTIME, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
                          from, to);
    tp_dtype dtype = (tp_dtype)t->dtype;
    distribution of = {
        .dtype = dtype, .a = from, .b = to, .draw = dtype == TP_FLOAT64 ? draw_uniform_double : draw_uniform_float};
    bool in_one_go = tp_dtype_is_complex(dtype) || (dtype == TP_FLOAT32 && tp_is_contiguous(t));
    return in_one_go ? fill_contiguous(t, g, &of, uniform_memory) : fill_from(t, g, &of);
}

/* ---- Normal ----
 * Box-Muller over blocks of sixteen uniforms: the first eight with the last eight. */
static void normal_block_double(double *v, double mean, double std) {
    for (int j = 0; j < NORMAL_BLOCK / 2; j++) {
        double radius = sqrt(-2 * log(1 - v[j])), angle = 2 * M_PI * v[j + NORMAL_BLOCK / 2];
        v[j] = radius * cos(angle) * std + mean;
        v[j + NORMAL_BLOCK / 2] = radius * sin(angle) * std + mean;
    }
}

static void normal_floats(float *v, int64_t n, tp_generator *g, const distribution *of) {
    uniform_floats(g, TP_FLOAT32, v, n, 0, 1);
    TPI_ISA_PICK(tpi_normal_blocks)(n - n % NORMAL_BLOCK, v, (float)of->a, (float)of->b);
    if (n % NORMAL_BLOCK == 0) return;
    v += n - NORMAL_BLOCK; /* the tail starts over from fresh uniforms */
    uniform_floats(g, TP_FLOAT32, v, NORMAL_BLOCK, 0, 1);
    TPI_ISA_PICK(tpi_normal_blocks)(NORMAL_BLOCK, v, (float)of->a, (float)of->b);
}

static void normal_doubles(double *v, int64_t n, tp_generator *g, const distribution *of) {
    uniform_doubles(g, n, v);
    for (int64_t i = 0; i + NORMAL_BLOCK <= n; i += NORMAL_BLOCK) normal_block_double(v + i, of->a, of->b);
    if (n % NORMAL_BLOCK == 0) return;
    v += n - NORMAL_BLOCK;
    uniform_doubles(g, NORMAL_BLOCK, v);
    normal_block_double(v, of->a, of->b);
}

/* 16-bit floats compute in float, and draw for whole blocks and the tail alone. */
static void normal_halves(uint16_t *v, tp_dtype dtype, int64_t n, tp_generator *g, const distribution *of) {
    float block[NORMAL_BLOCK];
    for (int64_t left = n; left > 0; left -= NORMAL_BLOCK) {
        uint16_t *to = left < NORMAL_BLOCK ? v + n - NORMAL_BLOCK : v + n - left;
        uniform_floats(g, TP_FLOAT32, block, NORMAL_BLOCK, 0, 1);
        TPI_ISA_PICK(tpi_normal_blocks)(NORMAL_BLOCK, block, (float)of->a, (float)of->b);
        for (int i = 0; i < NORMAL_BLOCK; i++)
            to[i] = dtype == TP_FLOAT16 ? tpi_float_to_half(block[i]) : tpi_float_to_bf16(block[i]);
    }
}

static void normal_memory(char *data, tp_dtype dtype, int64_t n, tp_generator *g, const distribution *of) {
    if (n < NORMAL_BLOCK) { /* a complex tensor of few elements */
        for (int64_t i = 0; i < n; i++)
            tpi_store_scalar(data + i * (int64_t)tpi_dtype_bytes[dtype], dtype,
                             tp_float(tpi_normal_double(g) * of->b + of->a));
    } else if (dtype == TP_FLOAT32) {
        normal_floats((float *)data, n, g, of);
    } else if (dtype == TP_FLOAT64) {
        normal_doubles((double *)data, n, g, of);
    } else {
        normal_halves((uint16_t *)data, dtype, n, g, of);
    }
}

static void draw_normal(tp_generator *g, const distribution *of, int64_t n, drawn *out) {
    for (int64_t i = 0; i < n; i++) out->real[i] = tpi_normal_double(g) * of->b + of->a;
}

bool tpi_native_normal(tp_tensor *t, double mean, double std, tp_generator *g) {
    if (!check_floating(t, true)) return false;
    if (!(std >= 0)) return tpi_refuse(TP_ERR_RUNTIME, "normal expects std >= 0.0, but found std %g", std);
    tp_dtype dtype = (tp_dtype)t->dtype;
    distribution of = {.dtype = dtype, .a = mean, .b = std, .draw = draw_normal};
    if (tp_dtype_is_complex(dtype)) { /* the two parts share the variance */
        of.b = std * M_SQRT1_2;
        return fill_contiguous(t, g, &of, normal_memory);
    }
    return t->numel >= NORMAL_BLOCK && tp_is_contiguous(t) ? fill_contiguous(t, g, &of, normal_memory)
                                                           : fill_from(t, g, &of);
}

/* ---- Transformed uniforms and normals ---- */
static void draw_exponential(tp_generator *g, const distribution *of, int64_t n, drawn *out) {
    uniform_doubles(g, n, out->real);
    for (int64_t i = 0; i < n; i++) out->real[i] = -log1p(-out->real[i]) / of->a;
}

bool tpi_native_exponential(tp_tensor *t, double lambd, tp_generator *g) {
    if (!check_floating(t, false)) return false;
    if (!(lambd > 0))
        return tpi_refuse(TP_ERR_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", lambd);
    distribution of = {.dtype = (tp_dtype)t->dtype, .a = lambd, .draw = draw_exponential};
    return fill_from(t, g, &of);
}

static void draw_cauchy(tp_generator *g, const distribution *of, int64_t n, drawn *out) {
    uniform_doubles(g, n, out->real);
    for (int64_t i = 0; i < n; i++) out->real[i] = of->a + of->b * tan(M_PI * (out->real[i] - 0.5));
}

bool tpi_native_cauchy(tp_tensor *t, double median, double sigma, tp_generator *g) {
    if (!check_floating(t, false)) return false;
    if (!(sigma > 0)) return tpi_refuse(TP_ERR_RUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
    distribution of = {.dtype = (tp_dtype)t->dtype, .a = median, .b = sigma, .draw = draw_cauchy};
    return fill_from(t, g, &of);
}

static void draw_log_normal(tp_generator *g, const distribution *of, int64_t n, drawn *out) {
    for (int64_t i = 0; i < n; i++) out->real[i] = exp(tpi_normal_double(g) * of->b + of->a);
}

bool tpi_native_log_normal(tp_tensor *t, double mean, double std, tp_generator *g) {
    if (!check_floating(t, false)) return false;
    if (!(std > 0)) return tpi_refuse(TP_ERR_RUNTIME, "log_normal_ expects std > 0.0, but found std=%g", std);
    distribution of = {.dtype = (tp_dtype)t->dtype, .a = mean, .b = std, .draw = draw_log_normal};
    return fill_from(t, g, &of);
}

static void draw_geometric(tp_generator *g, const distribution *of, int64_t n, drawn *out) {
    uniform_doubles(g, n, out->real);
    for (int64_t i = 0; i < n; i++) out->real[i] = ceil(log(out->real[i]) / log1p(-of->a));
}

bool tpi_native_geometric(tp_tensor *t, double p, tp_generator *g) {
    tp_dtype dtype = (tp_dtype)t->dtype;
    if (!(tpi_dtype_category[dtype] & (TPI_CAT_INT | TPI_CAT_FLOAT)))
        return tpi_refuse(TP_ERR_MISSING, "argument 'self': expected integers or a floating tensor, got %s",
                          tp_dtype_name(dtype));
    if (!(p > 0 && p < 1)) return tpi_refuse(TP_ERR_RUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    distribution of = {.dtype = dtype, .a = p, .draw = draw_geometric};
    return fill_from(t, g, &of);
}

static void draw_bernoulli(tp_generator *g, const distribution *of, int64_t n, drawn *out) {
    uniform_doubles(g, n, out->real);
    for (int64_t i = 0; i < n; i++) out->real[i] = out->real[i] < of->a ? 1 : 0;
}

bool tpi_native_bernoulli_p(tp_tensor *t, double p, tp_generator *g) {
    if (tp_dtype_is_complex((tp_dtype)t->dtype))
        return tpi_refuse(TP_ERR_MISSING, "argument 'self': expected a tensor that is not complex");
    if (!(p >= 0 && p <= 1)) return tpi_refuse(TP_ERR_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    distribution of = {.dtype = (tp_dtype)t->dtype, .a = p, .draw = draw_bernoulli};
    return fill_from(t, g, &of);
}

/* ---- Integers: random_ ----
 * What a dtype holds exactly: all its values, or all integers up to 2 to its digits. */
static bool whole_limits(tp_dtype dtype, int64_t *low, int64_t *high) {
    int digits;
    switch (dtype) {
    case TP_BOOL:
        *low = 0;
        *high = 1;
        return true;
    case TP_UINT8:
        *low = 0;
        *high = UINT8_MAX;
        return true;
    case TP_INT8:
        *low = INT8_MIN;
        *high = INT8_MAX;
        return true;
    case TP_INT16:
        *low = INT16_MIN;
        *high = INT16_MAX;
        return true;
    case TP_INT32:
        *low = INT32_MIN;
        *high = INT32_MAX;
        return true;
    case TP_INT64:
        *low = INT64_MIN;
        *high = INT64_MAX;
        return true;
    case TP_UINT16:
        *low = 0;
        *high = UINT16_MAX;
        return true;
    case TP_UINT32:
        *low = 0;
        *high = UINT32_MAX;
        return true;
    case TP_UINT64:
        *low = 0;
        *high = INT64_MAX;
        return true;
    case TP_FLOAT16: digits = 11; break;
    case TP_BFLOAT16: digits = 8; break;
    case TP_FLOAT32: digits = 24; break;
    case TP_FLOAT64: digits = 53; break;
    default:
        return tpi_refuse(TP_ERR_MISSING, "argument 'self': expected a tensor that is not complex, got %s",
                          tp_dtype_name(dtype));
    }
    *high = (int64_t)1 << digits;
    *low = -*high;
    return true;
}

static void draw_whole(tp_generator *g, const distribution *of, int64_t n, drawn *out) {
    if (of->range == 0) {
        for (int64_t i = 0; i < n; i++) out->whole[i] = (int64_t)tpi_random64(g);
    } else if (of->wide) {
        for (int64_t i = 0; i < n; i++) out->whole[i] = (int64_t)(tpi_random64(g) % of->range + (uint64_t)of->base);
    } else if (of->range > UINT32_MAX) {
        for (int64_t i = 0; i < n; i++) out->whole[i] = (int64_t)(tpi_random32(g) % of->range + (uint64_t)of->base);
    } else { /* the remainder by multiplications, exact for words of 32 bits: the fraction of the quotient, times range
              */
        const uint64_t range = of->range, inverse = UINT64_MAX / range + 1;
        for (int64_t i = 0; i < n; i++) {
            const uint64_t fraction = inverse * tpi_random32(g);
            out->whole[i] = (int64_t)((uint64_t)((unsigned __int128)fraction * range >> 64) + (uint64_t)of->base);
        }
    }
}

static bool fill_whole(tp_tensor *t, int64_t base, uint64_t range, bool wide, tp_generator *g) {
    distribution of = {
        .dtype = (tp_dtype)t->dtype, .whole = true, .base = base, .range = range, .wide = wide, .draw = draw_whole};
    return fill_from(t, g, &of);
}

/* All that the dtype holds from zero up; the largest included. */
bool tpi_native_random(tp_tensor *t, tp_generator *g) {
    int64_t low, high;
    return whole_limits((tp_dtype)t->dtype, &low, &high) &&
           fill_whole(t, 0, (uint64_t)high + 1, tpi_itemsize(t) == 8, g);
}

/* A word's remainder is even enough for ranges that are small against 2 to the 32; a wider range takes two words. */
static bool fill_range(tp_tensor *t, int64_t base, uint64_t range, tp_generator *g) {
    return fill_whole(t, base, range, range >= (uint64_t)1 << 28, g);
}

/* A floating tensor takes integers that it cannot hold, rounded. So that none rounds out of [from, to), ends that would
 * are moved in by one step of the dtype. */
static int64_t round_whole(int64_t v, tp_dtype dtype) {
    double e;
    tpi_store_scalar(&e, dtype, tp_int(v));
    return tp_scalar_to_int(tpi_load_scalar(&e, dtype));
}

static int64_t step_at(int64_t v,
                       int64_t exact) { /* between neighbours of v in a dtype that holds all integers up to `exact` */
    uint64_t size = v < 0 ? -(uint64_t)v : (uint64_t)v;
    int exponent = 63 - __builtin_clzll(size | 1), digits = 63 - __builtin_clzll((uint64_t)exact);
    return exponent < digits ? 1 : (int64_t)1 << (exponent - digits + 1);
}

static void move_ends_in(tp_dtype dtype, int64_t exact, int64_t *from, int64_t *to) {
    int64_t first = round_whole(*from + 1, dtype), last = round_whole(*to - 1, dtype);
    if (first < *from) *from = first + step_at(*from + 1, exact);
    if (last >= *to) *to = last - step_at(*to - 1, exact);
}

bool tpi_native_random_from(tp_tensor *t, int64_t from, int64_t to, tp_generator *g) {
    int64_t low, high;
    tp_dtype dtype = (tp_dtype)t->dtype;
    if (!whole_limits(dtype, &low, &high)) return false;
    bool floating = tp_dtype_is_floating(dtype);
    if (to != TP_NONE && from >= to)
        return tpi_refuse(TP_ERR_RUNTIME, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
                          (long long)from, (long long)to);
    if (!floating && (from < low || from > high))
        return tpi_refuse(TP_ERR_RUNTIME, "from is out of bounds for %s, got %lld", tp_dtype_name(dtype),
                          (long long)from);
    if (to == TP_NONE) return fill_range(t, from, (uint64_t)high - (uint64_t)from + 1, g);
    if (!floating && (to - 1 < low || to - 1 > high))
        return tpi_refuse(TP_ERR_RUNTIME, "to - 1 is out of bounds for %s, got %lld", tp_dtype_name(dtype),
                          (long long)to - 1);
    if (floating) move_ends_in(dtype, high, &from, &to);
    if (from >= to)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "random_ expects 'from' to be less than 'to' in %s, but got from=%lld >= to=%lld",
                          tp_dtype_name(dtype), (long long)from, (long long)to);
    return fill_range(t, from, (uint64_t)to - (uint64_t)from, g);
}

bool tpi_native_random_to(tp_tensor *t, int64_t to, tp_generator *g) { return tpi_native_random_from(t, 0, to, g); }

/* Random numbers on GPUs: fills from one distribution, new tensors, and what dropout multiplies with, from the device's
 * Philox stream. */
#include "tensor/same_device.h"
#include "ops/random/random_gpu.h"
#include <taper/device.h>

enum {
    UNIFORM = 1,
    NORMAL,
    EXPONENTIAL,
    CAUCHY,
    LOG_NORMAL,
    GEOMETRIC,
    BERNOULLI,
    INTEGERS
}; /* as ops/random/random_gpu_kernel.h has them */

static const tpi_gpu_site fill_site = {"random_gpu_kernel.h", "fill"};

/* The compute type that values of the kernel are cast to on their way into the dtype. */
static int cast_of(tp_dtype d, bool integers) {
    tpi_ctype c = d == TP_BOOL ? TPI_B8 : (tpi_ctype)tpi_dtype_ctype[d];
    return (int)c + (integers ? 16 : 0);
}

typedef struct distribution {
    int kind;
    double a, b;
    int64_t base;
    uint64_t range; /* 0: all 64 bits */
} distribution;

bool tpi_gpu_draw_words(tp_generator *g, tp_device device, uint64_t words, tpi_gpu_draw *out) {
    if (g && tp_generator_device(g).type == TP_CPU &&
        device.type != TP_META) /* declining would draw from it on the host */
        return tpi_refuse(TP_ERR_RUNTIME, "Expected a '%s' device type for generator but found 'cpu'",
                          tp_device_type_name((tp_device_type)device.type));
    out->moved = g ? NULL
                   : tpi_gpu_graph_numbers(
                         device); /* of the default generator alone, as with PyTorch's unless one is registered */
    return tpi_philox_reserve(g, device, words, &out->stream);
}

static bool fill_plain(tp_tensor *t, const distribution *d, tp_generator *g) {
    tp_device device = tpi_device(t);
    tp_dtype dtype = (tp_dtype)t->dtype;
    bool complex = tp_dtype_is_complex(dtype), wide = dtype == TP_FLOAT64 || dtype == TP_COMPLEX128;
    int64_t n = t->numel * (complex ? 2 : 1);
    dtype = tpi_dtype_to_real(dtype);
    int words = d->kind == INTEGERS ? (d->range == 0 || d->range > UINT32_MAX ? 2 : 1) : wide ? 2 : 1;
    tpi_gpu_draw draw;
    if (!tpi_gpu_draw_words(g, device, (uint64_t)tpi_ceil_div(n, 4) * 4 * (uint64_t)words, &draw)) return false;
    if (!n) return true;
    void *moved = draw.moved;
    const tpi_gpu_define defines[] = {
        TPI_DEFINE("KIND", d->kind), TPI_DEFINE("WORDS", words), TPI_DEFINE_DTYPE("Y", dtype),
        TPI_DEFINE("CAST_TO", cast_of(dtype, d->kind == INTEGERS)), TPI_DEFINE("MOVED", moved != NULL)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, &fill_site, wide, 5, defines);
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    if (!kernel || !caps) return false;
    float a = (float)d->a, b = (float)d->b;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(t->data),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(draw.stream.seed),
                                TPI_GPU_VAL(draw.stream.offset),
                                d->kind == INTEGERS ? TPI_GPU_VAL(d->base)
                                : wide              ? TPI_GPU_VAL(d->a)
                                                    : TPI_GPU_VAL(a),
                                d->kind == INTEGERS ? TPI_GPU_VAL(d->range)
                                : wide              ? TPI_GPU_VAL(d->b)
                                                    : TPI_GPU_VAL(b),
                                TPI_GPU_PTR(moved)};
    int64_t blocks = tpi_ceil_div(tpi_ceil_div(n, 4), 256), most = (int64_t)caps->units * 16;
    return tpi_gpu_launch(device, kernel, blocks < most ? blocks : most, 256, 0, moved ? 7 : 6, args);
}

static bool fill(tp_tensor *t, distribution d, tp_generator *g) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(tpi_device(t));
    if (!caps || (!caps->f64 && (t->dtype == TP_FLOAT64 || t->dtype == TP_COMPLEX128))) return false;
    if (tpi_is_dense(t)) return fill_plain(t, &d, g);
    tp_tensor *plain = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, tpi_device(t));
    bool ok = plain && fill_plain(plain, &d, g) && tpi_copy_data(t, plain);
    tpi_release(plain);
    return ok;
}

static bool is_floating(const tp_tensor *t) { return tp_dtype_is_floating((tp_dtype)t->dtype); }

/* ---- In place. Arguments that are wrong are the CPU's to refuse. ---- */
tpi_served tpi_gpu_uniform(tp_tensor *t, double from, double to, tp_generator *g) {
    return tpi_serve_if((is_floating(t) || tp_dtype_is_complex((tp_dtype)t->dtype)) && from <= to &&
                        fill(t, (distribution){.kind = UNIFORM, .a = from, .b = to}, g));
}
tpi_served tpi_gpu_normal(tp_tensor *t, double mean, double std, tp_generator *g) {
    bool complex = tp_dtype_is_complex((tp_dtype)t->dtype);
    if (!(is_floating(t) || complex) || !(std >= 0)) return TPI_DECLINED;
    return tpi_serve_if(
        fill(t, (distribution){.kind = NORMAL, .a = mean, .b = complex ? std * 0.70710678118654752440 : std}, g));
}
tpi_served tpi_gpu_exponential(tp_tensor *t, double lambd, tp_generator *g) {
    return tpi_serve_if(is_floating(t) && lambd > 0 && fill(t, (distribution){.kind = EXPONENTIAL, .a = lambd}, g));
}
tpi_served tpi_gpu_cauchy(tp_tensor *t, double median, double sigma, tp_generator *g) {
    return tpi_serve_if(is_floating(t) && sigma > 0 &&
                        fill(t, (distribution){.kind = CAUCHY, .a = median, .b = sigma}, g));
}
tpi_served tpi_gpu_log_normal(tp_tensor *t, double mean, double std, tp_generator *g) {
    return tpi_serve_if(is_floating(t) && std > 0 &&
                        fill(t, (distribution){.kind = LOG_NORMAL, .a = mean, .b = std}, g));
}
tpi_served tpi_gpu_geometric(tp_tensor *t, double p, tp_generator *g) {
    return tpi_serve_if(!tp_dtype_is_complex((tp_dtype)t->dtype) && p > 0 && p < 1 &&
                        fill(t, (distribution){.kind = GEOMETRIC, .a = p}, g));
}
tpi_served tpi_gpu_bernoulli_p(tp_tensor *t, double p, tp_generator *g) {
    return tpi_serve_if(!tp_dtype_is_complex((tp_dtype)t->dtype) && p >= 0 && p <= 1 &&
                        fill(t, (distribution){.kind = BERNOULLI, .a = p, .b = 1}, g));
}

/* random_ without bounds: all that the dtype holds exactly. */
static int64_t highest(tp_dtype d) {
    switch (d) {
    case TP_BOOL: return 1;
    case TP_UINT8: return 255;
    case TP_INT8: return 127;
    case TP_INT16: return 32767;
    case TP_INT32: return INT32_MAX;
    case TP_INT64: return INT64_MAX;
    case TP_FLOAT16: return 1 << 11;
    case TP_BFLOAT16: return 1 << 8;
    case TP_FLOAT32: return 1 << 24;
    default: return (int64_t)1 << 53;
    }
}
tpi_served tpi_gpu_random(tp_tensor *t, tp_generator *g) {
    if (tp_dtype_is_complex((tp_dtype)t->dtype)) return TPI_DECLINED;
    return tpi_serve_if(
        fill(t, (distribution){.kind = INTEGERS, .range = (uint64_t)highest((tp_dtype)t->dtype) + 1}, g));
}
tpi_served tpi_gpu_random_from(tp_tensor *t, int64_t from, int64_t to, tp_generator *g) {
    if (tp_dtype_is_complex((tp_dtype)t->dtype) || to == TP_NONE || from >= to) return TPI_DECLINED;
    if (is_floating(t) ? from < -highest((tp_dtype)t->dtype) || to > highest((tp_dtype)t->dtype) + 1
                       : to - 1 > highest((tp_dtype)t->dtype))
        return TPI_DECLINED;
    if (!is_floating(t) && from < -highest((tp_dtype)t->dtype) - 1) return TPI_DECLINED;
    return tpi_serve_if(
        fill(t, (distribution){.kind = INTEGERS, .base = from, .range = (uint64_t)to - (uint64_t)from}, g));
}
tpi_served tpi_gpu_random_to(tp_tensor *t, int64_t to, tp_generator *g) { return tpi_gpu_random_from(t, 0, to, g); }

/* ---- New tensors ---- */
static tp_tensor *when(bool filled, tp_tensor *t) { return filled ? t : tpi_release_then(t, NULL); }

static tp_tensor *empty_of(tp_ints size, tp_dtype dtype, tp_device device) {
    for (int64_t i = 0; i < size.n; i++)
        if (size.v[i] < 0) return NULL;
    return tpi_empty(size, dtype, tpi_device_or_default(device));
}

static tp_tensor *empty_like(tp_tensor *self, tp_dtype dtype, tp_device device, tp_layout layout) {
    if (device.type && !tpi_same_device(device, tpi_device(self))) return NULL;
    if (!dtype) dtype = (tp_dtype)self->dtype;
    return layout == TP_PRESERVE ? tpi_empty_like(self, dtype)
                                 : tpi_empty_layout(tpi_shape(self), dtype, tpi_device(self), layout);
}

tpi_served tpi_gpu_rand(tp_ints size, tp_generator *g, tp_dtype dtype, tp_device device, tp_tensor **result) {
    tp_tensor *t = empty_of(size, tpi_dtype_or_default(dtype), device);
    return tpi_serve(t ? when(tpi_gpu_uniform(t, 0, 1, g) == TPI_SERVED, t) : NULL, result);
}
tpi_served tpi_gpu_randn(tp_ints size, tp_generator *g, tp_dtype dtype, tp_device device, tp_tensor **result) {
    tp_tensor *t = empty_of(size, tpi_dtype_or_default(dtype), device);
    return tpi_serve(t ? when(tpi_gpu_normal(t, 0, 1, g) == TPI_SERVED, t) : NULL, result);
}
tpi_served tpi_gpu_normal_float_float(double mean, double std, tp_ints size, tp_generator *g, tp_dtype dtype,
                                      tp_device device, tp_tensor **result) {
    tp_tensor *t = empty_of(size, tpi_dtype_or_default(dtype), device);
    return tpi_serve(t ? when(tpi_gpu_normal(t, mean, std, g) == TPI_SERVED, t) : NULL, result);
}
tpi_served tpi_gpu_randint_low(int64_t low, int64_t high, tp_ints size, tp_generator *g, tp_dtype dtype,
                               tp_device device, tp_tensor **result) {
    tp_tensor *t = low < high ? empty_of(size, dtype ? dtype : TP_INT64, device) : NULL;
    return tpi_serve(t ? when(tpi_gpu_random_from(t, low, high, g) == TPI_SERVED, t) : NULL, result);
}
tpi_served tpi_gpu_randint(int64_t high, tp_ints size, tp_generator *g, tp_dtype dtype, tp_device device,
                           tp_tensor **result) {
    return tpi_gpu_randint_low(0, high, size, g, dtype, device, result);
}
tpi_served tpi_gpu_rand_like(tp_tensor *self, tp_generator *g, tp_dtype dtype, tp_device device, tp_layout layout,
                             tp_tensor **result) {
    tp_tensor *t = empty_like(self, dtype, device, layout);
    return tpi_serve(t ? when(tpi_gpu_uniform(t, 0, 1, g) == TPI_SERVED, t) : NULL, result);
}
tpi_served tpi_gpu_randn_like(tp_tensor *self, tp_generator *g, tp_dtype dtype, tp_device device, tp_layout layout,
                              tp_tensor **result) {
    tp_tensor *t = empty_like(self, dtype, device, layout);
    return tpi_serve(t ? when(tpi_gpu_normal(t, 0, 1, g) == TPI_SERVED, t) : NULL, result);
}

tpi_served tpi_gpu_randint_like_low(tp_tensor *self, int64_t low, int64_t high, tp_generator *g, tp_dtype dtype,
                                    tp_device device, tp_layout layout, tp_tensor **result) {
    tp_tensor *t = low < high ? empty_like(self, dtype, device, layout) : NULL;
    return tpi_serve(t ? when(tpi_gpu_random_from(t, low, high, g) == TPI_SERVED, t) : NULL, result);
}
tpi_served tpi_gpu_randint_like(tp_tensor *self, int64_t high, tp_generator *g, tp_dtype dtype, tp_device device,
                                tp_layout layout, tp_tensor **result) {
    return tpi_gpu_randint_like_low(self, 0, high, g, dtype, device, layout, result);
}

/* ---- Dropout: see src/ops/random/dropout.c ---- */
static tp_tensor *noise(tp_tensor *self, double p, int64_t keep, double kept, tp_generator *g) {
    tp_dtype dtype = tpi_dtype_to_real((tp_dtype)self->dtype);
    if (!(p >= 0 && p <= 1) || !tp_dtype_is_floating(dtype) || (keep >= 0 && self->ndim < 2)) return NULL;
    int64_t shape[TP_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) shape[i] = keep < 0 || i < keep ? self->shape[i] : 1;
    tp_tensor *out =
        keep < 0 ? tpi_empty_like(self, dtype) : tpi_empty(tp_ints_view(shape, self->ndim), dtype, tpi_device(self));
    if (!out) return NULL;
    if (p == 1) return when(tpi_fill_data(out, tp_float(0)), out);
    return when(fill(out, (distribution){.kind = BERNOULLI, .a = 1 - p, .b = kept}, g), out);
}

tpi_served tpi_gpu_dropout_mask(tp_tensor *self, double p, int64_t keep, tp_generator *g, tp_tensor **result) {
    return tpi_serve(noise(self, p, keep, 1, g), result);
}
tpi_served tpi_gpu_dropout_noise(tp_tensor *self, double p, int64_t keep, tp_generator *g, tp_tensor **result) {
    return tpi_serve(noise(self, p, keep, p < 1 ? 1 / (1 - p) : 0, g), result);
}

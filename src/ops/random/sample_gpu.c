/* Samples whose distribution is itself a tensor, on GPUs: from uniform, normal and exponential numbers of the device's
 * stream (random_gpu.c), or by a kernel that draws as long as an element needs (ops/random/sample_gpu_kernel.h).
 * Probabilities of bernoulli and multinomial that are none are faults (device/gpu/fault.c); other values that make no
 * sense are not refused. */
#include "ops/random/random_gpu.h"
#include "ops/temporaries.h"
#include "ops/sort/order_gpu.h"
#include "ops/random/fill.h"
#include "tpi_ops.h"
#include <float.h>
#include <math.h>

enum { POISSON = 1, BINOMIAL, GAMMA }; /* as ops/random/sample_gpu_kernel.h has them */

static const tpi_gpu_site sample_site = {"sample_gpu_kernel.h", "sample"};

static bool is_wide(const tp_tensor *t) { return t->dtype == TP_FLOAT64; }

/* ---- Bernoulli ---- */
/* out = 1 with the probability p, else 0. */
static bool toss(tp_tensor *out, tp_tensor *p, tp_generator *g) {
    tpi_temporaries temps = {0};
    tp_tensor *numbers =
                  tpi_put(&temps, tpo_rand(tpi_shape(out), g, is_wide(p) ? TP_FLOAT64 : TP_FLOAT32, tpi_device(out))),
              *alone = tpi_put(&temps, tpi_detached(p));
    tp_tensor *dense = alone ? tpi_put(&temps, tpi_contiguous_data(alone)) : NULL;
    if (!dense || (dense->numel && !tpi_gpu_watch_values(dense, 0, false, 1, TPI_FAULT_PROBABILITY))) {
        tpi_release_temporaries(&temps, NULL);
        return false;
    }
    tp_tensor *hit = numbers && alone ? tpi_put(&temps, tpo_lt(numbers, TP_OPERAND(alone))) : NULL;
    bool ok = hit && tpi_copy_data(out, hit);
    tpi_release_temporaries(&temps, NULL);
    return ok;
}

tpi_served tpi_gpu_bernoulli_Tensor(tp_tensor *self, tp_tensor *p, tp_generator *g) {
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!tpi_gpu_floats(p) || tp_dtype_is_complex((tp_dtype)self->dtype) ||
        !tpi_broadcast(tpi_shape(self), tpi_shape(p), shape, &ndim) || ndim != self->ndim) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    for (int i = 0; i < ndim; i++)
        if (shape[i] != self->shape[i]) return TPI_DECLINED;
    return tpi_serve_if(toss(self, p, g));
}

tpi_served tpi_gpu_bernoulli(tp_tensor *self, tp_generator *g, tp_tensor **result) {
    tp_tensor *out = tpi_gpu_floats(self) ? tpi_empty_like(self, (tp_dtype)self->dtype) : NULL;
    return tpi_serve(out && !toss(out, self, g) ? tpi_release_then(out, NULL) : out, result);
}

/* ---- Multinomial: with replacement places in the running sums, without the k largest of p / q, q exponential ---- */
static tp_tensor *by_sums(tp_tensor *p, int64_t k, tp_generator *g, tpi_temporaries *temps) {
    int64_t n = p->shape[p->ndim - 1], shape[2] = {p->shape[0], k};
    tp_tensor *sums = tpi_put(temps, tpo_cumsum(p, -1, TP_NO_DTYPE)),
              *total = tpi_put(temps, tpo_narrow(sums, -1, n - 1, 1));
    tp_tensor *parts = tpi_put(temps, tpo_div(TP_OPERAND(sums), TP_OPERAND(total)));
    tp_tensor *numbers = parts ? tpi_put(temps, tpo_rand(p->ndim == 2 ? tp_ints_view(shape, 2) : TP_INTS(k), g,
                                                         (tp_dtype)p->dtype, tpi_device(p)))
                               : NULL;
    return numbers ? tpo_searchsorted(parts, numbers, false, true, NULL, NULL)
                   : NULL; /* right: what has no probability is never drawn */
}

static tp_tensor *by_race(tp_tensor *p, int64_t k, tp_generator *g, tpi_temporaries *temps) {
    tp_tensor *clocks = tpi_put(temps, tpi_empty(tpi_shape(p), (tp_dtype)p->dtype, tpi_device(p))), *both[2];
    if (!clocks || !tpo_exponential_(clocks, 1, g)) return NULL;
    tp_tensor *late = tpi_put(temps, tpo_clamp_min(clocks, tp_operand_double(1e-37))),
              *scores = tpi_put(temps, tpo_div(TP_OPERAND(p), TP_OPERAND(late))); /* 0 / 0 would win */
    if (k == 1) return tpo_argmax(scores, -1, true);
    if (!scores || !tpo_topk(scores, k, -1, true, true, both)) return NULL;
    return tpi_release_then(both[0], both[1]);
}

/* Rows without a negative, infinite or missing weight, whose sum is not zero. */
static bool watch_weights(tp_tensor *p, tpi_temporaries *temps) {
    tp_tensor *dense = tpi_put(temps, tpi_contiguous_data(p)),
              *sums = dense ? tpi_put(temps, tpo_sum(dense, TP_INTS(-1), false, TP_NO_DTYPE)) : NULL;
    return sums && tpi_gpu_watch_values(dense, 0, false, is_wide(p) ? DBL_MAX : FLT_MAX, TPI_FAULT_WEIGHT) &&
           tpi_gpu_watch_values(sums, 0, true, INFINITY, TPI_FAULT_NO_WEIGHT);
}

tpi_served tpi_gpu_multinomial(tp_tensor *self, int64_t k, bool replacement, tp_generator *g, tp_tensor **result) {
    if (self->ndim < 1 || self->ndim > 2 || !self->numel || !tpi_gpu_floats(self) || k <= 0 ||
        (!replacement && k > self->shape[self->ndim - 1]))
        return TPI_DECLINED;
    tpi_temporaries temps = {0};
    tp_tensor *alone = tpi_put(&temps, tpi_detached(self)),
              *p = alone ? tpi_put(&temps, tpi_as_dtype_data(alone, is_wide(self) ? TP_FLOAT64 : TP_FLOAT32)) : NULL;
    return tpi_serve(tpi_release_temporaries(&temps, p && watch_weights(p, &temps)
                                                         ? (replacement && k > 1 ? by_sums : by_race)(p, k, g, &temps)
                                                         : NULL),
                     result);
}

/* ---- Permutations: places of random keys, wide enough that two are hardly ever the same ---- */
static int key_bits(int64_t n) {
    int bits = 12;
    for (; n; n >>= 1) bits += 2;
    return bits < 56 ? (bits + 7) / 8 * 8 : 56;
}

tpi_served tpi_gpu_randperm(int64_t n, tp_generator *g, tp_dtype dtype, tp_device device, tp_tensor **result) {
    if (!dtype) dtype = TP_INT64;
    if (n < 0 || (n > INT32_MAX && device.type != TP_META) || (dtype != TP_INT64 && dtype != TP_INT32))
        return TPI_DECLINED;
    device = tpi_device_or_default(device);
    if (n == 0) return tpi_serve(tpi_empty(TP_INTS(0), dtype, device), result);
    int64_t limit = (int64_t)1 << key_bits(n);
    tp_tensor *keys = tpo_randint_low(0, limit, TP_INTS(n), g, TP_INT64, device),
              *order = keys ? tpi_gpu_order_indices(keys, limit - 1, NULL) : NULL;
    tpi_release(keys);
    return tpi_serve(order ? tpi_release_then(order, tpi_as_dtype_data(order, dtype)) : NULL, result);
}

/* ---- normal(mean, std) with tensors: mean or std may be NULL, for the plain number. The result takes the first
 * tensor's dtype. ---- */
static tp_tensor *normal_of(tp_tensor *mean, tp_tensor *std, double plain_mean, double plain_std, tp_generator *g) {
    tp_tensor *first = mean ? mean : std, *other = std ? std : mean;
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!tpi_gpu_floats(first) || !tpi_gpu_floats(other) || !(plain_std >= 0) ||
        !tpi_broadcast(tpi_shape(first), tpi_shape(other), shape, &ndim)) {
        tp_error_clear();
        return NULL;
    }
    tp_dtype dtype = (tp_dtype)first->dtype;
    tpi_temporaries temps = {0};
    tp_tensor *z =
        tpi_put(&temps, tpo_normal_float_float(0, plain_std, tp_ints_view(shape, ndim), g, dtype, tpi_device(first)));
    for (int i = 0; i < 2 && z; i++) { /* times std, plus mean */
        tp_tensor *by = i ? mean : std;
        if (!by) {
            if (i && plain_mean != 0)
                z = tpi_put(&temps, tpo_add(TP_OPERAND(z), tp_operand_double(plain_mean), tp_int(1)));
            continue;
        }
        tp_tensor *alone = tpi_put(&temps, tpi_detached(by)),
                  *same = alone ? tpi_put(&temps, tpi_as_dtype_data(alone, dtype)) : NULL;
        z = tpi_put(&temps,
                    i ? tpo_add(TP_OPERAND(z), TP_OPERAND(same), tp_int(1)) : tpo_mul(TP_OPERAND(z), TP_OPERAND(same)));
    }
    return tpi_release_temporaries(&temps, tpi_retain(z));
}

tpi_served tpi_gpu_normal_Tensor_Tensor(tp_tensor *mean, tp_tensor *std, tp_generator *g, tp_tensor **result) {
    return tpi_serve(normal_of(mean, std, 0, 1, g), result);
}
tpi_served tpi_gpu_normal_Tensor_float(tp_tensor *mean, double std, tp_generator *g, tp_tensor **result) {
    return tpi_serve(normal_of(mean, NULL, 0, std, g), result);
}
tpi_served tpi_gpu_normal_float_Tensor(double mean, tp_tensor *std, tp_generator *g, tp_tensor **result) {
    return tpi_serve(normal_of(NULL, std, mean, 1, g), result);
}

/* ---- rrelu's slopes: see src/ops/random/dropout.c ---- */
tpi_served tpi_gpu_rrelu_noise(tp_tensor *self, tp_scalar lower, tp_scalar upper, tp_generator *g, tp_tensor **result) {
    double from = tp_scalar_to_double(lower), to = tp_scalar_to_double(upper);
    if (!tpi_gpu_floats(self) || !(from <= to)) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    tp_tensor *slopes = tpi_put(&temps, tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, tpi_device(self))),
              *alone = tpi_put(&temps, tpi_detached(self));
    if (!slopes || !alone || !tpo_uniform_(slopes, from, to, g)) {
        tpi_release_temporaries(&temps, NULL);
        return tpi_not_served();
    }
    tp_tensor *falls = tpi_put(&temps, tpo_le(alone, tp_operand_int(0)));
    return tpi_serve(tpi_release_temporaries(&temps, tpo_where(falls, TP_OPERAND(slopes), tp_operand_double(1))),
                     result);
}

/* ---- By rejection ---- */
/* A sample for each element of a (and b), in the dtype, of a's shape. Double precision where there is any. */
static tp_tensor *sampled(int kind, tp_tensor *a, tp_tensor *b, double least, tp_dtype dtype, tp_generator *g) {
    tp_device device = tpi_device(a);
    bool wide = tpi_gpu_has_f64(device);
    int64_t n = a->numel;
    tpi_gpu_draw draw;
    if (!tpi_gpu_draw_words(g, device, 4 * (uint64_t)n, &draw)) return NULL;
    tp_tensor *x = tpi_contiguous_data(a), *y = x && b ? tpi_contiguous_data(b) : NULL,
              *out = x && (y || !b) ? tpi_empty(tpi_shape(a), dtype, device) : NULL;
    bool ok = out;
    if (ok && n) {
        const tpi_gpu_define defines[] = {TPI_DEFINE("KIND", kind), TPI_DEFINE("MOVED", draw.moved != NULL),
                                          TPI_DEFINE_DTYPE("X", a->dtype), TPI_DEFINE_DTYPE("Y", dtype)};
        tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, &sample_site, wide, 4, defines);
        const tpi_gpu_arg args[] = {TPI_GPU_PTR(out->data),          TPI_GPU_PTR(x->data),
                                    TPI_GPU_PTR(tpi_gpu_data(y)),    TPI_GPU_VAL(n),
                                    TPI_GPU_REAL(least, wide),       TPI_GPU_VAL(draw.stream.seed),
                                    TPI_GPU_VAL(draw.stream.offset), TPI_GPU_PTR(draw.moved)};
        ok = tpi_gpu_launch_each(device, kernel, n, draw.moved ? 8 : 7, args);
    }
    tpi_release(x);
    tpi_release(y);
    return ok ? out : tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_poisson(tp_tensor *self, tp_generator *g, tp_tensor **result) {
    return tpi_serve(tpi_gpu_floats(self) ? sampled(POISSON, self, NULL, 0, (tp_dtype)self->dtype, g) : NULL, result);
}

tpi_served tpi_gpu_binomial(tp_tensor *count, tp_tensor *prob, tp_generator *g, tp_tensor **result) {
    if (!tpi_gpu_floats(count) || prob->dtype != count->dtype || !tpi_same_shape(prob, count)) return TPI_DECLINED;
    return tpi_serve(sampled(BINOMIAL, count, prob, 0, (tp_dtype)count->dtype, g), result);
}

tpi_served tpi_gpu_standard_gamma(tp_tensor *self, tp_generator *g, tp_tensor **result) {
    return tpi_serve(tpi_gpu_floats(self)
                         ? sampled(GAMMA, self, NULL, tpi_least_normal((tp_dtype)self->dtype), (tp_dtype)self->dtype, g)
                         : NULL,
                     result);
}

/* Gammas over their sum, within what the dtype tells from 0 and 1. */
tpi_served tpi_gpu_sample_dirichlet(tp_tensor *self, tp_generator *g, tp_tensor **result) {
    if (!self->ndim || !self->numel || !tpi_gpu_floats(self)) return TPI_DECLINED;
    tp_dtype dtype = (tp_dtype)self->dtype;
    bool wide = tpi_gpu_has_f64(tpi_device(self));
    tpi_temporaries temps = {0};
    tp_tensor *gammas = tpi_put(
        &temps, sampled(GAMMA, self, NULL, wide ? DBL_MIN : (double)FLT_MIN, wide ? TP_FLOAT64 : TP_FLOAT32, g));
    tp_tensor *total = tpi_put(&temps, tpo_sum(gammas, TP_INTS(-1), true, TP_NO_DTYPE)),
              *parts = tpi_put(&temps, tpo_div(TP_OPERAND(gammas), TP_OPERAND(total)));
    tp_tensor *above = tpi_put(&temps, tpo_clamp_min(parts, tp_operand_double(tpi_least_normal(dtype)))),
              *within = tpi_put(&temps, tpo_clamp_max(above, tp_operand_double(tpi_below_one(dtype))));
    return tpi_serve(tpi_release_temporaries(&temps, within ? tpi_as_dtype_data(within, dtype) : NULL), result);
}

/* New random tensors: rand, randn, randint, randperm, their _like forms, and normal with means and deviations from
 * tensors. */
#include "base/error.h"
#include "ops/native.h"
#include "ops/random/fill.h"
#include "tensor/same_device.h"

/* Takes over t; gives it back when it was not filled. */
static tp_tensor *when(bool filled, tp_tensor *t) {
    if (filled) return t;
    tpi_release(t);
    return NULL;
}

static tp_tensor *empty_like(tp_tensor *self, tp_dtype dtype, tp_device device, tp_layout layout) {
    if (!dtype) dtype = (tp_dtype)self->dtype;
    if (!device.type) device = tpi_device(self);
    bool same_device = tpi_same_device(device, tpi_device(self));
    if (layout == TP_PRESERVE && same_device) return tpi_empty_like(self, dtype);
    return tpi_empty_layout(tpi_shape(self), dtype, device, layout);
}

/* ---- Uniform and normal ---- */
tp_tensor *tpi_native_rand(tp_ints size, tp_generator *g, tp_dtype dtype, tp_device device) {
    tp_tensor *t = tpi_empty(size, tpi_dtype_or_default(dtype), tpi_device_or_default(device));
    return t ? when(tpi_native_uniform(t, 0, 1, g), t) : NULL;
}

tp_tensor *tpi_native_randn(tp_ints size, tp_generator *g, tp_dtype dtype, tp_device device) {
    tp_tensor *t = tpi_empty(size, tpi_dtype_or_default(dtype), tpi_device_or_default(device));
    return t ? when(tpi_native_normal(t, 0, 1, g), t) : NULL;
}

tp_tensor *tpi_native_rand_like(tp_tensor *self, tp_generator *g, tp_dtype dtype, tp_device device, tp_layout layout) {
    tp_tensor *t = empty_like(self, dtype, device, layout);
    return t ? when(tpi_native_uniform(t, 0, 1, g), t) : NULL;
}

tp_tensor *tpi_native_randn_like(tp_tensor *self, tp_generator *g, tp_dtype dtype, tp_device device, tp_layout layout) {
    tp_tensor *t = empty_like(self, dtype, device, layout);
    return t ? when(tpi_native_normal(t, 0, 1, g), t) : NULL;
}

tp_tensor *tpi_native_normal_float_float(double mean, double std, tp_ints size, tp_generator *g, tp_dtype dtype,
                                         tp_device device) {
    tp_tensor *t = tpi_empty(size, tpi_dtype_or_default(dtype), tpi_device_or_default(device));
    return t ? when(tpi_native_normal(t, mean, std, g), t) : NULL;
}

/* ---- Integers ---- */
tp_tensor *tpi_native_randint_low(int64_t low, int64_t high, tp_ints size, tp_generator *g, tp_dtype dtype,
                                  tp_device device) {
    tp_tensor *t = tpi_empty(size, dtype ? dtype : TP_INT64, tpi_device_or_default(device));
    return t ? when(tpi_native_random_from(t, low, high, g), t) : NULL;
}

tp_tensor *tpi_native_randint(int64_t high, tp_ints size, tp_generator *g, tp_dtype dtype, tp_device device) {
    return tpi_native_randint_low(0, high, size, g, dtype, device);
}

tp_tensor *tpi_native_randint_like_low(tp_tensor *self, int64_t low, int64_t high, tp_generator *g, tp_dtype dtype,
                                       tp_device device, tp_layout layout) {
    tp_tensor *t = empty_like(self, dtype, device, layout);
    return t ? when(tpi_native_random_from(t, low, high, g), t) : NULL;
}

tp_tensor *tpi_native_randint_like(tp_tensor *self, int64_t high, tp_generator *g, tp_dtype dtype, tp_device device,
                                   tp_layout layout) {
    return tpi_native_randint_like_low(self, 0, high, g, dtype, device, layout);
}

/* ---- Permutations: each place swaps with itself or one behind it ---- */
static void shuffle(int64_t *v, int64_t n, tp_generator *g) {
    bool wide = n >= UINT32_MAX / 20; /* where 32 bits would favour the first places */
    for (int64_t i = 0; i < n; i++) v[i] = i;
    g = tpi_generator_lock(g);
    for (int64_t i = 0; i + 1 < n; i++) {
        uint64_t word = wide ? tpi_random64(g) : tpi_random32(g);
        int64_t j = i + (int64_t)(word % (uint64_t)(n - i)), kept = v[i];
        v[i] = v[j];
        v[j] = kept;
    }
    tpi_generator_unlock(g);
}

static int64_t largest_whole(tp_dtype d) {
    switch (d) {
    case TP_UINT8: return UINT8_MAX;
    case TP_INT8: return INT8_MAX;
    case TP_INT16: return INT16_MAX;
    case TP_INT32: return INT32_MAX;
    case TP_BFLOAT16: return 1 << 8;
    case TP_FLOAT16: return 1 << 11;
    case TP_FLOAT32: return 1 << 24;
    default: return (int64_t)1 << 53;
    }
}

tp_tensor *tpi_native_randperm(int64_t n, tp_generator *g, tp_dtype dtype, tp_device device) {
    if (!dtype) dtype = TP_INT64;
    if (n < 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'n': Trying to create tensor with negative dimension %lld: [%lld]",
                        (long long)n, (long long)n);
    if (dtype == TP_BOOL || tp_dtype_is_complex(dtype))
        return tpi_fail(TP_ERR_MISSING, "argument 'dtype': expected an integer or floating type, got %s",
                        tp_dtype_name(dtype));
    if (n - 1 > largest_whole(dtype))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'n': %lld is too large for %s", (long long)n, tp_dtype_name(dtype));
    tp_tensor *t = tpi_empty(TP_INTS(n), TP_INT64, tpi_device_or_default(device));
    if (!t) return NULL;
    shuffle((int64_t *)t->data, n, g);
    return tpi_release_then(t, tpi_as_dtype_data(t, dtype));
}

/* ---- normal(mean, std) with tensors: standard normals, times std, plus mean, rounded after each step ---- */
static void scale_and_shift(tp_tensor *t, const tp_tensor *std, const tp_tensor *mean, double plain_mean) {
    tp_dtype d = (tp_dtype)t->dtype;
    int64_t item = (int64_t)tpi_itemsize(t);
    for (int64_t i = 0; i < t->numel; i++) {
        char *e = t->data + i * item;
        if (std)
            tpi_store_scalar(e, d,
                             tp_float(tp_scalar_to_double(tpi_load_scalar(e, d)) *
                                      tp_scalar_to_double(tpi_load_scalar(std->data + i * item, d))));
        double shift = mean ? tp_scalar_to_double(tpi_load_scalar(mean->data + i * item, d)) : plain_mean;
        tpi_store_scalar(e, d, tp_float(tp_scalar_to_double(tpi_load_scalar(e, d)) + shift));
    }
}

/* t seen with the shape, contiguous, in the dtype: owned. */
static tp_tensor *spread(tp_tensor *t, tp_ints shape, tp_dtype dtype) {
    tp_tensor *expanded = tpi_expanded(t, shape);
    tp_tensor *converted = expanded ? tpi_release_then(expanded, tpi_as_dtype_data(expanded, dtype)) : NULL;
    return converted ? tpi_release_then(converted, tpi_contiguous_data(converted)) : NULL;
}

static bool deviations_fit(const tp_tensor *std) { /* contiguous, real */
    for (int64_t i = 0; i < std->numel; i++) {
        if (!(tp_scalar_to_double(tpi_load_scalar(std->data + i * (int64_t)tpi_itemsize(std), (tp_dtype)std->dtype)) >=
              0))
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'std': normal expects all elements of std >= 0.0");
    }
    return true;
}

/* mean or std may be NULL, for the plain number. The result takes the first tensor's dtype. */
static tp_tensor *normal_of(tp_tensor *mean, tp_tensor *std, double plain_mean, double plain_std, tp_generator *g) {
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    tp_tensor *first = mean ? mean : std, *other = std ? std : mean;
    tp_dtype dtype = (tp_dtype)first->dtype;
    if (!tp_dtype_is_floating(dtype) || !tp_dtype_is_floating((tp_dtype)other->dtype))
        return tpi_fail(TP_ERR_MISSING, "arguments 'mean' and 'std': expected floating tensors, got %s and %s",
                        tp_dtype_name(dtype), tp_dtype_name((tp_dtype)other->dtype));
    if (!tpi_broadcast(tpi_shape(first), tpi_shape(other), shape, &ndim)) return NULL;
    tp_ints size = tp_ints_view(shape, ndim);
    tp_tensor *means = mean ? spread(mean, size, dtype) : NULL, *stds = std ? spread(std, size, dtype) : NULL;
    tp_tensor *t = (mean && !means) || (std && !stds) ? NULL : tpi_empty(size, dtype, tpi_device(first));
    bool ok = t && (!stds || deviations_fit(stds)) && tpi_native_normal(t, 0, std ? 1 : plain_std, g);
    if (ok) scale_and_shift(t, stds, means, plain_mean);
    tpi_release(means);
    tpi_release(stds);
    return when(ok, t);
}

tp_tensor *tpi_native_normal_Tensor_Tensor(tp_tensor *mean, tp_tensor *std, tp_generator *g) {
    return normal_of(mean, std, 0, 1, g);
}
tp_tensor *tpi_native_normal_Tensor_float(tp_tensor *mean, double std, tp_generator *g) {
    return normal_of(mean, NULL, 0, std, g);
}
tp_tensor *tpi_native_normal_float_Tensor(double mean, tp_tensor *std, tp_generator *g) {
    return normal_of(NULL, std, mean, 1, g);
}

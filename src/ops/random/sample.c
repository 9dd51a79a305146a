/* Samples whose distribution is itself a tensor: bernoulli, poisson, multinomial. */
#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "ops/native.h"
#include "ops/random/fill.h"

static inline double element(const char *at, tp_dtype dtype) {
    return dtype == TP_FLOAT32 ? *(const float *)(const void *)at : tp_scalar_to_double(tpi_load_scalar(at, dtype));
}
static inline void put(char *at, tp_dtype dtype, double v) {
    if (dtype == TP_FLOAT32)
        *(float *)(void *)at = (float)v;
    else
        tpi_store_scalar(at, dtype, tp_float(v));
}

static bool check_real(const tp_tensor *t, const char *name) {
    if (tp_dtype_is_floating((tp_dtype)t->dtype)) return true;
    return tpi_refuse(TP_ERR_MISSING, "argument '%s': not implemented for '%s': expected a floating tensor, got %s",
                      name, tp_dtype_word((tp_dtype)t->dtype), tp_dtype_name((tp_dtype)t->dtype));
}

/* Walks out and in together, in memory order: out[i] = sample(in[i]). */
typedef double (*sample_fn)(tp_generator *g, double parameter, tp_dtype dtype);
static bool sample_each(tp_tensor *out, tp_tensor *in, tp_generator *g, sample_fn sample) {
    tpi_plan plan;
    if (!tpi_plan_make(&plan, tpi_shape(out), 1, 2, (tp_tensor *[]){out, in})) return false;
    tp_dtype to = (tp_dtype)out->dtype, from = (tp_dtype)in->dtype;
    int64_t to_step = plan.ndim ? plan.stride[0][0] : 0, from_step = plan.ndim ? plan.stride[1][0] : 0;
    char *data[TPI_MAX_OPERANDS];
    g = tpi_generator_lock(g);
    for (int64_t at = 0, n; at < plan.numel; at += n) {
        n = tpi_plan_seek(&plan, at, data);
        for (int64_t i = 0; i < n; i++)
            put(data[0] + i * to_step, to, sample(g, element(data[1] + i * from_step, from), from));
    }
    tpi_generator_unlock(g);
    return true;
}

/* Is every element of t within [low, high]? NaN is not. */
static bool all_within(tp_tensor *t, double low, double high, const char *complaint) {
    tp_tensor *c = tpi_contiguous_data(t);
    if (!c) return false;
    bool ok = true;
    for (int64_t i = 0; i < c->numel && ok; i++) {
        double v = element(c->data + i * (int64_t)tpi_itemsize(c), (tp_dtype)c->dtype);
        ok = v >= low && v <= high;
        if (!ok) tpi_fail(TP_ERR_RUNTIME, "%s, got %g", complaint, v);
    }
    tpi_release(c);
    return ok;
}

/* ---- Bernoulli: double probabilities draw double uniforms, all others floats ---- */
static double sample_bernoulli(tp_generator *g, double p, tp_dtype dtype) {
    double u = dtype == TP_FLOAT64 ? tpi_uniform_double(g) : (double)tpi_uniform_float(g);
    return u < p ? 1 : 0;
}

bool tpi_native_bernoulli_Tensor(tp_tensor *self, tp_tensor *p, tp_generator *g) {
    if (tp_dtype_is_complex((tp_dtype)self->dtype))
        return tpi_refuse(TP_ERR_MISSING, "argument 'self': expected a tensor that is not complex");
    if (!check_real(p, "p") || !all_within(p, 0, 1, "argument 'p': Expected p_in >= 0 && p_in <= 1 to be true"))
        return false;
    return sample_each(self, p, g, sample_bernoulli);
}

tp_tensor *tpi_native_bernoulli(tp_tensor *self, tp_generator *g) {
    if (!check_real(self, "self") ||
        !all_within(self, 0, 1, "argument 'self': Expected p_in >= 0 && p_in <= 1 to be true"))
        return NULL;
    tp_tensor *out = tpi_empty_like(self, (tp_dtype)self->dtype);
    if (out && sample_each(out, self, g, sample_bernoulli)) return out;
    return tpi_release_then(out, NULL);
}

/* ---- Poisson ----
 * Small rates multiply uniforms until the product falls below exp(-rate); large ones use Hoermann's transformed
 * rejection (PTRS, "The transformed rejection method for generating Poisson random variables", 1993). */
static double poisson_large(tp_generator *g, double rate) {
    double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accept = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = tpi_uniform_double(g) - 0.5, v = tpi_uniform_double(g);
        double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= accept) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= -rate + k * log(rate) - lgamma(k + 1)) return k;
    }
}

static double sample_poisson(tp_generator *g, double rate, tp_dtype dtype) {
    (void)dtype;
    if (rate >= 10) return poisson_large(g, rate);
    if (rate == 0) return 0;
    double least = exp(-rate), product = tpi_uniform_double(g), k = 0;
    for (; product > least; k++) product *= tpi_uniform_double(g);
    return k;
}

tp_tensor *tpi_native_poisson(tp_tensor *self, tp_generator *g) {
    if (!check_real(self, "self") ||
        !all_within(self, 0, INFINITY, "argument 'self': invalid Poisson rate, expected rate to be non-negative"))
        return NULL;
    tp_tensor *out = tpi_empty_like(self, (tp_dtype)self->dtype);
    if (out && sample_each(out, self, g, sample_poisson)) return out;
    return tpi_release_then(out, NULL);
}

/* ---- Multinomial ---- */
typedef struct contender {
    double score;
    int64_t index;
} contender;

static int by_score(const void *a, const void *b) { /* the highest first; equals in order */
    const contender *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* With replacement: a binary search in the running sums, which are kept in the input's precision. */
static void draw_with_replacement(tp_generator *g, tp_dtype dtype, int64_t n, double *sums, int64_t k, int64_t *out) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += sums[i];
        if (dtype != TP_FLOAT64) sum = (double)(float)sum;
        sums[i] = sum;
    }
    for (int64_t i = 0; i < n; i++)
        sums[i] = dtype == TP_FLOAT64 ? sums[i] / sum : (double)((float)sums[i] / (float)sum);
    sums[n - 1] = 1;
    for (int64_t s = 0; s < k; s++) {
        double u = tpi_uniform_double(g);
        int64_t left = 0, right = n;
        while (left < right) {
            int64_t middle = left + (right - left) / 2;
            if (sums[middle] < u)
                left = middle + 1;
            else
                right = middle;
        }
        out[s] = left;
    }
}

/* Without: the k largest of p / q, q exponential, which is the race of n clocks. Scores are rounded to the input's
 * dtype. */
static double rounded(double v, tp_dtype dtype) {
    if (dtype == TP_FLOAT32) return (double)(float)v;
    char e[8];
    tpi_store_scalar(e, dtype, tp_float(v));
    return element(e, dtype);
}

static void score_race(tp_generator *g, tp_dtype dtype, int64_t n, const double *p, contender *race) {
    for (int64_t i = 0; i < n; i++) {
        double q = rounded(-log1p(-tpi_uniform_double(g)), dtype);
        race[i] = (contender){rounded(p[i] / q, dtype), i};
    }
}

/* The best k of the race to its front, in order: for few of many a sorted front that the others are held against. */
static void best_first(contender *race, int64_t n, int64_t k) {
    if (k > 16 || k * 8 > n) {
        qsort(race, (size_t)n, sizeof *race, by_score);
        return;
    }
    qsort(race, (size_t)k, sizeof *race, by_score);
    for (int64_t i = k; i < n; i++) {
        if (by_score(&race[i], &race[k - 1]) > 0) continue;
        contender here = race[i];
        int64_t at = k - 1;
        for (; at > 0 && by_score(&here, &race[at - 1]) < 0; at--) race[at] = race[at - 1];
        race[at] = here;
    }
}

static bool check_multinomial(const tp_tensor *p, int64_t k, bool replacement) {
    if (p->ndim < 1 || p->ndim > 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': prob_dist must be 1 or 2 dim, got %d", p->ndim);
    if (!tp_dtype_is_floating((tp_dtype)p->dtype))
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'self': multinomial only supports floating-point dtypes for input, got: %s",
                          tp_dtype_word((tp_dtype)p->dtype));
    if (k <= 0)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'num_samples': cannot sample n_sample <= 0 samples, got %lld",
                          (long long)k);
    int64_t n = p->shape[p->ndim - 1];
    if (!replacement && k > n)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'num_samples': cannot sample n_sample > prob_dist.size(-1) samples without "
                          "replacement, got %lld > %lld",
                          (long long)k, (long long)n);
    if (n == 0 && p->numel == 0 && (p->ndim == 1 || p->shape[0]))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': there is no category to sample");
    return true;
}

static bool check_rows(const tp_tensor *p, int64_t rows, int64_t n) { /* float64, contiguous */
    const double *v = (const double *)p->data;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            if (!(v[r * n + i] >= 0 && v[r * n + i] < INFINITY))
                return tpi_refuse(TP_ERR_RUNTIME,
                                  "argument 'self': probability tensor contains either `inf`, `nan` or element < 0");
            sum += v[r * n + i];
        }
        if (!(sum > 0))
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'self': invalid multinomial distribution (sum of probabilities <= 0)");
    }
    return true;
}

static bool fill_multinomial(int64_t *out, tp_tensor *p, tp_dtype dtype, int64_t rows, int64_t n, int64_t k,
                             bool replacement, tp_generator *g) {
    double *v = (double *)p->data;
    if (replacement && k > 1) { /* the sums overwrite the probabilities */
        g = tpi_generator_lock(g);
        for (int64_t r = 0; r < rows; r++) draw_with_replacement(g, dtype, n, v + r * n, k, out + r * k);
        tpi_generator_unlock(g);
        return true;
    }
    size_t bytes = (size_t)n * sizeof(contender);
    contender *race = tpi_alloc(bytes);
    if (!race) return false;
    g = tpi_generator_lock(g);
    for (int64_t r = 0; r < rows; r++) {
        score_race(g, dtype, n, v + r * n, race);
        best_first(race, n, k);
        for (int64_t s = 0; s < k; s++) out[r * k + s] = race[s].index;
    }
    tpi_generator_unlock(g);
    tpi_free(race, bytes);
    return true;
}

/* self: (rows, n) or (n). Gives (rows, num_samples) or (num_samples). */
tp_tensor *tpi_native_multinomial(tp_tensor *self, int64_t num_samples, bool replacement, tp_generator *g) {
    if (!check_multinomial(self, num_samples, replacement)) return NULL;
    int64_t rows = self->ndim == 2 ? self->shape[0] : 1, n = self->shape[self->ndim - 1];
    tp_tensor *p = tpi_empty(tpi_shape(self), TP_FLOAT64, tpi_device(self)); /* a copy: sampling writes in it */
    tp_tensor *out =
        p ? tpi_empty(self->ndim == 2 ? TP_INTS(rows, num_samples) : TP_INTS(num_samples), TP_INT64, tpi_device(self))
          : NULL;
    bool ok = out && tpi_copy_data(p, self) && check_rows(p, rows, n) &&
              fill_multinomial((int64_t *)out->data, p, (tp_dtype)self->dtype, rows, n, num_samples, replacement, g);
    tpi_release(p);
    return ok ? out : tpi_release_then(out, NULL);
}

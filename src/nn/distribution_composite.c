/* Distributions of more than two parameters, and those made of others: independent parts, mixtures, functions of random
 * numbers. Formulas and the order of draws are PyTorch's. distribution.c has the frame. */
#include "base/handle.h"
#include "base/memory.h"
#include "nn/distribution.h"
#include "nn/distribution_transform.h"
#include "tensor/check_arguments.h"
#include <math.h>
#include <taper/autograd.h>
#include <taper/ops.h>

typedef tpi_distribution_kind kind;
typedef tpi_distribution_methods methods;

static tp_tensor *random_like(tp_distribution *d, tp_ints draws, tp_generator *g) {
    int64_t whole[2 * TP_MAX_DIMS];
    tp_ints shape = tpi_distribution_extended(d, draws, true, whole);
    return tp_rand(shape, .dtype = tp_dtype_of(d->a), .device = tp_device_of(d->a), .generator = g);
}
static tp_tensor *where_number(tp_tensor *condition, tp_tensor *yes, double no) {
    return tp_where(condition, yes, tp_full_like(yes, no));
}

/* ---- Student's t: a is df, b the place, c the scale ---- */
static tp_tensor *student_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    int64_t whole[2 * TP_MAX_DIMS];
    tp_ints shape = tpi_distribution_extended(d, draws, true, whole);
    tp_tensor *noise = tp_normal_(tpi_sample_like(d->a, shape), .generator = g);
    tp_tensor *half = tp_mul(d->a, 0.5);
    tp_tensor *chi2 = tpi_gamma_draw(half, tp_full_like(half, 0.5), shape, g);
    return tp_add(d->b, tp_mul(d->c, tp_mul(noise, tp_rsqrt(tp_div(chi2, d->a)))));
}
static tp_tensor *student_log_prob(tp_distribution *d, tp_tensor *x) {
    tp_tensor *half = tp_mul(tp_add(d->a, 1), 0.5), *off = tp_div(tp_sub(x, d->b), d->c);
    tp_tensor *norm = tp_add(tp_add(tp_log(d->c), tp_mul(tp_log(d->a), 0.5)), 0.5 * log(M_PI));
    norm = tp_sub(tp_add(norm, tp_lgamma(tp_mul(d->a, 0.5))), tp_lgamma(half));
    return tp_sub(tp_neg(tp_mul(half, tp_log1p(tp_div(tp_square(off), d->a)))), norm);
}
static tp_tensor *student_entropy(tp_distribution *d) {
    tp_tensor *half = tp_mul(tp_add(d->a, 1), 0.5), *low = tp_mul(d->a, 0.5);
    tp_tensor *log_beta = tp_sub(tp_add(tp_lgamma(low), lgamma(0.5)), tp_lgamma(half));
    tp_tensor *gap = tp_mul(half, tp_sub(tp_digamma(half), tp_digamma(low)));
    return tp_add(tp_add(tp_add(tp_log(d->c), gap), tp_mul(tp_log(d->a), 0.5)), log_beta);
}
static tp_tensor *student_mean(tp_distribution *d) { return tp_masked_fill(d->b, tp_le(d->a, 1), NAN); }
static tp_tensor *student_variance(tp_distribution *d) {
    tp_tensor *finite = tp_div(tp_mul(tp_square(d->c), d->a), tp_sub(d->a, 2));
    return tp_masked_fill(tp_masked_fill(finite, tp_le(d->a, 2), INFINITY), tp_le(d->a, 1), NAN);
}

/* ---- Excesses: a is the place, b the scale, c the concentration, of which 0 is the exponential distribution ---- */
static tp_tensor *excess_zero(tp_distribution *d) { return tp_isclose(d->c, tp_zeros_like(d->c)); }
static tp_tensor *excess_shape(tp_distribution *d) { return where_number(tp_logical_not(excess_zero(d)), d->c, 1); }
static tp_tensor *excess_icdf(tp_distribution *d, tp_tensor *p) {
    tp_tensor *k = excess_shape(d), *left = tp_log1p(tp_neg(p));
    tp_tensor *curved = tp_add(d->a, tp_mul(tp_div(d->b, k), tp_expm1(tp_neg(tp_mul(k, left)))));
    return tp_where(excess_zero(d), tp_sub(d->a, tp_mul(d->b, left)), curved);
}
static tp_tensor *excess_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    return excess_icdf(d, random_like(d, draws, g));
}
static tp_tensor *excess_log_prob(tp_distribution *d, tp_tensor *x) {
    tp_tensor *k = excess_shape(d), *z = tp_div(tp_sub(x, d->a), d->b);
    tp_tensor *power = tp_add(tp_reciprocal(k), tp_ones_like(z));
    tp_tensor *curved = tp_where(tp_eq(power, 0), power, tp_mul(power, tp_log1p(tp_mul(k, z))));
    return tp_sub(tp_neg(tp_log(d->b)), tp_where(excess_zero(d), z, curved));
}
static tp_tensor *excess_cdf(tp_distribution *d, tp_tensor *x) {
    tp_tensor *k = excess_shape(d), *z = tp_div(tp_sub(x, d->a), d->b);
    tp_tensor *left = tp_where(excess_zero(d), tp_neg(z), tp_neg(tp_div(tp_log1p(tp_mul(k, z)), k)));
    return tp_exp(tp_log1p(tp_neg(tp_exp(left))));
}
static tp_tensor *excess_mean(tp_distribution *d) {
    tp_tensor *finite = tp_lt(d->c, 1), *k = where_number(finite, d->c, 0.5);
    return where_number(finite, tp_add(d->a, tp_div(d->b, tp_sub(1, k))), NAN);
}
static tp_tensor *excess_variance(tp_distribution *d) {
    tp_tensor *finite = tp_lt(d->c, 0.5), *k = where_number(finite, d->c, 0.25);
    tp_tensor *below = tp_mul(tp_square(tp_sub(1, k)), tp_sub(1, tp_mul(k, 2)));
    return where_number(finite, tp_div(tp_square(d->b), below), NAN);
}
static tp_tensor *excess_entropy(tp_distribution *d) { return tp_add(tp_add(tp_log(d->b), d->c), 1); }

/* ---- Between zero and one, with density like p^x (1 - p)^(1 - x): a is p, b its logit. Near one half by series ----
 */
static const double NEAR_LOW = 0.499, NEAR_HIGH = 0.501;
static tp_tensor *far(tp_distribution *d) { return tp_logical_or(tp_le(d->a, NEAR_LOW), tp_gt(d->a, NEAR_HIGH)); }
static tp_tensor *far_share(tp_distribution *d) { return where_number(far(d), d->a, NEAR_LOW); }
static tp_tensor *log_ratio(tp_tensor *p) { return tp_sub(tp_log1p(tp_neg(p)), tp_log(p)); }
static tp_tensor *unit_log_norm(tp_distribution *d) {
    tp_tensor *p = far_share(d), *near = tp_square(tp_sub(d->a, 0.5)), *low = tp_le(p, 0.5);
    tp_tensor *under = tp_log1p(tp_mul(where_number(low, p, 0), -2));
    tp_tensor *over = tp_log(tp_sub(tp_mul(where_number(tp_ge(p, 0.5), p, 1), 2), 1));
    tp_tensor *closed = tp_sub(tp_log(tp_abs(log_ratio(p))), tp_where(low, under, over));
    tp_tensor *series = tp_add(tp_mul(tp_add(tp_mul(near, 104.0 / 45), 4.0 / 3), near), M_LN2);
    return tp_where(far(d), closed, series);
}
static tp_tensor *unit_mean(tp_distribution *d) {
    tp_tensor *p = far_share(d), *x = tp_sub(d->a, 0.5);
    tp_tensor *closed = tp_add(tp_div(p, tp_sub(tp_mul(p, 2), 1)), tp_reciprocal(log_ratio(p)));
    tp_tensor *series = tp_add(tp_mul(tp_add(tp_mul(tp_square(x), 16.0 / 45), 1.0 / 3), x), 0.5);
    return tp_where(far(d), closed, series);
}
static tp_tensor *unit_variance(tp_distribution *d) {
    tp_tensor *p = far_share(d), *x = tp_square(tp_sub(d->a, 0.5));
    tp_tensor *first = tp_div(tp_mul(p, tp_sub(p, 1)), tp_square(tp_sub(1, tp_mul(p, 2))));
    tp_tensor *closed = tp_add(first, tp_reciprocal(tp_square(log_ratio(p))));
    tp_tensor *series = tp_sub(1.0 / 12, tp_mul(tp_sub(1.0 / 15, tp_mul(x, 128.0 / 945)), x));
    return tp_where(far(d), closed, series);
}
static tp_tensor *unit_icdf(tp_distribution *d, tp_tensor *u) {
    tp_tensor *p = far_share(d), *q = tp_log1p(tp_neg(p));
    tp_tensor *top = tp_sub(tp_log1p(tp_sub(tp_mul(u, tp_sub(tp_mul(p, 2), 1)), p)), q);
    return tp_where(far(d), tp_div(top, tp_sub(tp_log(p), q)), u);
}
static tp_tensor *unit_cdf(tp_distribution *d, tp_tensor *x) {
    tp_tensor *p = far_share(d), *powers = tp_mul(tp_pow(p, x), tp_pow(tp_sub(1, p), tp_sub(1, x)));
    tp_tensor *closed = tp_div(tp_sub(tp_add(powers, p), 1), tp_sub(tp_mul(p, 2), 1));
    return tp_clamp(tp_where(far(d), closed, x), .min = tp_float(0), .max = tp_float(1));
}
static tp_tensor *unit_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    return unit_icdf(d, random_like(d, draws, g));
}
static tp_tensor *unit_log_prob(tp_distribution *d, tp_tensor *x) {
    tp_tensors both = tp_broadcast_tensors(TP_LIST(d->b, tp_to(x, .dtype = tp_dtype_of(d->b))));
    if (both.n != 2) return NULL;
    tp_tensor *surprise = tp_binary_cross_entropy_with_logits(both.v[0], both.v[1], .reduction = "none");
    return tp_sub(unit_log_norm(d), surprise);
}
static tp_tensor *unit_entropy(tp_distribution *d) {
    tp_tensor *zero = tp_log1p(tp_neg(d->a)), *gap = tp_sub(zero, tp_log(d->a));
    return tp_sub(tp_sub(tp_mul(unit_mean(d), gap), unit_log_norm(d)), zero);
}

/* ---- Counts of classes: a holds probabilities, b logits ---- */
static tp_tensor *counts_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    int64_t tries[2 * TP_MAX_DIMS + 1] = {d->number}, whole[2 * TP_MAX_DIMS];
    for (int64_t i = 0; i < draws.n; i++) tries[i + 1] = draws.v[i];
    for (int64_t i = 0; i < d->nbatch; i++) tries[draws.n + 1 + i] = d->shape[i];
    tp_tensor *drawn = tpi_categorical_draw(d->a, d->b, tp_ints_view(tries, draws.n + 1 + d->nbatch), g);
    tp_tensor *indices = tp_movedim(drawn, TP_INTS(0), TP_INTS(-1));
    tp_ints shape = tpi_distribution_extended(d, draws, true, whole);
    tp_tensor *counts = tp_zeros(shape, .dtype = tp_dtype_of(d->a), .device = tp_device_of(d->a));
    return tp_scatter_add(counts, -1, indices, tp_to(tp_ones_like(indices), .dtype = tp_dtype_of(d->a)));
}
static tp_tensor *counts_log_prob(tp_distribution *d, tp_tensor *x) {
    tp_tensors both = tp_broadcast_tensors(TP_LIST(x, d->b));
    if (both.n != 2) return NULL;
    tp_tensor *counts = both.v[0], *never = tp_logical_and(tp_eq(counts, 0), tp_isneginf(both.v[1]));
    tp_tensor *weights = tp_mul(tp_masked_fill(both.v[1], never, 0), counts);
    tp_tensor *ways =
        tp_sub(tp_lgamma(tp_add(tpi_sum_rightmost(counts, 1), 1)), tpi_sum_rightmost(tp_lgamma(tp_add(counts, 1)), 1));
    return tp_add(ways, tpi_sum_rightmost(weights, 1));
}
static tp_tensor *counts_mean(tp_distribution *d) { return tp_mul(d->a, (double)d->number); }
static tp_tensor *counts_variance(tp_distribution *d) {
    return tp_mul(tp_mul(d->a, tp_sub(1, d->a)), (double)d->number);
}
static tp_tensor *counts_entropy(tp_distribution *d) {
    const double n = (double)d->number;
    tp_tensor *one = tp_mul(tpi_categorical_entropy(d->a, d->b), n), *sum = NULL;
    tp_distribution *binomial = tp_distribution_binomial(tp_full_like(d->a, n), d->a, NULL);
    for (int64_t k = 1; binomial && k <= d->number; k++) {
        tp_tensor *count = tp_full_like(d->a, (double)k);
        tp_tensor *each = tp_mul(tp_exp(tpi_distribution_log_prob(binomial, count)), lgamma((double)k + 1));
        tp_tensor *row = tpi_sum_rightmost(each, 1);
        sum = sum ? tp_add(sum, row) : row;
    }
    tp_distribution_free(binomial);
    tp_tensor *all = tp_sub(one, lgamma(n + 1));
    return sum ? tp_add(all, sum) : all;
}

/* ---- Relaxed choices: a holds probabilities, b logits, c the temperature; the bases of two transformed kinds ---- */
static tp_tensor *kept_off_ends(tp_tensor *p) {
    const double eps = tpi_epsilon_of(p);
    return tp_clamp(p, .min = tp_float(eps), .max = tp_float(1 - eps));
}
static tp_tensor *logit_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    tp_tensor *u = kept_off_ends(random_like(d, draws, g)), *p = kept_off_ends(d->a);
    tp_tensor *noise = tp_sub(tp_log(u), tp_log1p(tp_neg(u)));
    return tp_div(tp_sub(tp_add(noise, tp_log(p)), tp_log1p(tp_neg(p))), d->c);
}
static tp_tensor *logit_log_prob(tp_distribution *d, tp_tensor *x) {
    tp_tensor *off = tp_sub(d->b, tp_mul(x, d->c));
    return tp_sub(tp_add(tp_log(d->c), off), tp_mul(tp_log1p(tp_exp(off)), 2));
}
static tp_tensor *log_sum(tp_tensor *t) { return tp_logsumexp(t, TP_INTS(-1), .keepdim = true); }
static tp_tensor *row_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    tp_tensor *u = kept_off_ends(random_like(d, draws, g));
    tp_tensor *noisy = tp_div(tp_sub(d->b, tp_log(tp_neg(tp_log(u)))), d->c);
    return tp_sub(noisy, log_sum(noisy));
}
static tp_tensor *row_log_prob(tp_distribution *d, tp_tensor *x) {
    const double k = (double)tp_size(d->b, -1);
    tp_tensor *off = tp_sub(d->b, tp_mul(x, d->c));
    tp_tensor *norm = tp_add(tp_mul(tp_log(d->c), k - 1), lgamma(k));
    return tp_add(tpi_sum_rightmost(tp_sub(off, log_sum(off)), 1), norm);
}

/* ---- Dims of a batch as parts of a value ---- */
static tp_tensor *independent_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    return tpi_distribution_draw(d->base, draws, g);
}
static tp_tensor *independent_log_prob(tp_distribution *d, tp_tensor *x) {
    return tpi_sum_rightmost(tpi_distribution_log_prob(d->base, x), d->number);
}
static tp_tensor *independent_entropy(tp_distribution *d) {
    return tpi_sum_rightmost(tpi_distribution_ask(d->base, TPI_ENTROPY), d->number);
}
static tp_tensor *independent_mean(tp_distribution *d) { return tpi_distribution_ask(d->base, TPI_MEAN); }
static tp_tensor *independent_variance(tp_distribution *d) { return tpi_distribution_ask(d->base, TPI_VARIANCE); }

/* ---- Mixtures: mixing chooses among the last dim of the base's batch ---- */
static tp_tensor *with_component(const tp_distribution *d, tp_tensor *x) { return tp_unsqueeze(x, -1 - d->nevent); }
static tp_tensor *mixture_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    const int64_t dim = draws.n + d->nbatch;
    int64_t wide[2 * TP_MAX_DIMS];
    tp_tensor *chosen = tpi_distribution_draw(d->mixing, draws, g), *drawn = tpi_distribution_draw(d->base, draws, g);
    if (!chosen || !drawn) return NULL;
    for (int64_t i = 0; i <= d->nevent; i++) chosen = tp_unsqueeze(chosen, -1);
    for (int64_t i = 0; i < tp_ndim(drawn); i++) wide[i] = i == dim ? 1 : tp_size(drawn, i);
    return tp_squeeze_dim(tp_gather(drawn, dim, tp_expand(chosen, tp_ints_view(wide, tp_ndim(drawn)))), dim);
}
static tp_tensor *mixture_log_prob(tp_distribution *d, tp_tensor *x) {
    tp_tensor *each = tpi_distribution_log_prob(d->base, with_component(d, x));
    return tp_logsumexp(tp_add(each, tp_log_softmax(d->mixing->b, -1)), TP_INTS(-1));
}
static tp_tensor *weighed(tp_distribution *d, tp_tensor *values) {
    tp_tensor *probs = d->mixing->a;
    for (int64_t i = 0; i < d->nevent; i++) probs = tp_unsqueeze(probs, -1);
    return tp_sum(tp_mul(probs, values), .dim = TP_INTS(-1 - d->nevent));
}
static tp_tensor *mixture_mean(tp_distribution *d) { return weighed(d, tpi_distribution_ask(d->base, TPI_MEAN)); }
static tp_tensor *mixture_variance(tp_distribution *d) {
    tp_tensor *off = tp_sub(tpi_distribution_ask(d->base, TPI_MEAN), with_component(d, mixture_mean(d)));
    return tp_add(weighed(d, tpi_distribution_ask(d->base, TPI_VARIANCE)), weighed(d, tp_square(off)));
}
static tp_tensor *mixture_cdf(tp_distribution *d, tp_tensor *x) {
    tp_tensor *each = tpi_distribution_at(d->base, false, with_component(d, x));
    return tpi_sum_rightmost(tp_mul(each, d->mixing->a), 1);
}

/* ---- Functions of random numbers ---- */
static tp_tensor *transformed_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    return tpi_transform_forward(d->transform, tpi_distribution_draw(d->base, draws, g));
}
static tp_tensor *transformed_log_prob(tp_distribution *d, tp_tensor *y) {
    const int64_t in = tpi_transform_in_dims(d->transform);
    const int64_t dims = d->nevent + in - tpi_transform_out_dims(d->transform); /* of a value before the transform */
    tp_tensor *x = tpi_transform_inverse(d->transform, y);
    tp_tensor *det = tpi_sum_rightmost(tpi_transform_log_abs_det(d->transform, x, y), dims - in);
    return x ? tp_sub(tpi_sum_rightmost(tpi_distribution_log_prob(d->base, x), dims - d->base->nevent), det) : NULL;
}
/* A probability of the base, counted from the other side where the transform falls. */
static tp_tensor *from_the_rising_side(tp_distribution *d, tp_tensor *p) {
    tp_tensor *sign = tpi_transform_sign(d->transform);
    if (!tp_ok()) return NULL;
    return sign ? tp_add(tp_mul(sign, tp_sub(p, 0.5)), 0.5) : p;
}
static tp_tensor *transformed_cdf(tp_distribution *d, tp_tensor *y) {
    return from_the_rising_side(d, tpi_distribution_at(d->base, false, tpi_transform_inverse(d->transform, y)));
}
static tp_tensor *transformed_icdf(tp_distribution *d, tp_tensor *p) {
    return tpi_transform_forward(d->transform, tpi_distribution_at(d->base, true, from_the_rising_side(d, p)));
}

#define ALL(stem) stem##_draw, stem##_log_prob, stem##_entropy, stem##_mean, stem##_variance
static const methods of_student = {ALL(student), NULL, NULL}, of_excess = {ALL(excess), excess_cdf, excess_icdf},
                     of_unit = {ALL(unit), unit_cdf, unit_icdf}, of_counts = {ALL(counts), NULL, NULL},
                     of_logit = {.draw = logit_draw, .log_prob = logit_log_prob},
                     of_row = {.draw = row_draw, .log_prob = row_log_prob},
                     of_independent = {ALL(independent), NULL, NULL},
                     of_mixture = {.draw = mixture_draw,
                                   .log_prob = mixture_log_prob,
                                   .mean = mixture_mean,
                                   .variance = mixture_variance,
                                   .cdf = mixture_cdf},
                     of_transformed = {.draw = transformed_draw,
                                       .log_prob = transformed_log_prob,
                                       .cdf = transformed_cdf,
                                       .icdf = transformed_icdf};
static const kind student = {.name = "StudentT", .has_gradient = true, .of_whole = &of_student},
                  excess = {.name = "GeneralizedPareto", .has_gradient = true, .of_whole = &of_excess},
                  unit = {.name = "ContinuousBernoulli", .has_gradient = true, .of_whole = &of_unit},
                  counts = {.name = "Multinomial", .event_dims = 1, .of_whole = &of_counts},
                  logit = {.name = "LogitRelaxedBernoulli", .has_gradient = true, .of_whole = &of_logit},
                  row = {.name = "ExpRelaxedCategorical", .event_dims = 1, .has_gradient = true, .of_whole = &of_row},
                  independent = {.name = "Independent", .of_whole = &of_independent},
                  mixture = {.name = "MixtureSameFamily", .of_whole = &of_mixture},
                  transformed = {.name = "TransformedDistribution", .of_whole = &of_transformed},
                  relaxed_bernoulli = {.name = "RelaxedBernoulli", .of_whole = &of_transformed},
                  relaxed_row = {.name = "RelaxedOneHotCategorical", .of_whole = &of_transformed},
                  logistic_normal = {.name = "LogisticNormal", .of_whole = &of_transformed};

/* ---- Making ---- */
static tp_distribution *of_three(const kind *k, tp_tensor *a, tp_tensor *b, tp_tensor *c, const char *const *names,
                                 const char *function) {
    if (!tpi_distribution_floating(a, names[0], function) || !tpi_distribution_floating(b, names[1], function) ||
        !tpi_distribution_floating(c, names[2], function))
        return NULL;
    tp_distribution *d = NULL;
    TP_SCOPE {
        tp_tensors all = tp_broadcast_tensors(TP_LIST(a, b, c));
        d = all.n == 3 ? tpi_distribution_new(k, all.v[0], all.v[1]) : NULL;
        if (d) d->c = tp_retain(all.v[2]);
    }
    return d;
}
tp_distribution *tp_distribution_student_t(tp_tensor *df, tp_tensor *loc, tp_tensor *scale) {
    static const char *const names[] = {"df", "loc", "scale"};
    return of_three(&student, df, loc, scale, names, __func__);
}
tp_distribution *tp_distribution_generalized_pareto(tp_tensor *loc, tp_tensor *scale, tp_tensor *concentration) {
    static const char *const names[] = {"loc", "scale", "concentration"};
    return of_three(&excess, loc, scale, concentration, names, __func__);
}
tp_distribution *tp_distribution_continuous_bernoulli(tp_tensor *probs, tp_tensor *logits) {
    if (TPI_ENDED(probs, "a tensor") || TPI_ENDED(logits, "a tensor")) return NULL;
    tp_distribution *d = NULL;
    TP_SCOPE {
        d = tpi_distribution_by_chance(&unit, probs, logits, __func__);
        tp_tensor *inside = d ? kept_off_ends(d->a) : NULL;
        if (inside) {
            tp_release(d->a);
            d->a = tp_retain(inside);
        }
    }
    return d;
}
tp_distribution *tp_distribution_multinomial(int64_t total_count, tp_tensor *probs, tp_tensor *logits) {
    if (TPI_ENDED(probs, "a tensor") || TPI_ENDED(logits, "a tensor")) return NULL;
    if (total_count < 0 || total_count > INT32_MAX)
        return tpi_fail(TP_ERR_VALUE, "tp_distribution_multinomial: argument 'total_count': got %lld",
                        (long long)total_count);
    tp_distribution *d = tpi_distribution_by_chance(&counts, probs, logits, __func__);
    if (d) d->number = total_count;
    return d;
}

/* base and transform are freed on failure. */
static tp_distribution *make_transformed(const kind *k, tp_distribution *base, tp_transform *transform) {
    tp_distribution *d = base && transform ? tpi_new0(sizeof *d) : NULL;
    if (!d) {
        tp_distribution_free(base);
        tp_transform_free(transform);
        return NULL;
    }
    *d = (tp_distribution){.kind = k, .base = base, .transform = transform, .has_gradient = base->has_gradient};
    d->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(d, "distribution");
    const int64_t in = tpi_transform_in_dims(transform), out = tpi_transform_out_dims(transform);
    bool ok = base->nbatch + base->nevent >= in ||
              tpi_refuse(TP_ERR_VALUE, "tp_distribution_transformed: the base needs %lld dims or more, got shape %s",
                         (long long)in, tpi_shape_text(tp_ints_view(base->shape, base->nbatch + base->nevent)));
    TP_NO_GRAD
        TP_SCOPE { /* the shape that values have afterwards: tried on some that can be transformed */
            tp_tensor *tried = ok ? tp_full(tp_ints_view(base->shape, base->nbatch + base->nevent), 0.5) : NULL;
            tp_tensor *gave = tried ? tpi_transform_forward(transform, tried) : NULL;
            ok = gave != NULL;
            const int64_t event = out > base->nevent + out - in ? out : base->nevent + out - in;
            if (ok)
                tpi_distribution_shape(d, tp_ints_view(gave->shape, gave->ndim - event),
                                       tp_ints_view(gave->shape + gave->ndim - event, event));
        }
    if (ok) return d;
    tp_distribution_free(d);
    return NULL;
}
tp_distribution *tp_distribution_transformed(tp_distribution *base, tp_transform *transform) {
    const bool both = TPI_HANDLE_GIVEN(base, "a distribution") && TPI_GIVEN(transform, "a transform");
    if (both) return make_transformed(&transformed, base, transform);
    tp_distribution_free(base);
    tp_transform_free(transform);
    return NULL;
}

static tp_distribution *relaxed(const kind *outer, const kind *inner, tp_transform *(*transform)(void),
                                tp_tensor *temperature, tp_tensor *probs, tp_tensor *logits, const char *function) {
    if (!tpi_distribution_floating(temperature, "temperature", function)) return NULL;
    tp_distribution *base = tpi_distribution_by_chance(inner, probs, logits, function);
    if (!base) return NULL;
    base->c = tp_retain(temperature);
    return make_transformed(outer, base, transform());
}
tp_distribution *tp_distribution_relaxed_bernoulli(tp_tensor *temperature, tp_tensor *probs, tp_tensor *logits) {
    return relaxed(&relaxed_bernoulli, &logit, tp_transform_sigmoid, temperature, probs, logits, __func__);
}
tp_distribution *tp_distribution_relaxed_one_hot_categorical(tp_tensor *temperature, tp_tensor *probs,
                                                             tp_tensor *logits) {
    return relaxed(&relaxed_row, &row, tp_transform_exp, temperature, probs, logits, __func__);
}
tp_distribution *tp_distribution_logistic_normal(tp_tensor *loc, tp_tensor *scale) {
    if (!tpi_distribution_floating(loc, "loc", __func__) || !tpi_distribution_floating(scale, "scale", __func__))
        return NULL;
    tp_distribution *d = NULL;
    TP_SCOPE {
        tp_tensor *row_of = tp_ndim(loc) || tp_ndim(scale) ? loc : tp_unsqueeze(loc, 0);
        tp_distribution *base = tp_distribution_independent(tp_distribution_normal(row_of, scale), 1);
        if (base) d = make_transformed(&logistic_normal, base, tp_transform_stick_breaking());
    }
    return d;
}

tp_distribution *tp_distribution_independent(tp_distribution *base, int64_t dims) {
    if (!TPI_HANDLE_GIVEN(base, "a distribution")) return NULL;
    tp_distribution *d = NULL;
    if (dims < 0 || dims > base->nbatch)
        tpi_fail(TP_ERR_VALUE, "tp_distribution_independent: argument 'dims': expected 0 to %lld, got %lld",
                 (long long)base->nbatch, (long long)dims);
    else
        d = tpi_new0(sizeof *d);
    if (!d) {
        tp_distribution_free(base);
        return NULL;
    }
    *d = (tp_distribution){.kind = &independent, .base = base, .number = dims, .has_gradient = base->has_gradient};
    const int64_t cut = base->nbatch - dims;
    tpi_distribution_shape(d, tp_ints_view(base->shape, cut), tp_ints_view(base->shape + cut, dims + base->nevent));
    d->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(d, "distribution");
    return d;
}

static bool can_mix(const tp_distribution *mixing, const tp_distribution *components) {
    const char *function = "tp_distribution_mixture_same_family";
    if (!mixing->kind->is_index)
        return tpi_refuse(TP_ERR_TYPE, "%s: argument 'mixing': expected a Categorical, got a %s", function,
                          mixing->kind->name);
    const int64_t choices = tp_size(mixing->a, -1), there = components->nbatch;
    if (!there || components->shape[there - 1] != choices)
        return tpi_refuse(TP_ERR_VALUE, "%s: %lld choices, but components of batch shape %s", function,
                          (long long)choices, tpi_shape_text(tp_ints_view(components->shape, there)));
    const int64_t lacks = there - 1 - mixing->nbatch;
    for (int64_t i = 0; i < mixing->nbatch; i++)
        if (lacks + i < 0 || (mixing->shape[i] != 1 && mixing->shape[i] != components->shape[lacks + i]))
            return tpi_refuse(TP_ERR_VALUE, "%s: choices of batch shape %s do not go with components of %s", function,
                              tpi_shape_text(tp_ints_view(mixing->shape, mixing->nbatch)),
                              tpi_shape_text(tp_ints_view(components->shape, there)));
    return true;
}
tp_distribution *tp_distribution_mixture_same_family(tp_distribution *mixing, tp_distribution *components) {
    const bool both = TPI_HANDLE_GIVEN(mixing, "a distribution") && TPI_HANDLE_GIVEN(components, "a distribution");
    tp_distribution *d = both && can_mix(mixing, components) ? tpi_new0(sizeof *d) : NULL;
    if (!d) {
        tp_distribution_free(mixing);
        if (components != mixing) tp_distribution_free(components);
        return NULL;
    }
    *d = (tp_distribution){.kind = &mixture, .base = components, .mixing = mixing};
    tpi_distribution_shape(d, tp_ints_view(components->shape, components->nbatch - 1),
                           tp_ints_view(components->shape + components->nbatch, components->nevent));
    d->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(d, "distribution");
    return d;
}

/* Distributions that are functions of others (Pareto, Weibull, InverseGamma ...), counts over a number of tries, and
 * those whose values are rows (Dirichlet, MultivariateNormal, one-hot choices). distribution.c has the frame. */
#include "nn/distribution.h"
#include <math.h>
#include <taper/autograd.h>
#include <taper/ops.h>

typedef tpi_distribution_kind kind;
static const double EULER = 0.57721566490153286061, LOG_2PI = 1.83787706640934548356;

static tp_tensor *waiting(tp_tensor *like, tp_ints shape, tp_generator *g) {
    return tp_exponential_(tpi_sample_like(like, shape), .generator = g);
}
static tp_tensor *infinite(tp_tensor *like) { return tp_full_like(like, INFINITY); }

/* ---- The other side of zero left out ---- */
static tp_tensor *half_cauchy_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    (void)b;
    return tp_abs(tp_mul(tp_cauchy_(tpi_sample_like(a, shape), .generator = g), a));
}
static tp_tensor *half_cauchy_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    (void)b;
    tp_tensor *inside = tp_add(tpi_cauchy_log_prob(tp_zeros_like(a), a, x), M_LN2);
    return tp_where(tp_ge(x, 0), inside, tp_full_like(inside, -INFINITY));
}
static tp_tensor *half_cauchy_entropy(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_sub(tpi_cauchy_entropy(a, a), M_LN2);
}
static tp_tensor *half_cauchy_moment(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return infinite(a);
}

/* ---- Functions of exponential waiting times: a is the scale ---- */
static tp_tensor *pareto_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return tp_mul(tp_exp(tp_div(waiting(a, shape, g), b)), a);
}
static tp_tensor *pareto_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *powers = tp_sub(tp_mul(b, tp_log(a)), tp_mul(tp_add(b, 1), tp_log(x)));
    return tp_add(tp_log(b), powers);
}
static tp_tensor *pareto_entropy(tp_tensor *a, tp_tensor *b) {
    tp_tensor *mean = tp_reciprocal(b);
    return tp_add(tp_add(tp_log(tp_mul(a, mean)), mean), 1);
}
/* Of order n in units of the scale; infinite where the tail is too heavy. */
static tp_tensor *pareto_moment(tp_tensor *b, double n) {
    tp_tensor *least = tp_clamp(b, .min = tp_float(n));
    return tp_reciprocal(tp_sub(1, tp_div(tp_full_like(b, n), least)));
}
static tp_tensor *pareto_mean(tp_tensor *a, tp_tensor *b) { return tp_mul(a, pareto_moment(b, 1)); }
static tp_tensor *pareto_variance(tp_tensor *a, tp_tensor *b) {
    tp_tensor *over = tp_sub(tp_clamp(b, .min = tp_float(2)), 1);
    return tp_mul(tp_square(tp_div(a, over)), pareto_moment(b, 2));
}

static tp_tensor *weibull_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return tp_mul(tp_pow(waiting(a, shape, g), tp_reciprocal(b)), a);
}
static tp_tensor *weibull_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *z = tp_div(x, a);
    tp_tensor *rise = tp_add(tp_log(tp_div(b, a)), tp_mul(tp_sub(b, 1), tp_log(z)));
    return tp_sub(rise, tp_pow(z, b));
}
static tp_tensor *weibull_entropy(tp_tensor *a, tp_tensor *b) {
    tp_tensor *k = tp_reciprocal(b);
    return tp_add(tp_add(tp_mul(tp_sub(1, k), EULER), tp_log(tp_mul(a, k))), 1);
}
static tp_tensor *weibull_log_moment(tp_tensor *b, double n) {
    return tp_lgamma(tp_add(tp_mul(tp_reciprocal(b), n), 1));
}
static tp_tensor *weibull_mean(tp_tensor *a, tp_tensor *b) { return tp_mul(a, tp_exp(weibull_log_moment(b, 1))); }
static tp_tensor *weibull_variance(tp_tensor *a, tp_tensor *b) {
    tp_tensor *second = tp_exp(weibull_log_moment(b, 2)), *squared = tp_exp(tp_mul(weibull_log_moment(b, 1), 2));
    return tp_mul(tp_square(a), tp_sub(second, squared));
}

/* ---- Functions of uniform numbers ---- */
static tp_tensor *kumaraswamy_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    tp_tensor *u = tp_rand(shape, .dtype = tp_dtype_of(a), .device = tp_device_of(a), .generator = g);
    return tp_pow(tp_sub(1, tp_pow(u, tp_reciprocal(b))), tp_reciprocal(a));
}
static tp_tensor *kumaraswamy_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *powers = tp_add(tp_mul(tp_sub(a, 1), tp_log(x)), tp_mul(tp_sub(b, 1), tp_log1p(tp_neg(tp_pow(x, a)))));
    return tp_add(tp_add(tp_log(a), tp_log(b)), powers);
}
static tp_tensor *kumaraswamy_moment(tp_tensor *a, tp_tensor *b, double n) {
    tp_tensor *up = tp_add(tp_mul(tp_reciprocal(a), n), 1);
    tp_tensor *log_beta = tp_sub(tp_add(tp_lgamma(up), tp_lgamma(b)), tp_lgamma(tp_add(up, b)));
    return tp_mul(b, tp_exp(log_beta));
}
static tp_tensor *kumaraswamy_entropy(tp_tensor *a, tp_tensor *b) {
    tp_tensor *harmonic = tp_add(tp_digamma(tp_add(b, 1)), EULER);
    tp_tensor *parts = tp_add(tp_sub(1, tp_reciprocal(b)), tp_mul(tp_sub(1, tp_reciprocal(a)), harmonic));
    return tp_sub(tp_sub(parts, tp_log(a)), tp_log(b));
}
static tp_tensor *kumaraswamy_mean(tp_tensor *a, tp_tensor *b) { return kumaraswamy_moment(a, b, 1); }
static tp_tensor *kumaraswamy_variance(tp_tensor *a, tp_tensor *b) {
    return tp_sub(kumaraswamy_moment(a, b, 2), tp_square(kumaraswamy_moment(a, b, 1)));
}

/* ---- Functions of gamma distributed numbers ---- */
static tp_tensor *inverse_gamma_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return tp_reciprocal(tpi_gamma_draw(a, b, shape, g));
}
static tp_tensor *inverse_gamma_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return tp_sub(tpi_gamma_log_prob(a, b, tp_reciprocal(x)), tp_mul(tp_log(x), 2));
}
static tp_tensor *inverse_gamma_entropy(tp_tensor *a, tp_tensor *b) {
    return tp_sub(tp_add(tp_add(a, tp_log(b)), tp_lgamma(a)), tp_mul(tp_add(a, 1), tp_digamma(a)));
}
static tp_tensor *inverse_gamma_mean(tp_tensor *a, tp_tensor *b) {
    return tp_where(tp_gt(a, 1), tp_div(b, tp_sub(a, 1)), infinite(a));
}
static tp_tensor *inverse_gamma_variance(tp_tensor *a, tp_tensor *b) {
    tp_tensor *finite = tp_div(tp_square(b), tp_mul(tp_square(tp_sub(a, 1)), tp_sub(a, 2)));
    return tp_where(tp_gt(a, 2), finite, infinite(a));
}

static tp_tensor *fisher_snedecor_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    tp_tensor *above = tpi_gamma_draw(tp_mul(a, 0.5), a, shape, g);
    tp_tensor *below = tpi_gamma_draw(tp_mul(b, 0.5), b, shape, g);
    tp_scalar tiny = tp_float(tpi_smallest_of(a));
    return tp_clamp(tp_div(above, tp_clamp(below, .min = tiny)), .min = tiny);
}
static tp_tensor *fisher_snedecor_log_prob(tp_tensor *df1, tp_tensor *df2, tp_tensor *x) {
    tp_tensor *a = tp_mul(df1, 0.5), *b = tp_mul(df2, 0.5), *ratio = tp_div(df1, df2), *both = tp_add(a, b);
    tp_tensor *norm = tp_sub(tp_sub(tp_lgamma(both), tp_lgamma(a)), tp_lgamma(b));
    tp_tensor *powers = tp_add(tp_mul(a, tp_log(ratio)), tp_mul(tp_sub(a, 1), tp_log(x)));
    return tp_sub(tp_add(norm, powers), tp_mul(both, tp_log1p(tp_mul(ratio, x))));
}
static tp_tensor *fisher_snedecor_mean(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return tp_masked_fill(tp_div(b, tp_sub(b, 2)), tp_le(b, 2), NAN);
}
static tp_tensor *fisher_snedecor_variance(tp_tensor *a, tp_tensor *b) {
    tp_tensor *above = tp_mul(tp_mul(tp_square(b), 2), tp_sub(tp_add(a, b), 2));
    tp_tensor *below = tp_mul(tp_mul(a, tp_square(tp_sub(b, 2))), tp_sub(b, 4));
    return tp_masked_fill(tp_div(above, below), tp_le(b, 4), NAN);
}

/* ---- Angles: a is where, b how close ---- */
/* Best and Fisher's rejection from a wrapped Cauchy distribution (1979), in double: all draw again until the last is
 * accepted. */
static tp_tensor *von_mises_angles(tp_tensor *k, tp_tensor *r, tp_ints shape, tp_generator *g) {
    int64_t three[TP_MAX_DIMS + 1] = {3};
    for (int64_t i = 0; i < shape.n; i++) three[i + 1] = shape.v[i];
    tp_tensor *angle = tp_full(shape, NAN, .dtype = TP_FLOAT64, .device = tp_device_of(k));
    while (angle && tp_item(tp_any(tp_isnan(angle))) != 0) {
        tp_tensor *u =
            tp_rand(tp_ints_view(three, shape.n + 1), .dtype = TP_FLOAT64, .device = tp_device_of(k), .generator = g);
        tp_tensor *z = tp_cos(tp_mul(tp_select(u, 0, 0), M_PI)), *height = tp_select(u, 0, 1);
        tp_tensor *cosine = tp_div(tp_add(tp_mul(r, z), 1), tp_add(z, r));
        tp_tensor *c = tp_mul(k, tp_sub(r, cosine));
        tp_tensor *near = tp_gt(tp_mul(c, tp_sub(2, c)), height);
        tp_tensor *accept = tp_logical_or(near, tp_ge(tp_add(tp_log(tp_div(c, height)), 1), c));
        tp_tensor *side = tp_sign(tp_sub(tp_select(u, 0, 2), 0.5));
        angle = tp_where(accept, tp_mul(tp_acos(cosine), side), angle);
    }
    return angle;
}
static tp_tensor *von_mises_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    tp_tensor *k = tp_to(b, .dtype = TP_FLOAT64);
    tp_tensor *t = tp_add(tp_sqrt(tp_add(tp_square(tp_mul(k, 2)), 1)), 1);
    tp_tensor *p = tp_div(tp_sub(t, tp_sqrt(tp_mul(t, 2))), tp_mul(k, 2));
    tp_tensor *far = tp_div(tp_add(tp_reciprocal(p), p), 2);
    tp_tensor *r = tp_where(tp_lt(k, 1e-5), tp_add(tp_reciprocal(k), k), far);
    tp_tensor *moved = tp_add(tp_add(von_mises_angles(k, r, shape, g), M_PI), tp_to(a, .dtype = TP_FLOAT64));
    return tp_to(tp_sub(tp_remainder(moved, 2 * M_PI), M_PI), .dtype = tp_dtype_of(a));
}
static tp_tensor *von_mises_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *log_i0 = tp_add(tp_log(tp_special_i0e(b)), b);
    return tp_sub(tp_sub(tp_mul(b, tp_cos(tp_sub(x, a))), LOG_2PI), log_i0);
}
static tp_tensor *von_mises_variance(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return tp_sub(1, tp_div(tp_special_i1e(b), tp_special_i0e(b)));
}

/* ---- Counts: a is the number of tries, b what was given, probabilities or logits ---- */
static tp_tensor *logits_of(tp_tensor *probs) {
    const double eps = tpi_epsilon_of(probs);
    tp_tensor *p = tp_clamp(probs, .min = tp_float(eps), .max = tp_float(1 - eps));
    return tp_sub(tp_log(p), tp_log1p(tp_neg(p)));
}
static tp_tensor *binomial_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return tp_binomial(tp_expand(a, shape), tp_expand(b, shape), .generator = g);
}
static tp_tensor *binomial_logits_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return binomial_draw(a, tp_sigmoid(b), shape, g);
}
/* n log(1 + exp(logit)) as n max(logit, 0) + n log(1 + exp(-|logit|)). */
static tp_tensor *binomial_logits_log_prob(tp_tensor *n, tp_tensor *logits, tp_tensor *x) {
    tp_tensor *size = tp_abs(logits), *more = tp_mul(n, tp_log1p(tp_exp(tp_neg(size))));
    tp_tensor *norm = tp_sub(tp_add(tp_mul(n, tp_div(tp_add(logits, size), 2)), more), tp_lgamma(tp_add(n, 1)));
    tp_tensor *ways = tp_add(tp_lgamma(tp_add(x, 1)), tp_lgamma(tp_add(tp_sub(n, x), 1)));
    return tp_sub(tp_sub(tp_mul(x, logits), ways), norm);
}
static tp_tensor *binomial_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return binomial_logits_log_prob(a, logits_of(b), x);
}
static tp_tensor *binomial_mean(tp_tensor *a, tp_tensor *b) { return tp_mul(a, b); }
static tp_tensor *binomial_variance(tp_tensor *a, tp_tensor *b) { return tp_mul(tp_mul(a, b), tp_sub(1, b)); }
static tp_tensor *binomial_logits_mean(tp_tensor *a, tp_tensor *b) { return tp_mul(a, tp_sigmoid(b)); }
static tp_tensor *binomial_logits_variance(tp_tensor *a, tp_tensor *b) { return binomial_variance(a, tp_sigmoid(b)); }

static tp_tensor *negative_logits_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return tp_poisson(tpi_gamma_draw(a, tp_exp(tp_neg(b)), shape, g), .generator = g);
}
static tp_tensor *negative_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return negative_logits_draw(a, logits_of(b), shape, g);
}
static tp_tensor *negative_logits_log_prob(tp_tensor *n, tp_tensor *logits, tp_tensor *x) {
    tp_tensor *chance = tp_add(tp_mul(n, tp_logsigmoid(tp_neg(logits))), tp_mul(x, tp_logsigmoid(logits)));
    tp_tensor *sum = tp_add(n, x);
    tp_tensor *ways = tp_add(tp_sub(tp_lgamma(tp_add(x, 1)), tp_lgamma(sum)), tp_lgamma(n));
    return tp_sub(chance, tp_masked_fill(ways, tp_eq(sum, 0), 0));
}
static tp_tensor *negative_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return negative_logits_log_prob(a, logits_of(b), x);
}
static tp_tensor *negative_logits_mean(tp_tensor *a, tp_tensor *b) { return tp_mul(a, tp_exp(b)); }
static tp_tensor *negative_logits_variance(tp_tensor *a, tp_tensor *b) {
    return tp_div(negative_logits_mean(a, b), tp_sigmoid(tp_neg(b)));
}
static tp_tensor *negative_mean(tp_tensor *a, tp_tensor *b) { return negative_logits_mean(a, logits_of(b)); }
static tp_tensor *negative_variance(tp_tensor *a, tp_tensor *b) { return negative_logits_variance(a, logits_of(b)); }

/* ---- Rows ---- */
/* The shape of draws and batch, and the row behind it, into `whole`. */
static tp_ints with_row(tp_ints shape, int64_t row, int64_t *whole) {
    for (int64_t i = 0; i < shape.n; i++) whole[i] = shape.v[i];
    whole[shape.n] = row;
    return tp_ints_view(whole, shape.n + 1);
}
static tp_tensor *sum_row(tp_tensor *t) { return tp_sum(t, .dim = TP_INTS(-1)); }

static tp_tensor *dirichlet_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    (void)b;
    int64_t whole[TP_MAX_DIMS + 1];
    return tp__sample_dirichlet(tp_expand(a, with_row(shape, tp_size(a, -1), whole)), .generator = g);
}
static tp_tensor *log_beta_row(tp_tensor *a) { return tp_sub(sum_row(tp_lgamma(a)), tp_lgamma(sum_row(a))); }
static tp_tensor *dirichlet_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    (void)b;
    return tp_sub(sum_row(tp_xlogy(tp_sub(a, 1), x)), log_beta_row(a));
}
static tp_tensor *dirichlet_entropy(tp_tensor *a, tp_tensor *b) {
    (void)b;
    tp_tensor *total = sum_row(a);
    tp_tensor *all = tp_mul(tp_sub(total, (double)tp_size(a, -1)), tp_digamma(total));
    return tp_sub(tp_add(log_beta_row(a), all), sum_row(tp_mul(tp_sub(a, 1), tp_digamma(a))));
}
static tp_tensor *row_total(tp_tensor *a) { return tp_sum(a, .dim = TP_INTS(-1), .keepdim = true); }
static tp_tensor *dirichlet_mean(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_div(a, row_total(a));
}
static tp_tensor *dirichlet_variance(tp_tensor *a, tp_tensor *b) {
    (void)b;
    tp_tensor *total = row_total(a);
    return tp_div(tp_mul(a, tp_sub(total, a)), tp_mul(tp_square(total), tp_add(total, 1)));
}

/* a: where, b: the covariance's Cholesky factor */
static tp_tensor *multivariate_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    int64_t whole[TP_MAX_DIMS + 1];
    tp_tensor *noise = tp_normal_(tpi_sample_like(a, with_row(shape, tp_size(a, -1), whole)), .generator = g);
    return tp_add(a, tp_squeeze_dim(tp_matmul(b, tp_unsqueeze(noise, -1)), -1));
}
static tp_tensor *half_log_determinant(tp_tensor *b) { return sum_row(tp_log(tp_diagonal(b, .dim1 = -2, .dim2 = -1))); }
static tp_tensor *multivariate_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *off = tp_unsqueeze(tp_sub(x, a), -1);
    tp_tensor *even = tp_squeeze_dim(tp_linalg_solve_triangular(b, off, false), -1);
    tp_tensor *fall = tp_add(sum_row(tp_square(even)), (double)tp_size(a, -1) * LOG_2PI);
    return tp_sub(tp_mul(fall, -0.5), half_log_determinant(b));
}
static tp_tensor *multivariate_entropy(tp_tensor *a, tp_tensor *b) {
    return tp_add(half_log_determinant(b), 0.5 * (double)tp_size(a, -1) * (1 + LOG_2PI));
}
static tp_tensor *multivariate_variance(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return sum_row(tp_square(b));
}

static tp_tensor *one_hot_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    tp_tensor *indices = tpi_categorical_draw(a, b, shape, g);
    return tp_to(tp_one_hot(indices, .num_classes = tp_size(a, -1)), .dtype = tp_dtype_of(a));
}
static tp_tensor *straight_through_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return tp_add(one_hot_draw(a, b, shape, g), tp_sub(a, tp_detach(a)));
}
static tp_tensor *one_hot_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return tpi_categorical_log_prob(a, b, tp_argmax(x, .dim = -1));
}

/* ---- Cumulative probabilities, and the way back ---- */
static tp_tensor *half_cauchy_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    (void)b;
    return tp_mul(tp_atan(tp_div(x, a)), 2 / M_PI);
}
static tp_tensor *half_cauchy_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    (void)b;
    return tp_mul(a, tp_tan(tp_mul(p, M_PI / 2)));
}
static tp_tensor *pareto_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) { return tp_sub(1, tp_pow(tp_div(a, x), b)); }
static tp_tensor *pareto_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    return tp_mul(a, tp_exp(tp_neg(tp_div(tp_log1p(tp_neg(p)), b))));
}
static tp_tensor *weibull_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return tp_neg(tp_expm1(tp_neg(tp_pow(tp_div(x, a), b))));
}
static tp_tensor *weibull_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    return tp_mul(a, tp_pow(tp_neg(tp_log1p(tp_neg(p))), tp_reciprocal(b)));
}
static tp_tensor *kumaraswamy_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return tp_sub(1, tp_pow(tp_sub(1, tp_pow(x, a)), b));
}
static tp_tensor *kumaraswamy_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    return tp_pow(tp_sub(1, tp_pow(tp_sub(1, p), tp_reciprocal(b))), tp_reciprocal(a));
}

static const kind chi2 = {.name = "Chi2",
                          .draw = tpi_gamma_draw,
                          .has_gradient = true,
                          .log_prob = tpi_gamma_log_prob,
                          .entropy = tpi_gamma_entropy,
                          .mean = tpi_gamma_mean,
                          .variance = tpi_gamma_variance,
                          .cdf = tpi_gamma_cdf},
                  half_cauchy = {.name = "HalfCauchy",
                                 .draw = half_cauchy_draw,
                                 .has_gradient = true,
                                 .log_prob = half_cauchy_log_prob,
                                 .entropy = half_cauchy_entropy,
                                 .mean = half_cauchy_moment,
                                 .variance = half_cauchy_moment,
                                 .cdf = half_cauchy_cdf,
                                 .icdf = half_cauchy_icdf},
                  pareto = {.name = "Pareto",
                            .draw = pareto_draw,
                            .has_gradient = true,
                            .log_prob = pareto_log_prob,
                            .entropy = pareto_entropy,
                            .mean = pareto_mean,
                            .variance = pareto_variance,
                            .cdf = pareto_cdf,
                            .icdf = pareto_icdf},
                  weibull = {.name = "Weibull",
                             .draw = weibull_draw,
                             .has_gradient = true,
                             .log_prob = weibull_log_prob,
                             .entropy = weibull_entropy,
                             .mean = weibull_mean,
                             .variance = weibull_variance,
                             .cdf = weibull_cdf,
                             .icdf = weibull_icdf},
                  kumaraswamy = {.name = "Kumaraswamy",
                                 .draw = kumaraswamy_draw,
                                 .has_gradient = true,
                                 .log_prob = kumaraswamy_log_prob,
                                 .entropy = kumaraswamy_entropy,
                                 .mean = kumaraswamy_mean,
                                 .variance = kumaraswamy_variance,
                                 .cdf = kumaraswamy_cdf,
                                 .icdf = kumaraswamy_icdf},
                  inverse_gamma = {.name = "InverseGamma",
                                   .draw = inverse_gamma_draw,
                                   .has_gradient = true,
                                   .log_prob = inverse_gamma_log_prob,
                                   .entropy = inverse_gamma_entropy,
                                   .mean = inverse_gamma_mean,
                                   .variance = inverse_gamma_variance},
                  fisher_snedecor = {.name = "FisherSnedecor",
                                     .draw = fisher_snedecor_draw,
                                     .has_gradient = true,
                                     .log_prob = fisher_snedecor_log_prob,
                                     .mean = fisher_snedecor_mean,
                                     .variance = fisher_snedecor_variance},
                  von_mises = {.name = "VonMises",
                               .draw = von_mises_draw,
                               .log_prob = von_mises_log_prob,
                               .mean = tpi_first_parameter,
                               .variance = von_mises_variance},
                  binomial_by_probs = {.name = "Binomial",
                                       .draw = binomial_draw,
                                       .log_prob = binomial_log_prob,
                                       .mean = binomial_mean,
                                       .variance = binomial_variance},
                  binomial_by_logits = {.name = "Binomial",
                                        .draw = binomial_logits_draw,
                                        .log_prob = binomial_logits_log_prob,
                                        .mean = binomial_logits_mean,
                                        .variance = binomial_logits_variance},
                  negative_by_probs = {.name = "NegativeBinomial",
                                       .draw = negative_draw,
                                       .log_prob = negative_log_prob,
                                       .mean = negative_mean,
                                       .variance = negative_variance},
                  negative_by_logits = {.name = "NegativeBinomial",
                                        .draw = negative_logits_draw,
                                        .log_prob = negative_logits_log_prob,
                                        .mean = negative_logits_mean,
                                        .variance = negative_logits_variance},
                  dirichlet = {.name = "Dirichlet",
                               .draw = dirichlet_draw,
                               .has_gradient = true,
                               .log_prob = dirichlet_log_prob,
                               .entropy = dirichlet_entropy,
                               .mean = dirichlet_mean,
                               .variance = dirichlet_variance,
                               .event_dims = 1},
                  multivariate_normal = {.name = "MultivariateNormal",
                                         .draw = multivariate_draw,
                                         .has_gradient = true,
                                         .log_prob = multivariate_log_prob,
                                         .entropy = multivariate_entropy,
                                         .mean = tpi_first_parameter,
                                         .variance = multivariate_variance,
                                         .event_dims = 1},
                  one_hot = {.name = "OneHotCategorical",
                             .draw = one_hot_draw,
                             .log_prob = one_hot_log_prob,
                             .entropy = tpi_categorical_entropy,
                             .mean = tpi_first_parameter,
                             .variance = tpi_bernoulli_variance,
                             .event_dims = 1},
                  straight_through = {.name = "OneHotCategoricalStraightThrough",
                                      .draw = straight_through_draw,
                                      .has_gradient = true,
                                      .log_prob = one_hot_log_prob,
                                      .entropy = tpi_categorical_entropy,
                                      .mean = tpi_first_parameter,
                                      .variance = tpi_bernoulli_variance,
                                      .event_dims = 1};

/* ---- Making ---- */
TPI_DISTRIBUTION_OF_TWO(tp_distribution_pareto, pareto, scale, alpha)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_weibull, weibull, scale, concentration)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_kumaraswamy, kumaraswamy, concentration1, concentration0)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_inverse_gamma, inverse_gamma, concentration, rate)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_fisher_snedecor, fisher_snedecor, df1, df2)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_von_mises, von_mises, loc, concentration)

tp_distribution *tp_distribution_half_cauchy(tp_tensor *scale) {
    return tpi_distribution_of_one(&half_cauchy, scale, "scale", __func__);
}

tp_distribution *tp_distribution_chi2(tp_tensor *df) {
    tp_distribution *d = NULL;
    if (!tpi_distribution_floating(df, "df", __func__)) return NULL;
    TP_SCOPE
        d = tpi_distribution_new(&chi2, tp_mul(df, 0.5), tp_full_like(df, 0.5));
    return d;
}

static tp_distribution *of_counts(const kind *by_probs, const kind *by_logits, tp_tensor *total_count, tp_tensor *probs,
                                  tp_tensor *logits, const char *function) {
    if (!probs == !logits)
        return tpi_fail(TP_ERR_VALUE, "%s: Either `probs` or `logits` must be specified, but not both.", function);
    return tpi_distribution_of_two(probs ? by_probs : by_logits, total_count, probs ? probs : logits, "total_count",
                                   probs ? "probs" : "logits", function);
}
tp_distribution *tp_distribution_binomial(tp_tensor *total_count, tp_tensor *probs, tp_tensor *logits) {
    if (TPI_ENDED(total_count, "a tensor") || TPI_ENDED(probs, "a tensor") || TPI_ENDED(logits, "a tensor"))
        return NULL;
    return of_counts(&binomial_by_probs, &binomial_by_logits, total_count, probs, logits, __func__);
}
tp_distribution *tp_distribution_negative_binomial(tp_tensor *total_count, tp_tensor *probs, tp_tensor *logits) {
    if (TPI_ENDED(total_count, "a tensor") || TPI_ENDED(probs, "a tensor") || TPI_ENDED(logits, "a tensor"))
        return NULL;
    return of_counts(&negative_by_probs, &negative_by_logits, total_count, probs, logits, __func__);
}

static bool has_row(const tp_tensor *t, const char *argument, const char *function) {
    return tpi_distribution_floating(t, argument, function) &&
           (t->ndim || tpi_refuse(TP_ERR_VALUE, "%s: argument '%s': expected at least one dimension, got none",
                                  function, argument));
}
tp_distribution *tp_distribution_dirichlet(tp_tensor *concentration) {
    return has_row(concentration, "concentration", __func__) ? tpi_distribution_new(&dirichlet, concentration, NULL)
                                                             : NULL;
}

tp_distribution *tp_distribution_multivariate_normal(tp_tensor *loc, tp_tensor *covariance_matrix) {
    const tp_tensor *c = covariance_matrix;
    if (!has_row(loc, "loc", __func__) || !tpi_distribution_floating(c, "covariance_matrix", __func__)) return NULL;
    const int64_t n = tp_size(loc, -1);
    if (c->ndim < 2 || tp_size(c, -1) != n || tp_size(c, -2) != n)
        return tpi_fail(TP_ERR_VALUE,
                        "tp_distribution_multivariate_normal: argument 'covariance_matrix': expected %lld rows and "
                        "columns, got shape %s",
                        (long long)n, tpi_shape_text(tpi_shape(c)));
    tp_distribution *d = NULL;
    TP_SCOPE {
        tp_tensor *factor = tp_linalg_cholesky(covariance_matrix);
        tp_tensor *row = tp_zeros_like(tp_select(factor, -1, 0)); /* of the factor's batch */
        tp_tensor *where = tp_add(loc, row);
        if (factor && where) d = tpi_distribution_new(&multivariate_normal, where, factor);
    }
    return d;
}

tp_distribution *tp_distribution_one_hot_categorical(tp_tensor *probs, tp_tensor *logits) {
    if (TPI_ENDED(probs, "a tensor") || TPI_ENDED(logits, "a tensor")) return NULL;
    return tpi_distribution_by_chance(&one_hot, probs, logits, __func__);
}
tp_distribution *tp_distribution_one_hot_categorical_straight_through(tp_tensor *probs, tp_tensor *logits) {
    if (TPI_ENDED(probs, "a tensor") || TPI_ENDED(logits, "a tensor")) return NULL;
    return tpi_distribution_by_chance(&straight_through, probs, logits, __func__);
}

/* Kinds of distributions of one or two parameters: a row of formulas each, over parameters a and b that are broadcast
 * to one shape. Samples draw what PyTorch's classes draw, in the same order. */
#include "nn/distribution.h"
#include <float.h>
#include <math.h>
#include <taper/autograd.h>
#include <taper/ops.h>

typedef tpi_distribution_kind kind;

static const double LOG_SQRT_2PI = 0.91893853320467274178, LOG_2 = M_LN2, EULER = 0.57721566490153286061;

tp_tensor *tpi_sample_like(tp_tensor *a, tp_ints shape) {
    return tp_empty(shape, .dtype = tp_dtype_of(a), .device = tp_device_of(a));
}
double tpi_smallest_of(const tp_tensor *a) { return tp_dtype_of(a) == TP_FLOAT64 ? DBL_MIN : FLT_MIN; }
double tpi_epsilon_of(const tp_tensor *a) { return tp_dtype_of(a) == TP_FLOAT64 ? DBL_EPSILON : FLT_EPSILON; }

/* ---- Normal and what is made of it ---- */
static tp_tensor *normal_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    if (tp_grad_enabled()) return tp_add(a, tp_mul(tp_normal_(tpi_sample_like(a, shape), .generator = g), b));
    return tp_normal_Tensor_Tensor(tp_expand(a, shape), tp_expand(b, shape), .generator = g);
}
static tp_tensor *normal_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *fall = tp_div(tp_neg(tp_square(tp_sub(x, a))), tp_mul(tp_square(b), 2));
    return tp_sub(tp_sub(fall, tp_log(b)), LOG_SQRT_2PI);
}
static tp_tensor *normal_entropy(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return tp_add(tp_log(b), 0.5 + LOG_SQRT_2PI);
}
tp_tensor *tpi_first_parameter(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_alias(a);
}
static tp_tensor *square_b(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return tp_square(b);
}
static tp_tensor *normal_kl(const tp_distribution *p, const tp_distribution *q) {
    tp_tensor *ratio = tp_square(tp_div(p->b, q->b)), *off = tp_square(tp_div(tp_sub(p->a, q->a), q->b));
    return tp_mul(tp_sub(tp_sub(tp_add(ratio, off), 1), tp_log(ratio)), 0.5);
}
static tp_tensor *log_normal_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return tp_exp(tp_add(a, tp_mul(tp_normal_(tpi_sample_like(a, shape), .generator = g), b)));
}
static tp_tensor *log_normal_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return tp_sub(normal_log_prob(a, b, tp_log(x)), tp_log(x));
}
static tp_tensor *log_normal_entropy(tp_tensor *a, tp_tensor *b) { return tp_add(normal_entropy(a, b), a); }
static tp_tensor *log_normal_mean(tp_tensor *a, tp_tensor *b) { return tp_exp(tp_add(a, tp_div(tp_square(b), 2))); }
static tp_tensor *log_normal_variance(tp_tensor *a, tp_tensor *b) {
    tp_tensor *s = tp_square(b);
    return tp_mul(tp_expm1(s), tp_exp(tp_add(tp_mul(a, 2), s)));
}
static tp_tensor *half_normal_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    (void)b;
    return tp_abs(tp_mul(tp_normal_(tpi_sample_like(a, shape), .generator = g), a));
}
static tp_tensor *half_normal_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    (void)b;
    tp_tensor *inside = tp_add(normal_log_prob(tp_zeros_like(a), a, x), LOG_2);
    return tp_where(tp_ge(x, 0), inside, tp_full_like(inside, -INFINITY));
}
static tp_tensor *half_normal_entropy(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_add(tp_log(a), 0.5 + LOG_SQRT_2PI - LOG_2);
}
static tp_tensor *half_normal_mean(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_mul(a, sqrt(2 / M_PI));
}
static tp_tensor *half_normal_variance(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_mul(tp_square(a), 1 - 2 / M_PI);
}

/* ---- Others over the real line ---- */
static tp_tensor *uniform_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    tp_tensor *u = tp_rand(shape, .dtype = tp_dtype_of(a), .device = tp_device_of(a), .generator = g);
    return tp_add(a, tp_mul(tp_sub(b, a), u));
}
static tp_tensor *uniform_entropy(tp_tensor *a, tp_tensor *b) { return tp_log(tp_sub(b, a)); }
static tp_tensor *uniform_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *inside = tp_to(tp_logical_and(tp_ge(x, a), tp_lt(x, b)), .dtype = tp_dtype_of(a));
    return tp_sub(tp_log(inside), uniform_entropy(a, b));
}
static tp_tensor *uniform_mean(tp_tensor *a, tp_tensor *b) { return tp_div(tp_add(b, a), 2); }
static tp_tensor *uniform_variance(tp_tensor *a, tp_tensor *b) { return tp_div(tp_square(tp_sub(b, a)), 12); }

static tp_tensor *exponential_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    (void)b;
    return tp_div(tp_exponential_(tpi_sample_like(a, shape), .generator = g), a);
}
static tp_tensor *exponential_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    (void)b;
    return tp_sub(tp_log(a), tp_mul(a, x));
}
static tp_tensor *exponential_entropy(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_sub(1, tp_log(a));
}
static tp_tensor *exponential_mean(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_reciprocal(a);
}
static tp_tensor *exponential_variance(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_pow(a, -2);
}
static tp_tensor *exponential_kl(const tp_distribution *p, const tp_distribution *q) {
    tp_tensor *ratio = tp_div(q->a, p->a);
    return tp_sub(tp_sub(ratio, tp_log(ratio)), 1);
}

static tp_tensor *laplace_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    tp_tensor *u = tp_uniform_(tpi_sample_like(a, shape), .from = tpi_epsilon_of(a) - 1, .to = 1, .generator = g);
    return tp_sub(a, tp_mul(tp_mul(b, tp_sign(u)), tp_log1p(tp_neg(tp_abs(u)))));
}
static tp_tensor *laplace_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return tp_sub(tp_neg(tp_log(tp_mul(b, 2))), tp_div(tp_abs(tp_sub(x, a)), b));
}
static tp_tensor *laplace_entropy(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return tp_add(tp_log(tp_mul(b, 2)), 1);
}
static tp_tensor *laplace_variance(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return tp_mul(tp_square(b), 2);
}

static tp_tensor *cauchy_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    return tp_add(a, tp_mul(tp_cauchy_(tpi_sample_like(a, shape), .generator = g), b));
}
tp_tensor *tpi_cauchy_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *fall = tp_log1p(tp_square(tp_div(tp_sub(x, a), b)));
    return tp_sub(tp_sub(-log(M_PI), tp_log(b)), fall);
}
tp_tensor *tpi_cauchy_entropy(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return tp_add(tp_log(b), log(4 * M_PI));
}

static tp_tensor *cauchy_mean(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_full_like(a, NAN);
}
static tp_tensor *cauchy_variance(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_full_like(a, INFINITY);
}

static tp_tensor *gumbel_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    tp_tensor *u = tp_rand(shape, .dtype = tp_dtype_of(a), .device = tp_device_of(a), .generator = g);
    u = tp_clamp(u, .min = tp_float(tpi_smallest_of(a)), .max = tp_float(1 - tpi_epsilon_of(a)));
    return tp_sub(a, tp_mul(b, tp_log(tp_neg(tp_log(u)))));
}
static tp_tensor *gumbel_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *y = tp_div(tp_sub(a, x), b);
    return tp_sub(tp_sub(y, tp_exp(y)), tp_log(b));
}
static tp_tensor *gumbel_entropy(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return tp_add(tp_log(b), 1 + EULER);
}
static tp_tensor *gumbel_mean(tp_tensor *a, tp_tensor *b) { return tp_add(a, tp_mul(b, EULER)); }
static tp_tensor *gumbel_variance(tp_tensor *a, tp_tensor *b) {
    (void)a;
    return tp_mul(tp_square(b), M_PI * M_PI / 6);
}

/* ---- Gamma and Beta ---- */
tp_tensor *tpi_gamma_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    tp_tensor *drawn = tp_div(tp__standard_gamma(tp_expand(a, shape), .generator = g), tp_expand(b, shape));
    TP_NO_GRAD /* unseen by the tape: the gradient is that of the sample as drawn */
        tp_clamp_(tp_detach(drawn), .min = tp_float(tpi_smallest_of(a)));
    return drawn;
}
tp_tensor *tpi_gamma_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *powers = tp_add(tp_xlogy(a, b), tp_xlogy(tp_sub(a, 1), x));
    return tp_sub(tp_sub(powers, tp_mul(b, x)), tp_lgamma(a));
}
tp_tensor *tpi_gamma_entropy(tp_tensor *a, tp_tensor *b) {
    return tp_add(tp_add(tp_sub(a, tp_log(b)), tp_lgamma(a)), tp_mul(tp_sub(1, a), tp_digamma(a)));
}
tp_tensor *tpi_gamma_mean(tp_tensor *a, tp_tensor *b) { return tp_div(a, b); }
tp_tensor *tpi_gamma_variance(tp_tensor *a, tp_tensor *b) { return tp_div(a, tp_square(b)); }
static tp_tensor *gamma_kl(const tp_distribution *p, const tp_distribution *q) {
    tp_tensor *rates = tp_mul(q->a, tp_log(tp_div(p->b, q->b))), *norms = tp_sub(tp_lgamma(q->a), tp_lgamma(p->a));
    tp_tensor *shapes = tp_mul(tp_sub(p->a, q->a), tp_digamma(p->a));
    return tp_add(tp_add(tp_add(rates, norms), shapes), tp_mul(tp_sub(q->b, p->b), tp_div(p->a, p->b)));
}

static tp_tensor *beta_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    tp_tensor *both = tp_stack(TP_LIST(tp_expand(a, shape), tp_expand(b, shape)), .dim = -1);
    return tp_select(tp__sample_dirichlet(both, .generator = g), -1, 0);
}
static tp_tensor *log_beta(tp_tensor *a, tp_tensor *b) {
    return tp_sub(tp_add(tp_lgamma(a), tp_lgamma(b)), tp_lgamma(tp_add(a, b)));
}
static tp_tensor *beta_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *powers = tp_add(tp_xlogy(tp_sub(a, 1), x), tp_xlogy(tp_sub(b, 1), tp_sub(1, x)));
    return tp_sub(powers, log_beta(a, b));
}
static tp_tensor *beta_entropy(tp_tensor *a, tp_tensor *b) {
    tp_tensor *sum = tp_add(a, b);
    tp_tensor *each = tp_add(tp_mul(tp_sub(a, 1), tp_digamma(a)), tp_mul(tp_sub(b, 1), tp_digamma(b)));
    return tp_add(tp_sub(log_beta(a, b), each), tp_mul(tp_sub(sum, 2), tp_digamma(sum)));
}
static tp_tensor *beta_mean(tp_tensor *a, tp_tensor *b) { return tp_div(a, tp_add(a, b)); }
static tp_tensor *beta_variance(tp_tensor *a, tp_tensor *b) {
    tp_tensor *sum = tp_add(a, b);
    return tp_div(tp_mul(a, b), tp_mul(tp_square(sum), tp_add(sum, 1)));
}

/* ---- Counts and choices: a holds probabilities, b logits ---- */
static tp_tensor *poisson_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    (void)b;
    return tp_poisson(tp_expand(a, shape), .generator = g);
}
static tp_tensor *poisson_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    (void)b;
    return tp_sub(tp_sub(tp_xlogy(x, a), a), tp_lgamma(tp_add(x, 1)));
}
static tp_tensor *poisson_kl(const tp_distribution *p, const tp_distribution *q) {
    return tp_sub(tp_mul(p->a, tp_sub(tp_log(p->a), tp_log(q->a))), tp_sub(p->a, q->a));
}

static tp_tensor *bernoulli_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    (void)b;
    return tp_bernoulli(tp_expand(a, shape), .generator = g);
}
static tp_tensor *surprise(tp_tensor *logits, tp_tensor *x) {
    return tp_binary_cross_entropy_with_logits(logits, x, .reduction = "none");
}
static tp_tensor *bernoulli_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensors both = tp_broadcast_tensors(TP_LIST(b, tp_to(x, .dtype = tp_dtype_of(a))));
    tp_tensor *result = both.n == 2 ? tp_neg(surprise(both.v[0], both.v[1])) : NULL;
    return result;
}
static tp_tensor *bernoulli_entropy(tp_tensor *a, tp_tensor *b) { return surprise(b, a); }
tp_tensor *tpi_bernoulli_variance(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_mul(a, tp_sub(1, a));
}
static tp_tensor *bernoulli_kl(const tp_distribution *p, const tp_distribution *q) {
    tp_tensor *yes = tp_sub(tp_xlogy(p->a, p->a), tp_xlogy(p->a, q->a)), *no_p = tp_sub(1, p->a);
    return tp_add(yes, tp_sub(tp_xlogy(no_p, no_p), tp_xlogy(no_p, tp_sub(1, q->a))));
}

static tp_tensor *geometric_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    (void)b;
    tp_tensor *tail = tp_uniform_(tpi_sample_like(a, shape), .from = tpi_smallest_of(a), .to = 1, .generator = g);
    return tp_floor(tp_div(tp_log(tail), tp_log1p(tp_neg(a))));
}
static tp_tensor *geometric_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    (void)b;
    tp_tensor *sure = tp_logical_and(tp_eq(a, 1), tp_eq(x, 0));
    tp_tensor *p = tp_where(sure, tp_zeros_like(a), a);
    return tp_add(tp_mul(x, tp_log1p(tp_neg(p))), tp_log(a));
}
static tp_tensor *geometric_entropy(tp_tensor *a, tp_tensor *b) { return tp_div(surprise(b, a), a); }
static tp_tensor *geometric_mean(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_sub(tp_reciprocal(a), 1);
}
static tp_tensor *geometric_variance(tp_tensor *a, tp_tensor *b) {
    (void)b;
    return tp_div(tp_sub(tp_reciprocal(a), 1), a);
}

/* Rows of classes are one dim of draws each; the draws become the first dims. */
tp_tensor *tpi_categorical_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g) {
    (void)b;
    int64_t count = 1;
    const int64_t classes = tp_size(a, -1), rows = tp_numel(a) / (classes ? classes : 1);
    for (int64_t i = 0; i < shape.n; i++) count *= shape.v[i];
    tp_tensor *flat = tp_reshape(a, TP_INTS(rows, classes));
    tp_tensor *drawn = tp_multinomial(flat, rows ? count / rows : 0, .replacement = true, .generator = g);
    return tp_reshape(tp_t(drawn), shape);
}
tp_tensor *tpi_categorical_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensors both = tp_broadcast_tensors(TP_LIST(tp_unsqueeze(tp_to(x, .dtype = TP_INT64), -1), b));
    tp_tensor *result =
        both.n == 2 ? tp_squeeze_dim(tp_gather(both.v[1], -1, tp_narrow(both.v[0], -1, 0, 1)), -1) : NULL;
    (void)a;
    return result;
}
tp_tensor *tpi_categorical_entropy(tp_tensor *a, tp_tensor *b) {
    const double least = tp_dtype_of(b) == TP_FLOAT64 ? -DBL_MAX : -FLT_MAX;
    return tp_neg(tp_sum(tp_mul(tp_clamp(b, .min = tp_float(least)), a), .dim = TP_INTS(-1)));
}
static tp_tensor *categorical_kl(const tp_distribution *p, const tp_distribution *q) {
    tp_tensor *each = tp_mul(p->a, tp_sub(p->b, q->b));
    return tp_sum(tp_where(tp_eq(p->a, 0), tp_zeros_like(each), each), .dim = TP_INTS(-1));
}

/* ---- Cumulative probabilities, and the way back ---- */
static tp_tensor *half_error(tp_tensor *z) { return tp_mul(tp_add(tp_erf(tp_div(z, M_SQRT2)), 1), 0.5); }
static tp_tensor *half_error_back(tp_tensor *p) { return tp_mul(tp_erfinv(tp_sub(tp_mul(p, 2), 1)), M_SQRT2); }
static tp_tensor *normal_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) { return half_error(tp_div(tp_sub(x, a), b)); }
static tp_tensor *normal_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    return tp_add(a, tp_mul(b, half_error_back(p)));
}
static tp_tensor *log_normal_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) { return normal_cdf(a, b, tp_log(x)); }
static tp_tensor *log_normal_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) { return tp_exp(normal_icdf(a, b, p)); }
static tp_tensor *half_normal_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    (void)b;
    return tp_sub(tp_mul(half_error(tp_div(x, a)), 2), 1);
}
static tp_tensor *half_normal_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    (void)b;
    return tp_mul(a, half_error_back(tp_mul(tp_add(p, 1), 0.5)));
}
static tp_tensor *uniform_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return tp_clamp(tp_div(tp_sub(x, a), tp_sub(b, a)), .min = tp_float(0), .max = tp_float(1));
}
static tp_tensor *uniform_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) { return tp_add(a, tp_mul(p, tp_sub(b, a))); }
static tp_tensor *exponential_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    (void)b;
    return tp_sub(1, tp_exp(tp_neg(tp_mul(a, x))));
}
static tp_tensor *exponential_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    (void)b;
    return tp_neg(tp_div(tp_log1p(tp_neg(p)), a));
}
static tp_tensor *laplace_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    tp_tensor *off = tp_sub(x, a), *rest = tp_expm1(tp_neg(tp_div(tp_abs(off), b)));
    return tp_sub(0.5, tp_mul(tp_mul(tp_sign(off), rest), 0.5));
}
static tp_tensor *laplace_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    tp_tensor *side = tp_sub(p, 0.5), *rest = tp_log1p(tp_mul(tp_abs(side), -2));
    return tp_sub(a, tp_mul(tp_mul(b, tp_sign(side)), rest));
}
static tp_tensor *cauchy_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return tp_add(tp_div(tp_atan(tp_div(tp_sub(x, a), b)), M_PI), 0.5);
}
static tp_tensor *cauchy_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    return tp_add(tp_mul(tp_tan(tp_mul(tp_sub(p, 0.5), M_PI)), b), a);
}
static tp_tensor *gumbel_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) {
    return tp_exp(tp_neg(tp_exp(tp_div(tp_sub(a, x), b))));
}
static tp_tensor *gumbel_icdf(tp_tensor *a, tp_tensor *b, tp_tensor *p) {
    return tp_sub(a, tp_mul(b, tp_log(tp_neg(tp_log(p)))));
}
tp_tensor *tpi_gamma_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x) { return tp_special_gammainc(a, tp_mul(b, x)); }

static const kind normal = {.name = "Normal",
                            .draw = normal_draw,
                            .has_gradient = true,
                            .log_prob = normal_log_prob,
                            .entropy = normal_entropy,
                            .mean = tpi_first_parameter,
                            .variance = square_b,
                            .kl = normal_kl,
                            .cdf = normal_cdf,
                            .icdf = normal_icdf},
                  log_normal = {.name = "LogNormal",
                                .draw = log_normal_draw,
                                .has_gradient = true,
                                .log_prob = log_normal_log_prob,
                                .entropy = log_normal_entropy,
                                .mean = log_normal_mean,
                                .variance = log_normal_variance,
                                .kl = normal_kl,
                                .cdf = log_normal_cdf,
                                .icdf = log_normal_icdf},
                  half_normal = {.name = "HalfNormal",
                                 .draw = half_normal_draw,
                                 .has_gradient = true,
                                 .log_prob = half_normal_log_prob,
                                 .entropy = half_normal_entropy,
                                 .mean = half_normal_mean,
                                 .variance = half_normal_variance,
                                 .cdf = half_normal_cdf,
                                 .icdf = half_normal_icdf},
                  uniform = {.name = "Uniform",
                             .draw = uniform_draw,
                             .has_gradient = true,
                             .log_prob = uniform_log_prob,
                             .entropy = uniform_entropy,
                             .mean = uniform_mean,
                             .variance = uniform_variance,
                             .cdf = uniform_cdf,
                             .icdf = uniform_icdf},
                  exponential = {.name = "Exponential",
                                 .draw = exponential_draw,
                                 .has_gradient = true,
                                 .log_prob = exponential_log_prob,
                                 .entropy = exponential_entropy,
                                 .mean = exponential_mean,
                                 .variance = exponential_variance,
                                 .kl = exponential_kl,
                                 .cdf = exponential_cdf,
                                 .icdf = exponential_icdf},
                  laplace = {.name = "Laplace",
                             .draw = laplace_draw,
                             .has_gradient = true,
                             .log_prob = laplace_log_prob,
                             .entropy = laplace_entropy,
                             .mean = tpi_first_parameter,
                             .variance = laplace_variance,
                             .cdf = laplace_cdf,
                             .icdf = laplace_icdf},
                  cauchy = {.name = "Cauchy",
                            .draw = cauchy_draw,
                            .has_gradient = true,
                            .log_prob = tpi_cauchy_log_prob,
                            .entropy = tpi_cauchy_entropy,
                            .mean = cauchy_mean,
                            .variance = cauchy_variance,
                            .cdf = cauchy_cdf,
                            .icdf = cauchy_icdf},
                  gumbel = {.name = "Gumbel",
                            .draw = gumbel_draw,
                            .has_gradient = true,
                            .log_prob = gumbel_log_prob,
                            .entropy = gumbel_entropy,
                            .mean = gumbel_mean,
                            .variance = gumbel_variance,
                            .cdf = gumbel_cdf,
                            .icdf = gumbel_icdf},
                  gamma_kind = {.name = "Gamma",
                                .draw = tpi_gamma_draw,
                                .has_gradient = true,
                                .log_prob = tpi_gamma_log_prob,
                                .entropy = tpi_gamma_entropy,
                                .mean = tpi_gamma_mean,
                                .variance = tpi_gamma_variance,
                                .kl = gamma_kl,
                                .cdf = tpi_gamma_cdf},
                  beta = {.name = "Beta",
                          .draw = beta_draw,
                          .log_prob = beta_log_prob,
                          .entropy = beta_entropy,
                          .mean = beta_mean,
                          .variance = beta_variance},
                  poisson = {.name = "Poisson",
                             .draw = poisson_draw,
                             .log_prob = poisson_log_prob,
                             .mean = tpi_first_parameter,
                             .variance = tpi_first_parameter,
                             .kl = poisson_kl},
                  bernoulli = {.name = "Bernoulli",
                               .draw = bernoulli_draw,
                               .log_prob = bernoulli_log_prob,
                               .entropy = bernoulli_entropy,
                               .mean = tpi_first_parameter,
                               .variance = tpi_bernoulli_variance,
                               .kl = bernoulli_kl},
                  geometric = {.name = "Geometric",
                               .draw = geometric_draw,
                               .log_prob = geometric_log_prob,
                               .entropy = geometric_entropy,
                               .mean = geometric_mean,
                               .variance = geometric_variance},
                  categorical = {.name = "Categorical",
                                 .draw = tpi_categorical_draw,
                                 .log_prob = tpi_categorical_log_prob,
                                 .entropy = tpi_categorical_entropy,
                                 .kl = categorical_kl,
                                 .event_dims = 1,
                                 .is_index = true};

/* ---- Their constructors ---- */
TPI_DISTRIBUTION_OF_TWO(tp_distribution_normal, normal, loc, scale)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_log_normal, log_normal, loc, scale)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_uniform, uniform, low, high)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_laplace, laplace, loc, scale)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_cauchy, cauchy, loc, scale)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_gumbel, gumbel, loc, scale)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_gamma, gamma_kind, concentration, rate)
TPI_DISTRIBUTION_OF_TWO(tp_distribution_beta, beta, concentration1, concentration0)
tp_distribution *tp_distribution_half_normal(tp_tensor *scale) {
    return tpi_distribution_of_one(&half_normal, scale, "scale", __func__);
}
tp_distribution *tp_distribution_exponential(tp_tensor *rate) {
    return tpi_distribution_of_one(&exponential, rate, "rate", __func__);
}
tp_distribution *tp_distribution_poisson(tp_tensor *rate) {
    return tpi_distribution_of_one(&poisson, rate, "rate", __func__);
}
tp_distribution *tp_distribution_bernoulli(tp_tensor *probs, tp_tensor *logits) {
    if (TPI_ENDED(probs, "a tensor") || TPI_ENDED(logits, "a tensor")) return NULL;
    return tpi_distribution_by_chance(&bernoulli, probs, logits, __func__);
}
tp_distribution *tp_distribution_geometric(tp_tensor *probs, tp_tensor *logits) {
    if (TPI_ENDED(probs, "a tensor") || TPI_ENDED(logits, "a tensor")) return NULL;
    return tpi_distribution_by_chance(&geometric, probs, logits, __func__);
}
tp_distribution *tp_distribution_categorical(tp_tensor *probs, tp_tensor *logits) {
    if (TPI_ENDED(probs, "a tensor") || TPI_ENDED(logits, "a tensor")) return NULL;
    return tpi_distribution_by_chance(&categorical, probs, logits, __func__);
}

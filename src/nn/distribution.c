/* Distributions: a row of formulas per kind, over parameters a and b that are broadcast to one shape. Samples draw what
 * PyTorch's classes draw, in the same order. */
#include "autograd/glue.h"
#include "base/handle.h"
#include "base/memory.h"
#include "nn/distribution.h"
#include "tensor/given.h"
#include <float.h>
#include <math.h>
#include <taper/autograd.h>
#include <taper/ops.h>

typedef tpi_distribution_kind kind;
typedef tpi_of_parameters of_parameters;

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

static const kind
    normal = {"Normal", normal_draw, true, normal_log_prob, normal_entropy, tpi_first_parameter,
              square_b, normal_kl,   0},
    log_normal = {"LogNormal",         log_normal_draw, true, log_normal_log_prob, log_normal_entropy, log_normal_mean,
                  log_normal_variance, normal_kl,       0},
    half_normal = {"HalfNormal",
                   half_normal_draw,
                   true,
                   half_normal_log_prob,
                   half_normal_entropy,
                   half_normal_mean,
                   half_normal_variance,
                   NULL,
                   0},
    uniform = {"Uniform",        uniform_draw, true, uniform_log_prob, uniform_entropy, uniform_mean,
               uniform_variance, NULL,         0},
    exponential = {"Exponential",        exponential_draw,    true,
                   exponential_log_prob, exponential_entropy, exponential_mean,
                   exponential_variance, exponential_kl,      0},
    laplace = {"Laplace",        laplace_draw, true, laplace_log_prob, laplace_entropy, tpi_first_parameter,
               laplace_variance, NULL,         0},
    cauchy = {"Cauchy",        cauchy_draw, true, tpi_cauchy_log_prob, tpi_cauchy_entropy, cauchy_mean,
              cauchy_variance, NULL,        0},
    gumbel = {"Gumbel", gumbel_draw, true, gumbel_log_prob, gumbel_entropy, gumbel_mean, gumbel_variance, NULL, 0},
    gamma_kind = {"Gamma",
                  tpi_gamma_draw,
                  true,
                  tpi_gamma_log_prob,
                  tpi_gamma_entropy,
                  tpi_gamma_mean,
                  tpi_gamma_variance,
                  gamma_kl,
                  0},
    beta = {"Beta", beta_draw, false, beta_log_prob, beta_entropy, beta_mean, beta_variance, NULL, 0},
    poisson = {"Poisson",           poisson_draw, false, poisson_log_prob, NULL, tpi_first_parameter,
               tpi_first_parameter, poisson_kl,   0},
    bernoulli = {"Bernoulli",
                 bernoulli_draw,
                 false,
                 bernoulli_log_prob,
                 bernoulli_entropy,
                 tpi_first_parameter,
                 tpi_bernoulli_variance,
                 bernoulli_kl,
                 0},
    geometric = {"Geometric",        geometric_draw, false, geometric_log_prob, geometric_entropy, geometric_mean,
                 geometric_variance, NULL,           0},
    categorical = {"Categorical", tpi_categorical_draw, false, tpi_categorical_log_prob, tpi_categorical_entropy, NULL,
                   NULL,          categorical_kl,       1};

/* ---- Making ---- */
bool tpi_distribution_floating(const tp_tensor *t, const char *argument, const char *function) {
    if (!tpi_is_tensor_of(t, argument, function)) return false;
    if (tp_dtype_is_floating((tp_dtype)t->dtype)) return true;
    tpi_fail_in(function, TP_ERR_TYPE, "argument '%s': expected floating numbers, got %s", argument,
                tp_dtype_name((tp_dtype)t->dtype));
    return false;
}

tp_distribution *tpi_distribution_new(const kind *k, tp_tensor *a, tp_tensor *b) {
    tp_distribution *d = a ? tpi_new0(sizeof *d) : NULL;
    if (!d) return NULL;
    d->a = tp_retain(a);
    d->b = tp_retain(b);
    d->kind = k;
    d->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(d, "distribution");
    return d;
}

static tp_distribution *broadcast(const kind *k, tp_tensor *a, tp_tensor *b) {
    tp_distribution *d = NULL;
    TP_SCOPE {
        tp_tensors both = tp_broadcast_tensors(TP_LIST(a, b));
        if (both.n == 2) d = tpi_distribution_new(k, both.v[0], both.v[1]);
    }
    return d;
}
tp_distribution *tpi_distribution_of_two(const kind *k, tp_tensor *a, tp_tensor *b, const char *name_a,
                                         const char *name_b, const char *function) {
    return tpi_distribution_floating(a, name_a, function) && tpi_distribution_floating(b, name_b, function)
               ? broadcast(k, a, b)
               : NULL;
}
tp_distribution *tpi_distribution_of_one(const kind *k, tp_tensor *a, const char *name, const char *function) {
    return tpi_distribution_floating(a, name, function) ? tpi_distribution_new(k, a, NULL) : NULL;
}
#define TWO(function, kind, a, b)                                       \
    tp_distribution *function(tp_tensor *a, tp_tensor *b) {             \
        return tpi_distribution_of_two(&kind, a, b, #a, #b, #function); \
    }
TWO(tp_distribution_normal, normal, loc, scale)
TWO(tp_distribution_log_normal, log_normal, loc, scale)
TWO(tp_distribution_uniform, uniform, low, high)
TWO(tp_distribution_laplace, laplace, loc, scale)
TWO(tp_distribution_cauchy, cauchy, loc, scale)
TWO(tp_distribution_gumbel, gumbel, loc, scale)
TWO(tp_distribution_gamma, gamma_kind, concentration, rate)
TWO(tp_distribution_beta, beta, concentration1, concentration0)
tp_distribution *tp_distribution_half_normal(tp_tensor *scale) {
    return tpi_distribution_of_one(&half_normal, scale, "scale", __func__);
}
tp_distribution *tp_distribution_exponential(tp_tensor *rate) {
    return tpi_distribution_of_one(&exponential, rate, "rate", __func__);
}
tp_distribution *tp_distribution_poisson(tp_tensor *rate) {
    return tpi_distribution_of_one(&poisson, rate, "rate", __func__);
}

/* Both forms of a choice: of two (bernoulli), or of the last dim's classes. */
tp_distribution *tpi_distribution_by_chance(const kind *k, tp_tensor *probs, tp_tensor *logits, const char *function) {
    if (!probs == !logits)
        return tpi_fail(TP_ERR_VALUE, "%s: Either `probs` or `logits` must be specified, but not both.", function);
    tp_tensor *given = probs ? probs : logits;
    if (!tpi_distribution_floating(given, probs ? "probs" : "logits", function)) return NULL;
    if (k->event_dims && !given->ndim)
        return tpi_fail(TP_ERR_VALUE, "%s: parameter must be at least one-dimensional.", function);
    tp_distribution *d = NULL;
    TP_SCOPE {
        tp_tensor *a, *b;
        if (k->event_dims) {
            a = probs ? tp_div(probs, tp_sum(probs, .dim = TP_INTS(-1), .keepdim = true)) : NULL;
            b = probs ? tp_log(tp_clamp(a, .min = tp_float(tpi_epsilon_of(a)), .max = tp_float(1 - tpi_epsilon_of(a))))
                      : tp_sub(logits, tp_logsumexp(logits, TP_INTS(-1), .keepdim = true));
            if (logits) a = tp_softmax(b, -1);
        } else {
            const double eps = tpi_epsilon_of(given);
            a = probs ? probs : tp_sigmoid(logits);
            tp_tensor *p = tp_clamp(a, .min = tp_float(eps), .max = tp_float(1 - eps));
            b = logits ? logits : tp_sub(tp_log(p), tp_log1p(tp_neg(p)));
        }
        if (a && b && tp_ok()) d = broadcast(k, a, b);
    }
    return d;
}
tp_distribution *tp_distribution_bernoulli(tp_tensor *probs, tp_tensor *logits) {
    return tpi_distribution_by_chance(&bernoulli, probs, logits, __func__);
}
tp_distribution *tp_distribution_geometric(tp_tensor *probs, tp_tensor *logits) {
    return tpi_distribution_by_chance(&geometric, probs, logits, __func__);
}
tp_distribution *tp_distribution_categorical(tp_tensor *probs, tp_tensor *logits) {
    return tpi_distribution_by_chance(&categorical, probs, logits, __func__);
}

void tp_distribution_free(tp_distribution *d) {
    if (!d || !TPI_HANDLE_GIVEN(d, "a distribution")) return;
    tp_release(d->a);
    tp_release(d->b);
    d->alive = 0;
    tpi_handle_delete(d, sizeof *d);
}
const char *tp_distribution_name(const tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? d->kind->name : NULL;
}

/* ---- Asking ---- */
static tp_tensor *draw(tp_distribution *d, tp_ints shape, tp_generator *generator) {
    int64_t whole[2 * TP_MAX_DIMS];
    int64_t n = 0;
    if (shape.n + d->a->ndim > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "argument 'shape': a sample has at most %d dims", TP_MAX_DIMS);
    for (int64_t i = 0; i < shape.n; i++) whole[n++] = shape.v[i];
    for (int i = 0; i < d->a->ndim - d->kind->event_dims; i++) whole[n++] = d->a->shape[i];
    tp_tensor *out = NULL;
    TP_SCOPE
        out = tp_keep(d->kind->draw(d->a, d->b, tp_ints_view(whole, n), generator));
    return out;
}
tp_tensor *tp_distribution_sample(tp_distribution *d, tp_ints shape, tp_generator *generator) {
    if (!TPI_HANDLE_GIVEN(d, "a distribution") || !TPI_LIST_GIVEN(shape.v, shape.n)) return NULL;
    tp_tensor *out = NULL;
    TP_NO_GRAD
        out = draw(d, shape, generator);
    return out;
}
tp_tensor *tp_distribution_rsample(tp_distribution *d, tp_ints shape, tp_generator *generator) {
    if (!TPI_HANDLE_GIVEN(d, "a distribution") || !TPI_LIST_GIVEN(shape.v, shape.n)) return NULL;
    if (!d->kind->has_gradient)
        return tpi_fail(TP_ERR_MISSING, "tp_distribution_rsample: a sample of %s has no gradient", d->kind->name);
    return draw(d, shape, generator);
}
tp_tensor *tp_distribution_log_prob(tp_distribution *d, tp_tensor *value) {
    if (!TPI_HANDLE_GIVEN(d, "a distribution") || !tpi_is_tensor(value, "value")) return NULL;
    tp_tensor *out = NULL;
    TP_SCOPE
        out = tp_keep(d->kind->log_prob(d->a, d->b, value));
    return out;
}

static tp_tensor *ask(tp_distribution *d, of_parameters what, const char *name, const char *function) {
    if (!what) return tpi_fail(TP_ERR_MISSING, "%s: %s has no closed form of its %s", function, d->kind->name, name);
    tp_tensor *out = NULL;
    TP_SCOPE
        out = tp_keep(what(d->a, d->b));
    return out;
}
tp_tensor *tp_distribution_entropy(tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? ask(d, d->kind->entropy, "entropy", __func__) : NULL;
}
tp_tensor *tp_distribution_mean(tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? ask(d, d->kind->mean, "mean", __func__) : NULL;
}
tp_tensor *tp_distribution_variance(tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? ask(d, d->kind->variance, "variance", __func__) : NULL;
}
tp_tensor *tp_distribution_kl(tp_distribution *p, tp_distribution *q) {
    if (!TPI_HANDLE_GIVEN(p, "a distribution") || !TPI_HANDLE_GIVEN(q, "a distribution")) return NULL;
    if (p->kind != q->kind || !p->kind->kl)
        return tpi_fail(TP_ERR_MISSING, "tp_distribution_kl: no KL(p || q) is implemented for p of %s and q of %s",
                        p->kind->name, q->kind->name);
    tp_tensor *out = NULL;
    TP_SCOPE
        out = tp_keep(p->kind->kl(p, q));
    return out;
}

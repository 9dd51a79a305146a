/* Distributions of matrices, and normal ones of a covariance of low rank. Formulas and the order of draws are
 * PyTorch's. distribution.c has the frame. */
#include "nn/distribution.h"
#include "nn/distribution_transform.h"
#include "tensor/check_arguments.h"
#include <math.h>
#include <taper/autograd.h>
#include <taper/ops.h>

typedef tpi_distribution_kind kind;
typedef tpi_distribution_methods methods;
static const double LOG_2PI = 1.83787706640934548356;

static tp_tensor *transposed(tp_tensor *matrix) { return tp_transpose(matrix, -2, -1); }
static tp_tensor *times_row(tp_tensor *matrix, tp_tensor *row) {
    return tp_squeeze_dim(tp_matmul(matrix, tp_unsqueeze(row, -1)), -1);
}
static tp_tensor *diagonal(tp_tensor *matrix) { return tp_diagonal(matrix, .dim1 = -2, .dim2 = -1); }
/* |factor^-1 x|^2 */
static tp_tensor *distance(tp_tensor *factor, tp_tensor *x) {
    tp_tensor *even = tp_squeeze_dim(tp_linalg_solve_triangular(factor, tp_unsqueeze(x, -1), false), -1);
    return tpi_sum_rightmost(tp_square(even), 1);
}
static tp_tensor *noise(tp_tensor *like, tp_ints shape, tp_generator *g) {
    return tp_normal_(tpi_sample_like(like, shape), .generator = g);
}

/* ---- Low rank: a is the place, b the factor W (n, m), c the diagonal D ---- */
/* The Cholesky factor of 1 + W^T D^-1 W, through which the determinant and the inverse go. */
static tp_tensor *scaled_factor(tp_distribution *d) { return tp_div(transposed(d->b), tp_unsqueeze(d->c, -2)); }
static tp_tensor *capacitance(tp_distribution *d) {
    const int64_t m = tp_size(d->b, -1);
    tp_tensor *eye = tp_eye(m, .dtype = tp_dtype_of(d->b), .device = tp_device_of(d->b));
    return tp_linalg_cholesky(tp_add(tp_matmul(scaled_factor(d), d->b), eye));
}
static tp_tensor *low_rank_log_det(tp_distribution *d, tp_tensor *inner) {
    return tp_add(tp_mul(tpi_sum_rightmost(tp_log(diagonal(inner)), 1), 2), tpi_sum_rightmost(tp_log(d->c), 1));
}
static tp_tensor *low_rank_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    int64_t narrow[2 * TP_MAX_DIMS], whole[2 * TP_MAX_DIMS];
    tp_ints each = tpi_distribution_extended(d, draws, true, whole);
    tpi_distribution_extended(d, draws, true, narrow);
    narrow[each.n - 1] = tp_size(d->b, -1);
    tp_tensor *along = noise(d->a, tp_ints_view(narrow, each.n), g);
    tp_tensor *single = noise(d->a, each, g);
    return tp_add(tp_add(d->a, times_row(d->b, along)), tp_mul(tp_sqrt(d->c), single));
}
static tp_tensor *low_rank_log_prob(tp_distribution *d, tp_tensor *x) {
    tp_tensor *off = tp_sub(x, d->a), *inner = capacitance(d);
    tp_tensor *far =
        tp_sub(tpi_sum_rightmost(tp_div(tp_square(off), d->c), 1), distance(inner, times_row(scaled_factor(d), off)));
    tp_tensor *all = tp_add(tp_add(low_rank_log_det(d, inner), far), (double)tp_size(d->a, -1) * LOG_2PI);
    return tp_mul(all, -0.5);
}
static tp_tensor *low_rank_entropy(tp_distribution *d) {
    tp_tensor *log_det = low_rank_log_det(d, capacitance(d));
    return tp_mul(tp_add(log_det, (double)tp_size(d->a, -1) * (1 + LOG_2PI)), 0.5);
}
static tp_tensor *low_rank_mean(tp_distribution *d) { return tp_alias(d->a); }
static tp_tensor *low_rank_variance(tp_distribution *d) { return tp_add(tpi_sum_rightmost(tp_square(d->b), 1), d->c); }

/* ---- Wishart: a is the Cholesky factor (n, n), b the degrees of freedom ---- */
static tp_tensor *covariance(tp_distribution *d) { return tp_matmul(d->a, transposed(d->a)); }
static tp_tensor *degrees(tp_distribution *d) { return tp_unsqueeze(tp_unsqueeze(d->b, -1), -1); }
static tp_tensor *half_log_det(tp_tensor *factor) { return tpi_sum_rightmost(tp_log(diagonal(factor)), 1); }
/* Bartlett's decomposition: normal numbers below a diagonal of chi distributed ones. */
static tp_tensor *scatter(tp_distribution *d, tp_ints draws, tp_generator *g) {
    const int64_t n = tp_size(d->a, -1);
    int64_t rows[2 * TP_MAX_DIMS], below[2 * TP_MAX_DIMS];
    const tp_ints outer = tpi_distribution_extended(d, draws, false, rows);
    rows[outer.n] = n;
    tpi_distribution_extended(d, draws, false, below);
    below[outer.n] = n * (n - 1) / 2;
    tp_tensor *steps = tp_arange(n, .dtype = tp_dtype_of(d->a), .device = tp_device_of(d->a));
    tp_tensor *half = tp_mul(tp_sub(tp_unsqueeze(d->b, -1), steps), 0.5);
    tp_tensor *chi2 = tpi_gamma_draw(half, tp_full_like(half, 0.5), tp_ints_view(rows, outer.n + 1), g);
    tp_tensor *edge = tp_diag_embed(tp_clamp(tp_sqrt(chi2), .min = tp_float(tpi_epsilon_of(d->a))));
    tp_tensor *numbers = tp_randn(tp_ints_view(below, outer.n + 1), .dtype = tp_dtype_of(d->a),
                                  .device = tp_device_of(d->a), .generator = g);
    tp_tensor *indices = tp_tril_indices(n, n, .offset = -1, .device = tp_device_of(d->a));
    tp_tensor *flat = tp_add(tp_mul(tp_select(indices, 0, 0), n), tp_select(indices, 0, 1));
    tp_tensor *filled = tp_view_as(tp_index_copy(tp_flatten(edge, .start_dim = -2), -1, flat, numbers), edge);
    tp_tensor *factor = tp_matmul(d->a, filled);
    return tp_matmul(factor, transposed(factor));
}
/* PyTorch draws what is positive definite once more, and so does this: a seed gives its numbers. */
static tp_tensor *wishart_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    return scatter(d, draws, g) ? scatter(d, draws, g) : NULL;
}
static tp_tensor *wishart_log_prob(tp_distribution *d, tp_tensor *x) {
    const int64_t p = tp_size(d->a, -1);
    tp_tensor *trace = tpi_sum_rightmost(diagonal(tp_cholesky_solve(x, d->a)), 1);
    tp_tensor *norm =
        tp_add(tp_mul(d->b, tp_add(half_log_det(d->a), (double)p * M_LN2 / 2)), tp_mvlgamma(tp_div(d->b, 2), p));
    tp_tensor *log_det = tp_linalg_slogdet(x).logabsdet;
    tp_tensor *power = tp_mul(tp_div(tp_sub(d->b, (double)(p + 1)), 2), log_det);
    return tp_sub(tp_sub(power, norm), tp_div(trace, 2));
}
static tp_tensor *wishart_entropy(tp_distribution *d) {
    const int64_t p = tp_size(d->a, -1);
    tp_tensor *half = tp_div(d->b, 2);
    tp_tensor *steps = tp_div(tp_arange(p, .dtype = tp_dtype_of(d->a), .device = tp_device_of(d->a)), 2);
    tp_tensor *digammas = tpi_sum_rightmost(tp_digamma(tp_sub(tp_unsqueeze(half, -1), steps)), 1);
    tp_tensor *size = tp_mul(tp_add(half_log_det(d->a), (double)p * M_LN2 / 2), (double)(p + 1));
    tp_tensor *rest = tp_sub(tp_mvlgamma(half, p), tp_mul(tp_div(tp_sub(d->b, (double)(p + 1)), 2), digammas));
    return tp_add(tp_add(size, rest), tp_mul(half, (double)p));
}
static tp_tensor *wishart_mean(tp_distribution *d) { return tp_mul(degrees(d), covariance(d)); }
static tp_tensor *wishart_variance(tp_distribution *d) {
    tp_tensor *v = covariance(d), *edge = diagonal(v);
    tp_tensor *products = tp_mul(tp_unsqueeze(edge, -1), tp_unsqueeze(edge, -2));
    return tp_mul(degrees(d), tp_add(tp_square(v), products));
}

/* ---- Correlations: a is the concentration, number the side ---- */
static tp_tensor *lkj_steps(tp_distribution *d, int64_t first, int64_t end) {
    return tp_arange_start(first, end, .dtype = tp_dtype_of(d->a), .device = tp_device_of(d->a));
}
/* The onion method: each row points into a random direction, as far as a beta distributed number says. */
static tp_tensor *lkj_draw(tp_distribution *d, tp_ints draws, tp_generator *g) {
    int64_t whole[2 * TP_MAX_DIMS];
    const int64_t n = d->number;
    tp_tensor *offset = tp_cat(TP_LIST(tp_zeros_like(lkj_steps(d, 0, 1)), lkj_steps(d, 0, n - 1)));
    tp_tensor *marginal = tp_unsqueeze(tp_add(d->a, 0.5 * (double)(n - 2)), -1);
    tp_distribution *beta = tp_distribution_beta(tp_add(offset, 0.5), tp_sub(marginal, tp_mul(offset, 0.5)));
    tp_tensor *length = beta ? tp_unsqueeze(tpi_distribution_draw(beta, draws, g), -1) : NULL;
    tp_distribution_free(beta);
    tp_ints shape = tpi_distribution_extended(d, draws, true, whole);
    tp_tensor *normal = tp_randn(shape, .dtype = tp_dtype_of(d->a), .device = tp_device_of(d->a), .generator = g);
    tp_tensor *lower = tp_tril(normal, .diagonal = -1);
    tp_tensor *size = tp_linalg_vector_norm(lower, .dim = TP_INTS(-1), .keepdim = true);
    tp_tensor *direction = tp_masked_fill(tp_div(lower, size), tp_eq(size, 0), 0); /* the first row is zero */
    tp_tensor *below = tp_mul(tp_sqrt(length), direction);
    tp_tensor *left = tp_sub(1, tpi_sum_rightmost(tp_square(below), 1));
    return tp_add(below, tp_diag_embed(tp_sqrt(tp_clamp(left, .min = tp_float(tpi_smallest_of(d->a))))));
}
static tp_tensor *lkj_log_prob(tp_distribution *d, tp_tensor *x) {
    const int64_t n = d->number - 1;
    tp_tensor *edge = tp_narrow(diagonal(x), -1, 1, n);
    tp_tensor *power =
        tp_add(tp_unsqueeze(tp_mul(tp_sub(d->a, 1), 2), -1), tp_sub((double)d->number, lkj_steps(d, 2, d->number + 1)));
    tp_tensor *alpha = tp_add(d->a, 0.5 * (double)n);
    tp_tensor *norm = tp_sub(tp_mvlgamma(tp_sub(alpha, 0.5), n), tp_mul(tp_lgamma(alpha), (double)n));
    tp_tensor *sum = tpi_sum_rightmost(tp_mul(power, tp_log(edge)), 1);
    return tp_sub(sum, tp_add(norm, 0.5 * (double)n * log(M_PI)));
}

static const methods of_low_rank = {.draw = low_rank_draw,
                                    .log_prob = low_rank_log_prob,
                                    .entropy = low_rank_entropy,
                                    .mean = low_rank_mean,
                                    .variance = low_rank_variance},
                     of_wishart = {.draw = wishart_draw,
                                   .log_prob = wishart_log_prob,
                                   .entropy = wishart_entropy,
                                   .mean = wishart_mean,
                                   .variance = wishart_variance},
                     of_lkj = {.draw = lkj_draw, .log_prob = lkj_log_prob};
static const kind low_rank = {.name = "LowRankMultivariateNormal",
                              .event_dims = 1,
                              .has_gradient = true,
                              .of_whole = &of_low_rank},
                  wishart = {.name = "Wishart", .event_dims = 2, .has_gradient = true, .of_whole = &of_wishart},
                  lkj = {.name = "LKJCholesky", .of_whole = &of_lkj};

/* ---- Making ---- */
static void *wrong_shape(const char *function, const char *argument, const char *expected, const tp_tensor *t) {
    return tpi_fail(TP_ERR_VALUE, "%s: argument '%s': expected %s, got shape %s", function, argument, expected,
                    tpi_shape_text(tpi_shape(t)));
}
tp_distribution *tp_distribution_low_rank_multivariate_normal(tp_tensor *loc, tp_tensor *cov_factor,
                                                              tp_tensor *cov_diag) {
    if (!tpi_distribution_floating(loc, "loc", __func__) ||
        !tpi_distribution_floating(cov_factor, "cov_factor", __func__) ||
        !tpi_distribution_floating(cov_diag, "cov_diag", __func__))
        return NULL;
    if (!loc->ndim) return wrong_shape(__func__, "loc", "at least one dimension", loc);
    const int64_t n = tp_size(loc, -1);
    if (cov_factor->ndim < 2 || tp_size(cov_factor, -2) != n)
        return wrong_shape(__func__, "cov_factor", "as many rows as loc has numbers", cov_factor);
    if (!cov_diag->ndim || tp_size(cov_diag, -1) != n)
        return wrong_shape(__func__, "cov_diag", "as many numbers as loc", cov_diag);
    tp_distribution *d = NULL;
    TP_SCOPE {
        tp_tensor *row = tp_zeros_like(tp_select(cov_factor, -1, 0));
        tp_tensor *expanded_loc = tp_add(tp_add(loc, row), tp_zeros_like(cov_diag));
        d = expanded_loc ? tpi_distribution_new(&low_rank, expanded_loc, cov_factor) : NULL;
        if (d) d->c = tp_retain(cov_diag);
    }
    return d;
}
tp_distribution *tp_distribution_wishart(tp_tensor *df, tp_tensor *covariance_matrix) {
    if (!tpi_distribution_floating(df, "df", __func__) ||
        !tpi_distribution_floating(covariance_matrix, "covariance_matrix", __func__))
        return NULL;
    const tp_tensor *c = covariance_matrix;
    if (c->ndim < 2 || tp_size(c, -1) != tp_size(c, -2))
        return wrong_shape(__func__, "covariance_matrix", "square matrices", c);
    tp_distribution *d = NULL;
    TP_SCOPE {
        const double most = (double)(tp_size(c, -1) - 1);
        if (tp_item(tp_any(tp_le(df, most))) != 0)
            tpi_fail(TP_ERR_VALUE, "tp_distribution_wishart: argument 'df': expected more than %g", most);
        tp_tensor *factor = tp_ok() ? tp_linalg_cholesky(covariance_matrix) : NULL;
        tp_tensor *one = factor ? tp_zeros_like(tp_select(tp_select(factor, -1, 0), -1, 0)) : NULL;
        tp_tensor *degree = one ? tp_add(df, one) : NULL;
        tp_tensor *wide = degree ? tp_add(factor, tp_unsqueeze(tp_unsqueeze(tp_zeros_like(degree), -1), -1)) : NULL;
        if (wide) d = tpi_distribution_new(&wishart, wide, degree);
    }
    return d;
}
tp_distribution *tp_distribution_lkj_cholesky(int64_t dim, tp_tensor *concentration) {
    if (TPI_ENDED(concentration, "a tensor")) return NULL;
    if (dim < 2 || dim > INT32_MAX)
        return tpi_fail(TP_ERR_VALUE, "tp_distribution_lkj_cholesky: argument 'dim': expected 2 or more, got %lld",
                        (long long)dim);
    tp_distribution *d = tpi_distribution_of_one(&lkj, concentration, "concentration", __func__);
    if (!d) return NULL;
    if (d->nbatch + 2 > TP_MAX_DIMS) {
        tp_distribution_free(d);
        return tpi_fail(TP_ERR_VALUE, "tp_distribution_lkj_cholesky: argument 'concentration': too many dims");
    }
    d->number = dim;
    d->nevent = 2;
    d->shape[d->nbatch] = d->shape[d->nbatch + 1] = dim;
    return d;
}

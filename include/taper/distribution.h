/* Probability distributions: samples, log-probabilities, entropies and divergences, with gradients to the parameters.
 * As PyTorch's torch.distributions, from the same streams.
 *
 *     tp_distribution *d = tp_distribution_normal(mean, std);
 *     tp_tensor *action = tp_distribution_sample(d, tp_no_ints(), NULL);
 *     tp_tensor *loss = tp_neg(tp_mul(tp_distribution_log_prob(d, action), reward));
 *     tp_distribution_free(d);
 *
 * A distribution holds its parameters, broadcast to one shape: that of its batch. Results go to the innermost scope, as
 * an operator's do. */
#ifndef TAPER_DISTRIBUTION_H
#define TAPER_DISTRIBUTION_H
#include <taper/random.h>

TP_BEGIN

typedef struct tp_distribution tp_distribution;
/* The distributions have the names, parameters and order of parameters of torch.distributions. */
TP_API tp_distribution *tp_distribution_normal(tp_tensor *loc, tp_tensor *scale);
TP_API tp_distribution *tp_distribution_log_normal(tp_tensor *loc, tp_tensor *scale);
TP_API tp_distribution *tp_distribution_half_normal(tp_tensor *scale);
TP_API tp_distribution *tp_distribution_uniform(tp_tensor *low, tp_tensor *high);
TP_API tp_distribution *tp_distribution_exponential(tp_tensor *rate);
TP_API tp_distribution *tp_distribution_laplace(tp_tensor *loc, tp_tensor *scale);
TP_API tp_distribution *tp_distribution_cauchy(tp_tensor *loc, tp_tensor *scale);
TP_API tp_distribution *tp_distribution_gumbel(tp_tensor *loc, tp_tensor *scale);
TP_API tp_distribution *tp_distribution_gamma(tp_tensor *concentration, tp_tensor *rate);
TP_API tp_distribution *tp_distribution_beta(tp_tensor *concentration1, tp_tensor *concentration0);
TP_API tp_distribution *tp_distribution_poisson(tp_tensor *rate);
TP_API tp_distribution *tp_distribution_chi2(tp_tensor *df);
TP_API tp_distribution *tp_distribution_half_cauchy(tp_tensor *scale);
TP_API tp_distribution *tp_distribution_pareto(tp_tensor *scale, tp_tensor *alpha);
TP_API tp_distribution *tp_distribution_weibull(tp_tensor *scale, tp_tensor *concentration);
TP_API tp_distribution *tp_distribution_kumaraswamy(tp_tensor *concentration1, tp_tensor *concentration0);
TP_API tp_distribution *tp_distribution_inverse_gamma(tp_tensor *concentration, tp_tensor *rate);
TP_API tp_distribution *tp_distribution_fisher_snedecor(tp_tensor *df1, tp_tensor *df2);
TP_API tp_distribution *tp_distribution_von_mises(tp_tensor *loc, tp_tensor *concentration);
TP_API tp_distribution *tp_distribution_dirichlet(tp_tensor *concentration); /* values: rows of the last dim */
/* Rows of n numbers, with an (n, n) covariance; batches of both are broadcast. */
TP_API tp_distribution *tp_distribution_multivariate_normal(tp_tensor *loc, tp_tensor *covariance_matrix);
/* By probabilities, or by logits: one of the two is NULL. */
TP_API tp_distribution *tp_distribution_bernoulli(tp_tensor *probs, tp_tensor *logits);
TP_API tp_distribution *tp_distribution_geometric(tp_tensor *probs, tp_tensor *logits);
TP_API tp_distribution *tp_distribution_categorical(tp_tensor *probs, tp_tensor *logits); /* classes: the last dim */
TP_API tp_distribution *tp_distribution_one_hot_categorical(tp_tensor *probs, tp_tensor *logits);
/* The same, whose samples have the gradient of the probabilities. */
TP_API tp_distribution *tp_distribution_one_hot_categorical_straight_through(tp_tensor *probs, tp_tensor *logits);
/* total_count holds floating numbers. */
TP_API tp_distribution *tp_distribution_binomial(tp_tensor *total_count, tp_tensor *probs, tp_tensor *logits);
TP_API tp_distribution *tp_distribution_negative_binomial(tp_tensor *total_count, tp_tensor *probs, tp_tensor *logits);
TP_API tp_distribution *tp_distribution_student_t(tp_tensor *df, tp_tensor *loc, tp_tensor *scale);
TP_API tp_distribution *tp_distribution_generalized_pareto(tp_tensor *loc, tp_tensor *scale, tp_tensor *concentration);
TP_API tp_distribution *tp_distribution_continuous_bernoulli(tp_tensor *probs, tp_tensor *logits);
/* How often each class came in so many draws. */
TP_API tp_distribution *tp_distribution_multinomial(int64_t total_count, tp_tensor *probs, tp_tensor *logits);
/* Choices that have a gradient; the lower the temperature, the closer to zero and one. */
TP_API tp_distribution *tp_distribution_relaxed_bernoulli(tp_tensor *temperature, tp_tensor *probs, tp_tensor *logits);
TP_API tp_distribution *tp_distribution_relaxed_one_hot_categorical(tp_tensor *temperature, tp_tensor *probs,
                                                                    tp_tensor *logits);
TP_API tp_distribution *tp_distribution_logistic_normal(tp_tensor *loc, tp_tensor *scale); /* rows that add up to one */
/* Covariance cov_factor cov_factor^T + diag(cov_diag), of shapes (n, m) and n. */
TP_API tp_distribution *tp_distribution_low_rank_multivariate_normal(tp_tensor *loc, tp_tensor *cov_factor,
                                                                     tp_tensor *cov_diag);
TP_API tp_distribution *tp_distribution_wishart(tp_tensor *df, tp_tensor *covariance_matrix); /* (n, n) matrices */
/* Cholesky factors of (dim, dim) correlations. */
TP_API tp_distribution *tp_distribution_lkj_cholesky(int64_t dim, tp_tensor *concentration);

/* ---- Made of others, which belong to the result from then on; on failure they are freed ---- */
/* The last `dims` dims of the batch become part of a value. */
TP_API tp_distribution *tp_distribution_independent(tp_distribution *base, int64_t dims);
/* `mixing` is a Categorical, which chooses among the last dim of the components' batch. */
TP_API tp_distribution *tp_distribution_mixture_same_family(tp_distribution *mixing, tp_distribution *components);
/* What a base's values become. */
typedef struct tp_transform tp_transform;
TP_API tp_distribution *tp_distribution_transformed(tp_distribution *base, tp_transform *transform);
TP_API void tp_distribution_free(tp_distribution *d); /* NULL is fine */

TP_API const char *tp_distribution_name(const tp_distribution *d); /* "Normal" */
/* A tensor of shape `shape` (none: one draw) + the batch's; without a history. generator NULL: the default one. */
TP_API tp_tensor *tp_distribution_sample(tp_distribution *d, tp_ints shape, tp_generator *generator);
/* The same with a gradient to the parameters; an error for distributions that have none. */
TP_API tp_tensor *tp_distribution_rsample(tp_distribution *d, tp_ints shape, tp_generator *generator);
TP_API tp_tensor *tp_distribution_log_prob(tp_distribution *d, tp_tensor *value);
TP_API tp_tensor *tp_distribution_entropy(tp_distribution *d); /* an error where it has no closed form */
TP_API tp_tensor *tp_distribution_mean(tp_distribution *d);
TP_API tp_tensor *tp_distribution_variance(tp_distribution *d);
TP_API tp_tensor *tp_distribution_cdf(tp_distribution *d, tp_tensor *value); /* errors as for the entropy */
TP_API tp_tensor *tp_distribution_icdf(tp_distribution *d, tp_tensor *value);
TP_API tp_ints tp_distribution_batch_shape(const tp_distribution *d); /* borrowed */
TP_API tp_ints tp_distribution_event_shape(const tp_distribution *d); /* of one value; borrowed */
/* Kullback and Leibler's divergence of q from p: two of the same kind, or an error that names the two. */
TP_API tp_tensor *tp_distribution_kl(tp_distribution *p, tp_distribution *q);

/* ---- Transforms: functions of random numbers that know their Jacobian ----
 * As torch.distributions.transforms. Transforms and distributions that one is made of belong to it from then on; on
 * failure they are freed:
 *
 *     tp_transform *both[] = {tp_transform_affine(loc, scale, 0), tp_transform_exp()};
 *     tp_distribution *d = tp_distribution_transformed(base, tp_transform_compose(2, both)); */
TP_API tp_transform *tp_transform_abs(void); /* its inverse is the positive one */
TP_API tp_transform *tp_transform_exp(void);
TP_API tp_transform *tp_transform_sigmoid(void);
TP_API tp_transform *tp_transform_softplus(void);
TP_API tp_transform *tp_transform_tanh(void);
TP_API tp_transform *tp_transform_power(tp_tensor *exponent);
/* y = loc + scale x; the last event_dims dims are one value. */
TP_API tp_transform *tp_transform_affine(tp_tensor *loc, tp_tensor *scale, int64_t event_dims);
/* Of rows: softmax, which has no Jacobian; n numbers as n + 1 parts of a stick. */
TP_API tp_transform *tp_transform_softmax(void);
TP_API tp_transform *tp_transform_stick_breaking(void);
/* Of rows of d (d - 1) / 2 numbers: the Cholesky factor of a (d, d) correlation. */
TP_API tp_transform *tp_transform_corr_cholesky(void);
/* Of matrices, without a Jacobian: a lower triangle with a positive diagonal, and the product of that. */
TP_API tp_transform *tp_transform_lower_cholesky(void);
TP_API tp_transform *tp_transform_positive_definite(void);
TP_API tp_transform *tp_transform_reshape(tp_ints in_shape, tp_ints out_shape);   /* of the last dims */
TP_API tp_transform *tp_transform_compose(int64_t n, tp_transform *const *parts); /* n 0: the identity */
TP_API tp_transform *tp_transform_independent(tp_transform *base, int64_t dims);
/* One after the other along a dim: slices of these lengths (none: 1 each); and a slice without the dim each. */
TP_API tp_transform *tp_transform_cat(int64_t n, tp_transform *const *parts, int64_t dim, tp_ints lengths);
TP_API tp_transform *tp_transform_stack(int64_t n, tp_transform *const *parts, int64_t dim);
TP_API tp_transform *tp_transform_cumulative_distribution(tp_distribution *d);
TP_API tp_transform *tp_transform_inverse_of(tp_transform *base);
/* One's own, of single numbers. Each function runs in a scope of its own. `log_abs_det` may be NULL. */
typedef tp_tensor *(*tp_transform_fn)(tp_tensor *x, void *context);
typedef tp_tensor *(*tp_transform_det_fn)(tp_tensor *x, tp_tensor *y, void *context);
TP_API tp_transform *tp_transform_new(tp_transform_fn forward, tp_transform_fn inverse, tp_transform_det_fn log_abs_det,
                                      void *context);
TP_API tp_tensor *tp_transform_forward(tp_transform *t, tp_tensor *x);
TP_API tp_tensor *tp_transform_inverse(tp_transform *t, tp_tensor *y);
/* log |det dy / dx|, where y = forward(x). An error for those that have none. */
TP_API tp_tensor *tp_transform_log_abs_det(tp_transform *t, tp_tensor *x, tp_tensor *y);
TP_API void tp_transform_free(tp_transform *t); /* NULL is fine */

TP_END
#endif

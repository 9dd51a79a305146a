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
/* Kullback and Leibler's divergence of q from p: two of the same kind, or an error that names the two. */
TP_API tp_tensor *tp_distribution_kl(tp_distribution *p, tp_distribution *q);

TP_END
#endif

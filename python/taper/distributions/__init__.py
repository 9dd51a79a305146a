"""torch.distributions: distributions with samples, densities and their gradients. Each is loaded at its first use."""
_WHERE = {"bernoulli": "Bernoulli", "beta": "Beta", "binomial": "Binomial", "categorical": "Categorical", "cauchy": "Cauchy", "chi2": "Chi2",
          "constraint_registry": "biject_to transform_to", "continuous_bernoulli": "ContinuousBernoulli", "dirichlet": "Dirichlet", "distribution": "Distribution",
          "exp_family": "ExponentialFamily", "exponential": "Exponential", "fishersnedecor": "FisherSnedecor", "gamma": "Gamma",
          "generalized_pareto": "GeneralizedPareto", "geometric": "Geometric", "gumbel": "Gumbel", "half_cauchy": "HalfCauchy", "half_normal": "HalfNormal",
          "independent": "Independent", "inverse_gamma": "InverseGamma", "kl": "kl_divergence register_kl", "kumaraswamy": "Kumaraswamy", "laplace": "Laplace",
          "lkj_cholesky": "LKJCholesky", "log_normal": "LogNormal", "logistic_normal": "LogisticNormal",
          "lowrank_multivariate_normal": "LowRankMultivariateNormal", "mixture_same_family": "MixtureSameFamily", "multinomial": "Multinomial",
          "multivariate_normal": "MultivariateNormal", "negative_binomial": "NegativeBinomial", "normal": "Normal",
          "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough", "pareto": "Pareto", "poisson": "Poisson",
          "relaxed_bernoulli": "RelaxedBernoulli", "relaxed_categorical": "RelaxedOneHotCategorical",
          "studentT": "StudentT", "transformed_distribution": "TransformedDistribution",
          "transforms": "AbsTransform AffineTransform CatTransform ComposeTransform CorrCholeskyTransform CumulativeDistributionTransform ExpTransform "
                        "IndependentTransform LowerCholeskyTransform PositiveDefiniteTransform PowerTransform ReshapeTransform SigmoidTransform SoftmaxTransform "
                        "SoftplusTransform StackTransform StickBreakingTransform TanhTransform Transform identity_transform",
          "uniform": "Uniform", "von_mises": "VonMises", "weibull": "Weibull", "wishart": "Wishart", "constraints": "", "utils": ""}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}
__all__ = sorted(_MODULE_OF)


def __getattr__(name):
    from importlib import import_module
    if name in _MODULE_OF:
        return getattr(import_module("taper.distributions." + _MODULE_OF[name]), name)
    if name in _WHERE:
        return import_module("taper.distributions." + name)
    raise AttributeError(f"module 'torch.distributions' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_WHERE, *_MODULE_OF})

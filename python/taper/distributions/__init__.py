"""torch.distributions: distributions with samples, densities and their gradients."""
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
__all__ = sorted(name for names in _WHERE.values() for name in names.split())


def _load():
    """All of them, since packages on top look through the module's dict."""
    from importlib import import_module
    for module, names in _WHERE.items():
        loaded = import_module("taper.distributions." + module)
        globals().update({name: getattr(loaded, name) for name in names.split()})


_load()

"""torch.distributions: distributions with samples, densities and their gradients.

The families live in one module per kind; the modules by which PyTorch knows them (torch.distributions.normal) are made
here, so that names and pickles are PyTorch's without a file for each."""

import sys
from types import ModuleType

import taper as torch
from taper.distributions import (
    _continuous,
    _derived,
    _discrete,
    _matrix,
    constraint_registry,
    constraints,
    distribution,
    exp_family,
    kl,
    transforms,
    utils,
)
from taper.distributions.constraint_registry import biject_to, transform_to
from taper.distributions.distribution import Distribution
from taper.distributions.exp_family import ExponentialFamily
from taper.distributions.kl import kl_divergence, register_kl
from taper.distributions.transforms import *  # noqa: F403

_HOMES = {
    _continuous: {
        "beta": "Beta",
        "cauchy": "Cauchy",
        "chi2": "Chi2",
        "continuous_bernoulli": "ContinuousBernoulli",
        "dirichlet": "Dirichlet",
        "exponential": "Exponential",
        "fishersnedecor": "FisherSnedecor",
        "gamma": "Gamma",
        "generalized_pareto": "GeneralizedPareto",
        "laplace": "Laplace",
        "normal": "Normal",
        "studentT": "StudentT",
        "uniform": "Uniform",
        "von_mises": "VonMises",
    },
    _discrete: {
        "bernoulli": "Bernoulli",
        "binomial": "Binomial",
        "categorical": "Categorical",
        "geometric": "Geometric",
        "multinomial": "Multinomial",
        "negative_binomial": "NegativeBinomial",
        "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
        "poisson": "Poisson",
    },
    _derived: {
        "gumbel": "Gumbel",
        "half_cauchy": "HalfCauchy",
        "half_normal": "HalfNormal",
        "independent": "Independent",
        "inverse_gamma": "InverseGamma",
        "kumaraswamy": "Kumaraswamy",
        "log_normal": "LogNormal",
        "logistic_normal": "LogisticNormal",
        "mixture_same_family": "MixtureSameFamily",
        "pareto": "Pareto",
        "relaxed_bernoulli": "RelaxedBernoulli LogitRelaxedBernoulli",
        "relaxed_categorical": "RelaxedOneHotCategorical ExpRelaxedCategorical",
        "transformed_distribution": "TransformedDistribution",
        "weibull": "Weibull",
    },
    _matrix: {
        "lkj_cholesky": "LKJCholesky",
        "lowrank_multivariate_normal": "LowRankMultivariateNormal",
        "multivariate_normal": "MultivariateNormal",
        "wishart": "Wishart",
    },
}
_INNER = ("LogitRelaxedBernoulli", "ExpRelaxedCategorical")  # only in their modules
__all__ = [
    "Distribution",
    "ExponentialFamily",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
    *transforms.__all__,
]


def _name_modules(home, modules):
    """Makes the modules of a home: each shows all that the home has, and its classes say that they are from there."""
    for short, names in modules.items():
        module = ModuleType(f"{__name__}.{short}", home.__doc__)
        module.__dict__.update(
            {"Distribution": Distribution, "torch": torch},
            **{name: value for name, value in vars(home).items() if not name.startswith("__")},
            __file__=home.__file__,
            __package__=__name__,
        )
        globals()[short] = sys.modules[module.__name__] = module
        for name in names.split():
            vars(home)[name].__module__ = module.__name__
            if name not in _INNER:
                globals()[name] = vars(home)[name]
                __all__.append(name)


for _home, _modules in _HOMES.items():
    _name_modules(_home, _modules)
__all__.sort()

"""Kullback-Leibler divergences between distributions, by their types.

Between families a divergence is what p expects of log p - log q: minus p's entropy less a few expectations under p (of
x, x^2, log x, exp(-x / s)), so each pair of families needs no formula of its own; within a family the closed forms
stand below."""

import math

import taper as torch
from taper.distributions._continuous import (
    Beta,
    Cauchy,
    ContinuousBernoulli,
    Dirichlet,
    Exponential,
    Gamma,
    Laplace,
    Normal,
    Uniform,
)
from taper.distributions._derived import Gumbel, HalfNormal, Independent, Pareto, TransformedDistribution
from taper.distributions._discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from taper.distributions._matrix import LowRankMultivariateNormal, MultivariateNormal, _batch_mahalanobis
from taper.distributions.distribution import Distribution
from taper.distributions.exp_family import ExponentialFamily
from taper.distributions.utils import _sum_rightmost, euler_constant
from taper.nn.functional import softplus

__all__ = ["register_kl", "kl_divergence"]

_KL_REGISTRY = {}  # (type of p, type of q) -> function
_KL_MEMOIZE = {}  # the same for types that were asked for


def register_kl(type_p, type_q):
    """A decorator: the function computes the divergence of these types and of those derived from them."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):  # packages register bases of their own
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def keep(function):
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return keep


def _dispatch_kl(type_p, type_q):
    """The function of the nearest types; where p's nearest and q's nearest differ, p's, with a warning."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    near_p, near_q = (lambda pair: type_p.__mro__.index(pair[0])), (lambda pair: type_q.__mro__.index(pair[1]))
    left, right = (
        min(matches, key=lambda pair: (near_p(pair), near_q(pair))),
        min(matches, key=lambda pair: (near_q(pair), near_p(pair))),
    )
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        from warnings import warn

        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, "
            f"{right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p, q):
    """What q loses against p: the mean of log p(x) - log q(x) over p."""
    kinds = type(p), type(q)
    if kinds not in _KL_MEMOIZE:
        _KL_MEMOIZE[kinds] = _dispatch_kl(*kinds)
    if _KL_MEMOIZE[kinds] is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return _KL_MEMOIZE[kinds](p, q)


def _inf_where(condition, value):
    return torch.where(condition, math.inf, value)


def _x_log_x(x):
    return torch.special.xlogy(x, x)


# ---- Between families: minus the entropy of p less the mean of log q ----
def _mean_log(p):
    """The mean of log x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1  # Uniform


def _mean_exp(p, loc, scale):
    """The mean of exp(-(x - loc) / scale)."""
    if isinstance(p, Exponential):
        return torch.exp(loc / scale) * (p.rate * scale) / (p.rate * scale + 1)
    if isinstance(p, Gamma):
        return torch.exp(loc / scale) * (1 + (p.rate * scale).reciprocal()).pow(-p.concentration)
    if isinstance(p, Normal):
        return torch.exp((loc - p.loc) / scale + 0.5 * (p.scale / scale).pow(2))
    return scale / (p.high - p.low) * (torch.exp((loc - p.low) / scale) - torch.exp((loc - p.high) / scale))  # Uniform


def _to_normal(p, q):
    square = p.variance + (p.mean - q.loc).pow(2)
    return -p.entropy() + 0.5 * math.log(2 * math.pi) + q.scale.log() + square / (2 * q.scale.pow(2))


def _to_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _to_gamma(p, q):
    return (
        -p.entropy()
        - q.concentration * q.rate.log()
        + q.concentration.lgamma()
        - (q.concentration - 1) * _mean_log(p)
        + q.rate * p.mean
    )


def _to_gumbel(p, q):
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + _mean_exp(p, q.loc, q.scale)


def _to_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


def _to_uniform(p, q):
    return -p.entropy() + (q.high - q.low).log()


for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_p, Normal)(_to_normal)
for _p in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_p, Exponential)(_to_exponential)
for _p in (Beta, Exponential):
    register_kl(_p, Gamma)(_to_gamma)
for _p in (Exponential, Gamma, Normal, Uniform):
    register_kl(_p, Gumbel)(_to_gumbel)
register_kl(Beta, ContinuousBernoulli)(_to_continuous_bernoulli)
register_kl(Beta, Uniform)(lambda p, q: _inf_where((q.low > 0) | (q.high < 1), _to_uniform(p, q)))
register_kl(ContinuousBernoulli, Uniform)(lambda p, q: _inf_where((q.low >= 0) | (q.high <= 1), _to_uniform(p, q)))
register_kl(Pareto, Normal)(lambda p, q: _inf_where(p.alpha <= 2, _to_normal(p, q)))
register_kl(Pareto, Exponential)(lambda p, q: _inf_where(p.alpha <= 1, _to_exponential(p, q)))
register_kl(Pareto, Gamma)(lambda p, q: _inf_where(p.alpha <= 1, _to_gamma(p, q)))
register_kl(Uniform, Exponential)(lambda p, q: _inf_where(p.low < 0, _to_exponential(p, q)))
register_kl(Uniform, Gamma)(lambda p, q: _inf_where(p.low < 0, _to_gamma(p, q)))
register_kl(Uniform, ContinuousBernoulli)(
    lambda p, q: _inf_where((p.high >= 1) | (p.low <= 0), _to_continuous_bernoulli(p, q))
)
register_kl(Bernoulli, Poisson)(lambda p, q: -p.entropy() - (p.probs * q.rate.log() - q.rate))

# p has values that q does not have.
_NEVER = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _p, _qs in _NEVER.items():
    for _q in _qs:
        register_kl(_p, _q)(lambda p, q: torch.full_like(p.mean, math.inf))


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p, q):
    off = (p.loc - q.loc) / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * off.pow(2)) + (p.loc - q.loc) * torch.erf(
        math.sqrt(0.5) * off
    )  # the mean of |x - q.loc|
    return -p.entropy() + torch.log(2 * q.scale) + distance / q.scale


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p, q):
    a, b = q.concentration1, q.concentration0
    log_rest = -(_x_log_x(1 - p.high) - _x_log_x(1 - p.low)) / (p.high - p.low) - 1  # the mean of log(1 - x)
    result = -p.entropy() + a.lgamma() + b.lgamma() - (a + b).lgamma() - (a - 1) * _mean_log(p) - (b - 1) * log_rest
    return _inf_where((p.high > 1) | (p.low < 0), result)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p, q):
    return _inf_where(
        p.low < q.scale, -p.entropy() - q.alpha.log() - q.alpha * q.scale.log() + (q.alpha + 1) * _mean_log(p)
    )


# ---- Within a family ----
@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    one = torch.where(p.probs == 0, 0.0, _inf_where(q.probs == 0, one))
    return one + torch.where(p.probs == 1, 0.0, _inf_where(q.probs == 1, zero))


@register_kl(Beta, Beta)
def _kl_beta_beta(p, q):
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    result = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _inf_where(p.total_count > q.total_count, result)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    return torch.where(p.probs == 0, 0.0, _inf_where(q.probs == 0, terms)).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p, q):
    normalizer = lambda d: d._cont_bern_log_norm() + torch.log1p(-d.probs)
    return p.mean * (p.logits - q.logits) + normalizer(p) - normalizer(q)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    expected = a.digamma() - total.digamma().unsqueeze(-1)  # of log x
    return total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1) + ((a - b) * expected).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    """Bregman's divergence of the normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    of_p, of_q = [parameter.detach().requires_grad_() for parameter in p._natural_params], q._natural_params
    normalizer = p._log_normalizer(*of_p)
    gradients = torch.autograd.grad(normalizer.sum(), of_p, create_graph=True)
    result = q._log_normalizer(*of_q) - normalizer
    for a, b, gradient in zip(of_p, of_q, gradients):
        result = result - _sum_rightmost((b - a) * gradient, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p, q):
    return (
        q.concentration * (p.rate / q.rate).log()
        + torch.lgamma(q.concentration)
        - torch.lgamma(p.concentration)
        + (p.concentration - q.concentration) * torch.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p, q):
    ratio, off = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - off + ratio * euler_constant + torch.exp(off + (1 + ratio).lgamma()) - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    ratio, off = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * torch.exp(-off / p.scale) - 1


def _kl_of_vectors(p, q):
    """Normal vectors, of low rank or not."""
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    n, mine, its = p.event_shape[0], p.scale_tril, q.scale_tril
    shape = torch.broadcast_shapes(mine.shape, its.shape)
    mine, its = mine.expand(shape), its.expand(shape)
    half_log_det = lambda factor: factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    trace = torch.linalg.solve_triangular(its, mine, upper=False).pow(2).sum((-2, -1))
    return half_log_det(its) - half_log_det(mine) + 0.5 * (trace + _batch_mahalanobis(its, q.loc - p.loc) - n)


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_kl_of_vectors)


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p, q):
    ratio = q.alpha / p.alpha
    return _inf_where(p.scale < q.scale, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    return _inf_where((q.low > p.low) | (q.high < p.high), ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p, q):
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()

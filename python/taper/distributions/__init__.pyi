# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar, Dict, Generic, Iterable, List, Mapping
_T = TypeVar("_T", covariant=True)
from taper import DeviceLike, Generator, Number, Size, Tensor, _bool, _complex, _device, _dtype, _float, _int, _layout, _memory_format

class Distribution:
    def __init__(self, batch_shape: Any = ..., event_shape: Any = ..., validate_args: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    has_enumerate_support: ClassVar[Any]
    has_rsample: ClassVar[Any]
class Transform:
    def __init__(self, cache_size: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    bijective: ClassVar[Any]
class AffineTransform(Transform):
    def __init__(self, loc: Any, scale: Any, event_dim: Any = ..., cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
class ComposeTransform(Transform):
    def __init__(self, parts: Any, cache_size: Any = ...) -> None: ...
class CorrCholeskyTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
class CumulativeDistributionTransform(Transform):
    def __init__(self, distribution: Any, cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
    codomain: ClassVar[Any]
    sign: ClassVar[Any]
class ExponentialFamily(Distribution):
    def __init__(self, batch_shape: Any = ..., event_shape: Any = ..., validate_args: Any = ...) -> None: ...
class IndependentTransform(Transform):
    def __init__(self, base_transform: Any, reinterpreted_batch_ndims: Any, cache_size: Any = ...) -> None: ...
class PowerTransform(Transform):
    def __init__(self, exponent: Any, cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
class ReshapeTransform(Transform):
    def __init__(self, in_shape: Any, out_shape: Any, cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
class AbsTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
class CatTransform(Transform):
    def __init__(self, tseq: Any, dim: Any = ..., lengths: Any = ..., cache_size: Any = ...) -> None: ...
class ExpTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
    sign: ClassVar[Any]
class FisherSnedecor(Distribution):
    def __init__(self, df1: Any, df2: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class GeneralizedPareto(Distribution):
    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
class Independent(Distribution):
    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
class LKJCholesky(Distribution):
    def __init__(self, dim: Any, concentration: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    support: ClassVar[Any]
class LowRankMultivariateNormal(Distribution):
    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class LowerCholeskyTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
class MixtureSameFamily(Distribution):
    def __init__(self, mixture_distribution: Any, component_distribution: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
class PositiveDefiniteTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
class SigmoidTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
    sign: ClassVar[Any]
class SoftmaxTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
class SoftplusTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
    sign: ClassVar[Any]
class StackTransform(Transform):
    def __init__(self, tseq: Any, dim: Any = ..., cache_size: Any = ...) -> None: ...
class StickBreakingTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
class StudentT(Distribution):
    def __init__(self, df: Any, loc: Any = ..., scale: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class TanhTransform(Transform):
    def __init__(self, cache_size: Any = ...) -> None: ...
    bijective: ClassVar[Any]
    codomain: ClassVar[Any]
    domain: ClassVar[Any]
    sign: ClassVar[Any]
class TransformedDistribution(Distribution):
    def __init__(self, base_distribution: Any, transforms: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
class Uniform(Distribution):
    def __init__(self, low: Any, high: Any, validate_args: Any = ...) -> None: ...
    has_rsample: ClassVar[Any]
class VonMises(Distribution):
    def __init__(self, loc: Any, concentration: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class Beta(ExponentialFamily):
    def __init__(self, concentration1: Any, concentration0: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class Categorical(Distribution):
    def __init__(self, probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_enumerate_support: ClassVar[Any]
class Cauchy(Distribution):
    def __init__(self, loc: Any, scale: Any, validate_args: Any = ...) -> None: ...
class Dirichlet(ExponentialFamily):
    def __init__(self, concentration: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class Exponential(ExponentialFamily):
    def __init__(self, rate: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class Gamma(ExponentialFamily):
    def __init__(self, concentration: Any, rate: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class Geometric(Distribution):
    def __init__(self, probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    support: ClassVar[Any]
class Gumbel(TransformedDistribution):
    def __init__(self, loc: Any, scale: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    support: ClassVar[Any]
class InverseGamma(TransformedDistribution):
    def __init__(self, concentration: Any, rate: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class Kumaraswamy(TransformedDistribution):
    def __init__(self, concentration1: Any, concentration0: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class Laplace(Distribution):
    def __init__(self, loc: Any, scale: Any, validate_args: Any = ...) -> None: ...
class LogNormal(TransformedDistribution):
    def __init__(self, loc: Any, scale: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class LogisticNormal(TransformedDistribution):
    def __init__(self, loc: Any, scale: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class Multinomial(Distribution):
    def __init__(self, total_count: Any = ..., probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
class MultivariateNormal(Distribution):
    def __init__(self, loc: Any, covariance_matrix: Any = ..., precision_matrix: Any = ..., scale_tril: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class OneHotCategorical(Distribution):
    def __init__(self, probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
    has_enumerate_support: ClassVar[Any]
    support: ClassVar[Any]
class Pareto(TransformedDistribution):
    def __init__(self, scale: Any, alpha: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
class Poisson(ExponentialFamily):
    def __init__(self, rate: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    support: ClassVar[Any]
class RelaxedBernoulli(TransformedDistribution):
    def __init__(self, temperature: Any, probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class RelaxedOneHotCategorical(TransformedDistribution):
    def __init__(self, temperature: Any, probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class Weibull(TransformedDistribution):
    def __init__(self, scale: Any, concentration: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    support: ClassVar[Any]
class Bernoulli(ExponentialFamily):
    def __init__(self, probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_enumerate_support: ClassVar[Any]
    support: ClassVar[Any]
class Binomial(Distribution):
    def __init__(self, total_count: Any = ..., probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_enumerate_support: ClassVar[Any]
class Chi2(Gamma):
    def __init__(self, df: Any, validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
class ContinuousBernoulli(ExponentialFamily):
    def __init__(self, probs: Any = ..., logits: Any = ..., lims: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
class HalfCauchy(TransformedDistribution):
    def __init__(self, scale: Any, validate_args: Any = ...) -> None: ...
class HalfNormal(TransformedDistribution):
    def __init__(self, scale: Any, validate_args: Any = ...) -> None: ...
class NegativeBinomial(Distribution):
    def __init__(self, total_count: Any, probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
    arg_constraints: ClassVar[Any]
    support: ClassVar[Any]
class Normal(ExponentialFamily):
    def __init__(self, loc: Any, scale: Any, validate_args: Any = ...) -> None: ...
class OneHotCategoricalStraightThrough(OneHotCategorical):
    def __init__(self, probs: Any = ..., logits: Any = ..., validate_args: Any = ...) -> None: ...
    has_rsample: ClassVar[Any]
class Wishart(ExponentialFamily):
    def __init__(self, df: Any, covariance_matrix: Any = ..., precision_matrix: Any = ..., scale_tril: Any = ..., validate_args: Any = ...) -> None: ...
    has_rsample: ClassVar[Any]
    support: ClassVar[Any]
def biject_to(constraint: Any) -> Any: ...
def identity_transform(x: Any) -> Any: ...
def kl_divergence(p: Any, q: Any) -> Any: ...
def register_kl(type_p: Any, type_q: Any) -> Any: ...
def transform_to(constraint: Any) -> Any: ...
def __getattr__(name: str) -> Any: ...

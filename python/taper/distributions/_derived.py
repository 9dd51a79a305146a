"""Distributions made of others: dims taken into the event, mixtures, functions of random numbers and the families that
are such functions."""

import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions._continuous import _LOC_SCALE, Cauchy, Exponential, Gamma, Normal, Uniform
from taper.distributions._discrete import _PROBABILITY, _ROW, Categorical, ExpRelaxedCategorical, LogitRelaxedBernoulli
from taper.distributions.distribution import Distribution, Family
from taper.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
)
from taper.distributions.utils import _sum_rightmost, euler_constant, is_number


def _of_base(name, depth=1):
    """An attribute that is the base's."""

    def get(self):
        for _ in range(depth):
            self = self.base_dist
        return getattr(self, name)

    return property(get)


class Independent(Family):
    """The last reinterpreted_batch_ndims dims of the batch are parts of one value, independent of each other."""

    arg_constraints = {}
    _kept = ("reinterpreted_batch_ndims",)
    _spread = property(lambda self: {"base_dist": self.reinterpreted_batch_ndims})

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        batch_shape = base_distribution.batch_shape
        cut = len(batch_shape) - reinterpreted_batch_ndims
        if cut < 0:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch_shape)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(
            batch_shape[:cut], batch_shape[cut:] + base_distribution.event_shape, validate_args=validate_args
        )

    has_rsample, mean, mode, variance = map(_of_base, ("has_rsample", "mean", "mode", "variance"))
    has_enumerate_support = property(
        lambda self: self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support
    )

    @constraints.dependent_property
    def support(self):
        support = self.base_dist.support
        return (
            constraints.independent(support, self.reinterpreted_batch_ndims)
            if self.reinterpreted_batch_ndims
            else support
        )

    def _summed(self, values):
        return _sum_rightmost(values, self.reinterpreted_batch_ndims)

    def sample(self, sample_shape=Size()):
        base = self.base_dist
        return base.sample(sample_shape)

    def rsample(self, sample_shape=Size()):
        base = self.base_dist
        return base.rsample(sample_shape)

    def log_prob(self, value):
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self):
        return self._summed(self.base_dist.entropy())

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Family):
    """The mixture chooses one of the components, which lie along the last dim of their batch."""

    arg_constraints = {}
    has_rsample = False
    _spread = {"_mixture_distribution": 0, "_component_distribution": 1}
    _kept = ("_num_component", "_event_ndims")

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        if any(1 not in (a, b) and a != b for a, b in zip(reversed(mixed), reversed(batch))):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                f"`component_distribution.batch_shape`({batch})"
            )
        choices, components = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if choices != components:
            raise ValueError(
                f"`mixture_distribution component` ({choices}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component, self._event_ndims = choices, len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    support = constraints.dependent_property(
        lambda self: constraints.MixtureSameFamilyConstraint(self._component_distribution.support)
    )
    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def _weighed(self, value):
        """The sum of what the components have, by their probabilities."""
        probs = self.mixture_distribution.probs
        more = 0 if probs.dim() == 2 else len(self.batch_shape) - (probs.dim() - 1)
        probs = probs.reshape(probs.shape[:-1] + (1,) * more + probs.shape[-1:] + (1,) * self._event_ndims)
        return (probs * value).sum(-1 - self._event_ndims)

    mean = property(lambda self: self._weighed(self.component_distribution.mean))

    @property
    def variance(self):
        off = self.component_distribution.mean - self._pad(self.mean)
        return self._weighed(self.component_distribution.variance) + self._weighed(off.pow(2.0))

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def cdf(self, x):
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        self._check(x)
        each = self.component_distribution.log_prob(self._pad(x))
        return torch.logsumexp(each + torch.log_softmax(self.mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen, drawn = (
                self.mixture_distribution.sample(sample_shape),
                self.component_distribution.sample(sample_shape),
            )
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            return torch.gather(drawn, dim, chosen.expand(chosen.shape[: dim + 1] + self.event_shape)).squeeze(dim)

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


class TransformedDistribution(Family):
    """What base_distribution's numbers become under the transforms: their composition carries values, shapes and
    densities."""

    arg_constraints = {}
    _kept = ("transforms",)

    def __init__(self, base_distribution, transforms, validate_args=None):
        if not isinstance(transforms, (Transform, list)):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        shape_in, base_dim = (
            base_distribution.batch_shape + base_distribution.event_shape,
            len(base_distribution.event_shape),
        )
        in_dim, out_dim = self._whole.domain.event_dim, self._whole.codomain.event_dim
        if len(shape_in) < in_dim:
            raise ValueError(f"base_distribution needs to have shape with size at least {in_dim}, but got {shape_in}.")
        shape = self._whole.forward_shape(shape_in)
        needed = self._whole.inverse_shape(shape)
        if shape_in != needed:
            base_distribution = base_distribution.expand(needed[: len(needed) - base_dim])
        self.base_dist = Independent(base_distribution, in_dim - base_dim) if in_dim > base_dim else base_distribution
        cut = len(shape) - max(out_dim, base_dim + out_dim - in_dim)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    _whole = property(lambda self: ComposeTransform(self.transforms))
    has_rsample = _of_base("has_rsample")

    def _grow(self, new, batch_shape):
        super()._grow(new, batch_shape)
        shape = self._whole.inverse_shape(batch_shape + self.event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        support = self.transforms[-1].codomain if self.transforms else self.base_dist.support
        more = len(self.event_shape) - support.event_dim if self.transforms else 0
        return constraints.independent(support, more) if more > 0 else support

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            return self._whole(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=Size()):
        return self._whole(self.base_dist.rsample(sample_shape))

    def _stations(self, value):
        """The value on its way back to the base, from the last transform to the first: (transform, before it, after
        it)."""
        for transform in self.transforms[::-1]:
            before = transform.inv(value)
            yield transform, before, value
            value = before

    def log_prob(self, value):
        self._check(value)
        dim, total = len(self.event_shape), 0.0
        for transform, before, after in self._stations(value):
            inner, outer = transform.domain.event_dim, transform.codomain.event_dim
            dim, value = dim + inner - outer, before
            total = total - _sum_rightmost(transform.log_abs_det_jacobian(before, after), dim - inner)
        return total + _sum_rightmost(self.base_dist.log_prob(value), dim - len(self.base_dist.event_shape))

    def _turned(self, value):
        """A probability of the base, counted from the other side where the transforms fall."""
        sign = self._whole.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for _, value, _ in self._stations(value):
            pass
        self._check(value, self.base_dist)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._whole(self.base_dist.icdf(self._turned(value)))


class Half(TransformedDistribution):
    """The frame of absolute values of distributions around zero: twice the density on one side."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    scale = _of_base("scale")
    mode = property(lambda self: torch.zeros_like(self.scale))

    def log_prob(self, value):
        self._check(value)
        value = torch.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return torch.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        self._check(value)
        return self.base_dist.cdf(value) * 2 - 1

    def icdf(self, prob):
        return self.base_dist.icdf(prob / 2 + 0.5)

    def entropy(self):
        return -math.log(2) + self.base_dist.entropy()


class HalfNormal(Half):
    """Absolute values of normal numbers around zero."""

    def __init__(self, scale, validate_args=None):
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))


class HalfCauchy(Half):
    """Absolute values of Cauchy distributed numbers around zero."""

    def __init__(self, scale, validate_args=None):
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    mean = property(lambda self: self._filled(math.inf, self.scale))
    variance = _of_base("variance")


class LogNormal(TransformedDistribution):
    """Numbers whose logarithm is normal."""

    arg_constraints = _LOC_SCALE
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    loc, scale = _of_base("loc"), _of_base("scale")
    mean = property(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())
    variance = property(lambda self: self.scale.pow(2).expm1() * (2 * self.loc + self.scale.pow(2)).exp())

    def entropy(self):
        return self.loc + self.base_dist.entropy()


class LogisticNormal(TransformedDistribution):
    """Parts of a stick that is broken at normal places."""

    arg_constraints = _LOC_SCALE
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(
            base if base.batch_shape else base.expand([1]), StickBreakingTransform(), validate_args=validate_args
        )

    loc, scale = _of_base("loc", 2), _of_base("scale", 2)


class Gumbel(TransformedDistribution):
    """Largest of many: minus the logarithm of exponential waiting times, moved by loc and stretched by scale."""

    arg_constraints = _LOC_SCALE
    support = constraints.real
    _spread = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self._start(loc=loc, scale=scale)
        info = torch.finfo(self.loc.dtype)
        ends = info.tiny, 1 - info.eps
        if not (is_number(loc) and is_number(scale)):
            ends = [torch.full_like(self.loc, end) for end in ends]
        down = lambda loc, scale: [ExpTransform().inv, AffineTransform(loc, -scale)]
        super().__init__(
            Uniform(*ends, validate_args=validate_args),
            down(0, torch.ones_like(self.scale)) + down(loc, self.scale),
            validate_args=validate_args,
        )

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: (math.pi / math.sqrt(6)) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def log_prob(self, value):
        self._check(value)
        below = (self.loc - value) / self.scale
        return below - below.exp() - self.scale.log()

    def entropy(self):
        return 1 + euler_constant + self.scale.log()


class Pareto(TransformedDistribution):
    """Numbers from scale up whose tail falls with the power alpha: scale times the exponential of waiting times with
    the rate alpha."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    support = constraints.dependent_property(
        lambda self: constraints.greater_than_eq(self.scale), is_discrete=False, event_dim=0
    )
    _spread = {"scale": 0, "alpha": 0}

    def __init__(self, scale, alpha, validate_args=None):
        self._start(scale=scale, alpha=alpha)
        super().__init__(
            Exponential(self.alpha, validate_args=validate_args),
            [ExpTransform(), AffineTransform(loc=0, scale=self.scale)],
            validate_args=validate_args,
        )

    mode = property(lambda self: self.scale)

    def _moment(self, n):
        """Of order n in units of the scale; infinite where the tail is too heavy."""
        return (1 - n / self.alpha.clamp(min=n)).reciprocal()

    mean = property(lambda self: self.scale * self._moment(1))

    @property
    def variance(self):
        over = self.alpha.clamp(min=2) - 1
        return (self.scale / over).square() * self._moment(2)

    def entropy(self):
        waiting = self.base_dist.mean
        return torch.log(self.scale * waiting) + waiting + 1


class Weibull(TransformedDistribution):
    """Powers of exponential waiting times."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _spread = {"scale": 0, "concentration": 0, "concentration_reciprocal": 0}

    def __init__(self, scale, concentration, validate_args=None):
        self._start(scale=scale, concentration=concentration)
        power = self.concentration_reciprocal = 1 / self.concentration
        super().__init__(
            Exponential(torch.ones_like(self.scale), validate_args=validate_args),
            [PowerTransform(power), AffineTransform(loc=0, scale=self.scale)],
            validate_args=validate_args,
        )

    mode = property(
        lambda self: self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal
    )

    def _log_moment(self, n):
        """The logarithm of the moment of order n, in units of the scale."""
        return torch.lgamma(1 + n * self.concentration_reciprocal)

    mean = property(lambda self: self.scale * self._log_moment(1).exp())
    variance = property(lambda self: self.scale.pow(2) * (self._log_moment(2).exp() - (2 * self._log_moment(1)).exp()))

    def entropy(self):
        k = self.concentration_reciprocal
        return euler_constant * (1 - k) + torch.log(self.scale * k) + 1


class Kumaraswamy(TransformedDistribution):
    """Like a beta distribution, but with a cumulative probability that can be inverted."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _spread = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1, concentration0, validate_args=None):
        self._start(concentration1=concentration1, concentration0=concentration0)
        base = Uniform(
            torch.zeros_like(self.concentration0), torch.ones_like(self.concentration0), validate_args=validate_args
        )
        super().__init__(
            base,
            [
                PowerTransform(self.concentration0.reciprocal()),
                AffineTransform(1.0, -1.0),
                PowerTransform(self.concentration1.reciprocal()),
            ],
            validate_args=validate_args,
        )

    def _moment(self, n):
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * torch.exp(torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b))

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - torch.pow(self.mean, 2))

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), math.nan).exp()

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = torch.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - torch.log(a) - torch.log(b)


class InverseGamma(TransformedDistribution):
    """One over gamma distributed numbers."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    concentration, rate = _of_base("concentration"), _of_base("rate")
    mode = property(lambda self: self.rate / (self.concentration + 1))
    mean = property(lambda self: torch.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf))

    @property
    def variance(self):
        a = self.concentration
        return torch.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between zero and one, near either when the temperature is low, through which gradients flow."""

    arg_constraints = _PROBABILITY
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args
        )

    temperature, logits, probs = map(_of_base, ("temperature", "logits", "probs"))


class RelaxedOneHotCategorical(TransformedDistribution):
    """Rows that add up to one, near a single one when the temperature is low, through which gradients flow."""

    arg_constraints = _ROW
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(
            ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args),
            ExpTransform(),
            validate_args=validate_args,
        )

    temperature, logits, probs = map(_of_base, ("temperature", "logits", "probs"))

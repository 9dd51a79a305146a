"""Families of real numbers: those that are moved and stretched, waiting times, and parts of one."""

import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Family, OfLogits
from taper.distributions.exp_family import ExponentialFamily
from taper.distributions.utils import (
    _standard_normal,
    broadcast_all,
    clamp_probs,
    is_number,
    lazy_property,
    logits_to_probs,
)
from taper.nn.functional import binary_cross_entropy_with_logits

_LOC_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class LocationScale(Family):
    """The frame of loc + scale * z, where z has a fixed density exp(_peak - _fall(z)), the cumulative probability
    _below, its inverse _quantile and the entropy _width."""

    arg_constraints = _LOC_SCALE
    support = constraints.real
    has_rsample = True
    _spread = {"loc": 0, "scale": 0}
    mean = mode = property(lambda self: self.loc)

    def _z(self, value):
        self._check(value)
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape=Size()):
        return self.loc + self.scale * self._noise(self._extended_shape(sample_shape))

    def log_prob(self, value):
        z = self._z(value)
        return self._peak - self.scale.log() - self._fall(z)

    def cdf(self, value):
        return self._below(self._z(value))

    def icdf(self, value):
        return self.loc + self.scale * self._quantile(value)

    def entropy(self):
        return self._width + self.scale.log()


class Normal(LocationScale, ExponentialFamily):
    """Mean loc, standard deviation scale."""

    _peak, _width, _mean_carrier_measure = -math.log(math.sqrt(2 * math.pi)), 0.5 + 0.5 * math.log(2 * math.pi), 0

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(self._start(loc=loc, scale=scale), validate_args=validate_args)

    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.pow(2))

    def _noise(self, shape):
        return _standard_normal(shape, self.loc.dtype, self.loc.device)

    def sample(self, sample_shape=Size()):
        """By the operator, which refuses a negative scale."""
        with torch.no_grad():
            return torch.normal(*(each.expand(self._extended_shape(sample_shape)) for each in (self.loc, self.scale)))

    def log_prob(self, value):
        """In this order, so that policies train to PyTorch's digits."""
        self._check(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() + self._peak

    def _below(self, z):
        return (torch.erf(z / math.sqrt(2)) + 1) / 2

    def _quantile(self, u):
        return math.sqrt(2) * torch.erfinv(u + u - 1)

    @property
    def _natural_params(self):
        """Of x and x^2."""
        precision = self.scale.pow(-2)
        return self.loc * precision, precision / -2

    def _log_normalizer(self, first, second):
        return (math.log(math.pi) - torch.log(-second)) / 2 - first.square() / (4 * second)


class Cauchy(LocationScale):
    """Median loc, half width at half maximum scale; it has neither mean nor variance."""

    _peak, _width = -math.log(math.pi), math.log(4 * math.pi)

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(self._start(loc=loc, scale=scale), validate_args=validate_args)

    mean = property(lambda self: self._filled(math.nan, self.loc))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: self._filled(math.inf, self.loc))

    def _noise(self, shape):
        return self.loc.new_empty(shape).cauchy_()

    def _fall(self, z):
        return z.square().log1p()

    def _below(self, z):
        return z.atan() / math.pi + 0.5

    def _quantile(self, u):
        return torch.tan((u - 0.5) * math.pi)


class Laplace(LocationScale):
    """Exponential on both sides of loc."""

    _peak, _width = -math.log(2), 1 + math.log(2)

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(self._start(loc=loc, scale=scale), validate_args=validate_args)

    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2**0.5 * self.scale)

    def _noise(self, shape):
        u = self.loc.new_empty(shape).uniform_(torch.finfo(self.loc.dtype).eps - 1, 1)
        return -u.sign() * torch.log1p(-u.abs())

    def _fall(self, z):
        return z.abs()

    def _below(self, z):
        return 0.5 - 0.5 * z.sign() * torch.expm1(-z.abs())

    def _quantile(self, u):
        off = u - 0.5
        return -off.sign() * torch.log1p(-2 * off.abs())


class StudentT(Family):
    """df degrees of freedom, moved by loc and stretched by scale."""

    arg_constraints = {"df": constraints.positive, **_LOC_SCALE}
    support = constraints.real
    has_rsample = True
    _spread = {"df": 0, "loc": 0, "scale": 0, "_chi2": 0}

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        shape = self._start(False, df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)
        super().__init__(shape, validate_args=validate_args)

    mean = property(lambda self: self.loc.masked_fill(self.df <= 1, math.nan))
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        variance = self.scale.pow(2) * self.df / (self.df - 2)
        return variance.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape=Size()):
        x = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        return self.loc + self.scale * (x * torch.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def log_prob(self, value):
        self._check(value)
        half, off = 0.5 * (self.df + 1.0), (value - self.loc) / self.scale
        normalizer = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + torch.lgamma(0.5 * self.df)
            - torch.lgamma(half)
        )
        return -half * torch.log1p(off**2.0 / self.df) - normalizer

    def entropy(self):
        half = 0.5 * (self.df + 1)
        log_beta = torch.lgamma(0.5 * self.df) + math.lgamma(0.5) - torch.lgamma(half)
        return (
            self.scale.log()
            + half * (torch.digamma(half) - torch.digamma(0.5 * self.df))
            + 0.5 * self.df.log()
            + log_beta
        )


class Uniform(Family):
    """Every number in [low, high) alike."""

    has_rsample = True
    _spread = {"low": 0, "high": 0}

    @property
    def arg_constraints(self):
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low, high, validate_args=None):
        super().__init__(self._start(low=low, high=high), validate_args=validate_args)

    _length = property(lambda self: self.high - self.low)
    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: math.nan * self.high)
    stddev = property(lambda self: self._length / 12**0.5)
    variance = property(lambda self: self._length.pow(2) / 12)
    support = constraints.dependent_property(
        lambda self: constraints.interval(self.low, self.high), is_discrete=False, event_dim=0
    )

    def rsample(self, sample_shape=Size()):
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device))

    def log_prob(self, value):
        self._check(value)
        inside = (value >= self.low) & (value < self.high)
        return inside.type_as(self.low).log() - self.entropy()

    def cdf(self, value):
        self._check(value)
        return ((value - self.low) / self._length).clamp(min=0, max=1)

    def icdf(self, value):
        return self.low + self._length * value

    def entropy(self):
        return self._length.log()


class VonMises(Family):
    """Angles around loc, the closer the larger the concentration."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _spread = {"loc": 0, "concentration": 0}

    def __init__(self, loc, concentration, validate_args=None):
        super().__init__(self._start(False, loc=loc, concentration=concentration), validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        return 1 - torch.special.i1e(self.concentration) / torch.special.i0e(self.concentration)

    def log_prob(self, value):
        self._check(value)
        log_i0 = torch.log(torch.special.i0e(self.concentration)) + self.concentration
        return self.concentration * torch.cos(value - self.loc) - math.log(2 * math.pi) - log_i0

    @lazy_property
    def _proposal_r(self):
        """The wrapped Cauchy distribution that covers best; for small concentrations by the first terms of its
        series."""
        k = self.concentration.double()
        t = 1 + torch.sqrt(1 + (2 * k).square())
        p = (t - torch.sqrt(2 * t)) / (2 * k)
        return torch.where(k < 1e-5, k.reciprocal() + k, (p.reciprocal() + p) / 2)

    def sample(self, sample_shape=Size()):
        """Best and Fisher's rejection from a wrapped Cauchy distribution (1979), in double: all draw again until the
        last is accepted."""
        with torch.no_grad():
            r, k, options = (
                self._proposal_r,
                self.concentration.double(),
                {"dtype": torch.double, "device": self.loc.device},
            )
            angle = torch.full(self._extended_shape(sample_shape), math.nan, **options)
            while angle.isnan().any():
                turn, height, side = torch.rand((3,) + tuple(angle.shape), **options)
                z = (turn * math.pi).cos()
                cosine = (r * z + 1) / (z + r)
                c = k * (r - cosine)
                accept = (c * (2 - c) > height) | (1 + (c / height).log() >= c)
                angle = torch.where(accept, cosine.acos() * (side - 0.5).sign(), angle)
            return ((angle + math.pi + self.loc.double()) % (2 * math.pi) - math.pi).to(self.loc.dtype)


class Exponential(Family, ExponentialFamily):
    """Waiting times for events that come with a rate."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample, _mean_carrier_measure = True, 0
    _spread = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        super().__init__(self._start(rate=rate), validate_args=validate_args)

    mean = stddev = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: torch.zeros_like(self.rate))
    variance = property(lambda self: self.rate.pow(-2))
    _natural_params = property(lambda self: (self.rate.neg(),))

    def _log_normalizer(self, parameter):
        return parameter.neg().log().neg()

    def rsample(self, sample_shape=Size()):
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value):
        self._check(value)
        return torch.log(self.rate) - value * self.rate

    def cdf(self, value):
        self._check(value)
        return 1 - (self.rate * -value).exp()

    def icdf(self, value):
        return (-value).log1p().neg() / self.rate

    def entropy(self):
        return 1 - self.rate.log()


class Gamma(Family, ExponentialFamily):
    """Shape `concentration`, inverse scale `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample, _mean_carrier_measure = True, 0
    _spread = {"concentration": 0, "rate": 0}

    def __init__(self, concentration, rate, validate_args=None):
        super().__init__(self._start(concentration=concentration, rate=rate), validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))
    _natural_params = property(lambda self: (self.concentration - 1, self.rate.neg()))

    def _log_normalizer(self, power, slope):
        a = power + 1
        return a.lgamma() - a * torch.log(-slope)

    def sample(self, sample_shape=Size(), *, generator=None):
        with torch.no_grad():
            return self.rsample(sample_shape, generator)

    def rsample(self, sample_shape=Size(), generator=None):
        a, rate = (each.expand(self._extended_shape(sample_shape)) for each in (self.concentration, self.rate))
        drawn = torch._standard_gamma(a, generator=generator) / rate
        drawn.detach().clamp_(
            torch.finfo(drawn.dtype).tiny
        )  # unseen by the tape: the gradient is that of the sample as drawn
        return drawn

    def log_prob(self, value):
        a, rate = self.concentration, self.rate
        value = torch.as_tensor(value, dtype=rate.dtype, device=rate.device)
        self._check(value)
        return torch.xlogy(a, rate) + torch.xlogy(a - 1, value) - rate * value - a.lgamma()

    def cdf(self, value):
        self._check(value)
        return torch.special.gammainc(self.concentration, value * self.rate)

    def entropy(self):
        a = self.concentration
        return a - torch.log(self.rate) + torch.lgamma(a) + (1.0 - a) * torch.digamma(a)


class Chi2(Gamma):
    """Sums of df squared standard normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    df = property(lambda self: 2 * self.concentration)


class FisherSnedecor(Family):
    """The ratio of two chi-squared numbers over their degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _spread = {"df1": 0, "df2": 0, "_gamma1": 0, "_gamma2": 0}

    def __init__(self, df1, df2, validate_args=None):
        shape = self._start(df1=df1, df2=df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)
        super().__init__(shape, validate_args=validate_args)

    mean = property(lambda self: (self.df2 / (self.df2 - 2)).masked_fill(self.df2 <= 2, math.nan))
    mode = property(
        lambda self: ((self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)).masked_fill(self.df1 <= 2, math.nan)
    )

    @property
    def variance(self):
        a, b = self.df1, self.df2
        return (2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))).masked_fill(b <= 4, math.nan)

    def rsample(self, sample_shape=Size()):
        above, below = (
            gamma.rsample(sample_shape).view(self._extended_shape(sample_shape))
            for gamma in (self._gamma1, self._gamma2)
        )
        tiny = torch.finfo(below.dtype).tiny
        return (above / below.clamp_(min=tiny)).clamp_(min=tiny)

    def log_prob(self, value):
        self._check(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        return (
            (a + b).lgamma()
            - a.lgamma()
            - b.lgamma()
            + a * ratio.log()
            + (a - 1) * torch.log(value)
            - (a + b) * torch.log1p(ratio * value)
        )


class GeneralizedPareto(Family):
    """Excesses over loc; a concentration of zero is the exponential distribution."""

    arg_constraints = {**_LOC_SCALE, "concentration": constraints.real}
    has_rsample = True
    _spread = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc, scale, concentration, validate_args=None):
        super().__init__(self._start(loc=loc, scale=scale, concentration=concentration), validate_args=validate_args)

    def _split(self):
        """Where the concentration is zero, and the concentration with ones there."""
        zero = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return zero, torch.where(zero, torch.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape=Size()):
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value):
        self._check(value)
        zero, k = self._split()
        z = (value - self.loc) / self.scale
        power = 1 / k + torch.ones_like(z)
        return -self.scale.log() - torch.where(zero, z, torch.where(power == 0, power, power * torch.log1p(k * z)))

    def log_survival_function(self, value):
        self._check(value)
        zero, k = self._split()
        z = (value - self.loc) / self.scale
        return torch.where(zero, -z, -torch.log1p(k * z) / k)

    def log_cdf(self, value):
        return self.log_survival_function(value).exp().neg().log1p()

    def cdf(self, value):
        return self.log_cdf(value).exp()

    def icdf(self, value):
        zero, k = self._split()
        left = torch.log1p(-value)
        return torch.where(zero, self.loc - self.scale * left, self.loc + self.scale / k * torch.expm1(-k * left))

    mode = property(lambda self: self.loc)

    @property
    def mean(self):
        finite = self.concentration < 1
        return torch.where(finite, self.loc + self.scale / (1 - torch.where(finite, self.concentration, 0.5)), math.nan)

    @property
    def variance(self):
        finite = self.concentration < 0.5
        k = torch.where(finite, self.concentration, 0.25)
        return torch.where(finite, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.nan)

    def entropy(self):
        return torch.broadcast_to(torch.log(self.scale) + self.concentration + 1, self._batch_shape)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = torch.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)


class Dirichlet(Family, ExponentialFamily):
    """Rows of positive numbers that add up to one."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _spread = {"concentration": 1}

    def __init__(self, concentration, validate_args=None):
        shape = concentration.shape
        if not shape:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        return torch._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    _total = property(lambda self: self.concentration.sum(-1, True))
    mean = property(lambda self: self.concentration / self._total)
    _natural_params = property(lambda self: (self.concentration,))

    def _log_normalizer(self, powers):
        """The logarithm of the beta function of several variables."""
        return powers.lgamma().sum(-1) - powers.sum(-1).lgamma()

    def log_prob(self, value):
        self._check(value)
        return torch.xlogy(self.concentration - 1.0, value).sum(-1) - self._log_normalizer(self.concentration)

    @property
    def mode(self):
        """Where no concentration exceeds one the density has its peak in a corner, that of the largest
        concentration."""
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = (self.concentration < 1).all(dim=-1)
        mode[corner] = torch.nn.functional.one_hot(mode[corner].argmax(dim=-1), above.shape[-1]).to(mode)
        return mode

    @property
    def variance(self):
        total = self._total
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        a, total = self.concentration, self.concentration.sum(-1)
        return (
            self._log_normalizer(a)
            - (a.size(-1) - total) * torch.digamma(total)
            - ((a - 1.0) * torch.digamma(a)).sum(-1)
        )


class Beta(Family, ExponentialFamily):
    """The first part of a Dirichlet distribution of two."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _spread = {"_dirichlet": 0}

    def __init__(self, concentration1, concentration0, validate_args=None):
        if is_number(concentration1) and is_number(concentration0):
            both = torch.tensor([float(concentration1), float(concentration0)])
        else:
            both = torch.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1])
    mean = property(lambda self: self._dirichlet.mean[..., 0])
    mode = property(lambda self: self._dirichlet.mode[..., 0])
    variance = property(lambda self: self._dirichlet.mean.prod(-1) / (self._dirichlet.concentration.sum(-1) + 1))
    _natural_params = property(lambda self: self._dirichlet.concentration.unbind(-1))

    def _log_normalizer(self, *powers):
        return self._dirichlet._log_normalizer(torch.stack(powers, -1))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value):
        self._check(value)
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self):
        return Dirichlet.entropy(self._dirichlet)


class ContinuousBernoulli(OfLogits, ExponentialFamily):
    """Numbers between zero and one with density proportional to probs^x (1 - probs)^(1 - x); near one half (within
    lims) by series."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample, _mean_carrier_measure = True, 0
    _kept = ("_given", "_lims")

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        shape, self._lims = self._start_of(probs, logits), lims
        if self._given == "probs":
            if validate_args is not None and not self.arg_constraints["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.__dict__.update(probs=clamp_probs(self.probs))
        super().__init__(shape, validate_args=validate_args)

    probs = lazy_property(lambda self: clamp_probs(logits_to_probs(self.logits, True)), "probs")
    _natural_params = property(lambda self: (self.logits,))

    def _outside(self):
        """Where the closed forms are stable."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self):
        """The probabilities, with a stable one in place of those near one half."""
        return torch.where(self._outside(), self.probs, self._lims[0] * torch.ones_like(self.probs))

    def _cont_bern_log_norm(self):
        p, near = self._cut(), (self.probs - 0.5).square()
        low = p <= 0.5
        gap = torch.where(
            low,
            torch.log1p(-2.0 * torch.where(low, p, torch.zeros_like(p))),
            torch.log(2.0 * torch.where(p >= 0.5, p, torch.ones_like(p)) - 1.0),
        )
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * near) * near
        return torch.where(self._outside(), torch.log(torch.abs(torch.log1p(-p) - torch.log(p))) - gap, series)

    @property
    def mean(self):
        p, x = self._cut(), self.probs - 0.5
        mean = p / (2.0 * p - 1.0) + 1.0 / (torch.log1p(-p) - torch.log(p))
        return torch.where(self._outside(), mean, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * torch.pow(x, 2)) * x)

    @property
    def variance(self):
        p, x = self._cut(), torch.pow(self.probs - 0.5, 2)
        variance = p * (p - 1.0) / torch.pow(1.0 - 2.0 * p, 2) + 1.0 / torch.pow(torch.log1p(-p) - torch.log(p), 2)
        return torch.where(self._outside(), variance, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape=Size()):
        return self.icdf(
            torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        )

    def log_prob(self, value):
        self._check(value)
        return self._cont_bern_log_norm() - binary_cross_entropy_with_logits(
            *broadcast_all(self.logits, value), reduction="none"
        )

    def cdf(self, value):
        self._check(value)
        p = self._cut()
        inside = (torch.pow(p, value) * torch.pow(1.0 - p, 1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = torch.where(self._outside(), inside, value)
        return torch.where(
            value <= 0.0, torch.zeros_like(value), torch.where(value >= 1.0, torch.ones_like(value), inside)
        )

    def icdf(self, value):
        p = self._cut()
        inside = (torch.log1p(-p + value * (2.0 * p - 1.0)) - torch.log1p(-p)) / (torch.log(p) - torch.log1p(-p))
        return torch.where(self._outside(), inside, value)

    def entropy(self):
        zero, one = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (zero - one) - self._cont_bern_log_norm() - zero

    def _log_normalizer(self, x):
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = torch.where(outside, x, (self._lims[0] - 0.5) * torch.ones_like(x))
        series = 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0
        return torch.where(outside, torch.log(torch.abs(torch.special.expm1(cut))) - torch.log(torch.abs(cut)), series)

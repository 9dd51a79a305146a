"""The continuous Bernoulli distribution."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import OfLogits
from taper.distributions.exp_family import ExponentialFamily
from taper.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs
from taper.nn.functional import binary_cross_entropy_with_logits


class ContinuousBernoulli(OfLogits, ExponentialFamily):
    """Numbers between zero and one with density proportional to probs^x (1 - probs)^(1 - x); near one half (within lims) by series."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        shape = self._start_of(probs, logits)
        if probs is not None:
            if validate_args is not None and not self.arg_constraints["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new._lims = self._lims
        return new

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside(self):
        """Where the closed forms are stable."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self):
        """The probabilities, with a stable one in place of those near one half."""
        return torch.where(self._outside(), self.probs, self._lims[0] * torch.ones_like(self.probs))

    def _cont_bern_log_norm(self):
        p = self._cut()
        low = p <= 0.5
        gap = torch.where(low, torch.log1p(-2.0 * torch.where(low, p, torch.zeros_like(p))),
                          torch.log(2.0 * torch.where(p >= 0.5, p, torch.ones_like(p)) - 1.0))
        x = torch.pow(self.probs - 0.5, 2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
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
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value):
        self._check(value)
        p = self._cut()
        inside = (torch.pow(p, value) * torch.pow(1.0 - p, 1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = torch.where(self._outside(), inside, value)
        return torch.where(value <= 0.0, torch.zeros_like(value), torch.where(value >= 1.0, torch.ones_like(value), inside))

    def icdf(self, value):
        p = self._cut()
        inside = (torch.log1p(-p + value * (2.0 * p - 1.0)) - torch.log1p(-p)) / (torch.log(p) - torch.log1p(-p))
        return torch.where(self._outside(), inside, value)

    def entropy(self):
        zero, one = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (zero - one) - self._cont_bern_log_norm() - zero

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = torch.where(outside, x, (self._lims[0] - 0.5) * torch.ones_like(x))
        series = 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0
        return torch.where(outside, torch.log(torch.abs(torch.special.expm1(cut))) - torch.log(torch.abs(cut)), series)

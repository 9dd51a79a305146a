"""The Cauchy distribution."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Broadcast


class Cauchy(Broadcast):
    """Median loc, half width at half maximum scale; it has neither mean nor variance."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _shaped = ("loc", "scale")

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(self._start(loc=loc, scale=scale), validate_args=validate_args)

    def _full(self, value):
        return torch.full(self._extended_shape(), value, dtype=self.loc.dtype, device=self.loc.device)

    mean = property(lambda self: self._full(math.nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: self._full(math.inf))

    def rsample(self, sample_shape=Size()):
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value):
        self._check(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value):
        self._check(value)
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()

"""The generalised Pareto distribution."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Broadcast


class GeneralizedPareto(Broadcast):
    """Excesses over loc; a concentration of zero is the exponential distribution."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _shaped = ("loc", "scale", "concentration")

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
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return torch.exp(self.log_cdf(value))

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
        return torch.where(finite, self.scale ** 2 / ((1 - k) ** 2 * (1 - 2 * k)), math.nan)

    def entropy(self):
        return torch.broadcast_to(torch.log(self.scale) + self.concentration + 1, self._batch_shape)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = torch.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)

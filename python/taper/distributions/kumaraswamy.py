"""The Kumaraswamy distribution."""
import math

import taper as torch
from taper.distributions import constraints
from taper.distributions.transformed_distribution import TransformedDistribution
from taper.distributions.transforms import AffineTransform, PowerTransform
from taper.distributions.uniform import Uniform
from taper.distributions.utils import broadcast_all, euler_constant


class Kumaraswamy(TransformedDistribution):
    """Like a beta distribution, but with a cumulative probability that can be inverted."""
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _shaped = ("concentration1", "concentration0")

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(torch.zeros_like(self.concentration0), torch.ones_like(self.concentration0), validate_args=validate_args)
        super().__init__(base, [PowerTransform(self.concentration0.reciprocal()), AffineTransform(1.0, -1.0), PowerTransform(self.concentration1.reciprocal())],
                         validate_args=validate_args)

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

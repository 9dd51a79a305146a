"""The Weibull distribution."""
import taper as torch
from taper.distributions import constraints
from taper.distributions.exponential import Exponential
from taper.distributions.transformed_distribution import TransformedDistribution
from taper.distributions.transforms import AffineTransform, PowerTransform
from taper.distributions.utils import broadcast_all, euler_constant


class Weibull(TransformedDistribution):
    """Powers of exponential waiting times."""
    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _shaped = ("scale", "concentration", "concentration_reciprocal")

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        super().__init__(Exponential(torch.ones_like(self.scale), validate_args=validate_args),
                         [PowerTransform(self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    mean = property(lambda self: self.scale * torch.exp(torch.lgamma(1 + self.concentration_reciprocal)))
    mode = property(lambda self: self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal())

    @property
    def variance(self):
        k = self.concentration_reciprocal
        return self.scale.pow(2) * (torch.exp(torch.lgamma(1 + 2 * k)) - torch.exp(2 * torch.lgamma(1 + k)))

    def entropy(self):
        k = self.concentration_reciprocal
        return euler_constant * (1 - k) + torch.log(self.scale * k) + 1

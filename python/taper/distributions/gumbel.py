"""The Gumbel distribution."""
import math

import taper as torch
from taper.distributions import constraints
from taper.distributions.transformed_distribution import TransformedDistribution
from taper.distributions.transforms import AffineTransform, ExpTransform
from taper.distributions.uniform import Uniform
from taper.distributions.utils import broadcast_all, euler_constant, is_number


class Gumbel(TransformedDistribution):
    """Largest of many: minus the logarithm of exponential waiting times, moved by loc and stretched by scale."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _shaped = ("loc", "scale")

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        info = torch.finfo(self.loc.dtype)
        ends = info.tiny, 1 - info.eps
        if not (is_number(loc) and is_number(scale)):
            ends = [torch.full_like(self.loc, end) for end in ends]
        down = lambda loc, scale: [ExpTransform().inv, AffineTransform(loc, -scale)]
        super().__init__(Uniform(*ends, validate_args=validate_args), down(0, torch.ones_like(self.scale)) + down(loc, self.scale), validate_args=validate_args)

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: (math.pi / math.sqrt(6)) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def log_prob(self, value):
        self._check(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)

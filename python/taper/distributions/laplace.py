"""The Laplace distribution."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Broadcast


class Laplace(Broadcast):
    """Exponential on both sides of loc."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _shaped = ("loc", "scale")

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(self._start(loc=loc, scale=scale), validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2 ** 0.5 * self.scale)

    def rsample(self, sample_shape=Size()):
        u = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(torch.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * torch.log1p(-u.abs())

    def log_prob(self, value):
        self._check(value)
        return -torch.log(2 * self.scale) - torch.abs(value - self.loc) / self.scale

    def cdf(self, value):
        self._check(value)
        off = value - self.loc
        return 0.5 - 0.5 * off.sign() * torch.expm1(-off.abs() / self.scale)

    def icdf(self, value):
        off = value - 0.5
        return self.loc - self.scale * off.sign() * torch.log1p(-2 * off.abs())

    def entropy(self):
        return 1 + torch.log(2 * self.scale)

"""Student's t distribution."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.chi2 import Chi2
from taper.distributions.distribution import Broadcast
from taper.distributions.utils import _standard_normal


class StudentT(Broadcast):
    """df degrees of freedom, moved by loc and stretched by scale."""
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _shaped, _held = ("df", "loc", "scale"), ("_chi2",)

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
        y = (value - self.loc) / self.scale
        half = 0.5 * (self.df + 1.0)
        normalizer = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + torch.lgamma(0.5 * self.df) - torch.lgamma(half)
        return -half * torch.log1p(y ** 2.0 / self.df) - normalizer

    def entropy(self):
        half = 0.5 * (self.df + 1)
        log_beta = torch.lgamma(0.5 * self.df) + math.lgamma(0.5) - torch.lgamma(half)
        return self.scale.log() + half * (torch.digamma(half) - torch.digamma(0.5 * self.df)) + 0.5 * self.df.log() + log_beta

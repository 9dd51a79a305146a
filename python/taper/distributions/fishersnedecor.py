"""The F distribution."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Broadcast
from taper.distributions.gamma import Gamma


class FisherSnedecor(Broadcast):
    """The ratio of two chi-squared numbers over their degrees of freedom."""
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _shaped, _held = ("df1", "df2"), ("_gamma1", "_gamma2")

    def __init__(self, df1, df2, validate_args=None):
        shape = self._start(df1=df1, df2=df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)
        super().__init__(shape, validate_args=validate_args)

    mean = property(lambda self: (self.df2 / (self.df2 - 2)).masked_fill(self.df2 <= 2, math.nan))
    mode = property(lambda self: ((self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)).masked_fill(self.df1 <= 2, math.nan))

    @property
    def variance(self):
        a, b = self.df1, self.df2
        return (2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))).masked_fill(b <= 4, math.nan)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        above, below = self._gamma1.rsample(sample_shape).view(shape), self._gamma2.rsample(sample_shape).view(shape)
        tiny = torch.finfo(below.dtype).tiny
        return (above / below.clamp_(min=tiny)).clamp_(min=tiny)

    def log_prob(self, value):
        self._check(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        return ((a + b).lgamma() - a.lgamma() - b.lgamma() + a * ratio.log() + (a - 1) * torch.log(value)
                - (a + b) * torch.log1p(ratio * value))

"""The gamma distribution."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Broadcast
from taper.distributions.exp_family import ExponentialFamily


class Gamma(Broadcast, ExponentialFamily):
    """Shape `concentration`, inverse scale `rate`."""
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _shaped = ("concentration", "rate")

    def __init__(self, concentration, rate, validate_args=None):
        super().__init__(self._start(concentration=concentration, rate=rate), validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def sample(self, sample_shape=Size(), *, generator=None):
        with torch.no_grad():
            return self.rsample(sample_shape, generator)

    def rsample(self, sample_shape=Size(), generator=None):
        shape = self._extended_shape(sample_shape)
        value = torch._standard_gamma(self.concentration.expand(shape), generator=generator) / self.rate.expand(shape)
        value.detach().clamp_(min=torch.finfo(value.dtype).tiny)  # unseen by the tape: the gradient is that of the sample as drawn
        return value

    def log_prob(self, value):
        value = torch.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._check(value)
        return (torch.xlogy(self.concentration, self.rate) + torch.xlogy(self.concentration - 1, value) - self.rate * value
                - torch.lgamma(self.concentration))

    def cdf(self, value):
        self._check(value)
        return torch.special.gammainc(self.concentration, self.rate * value)

    def entropy(self):
        a = self.concentration
        return a - torch.log(self.rate) + torch.lgamma(a) + (1.0 - a) * torch.digamma(a)

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return torch.lgamma(x + 1) + (x + 1) * torch.log(-y.reciprocal())

"""The binomial distribution."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import OfLogits


def _clamp_by_zero(x):
    """x where it is positive, else zero, with half the gradient at zero."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class OfCounts(OfLogits):
    """The frame of families over a count and a probability."""
    _shaped = ("total_count", "probs", "logits")

    def _start_counts(self, total_count, probs, logits):
        shape = self._start_of(probs, logits, False, total_count=total_count)
        self.total_count = self.total_count.type_as(self._param)
        return shape


class Binomial(OfCounts):
    """How many of total_count tries succeed with probability probs."""
    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        super().__init__(self._start_counts(total_count, probs, logits), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        self._check(value)
        n = self.total_count
        normalizer = n * _clamp_by_zero(self.logits) + n * torch.log1p(torch.exp(-torch.abs(self.logits))) - torch.lgamma(n + 1)
        return value * self.logits - torch.lgamma(value + 1) - torch.lgamma(n - value + 1) - normalizer

    def _one_count(self, asked):
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return count

    def entropy(self):
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        return self._values(1 + self._one_count("enumerate_support"), expand)

"""The Bernoulli distribution."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import OfLogits
from taper.distributions.exp_family import ExponentialFamily
from taper.distributions.utils import broadcast_all
from taper.nn.functional import binary_cross_entropy_with_logits


class Bernoulli(OfLogits, ExponentialFamily):
    """One with probability probs, zero otherwise."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(self._start_of(probs, logits), validate_args=validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self):
        return (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, float("nan"))

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        return self._values(2, expand)

    @property
    def _natural_params(self):
        return (torch.logit(self.probs),)

    def _log_normalizer(self, x):
        return torch.log1p(torch.exp(x))

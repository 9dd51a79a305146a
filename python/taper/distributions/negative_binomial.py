"""The negative binomial distribution."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.binomial import OfCounts
from taper.distributions.gamma import Gamma
from taper.distributions.utils import lazy_property
from taper.nn.functional import logsigmoid


class NegativeBinomial(OfCounts):
    """How many tries succeed, with probability probs, before total_count have failed."""
    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        super().__init__(self._start_counts(total_count, probs, logits), validate_args=validate_args)

    mean = property(lambda self: self.total_count * torch.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / torch.sigmoid(-self.logits))

    @lazy_property
    def _gamma(self):
        return Gamma(self.total_count, torch.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value):
        self._check(value)
        n = self.total_count
        ways = -torch.lgamma(n + value) + torch.lgamma(1.0 + value) + torch.lgamma(n)
        return n * logsigmoid(-self.logits) + value * logsigmoid(self.logits) - ways.masked_fill(n + value == 0.0, 0.0)

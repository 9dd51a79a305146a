"""The multinomial distribution."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.binomial import Binomial
from taper.distributions.one_hot_categorical import OverCategorical
from taper.distributions.utils import broadcast_all


class Multinomial(OverCategorical):
    """How often each place came in total_count draws."""

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._start(probs, logits, validate_args)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)

    def _expand_more(self, new, batch_shape):
        new.total_count, new._binomial = self.total_count, self._binomial.expand(batch_shape + self.event_shape)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape=Size()):
        places = self._categorical.sample(Size((self.total_count,)) + Size(sample_shape)).movedim(0, -1)
        counts = places.new_zeros(self._extended_shape(sample_shape)).scatter_add_(-1, places, torch.ones_like(places))
        return counts.type_as(self.probs)

    def entropy(self):
        n = torch.tensor(self.total_count, dtype=self.probs.dtype, device=self.probs.device)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        weights = torch.exp(self._binomial.log_prob(counts)) * torch.lgamma(counts + 1)
        return n * self._categorical.entropy() - torch.lgamma(n + 1) + weights.sum([0, -1])

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -float("inf")), 0)
        return torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

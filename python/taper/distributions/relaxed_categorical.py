"""Categorical distributions made smooth by a temperature (Concrete, or Gumbel-softmax, distributions)."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.one_hot_categorical import OverCategorical
from taper.distributions.transformed_distribution import TransformedDistribution
from taper.distributions.transforms import ExpTransform
from taper.distributions.utils import broadcast_all, clamp_probs


class ExpRelaxedCategorical(OverCategorical):
    """The logarithms of the relaxed rows."""
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._start(probs, logits, validate_args)

    def _expand_more(self, new, batch_shape):
        new.temperature = self.temperature

    def rsample(self, sample_shape=Size()):
        u = clamp_probs(torch.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value):
        self._check(value)
        k = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        normalizer = torch.full_like(self.temperature, float(k)).lgamma() + self.temperature.log().mul(k - 1)
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + normalizer


class RelaxedOneHotCategorical(TransformedDistribution):
    """Rows that add up to one, near a single one when the temperature is low, through which gradients flow."""
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

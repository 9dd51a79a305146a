"""Bernoulli distributions made smooth by a temperature."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import OfLogits
from taper.distributions.transformed_distribution import TransformedDistribution
from taper.distributions.transforms import SigmoidTransform
from taper.distributions.utils import broadcast_all, clamp_probs


class LogitRelaxedBernoulli(OfLogits):
    """The logits of the relaxed ones."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(self._start_of(probs, logits), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(torch.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        off = logits - value.mul(self.temperature)
        return self.temperature.log() + off - 2 * off.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between zero and one, near either when the temperature is low, through which gradients flow."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

"""The geometric distribution."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import OfLogits
from taper.distributions.utils import broadcast_all
from taper.nn.functional import binary_cross_entropy_with_logits


class Geometric(OfLogits):
    """How many tries fail before the first success, which has probability probs."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(self._start_of(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of distribution {self!r} to be positive "
                             f"but found invalid values:\n{self.probs.data[~(self.probs > 0)]}")

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: torch.zeros_like(self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(torch.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        self._check(value)
        value, probs = broadcast_all(value, self.probs)
        return value * (-probs.masked_fill((probs == 1) & (value == 0), 0)).log1p() + self.probs.log()

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs

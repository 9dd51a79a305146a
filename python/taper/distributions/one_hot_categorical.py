"""The categorical distribution over rows with a single one."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.categorical import Categorical
from taper.distributions.distribution import Distribution


class OverCategorical(Distribution):
    """The frame of distributions whose events are as wide as a categorical one's probabilities."""
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def _start(self, probs, logits, validate_args):
        self._categorical = Categorical(probs, logits)
        Distribution.__init__(self, self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(self._own_class(), _instance), Size(batch_shape)
        new._categorical = self._categorical.expand(batch_shape)
        self._expand_more(new, batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_more(self, new, batch_shape):
        """What else an expanded instance needs."""

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    _param = property(lambda self: self._categorical._param)
    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)


class OneHotCategorical(OverCategorical):
    """A one at a place drawn with its probability, zeros elsewhere."""
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._start(probs, logits, validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def _one_hot(self, places):
        return torch.nn.functional.one_hot(places, self._categorical._num_events).to(self.probs)

    @property
    def mode(self):
        return self._one_hot(self.probs.argmax(-1))

    def sample(self, sample_shape=Size()):
        return self._one_hot(self._categorical.sample(Size(sample_shape)))

    def log_prob(self, value):
        self._check(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype, device=self._param.device).view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + tuple(self.batch_shape) + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same with the gradient of the probabilities."""
    has_rsample = True

    def rsample(self, sample_shape=Size()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())

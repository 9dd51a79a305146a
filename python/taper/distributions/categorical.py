"""The categorical distribution."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Distribution, one_of
from taper.distributions.utils import lazy_property, logits_to_probs, probs_to_logits


class Categorical(Distribution):
    """One of several places, each with its probability; probs and logits need not be normalised."""
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._given = one_of(probs, logits)
        value = logits if probs is None else probs
        if value.dim() < 1:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        setattr(self, self._given, value - value.logsumexp(dim=-1, keepdim=True) if probs is None else value / value.sum(-1, keepdim=True))
        self._num_events = value.shape[-1]
        super().__init__(value.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(Categorical, _instance), Size(batch_shape)
        for name in ("probs", "logits"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape + (self._num_events,)))
        new._given, new._num_events = self._given, self._num_events
        Distribution.__init__(new, batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def _param(self):
        return self.__dict__[self._given]

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits)

    @property
    def param_shape(self):
        return self._param.size()

    def _undefined(self):
        return torch.full(self._extended_shape(), float("nan"), dtype=self.probs.dtype, device=self.probs.device)

    mean = variance = property(_undefined)
    mode = property(lambda self: self.probs.argmax(dim=-1))

    def sample(self, sample_shape=Size()):
        sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        return torch.multinomial(rows, sample_shape.numel(), True).T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._check(value)
        value, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        logits = torch.clamp(self.logits, min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = torch.arange(self._num_events, dtype=torch.long, device=self._param.device).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values

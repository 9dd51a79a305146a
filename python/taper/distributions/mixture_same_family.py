"""Mixtures whose components are one batch of distributions."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.categorical import Categorical
from taper.distributions.distribution import Distribution


class MixtureSameFamily(Distribution):
    """The mixture chooses one of the components, which lie along the last dim of their batch."""
    arg_constraints = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        if any(1 not in (a, b) and a != b for a, b in zip(reversed(mixed), reversed(batch))):
            raise ValueError(f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with `component_distribution.batch_shape`({batch})")
        choices, components = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if choices != components:
            raise ValueError(f"`mixture_distribution component` ({choices}) does not equal `component_distribution.batch_shape[-1]` ({components})")
        self._num_component, self._event_ndims = choices, len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(MixtureSameFamily, _instance), Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def _weighed(self, value):
        """The sum of what the components have, by their probabilities."""
        probs = self.mixture_distribution.probs
        more = 0 if probs.dim() == 2 else len(self.batch_shape) - (probs.dim() - 1)
        probs = probs.reshape(probs.shape[:-1] + (1,) * more + probs.shape[-1:] + (1,) * self._event_ndims)
        return (probs * value).sum(-1 - self._event_ndims)

    mean = property(lambda self: self._weighed(self.component_distribution.mean))

    @property
    def variance(self):
        off = self.component_distribution.mean - self._pad(self.mean)
        return self._weighed(self.component_distribution.variance) + self._weighed(off.pow(2.0))

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def cdf(self, x):
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        self._check(x)
        each = self.component_distribution.log_prob(self._pad(x))
        return torch.logsumexp(each + torch.log_softmax(self.mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen, drawn = self.mixture_distribution.sample(sample_shape), self.component_distribution.sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            return torch.gather(drawn, dim, chosen.expand(chosen.shape[:dim + 1] + self.event_shape)).squeeze(dim)

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"

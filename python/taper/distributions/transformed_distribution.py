"""Distributions of functions of random numbers."""
import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Distribution
from taper.distributions.independent import Independent
from taper.distributions.transforms import ComposeTransform, Transform
from taper.distributions.utils import _sum_rightmost


class TransformedDistribution(Distribution):
    """What base_distribution's numbers become under the transforms."""
    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        if not isinstance(transforms, (Transform, list)):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        base_shape, base_dim = base_distribution.batch_shape + base_distribution.event_shape, len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        in_dim, out_dim = whole.domain.event_dim, whole.codomain.event_dim
        if len(base_shape) < in_dim:
            raise ValueError(f"base_distribution needs to have shape with size at least {in_dim}, but got {base_shape}.")
        shape = whole.forward_shape(base_shape)
        needed = whole.inverse_shape(shape)
        if base_shape != needed:
            base_distribution = base_distribution.expand(needed[:len(needed) - base_dim])
        if in_dim > base_dim:
            base_distribution = Independent(base_distribution, in_dim - base_dim)
        self.base_dist = base_distribution
        cut = len(shape) - max(out_dim, base_dim + out_dim - in_dim)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(self._own_class(), _instance), Size(batch_shape)
        shape = ComposeTransform(self.transforms).inverse_shape(batch_shape + self.event_shape)
        new.base_dist = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        for name in getattr(self, "_shaped", ()):
            setattr(new, name, getattr(self, name).expand(batch_shape))
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    def _forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=Size()):
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        self._check(value)
        dim, total, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dim += transform.domain.event_dim - transform.codomain.event_dim
            total = total - _sum_rightmost(transform.log_abs_det_jacobian(x, y), dim - transform.domain.event_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), dim - len(self.base_dist.event_shape))

    def _turned(self, value):
        """A probability of the base, counted from the other side where the transforms fall."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._forward(self.base_dist.icdf(self._turned(value)))

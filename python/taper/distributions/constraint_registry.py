"""Transforms from all real numbers to where a constraint holds: biject_to one to one, transform_to in the way that
suits optimisation."""

from taper.distributions import constraints as c
from taper.distributions import transforms as t
from taper.distributions.utils import is_number

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Functions that make a transform for a constraint, by the constraint's class."""

    def __init__(self):
        self._registry = {}

    def register(self, constraint, factory=None):
        """Keeps the function; without one this is a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, c.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, c.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {kind}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint):
        """The transform whose codomain is the constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _interval(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low) and is_number(high) and low == 0 and high == 1:
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


_for_both = {
    c.real: lambda _: t.identity_transform,
    c.interval: _interval,
    c.half_open_interval: _interval,
    c.less_than: lambda k: t.ComposeTransform([t.ExpTransform(), t.AffineTransform(k.upper_bound, -1)]),
    c.corr_cholesky: lambda _: t.CorrCholeskyTransform(),
}
for _kind in (c.greater_than, c.greater_than_eq):
    _for_both[_kind] = lambda k: t.ComposeTransform([t.ExpTransform(), t.AffineTransform(k.lower_bound, 1)])
for _registry in (biject_to, transform_to):
    for _kind, _factory in _for_both.items():
        _registry.register(_kind, _factory)
    _registry.register(
        c.independent,
        lambda k, to=_registry: t.IndependentTransform(to(k.base_constraint), k.reinterpreted_batch_ndims),
    )
    _registry.register(c.cat, lambda k, to=_registry: t.CatTransform([to(part) for part in k.cseq], k.dim, k.lengths))
    _registry.register(c.stack, lambda k, to=_registry: t.StackTransform([to(part) for part in k.cseq], k.dim))
biject_to.register(c.simplex, lambda _: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda _: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda _: t.LowerCholeskyTransform())
transform_to.register(c.positive_definite, lambda _: t.PositiveDefiniteTransform())
transform_to.register(c.positive_semidefinite, lambda _: t.PositiveDefiniteTransform())

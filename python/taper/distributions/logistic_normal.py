"""The logistic-normal distribution."""
from taper.distributions import constraints
from taper.distributions.normal import Normal
from taper.distributions.transformed_distribution import TransformedDistribution
from taper.distributions.transforms import StickBreakingTransform


class LogisticNormal(TransformedDistribution):
    """Parts of a stick that is broken at normal places."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base if base.batch_shape else base.expand([1]), StickBreakingTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)

"""The Pareto distribution."""
from taper.distributions import constraints
from taper.distributions.exponential import Exponential
from taper.distributions.transformed_distribution import TransformedDistribution
from taper.distributions.transforms import AffineTransform, ExpTransform
from taper.distributions.utils import broadcast_all


class Pareto(TransformedDistribution):
    """Numbers from scale up whose tail falls with the power alpha."""
    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _shaped = ("scale", "alpha")

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args=validate_args), [ExpTransform(), AffineTransform(loc=0, scale=self.scale)],
                         validate_args=validate_args)

    mode = property(lambda self: self.scale)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    def entropy(self):
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())

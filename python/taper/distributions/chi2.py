"""The chi-squared distribution."""
from taper.distributions import constraints
from taper.distributions.gamma import Gamma


class Chi2(Gamma):
    """Sums of df squared standard normal numbers."""
    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self):
        return self.concentration * 2

"""The half-Cauchy distribution."""
import math

import taper as torch
from taper.distributions.cauchy import Cauchy
from taper.distributions.half_normal import Half
from taper.distributions.transforms import AbsTransform


class HalfCauchy(Half):
    """Absolute values of Cauchy distributed numbers around zero."""

    def __init__(self, scale, validate_args=None):
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    mean = property(lambda self: torch.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device))
    variance = property(lambda self: self.base_dist.variance)

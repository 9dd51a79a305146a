"""The LKJ distribution of correlation matrices, as their Cholesky factors."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.beta import Beta
from taper.distributions.distribution import Distribution
from taper.distributions.utils import broadcast_all


class LKJCholesky(Distribution):
    """Density proportional to the determinant to the power concentration - 1 (Lewandowski, Kurowicka and Joe, 2009)."""
    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration, = broadcast_all(concentration)
        offset = torch.cat([self.concentration.new_zeros((1,)), torch.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)])
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(LKJCholesky, _instance), Size(batch_shape)
        new.dim, new.concentration = self.dim, self.concentration.expand(batch_shape)
        new._beta = self._beta.expand(batch_shape + (self.dim,))
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape=Size()):
        """The onion method: each row points into a random direction, as far as a beta distributed number says."""
        length = self._beta.sample(sample_shape).unsqueeze(-1)
        direction = torch.randn(self._extended_shape(sample_shape), dtype=length.dtype, device=length.device).tril(-1)
        direction = direction / direction.norm(dim=-1, keepdim=True)
        direction[..., 0, :] = 0.0
        below = torch.sqrt(length) * direction
        diagonal = torch.clamp(1 - torch.sum(below ** 2, dim=-1), min=torch.finfo(below.dtype).tiny).sqrt()
        return below + torch.diag_embed(diagonal)

    def log_prob(self, value):
        self._check(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - torch.arange(2, self.dim + 1, device=self.concentration.device)
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        normalizer = 0.5 * n * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, n) - torch.lgamma(alpha) * n
        return torch.sum(order * diagonal.log(), dim=-1) - normalizer

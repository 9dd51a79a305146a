"""The multivariate normal distribution."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Distribution
from taper.distributions.utils import _standard_normal, lazy_property


def _batch_mv(matrix, vector):
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor, x):
    """|factor^-1 x|^2 for batches that broadcast."""
    return torch.linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False).squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(precision):
    """The Cholesky factor of the inverse: factored from the last row up, so that no inverse is factored."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    inverse = torch.flip(flipped, (-2, -1)).mT
    return torch.linalg.solve_triangular(inverse, torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device), upper=False)


class OfMatrix(Distribution):
    """The frame of families over a covariance, given by itself, by its inverse or by its Cholesky factor."""

    def _keep_matrix(self, batch_shape, covariance_matrix, precision_matrix, scale_tril):
        for name, matrix in (("covariance_matrix", covariance_matrix), ("precision_matrix", precision_matrix), ("scale_tril", scale_tril)):
            if matrix is not None:
                setattr(self, name, matrix.expand(batch_shape + (-1, -1)))

    def _keep_factor(self, covariance_matrix, precision_matrix, scale_tril):
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)

    def _expand_matrix(self, new, shape):
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(shape))

    def _matrix_shape(self):
        return self._batch_shape + self._event_shape[-1:] + self._event_shape[-1:]

    @lazy_property
    def scale_tril(self):
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self):
        return torch.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self):
        return torch.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape())

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(OfMatrix):
    """Mean loc, and one of covariance_matrix, precision_matrix and scale_tril."""
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril matrix": scale_tril}
        given = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (name, matrix), = given.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self._keep_matrix(batch_shape, covariance_matrix, precision_matrix, scale_tril)
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._keep_factor(covariance_matrix, precision_matrix, scale_tril)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(MultivariateNormal, _instance), Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        self._expand_matrix(new, batch_shape + self.event_shape + self.event_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=Size()):
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value):
        self._check(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self):
        return (0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()).expand(self._batch_shape)

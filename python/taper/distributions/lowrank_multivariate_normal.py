"""The multivariate normal distribution whose covariance is of low rank but for its diagonal."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Distribution
from taper.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv
from taper.distributions.utils import _standard_normal, lazy_property


def _plus_one(matrix):
    return matrix + torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _batch_capacitance_tril(factor, diag):
    """The Cholesky factor of 1 + W^T D^-1 W, through which the determinant and the inverse go."""
    return torch.linalg.cholesky(_plus_one(torch.matmul(factor.mT / diag.unsqueeze(-2), factor)))


def _batch_lowrank_logdet(factor, diag, capacitance):
    return 2 * capacitance.diagonal(dim1=-2, dim2=-1).log().sum(-1) + diag.log().sum(-1)


def _batch_lowrank_mahalanobis(factor, diag, x, capacitance):
    return (x.pow(2) / diag).sum(-1) - _batch_mahalanobis(capacitance, _batch_mv(factor.mT / diag.unsqueeze(-2), x))


class LowRankMultivariateNormal(Distribution):
    """Covariance cov_factor cov_factor^T + diag(cov_diag)."""
    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            wide_loc, self.cov_factor, wide_diag = torch.broadcast_tensors(loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1))
        except RuntimeError as error:
            raise ValueError(f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}") from error
        self.loc, self.cov_diag = wide_loc[..., 0], wide_diag[..., 0]
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(LowRankMultivariateNormal, _instance), Size(batch_shape)
        shape = batch_shape + self.event_shape
        new.loc, new.cov_diag = self.loc.expand(shape), self.cov_diag.expand(shape)
        new.cov_factor = self.cov_factor.expand(shape + self.cov_factor.shape[-1:])
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    mean = mode = property(lambda self: self.loc)

    def _matrix(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self):
        return (self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._matrix(root * torch.linalg.cholesky(_plus_one(torch.matmul(scaled, scaled.mT))))

    @lazy_property
    def covariance_matrix(self):
        factor = self._unbroadcasted_cov_factor
        return self._matrix(torch.matmul(factor, factor.mT) + torch.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self):
        a = torch.linalg.solve_triangular(self._capacitance_tril, self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2), upper=False)
        return self._matrix(torch.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - a.mT @ a)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        along = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        each = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, along) + self._unbroadcasted_cov_diag.sqrt() * each

    def _parts(self):
        return self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril

    def log_prob(self, value):
        self._check(value)
        factor, diag, capacitance = self._parts()
        distance = _batch_lowrank_mahalanobis(factor, diag, value - self.loc, capacitance)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + _batch_lowrank_logdet(*self._parts()) + distance)

    def entropy(self):
        return (0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + _batch_lowrank_logdet(*self._parts()))).expand(self._batch_shape)

"""The Wishart distribution."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.chi2 import Chi2
from taper.distributions.distribution import Distribution
from taper.distributions.exp_family import ExponentialFamily
from taper.distributions.multivariate_normal import OfMatrix
from taper.distributions.utils import is_number


def _mvdigamma(x, p):
    """The derivative of the logarithm of the multivariate gamma function."""
    if not x.gt((p - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    return torch.digamma(x.unsqueeze(-1) - torch.arange(p, dtype=x.dtype, device=x.device).div(2)).sum(-1)


class Wishart(OfMatrix, ExponentialFamily):
    """Scatter matrices of df normal vectors."""
    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self):
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self.event_shape[-1] - 1)}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = [matrix for matrix in (covariance_matrix, precision_matrix, scale_tril) if matrix is not None]
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        matrix, = given
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if is_number(df):
            batch_shape = Size(matrix.shape[:-2])
            self.df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        n = matrix.shape[-1]
        if self.df.le(n - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        if self.df.lt(n).any():
            from warnings import warn
            warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.", stacklevel=2)
        self._keep_matrix(batch_shape, covariance_matrix, precision_matrix, scale_tril)
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        self._keep_factor(covariance_matrix, precision_matrix, scale_tril)
        self._dist_chi2 = self._chi2()

    def _chi2(self):
        """Of the diagonal in Bartlett's decomposition."""
        factor = self._unbroadcasted_scale_tril
        steps = torch.arange(self._event_shape[-1], dtype=factor.dtype, device=factor.device)
        return Chi2(df=self.df.unsqueeze(-1) - steps.expand(tuple(self._batch_shape) + (-1,)))

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(Wishart, _instance), Size(batch_shape)
        new._unbroadcasted_scale_tril, new.df = self._unbroadcasted_scale_tril.expand(batch_shape + self.event_shape), self.df.expand(batch_shape)
        self._expand_matrix(new, batch_shape + self.event_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._dist_chi2 = new._chi2()
        new._validate_args = self._validate_args
        return new

    def _df(self, df):
        return df.view(self._batch_shape + (1, 1))

    mean = property(lambda self: self._df(self.df) * self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return self._df(factor.masked_fill(factor <= 0, math.nan)) * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._df(self.df) * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape=Size()):
        p = self._event_shape[-1]
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = diagonal.clamp(min=torch.finfo(diagonal.dtype).eps).diag_embed(dim1=-2, dim2=-1)
        rows, columns = torch.tril_indices(p, p, offset=-1)
        noise[..., rows, columns] = torch.randn(Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,), dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _is_good(self, sample):
        """Is a sample positive definite? One answer for all of a batch."""
        good = self.support.check(sample)
        return good.amax(list(range(-len(self._batch_shape), 0))) if self._batch_shape else good

    def rsample(self, sample_shape=Size(), max_try_correction=None):
        """What is good at first is drawn again, then what is singular: as PyTorch's stream has it."""
        sample = self._bartlett_sampling(Size(sample_shape))
        again = self._is_good(sample)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not again.any():
                break
            fresh = self._bartlett_sampling(again[again].shape)
            sample[again] = fresh
            again[again.clone()] = ~self._is_good(fresh)
        return sample

    def log_prob(self, value):
        self._check(value)
        df, p, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        trace = torch.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return (-df * (p * math.log(2) / 2 + self._half_log_det()) - torch.mvlgamma(df / 2, p=p)
                + (df - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet - trace / 2)

    def entropy(self):
        df, p = self.df, self._event_shape[-1]
        return ((p + 1) * (p * math.log(2) / 2 + self._half_log_det()) + torch.mvlgamma(df / 2, p=p)
                - (df - p - 1) / 2 * _mvdigamma(df / 2, p=p) + df * p / 2)

    @property
    def _natural_params(self):
        return 0.5 * self.df, -0.5 * self.precision_matrix

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        return x * (-torch.linalg.slogdet(-2 * y).logabsdet + math.log(2) * p) + torch.mvlgamma(x, p=p)

"""Families of vectors and matrices: multivariate normal ones, Wishart's scatter matrices and LKJ's correlations."""

import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions._continuous import Beta, Chi2
from taper.distributions.distribution import Family
from taper.distributions.exp_family import ExponentialFamily
from taper.distributions.utils import _standard_normal, broadcast_all, is_number, lazy_property


def _batch_mv(matrix, vector):
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor, x):
    """|factor^-1 x|^2 for batches that broadcast."""
    return torch.linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False).squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(precision):
    """The Cholesky factor of the inverse: factored from the last row up, so that no inverse is factored."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    inverse = torch.flip(flipped, (-2, -1)).mT
    return torch.linalg.solve_triangular(
        inverse, torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device), upper=False
    )


def _only(error, *matrices):
    """Which of the ways to give a covariance was taken, and with which matrix."""
    given = [
        pair for pair in zip(("covariance_matrix", "precision_matrix", "scale_tril"), matrices) if pair[1] is not None
    ]
    if len(given) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return given[0]


class OfMatrix(Family):
    """The frame of families over a covariance, given by itself, by its inverse or by its Cholesky factor."""

    _spread = {"covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
    _factors = {
        "covariance_matrix": lambda matrix: torch.linalg.cholesky(matrix),
        "precision_matrix": lambda matrix: _precision_to_scale_tril(matrix),
        "scale_tril": lambda matrix: matrix,
    }

    def _start_matrix(self, name, matrix, batch_shape, event_shape, validate_args):
        """Keeps what is given, which is checked before it is factored."""
        self.__dict__[name] = matrix.expand(batch_shape + (-1, -1))
        Family.__init__(self, batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factors[name](matrix)

    def _matrix_shape(self):
        return self._batch_shape + self._event_shape[-1:] + self._event_shape[-1:]

    @lazy_property
    def scale_tril(self):
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self):
        return torch.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT).expand(
            self._matrix_shape()
        )

    @lazy_property
    def precision_matrix(self):
        return torch.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape())

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(OfMatrix):
    """Mean loc, and one of covariance_matrix, precision_matrix and scale_tril."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    _spread = {"loc": 1, **OfMatrix._spread}
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if not loc.shape:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = _only(ValueError, covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            raise ValueError(
                f"{name}{' matrix' * (name == 'scale_tril')} must be at least two-dimensional, with optional leading "
                "batch dimensions"
            )
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(tuple(batch_shape) + loc.shape[-1:])
        self._start_matrix(name, matrix, batch_shape, loc.shape[-1:], validate_args)

    mean = mode = property(lambda self: self.loc)

    variance = property(
        lambda self: self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)
    )

    def rsample(self, sample_shape=Size()):
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value):
        self._check(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self):
        return (0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()).expand(
            self._batch_shape
        )


def _plus_one(matrix):
    return matrix + torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _batch_capacitance_tril(factor, diag):
    """The Cholesky factor of 1 + W^T D^-1 W, through which the determinant and the inverse go."""
    return torch.linalg.cholesky(_plus_one(torch.matmul(factor.mT / diag.unsqueeze(-2), factor)))


def _batch_lowrank_logdet(factor, diag, capacitance):
    return 2 * capacitance.diagonal(dim1=-2, dim2=-1).log().sum(-1) + diag.log().sum(-1)


def _batch_lowrank_mahalanobis(factor, diag, x, capacitance):
    return (x.pow(2) / diag).sum(-1) - _batch_mahalanobis(capacitance, _batch_mv(factor.mT / diag.unsqueeze(-2), x))


class LowRankMultivariateNormal(Family):
    """Covariance cov_factor cov_factor^T + diag(cov_diag)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    _spread = {"loc": 1, "cov_factor": 2, "cov_diag": 1}
    _kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        for what, least, problem in (
            (loc, 1, "loc must be at least one-dimensional."),
            (cov_factor, 2, "cov_factor must be at least two-dimensional, with optional leading batch dimensions"),
        ):
            if what.dim() < least:
                raise ValueError(problem)
        n = loc.shape[-1]
        if cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if tuple(cov_diag.shape[-1:]) != (n,):
            raise ValueError(f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}")
        try:
            wide_loc, self.cov_factor, wide_diag = torch.broadcast_tensors(
                loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1)
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = wide_loc[..., 0], wide_diag[..., 0]
        self.__dict__.update(zip(self._kept, (cov_factor, cov_diag, _batch_capacitance_tril(cov_factor, cov_diag))))
        super().__init__(self.loc.shape[:-1], loc.shape[-1:], validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    def _matrix(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self):
        factor, diag, _ = self._parts()
        return torch.add(factor.square().sum(-1), diag).expand(self._batch_shape + self._event_shape)

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
        a = torch.linalg.solve_triangular(
            self._capacitance_tril,
            self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2),
            upper=False,
        )
        return self._matrix(torch.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - a.mT @ a)

    def rsample(self, sample_shape=Size()):
        whole = self._extended_shape(sample_shape)
        along, each = (
            _standard_normal(size, self.loc.dtype, self.loc.device)
            for size in (whole[:-1] + self.cov_factor.shape[-1:], whole)
        )
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, along) + self._unbroadcasted_cov_diag.sqrt() * each

    def _parts(self):
        return self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril

    def log_prob(self, value):
        self._check(value)
        factor, diag, capacitance = self._parts()
        distance = _batch_lowrank_mahalanobis(factor, diag, value - self.loc, capacitance)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + _batch_lowrank_logdet(*self._parts()) + distance)

    def entropy(self):
        return (
            0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + _batch_lowrank_logdet(*self._parts()))
        ).expand(self._batch_shape)


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
    _spread = {"df": 0, "_dist_chi2": 1, "_unbroadcasted_scale_tril": 2, **OfMatrix._spread}

    @property
    def arg_constraints(self):
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        name, matrix = _only(AssertionError, covariance_matrix, precision_matrix, scale_tril)
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

            warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self._start_matrix(name, matrix, batch_shape, matrix.shape[-2:], validate_args)
        factor = self._unbroadcasted_scale_tril
        steps = torch.arange(n, dtype=factor.dtype, device=factor.device)
        self._dist_chi2 = Chi2(
            df=self.df.unsqueeze(-1) - steps.expand(tuple(batch_shape) + (-1,))
        )  # of the diagonal in Bartlett's decomposition

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
        noise[..., rows, columns] = torch.randn(
            Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,), dtype=noise.dtype, device=noise.device
        )
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
        return (
            -df * (p * math.log(2) / 2 + self._half_log_det())
            - torch.mvlgamma(df / 2, p=p)
            + (df - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self):
        df, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * math.log(2) / 2 + self._half_log_det())
            + torch.mvlgamma(df / 2, p=p)
            - (df - p - 1) / 2 * _mvdigamma(df / 2, p=p)
            + df * p / 2
        )

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        half_df = y + (p + 1) / 2
        return half_df * (-torch.linalg.slogdet(-2 * x).logabsdet + math.log(2) * p) + torch.mvlgamma(half_df, p=p)


class LKJCholesky(Family):
    """Density proportional to the determinant to the power concentration - 1 (Lewandowski, Kurowicka and Joe, 2009)."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _spread = {"concentration": 0, "_beta": 1}
    _kept = ("dim",)

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim, (self.concentration,) = dim, broadcast_all(concentration)
        offset = torch.cat(
            [
                self.concentration.new_zeros((1,)),
                torch.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device),
            ]
        )
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def sample(self, sample_shape=Size()):
        """The onion method: each row points into a random direction, as far as a beta distributed number says."""
        length = self._beta.sample(sample_shape).unsqueeze(-1)
        direction = torch.randn(self._extended_shape(sample_shape), dtype=length.dtype, device=length.device).tril(-1)
        direction = direction / direction.norm(dim=-1, keepdim=True)
        direction[..., 0, :] = 0.0
        below = torch.sqrt(length) * direction
        diagonal = torch.clamp(1 - torch.sum(below**2, dim=-1), min=torch.finfo(below.dtype).tiny).sqrt()
        return below + torch.diag_embed(diagonal)

    def log_prob(self, value):
        self._check(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = (
            2 * (self.concentration - 1).unsqueeze(-1)
            + self.dim
            - torch.arange(2, self.dim + 1, device=self.concentration.device)
        )
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        normalizer = 0.5 * n * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, n) - torch.lgamma(alpha) * n
        return torch.sum(order * diagonal.log(), dim=-1) - normalizer

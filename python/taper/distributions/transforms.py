"""torch.distributions.transforms: functions of random numbers with the logarithm of their Jacobian's determinant."""

import math
from functools import reduce

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.utils import (
    _sum_rightmost,
    broadcast_all,
    is_number,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from taper.nn import functional as F
from taper.nn.functional import pad, softplus

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """A function with a domain and a codomain. Subclasses define _call, _inverse and log_abs_det_jacobian; with
    cache_size 1 the last pair is kept."""

    bijective = False

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size, self._inv = cache_size, None
        if cache_size:
            self._cached_x_y = (None,) * 2

    def __getstate__(self):
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self):
        inner, outer = self.domain.event_dim, self.codomain.event_dim
        if inner != outer:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return inner

    @property
    def inv(self):
        """The transform back."""
        back = self._inv = self._turn_back() if self._inv is None else self._inv
        return back

    def _turn_back(self):
        return _InverseTransform(self)

    @property
    def sign(self):
        """1 where it grows, -1 where it falls."""
        raise NotImplementedError

    def _arguments(self):
        """What another one like this is made of, but for the cache; None if that is not known."""
        return () if type(self).__init__ is Transform.__init__ else None

    def with_cache(self, cache_size=1):
        """The same with another cache."""
        if cache_size == self._cache_size:
            return self
        if self._arguments() is None:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        return type(self)(*self._arguments(), cache_size=cache_size)

    __eq__, __hash__ = object.__eq__, object.__hash__

    def __call__(self, x):
        return self._cached(x, 0, self._call)

    def _inv_call(self, y):
        return self._cached(y, 1, self._inverse)

    def _cached(self, value, side, function):
        if not self._cache_size:
            return function(value)
        if self._cached_x_y[side] is not value:
            made = function(value)
            self._cached_x_y = (made, value) if side else (value, made)
        return self._cached_x_y[1 - side]

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        """log |dy / dx| at x, which goes to y."""
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__ + "()"

    def forward_shape(self, shape):
        return shape

    def inverse_shape(self, shape):
        return shape


def _made_of(where, name):
    """A region that is made of what a transform holds: constraint where(self, name)."""
    return constraints.dependent_property(lambda self: where(self, name), is_discrete=False)


def _too_few(shape, dims):
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")


_OPPOSITE = {"domain": "codomain", "codomain": "domain"}


class _InverseTransform(Transform):
    """The way back of another transform."""

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    domain, codomain = (_made_of(lambda self, name: getattr(self._inv, _OPPOSITE[name]), name) for name in _OPPOSITE)
    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)
    inv = property(lambda self: self._inv)

    def with_cache(self, cache_size=1):
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x):
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    forward_shape = property(lambda self: self._inv.inverse_shape)
    inverse_shape = property(lambda self: self._inv.forward_shape)


class ComposeTransform(Transform):
    """Several transforms one after the other."""

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def _arguments(self):
        return (self.parts,)

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def _end(self, near):
        """The domain (or codomain), taking as many dims of the batch into a value as some part needs."""
        parts, far = self.parts[::-1] if near == "domain" else self.parts, _OPPOSITE[near]
        if not parts:
            return constraints.real
        end, dim = getattr(parts[-1], near), getattr(parts[0], far).event_dim
        for part in parts:
            dim = max(dim + getattr(part, near).event_dim - getattr(part, far).event_dim, getattr(part, near).event_dim)
        return constraints.independent(end, dim - end.event_dim) if dim > end.event_dim else end

    domain, codomain = (_made_of(lambda self, name: self._end(name), name) for name in _OPPOSITE)
    bijective = lazy_property(lambda self: all(part.bijective for part in self.parts), "bijective")
    sign = lazy_property(lambda self: reduce(lambda sign, part: sign * part.sign, self.parts, 1), "sign")

    def _turn_back(self):
        back = ComposeTransform([part.inv for part in reversed(self.parts)])
        back._inv = self
        return back

    def __call__(self, x):
        return reduce(lambda value, part: part(value), self.parts, x)

    def log_abs_det_jacobian(self, x, y):
        """The sum over the parts; the last one's value is known."""
        total, dim, left = 0, self.domain.event_dim, len(self.parts)
        for part in self.parts:
            left, here, there = left - 1, part.domain.event_dim, part.codomain.event_dim
            to = part(x) if left else y
            total = total + _sum_rightmost(part.log_abs_det_jacobian(x, to), dim - here)
            x, dim = to, dim + there - here
        return total if self.parts else x.new_zeros(x.shape)

    def forward_shape(self, shape):
        return reduce(lambda size, part: part.forward_shape(size), self.parts, shape)

    def inverse_shape(self, shape):
        return reduce(lambda size, part: part.inverse_shape(size), self.parts[::-1], shape)

    def __repr__(self):
        return type(self).__name__ + "(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform with dims of the batch taken into the value."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = (
            base_transform.with_cache(cache_size),
            reinterpreted_batch_ndims,
        )

    def _arguments(self):
        return self.base_transform, self.reinterpreted_batch_ndims

    domain, codomain = (
        _made_of(
            lambda self, name: constraints.independent(
                getattr(self.base_transform, name), self.reinterpreted_batch_ndims
            ),
            name,
        )
        for name in _OPPOSITE
    )
    bijective, sign, forward_shape, inverse_shape = (
        property(lambda self, name=name: getattr(self.base_transform, name))
        for name in ("bijective", "sign", "forward_shape", "inverse_shape")
    )

    def _call(self, x):
        _too_few(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y):
        _too_few(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """The last dims in another shape."""

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    def _arguments(self):
        return self.in_shape, self.out_shape

    domain, codomain = (
        constraints.dependent_property(
            lambda self, name=name: constraints.independent(constraints.real, len(getattr(self, name)))
        )
        for name in ("in_shape", "out_shape")
    )

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    @staticmethod
    def _swap(shape, before, after):
        _too_few(shape, len(before))
        cut = len(shape) - len(before)
        if shape[cut:] != before:
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {before}")
        return shape[:cut] + after

    def forward_shape(self, shape):
        return self._swap(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return self._swap(shape, self.out_shape, self.in_shape)


class _Plain(Transform):
    """A transform without parameters: those of one class are equal."""

    def __eq__(self, other):
        return isinstance(other, type(self))

    __hash__ = object.__hash__


class ExpTransform(_Plain):
    """y = exp(x)"""

    domain, codomain, bijective, sign = constraints.real, constraints.positive, True, 1

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


def _broadcast_shapes(shape, *values):
    return torch.broadcast_shapes(shape, *[getattr(value, "shape", ()) for value in values])


class PowerTransform(Transform):
    """y = x ** exponent"""

    domain, codomain, bijective = constraints.positive, constraints.positive, True

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.exponent = broadcast_all(exponent)[0]

    def _arguments(self):
        return (self.exponent,)

    sign = lazy_property(lambda self: torch.sign(self.exponent), "sign")

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and self.exponent.eq(other.exponent).all().item()

    __hash__ = object.__hash__

    def _call(self, x):
        return x**self.exponent

    def _inverse(self, y):
        return y ** self.exponent.reciprocal()

    def log_abs_det_jacobian(self, x, y):
        return torch.log((y * self.exponent / x).abs())

    def forward_shape(self, shape):
        return _broadcast_shapes(shape, self.exponent)

    inverse_shape = forward_shape


def _inside(y):
    """Shares kept off zero and one."""
    info = torch.finfo(y.dtype)
    return y.clamp(min=info.tiny, max=1.0 - info.eps)


def _clipped_sigmoid(x):
    return _inside(x.sigmoid())


class SigmoidTransform(_Plain):
    """y = 1 / (1 + exp(-x))"""

    domain, codomain, bijective, sign = constraints.real, constraints.unit_interval, True, 1

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        share = _inside(y)
        return share.log() - share.neg().log1p()

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Plain):
    """y = log(1 + exp(x))"""

    domain, codomain, bijective, sign = constraints.real, constraints.positive, True, 1

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return y + torch.log(-torch.expm1(-y))

    def log_abs_det_jacobian(self, x, y):
        """The derivative is the sigmoid."""
        return F.softplus(x.neg()).neg()


class TanhTransform(_Plain):
    """y = tanh(x)"""

    domain, codomain, bijective, sign = constraints.real, constraints.interval(-1.0, 1.0), True, 1

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        """log(1 - tanh^2), without cancellation where x is large."""
        return (math.log(2.0) - x - softplus(x * -2.0)) * 2.0


class AbsTransform(_Plain):
    """y = |x|"""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale * x"""

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim)

    def _arguments(self):
        return self.loc, self.scale, self._event_dim

    def _region(self):
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    domain = constraints.dependent_property(_region, is_discrete=False)
    codomain = constraints.dependent_property(_region, is_discrete=False)

    def __eq__(self, other):
        if not isinstance(other, AffineTransform):
            return False
        return all(bool(torch.as_tensor(a == b).all()) for a, b in ((self.loc, other.loc), (self.scale, other.scale)))

    __hash__ = object.__hash__

    @property
    def sign(self):
        return (self.scale > 0) - (self.scale < 0) if is_number(self.scale) else torch.sign(self.scale)

    def _call(self, x):
        return x * self.scale + self.loc

    def _inverse(self, y):
        off = y - self.loc
        return off / self.scale

    def log_abs_det_jacobian(self, x, y):
        result = torch.full_like(x, math.log(abs(self.scale))) if is_number(self.scale) else torch.abs(self.scale).log()
        if not self.event_dim:
            return result.expand(x.shape)
        return result.view(result.size()[: -self.event_dim] + (-1,)).sum(-1).expand(x.shape[: -self.event_dim])

    def forward_shape(self, shape):
        return _broadcast_shapes(shape, self.loc, self.scale)

    inverse_shape = forward_shape


class CorrCholeskyTransform(Transform):
    """D (D - 1) / 2 numbers as the Cholesky factor of a correlation matrix: each row is a point on a half sphere, by
    breaking a stick."""

    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    def _call(self, x):
        most = 1 - torch.finfo(x.dtype).eps
        below = vec_to_tril_matrix(x.tanh().clamp(-most, most), diag=-1)
        left = (1 - below**2).sqrt().cumprod(-1)
        return (below + torch.ones_like(below[..., 0]).diag_embed()) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = pad((1 - torch.cumsum(y * y, dim=-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        return 0.5 * left.log().sum(-1) - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)

    def forward_shape(self, shape):
        _too_few(shape, 1)
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (d, d)

    def inverse_shape(self, shape):
        _too_few(shape, 2)
        *batch, rows, columns = shape
        if rows != columns:
            raise ValueError("Input is not square")
        return Size((*batch, rows * (rows - 1) // 2))


class SoftmaxTransform(_Plain):
    """exp(x) over its sum; the logarithm goes back, though not to the same x."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        _too_few(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Plain):
    """n numbers as n + 1 parts of a stick: each says what share of the rest is broken off."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    @staticmethod
    def _offset(x, n):
        """log(parts that are left), so that zeros give equal parts."""
        return (n + 1 - x.new_ones(n).cumsum(-1)).log()

    def _call(self, x):
        share = _inside(torch.sigmoid(x - self._offset(x, x.shape[-1])))
        return pad(share, [0, 1], value=1) * pad((1 - share).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y):
        parts = y[..., :-1]
        rest = torch.clamp(1 - parts.cumsum(-1), min=torch.finfo(y.dtype).tiny)
        return parts.log() - rest.log() + self._offset(y, parts.shape[-1])

    def log_abs_det_jacobian(self, x, y):
        x = x - self._offset(x, x.shape[-1])
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        return self._longer(shape, 1)

    def inverse_shape(self, shape):
        return self._longer(shape, -1)

    @staticmethod
    def _longer(shape, by):
        _too_few(shape, 1)
        *batch, n = shape
        return Size((*batch, n + by))


class LowerCholeskyTransform(_Plain):
    """A matrix's lower triangle with the exponential of its diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    @staticmethod
    def _with_diagonal(matrix, function):
        return matrix.tril(-1) + function(matrix.diagonal(dim1=-2, dim2=-1)).diag_embed()

    def _call(self, x):
        return self._with_diagonal(x, torch.exp)

    def _inverse(self, y):
        return self._with_diagonal(y, torch.log)


class PositiveDefiniteTransform(_Plain):
    """The positive definite matrix of that Cholesky factor."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))


class _Several(Transform):
    """Transforms for the parts of a value along dim."""

    def __init__(self, tseq, dim, cache_size):
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))
    domain, codomain = (
        constraints.dependent_property(
            lambda self, name=name: self._region([getattr(t, name) for t in self.transforms])
        )
        for name in _OPPOSITE
    )

    def _call(self, x):
        return self._join([t(part) for t, part in zip(self.transforms, self._parts(x))])

    def _inverse(self, y):
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._parts(y))])

    def _check(self, x, length):
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {x.dim()} dimensions")
        if x.size(self.dim) != length:
            raise AssertionError(f"x.size({self.dim}) = {x.size(self.dim)} must equal length {length}")


class CatTransform(_Several):
    """Transforms of slices along dim, lengths long."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    def _arguments(self):
        return self.transforms, self.dim, self.lengths

    @lazy_property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self):
        return sum(self.lengths)

    def _parts(self, x):
        self._check(x, self.length)
        return x.split(self.lengths, self.dim)

    def _join(self, parts):
        return torch.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = [
            _sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim)
            for t, a, b in zip(self.transforms, self._parts(x), self._parts(y))
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return torch.cat(terms, dim=dim) if dim < 0 else sum(terms)

    def _region(self, parts):
        return constraints.cat(parts, self.dim, self.lengths)


class StackTransform(_Several):
    """A transform for each place along dim."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)

    def _arguments(self):
        return self.transforms, self.dim

    def _parts(self, x):
        self._check(x, len(self.transforms))
        return x.unbind(self.dim)

    def _join(self, parts):
        return torch.stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        return self._join(
            [t.log_abs_det_jacobian(a, b) for t, a, b in zip(self.transforms, self._parts(x), self._parts(y))]
        )

    def _region(self, parts):
        return constraints.stack(parts, self.dim)


class CumulativeDistributionTransform(Transform):
    """y = the cumulative probability of x in a distribution."""

    bijective, codomain, sign = True, constraints.unit_interval, 1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    def _arguments(self):
        return (self.distribution,)

    @property
    def domain(self):
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)

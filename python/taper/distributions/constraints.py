"""torch.distributions.constraints: where parameters and values may lie. check(value) tells it for each element of the
batch."""

import taper as torch

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "independent",
    "integer_interval",
    "interval",
    "half_open_interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "MixtureSameFamilyConstraint",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_semidefinite",
    "positive_definite",
    "positive_integer",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region; event_dim is how many dims one value has."""

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """A bool for each value."""
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    """A region that depends on other parameters: nothing can be checked."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def _known(self, name):
        value = getattr(self, "_" + name)
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    is_discrete = property(lambda self: self._known("is_discrete"))
    event_dim = property(lambda self: self._known("event_dim"))

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint):
    """Does it depend on other parameters?"""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives the region of an instance, and stands for a dependent one in its class."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _OnBase(Constraint):
    """A region made of another one."""

    is_discrete = property(lambda self: self.base_constraint.is_discrete)

    def __init__(self, base_constraint):
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint

    def _all(self, value, each, batch):
        """Holds a check for all that lies behind the first dims?"""
        if batch < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return each.reshape(each.shape[:batch] + (-1,)).all(-1)


class _IndependentConstraint(_OnBase):
    """Some dims of the batch taken into the value: all of them must be in the region."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        super().__init__(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be an int >= 0, got {reinterpreted_batch_ndims!r}")
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value):
        each = self.base_constraint.check(value)
        return self._all(value, each, each.dim() - self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_OnBase):
    """Values that every component of a mixture may have."""

    event_dim = property(lambda self: self.base_constraint.event_dim)

    def check(self, value):
        each = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return self._all(value, each, value.dim() - self.event_dim)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Bounded(Constraint):
    """A region with bounds, which its repr shows."""

    _bounds = ("lower_bound", "upper_bound")

    def __init__(self, *bounds, **named):
        for name, bound in zip(self._bounds, bounds):
            setattr(self, name, bound)
        self.__dict__.update(named)

    def __repr__(self):
        return f"{type(self).__name__[1:]}({', '.join(f'{name}={getattr(self, name)}' for name in self._bounds)})"


class _GreaterThan(_Bounded):
    _bounds = ("lower_bound",)

    def check(self, value):
        return value > self.lower_bound


class _GreaterThanEq(_Bounded):
    _bounds = ("lower_bound",)

    def check(self, value):
        return value >= self.lower_bound


class _LessThan(_Bounded):
    _bounds = ("upper_bound",)

    def check(self, value):
        return self.upper_bound > value


class _Interval(_Bounded):
    def check(self, value):
        return (value >= self.lower_bound) & (self.upper_bound >= value)


class _HalfOpenInterval(_Bounded):
    def check(self, value):
        return (value >= self.lower_bound) & (self.upper_bound > value)


class _Whole(Constraint):
    """Beside a region: only the integers in it."""

    is_discrete = True

    def check(self, value):
        return super().check(value) & (value % 1 == 0)


class _LessThanEq(_Bounded):
    _bounds = ("upper_bound",)

    def check(self, value):
        return self.upper_bound >= value


class _IntegerInterval(_Whole, _Interval):
    pass


class _IntegerLessThan(_Whole, _LessThanEq):
    pass


class _IntegerGreaterThan(_Whole, _GreaterThanEq):
    pass


class _Real(Constraint):
    def check(self, value):
        return ~value.isnan()


def _zero_or_one(value):
    return (value == 0) | (value == 1)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return _zero_or_one(value)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value):
        return _zero_or_one(value).all(-1) & value.sum(-1).eq(1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value):
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value):
        near = torch.finfo(value.dtype).eps * value.size(-1) * 10
        return super().check(value) & (torch.linalg.norm(value.detach(), dim=-1) - 1).abs().le(near).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return torch.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=torch.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value):
        square = super().check(value)
        return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1) if square.all() else square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return torch.linalg.eigvalsh(value).ge(0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return torch.linalg.cholesky_ex(value).info.eq(0) if symmetric.all() else symmetric


class _Several(Constraint):
    """Regions for the parts of a value along dim."""

    def __init__(self, cseq, dim=0):
        self.cseq, self.dim = list(cseq), dim
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))

    def _check_dim(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")


class _Cat(_Several):
    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    event_dim = property(lambda self: max(c.event_dim for c in self.cseq))

    def check(self, value):
        self._check_dim(value)
        return torch.cat([c.check(part) for c, part in zip(self.cseq, value.split(self.lengths, self.dim))], self.dim)


class _Stack(_Several):
    @property
    def event_dim(self):
        """That of the parts, and one more where the values of a part end before dim."""
        most = _Cat.event_dim.fget(self)
        return most + (self.dim + most < 0)

    def check(self, value):
        self._check_dim(value)
        return torch.stack([c.check(part) for c, part in zip(self.cseq, value.unbind(self.dim))], self.dim)


dependent, dependent_property, independent = _Dependent(), _DependentProperty, _IndependentConstraint
boolean, one_hot = _Boolean(), _OneHot()
nonnegative_integer, positive_integer, integer_interval = (
    _IntegerGreaterThan(0),
    _IntegerGreaterThan(1),
    _IntegerInterval,
)
real = _Real()
real_vector = independent(real, 1)
positive, nonnegative, greater_than, greater_than_eq, less_than = (
    _GreaterThan(0.0),
    _GreaterThanEq(0.0),
    _GreaterThan,
    _GreaterThanEq,
    _LessThan,
)
unit_interval, interval, half_open_interval, multinomial = (
    _Interval(0.0, 1.0),
    _Interval,
    _HalfOpenInterval,
    _Multinomial,
)
simplex, lower_triangular, lower_cholesky, corr_cholesky = (
    _Simplex(),
    _LowerTriangular(),
    _LowerCholesky(),
    _CorrCholesky(),
)
square, symmetric, positive_semidefinite, positive_definite = (
    _Square(),
    _Symmetric(),
    _PositiveSemidefinite(),
    _PositiveDefinite(),
)
cat, stack = _Cat, _Stack

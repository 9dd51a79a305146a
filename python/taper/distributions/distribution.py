"""What every distribution is (shapes, checks of parameters and values) and the frames in which the families are
declared."""

import taper as torch
from taper import Size, Tensor
from taper.distributions.constraints import is_dependent
from taper.distributions.utils import broadcast_all, is_number, lazy_property, logits_to_probs, probs_to_logits


def _warn(text):
    from warnings import warn

    warn(text, stacklevel=4)


class Distribution:
    """A batch of distributions (batch_shape) of values of some shape (event_shape)."""

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value):
        """Are parameters and values checked where validate_args is not given?"""
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=Size(), event_shape=Size(), validate_args=None):
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self):
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            _warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation."
            )
            return
        for name, constraint in wanted.items():
            if is_dependent(constraint) or (
                name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            ):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n"
                    f"{value}"
                )

    def expand(self, batch_shape, _instance=None):
        """The same distributions for a larger batch."""
        raise NotImplementedError

    batch_shape = property(lambda self: self._batch_shape)
    event_shape = property(lambda self: self._event_shape)

    @property
    def arg_constraints(self):
        """What each parameter must satisfy."""
        raise NotImplementedError

    @property
    def support(self):
        """What values must satisfy."""
        raise NotImplementedError

    @property
    def mean(self):
        raise NotImplementedError

    @property
    def mode(self):
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self):
        raise NotImplementedError

    @property
    def stddev(self):
        return self.variance.sqrt()

    def sample(self, sample_shape=Size()):
        """Samples, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        """Samples through which gradients flow to the parameters."""
        raise NotImplementedError

    def sample_n(self, n):
        from warnings import warn

        warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density, or of the probability."""
        raise NotImplementedError

    def cdf(self, value):
        raise NotImplementedError

    def icdf(self, value):
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """Every value there is, along the first dim."""
        raise NotImplementedError

    def entropy(self):
        raise NotImplementedError

    def perplexity(self):
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape=Size()):
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _check(self, value, of=None):
        """Checks a value of this distribution, or of the one it is made of, where that is asked for."""
        if self._validate_args:
            (of or self)._validate_sample(value)

    def _validate_sample(self, value):
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, expected = value.size(), self._batch_shape + self._event_shape
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {self._event_shape}.")
        if any(1 not in (a, b) and a != b for a, b in zip(reversed(shape), reversed(expected))):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            _warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation."
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n"
                f"{value}"
            )

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _own_class(self):
        """The class of Taper's that this is, or is derived from."""
        return next(
            kind
            for kind in type(self).__mro__
            if kind.__module__.startswith(("taper.distributions.", "torch.distributions."))
        )

    def __repr__(self):
        own = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        shown = (f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in own.items())
        return f"{type(self).__name__}({', '.join(shown)})"


class Family(Distribution):
    """The frame of the families: what an instance is made of is declared, and expand follows from that.
    _spread: the tensors and distributions that grow with the batch, each with how many dims of its own it has behind
    those of the batch. _kept: what an expanded instance takes over as it is."""

    _spread = {}
    _kept = ()

    def _start(self, scalar=True, **parameters):
        """Broadcasts and keeps the parameters; the batch has their shape, unless all of them are numbers."""
        values = broadcast_all(*parameters.values())
        self.__dict__.update(zip(parameters, values))
        plain = scalar and all(map(is_number, parameters.values()))
        return Size() if plain else values[0].size()

    def _grow(self, new, batch_shape):
        """Gives an instance the parts of this one, for a larger batch."""
        mine = self.__dict__
        new.__dict__.update({name: mine[name] for name in self._kept if name in mine})
        for name, own in self._spread.items():
            if name in mine:
                shape = mine[name].shape if isinstance(mine[name], Tensor) else mine[name].batch_shape
                new.__dict__[name] = mine[name].expand(batch_shape + shape[len(shape) - own :])

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(self._own_class(), _instance), Size(batch_shape)
        self._grow(new, batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new.__dict__["_validate_args"] = self._validate_args
        return new

    def _filled(self, value, like):
        """A value for each of the batch."""
        return torch.full(self._extended_shape(), value, dtype=like.dtype, device=like.device)


def one_of(probs, logits):
    """Which of the two was given: exactly one must be."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


class OfLogits(Family):
    """The frame of families over a probability, given as such or by its logit; _binary: one of two, else one of a
    row."""

    _spread = {"probs": 0, "logits": 0}
    _kept = ("_given",)
    _binary = True

    def _start_of(self, probs, logits, scalar=True, **others):
        self._given = one_of(probs, logits)
        return self._start(scalar, **others, **{self._given: logits if probs is None else probs})

    _param = property(lambda self: self.__dict__[self._given])
    param_shape = property(lambda self: self._param.shape)
    logits = lazy_property(lambda self: probs_to_logits(self.probs, self._binary), "logits")
    probs = lazy_property(lambda self: logits_to_probs(self.logits, self._binary), "probs")

    def _new(self, *args, **kwargs):
        return type(self._param).new(self._param, *args, **kwargs)

    def _values(self, n, expand, dtype=None):
        """0 to n - 1 along the first dim, for each of the batch."""
        values = torch.arange(n, dtype=dtype or self._param.dtype, device=self._param.device).view(
            (-1,) + (1,) * len(self._batch_shape)
        )
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values

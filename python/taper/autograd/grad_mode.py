"""Modes of the tape, each a context manager and a decorator."""

from taper import _C

_GENERATOR = 0x20  # the flag of generator functions in their code objects


def _resume(context, generator, name, *value):
    """One step of a generator under the mode."""
    with context():
        return getattr(generator, name)(*value)


def _drive(context, generator):
    """Runs a generator under the mode, which is left at each yield."""
    try:
        item = _resume(context, generator, "send", None)
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                _resume(context, generator, "close")
                raise
            except BaseException as error:
                item = _resume(context, generator, "throw", error)
            else:
                item = _resume(context, generator, "send", sent)
    except StopIteration as end:
        return end.value


def context_decorator(context, function):
    """`function` under `context()`, entered anew at each call."""
    from functools import wraps

    if isinstance(function, type):
        import warnings

        warnings.warn(
            "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
            "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
            "the `__init__` method and nothing else.",
            FutureWarning,
            stacklevel=3,
        )
        function.__init__ = context_decorator(context, function.__init__)
        return function
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & _GENERATOR:

        @wraps(function)
        def wrapper(*args, **kwargs):
            return _drive(context, function(*args, **kwargs))
    else:

        @wraps(function)
        def wrapper(*args, **kwargs):
            with context():
                return function(*args, **kwargs)

    return wrapper


class _DecoratorContextManager:
    """A context manager that decorates functions and generators too."""

    def __call__(self, function):
        return context_decorator(self.clone, function)

    def clone(self):
        return type(self)()


class _NoParameters(_DecoratorContextManager):
    """One that may decorate without being called: @torch.no_grad."""

    def __new__(cls, function=None):
        made = object.__new__(cls)
        return made if function is None else made(function)


class no_grad(_NoParameters):
    """Records nothing on the tape."""

    def __enter__(self):
        self.prev = _C.is_grad_enabled()
        _C._set_grad_enabled(False)

    def __exit__(self, *error):
        _C._set_grad_enabled(self.prev)


class enable_grad(_NoParameters):
    """Records on the tape again, inside of no_grad."""

    def __enter__(self):
        self.prev = _C.is_grad_enabled()
        _C._set_grad_enabled(True)

    def __exit__(self, *error):
        _C._set_grad_enabled(self.prev)


class set_grad_enabled(_DecoratorContextManager):
    """Turns the tape on or off: at once, for a block, or for a function."""

    def __init__(self, mode):
        self.prev = _C.is_grad_enabled()
        self.mode = mode
        _C._set_grad_enabled(mode)

    def __call__(self, function):
        _C._set_grad_enabled(self.prev)
        return super().__call__(function)

    def __enter__(self):
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *error):
        _C._set_grad_enabled(self.prev)

    def clone(self):
        return type(self)(self.mode)

    def __str__(self):
        return f"{type(self).__module__}.set_grad_enabled(mode={self.mode})"

    __repr__ = __str__


class inference_mode(_DecoratorContextManager):
    """Records nothing, and what is made inside never takes part in a tape."""

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode=True):
        self.mode = mode

    def __enter__(self):
        self._token = _C._enter_inference(self.mode)

    def __exit__(self, *error):
        _C._leave_inference(self._token)

    def clone(self):
        return type(self)(self.mode)


class set_multithreading_enabled(_DecoratorContextManager):
    """Remembered for programs that ask: backward runs in the thread that calls it."""

    _now = True

    def __init__(self, mode):
        self.prev, self.mode = set_multithreading_enabled._now, mode
        set_multithreading_enabled._now = mode

    def __enter__(self):
        set_multithreading_enabled._now = self.mode

    def __exit__(self, *error):
        set_multithreading_enabled._now = self.prev

    def clone(self):
        return type(self)(self.mode)


def is_multithreading_enabled():
    return set_multithreading_enabled._now


class _force_original_view_tracking(set_multithreading_enabled):
    """Accepted: views are always tracked as views."""

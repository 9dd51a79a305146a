"""torch.utils._python_dispatch: modes whose __torch_dispatch__ sees every operator, and what is asked about subclasses
of Tensor."""

from contextlib import contextmanager

from taper import _C
from taper._C import Tensor
from taper._dispatch import NoHandlers, state


class TorchDispatchMode:
    """with a mode: its __torch_dispatch__ sees every operator of aten, below the tape; operators that it calls itself
    go on as usual."""

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key=None):
        pass

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        state.modes.append(self)
        _C._change_dispatch(1, 0)
        return self

    def __exit__(self, *error):
        _C._change_dispatch(-1, 0)
        state.modes.remove(self)

    @classmethod
    def push(cls, *args, **kwargs):
        import warnings

        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls):
        return False

    @classmethod
    def ignore_compile_internals(cls):
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode(include_infra_modes=True):
    return state.modes[-1] if state.modes else None


def _get_current_dispatch_mode_stack():
    return list(state.modes)


def _len_torch_dispatch_stack():
    return len(state.modes)


def _detect_infra_mode(key):
    return None


def _push_mode(mode):
    state.modes.append(mode)
    _C._change_dispatch(1, 0)


def _pop_mode(k=None):
    _C._change_dispatch(-1, 0)
    return state.modes.pop()


@contextmanager
def _pop_mode_temporarily(k=None):
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextmanager
def _disable_current_modes():
    """with this: none of the modes that the thread is in sees a thing."""
    modes = list(state.modes)
    for _ in modes:
        _pop_mode()
    try:
        yield modes
    finally:
        for mode in modes:
            _push_mode(mode)


_disable_infra_mode = _pop_mode_temporarily
no_dispatch = NoHandlers


def is_in_torch_dispatch_mode(include_infra_modes=True):
    return bool(state.modes)


def is_in_any_mode_without_ignore_compile_internals():
    return bool(state.modes)


def any_torch_dispatch_mode_on_stack(*, include_infra_modes=True, respect_ignore_compile_internals=False):
    return bool(state.modes)


# ---- Wrappers that say what they consist of ----
def is_traceable_wrapper_subclass(t):
    """Is it an instance of a subclass that says which tensors it consists of?"""
    return isinstance(t, Tensor) and type(t) is not Tensor and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t):
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """A wrapper of the same kind around what callback(name, tensor) makes of each tensor in it."""
    outer_size = outer_size if outer_size is not None else t.size()
    outer_stride = outer_stride if outer_stride is not None else t.stride()
    names, context = t.__tensor_flatten__()
    made = type(t).__tensor_unflatten__(
        {name: callback(name, getattr(t, name)) for name in names}, context, outer_size, outer_stride
    )
    if made.shape != outer_size:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to {outer_size}, but "
            f"got: {made.shape}"
        )
    if made.stride() != outer_stride:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have stride equal to {outer_stride}, but "
            f"got: {made.stride()}"
        )
    return made


# ---- Results that share memory with arguments ----
def _alias_names(argument):
    return frozenset() if argument.alias_info is None else frozenset(argument.alias_info.before_set)


def return_and_correct_aliasing(func, args, kwargs, out):
    """The results as PyTorch's schema of the operator promises them: what is written in place is the argument itself,
    and a view is over its memory."""
    schema = func._schema
    bound = dict(zip((a.name for a in schema.arguments), args))
    bound.update(kwargs or {})
    written = {}
    for argument in schema.arguments:
        if argument.is_write:
            written.update(dict.fromkeys(_alias_names(argument), bound.get(argument.name)))
    if not written:
        return out
    several = len(schema.returns) > 1

    def correct(result, given):
        names = _alias_names(result)
        return next((written[name] for name in names if name in written), given)

    if several:
        return (
            type(out)(correct(result, given) for result, given in zip(schema.returns, out))
            if type(out) in (tuple, list)
            else out
        )
    return correct(schema.returns[0], out) if schema.returns else out


def autograd_would_have_decomposed(func, flat_args):
    return func._composite


def _correct_storage_aliasing(func, schema_info, args, outs):
    """Wrappers have no memory of their own here, so there is nothing to share."""


def get_alias_info(func):
    """Which memory an operator's arguments and results share, and which it writes."""
    return func._schema

"""torch.overrides: __torch_function__ from Python's side."""

from _thread import _local

from taper import _C


class _Vmaps(_local):
    sizes = ()  # of the batches that torch.vmap is now running, the outermost first
    levels = 0  # transforms of torch.func that run, apart from vmaps
    randomness = "error"  # of the innermost: may slices draw random numbers, and the same ones?


_vmaps = _Vmaps()


class _Forward:
    level = None  # of taper.autograd.forward_ad: the one that is open
    enabled = True  # do calls push tangents on?


_forward = _Forward()


def _no_batches(tensors):
    """For what takes tensors without asking __torch_function__: inside torch.vmap it can only work on single slices."""
    if _vmaps.sizes:
        from taper._batched import Batched, NeedsSlices

        if any(isinstance(t, Batched) for t in tensors):
            raise NeedsSlices


def has_torch_function(relevant_args):
    return _C._has_torch_function(*relevant_args)


def has_torch_function_unary(obj):
    return _C._has_torch_function(obj)


def has_torch_function_variadic(*objects):
    return _C._has_torch_function(*objects)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Hands a call to the first of the arguments that answers it."""
    seen = []
    for arg in relevant_args:
        kind = type(arg)
        if hasattr(kind, "__torch_function__") and kind not in seen:
            at = next((i for i, other in enumerate(seen) if issubclass(kind, other)), len(seen))
            seen.insert(at, kind)
    for kind in seen:
        result = kind.__torch_function__(public_api, tuple(seen), args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation found for '{public_api}' on types that implement __torch_function__: {seen}")


def is_tensor_like(inp):
    return isinstance(inp, _C.Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func):
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(_C.Tensor, name, None) is func


def wrap_torch_function(dispatcher):
    """A decorator that lets a Python function be overridden by the arguments that dispatcher picks."""

    def decorate(function):
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        wrapped.__name__, wrapped.__doc__, wrapped.__wrapped__ = function.__name__, function.__doc__, function
        return wrapped

    return decorate


def resolve_name(f):
    if is_tensor_method_or_property(f):
        return f"torch.Tensor.{f.__name__}"
    return f"{getattr(f, '__module__', 'torch')}.{getattr(f, '__name__', f)}"


class DisableTorchFunctionSubclass:
    """with DisableTorchFunctionSubclass(): subclasses are treated as plain tensors."""

    def __enter__(self):
        _C._enter_disabled_torch_function()

    def __exit__(self, *error):
        _C._leave_disabled_torch_function()


DisableTorchFunction = DisableTorchFunctionSubclass


def redispatch_function(func, types, args=(), kwargs=None):
    """Calls a function of whose call a __torch_function__ was told, without telling it again; what the function itself
    calls is told."""
    _C._skip_next_function(True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _C._skip_next_function(False)


class enable_reentrant_dispatch:
    """with this: operators that a __torch_dispatch__ calls may be handled and recorded as if it were not one, which
    they are here in any case."""

    def __enter__(self):
        from taper import enable_grad

        self._grad = enable_grad()
        self._grad.__enter__()

    def __exit__(self, *error):
        self._grad.__exit__(*error)


def _convert(result, cls):
    """Results of an operator as instances of the subclass."""
    if cls is _C.Tensor:
        return result
    if type(result) is _C.Tensor:
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        items = [_convert(item, cls) for item in result]
        return (
            type(result)(items)
            if type(result) in (tuple, list) or hasattr(type(result), "n_sequence_fields")
            else type(result)(*items)
        )
    return result


def _tensor_torch_function(cls, func, types, args=(), kwargs=None):
    """Tensor.__torch_function__: runs the function on plain tensors, and gives subclasses their type back."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return result if func in _KEEP_TYPE else _convert(result, cls)


def _disabled_torch_function_impl(func, types, args=(), kwargs=None):
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _disabled_torch_dispatch_impl(func, types, args=(), kwargs=None):
    """The __torch_dispatch__ of classes that see no operators: runs the operator, and no handler sees it."""
    from taper._dispatch import NoHandlers

    with NoHandlers():
        return func(*args, **(kwargs or {}))


# ---- Modes ----
class _Modes(_local):
    def __init__(self):
        self.stack = []  # those that this thread is in, the innermost last


_modes = _Modes()


class TorchFunctionMode:
    """with a mode: its __torch_function__ sees every call of torch's functions and of tensors' methods; calls that it
    makes itself go on as usual."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _modes.stack.append(self)
        _C._change_modes(1)
        return self

    def __exit__(self, *error):
        _C._change_modes(-1)
        _modes.stack.pop()

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _run_mode(func, types, args, kwargs):
    """Hands a call to the innermost mode, which is not there for the calls it makes."""
    mode = _modes.stack.pop()
    _C._change_modes(-1)
    try:
        result = mode.__torch_function__(func, types, args, kwargs)
    finally:
        _modes.stack.append(mode)
        _C._change_modes(1)
    if result is NotImplemented:
        raise TypeError(
            f"no implementation found for '{func}' on types that implement __torch_function__: {[type(mode), *types]}"
        )
    return result


_C.DisableTorchFunctionSubclass, _C.DisableTorchFunction, _C._disabled_torch_function_impl = (
    DisableTorchFunctionSubclass,
    DisableTorchFunction,
    _disabled_torch_function_impl,
)
_KEEP_TYPE = frozenset()
_C.Tensor.__torch_function__ = classmethod(_tensor_torch_function)
_C.Tensor.__torch_dispatch__ = _C._disabled_torch_dispatch_impl = _disabled_torch_dispatch_impl
_C._set_torch_function_hooks(
    _C.Tensor.__dict__["__torch_function__"], _disabled_torch_function_impl, _run_mode, _disabled_torch_dispatch_impl
)


def get_default_nowrap_functions():
    """Getters whose results stay as they are in subclasses that do not override __torch_function__."""
    tensor = _C.Tensor
    return {tensor._base.__get__, tensor.grad.__get__, tensor._grad.__get__}


# ---- Which functions a __torch_function__ sees ----
_NOT_SEEN = frozenset(
    """
    arange are_deterministic_algorithms_enabled as_tensor asarray autocast_decrement_nesting autocast_increment_nesting
    bartlett_window blackman_window
    boolean_dispatch broadcast_shapes can_cast clear_autocast_cache compile cond empty empty_permuted empty_quantized
    empty_strided enable_grad eye finfo
    from_dlpack from_file from_numpy frombuffer full get_autocast_dtype get_default_device get_default_dtype
    get_deterministic_debug_mode get_device_module
    get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state hamming_window
    handle_torch_function hann_window
    has_torch_function has_torch_function_unary has_torch_function_variadic iinfo inference_mode init_num_threads
    initial_seed
    is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled is_autocast_enabled is_grad_enabled
    is_inference_mode_enabled is_storage
    is_tensor is_warn_always_enabled kaiser_window linspace load logspace manual_seed no_grad normal ones promote_types
    rand randint randn randperm range
    result_type save scalar_tensor seed set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled
    set_default_device set_default_dtype
    set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal
    set_grad_enabled set_num_interop_threads
    set_num_threads set_printoptions set_rng_state set_warn_always sparse_bsc_tensor sparse_bsr_tensor
    sparse_compressed_tensor sparse_coo_tensor
    sparse_csc_tensor sparse_csr_tensor tensor tril_indices triu_indices typename use_deterministic_algorithms vander
    vmap zeros
    upsample upsample_bilinear upsample_nearest
    __delattr__ __dir__ __getattribute__ __init__ __init_subclass__ __iter__ __new__ __setattr__ __subclasshook__
    __torch_function__ __torch_dispatch__
    __class__ _make_subclass _make_wrapper_subclass as_subclass new new_empty new_empty_strided new_full new_ones
    new_tensor new_zeros
    """.split()
)


def _owners():
    """Where functions are that take tensors: what holds them, and their names."""
    import taper
    from taper import functional, linalg, special
    from taper.nn import functional as layers

    for owner in (taper, functional, layers, linalg, special, taper.fft, _C.Tensor):
        names = getattr(owner, "__all__", None) or dir(owner)
        yield (
            owner,
            [
                name
                for name in dir(owner)
                if (owner is _C.Tensor or name in names) and (owner is _C.Tensor or not name.startswith("_"))
            ],
        )


def _members():
    """Each function, the getters of attributes too: what holds it, its name, and whether it is seen."""
    import types

    for owner, names in _owners():
        for name in names:
            value = getattr(owner, name, None)
            if isinstance(value, type) or isinstance(value, types.ModuleType):
                continue
            if owner is _C.Tensor and not callable(value) and hasattr(type(value), "__get__"):
                yield value, name, value.__get__, name not in _NOT_SEEN
            elif callable(value) and value is not None:
                yield owner, name, value, name not in _NOT_SEEN


def get_overridable_functions():
    """The functions that a __torch_function__ may override, by what holds them."""
    from collections import defaultdict

    found = defaultdict(list)
    for owner, _, function, seen in _members():
        if seen and function not in found[owner]:
            found[owner].append(function)
    return defaultdict(list, {owner: functions for owner, functions in found.items() if functions})


def get_ignored_functions():
    """The functions that no __torch_function__ sees."""
    return {function for _, _, function, seen in _members() if not seen and getattr(function, "__hash__", None)}


def get_testing_overrides():
    """For each function that may be overridden, one with the same arguments that gives -1."""
    import inspect

    def like(function):
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            signature = None

        def override(*args, **kwargs):
            return -1

        if signature is not None:
            override.__signature__ = signature
        return override

    return {function: like(function) for functions in get_overridable_functions().values() for function in functions}

"""Regions in which operators choose their precision: see the operator tables' `autocast` lines for which one each
takes."""

import contextlib
import functools
import warnings

from taper import _C
from taper._C import bfloat16, float16, float32, float64

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_LOWER = {
    "cpu": (bfloat16, float16),
    "cuda": (float16, bfloat16),
    "xpu": (bfloat16, float16),
    "hpu": (bfloat16, float16),
    "mps": (bfloat16, float16),
    "mtia": (bfloat16, float16),
    "maia": (bfloat16, float16),
    "ipu": (bfloat16, float16),
    "xla": (float16, bfloat16),
    "privateuseone": (bfloat16, float16),
}
_WITHOUT = frozenset("mkldnn opengl opencl ideep hip ve fpga lazy vulkan meta".split())


def is_autocast_available(device_type):
    """Does PyTorch know regions for this device type?"""
    if not device_type.isidentifier():
        raise RuntimeError(f"Invalid device string: '{device_type}'")
    if device_type not in _LOWER and device_type not in _WITHOUT:
        _C.device(device_type)  # says what device types there are
    return device_type in _LOWER


def _around(function, region):
    """The function, called inside the region that region(its arguments) gives; None: in none."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with region(*args) or contextlib.nullcontext():
            return function(*args, **kwargs)

    return call


def autocast_decorator(autocast_instance, func):
    return _around(func, lambda *args: autocast_instance)


class autocast:
    """Within the region (or the decorated function) products and convolutions run in the lower precision, losses in
    float32."""

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.custom_backend_name = "privateuseone"
        self.fast_dtype = _C.get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = _C.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = enabled and self._supported()
        self._before = []

    def _supported(self):
        """May the region be on? Warns where it may not."""
        name = self.device.upper()
        if self.device == "cuda":
            from taper import cuda

            if not cuda.is_available():
                warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=4)
                return False
        allowed = _LOWER[self.device] + ((float32,) if self.device == "mps" else ())
        if self.fast_dtype not in allowed:
            warnings.warn(
                (
                    f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                    f"{name} Autocast only supports dtypes of "
                )
                + ", ".join(str(d) for d in allowed)
                + " currently.",
                stacklevel=4,
            )
            return False
        return True

    def __enter__(self):
        self._before.append(
            (_C.is_autocast_enabled(self.device), _C.get_autocast_dtype(self.device), _C.is_autocast_cache_enabled())
        )
        _C.set_autocast_enabled(self.device, self._enabled)
        _C.set_autocast_dtype(self.device, self.fast_dtype)
        _C.autocast_increment_nesting()
        _C.set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        enabled, dtype, cache = self._before.pop()
        _C.autocast_decrement_nesting()  # the outermost one forgets the casts that were kept
        _C.set_autocast_enabled(self.device, enabled)
        _C.set_autocast_dtype(self.device, dtype)
        _C.set_autocast_cache_enabled(cache)
        return False

    def __call__(self, func):
        if not callable(func):
            raise TypeError(f"autocast()(func) requires a callable, but got {type(func).__name__}")
        return autocast_decorator(self, func)


def _enter_autocast(*values):
    return autocast(*values).__enter__()


def _exit_autocast(mode):
    mode.__exit__(*[None] * 3)


def _cast(value, device_type, dtype):
    """The value with the floating tensors inside cast; float64 stays."""
    if isinstance(value, _C.Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype != float64
        return value.to(dtype) if eligible else value
    inside = functools.partial(_cast, device_type=device_type, dtype=dtype)
    if isinstance(value, dict):
        return dict(tuple(map(inside, entry)) for entry in value.items())
    if isinstance(value, (tuple, list)):
        items = [inside(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _check_device(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """For the forward of an autograd.Function: remembers the region, or casts the inputs and runs without one."""
    _check_device(device_type)

    def decorate(function):
        def remember(ctx, *_):
            on = _C.is_autocast_enabled(device_type)
            ctx._dtype, ctx._fwd_used_autocast = _C.get_autocast_dtype(device_type), on and cast_inputs is None
            ctx._fwd_casts = on and cast_inputs is not None
            return autocast(device_type=device_type, enabled=False) if ctx._fwd_casts else None

        def run(ctx, *args, **kwargs):
            if ctx._fwd_casts:
                args, kwargs = (_cast(given, device_type, cast_inputs) for given in (args, kwargs))
            return function(ctx, *args, **kwargs)

        return functools.wraps(function)(_around(run, remember))

    return decorate if fwd is None else decorate(fwd)


def custom_bwd(bwd=None, *, device_type):
    """For the backward of an autograd.Function: runs it in the region that its forward had."""
    _check_device(device_type)

    def decorate(function):
        return _around(
            function,
            lambda ctx, *_: autocast(device_type=device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype),
        )

    return decorate if bwd is None else decorate(bwd)


def _old(now):
    """A function under its older name: torch.NAME, which says what to call today."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args):
            warnings.warn(
                f"torch.{function.__name__}() is deprecated. Please use torch.{now} instead.",
                DeprecationWarning,
                stacklevel=2,
            )
            return function(*args)

        return call

    return decorate


@_old("is_autocast_enabled('cpu')")
def is_autocast_cpu_enabled():
    return _C.is_autocast_enabled("cpu")


@_old("set_autocast_enabled('cpu', enabled)")
def set_autocast_cpu_enabled(enabled):
    _C.set_autocast_enabled("cpu", enabled)


@_old("get_autocast_dtype('cpu')")
def get_autocast_cpu_dtype():
    return _C.get_autocast_dtype("cpu")


@_old("set_autocast_dtype('cpu', dtype)")
def set_autocast_cpu_dtype(dtype):
    _C.set_autocast_dtype("cpu", dtype)


@_old("get_autocast_dtype('cuda')")
def get_autocast_gpu_dtype():
    return _C.get_autocast_dtype("cuda")


@_old("set_autocast_dtype('cuda', dtype)")
def set_autocast_gpu_dtype(dtype):
    _C.set_autocast_dtype("cuda", dtype)

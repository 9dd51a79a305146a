"""torch.testing: assert_close and make_tensor."""

import math

from taper import _C
from taper._C import Tensor
from taper._C import _functions as _op
from taper._info import finfo, iinfo

# (rtol, atol) by dtype; others compare exactly.
_TOLERANCES = {
    _C.float16: (1e-3, 1e-5),
    _C.bfloat16: (1.6e-2, 1e-5),
    _C.float32: (1.3e-6, 1e-5),
    _C.float64: (1e-7, 1e-7),
    _C.complex64: (1.3e-6, 1e-5),
    _C.complex128: (1e-7, 1e-7),
}


def _fail(text, msg, where):
    if callable(msg):
        text = msg(text)
    elif msg:
        text = msg
    raise AssertionError(
        text + (f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in where)}" if where else "")
    )


def _tolerance(actual, expected, rtol, atol):
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    if rtol is not None:
        return rtol, atol
    pairs = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _plural(n, total):
    return f"Mismatched elements: {n} / {total} ({100 * n / total:.1f}%)"


def _index(position, shape):
    index = []
    for n in reversed(shape):
        index.insert(0, position % n)
        position //= n
    return tuple(index)


def _describe(actual, expected, close, rtol, atol):
    exact = rtol == 0 and atol == 0
    a, e = actual.flatten(), expected.flatten()
    if actual.dim() == 0 or not (
        actual.is_floating_point() or actual.is_complex()
    ):  # numbers are Python's, integers may overflow
        wide = _C.complex128 if actual.is_complex() else _C.float64 if actual.is_floating_point() else _C.int64
        a, e = a.to(wide), e.to(wide)
    wrong, diff = ~close.flatten(), (a - e).abs()
    relative = diff / e.abs()
    diff, relative = diff.masked_fill(~wrong, 0), relative.masked_fill(~wrong, 0)
    if actual.dim() == 0:
        bound = "" if exact else f" (up to {atol} allowed)"
        if exact:
            return (
                f"Scalars are not equal!\n\nExpected {expected.item()} but got {actual.item()}.\nAbsolute "
                f"difference: {diff.item()}\nRelative difference: {relative.item()}"
            )
        return (
            "Scalars are not close!\n\n"
            f"Expected {expected.item()} but got {actual.item()}.\n"
            f"Absolute difference: {diff.item()}{bound}\n"
            f"Relative difference: {relative.item()} (up to {rtol} allowed)"
        )
    worst, worst_relative = int(diff.argmax()), int(relative.argmax())
    allowed = ("", "") if exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    return (
        f"Tensor-likes are not {'equal' if exact else 'close'}!\n\n"
        f"{_plural(int(wrong.sum()), wrong.numel())}\n"
        f"Greatest absolute difference: {diff[worst].item()} at index {_index(worst, actual.shape)}{allowed[0]}\n"
        f"Greatest relative difference: {relative[worst_relative].item()} at index "
        f"{_index(worst_relative, actual.shape)}{allowed[1]}"
    )


def _as_tensor(value):
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float, complex)) or type(value).__module__ == "numpy":
        return _C.tensor(value) if not isinstance(value, float) else _C.tensor(value, dtype=_C.float64)
    return None


def _compare(actual, expected, options, where):
    allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, msg = options
    if not allow_subclasses and type(actual) is not type(expected):
        _fail(f"The values for attribute 'type' do not match: {type(actual)} != {type(expected)}.", msg, where)
    if isinstance(actual, dict) and isinstance(expected, dict):
        if set(actual) != set(expected):
            missing, extra = (
                sorted(set(expected) - set(actual), key=repr),
                sorted(set(actual) - set(expected), key=repr),
            )
            _fail(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {extra}",
                msg,
                where,
            )
        for key in expected:
            _compare(actual[key], expected[key], options, where + [key])
        return
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            _fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", msg, where)
        for i, pair in enumerate(zip(actual, expected)):
            _compare(*pair, options, where + [i])
        return
    if actual is None or expected is None:
        if actual is not expected:
            _fail(f"None mismatch: {actual!r} is not {expected!r}", msg, where)
        return
    a, e = _as_tensor(actual), _as_tensor(expected)
    if a is None or e is None:
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
    if isinstance(actual, Tensor) != isinstance(expected, Tensor) and not (
        type(actual).__module__ == "numpy" or type(expected).__module__ == "numpy"
    ):
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
    a, e = a.detach(), e.detach()
    if a.shape != e.shape:
        _fail(f"The values for attribute 'shape' do not match: {a.shape} != {e.shape}.", msg, where)
    if check_device and a.device != e.device:
        _fail(f"The values for attribute 'device' do not match: {a.device} != {e.device}.", msg, where)
    if check_dtype and a.dtype != e.dtype:
        _fail(f"The values for attribute 'dtype' do not match: {a.dtype} != {e.dtype}.", msg, where)
    if check_stride and a.stride() != e.stride():
        _fail(f"The values for attribute 'stride()' do not match: {a.stride()} != {e.stride()}.", msg, where)
    rtol, atol = _tolerance(a, e, rtol, atol)
    if a.dtype != e.dtype:
        common = _C.promote_types(a.dtype, e.dtype)
        a, e = a.to(common), e.to(common)
    close = _op["isclose"](a, e, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if not bool(close.all()):
        _fail(_describe(a, e, close, rtol, atol), msg, where)


def assert_close(
    actual,
    expected,
    *,
    allow_subclasses=True,
    rtol=None,
    atol=None,
    equal_nan=False,
    check_device=True,
    check_dtype=True,
    check_layout=True,
    check_stride=False,
    msg=None,
):
    """Raises AssertionError unless the tensors, numbers, or sequences and mappings of them are close."""
    _compare(
        actual,
        expected,
        (allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, msg),
        [],
    )


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The old name of assert_close."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _range(dtype, low, high):
    """The ends of make_tensor's interval, low inclusive and high exclusive, within what the dtype holds."""
    exact = not (dtype.is_floating_point or dtype.is_complex)
    if dtype == _C.bool:
        least, most, default = 0, 2, (0, 2)
    elif exact:
        info = iinfo(dtype)
        least, most, default = info.min, info.max + (dtype != _C.int64), (max(-9, info.min), 10)
    else:
        info = finfo(dtype)
        least, most, default = info.min, info.max, (-9, 9)
    if any(isinstance(end, float) and math.isnan(end) for end in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if low == high and not exact:
        import warnings

        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since "
            "2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {most})"
        )
    low, high = min(max(low, least), most), min(max(high, least), most)
    return (math.ceil(low), math.ceil(high)) if exact else (low, high)


def _fill_uniformly(tensor, low, high):
    if high - low < finfo(tensor.dtype).max:
        return tensor.uniform_(low, high)
    return tensor.uniform_(low / 2, high / 2).mul_(2)  # the interval's length is a number of the dtype


def make_tensor(
    *shape,
    dtype,
    device=None,
    low=None,
    high=None,
    requires_grad=False,
    noncontiguous=False,
    exclude_zero=False,
    memory_format=None,
):
    """A tensor of random values between low and high."""
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    exact = not (dtype.is_floating_point or dtype.is_complex)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got {noncontiguous=} and "
            f"{memory_format=}"
        )
    if requires_grad and exact:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    low, high = _range(dtype, low, high)
    noncontiguous = noncontiguous and math.prod(shape) > 1
    if noncontiguous:  # every second element of twice as many
        shape = shape[:-1] + (2 * shape[-1],)
    if exact:
        result = _op["randint"](low, high, shape, dtype=dtype, device=device)
    else:
        narrow = dtype.itemsize == 1  # the float8 dtypes have no random numbers of their own
        result = _op["empty"](shape, dtype=_C.float32 if narrow else dtype, device=device)
        _fill_uniformly(_op["view_as_real"](result) if dtype.is_complex else result, low, high)
        result = result.to(dtype)
    if noncontiguous:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if exact else finfo(dtype).tiny
    return result.requires_grad_() if requires_grad else result


def __getattr__(name):
    if name == "FileCheck":
        from taper.testing._file_check import FileCheck

        return FileCheck
    raise AttributeError(f"module 'torch.testing' has no attribute '{name}'")

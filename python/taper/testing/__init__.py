"""torch.testing: assert_close and make_tensor."""
from taper import _C
from taper._C import Tensor
from taper._C import _functions as _op

# (rtol, atol) by dtype; others compare exactly.
_TOLERANCES = {_C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5), _C.float64: (1e-7, 1e-7), _C.complex64: (1.3e-6, 1e-5),
               _C.complex128: (1e-7, 1e-7)}


def _fail(text, msg, where):
    if callable(msg):
        text = msg(text)
    elif msg:
        text = msg
    raise AssertionError(text + (f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in where)}" if where else ""))


def _tolerance(actual, expected, rtol, atol):
    if (rtol is None) != (atol is None):
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {'rtol' if rtol is None else 'atol'}.")
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
    if actual.dim() == 0 or not (actual.is_floating_point() or actual.is_complex()):  # numbers are Python's, integers may overflow
        wide = _C.complex128 if actual.is_complex() else _C.float64 if actual.is_floating_point() else _C.int64
        a, e = a.to(wide), e.to(wide)
    wrong, diff = ~close.flatten(), (a - e).abs()
    relative = diff / e.abs()
    diff, relative = diff.masked_fill(~wrong, 0), relative.masked_fill(~wrong, 0)
    if actual.dim() == 0:
        bound = "" if exact else f" (up to {atol} allowed)"
        if exact:
            return f"Scalars are not equal!\n\nExpected {expected.item()} but got {actual.item()}.\nAbsolute difference: {diff.item()}\nRelative difference: {relative.item()}"
        return (f"Scalars are not close!\n\nExpected {expected.item()} but got {actual.item()}.\nAbsolute difference: {diff.item()}{bound}\n"
                f"Relative difference: {relative.item()} (up to {rtol} allowed)")
    worst, worst_relative = int(diff.argmax()), int(relative.argmax())
    allowed = ("", "") if exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    return (f"Tensor-likes are not {'equal' if exact else 'close'}!\n\n{_plural(int(wrong.sum()), wrong.numel())}\n"
            f"Greatest absolute difference: {diff[worst].item()} at index {_index(worst, actual.shape)}{allowed[0]}\n"
            f"Greatest relative difference: {relative[worst_relative].item()} at index {_index(worst_relative, actual.shape)}{allowed[1]}")


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
            missing, extra = sorted(set(expected) - set(actual), key=repr), sorted(set(actual) - set(expected), key=repr)
            _fail(f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {missing}\nAdditional keys in the actual mapping: {extra}", msg, where)
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
    if isinstance(actual, Tensor) != isinstance(expected, Tensor) and not (type(actual).__module__ == "numpy" or type(expected).__module__ == "numpy"):
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


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True, check_dtype=True, check_layout=True,
                 check_stride=False, msg=None):
    """Raises AssertionError unless the tensors, numbers, or sequences and mappings of them are close."""
    _compare(actual, expected, (allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, msg), [])


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The old name of assert_close."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def make_tensor(*shape, dtype, device=None, low=None, high=None, requires_grad=False, noncontiguous=False, exclude_zero=False, memory_format=None):
    """A tensor of random values between low and high."""
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if dtype == _C.bool:
        low, high = 0 if low is None else low, 2 if high is None else high
    elif dtype.is_floating_point or dtype.is_complex:
        low, high = -9 if low is None else low, 9 if high is None else high
    else:
        low, high = (0 if dtype == _C.uint8 else -9) if low is None else low, 10 if high is None else high
    if noncontiguous and len(shape) and shape[-1] != 0:
        shape, twice = shape[:-1] + (2 * shape[-1],), True
    else:
        twice = False
    if dtype.is_complex:
        real = dtype.to_real()
        result = _op["complex"](_op["empty"](shape, dtype=real).uniform_(low, high), _op["empty"](shape, dtype=real).uniform_(low, high))
    elif dtype.is_floating_point:
        result = _op["empty"](shape, dtype=_C.float64).uniform_(low, high).to(dtype)
    else:
        result = _op["randint"](int(low), int(high), shape).to(dtype)
    if twice:
        result = result[..., ::2]
    if exclude_zero:
        result[result == 0] = 1
    return result.requires_grad_() if requires_grad else result


def __getattr__(name):
    if name == "FileCheck":
        from taper.testing._file_check import FileCheck
        return FileCheck
    raise AttributeError(f"module 'torch.testing' has no attribute '{name}'")

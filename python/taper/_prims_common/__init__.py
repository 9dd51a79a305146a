"""torch._prims_common: what dtypes are, and which goes with which."""

from taper import _C

_COMPLEX = {
    _C.float32: _C.complex64,
    _C.float64: _C.complex128,
    **({_C.float16: _C.complex32} if hasattr(_C, "complex32") else {}),
}
_REAL = {value: key for key, value in _COMPLEX.items()}


def corresponding_complex_dtype(dtype):
    return _COMPLEX[dtype]


def corresponding_real_dtype(dtype):
    return _REAL[dtype]


def is_boolean_dtype(dtype):
    return dtype is _C.bool


def is_float_dtype(dtype):
    return dtype.is_floating_point


def is_complex_dtype(dtype):
    return dtype.is_complex


def is_integer_dtype(dtype):
    return not (dtype is _C.bool or dtype.is_floating_point or dtype.is_complex)


def is_low_precision_dtype(dtype):
    return dtype in (_C.float16, _C.bfloat16)


def compare_tensor_meta(a, b, check_sizes=True, check_strides=False, *, allow_rhs_unbacked=False, check_conj=True):
    """Raises where two tensors differ in what can be told without their elements."""
    told = [("dtype", a.dtype, b.dtype), ("device", a.device, b.device)]
    if check_sizes:
        told.append(("shape", tuple(a.shape), tuple(b.shape)))
    if check_strides:
        told.append(("strides", a.stride(), b.stride()))
    if check_conj:
        told.append(("is_conj", a.is_conj(), b.is_conj()))
    for name, one, other in told:
        if one != other:
            raise AssertionError(f"{name}: {one} and {other} are not the same")

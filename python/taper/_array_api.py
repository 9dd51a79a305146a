"""The Python array API standard (2023.12) on Taper's tensors: what Tensor.__array_namespace__ gives. The standard's
names and signatures; where PyTorch's function has another name, other arguments or other dtype rules, a function here
stands between."""

import builtins as _b
from collections import namedtuple as _namedtuple
from types import ModuleType as _ModuleType

import taper as _t
from taper import (  # noqa: F401
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    e,
    inf,
    nan,
    newaxis,
    pi,
    finfo,
    iinfo,
    from_dlpack,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    exp,
    expm1,
    floor_divide,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    positive,
    pow,
    real,
    remainder,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    broadcast_to,
    matmul,
    moveaxis,
)
from taper import (  # noqa: F401
    abs as _abs,
    eq as equal,
    ne as not_equal,
    gt as greater,
    ge as greater_equal,
    lt as less,
    le as less_equal,
    bitwise_not as bitwise_invert,
    where as _where,
)

__array_api_version__ = "2023.12"
_Tensor = _t.Tensor
_INTEGERS = (int8, int16, int32, int64, uint8)
_KINDS = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8,),
    "integral": _INTEGERS,
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
}
_KINDS["numeric"] = _INTEGERS + _KINDS["real floating"] + _KINDS["complex floating"]


# ---- What there is ----
class __array_namespace_info__:
    """The namespace's abilities, dtypes and devices."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return _t.device("cpu")

    def devices(self):
        return [_t.device("cpu")]

    def default_dtypes(self, *, device=None):
        floats = _t.get_default_dtype()
        return {"real floating": floats, "complex floating": floats.to_complex(), "integral": int64, "indexing": int64}

    def dtypes(self, *, device=None, kind=None):
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        return {str(dtype)[6:]: dtype for one in kinds for dtype in _KINDS[one]}


# ---- Creation ----
def asarray(obj, /, *, dtype=None, device=None, copy=None):
    if copy is False:
        result = _t.as_tensor(obj, dtype=dtype, device=device)
        if not isinstance(obj, _Tensor) or result is not obj and result.data_ptr() != obj.data_ptr():
            raise ValueError("asarray: copy=False, but a copy is needed")
        return result
    result = _t.as_tensor(obj, dtype=dtype, device=device)
    return result.clone() if copy and isinstance(obj, _Tensor) and result.data_ptr() == obj.data_ptr() else result


def _sizes(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * step <= 0:  # nothing, where PyTorch refuses
        return _t.empty(
            (0,),
            dtype=dtype or (int64 if _b.all(isinstance(v, int) for v in (start, stop, step)) else None),
            device=device,
        )
    return _t.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape, *, dtype=None, device=None):
    return _t.empty(_sizes(shape), dtype=dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    return _t.zeros(_sizes(shape), dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    return _t.ones(_sizes(shape), dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    return _t.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    return _t.empty_like(x, dtype=dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    return _t.zeros_like(x, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    return _t.ones_like(x, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    return _t.full_like(x, fill_value, dtype=dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    n_cols = n_rows if n_cols is None else n_cols
    result = _t.zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    if endpoint:
        return _t.linspace(start, stop, num, dtype=dtype, device=device)
    return _t.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays, indexing="xy"):
    return list(_t.meshgrid(*arrays, indexing=indexing))


def tril(x, /, *, k=0):
    return _t.tril(x, k)


def triu(x, /, *, k=0):
    return _t.triu(x, k)


# ---- Data types ----
def astype(x, dtype, /, *, copy=True, device=None):
    return x.to(device=device or x.device, dtype=dtype, copy=copy)


def broadcast_arrays(*arrays):
    return list(_t.broadcast_tensors(*arrays))


def _dtype(value):
    return value.dtype if isinstance(value, _Tensor) else value


def can_cast(from_, to, /):
    source = _dtype(from_)
    return _t.promote_types(source, to) == to


def isdtype(dtype, kind):
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return _b.any(dtype in _KINDS[one] if isinstance(one, str) else dtype == one for one in kinds)


def result_type(*arrays_and_dtypes):
    result = None
    for one in arrays_and_dtypes:
        if isinstance(one, (_Tensor, _t.dtype)):
            result = _dtype(one) if result is None else _t.promote_types(result, _dtype(one))
    if result is None:
        raise ValueError("result_type: needs at least one array or dtype")
    for one in arrays_and_dtypes:  # Python's numbers do not raise the dtype within their category
        if isinstance(one, complex) and not result.is_complex:
            result = result.to_complex() if result.is_floating_point else _t.get_default_dtype().to_complex()
        elif isinstance(one, float) and not (result.is_floating_point or result.is_complex):
            result = _t.get_default_dtype()
        elif isinstance(one, int) and not isinstance(one, _b.bool) and result == bool:
            result = int64
    return result


# ---- Elementwise, where the standard's rules differ ----
def abs(x, /):
    return x.clone() if x.dtype == bool else _abs(x)


def _whole(function):
    def rounded(x, /):
        return x.clone() if x.dtype in _INTEGERS else function(x)

    rounded.__name__ = rounded.__qualname__ = function.__name__
    return rounded


ceil, floor, round, trunc = _whole(_t.ceil), _whole(_t.floor), _whole(_t.round), _whole(_t.trunc)


def sign(x, /):
    return _t.sgn(x) if x.is_complex() else _t.where(x != x, x, _t.sign(x)) if x.is_floating_point() else _t.sign(x)


def clip(x, /, min=None, max=None):
    if min is None and max is None:
        return x.clone()
    for bound in (min, max):
        if isinstance(bound, _Tensor):
            x = _t.broadcast_tensors(x, bound)[0]
    low = min if min is None or isinstance(min, _Tensor) else asarray(min, dtype=x.dtype)
    high = max if max is None or isinstance(max, _Tensor) else asarray(max, dtype=x.dtype)
    return _t.clamp(x, low, high).to(x.dtype)


# ---- Choosing, searching, sorting ----
def where(condition, x1, x2, /):
    return _where(condition, x1, x2)


def take(x, indices, /, *, axis=None):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take: axis is needed when the array has more than one dimension")
        axis = 0
    return _t.index_select(x, axis, indices)


def argmax(x, /, *, axis=None, keepdims=False):
    return _t.argmax(x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    return _t.argmin(x, axis, keepdims)


def nonzero(x, /):
    if x.ndim == 0:
        raise ValueError("nonzero: zero-dimensional arrays have no indices")
    return tuple(_t.nonzero(x).unbind(1))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    return _t.searchsorted(x1, x2, side=side, sorter=sorter)


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return _t.argsort(x, dim=axis, descending=descending, stable=stable)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    return _t.sort(x, dim=axis, descending=descending, stable=stable).values


_UniqueAll = _namedtuple("UniqueAllResult", ["values", "indices", "inverse_indices", "counts"])
_UniqueCounts = _namedtuple("UniqueCountsResult", ["values", "counts"])
_UniqueInverse = _namedtuple("UniqueInverseResult", ["values", "inverse_indices"])


def unique_all(x, /):
    values, inverse, counts = _t.unique(x, sorted=True, return_inverse=True, return_counts=True)
    order = _t.argsort(inverse.flatten(), stable=True)  # of equal ones the first comes first
    starts = _t.cumsum(counts, 0) - counts
    return _UniqueAll(values, order[starts], inverse, counts)


def unique_counts(x, /):
    return _UniqueCounts(*_t.unique(x, sorted=True, return_counts=True))


def unique_inverse(x, /):
    return _UniqueInverse(*_t.unique(x, sorted=True, return_inverse=True))


def unique_values(x, /):
    return _t.unique(x, sorted=True)


# ---- Manipulation ----
def concat(arrays, /, *, axis=0):
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [array.flatten() for array in arrays], 0
    return _t.cat(arrays, axis)


def stack(arrays, /, *, axis=0):
    return _t.stack(list(arrays), axis)


def unstack(x, /, *, axis=0):
    return tuple(_t.unbind(x, axis))


def expand_dims(x, /, *, axis=0):
    return _t.unsqueeze(x, axis)


def squeeze(x, /, axis):
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if _b.any(x.shape[a] != 1 for a in axes):
        raise ValueError("squeeze: an axis to remove has more than one element")
    return _t.squeeze(x, axes)


def flip(x, /, *, axis=None):
    return _t.flip(x, _axes(x, axis))


def permute_dims(x, /, axes):
    return _t.permute(x, tuple(axes))


def matrix_transpose(x, /):
    return x.mT


def repeat(x, repeats, /, *, axis=None):
    return _t.repeat_interleave(x, repeats, dim=axis)


def reshape(x, /, shape, *, copy=None):
    result = _t.reshape(x.clone() if copy else x, tuple(shape))
    if copy is False and result.data_ptr() != x.data_ptr():
        raise ValueError("reshape: copy=False, but a copy is needed")
    return result


def roll(x, /, shift, *, axis=None):
    return _t.roll(x, shift) if axis is None else _t.roll(x, shift, axis)


def tile(x, repetitions, /):
    return _t.tile(x, tuple(repetitions))


# ---- Folds ----
def _axes(x, axis):
    return tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def _sum_dtype(x, dtype):
    return dtype or (int64 if x.dtype == bool or x.dtype in _INTEGERS else x.dtype)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    x = x.to(_sum_dtype(x, dtype))
    axes = _axes(x, axis)
    return _t.sum(x, axes, keepdims) if axes else x.clone()


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    x = x.to(_sum_dtype(x, dtype))
    for one in sorted((a % x.ndim for a in _axes(x, axis)), reverse=True):
        x = _t.prod(x, one, True)
    return x if keepdims else _t.squeeze(x, _axes(x, axis)) if x.ndim else x


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    axis = 0 if axis is None and x.ndim == 1 else axis
    if axis is None:
        raise ValueError("cumulative_sum: axis is needed when the array has more than one dimension")
    result = _t.cumsum(x.to(_sum_dtype(x, dtype)), axis)
    return (
        _t.cat(
            [
                _t.zeros_like(
                    result.narrow(axis, 0, 1)
                    if result.shape[axis]
                    else _t.empty(_with(result.shape, axis, 1), dtype=result.dtype)
                ),
                result,
            ],
            axis,
        )
        if include_initial
        else result
    )


def _with(shape, axis, size):
    shape = list(shape)
    shape[axis] = size
    return shape


def _fold(name):
    function = getattr(_t, name)

    def fold(x, /, *, axis=None, keepdims=False):
        axes = _axes(x, axis)
        return function(x, axes, keepdims) if axes else x.clone()

    fold.__name__ = fold.__qualname__ = name
    return fold


max, min, mean = _fold("amax"), _fold("amin"), _fold("mean")


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _t.var(x, _axes(x, axis), correction=correction, keepdim=keepdims) if x.ndim else _t.zeros_like(x)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _t.std(x, _axes(x, axis), correction=correction, keepdim=keepdims) if x.ndim else _t.zeros_like(x)


def all(x, /, *, axis=None, keepdims=False):
    axes = _axes(x, axis)
    return _t.all(x.to(bool), axes, keepdims) if axes else x.to(bool)


def any(x, /, *, axis=None, keepdims=False):
    axes = _axes(x, axis)
    return _t.any(x.to(bool), axes, keepdims) if axes else x.to(bool)


# ---- Linear algebra ----
def tensordot(x1, x2, /, *, axes=2):
    return _t.tensordot(x1, x2, axes if isinstance(axes, int) else (list(axes[0]), list(axes[1])))


def vecdot(x1, x2, /, *, axis=-1):
    return _t.linalg.vecdot(x1, x2, dim=axis)


def _linalg():
    from taper import linalg as torch

    module = _ModuleType("taper._array_api.linalg", "The standard's linear algebra.")
    for name in (
        "cholesky",
        "det",
        "diagonal",
        "eigh",
        "eigvalsh",
        "inv",
        "matrix_power",
        "matrix_rank",
        "pinv",
        "qr",
        "slogdet",
        "solve",
        "svdvals",
    ):
        if hasattr(torch, name):
            setattr(module, name, getattr(torch, name))
    module.matmul, module.matrix_transpose, module.tensordot, module.vecdot = (
        matmul,
        matrix_transpose,
        tensordot,
        vecdot,
    )
    module.outer = _t.outer

    def cholesky(x, /, *, upper=False):
        return torch.cholesky(x, upper=upper)

    def cross(x1, x2, /, *, axis=-1):
        return torch.cross(x1, x2, dim=axis)

    def matrix_norm(x, /, *, keepdims=False, ord="fro"):
        return torch.matrix_norm(x, ord, keepdim=keepdims)

    def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
        return torch.vector_norm(x, ord, _axes(x, axis), keepdims)

    def matrix_rank(x, /, *, rtol=None):
        return torch.matrix_rank(x, rtol=rtol)

    def pinv(x, /, *, rtol=None):
        return torch.pinv(x, rtol=rtol)

    def svd(x, /, *, full_matrices=True):
        return torch.svd(x, full_matrices=full_matrices)

    def diagonal(x, /, *, offset=0):
        return _t.diagonal(x, offset, -2, -1)

    def trace(x, /, *, offset=0, dtype=None):
        return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)

    for function in (cholesky, cross, matrix_norm, vector_norm, matrix_rank, pinv, svd, diagonal, trace):
        setattr(module, function.__name__, function)
    return module


def _fft():
    from taper import fft as torch

    module = _ModuleType("taper._array_api.fft", "The standard's Fourier transforms.")

    def one(name):
        function = getattr(torch, name)

        def transform(x, /, *, n=None, axis=-1, norm="backward"):
            return function(x, n=n, dim=axis, norm=norm)

        return transform

    def several(name):
        function = getattr(torch, name)

        def transform(x, /, *, s=None, axes=None, norm="backward"):
            return function(x, s=s, dim=axes, norm=norm)

        return transform

    def shift(name):
        function = getattr(torch, name)

        def shifted(x, /, *, axes=None):
            return function(x, dim=axes)

        return shifted

    for maker, names in (
        (one, "fft ifft rfft irfft hfft ihfft"),
        (several, "fftn ifftn rfftn irfftn"),
        (shift, "fftshift ifftshift"),
    ):
        for name in names.split():
            function = maker(name)
            function.__name__ = function.__qualname__ = name
            setattr(module, name, function)

    def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
        return torch.fftfreq(n, d, dtype=dtype, device=device)

    def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
        return torch.rfftfreq(n, d, dtype=dtype, device=device)

    module.fftfreq, module.rfftfreq = fftfreq, rfftfreq
    return module


linalg, fft = _linalg(), _fft()

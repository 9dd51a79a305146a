"""The array API standard: the namespace has the standard's names with the standard's signatures, and array-api
consumers take tensors."""

import inspect
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import taper

xp = taper.ones(1).__array_namespace__()
NAMES = """e inf nan newaxis pi arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros zeros_like
astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type bool int8 int16 int32 int64 uint8 float32 float64 complex64 complex128
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj
copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10
logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative not_equal positive pow real remainder round sign signbit sin
sinh square sqrt subtract tan tanh trunc take matmul matrix_transpose tensordot vecdot concat expand_dims flip moveaxis permute_dims repeat reshape roll
squeeze stack tile unstack argmax argmin nonzero searchsorted where unique_all unique_counts unique_inverse unique_values argsort sort cumulative_sum max
mean min prod std sum var all any __array_api_version__ __array_namespace_info__""".split()
LINALG = """cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals
tensordot trace vecdot vector_norm""".split()
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift".split()


def test_the_names_are_there():
    assert [name for name in NAMES if not hasattr(xp, name)] == []
    assert [name for name in LINALG if not hasattr(xp.linalg, name)] == []
    assert [name for name in FFT if not hasattr(xp.fft, name)] == []
    assert xp.__array_api_version__ == "2023.12"
    with pytest.raises(ValueError):
        taper.ones(1).__array_namespace__(api_version="1999.12")


@pytest.mark.parametrize("name", "sum prod mean max min var std all any argmax argmin".split())
def test_folds_take_axis_and_keepdims_by_name(name):
    parameters = inspect.signature(getattr(xp, name)).parameters
    assert parameters["axis"].kind is parameters["keepdims"].kind is inspect.Parameter.KEYWORD_ONLY
    x = xp.asarray([[1.0, 5.0], [7.0, 3.0]])
    assert tuple(getattr(xp, name)(x, axis=1, keepdims=True).shape) == (2, 1)
    assert tuple(getattr(xp, name)(x).shape) == ()


def test_the_namespace_tells_about_itself():
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] == xp.int64
    assert info.default_device() in info.devices()
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.capabilities()["boolean indexing"] is True


def test_values():
    x = xp.asarray([3, 1, 2, 1])
    assert xp.unique_counts(x).counts.tolist() == [2, 1, 1]
    everything = xp.unique_all(x)
    assert everything.indices.tolist() == [1, 2, 0]
    assert everything.inverse_indices.tolist() == [2, 0, 1, 0]
    assert xp.cumulative_sum(x, include_initial=True).tolist() == [0, 3, 4, 6, 7]
    assert xp.prod(xp.asarray([[1, 2], [3, 4]]), axis=(0, 1)).item() == 24
    assert xp.floor(x) is not x
    assert xp.floor(x).dtype == xp.int64
    assert math.isnan(xp.sign(xp.asarray([math.nan]))[0])
    assert xp.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.clip(x, 2).tolist() == [3, 2, 2, 2]
    assert xp.arange(3, 1).shape == (0,)
    assert xp.result_type(xp.asarray([1]), 2.5) == xp.float32
    assert xp.isdtype(xp.uint8, "integral")
    assert not xp.isdtype(xp.bool, "numeric")
    assert xp.linalg.trace(xp.asarray([[1, 2], [3, 4]])).item() == 5
    assert xp.linalg.vector_norm(xp.asarray([[3.0, 4.0]])).item() == 5
    assert [a.tolist() for a in xp.nonzero(xp.asarray([0, 1, 1]))] == [[1, 2]]
    assert xp.take(xp.asarray([[1, 2], [3, 4]]), xp.asarray([1]), axis=1).tolist() == [[2], [4]]


CONSUMER = Path(__file__).parent / "child_programs" / "scipy_on_tensors.py"


def test_scipy_works_on_tensors():
    pytest.importorskip("scipy")
    done = subprocess.run(
        [sys.executable, str(CONSUMER)], env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr

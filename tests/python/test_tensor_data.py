"""Tensors from Python's data and back: torch.tensor, NumPy, buffers, DLPack, lists, numbers."""

import hashlib
import warnings

import numpy as np
import pytest
import taper as torch
from taper.utils import dlpack


# ---- torch.tensor ----
@pytest.mark.parametrize(
    "data, dtype",
    [
        (1, torch.int64),
        (True, torch.bool),
        (1.5, torch.float32),
        (1j, torch.complex64),
        ([], torch.float32),
        ([1, 2.5, True], torch.float32),
        ([True, 2], torch.int64),
        ([1j, 2], torch.complex64),
        (np.float64(1), torch.float64),
        ([np.float64(1)], torch.float64),
        ([np.int8(1), np.int16(2)], torch.int16),
        (np.bool_(True), torch.bool),
        (np.ones((2, 3), np.float16), torch.float16),
        (range(3), torch.int64),
        (torch.Size([2, 3]), torch.int64),
        (bytearray(b"ab"), torch.int64),
    ],
)
def test_dtype_comes_from_the_data(data, dtype):
    t = torch.tensor(data)
    assert t.dtype == dtype
    assert t.tolist() == np.asarray(data).tolist()


def test_default_dtype_decides_about_floats():
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.tensor(1.5).dtype == torch.float64
        assert torch.tensor(1j).dtype == torch.complex128
    finally:
        torch.set_default_dtype(torch.float32)


def test_nested_data_of_all_kinds():
    t = torch.tensor([[[1, 2], (3, 4)], [np.array([5, 6]), range(7, 9)]])
    assert t.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert torch.tensor([torch.tensor(1), torch.tensor([2.5])]).tolist() == [1.0, 2.5]
    assert torch.tensor([np.ones((2, 2)), np.zeros((2, 2))[::-1]]).shape == (2, 2, 2)
    assert torch.tensor([[], []]).shape == (2, 0)


@pytest.mark.parametrize(
    "data, error, message",
    [
        ([[1, 2], [3]], ValueError, "expected sequence of length 2 at dim 1 \\(got 1\\)"),
        ([[1], 2], TypeError, "not a sequence"),
        ("abc", TypeError, "invalid data type 'str'"),
        (["a"], ValueError, "too many dimensions 'str'"),
        (None, RuntimeError, "Could not infer dtype of NoneType"),
        ({1: 2}, RuntimeError, "Could not infer dtype of dict"),
        (2**63, ValueError, "Overflow"),
        ([torch.ones(2)], ValueError, "only one element tensors"),
        (np.array(["a"]), TypeError, "can't convert np.ndarray of type numpy.str_"),
        (np.longdouble(1), TypeError, "can't convert np.ndarray of type numpy.longdouble"),
        (np.ones(3)[::-1], ValueError, "negative"),
        (np.ones(2, ">f4"), ValueError, "byte order"),
    ],
)
def test_what_is_no_data_is_refused(data, error, message):
    with pytest.raises(error, match=message):
        torch.tensor(data)


def test_self_referential_lists_are_refused():
    data = [1]
    data.append(data)
    with pytest.raises(TypeError, match="self-referential"):
        torch.tensor(data)
    deep = [1]
    for _ in range(10000):
        deep = [deep]
    with pytest.raises((ValueError, RecursionError)):
        torch.tensor(deep)


@pytest.mark.parametrize(
    "value, dtype, error",
    [
        (300, torch.uint8, RuntimeError),
        (1e10, torch.int32, RuntimeError),
        (float("nan"), torch.int64, RuntimeError),
        (1j, torch.float32, TypeError),
        (1j, torch.int32, TypeError),
    ],
)
def test_values_that_do_not_fit(value, dtype, error):
    with pytest.raises(error):
        torch.tensor([value], dtype=dtype)
    assert torch.tensor(-1, dtype=torch.uint8).item() == 255
    assert torch.tensor(1.9, dtype=torch.int64).item() == 1


def test_tensor_of_a_tensor_warns_and_copies():
    x = torch.ones(2)
    with pytest.warns(UserWarning, match="clone"):
        y = torch.tensor(x)
    y[0] = 5
    assert x.tolist() == [1, 1]


def test_requires_grad():
    assert torch.tensor([1.0], requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        torch.tensor([1], requires_grad=True)


def test_a_list_that_changes_while_it_is_read():
    class Treacherous:
        def __float__(self):
            data.clear()
            return 1.0

    data = [1.0, Treacherous(), 2.0]
    with pytest.raises(RuntimeError, match="changed its length"):
        torch.tensor(data, dtype=torch.float32)


# ---- NumPy ----
numpy_dtypes = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.parametrize("name", numpy_dtypes)
def test_numpy_and_back_shares_memory(name):
    a = np.arange(12).reshape(3, 4).astype(name)
    t = torch.from_numpy(a)
    assert t.dtype == getattr(torch, name)
    assert t.data_ptr() == a.ctypes.data
    b = t.numpy()
    assert b.dtype == a.dtype
    assert b.ctypes.data == a.ctypes.data
    assert (b == a).all()
    a[1, 2] = 1
    assert t[1, 2].item() == a[1, 2]


def test_strided_arrays_keep_their_strides():
    a = np.arange(24.0).reshape(2, 3, 4)
    for view in (a.T, a[:, ::2], a[1:, :, ::3], a[0], np.broadcast_to(np.ones(1), (3, 3)), a[:0]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            t = torch.from_numpy(view)
        assert (t.numpy() == view).all()
        assert t.shape == view.shape


def test_arrays_that_cannot_be_shared():
    with pytest.raises(TypeError, match="expected np.ndarray"):
        torch.from_numpy([1])
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(np.ones(3)[::-1])
    with pytest.raises(ValueError, match="multiple of the element"):
        torch.from_numpy(np.zeros(3, [("a", "i4"), ("b", "f8")])["b"])
    readonly = np.ones(2)
    readonly.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        torch.from_numpy(readonly)


def test_memory_outlives_either_side():
    t = torch.from_numpy(np.arange(1000.0))
    assert t.sum().item() == 499500
    a = torch.arange(1000).numpy()
    assert a.sum() == 499500


def test_numpy_of_parameters_where_nothing_is_recorded():
    p = torch.nn.Parameter(torch.ones(3))
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert p.numpy().tolist() == np.asarray(p).tolist() == [1, 1, 1]
            assert np.array(p, dtype=np.float64).dtype == np.float64
            assert np.shares_memory(p.numpy(), p.detach().numpy())
    with pytest.raises(RuntimeError, match="requires grad"):
        p.numpy()


def test_numpy_of_tensors_that_have_no_array():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(x)
    with pytest.raises(BufferError, match="requires grad"):
        memoryview(x)
    with pytest.raises(TypeError, match="BFloat16"):
        torch.ones(2, dtype=torch.bfloat16).numpy()
    assert x.numpy(force=True).tolist() == [1, 1]


def test_asarray_of_numpy():
    t = torch.arange(6.0).reshape(2, 3)
    assert np.asarray(t).ctypes.data == t.data_ptr()
    assert np.asarray(t, dtype=np.int32).dtype == np.int32
    assert t.__array__(copy=True).ctypes.data != t.data_ptr()
    with pytest.raises(ValueError):
        t.__array__(np.int32, copy=False)


def test_numpy_functions_and_operators():
    assert isinstance(np.sin(torch.ones(2)), torch.Tensor)
    assert (torch.ones(2) + np.ones(2)).dtype == torch.float64
    assert (np.float64(2) * torch.ones(2)).dtype == torch.float32
    with pytest.raises(TypeError):
        np.ones(2) * torch.tensor(2.0)


# ---- as_tensor, asarray, buffers ----
def test_as_tensor_shares_where_it_can():
    x, a = torch.ones(2), np.ones(2)
    assert torch.as_tensor(x) is x
    assert torch.as_tensor(a).data_ptr() == a.ctypes.data
    assert torch.as_tensor(a, dtype=torch.float32).dtype == torch.float32
    assert torch.as_tensor([1, 2]).tolist() == [1, 2]


def test_asarray():
    x, a = torch.ones(2), np.ones(2)
    assert torch.asarray(x) is x
    assert torch.asarray(a).data_ptr() == a.ctypes.data
    assert torch.asarray(a, copy=True).data_ptr() != a.ctypes.data
    with pytest.raises(ValueError):
        torch.asarray([1], copy=False)
    with pytest.raises(ValueError):
        torch.asarray(a, dtype=torch.float32, copy=False)
    assert torch.asarray(bytearray(b"abc")).tolist() == [97, 98, 99]


def test_buffer_protocol():
    t = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    view = memoryview(t)
    assert view.format == "i"
    assert view.shape == (2, 3)
    assert view.strides == (12, 4)
    assert view.tolist() == t.tolist()
    assert bytes(t) == t.numpy().tobytes()
    view[1, 2] = 9
    assert t[1, 2].item() == 9
    assert hashlib.md5(t).digest() == hashlib.md5(bytes(t)).digest()
    with pytest.raises(BufferError, match="not contiguous"):
        hashlib.md5(t.T)


def test_frombuffer():
    data = bytearray(b"\x01\0\0\0\x02\0\0\0")
    t = torch.frombuffer(data, dtype=torch.int32)
    assert t.tolist() == [1, 2]
    data[0] = 7
    assert t.tolist() == [7, 2]
    assert torch.frombuffer(data, dtype=torch.int32, offset=4, count=1).tolist() == [2]
    for arguments in ({"count": 3}, {"offset": 9}, {"offset": -1}, {"count": 0}, {"offset": 1}):
        with pytest.raises(ValueError):
            torch.frombuffer(data, dtype=torch.int32, **arguments)
    with pytest.raises(ValueError, match="buffer protocol"):
        torch.frombuffer(3, dtype=torch.int32)


# ---- DLPack ----
def test_dlpack_with_numpy():
    a = np.arange(6.0).reshape(2, 3)
    t = torch.from_dlpack(a)
    assert t.data_ptr() == a.ctypes.data
    assert t.tolist() == a.tolist()
    b = np.from_dlpack(torch.arange(4))
    assert b.tolist() == [0, 1, 2, 3]
    assert torch.from_dlpack(a, copy=True).data_ptr() != a.ctypes.data


def test_dlpack_capsules():
    x = torch.ones(2, 3)
    assert x.__dlpack_device__() == (1, 0)
    for version in (None, (0, 8), (1, 0)):
        capsule = x.__dlpack__(max_version=version)
        y = torch.from_dlpack(capsule)
        assert y.data_ptr() == x.data_ptr()
        assert y.shape == (2, 3)
        with pytest.raises(RuntimeError, match="only once"):
            torch.from_dlpack(capsule)
    assert torch.from_dlpack(x.__dlpack__(copy=True)).data_ptr() != x.data_ptr()
    x.__dlpack__(max_version=(1, 0))  # never taken: its deleter runs
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(AssertionError):
        x.__dlpack__(stream=1)
    assert dlpack.from_dlpack(dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert x.__dlpack_device__()[0] == dlpack.DLDeviceType.kDLCPU


# ---- Numbers and lists ----
@pytest.mark.parametrize("name", [*numpy_dtypes, "bfloat16"])
def test_tolist_and_item(name):
    t = torch.tensor([[1, 0], [1, 1]]).to(getattr(torch, name))
    assert t.tolist() == [[1, 0], [1, 1]]
    assert t.T.tolist() == [[1, 1], [0, 1]]
    assert type(t[0, 0].item()) is type(t.tolist()[0][0])
    assert t[0, 0].tolist() == 1
    assert torch.ones(0, 3).tolist() == []
    assert torch.ones(2, 0).tolist() == [[], []]
    with pytest.raises(RuntimeError, match="4 elements"):
        t.item()


def test_format():
    assert f"{torch.tensor(1.5):.3f}" == "1.500"
    assert f"{torch.tensor(3):>4d}" == "   3"
    assert f"{torch.tensor(1.5, requires_grad=True)}" == "1.5"
    assert f"{torch.tensor([1.5])}" == "tensor([1.5000])"
    with pytest.raises(TypeError):
        f"{torch.tensor([1.5]):.3f}"


def test_sequence_protocol():
    t = torch.arange(3)
    assert 2 in t
    assert 5 not in t
    with pytest.raises(RuntimeError):
        "a" in t
    assert reversed(t).tolist() == [2, 1, 0]
    assert [v.item() for v in t] == [0, 1, 2]
    assert len(t) == 3
    for bad in (lambda: len(torch.tensor(1)), lambda: list(torch.tensor(1))):
        with pytest.raises(TypeError, match="0-d tensor"):
            bad()
    assert [5, 6, 7][torch.tensor(1)] == 6
    assert "tolist" in dir(t)


def test_make_tensor_draws_pytorchs_numbers():
    from taper.testing import make_tensor

    torch.manual_seed(0)
    x = make_tensor(3, dtype=torch.float32, device="cpu", low=-1, high=1, noncontiguous=True)
    assert x.tolist() == [0.5364435911178589, -0.7359390258789062, 0.26815736293792725]
    assert torch.rand(1).item() == 0.4900934100151062


def test_make_tensor_keeps_to_its_interval_and_refuses_others():
    from taper.testing import make_tensor

    for dtype in torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.complex64:
        x = make_tensor(200, dtype=dtype, device="cpu", low=0, high=2)
        x = torch.view_as_real(x) if dtype.is_complex else x
        assert x.ge(0).all()
        assert x.lt(2).all()
        assert make_tensor(2, 3, dtype=dtype, device="cpu", noncontiguous=True).stride() == (6, 2)
        for low, high, words in (
            (1, 0, "`low` must be less than `high`"),
            (None, float("nan"), "`low` and `high` cannot be NaN"),
        ):
            with pytest.raises(ValueError, match=words):
                make_tensor(2, dtype=dtype, device="cpu", low=low, high=high)
    assert make_tensor(9, dtype=torch.int8, device="cpu", low=127, high=128).eq(127).all()
    assert make_tensor(2, 3, 4, 5, dtype=torch.int8, device="cpu", memory_format=torch.channels_last).is_contiguous(
        memory_format=torch.channels_last
    )
    with pytest.raises(ValueError, match="only supports"):
        make_tensor(2, dtype=torch.uint8, device="cpu", low=-2, high=-1)
    with pytest.raises(ValueError, match="not supported for boolean and integral dtypes"):
        make_tensor(2, dtype=torch.int64, device="cpu", requires_grad=True)
    with pytest.warns(FutureWarning, match="Passing `low==high`"):
        assert make_tensor(2, dtype=torch.float32, device="cpu", low=3, high=3).tolist() == [3, 3]


def test_dim_order_tells_where_sizes_of_one_leave_it_open():
    x = torch.empty(2, 2, 1, 2)
    assert x.dim_order() == (0, 1, 2, 3)
    assert torch.empty(2, 3, 5, 7).dim_order(ambiguity_check=True) == (0, 1, 2, 3)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        x.dim_order(ambiguity_check=True)
    assert x.to(memory_format=torch.channels_last).dim_order(
        ambiguity_check=[torch.contiguous_format, torch.channels_last]
    ) == (0, 2, 3, 1)
    with pytest.raises(TypeError):
        x.dim_order(ambiguity_check="text")


def test_arrays_of_others_by_dlpack():
    class Wrapper:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    x = torch.arange(3.0)
    copied, shared = torch.tensor(Wrapper(x)), torch.asarray(torch.utils.dlpack.to_dlpack(x))
    x[0] = 7
    assert copied[0] == 0
    assert shared[0] == 7


def test_a_buffer_that_cannot_be_written_is_told():
    with pytest.warns(UserWarning, match="The given buffer is not writable"):
        torch.frombuffer(b"abcd", dtype=torch.uint8)


def test_random_numbers_go_into_a_tensor_of_any_dtype():
    assert torch.bernoulli(torch.ones(3), out=torch.zeros(3, dtype=torch.int32)).tolist() == [1, 1, 1]
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.normal(torch.ones(3), torch.ones(3), out=torch.zeros(2))


def test_copy_takes_a_number():
    assert torch.zeros(2).copy_(3.5).tolist() == [3.5, 3.5]
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        torch.zeros(2).copy_([1, 2])


def test_a_result_that_is_given_takes_the_strides_of_the_operands():
    x = torch.ones(2, 3, 4).permute(2, 0, 1)
    out = torch.empty(0)
    assert torch.add(x, x, out=out).stride() == x.stride() == (x + x).stride()

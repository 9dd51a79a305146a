"""The dtypes beyond PyTorch's common twelve: dtype objects, promotion and casts against recorded answers of PyTorch
(dtypes.json.gz, written by this file run under PyTorch), and what tensors of them can do."""

import copy
import gzip
import io
import json
import os
import pickle
import sys

if __name__ == "__main__":
    import torch
else:
    import pytest
    import taper as torch

VALUED = """bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 uint16 uint32 uint64 float8_e4m3fn
    float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu complex32 bcomplex32""".split()
OPAQUE = """float4_e2m1fn_x2 bits1x8 bits2x4 bits4x2 bits8 bits16 uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7
    qint8 quint8 qint32 quint4x2 quint2x4""".split()
STORAGE = VALUED[12:]
FLOAT8 = [n for n in VALUED if n.startswith("float8")]
RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dtypes.json.gz")
NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    3.0,
    0.3,
    -2.9,
    6.1e-05,
    1e-3,
    2.0**-9,
    2.0**-10,
    2.0**-11,
    3 * 2.0**-11,
    15.9,
    17.0,
    239.9,
    240.0,
    248.0,
    249.0,
    300.0,
    447.0,
    448.0,
    463.9,
    464.0,
    465.0,
    1000.0,
    57344.0,
    61439.0,
    61440.0,
    65504.0,
    65519.0,
    65520.0,
    70000.0,
    1e6,
]


def said(function):
    try:
        return str(function())
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def objects():
    """What each dtype says of itself, and what pairs of them promote to."""
    answers = {}
    for name in VALUED + OPAQUE:
        dtype = getattr(torch, name)
        for attribute in ("is_floating_point", "is_complex", "is_signed", "itemsize"):
            answers[f"{name}.{attribute}"] = said(lambda: getattr(dtype, attribute))
        for method in ("to_real", "to_complex"):
            answers[f"{name}.{method}()"] = said(getattr(dtype, method))
        answers[f"finfo({name})"], answers[f"iinfo({name})"] = (
            said(lambda: torch.finfo(dtype)),
            said(lambda: torch.iinfo(dtype)),
        )
        for other in VALUED + OPAQUE:
            answers[f"promote_types({name}, {other})"] = said(lambda: torch.promote_types(dtype, getattr(torch, other)))
            answers[f"can_cast({name}, {other})"] = said(lambda: torch.can_cast(dtype, getattr(torch, other)))
    return answers


def results():
    answers = {}
    for name in VALUED:
        one = {shape: torch.zeros(shape, dtype=getattr(torch, name)) for shape in ((2,), ())}
        for other in VALUED:
            for a in one:
                for b in ((2,), ()):
                    answers[f"{name}{a} {other}{b}"] = said(
                        lambda: torch.result_type(one[a], torch.zeros(b, dtype=getattr(torch, other)))
                    )
        for number in (True, 1, 1.0, 1j):
            answers[f"{name} {number}"] = said(lambda: torch.result_type(one[(2,)], number))
    return answers


def bits(t):
    """The elements' bits as integers."""
    t = torch.view_as_real(t) if t.dtype.is_complex else t
    return (
        t.contiguous()
        .view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.dtype.itemsize])
        .flatten()
        .tolist()
    )


def sources(name):
    dtype = getattr(torch, name)
    if dtype.itemsize == 1 and name != "bool":
        return torch.arange(256, dtype=torch.uint8).view(dtype)
    if name in ("float16", "bfloat16", "uint16", "int16"):
        return torch.arange(0, 65536, 257, dtype=torch.int32).to(torch.int16).view(dtype)
    if name in ("uint32", "uint64"):
        signed = torch.int32 if name == "uint32" else torch.int64
        return torch.cat(
            [
                torch.tensor([0, 1, 2, 255, 256, 70000, -1, -2, -70000], dtype=signed),
                torch.tensor([2**31 - 1, -(2**31)], dtype=signed),
            ]
        ).view(dtype)
    if name in ("int32", "int64"):
        return torch.tensor(
            [0, 1, -1, 127, 128, 255, 256, 300, 449, 65535, 65536, 70000, -70000, 2**31 - 1, -(2**31)], dtype=dtype
        )
    if name == "bool":
        return torch.tensor([True, False])
    if dtype.is_complex:
        return torch.tensor([complex(a, b) for a, b in zip(NUMBERS, reversed(NUMBERS))], dtype=torch.complex128).to(
            dtype
        )
    return torch.tensor(NUMBERS + [-x for x in NUMBERS] + [float("inf"), float("-inf"), float("nan")], dtype=dtype)


def casts():
    """Every dtype's values in every other. Where a floating value has no place among integers the answer is the
    machine's, not recorded."""
    answers = {}
    for name in VALUED:
        values = sources(name)
        for other in VALUED:
            target = getattr(torch, other)
            kept = values
            if (values.dtype.is_floating_point or values.dtype.is_complex) and not (
                target.is_floating_point or target.is_complex or other == "bool"
            ):
                wide = values.to(torch.complex128).real if values.dtype.is_complex else values.to(torch.float64)
                kept = values[(wide.abs() < 2**31) & (wide >= (-(2**31) if target.is_signed else 0))]
            cast = kept.to(target)
            real = torch.view_as_real(cast) if cast.dtype.is_complex else cast
            if real.dtype.is_floating_point:  # any NaN will do
                real = real.to(torch.float64)
                answers[f"{name} {other}"] = ["nan" if x != x else x.hex() for x in real.flatten().tolist()]
            else:
                answers[f"{name} {other}"] = bits(cast)
    return answers


def operators():
    """Which operators take which of the dtypes: the dtype of the result, or that there is none."""
    calls = {
        "eq": lambda t: t == t,
        "ne": lambda t: t != t,
        "add": lambda t: t + t,
        "sub": lambda t: t - t,
        "mul": lambda t: t * t,
        "neg": lambda t: -t,
        "lt": lambda t: t < t,
        "bitwise_and": lambda t: t & t,
        "bitwise_not": lambda t: ~t,
        "abs": torch.abs,
        "sin": torch.sin,
        "sum": torch.sum,
        "prod": torch.prod,
        "cumsum": lambda t: t.cumsum(0),
        "mean": torch.mean,
        "all": torch.all,
        "any": torch.any,
        "isnan": torch.isnan,
        "isfinite": torch.isfinite,
        "cat": lambda t: torch.cat([t, t]),
        "stack": lambda t: torch.stack([t, t]),
        "where": lambda t: torch.where(torch.tensor([True, False, True]), t, t),
        "index": lambda t: t[torch.tensor([2, 0])],
        "mask": lambda t: t[torch.tensor([True, False, True])],
        "index_select": lambda t: t.index_select(0, torch.tensor([1, 1])),
        "gather": lambda t: t.gather(0, torch.tensor([1, 1])),
        "scatter": lambda t: t.scatter(0, torch.tensor([1]), t[:1]),
        "masked_fill": lambda t: t.masked_fill(torch.tensor([True, False, True]), 1),
        "fill_": lambda t: t.clone().fill_(1),
        "zero_": lambda t: t.clone().zero_(),
        "flip": lambda t: t.flip(0),
        "roll": lambda t: t.roll(1),
        "repeat": lambda t: t.repeat(2),
        "clone": torch.clone,
        "sort": lambda t: t.sort()[0],
        "unique": torch.unique,
        "maximum": lambda t: torch.maximum(t, t),
        "floor": torch.floor,
        "zeros_like": torch.zeros_like,
        "ones_like": torch.ones_like,
        "full_like": lambda t: torch.full_like(t, 1),
        "empty_like": torch.empty_like,
        "item": lambda t: t[0].item(),
        "div": lambda t: t / t,
        "matmul": lambda t: t @ t,
        "conj": torch.conj,
        "nonzero": torch.nonzero,
        "tril": lambda t: t.view(1, 3).tril(),
        "pad": lambda t: torch.nn.functional.pad(t, (1, 1)),
        "equal": lambda t: torch.equal(t, t),
        "pow": lambda t: t**2,
        "exp": torch.exp,
        "max": torch.max,
    }
    answers = {}
    for name in STORAGE:
        t = torch.tensor([1, 2, 2], dtype=torch.int32).to(getattr(torch, name))
        for call, function in calls.items():
            try:
                result = function(t)
                answers[f"{call} {name}"] = str(result.dtype) if isinstance(result, torch.Tensor) else str(result)
            except (NotImplementedError, RuntimeError, TypeError):
                answers[f"{call} {name}"] = "refused"
    return answers


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    with gzip.GzipFile(RECORDED, "wb", mtime=0) as f:
        f.write(
            json.dumps(
                {"objects": objects(), "results": results(), "casts": casts(), "operators": operators()}
            ).encode()
        )
    sys.exit()


@pytest.fixture(scope="module")
def recorded():
    with gzip.open(RECORDED, "rt") as f:
        return json.load(f)


def differences(got, want):
    assert got.keys() == want.keys()
    return [
        f"{k}: {got[k]!s:.160}, PyTorch {want[k]!s:.160}"
        for k in want
        if got[k] != want[k] and "INTERNAL ASSERT" not in want[k]
    ]


def test_dtype_objects_and_promotion(recorded):
    assert not differences(objects(), recorded["objects"])


def test_result_types(recorded):
    assert not differences(results(), recorded["results"])


def test_casts(recorded):
    assert not differences(casts(), recorded["casts"])


def test_operators(recorded):
    got, want = operators(), recorded["operators"]
    wrong = {k: (got[k], want[k]) for k in want if got[k] != want[k]}
    more = {
        "fill_",
        "ones_like",
        "full_like",
        "pad",
        "equal",
        "index_select",
        "abs",
    }  # PyTorch has them for some dtypes of a group, Taper for all
    wrong = {k: v for k, v in wrong.items() if not (k.split()[0] in more and v[1] == "refused")}
    assert wrong.pop("maximum uint64") == ("refused", "torch.uint64")  # it computes in int64, and so has no order
    assert not wrong


def test_names():
    assert torch.chalf is torch.complex32
    assert torch.bit is torch.uint1
    for name in VALUED + OPAQUE:
        dtype = getattr(torch, name)
        assert repr(dtype) == f"torch.{name}"
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is dtype
        assert isinstance(dtype, torch.dtype)


@pytest.mark.parametrize("name", STORAGE)
def test_tensors_come_and_go(name):
    dtype = getattr(torch, name)
    t = torch.tensor([[1, 2, 4], [8, 16, 0.5]]).to(dtype)
    for same in (
        t.clone(),
        t.t().t(),
        t.t().contiguous().t(),
        copy.deepcopy(t),
        pickle.loads(pickle.dumps(t)),
        torch.cat([t[:1], t[1:]]),
        torch.stack(list(t)),
        torch.empty_like(t).copy_(t),
        torch.from_dlpack(t) if name != "bcomplex32" else t,
    ):
        assert same.dtype == dtype
        assert bits(same) == bits(t)
        assert same.shape == t.shape
    assert t[1, 2:].tolist() == t.to(torch.float64 if not dtype.is_complex else torch.complex128)[1, 2:].tolist()
    t[0, 0] = 2
    t[1] = t[0]
    assert bits(t[0]) == bits(t[1])
    assert t[0, 0].item() == 2
    file = io.BytesIO()
    torch.save({"t": t}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)["t"]
    assert loaded.dtype == dtype
    assert bits(loaded) == bits(t)
    assert f"dtype=torch.{name}" in repr(t)


def test_uint64_above_int64():
    large = 2**64 - 1
    t = torch.tensor([large, 5], dtype=torch.uint64)
    assert t.tolist() == [large, 5]
    assert t[0].item() == large
    assert repr(t) == f"tensor([{large},                    5], dtype=torch.uint64)"
    assert (t == large).tolist() == [True, False]
    assert torch.full((1,), 2**63, dtype=torch.uint64).item() == 2**63
    assert t.to(torch.float64).tolist() == [2.0**64, 5.0]
    assert t.to(torch.int64).tolist() == [-1, 5]
    assert torch.zeros(1, dtype=torch.uint64).fill_(large).item() == large
    assert t.sort()[0].tolist() == [5, large]
    with pytest.raises(OverflowError):
        torch.tensor(-1, dtype=torch.uint64)
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint16 without overflow"):
        torch.tensor(70000, dtype=torch.uint16)
    with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without overflow"):
        torch.zeros(1, dtype=torch.int64).fill_(2**63)


def test_numpy():
    numpy = pytest.importorskip("numpy")
    for name in ("uint16", "uint32", "uint64"):
        array = numpy.array([1, 2, 3], dtype=name)
        t = torch.from_numpy(array)
        assert t.dtype == getattr(torch, name)
        assert t.numpy().dtype == array.dtype
        assert torch.tensor(array).tolist() == [1, 2, 3]
        array[0] = 7
        assert t[0].item() == 7
        assert torch.tensor(array[0]).dtype == t.dtype
    for name, word in (("float8_e4m3fn", "Float8_e4m3fn"), ("complex32", "ComplexHalf"), ("uint4", "UInt4")):
        with pytest.raises(TypeError, match=f"Got unsupported ScalarType {word}"):
            torch.zeros(2, dtype=getattr(torch, name)).numpy()


def test_complex32():
    t = torch.tensor([1 + 2j, -0.5j], dtype=torch.complex32)
    assert torch.view_as_real(t).dtype == torch.float16
    assert torch.view_as_complex(torch.view_as_real(t)).tolist() == t.tolist()
    assert t.real.tolist() == [1.0, 0.0]
    assert t.imag.tolist() == [2.0, -0.5]
    assert t.view(torch.float16).tolist() == [1.0, 2.0, 0.0, -0.5]
    assert (t * t).tolist() == [-3 + 4j, -0.25 + 0j]
    assert (t + 1).dtype == torch.complex32
    assert t.abs().dtype == torch.float16
    half = torch.ones(2, dtype=torch.float16)
    assert (half * 1j).dtype == torch.complex32
    assert torch.complex(half, half).dtype == torch.complex32
    assert torch.randn(3, dtype=torch.complex32).dtype == torch.complex32
    assert torch.rand(3, dtype=torch.complex32).dtype == torch.complex32


def test_elements_without_values():
    t = torch.arange(6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    assert t.clone()[2:].view(torch.uint8).tolist() == [2, 3, 4, 5]
    assert torch.empty(3, dtype=torch.bits16).element_size() == 2
    small = torch.zeros(2, dtype=torch.uint4)
    for call in (
        lambda: small.item() if small.numel() == 1 else small[0].item(),
        lambda: repr(small),
        lambda: small.to(torch.uint8),
        lambda: torch.zeros(2).to(torch.uint4),
        lambda: small + small,
    ):
        with pytest.raises(NotImplementedError, match="not implemented for 'UInt4'"):
            call()
    with pytest.raises(RuntimeError, match="load_scalar: invalid type"):
        small.tolist()
    with pytest.raises(RuntimeError, match="store_scalar: invalid type"):
        torch.tensor([1, 2], dtype=torch.int4)


def test_refusals_have_pytorchs_words():
    t = torch.zeros(2, dtype=torch.float8_e4m3fn)
    with pytest.raises(NotImplementedError, match="\"add.*\" not implemented for 'Float8_e4m3fn'"):
        t + t
    with pytest.raises(NotImplementedError, match="\"arange_cpu\" not implemented for 'UInt16'"):
        torch.arange(3, dtype=torch.uint16)
    with pytest.raises(
        RuntimeError, match="Promotion for Float8 Types is not supported, attempted to promote Float8_e4m3fn and Float"
    ):
        t == torch.zeros(2)
    with pytest.raises(TypeError, match="couldn't find storage object Float8_e4m3fnStorage"):
        torch.set_default_dtype(torch.float8_e4m3fn)


def test_products_of_8_bit_numbers():
    a, b = torch.randint(-128, 127, (5, 8), dtype=torch.int8), torch.randint(-128, 127, (8, 6), dtype=torch.int8)
    product = torch._int_mm(a, b)
    assert product.dtype == torch.int32
    assert torch.equal(product.long(), a.long() @ b.long())
    for m, n, k in ((1, 3, 5), (7, 33, 66), (40, 40, 1101), (3, 100, 0)):
        for kind in (torch.int8, torch.uint8):
            x = torch.randint(torch.iinfo(kind).min, torch.iinfo(kind).max + 1, (m, k), dtype=kind)
            y = torch.randint(-128, 128, (n, k), dtype=torch.int8)
            wanted = (x.long() @ y.long().t()).int()
            assert torch.equal(torch._int_mm(x, y.t()), wanted)
            assert torch.equal(torch._int_mm(x.t().contiguous().t(), y.t().contiguous()), wanted)
    with pytest.raises(RuntimeError, match="Expected self dtype to be int8 or uint8 but got int"):
        torch._int_mm(a.int(), b)
    with pytest.raises(RuntimeError, match=r"_int_mm: mat1 and mat2 shapes cannot be multiplied \(5x8 and 7x6\)"):
        torch._int_mm(a, b[:7])
    for m, n, k in ((1, 1, 1), (1, 33, 40), (5, 6, 17), (33, 70, 100), (0, 3, 4)):
        for kind, near in ((torch.float32, 1e-4), (torch.bfloat16, 2e-2)):
            x, weight = torch.randn(m, k).to(kind), torch.randint(-128, 128, (n, k), dtype=torch.int8)
            scales = torch.rand(n).to(kind)
            got = torch._weight_int8pack_mm(x, weight, scales)
            assert got.dtype is kind
            assert torch.allclose(got.double(), x.double() @ weight.double().t() * scales.double(), near, 50 * near)
    x, y = torch.randn(4, 32).to(torch.float8_e4m3fn), torch.randn(6, 32).to(torch.float8_e5m2).t()
    plain, half, two = x.float() @ y.float(), torch.tensor(0.5), torch.tensor(2.5)
    assert torch.equal(torch._scaled_mm(x, y, half, two, out_dtype=torch.float32), plain * half * two)
    assert torch._scaled_mm(x, y, half, two).dtype == torch.float8_e4m3fn
    bias, rows, columns = torch.arange(6.0), torch.rand(4, 1), torch.rand(1, 6)
    assert torch.equal(
        torch._scaled_mm(x, y, rows, columns, bias=bias, out_dtype=torch.float32), plain * rows * columns + bias
    )
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(x, y, rows, two)
    functional = torch.nn.functional
    wise = functional.ScalingType.TensorWise
    assert torch.equal(functional.scaled_mm(x, y, half, wise, two, wise), (plain * half * two).to(torch.bfloat16))


def test_views_of_another_size_say_what_does_not_fit():
    whole = torch.zeros(4, 9, dtype=torch.uint8)
    for view, words in (
        (whole, r"self.size\(-1\) must be divisible by 4 to view Byte as Float \(different element sizes\), but got 9"),
        (
            whole[:, :8],
            r"self.stride\(0\) must be divisible by 4 to view Byte as Float \(different element sizes\), but got 9",
        ),
        (whole[:, :4].t(), r"self.stride\(-1\) must be 1 to view Byte as Float \(different element sizes\), but got 9"),
        (whole[0, 1:], r"self.storage_offset\(\) must be divisible by 4"),
        (whole[0, 0], r"self.dim\(\) cannot be 0 to view Byte as Float"),
    ):
        with pytest.raises(RuntimeError, match=words):
            view.view(torch.float32)


def test_tensors_of_storages():
    t = torch.tensor([1.0, 2.0])
    assert torch.tensor(t.untyped_storage(), dtype=torch.float32).tolist() == [1.0, 2.0]
    assert torch.tensor(t.storage()).tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="Expected a Storage of type Int or an UntypedStorage, but got Float"):
        torch.tensor(t.storage(), dtype=torch.int32)
    with pytest.raises(
        RuntimeError,
        match="Expected a Storage of type Int or an UntypedStorage, but got type Float for argument 1 'storage'",
    ):
        torch.tensor([], dtype=torch.int32).set_(t.storage())
    assert torch.tensor([], dtype=torch.int32).set_(t.untyped_storage()).numel() == 2
    assert torch.storage._dtype_to_storage_type_map()[torch.float32] == "FloatStorage"
    assert torch.QInt8Storage.dtype is torch.qint8


def test_dlpack_refuses_what_it_has_no_type_for():
    with pytest.raises(BufferError, match="QInt8 types are not supported by dlpack"):
        torch.from_dlpack(torch.quantize_per_tensor(torch.ones(2), 0.1, 10, torch.qint8))
    with pytest.raises(BufferError, match="UInt4 types are not supported by dlpack"):
        torch.from_dlpack(torch.zeros(2, dtype=torch.uint4))


def test_default_complex_dtype_of_half():
    torch.set_default_dtype(torch.float16)
    try:
        assert torch.tensor(1j).dtype == torch.complex32
        assert torch.full((1,), 1j).dtype == torch.complex64
    finally:
        torch.set_default_dtype(torch.float32)

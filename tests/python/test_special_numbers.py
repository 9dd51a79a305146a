"""Zeros, infinities and NaN among complex numbers, and numbers that a dtype does not hold; values and errors as PyTorch
2.15 gave them."""

import cmath
import os
import subprocess
import sys

import pytest
import taper as torch
from taper import nn

NAN, INF = float("nan"), float("inf")


def shown(t):
    """Parts with the sign of zeros; NaN has none."""
    return [tuple("nan" if v != v else repr(v) for v in (z.real, z.imag)) for z in t.flatten().tolist()]


# ---- Complex numbers ----
QUOTIENTS = [  # dividend, divisor, quotient
    (1 + 2j, 0j, ("inf", "inf")),
    (-1 - 2j, 0j, ("-inf", "-inf")),
    (1 + 0j, complex(-0.0, -0.0), ("inf", "nan")),
    (0j, 0j, ("nan", "nan")),
    (0j, complex(0, -2.5), ("-0.0", "0.0")),
    (complex(0, INF), 0j, ("nan", "inf")),
    (1 + 1j, complex(INF, 0), ("0.0", "0.0")),
    (1 + 1j, complex(INF, INF), ("nan", "nan")),
    (1 + 1j, complex(NAN, 1), ("nan", "nan")),
    (3 + 4j, 1 - 2j, ("-1.0", "2.0")),
]
COMPLEX = [torch.complex64, torch.complex128]


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_quotients(dtype):
    a = torch.tensor([q[0] for q in QUOTIENTS] * 9, dtype=dtype)
    b = torch.tensor([q[1] for q in QUOTIENTS] * 9, dtype=dtype)
    wanted = [q[2] for q in QUOTIENTS] * 9
    assert shown(a / b) == wanted
    assert shown(a.clone().div_(b)) == wanted
    assert shown(torch.stack([a, a], 1)[:, 0] / torch.stack([b, b, b], 1)[:, 1]) == wanted
    for i, (dividend, divisor, quotient) in enumerate(QUOTIENTS):
        assert shown(a[i] / b[i]) == [quotient]
        assert shown(torch.tensor([dividend], dtype=dtype) / divisor) == [quotient]


def test_complex_quotients_at_every_level():
    program = (
        "import sys; sys.path[:0] = [sys.argv[1]]; import test_special_numbers as t\n"
        "for dtype in t.COMPLEX: t.test_complex_quotients(dtype)"
    )
    for level in ("base", "avx2", "avx512"):
        environment = {**os.environ, "TAPER_ISA": level}
        subprocess.run([sys.executable, "-c", program, os.path.dirname(__file__)], env=environment, check=True)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_what_is_made_of_complex_quotients(dtype):
    zero = torch.tensor([0j, 2j], dtype=dtype)
    half = [("inf", "nan"), ("0.0", "-0.5")]
    assert shown(zero.reciprocal()) == shown(zero**-1) == half
    assert shown(torch.tensor([0j], dtype=dtype).rsqrt()) == [("inf", "nan")]
    assert shown(torch.addcdiv(torch.zeros(1, dtype=dtype), zero[1:], zero[:1])) == [("nan", "inf")]
    x = torch.tensor([3 + 4j], dtype=dtype, requires_grad=True)
    (x / torch.tensor([1 - 2j], dtype=dtype)).real.sum().backward()
    assert cmath.isclose(x.grad.item(), (1 / (1 - 2j)).conjugate(), rel_tol=1e-6)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_functions_at_infinity(dtype):
    def at(function, *values):
        return shown(function(torch.tensor(values, dtype=dtype)))

    assert at(torch.exp, complex(-INF, INF), complex(-INF, NAN)) == [("0.0", "0.0")] * 2
    assert at(torch.exp, complex(INF, INF)) == [("inf", "nan")]
    assert at(lambda z: z**-3, 0j) == at(lambda z: z**-1.5, 0j) == [("inf", "nan")]
    assert at(torch.sigmoid, complex(INF, 0)) == [("1.0", "0.0")]
    assert at(torch.sqrt, complex(1, INF), complex(NAN, -INF)) == [("inf", "inf"), ("inf", "-inf")]
    assert at(torch.sgn, complex(-0.0, -0.0)) == [("0.0", "0.0")]
    large = 3e38 if dtype is torch.complex64 else 1.7e308  # the sum of the distance and the part has no place
    root = torch.tensor([complex(large, large)], dtype=dtype).sqrt().item()
    assert cmath.isclose(root, cmath.sqrt(complex(large, large)), rel_tol=1e-6)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_powers_of_whole_numbers_are_exact(dtype):
    x = torch.tensor([1j, -2.5j, complex(INF, NAN)], dtype=dtype)
    assert shown((x**2)[:2]) == shown((x ** (2 + 0j))[:2]) == [("-1.0", "0.0"), ("-6.25", "0.0")]
    assert shown(x**1) == shown(x)
    assert (x**0).tolist() == [1, 1, 1]


# ---- Numbers that the dtype does not hold ----
def refused(function, dtype, number):
    x = torch.tensor([1, 2, 3, 0]).to(dtype)
    with pytest.raises(RuntimeError, match=r"(without overflow|outside the representable range of \w+)$"):
        function(x, number)


FACTORS = {
    "add": lambda x, n: torch.add(x, x, alpha=n),
    "add_": lambda x, n: x.add_(x, alpha=n),
    "sub": lambda x, n: torch.sub(x, x, alpha=n),
    "rsub": lambda x, n: torch.rsub(x, x, alpha=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "addmm alpha": lambda x, n: torch.addmm(x[None, :2], x[:2, None], x[None, :2], alpha=n),
    "addmm beta": lambda x, n: torch.addmm(x[None, :2], x[:2, None], x[None, :2], beta=n),
    "addmv": lambda x, n: torch.addmv(x[:2], x[:2, None], x[:1], alpha=n),
    "addr": lambda x, n: torch.addr(x[:2, None], x[:2], x[:2], beta=n),
    "addbmm": lambda x, n: torch.addbmm(x[None, :2], x[None, :2, None], x[None, None, :2], alpha=n),
    "baddbmm": lambda x, n: torch.baddbmm(x[None, None, :2], x[None, :2, None], x[None, None, :2], alpha=n),
    "index_add": lambda x, n: x.index_add(0, torch.tensor([0]), x[:1], alpha=n),
    "threshold": lambda x, n: nn.functional.threshold(x, n, 1),
    "pow": lambda x, n: x**n,
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n, dtype=x.dtype),
    "linspace": lambda x, n: torch.linspace(0, n, 3, dtype=x.dtype),
}


@pytest.mark.parametrize("name", FACTORS)
def test_factors_that_do_not_fit(name):
    refused(FACTORS[name], torch.uint8, 300)
    refused(FACTORS[name], torch.int8, 300)
    refused(FACTORS[name], torch.int32, 2**40)
    FACTORS[name](torch.tensor([1, 2, 3, 0], dtype=torch.uint8), 200)
    FACTORS[name](torch.tensor([1, 2, 3, 0]), 2**40)


def test_factors_of_floats():
    refused(FACTORS["add"], torch.float32, 1e39)
    refused(FACTORS["addmm alpha"], torch.float32, 1j)
    refused(nn.functional.leaky_relu, torch.float32, 1e39)
    x = torch.ones(1)
    assert torch.add(x, x, alpha=INF).item() == INF
    assert torch.add(x, x, alpha=1e38).item() == pytest.approx(1e38)
    half = nn.functional.leaky_relu(-x.half(), 70000.0)  # computes in float32
    assert half.item() == -INF


def test_bool_factors_are_truth_values():
    x = torch.tensor([True, False])
    assert torch.add(x, x, alpha=-1).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_bounds_that_do_not_fit(dtype):
    x = torch.tensor([1, 2, 3, 0]).to(dtype)
    for function in (torch.clamp_min, lambda x, n: torch.clamp(x, n), lambda x, n: x.clone().clamp_(n, 7)):
        refused(function, dtype, 2**40)
    for function in (torch.clamp_max, lambda x, n: torch.clamp(x, max=n), lambda x, n: x.clone().clip_(0, n)):
        refused(function, dtype, -(2**40))
        assert function(x, 2**40).tolist() == [1, 2, 3, 0]
    assert torch.clamp(x, min=-(2**40)).tolist() == [1, 2, 3, 0]
    assert torch.clamp(x, -300, 2).tolist() == [1, 2, 2, 0]
    assert torch.clamp(x, 1.5).dtype is torch.float32
    refused(torch.clamp_min, torch.float16, 70000)


def test_padding_numbers():
    pad = lambda x, n: nn.functional.pad(x, (1, 0), value=n)
    for number in (-1, 300, NAN):
        refused(pad, torch.uint8, number)
    assert str(pad(torch.ones(1), NAN).tolist()) == "[nan, 1.0]"
    assert pad(torch.ones(1), None).tolist() == [0, 1]
    assert pad(torch.tensor([5]), 2.7).tolist() == [2, 5]


def test_nan_as_a_number():
    x = torch.tensor([NAN, INF, -INF, 1.0])
    assert str(torch.nan_to_num(x, NAN, 1.0, 2.0).tolist()) == "[nan, 1.0, 2.0, 1.0]"
    assert str(torch.nan_to_num(x, 0.0, NAN, NAN).tolist()) == "[0.0, nan, nan, 1.0]"
    assert torch.nan_to_num(x, None, 5.0).tolist()[:2] == [0, 5]


def test_no_ranges_of_bools():
    for function in (torch.linspace, torch.logspace):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            function(0, 1, 2, dtype=torch.bool)


def test_hardtanh_holds_integers_as_clamp_does():
    x = torch.tensor([1, 2, 3, 0], dtype=torch.uint8)
    assert nn.functional.hardtanh(x, -1.5, 2**40).tolist() == [1, 2, 3, 0]
    assert nn.functional.hardtanh(x.clone(), -300, 2, inplace=True).tolist() == [1, 2, 2, 0]
    refused(lambda t, n: nn.functional.hardtanh(t, -300, n), torch.uint8, -200)


# ---- Dtypes that an operator does not take ----
UNTYPED = {
    "median": (torch.median, torch.bool),
    "nanmedian": (lambda x: torch.nanmedian(x, 0), torch.bool),
    "kthvalue": (lambda x: torch.kthvalue(x, 1), torch.bool),
    "topk": (lambda x: torch.topk(x, 1), torch.bool),
    "searchsorted": (lambda x: torch.searchsorted(x, x), torch.bool),
    "bucketize": (lambda x: torch.bucketize(x, x), torch.bool),
    "isin": (lambda x: torch.isin(x, x), torch.bool),
    "isin of a number": (lambda x: torch.isin(x, 1), torch.complex64),
    "cross": (lambda x: torch.linalg.cross(x, x), torch.bool),
    "trapezoid": (torch.trapezoid, torch.bool),
    "cumulative_trapezoid": (lambda x: torch.cumulative_trapezoid(x, x), torch.bool),
    "gradient": (torch.gradient, torch.uint8),
    "hypot": (lambda x: torch.hypot(x, x), torch.int64),
    "igamma": (lambda x: torch.igamma(x, x), torch.int64),
    "logaddexp": (lambda x: torch.logaddexp(x, x), torch.int64),
    "logaddexp2": (lambda x: torch.logaddexp2(x, x), torch.bool),
    "lerp": (lambda x: torch.lerp(x, x, 0.5), torch.int64),
    "mse_loss": (lambda x: nn.functional.mse_loss(x, x), torch.complex64),
    "glu": (lambda x: nn.functional.glu(x[None, :2]), torch.complex64),
    "vecdot": (lambda x: torch.linalg.vecdot(x, x), torch.int64),
    "matrix_norm": (lambda x: torch.linalg.norm(x[None], 1), torch.int64),
    "multi_margin_loss": (lambda x: nn.functional.multi_margin_loss(x[None], torch.tensor([0])), torch.int64),
}


@pytest.mark.parametrize("name", UNTYPED)
def test_dtypes_that_are_refused(name):
    function, dtype = UNTYPED[name]
    with pytest.raises(NotImplementedError, match="not implemented for|not support|Unsupported|Expected a floating"):
        function(torch.tensor([1, 0, 2]).to(dtype))


def test_dtypes_that_do_not_go_together():
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Long"):
        torch.linalg.cross(x, x.long())
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.linalg.vecdot(x, x.double())
    for target in (x.long(), x > 0):
        with pytest.raises(RuntimeError, match="kl_div"):
            nn.functional.kl_div(x, target)
    whole = torch.tensor([1, 2])
    with pytest.raises(RuntimeError, match="result type"):
        whole.polygamma_(1)
    assert whole.tolist() == [1, 2]


def test_dtypes_of_results():
    assert torch.result_type(torch.ones(1, dtype=torch.uint8), 300) is torch.uint8
    assert torch.result_type(torch.ones(1, dtype=torch.uint8), 1e39) is torch.float32
    assert torch.repeat_interleave(torch.tensor([2, 1], dtype=torch.int32)).dtype is torch.int32
    assert torch.repeat_interleave(torch.tensor([2, 1])).dtype is torch.int64

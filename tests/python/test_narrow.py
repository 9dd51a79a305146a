"""Cheap maps of 8- and 16-bit elements have kernels of their own: they give what the wider type gives, converted, on
every instruction set."""

import os
import subprocess
import sys

import pytest
import taper as torch

WIDE = {
    torch.uint8: torch.int32,
    torch.int8: torch.int32,
    torch.int16: torch.int32,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}
ARITHMETIC = [torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum]
TESTS = [torch.lt, torch.ge, torch.eq, torch.ne]
OF_ONE = [torch.neg, torch.abs, torch.sign, torch.signbit, torch.logical_not, torch.floor, torch.isfinite]
LOGICAL = [torch.logical_and, torch.logical_or, torch.logical_xor]
SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 65504.0, 6e-8, 1e-30]


def values(dtype, count, seed):
    """Elements from the whole range of a dtype, the special ones of floats first."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(-(2**15), 2**15, (count,), generator=generator).to(torch.int16)
    if not dtype.is_floating_point:
        return bits.to(dtype)
    made = bits.view(dtype)
    special = torch.tensor(SPECIAL[seed:] + SPECIAL[:seed], dtype=torch.float32).to(dtype)
    made[: min(count, len(special))] = special[:count]
    return made


def same(got, expected):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    a, b = (x.double() for x in (got, expected))
    assert ((a == b) & (torch.signbit(a) == torch.signbit(b)) | (a.isnan() & b.isnan())).all()


def check_dtype(dtype):
    wide = WIDE[dtype]
    for count in (1, 15, 16, 37, 5000):
        x, y = values(dtype, count, 0), values(dtype, count, 3)
        for f in ARITHMETIC:
            same(f(x, y), f(x.to(wide), y.to(wide)).to(dtype))
        for f in TESTS:
            same(f(x, y), f(x.to(wide), y.to(wide)))
        for f in OF_ONE:
            expected = f(x.to(wide))
            same(f(x), expected if expected.dtype == torch.bool else expected.to(dtype))
        same(x.relu(), x.to(wide).relu().to(dtype))
        for bounds in ((-20, 60), (20, -60) if dtype.is_signed else (60, 20), (-1000, 1000)):
            same(x.clamp(*bounds), x.to(wide).clamp(*bounds).to(dtype))
        same(x.clamp(x[0], y[0]), x.to(wide).clamp(x[0].to(wide), y[0].to(wide)).to(dtype))
        same(x.clamp(y, y + 9), x.to(wide).clamp(y.to(wide), (y + 9).to(wide)).to(dtype))
        same(x + 2, (x.to(wide) + 2).to(dtype))
        same(3 - x, (3 - x.to(wide)).to(dtype))
        same(x < 7, x.to(wide) < 7)
        for fraction in (0.5, torch.tensor(0.5)):  # integers are compared with it as floats
            same(x < fraction, x.to(wide) < fraction)
            same(torch.eq(x, fraction), torch.eq(x.to(wide), fraction))
            same(torch.mul(x, fraction), torch.mul(x.to(wide), fraction).to((x * fraction).dtype))
        same(torch.add(x, y, alpha=3), (x.to(wide) + 3 * y.to(wide)).to(dtype))
        same(x.clone().mul_(y), (x.to(wide) * y.to(wide)).to(dtype))
    x, y = values(dtype, 3000, 0).view(50, 60), values(dtype, 3000, 3).view(60, 50)
    same(x * y.t(), (x.to(wide) * y.t().to(wide)).to(dtype))
    same(x[:, ::2] + y.t()[:, 1::2], (x.to(wide)[:, ::2] + y.t().to(wide)[:, 1::2]).to(dtype))
    same(x * y[:, 0], (x.to(wide) * y[:, 0].to(wide)).to(dtype))
    same(x - x[:, :1], (x.to(wide) - x[:, :1].to(wide)).to(dtype))
    same(x[0] * x[1, 5], (x[0].to(wide) * x[1, 5].to(wide)).to(dtype))
    out = torch.empty(50, 60, dtype=torch.float64 if dtype.is_floating_point else torch.int64)
    same(torch.mul(x, x, out=out), (x.to(wide) * x.to(wide)).to(dtype).to(out.dtype))


def check_folds(dtype):
    """Columns and rows that are joined before they are widened, and those that are too short for that."""
    wide = torch.int32
    for shape in ((1,), (511,), (512,), (4099,), (70001,), (7, 700), (700, 7), (300, 16), (300, 37), (5, 40, 33)):
        count = torch.Size(shape).numel()
        x = values(torch.int16, count, 0)
        x = (x % 3 == 0 if dtype == torch.bool else x.to(dtype)).view(shape)
        dims = [[], *([d] for d in range(len(shape))), list(range(len(shape)))]
        for view in (x, x.flip(0), x.transpose(0, -1), x[..., ::2]):
            for dim in dims:
                for f in (torch.amax, torch.amin):
                    same(f(view, dim), f(view.to(wide), dim).to(dtype))
                if dim:
                    for f in (torch.any, torch.all):
                        same(f(view, dim).to(torch.bool), f(view.to(wide), dim))
            both = torch.aminmax(view)
            same(both[0], view.to(wide).amin().to(dtype))
            same(both[1], view.to(wide).amax().to(dtype))
        middle = range(max(count // 2 - 9, 0), min(count // 2 + 9, count))
        for place in {0, count - 1, *middle}:  # no element is left out
            one = torch.zeros(count, dtype=torch.int16)
            one[place] = 1
            one = one.to(dtype).view(shape)
            assert one.amax().item() == 1 and one.any().item() and not (1 - one.to(wide)).to(dtype).all().item()


def check_truth():
    """Truth values: every pair of them, and bytes that are neither 0 nor 1."""
    for count in (1, 15, 16, 37, 5000):
        x, y = (values(torch.int16, count, seed) % 3 == 0 for seed in (0, 3))
        wide = [x.to(torch.int32), y.to(torch.int32)]
        for f in ARITHMETIC:
            if f is not torch.sub:
                same(f(x, y), f(*wide) != 0)
        for f in TESTS + LOGICAL:
            same(f(x, y), f(*wide))
        for f in (torch.logical_not, torch.sign):
            same(f(x), f(wide[0]) != 0)
        same(torch.eq(x, True), wide[0] == 1)
        same(torch.add(x, 2), wide[0].long() + 2)
    odd = torch.tensor([0, 1, 2, 255] * 9, dtype=torch.uint8)
    true = odd != 0
    same(odd.view(torch.bool) == true, torch.ones(36, dtype=torch.bool))
    same((odd.view(torch.bool) * true).view(torch.uint8), true.to(torch.uint8))
    same((odd.view(torch.bool) + true).view(torch.uint8), true.to(torch.uint8))
    same(torch.logical_xor(odd.view(torch.bool), true), torch.zeros(36, dtype=torch.bool))


def test_signs_of_bfloat16_keep_zeros_and_write_one_nan():
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.bfloat16)
    for f in (torch.neg, torch.abs):
        expected = f(x.float()).to(torch.bfloat16)
        assert (f(x).view(torch.int16) == expected.view(torch.int16)).all()


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_narrow_elements_compute_as_wide_ones(dtype):
    check_dtype(dtype)


def test_truth_values_compute_as_integers():
    check_truth()


FOLDED = [torch.bool, torch.uint8, torch.int8, torch.int16]


@pytest.mark.parametrize("dtype", FOLDED, ids=str)
def test_narrow_elements_fold_as_wide_ones(dtype):
    check_folds(dtype)


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_narrow_elements_on_older_processors(isa):
    code = """
import test_narrow
for dtype in test_narrow.WIDE:
    test_narrow.check_dtype(dtype)
for dtype in test_narrow.FOLDED:
    test_narrow.check_folds(dtype)
test_narrow.check_truth()
"""
    where = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    environment = dict(os.environ, TAPER_ISA=isa, PYTHONPATH=where)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)

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
        same(x.relu(), x.to(wide).relu().to(dtype))
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


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_narrow_elements_compute_as_wide_ones(dtype):
    check_dtype(dtype)


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_narrow_elements_on_older_processors(isa):
    code = "import test_narrow\nfor dtype in test_narrow.WIDE: test_narrow.check_dtype(dtype)"
    where = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    environment = dict(os.environ, TAPER_ISA=isa, PYTHONPATH=where)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)

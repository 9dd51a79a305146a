"""Folds and scans along lines of every length: lanes, second sets of lanes and what is left over are merged into what a
plain loop gives. The derivative of digamma, which has a short way for float32."""

import math

import pytest
import taper as torch


def line(n, seed=0):
    return torch.rand(n, generator=torch.Generator().manual_seed(seed)) * 0.2 + 0.9


@pytest.mark.parametrize("n", [1, 15, 31, 32, 33, 63, 64, 127, 128, 129, 191, 192, 193, 500, 4096, 4101, 9000])
def test_folds_of_every_length(n):
    x = line(n)
    values = x.tolist()
    assert math.isclose(x.prod().item(), math.prod(values), rel_tol=1e-5)
    assert math.isclose(x.norm(3).item(), sum(v**3 for v in values) ** (1 / 3), rel_tol=1e-5)
    assert x.amin().item() == min(values)
    assert x.amax().item() == max(values)
    for at in {0, n // 2, n - 1}:
        y = x.clone()
        y[at] = 0.25
        assert y.amin().item() == 0.25
        assert math.isclose(y.prod().item(), math.prod(y.tolist()), rel_tol=1e-5)
        y[at] = math.nan
        assert all(math.isnan(f(y).item()) for f in (torch.amin, torch.amax, torch.min, torch.max, torch.prod))
        low, high = torch.aminmax(y)
        assert math.isnan(low.item())
        assert math.isnan(high.item())
        assert math.isclose(y.nansum().item(), math.fsum(values) - values[at], rel_tol=1e-5, abs_tol=1e-6)


@pytest.mark.parametrize("n", [1, 7, 1023, 1024, 2500])
def test_running_extremes_keep_the_last_of_equals_and_any_nan(n):
    x = (line(n, 1) * 40).round()
    x[n // 2 :: 97] = math.nan if n > 1024 else 36.0
    for name, takes in (("cummax", lambda v, m: v >= m), ("cummin", lambda v, m: v <= m)):
        values, indices = getattr(x, name)(0)
        best, at = -math.inf if name == "cummax" else math.inf, -1
        for i, v in enumerate(x.tolist()):
            if math.isnan(v) or takes(v, best):
                best, at = v, i
            assert indices[i].item() == at
            assert values[i].item() == best or math.isnan(values[i].item()) == math.isnan(best) is True


def test_trigamma_of_floats_is_the_double_one():
    x = torch.cat([torch.linspace(-9.95, 30, 4001), torch.tensor([1e-18, 1e-3, 1e10, 3e38, -0.5, -1e-3])])
    expected = torch.polygamma(1, x.double())
    assert torch.allclose(torch.polygamma(1, x).double(), expected, rtol=1e-7, atol=1e-38)
    y = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(y.digamma().sum(), y)
    assert torch.allclose(slope.double(), expected, rtol=1e-7, atol=1e-38)
    special = torch.tensor([0.0, -0.0, -1.0, -7.0, -math.inf, math.inf, math.nan])
    inf = math.inf
    assert torch.polygamma(1, special)[:6].tolist() == [inf, inf, inf, inf, inf, 0]
    assert torch.polygamma(1, special)[6].isnan()

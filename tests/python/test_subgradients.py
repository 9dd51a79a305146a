"""Gradients where a function has a kink, a tie or a NaN: PyTorch 2.15's choices, as it answered."""

import math

import pytest
import taper as torch

F = torch.nn.functional
NAN = math.nan
X = [1.0, -1.0, 0.5, 2.0, -2.0, NAN, 0.3, 0.0]


def gradients(function, *values):
    inputs = [torch.tensor(v * 3, requires_grad=True) for v in values]  # long enough for whole vectors
    function(*inputs).sum().backward()
    return [t.grad[: len(v)].tolist() for t, v in zip(inputs, values)]


def same(got, wanted):
    return all(len(g) == len(w) and all(a == b or a != a and b != b for a, b in zip(g, w)) for g, w in zip(got, wanted))


LOW, HIGH = [-1.0] * 8, [1.0] * 8


@pytest.mark.parametrize(
    "function, values, wanted",
    [
        (lambda x: x.clamp(-1, 1), [X], [[0, 0, 1, 0, 0, 0, 1, 1]]),
        (lambda x: torch.clamp_min(x, -1.0), [X], [[1, 0, 1, 1, 0, 0, 1, 1]]),
        (lambda x: (x * 1).clamp_(max=1), [X], [[0, 1, 1, 0, 1, 0, 1, 1]]),
        (
            lambda x, a, b: x.clamp(a, b),
            [X, LOW, HIGH],
            [[0.5, 0.5, 1, 0, 0, 1, 1, 1], [0, 0.5, 0, 0, 1, 0, 0, 0], [0.5, 0, 0, 1, 0, 0, 0, 0]],
        ),
        (lambda x, a, b: x.clamp(a, b), [X, HIGH, LOW], [[0, 0, 0, 0, 0, 1, 0, 0], [0] * 8, [1] * 8]),
        (
            lambda x, a, b: x.clamp(a, b),
            [X, [0.5] * 8, [0.5] * 8],
            [[0, 0, 1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 0, 0, 0, 0]],
        ),
        (lambda x, a: x.clamp(min=a), [X, LOW], [[1, 0.5, 1, 1, 0, 1, 1, 1], [0, 0.5, 0, 0, 1, 1, 0, 0]]),
        (lambda x, b: torch.clamp_max(x, b), [X, HIGH], [[0.5, 1, 1, 0, 1, 1, 1, 1], [0.5, 0, 0, 1, 0, 1, 0, 0]]),
        (torch.maximum, [X, HIGH], [[0.5, 0, 0, 1, 0, 1, 0, 0], [0.5, 1, 1, 0, 1, 1, 1, 1]]),
        (torch.minimum, [X, HIGH], [[0.5, 1, 1, 0, 1, 1, 1, 1], [0.5, 0, 0, 1, 0, 1, 0, 0]]),
        (torch.fmax, [X, HIGH], [[0.5, 0, 0, 1, 0, 0, 0, 0], [0.5, 1, 1, 0, 1, 1, 1, 1]]),
        (torch.fmin, [X, HIGH], [[0.5, 1, 1, 0, 1, 0, 1, 1], [0.5, 0, 0, 1, 0, 1, 0, 0]]),
        (torch.relu, [X], [[1, 0, 1, 1, 0, 1, 1, 0]]),
        (torch.abs, [X], [[1, -1, 1, 1, -1, 0, 1, 0]]),
        (F.hardtanh, [X], [[0, 0, 1, 0, 0, 0, 1, 1]]),
        (F.hardshrink, [X], [[1, 1, 0, 1, 1, 0, 0, 0]]),
        (F.softshrink, [X], [[1, 1, 0, 1, 1, 0, 0, 0]]),
        (lambda x: F.hardswish(3 * x) / 3, [X], [[1, 0, 1, 1, 0, NAN, 0.8, 0.5]]),
        (torch.atan2, [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[0, 0, 1], [0, -1, 0]]),
    ],
)
def test_choices(function, values, wanted):
    got = gradients(function, *values)
    assert same([[round(v, 6) for v in g] for g in got], wanted), got


def test_signs_of_nan_are_zero():
    x = torch.tensor([NAN, 2.0, -3.0])
    assert torch.sign(x).tolist() == torch.sgn(x).tolist() == [0, 1, -1]
    assert torch.heaviside(x, torch.tensor(0.5)).tolist() == [0, 1, 0]


def test_a_median_that_is_nan_shares_its_gradient():
    x = torch.tensor([NAN, NAN, 1.0], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0]

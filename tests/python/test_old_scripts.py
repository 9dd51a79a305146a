"""What older scripts say: numbers before tensors, the order that PyTorch had before keywords (taken, with a warning),
and names of that time."""

import pytest

import taper as torch

x, y, v = torch.ones(2, 2), torch.full((2, 2), 3.0), torch.ones(2)


@pytest.mark.parametrize(
    "call, value",
    [
        (lambda: x.clone().add_(2, y), 7),
        (lambda: torch.add(x, 2, y), 7),
        (lambda: x.sub(2, y), -5),
        (lambda: x.clone().addcmul_(2.5, y, y), 23.5),
        (lambda: x.clone().addcdiv_(-2, y, y), -1),
        (lambda: torch.addmm(2, x, 3, y, y), 56),
        (lambda: torch.addmm(2, x, y, y), 20),
        (lambda: x.clone().addmm_(2, 3, y, y), 56),
        (lambda: x.addmm(2, y, y), 20),
        (lambda: torch.addmv(2, v, 3, x, v), 8),
        (lambda: torch.addr(2, x, 3, v, v), 5),
        (lambda: torch.baddbmm(2, x[None], 3, y[None], y[None])[0], 56),
        (lambda: torch.addbmm(2, x, 3, y[None], y[None]), 56),
    ],
)
def test_old_orders(call, value):
    with pytest.warns(UserWarning, match="deprecated"):
        result = call()
    assert result.tolist() == torch.full_like(result, value).tolist()


def test_other_mistakes_stay_errors():
    for call in (lambda: x.mul(2, y), lambda: x.add(2, 3, y), lambda: x.addcmul(2, 3, y, y), lambda: torch.add(2, "x")):
        with pytest.raises(TypeError):
            call()


def test_names_of_that_time():
    from taper._utils import _flatten_dense_tensors, _unflatten_dense_tensors
    from taper.autograd.variable import Variable

    changed = torch.tensor([-1.0, 2.0])
    assert isinstance(changed, Variable)
    assert torch.nn.functional.relu_(changed) is changed
    assert changed.tolist() == [0, 2]
    parts = [y, v]
    row = _flatten_dense_tensors(parts)
    assert row.tolist() == [3, 3, 3, 3, 1, 1]
    assert [p.tolist() for p in _unflatten_dense_tensors(row, parts)] == [
        y.tolist(),
        v.tolist(),
    ]


def test_rcond_is_the_old_word_for_rtol_and_comes_second():
    a = torch.diag(torch.tensor([100.0, 1.0]))
    expected = [[pytest.approx(0.01), 0.0], [0.0, 0.0]]
    for made in (
        torch.linalg.pinv(a, 0.05),
        torch.linalg.pinv(a, 0.05, True),
        torch.linalg.pinv(a, rcond=torch.tensor(0.05), hermitian=True),
        torch.linalg.pinv(a, rtol=0.05),
    ):
        assert made.tolist() == expected
    assert torch.linalg.pinv(a, atol=0.05)[1, 1] == 1.0
    with pytest.raises(TypeError, match="rcond"):
        torch.linalg.pinv(a, 0.05, atol=1.0)


def test_condition_numbers_of_singular_matrices_are_no_errors():
    both = torch.stack([torch.zeros(2, 2), torch.eye(2)]).double()
    for p, expected in (1, 1.0), ("fro", 2.0), ("nuc", 4.0):
        assert torch.linalg.cond(both, p).tolist() == [float("inf"), pytest.approx(expected)]


def test_what_is_deprecated_says_so():
    with pytest.warns(UserWarning, match="interpolate"):
        assert torch.nn.functional.upsample(torch.ones(1, 1, 2), 4).shape == (1, 1, 4)
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="multi_dot"):
            torch.chain_matmul(torch.eye(2), torch.eye(2))
    finally:
        torch.set_warn_always(before)


def test_a_list_of_arrays_is_said_to_be_slow_once():
    import subprocess
    import sys

    program = "import numpy, taper; [taper.tensor([numpy.ones(2)] * 3) for _ in range(2)]"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert told.count("list of numpy.ndarrays is extremely slow") == 1

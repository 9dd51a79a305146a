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
    assert (
        isinstance(changed, Variable) and torch.nn.functional.relu_(changed) is changed and changed.tolist() == [0, 2]
    )
    parts = [y, v]
    row = _flatten_dense_tensors(parts)
    assert row.tolist() == [3, 3, 3, 3, 1, 1] and [p.tolist() for p in _unflatten_dense_tensors(row, parts)] == [
        y.tolist(),
        v.tolist(),
    ]

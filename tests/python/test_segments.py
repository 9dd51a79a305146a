"""torch.segment_reduce: runs of rows reduced."""

import pytest
import taper as torch


@pytest.mark.parametrize(
    "reduce, expected",
    [
        ("sum", [4.0, 0.0, 21.0, 11.0]),
        ("mean", [2.0, float("nan"), 7.0, 11.0]),
        ("max", [3.0, -float("inf"), 9.0, 11.0]),
        ("min", [1.0, float("inf"), 5.0, 11.0]),
        ("prod", [3.0, 1.0, 315.0, 11.0]),
    ],
)
def test_runs_by_lengths_and_by_offsets(reduce, expected):
    data = torch.arange(1.0, 12.0, 2.0, requires_grad=True)
    for runs in ({"lengths": torch.tensor([2, 0, 3, 1])}, {"offsets": torch.tensor([0, 2, 2, 5, 6])}):
        result = torch.segment_reduce(data, reduce, **runs)
        assert torch.allclose(result, torch.tensor(expected), equal_nan=True)
    torch.segment_reduce(data, "mean", lengths=torch.tensor([2, 4])).sum().backward()
    assert data.grad.tolist() == [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]


def test_rows_have_runs_of_their_own():
    data = torch.arange(12.0).view(2, 6)
    assert torch.segment_reduce(data, "sum", lengths=torch.tensor([[2, 4], [3, 3]]), axis=1).tolist() == [
        [1, 14],
        [21, 30],
    ]
    with pytest.raises(RuntimeError, match="Expected all rows of lengths along axis to sum"):
        torch.segment_reduce(data, "sum", lengths=torch.tensor([1]))
    with pytest.raises(RuntimeError, match="Either lengths or offsets must be defined"):
        torch.segment_reduce(data, "sum")


def test_not_a_number_takes_the_gradient():
    data = torch.tensor([1, float("nan"), 3, 4, 5, 5], requires_grad=True)
    made = torch.segment_reduce(data, "max", lengths=torch.tensor([1, 2, 3]))
    assert made[1].isnan()
    assert made[2] == 5
    made.sum().backward()
    assert data.grad.tolist() == [1, 1, 0, 0, 0.5, 0.5]
    data.grad = None
    torch.segment_reduce(data, "prod", lengths=torch.tensor([1, 2, 3]), initial=2).sum().backward()
    assert data.grad[2].isnan()
    assert data.grad[[0, 1, 3, 4, 5]].tolist() == [2, 6, 50, 40, 40]
    numbers = torch.tensor([2.0, 5.0, 3.0, 4.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda x: torch.segment_reduce(x, "prod", lengths=torch.tensor([1, 3])), numbers
    )

"""What PyTorch says of likely mistakes, at the line that makes them."""

import warnings

import pytest

import taper as torch
import taper.nn.functional as F
from taper import nn

COLUMN, ROW, PROBABILITIES = torch.ones(3, 1), torch.ones(3), torch.full((2, 2), 0.5)


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: F.mse_loss(COLUMN, ROW),
            r"Using a target size \(torch.Size\(\[3\]\)\) that is different to the input size \(torch.Size\(\[3, 1\]\)\)",
        ),
        (lambda: nn.MSELoss()(COLUMN, ROW), "Using a target size"),
        (lambda: F.l1_loss(COLUMN, ROW), "Using a target size"),
        (lambda: F.smooth_l1_loss(COLUMN, ROW), "Using a target size"),
        (lambda: nn.HuberLoss()(COLUMN, ROW), "Using a target size"),
        (lambda: F.mse_loss(ROW, ROW, size_average=False), "please use reduction='sum'"),
        (lambda: F.softmax(ROW), "Implicit dimension choice for softmax"),
        (lambda: nn.LogSoftmax()(ROW), "Implicit dimension choice for log_softmax"),
        (lambda: F.kl_div(PROBABILITIES.log(), PROBABILITIES), "'batchmean' divides only by the batch size"),
        (lambda: nn.KLDivLoss()(PROBABILITIES.log(), PROBABILITIES), "'batchmean' divides only by the batch size"),
        (lambda: (torch.ones(2, requires_grad=True) * 2).grad, "is not a leaf Tensor is being accessed"),
        (lambda: F.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)), "align_corners=False since 1.3.0"),
        (lambda: F.affine_grid(torch.ones(1, 2, 3), [1, 1, 2, 2]), "align_corners=False since 1.3.0"),
    ],
)
def test_likely_mistakes_are_told(call, words):
    with pytest.warns(UserWarning, match=words):
        call()


def test_some_are_told_once():
    for call, words in (
        (lambda: torch.meshgrid(ROW, ROW), "indexing argument"),
        (lambda: torch.ones(2, 2, 2).T, "deprecated"),
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            call(), call()
        assert len(told) <= 1
        assert all(words in str(one.message) for one in told)  # another test may have been the first


def test_the_line_is_the_callers():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        F.mse_loss(COLUMN, ROW)
        F.softmax(ROW)
        F.kl_div(PROBABILITIES.log(), PROBABILITIES)
        (torch.ones(2, requires_grad=True) * 2).grad
    assert len(told) == 4
    assert all(one.filename == __file__ for one in told)


def test_ordinary_calls_say_nothing_and_errors_are_possible():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        y.retain_grad()
        (
            F.mse_loss(y, torch.zeros(2))
            + F.softmax(y, 0).sum()
            + F.kl_div(PROBABILITIES.log(), PROBABILITIES, reduction="batchmean")
        ).backward()
        assert x.grad is not None
        assert y.grad is not None
        assert x.detach().grad is None
        assert torch.ones(2, 3).T.shape == (3, 2)
        torch.meshgrid(ROW, ROW, indexing="ij")
        nn.CrossEntropyLoss()(COLUMN.expand(3, 4), torch.zeros(3, dtype=torch.int64))
        with pytest.raises(UserWarning, match="not a leaf"):
            (x * 2).grad

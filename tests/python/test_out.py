"""out=: in which dtype a call computes, which shape the tensor keeps, and what is said when it is resized."""

import warnings

import pytest
import taper as torch


def test_computes_in_the_inputs_dtype():
    small = torch.tensor([100], dtype=torch.int8)
    assert torch.add(small, small, out=torch.empty(1, dtype=torch.int64)).tolist() == [-56]
    half = torch.tensor([33000.0], dtype=torch.float16)
    assert torch.mul(half, 2, out=torch.empty(1, dtype=torch.float64)).tolist() == [float("inf")]
    truth = torch.tensor([True])
    assert torch.add(truth, truth, out=torch.empty(1, dtype=torch.int64)).tolist() == [1]
    assert torch.mul(torch.tensor([2049.0], dtype=torch.float16), 1.0001, out=torch.empty(1)).tolist() == [2048.0]


def test_creation_writes_into_views():
    y = torch.zeros(2, 3)
    torch.arange(0, 4, out=y.narrow(1, 1, 2))
    assert y.tolist() == [[0, 0, 1], [0, 2, 3]]
    z = torch.zeros(3, 2).t()
    assert torch.linspace(0, 5, 6, out=z) is z
    assert z.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert z.stride() == (1, 2)
    torch.logspace(0, 3, 4, base=2, out=y.narrow(1, 0, 2))
    assert y.tolist() == [[1, 2, 1], [4, 8, 3]]
    torch.range(1, 4, out=y.narrow(1, 1, 2))
    assert y.tolist() == [[1, 1, 2], [4, 3, 4]]
    torch.zeros(2, 2, out=y.narrow(1, 1, 2))
    assert y.tolist() == [[1, 0, 0], [4, 0, 0]]
    torch.eye(2, out=y.narrow(1, 0, 2))
    assert y.tolist() == [[1, 0, 0], [0, 1, 0]]
    torch.full((2, 2), 7, out=y.narrow(1, 1, 2))
    assert y.tolist() == [[1, 7, 7], [0, 7, 7]]


def test_creation_takes_the_dtype_of_out():
    assert torch.arange(3, out=torch.empty(0, dtype=torch.float16)).dtype is torch.float16
    torch.manual_seed(1)
    expected = torch.randn(2, dtype=torch.complex64)
    torch.manual_seed(1)
    assert torch.equal(torch.randn(2, out=torch.empty(0, dtype=torch.complex64)), expected)
    with pytest.raises(RuntimeError, match="does not match dtype of out parameter"):
        torch.zeros(2, dtype=torch.float64, out=torch.empty(2))


def test_resizing_is_told():
    with pytest.warns(
        UserWarning,
        match=r"An output with one or more elements was resized since it had shape \[2\], which does not match the required output shape \[3\]",
    ):
        out = torch.add(torch.ones(3), 1, out=torch.empty(2))
    assert out.tolist() == [2, 2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.add(torch.ones(3), 1, out=torch.empty(0))
        torch.add(torch.ones(3), 1, out=torch.empty(3))
        torch.zeros(3, out=torch.empty(2))


def test_a_result_that_has_no_place_in_out():
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.add(torch.ones(1), 1, out=torch.empty(1, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.ones(1, dtype=torch.int64).mul_(1.5)

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


def test_modules_that_old_packages_import():
    from taper import _VF
    from taper._lowrank import svd_lowrank
    from taper.nn import _reduction
    from taper.nn.parallel import comm
    from taper.nn.parallel._functions import Broadcast, Gather, ReduceAddCoalesced, Scatter
    from taper.onnx import operators

    assert [_reduction.get_enum(word) for word in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.raises(ValueError, match="x is not a valid value for reduction"):
        _reduction.get_enum("x")
    assert _reduction.legacy_get_string(False, None, False) == "sum"
    lstm, steps = torch.nn.LSTM(3, 4), torch.randn(2, 1, 3)
    states = torch.zeros(1, 1, 4), torch.zeros(1, 1, 4)
    ours = _VF.lstm(steps, states, lstm._flat_weights, True, 1, 0.0, False, False, False)
    assert torch.equal(ours[0], lstm(steps)[0])
    assert [part.tolist() for part in _VF.split(torch.arange(4), 2)] == [[0, 1], [2, 3]]
    with pytest.raises(AttributeError):
        _VF.nothing_of_the_kind
    assert svd_lowrank is torch.svd_lowrank and comm.broadcast is torch.cuda.comm.broadcast
    with pytest.raises(AssertionError, match="Broadcast function not implemented for CPU tensors"):
        Broadcast.apply([0], x)
    assert all(issubclass(each, torch.autograd.Function) for each in (Gather, ReduceAddCoalesced, Scatter))
    assert operators.reshape_from_tensor_shape(y, operators.shape_as_tensor(torch.ones(4))).shape == (4,)


def test_a_condition_of_bytes():
    bytes_ = torch.tensor([1, 0], dtype=torch.uint8)
    with pytest.warns(UserWarning, match="where received a uint8 condition tensor"):
        assert torch.where(bytes_, v, 5.0).tolist() == [1, 5]
    assert v.where(bytes_, v + 1).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="bool"):
        torch.where(bytes_.int(), v, v)


def test_numpys_words_for_arguments():
    assert torch.linalg.norm(x=y, ord=2, axis=0, keepdims=True).shape == (1, 2)
    assert torch.linalg.matrix_rank(input=torch.eye(3)) == 3
    assert torch.abs(x=-v).tolist() == torch.abs(a=-v).tolist() == [1, 1]
    assert y.amax(None) == 3


def test_floats_may_be_truth_values():
    assert torch.nn.functional.pad(v > 0, (0, 1), value=True).tolist() == [True] * 3
    assert torch.quantile(torch.arange(4.0), True) == 3


def test_products_by_their_sparse_names_take_dense_matrices():
    assert torch.spmm(x, y).tolist() == torch.dsmm(x, y).tolist() == [[6, 6], [6, 6]]


def test_cosine_similarity_of_two_dtypes():
    whole = torch.tensor([[1, 0], [1, 1]])
    assert torch.nn.functional.cosine_similarity(y, whole).tolist() == pytest.approx([0.5**0.5, 1])
    with pytest.raises(NotImplementedError):
        torch.nn.functional.cosine_similarity(whole, whole)


def test_unravel_index_gives_int64():
    rows, columns = torch.unravel_index(torch.tensor([1, 2], dtype=torch.uint8), (4, 1 << 30))
    assert rows.dtype is columns.dtype is torch.int64 and columns.tolist() == [1, 2]

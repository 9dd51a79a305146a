"""torch.masked: PyTorch's answers for functions of what a mask leaves, and for tensors that carry one."""

import math

import pytest

import taper as torch
from taper import masked

X = torch.tensor([[1.5, -0.5, 2.0], [4.0, 3.0, -1.0]])
MASK = torch.tensor([[True, False, True], [False, False, False]])


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("sum", [3.5, 0.0]),
        ("prod", [3.0, 1.0]),
        ("amax", [2.0, -math.inf]),
        ("amin", [1.5, math.inf]),
        ("argmax", [2.0, 0.0]),
        ("mean", [1.75, math.nan]),
        ("median", [1.5, math.nan]),
        ("var", [0.125, math.nan]),
        ("logsumexp", [2.4740769, -math.inf]),
    ],
)
def test_reductions(name, wanted):
    got = getattr(masked, name)(X, 1, mask=MASK)
    assert torch.allclose(got, torch.tensor(wanted), equal_nan=True), got
    assert getattr(masked, name)(X, 1, keepdim=True, mask=MASK).shape == (2, 1)


def test_along_a_dim():
    soft = masked.softmax(X, 1, mask=MASK)
    assert soft[0, 1] == 0
    assert torch.allclose(soft[0].sum(), torch.tensor(1.0))
    assert soft[1].isnan().all()
    assert masked.cumsum(X, 1, mask=MASK).tolist() == [[1.5, 1.5, 3.5], [0, 0, 0]]
    assert torch.allclose(masked.normalize(X, 2.0, 1, mask=MASK)[0], torch.tensor([0.6, 0.0, 0.8]))
    assert masked.norm(X, 1.0, 1, mask=MASK).tolist() == [3.5, 0]
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        masked.mean(X.long(), 1, mask=MASK)


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_tensors_with_a_mask():
    a = masked.masked_tensor(X, MASK, requires_grad=True)
    assert repr(a.sum()) == "MaskedTensor(  3.5000, True)"
    assert a.sum(1).get_mask().tolist() == [True, False]
    assert repr(a * 2).split() == "MaskedTensor( [ [ 3.0000, --, 4.0000], [ --, --, --] ] )".split()
    assert a.reshape(3, 2).get_mask().tolist() == [[True, False], [True, False], [False, False]]
    assert a.to_tensor(-1.0)[1].tolist() == [-1, -1, -1]
    (a.square().sum()).backward()
    assert a.grad.get_data().tolist() == [[3, 0, 4], [0, 0, 0]]
    assert torch.equal(a.grad.get_mask(), MASK)
    with pytest.raises(ValueError, match="masks must match"):
        a + masked.masked_tensor(X, ~MASK)
    with pytest.raises(TypeError, match="dtype bool"):
        masked.masked_tensor(X, X)
    y = X.clone().requires_grad_()
    masked.as_masked_tensor(y, MASK).mean().backward()
    assert y.grad.tolist() == [[0.5, 0, 0.5], [0, 0, 0]]
    assert masked.is_masked_tensor(a)
    assert not masked.is_masked_tensor(y)


def test_reductions_of_numbers_integers_and_complex_values():
    assert masked.prod(torch.tensor(2.0), dim=0, keepdim=True).item() == 2
    assert masked.logsumexp(torch.arange(3)).dtype == torch.int64
    assert abs(masked.logsumexp(torch.zeros(4)).item() - 1.3863) < 1e-3
    x = torch.tensor([[2 + 1j, 3, 4], [1, 2 - 1j, 0]])
    assert masked.var(x, dim=1).dtype == torch.complex64
    assert torch.allclose(masked.var(x, dim=1), torch.full((2,), 4 / 3 + 0j))


def test_sparse_inputs():
    mask = torch.tensor([[True, False, True], [True, True, False]])
    sparse = torch.tensor([[1.5, 0.0, 2.0], [0.0, 3.0, 0.0]]).to_sparse()
    assert masked.sum(sparse, 0).to_dense().tolist() == [1.5, 3, 2]
    assert masked.sum(sparse).layout is torch.sparse_coo
    assert masked.amax(sparse, 1, mask=mask.to_sparse()).to_dense().tolist() == [2, 3]
    assert masked.prod(sparse, 1, mask=mask).to_dense().tolist() == [3, 0]
    assert masked.mean(sparse.to_sparse_csr(), 1, keepdim=True, mask=mask.to_sparse_csr()).to_dense().tolist() == [
        [1.75],
        [1.5],
    ]
    for call, text in (
        (lambda: masked.amax(sparse, 0), "expects explicit mask for torch.sparse_coo"),
        (lambda: masked.softmax(sparse, 0), "expects strided tensor"),
    ):
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_sparse_tensors_with_a_mask(layout):
    mask = MASK.to_sparse(layout=getattr(torch, layout))
    a = masked.masked_tensor(X.sparse_mask(mask), mask, requires_grad=True)
    assert a.layout is getattr(torch, layout)
    assert a.shape == (2, 3)
    assert torch.exp(a).get_data().values().tolist() == torch.exp(X[MASK]).tolist()
    (a * a).to_dense().sum().backward()
    assert a.grad.layout is a.layout
    assert a.grad.to_dense().to_tensor(0.0).tolist() == [[3, 0, 4], [0, 0, 0]]
    assert masked.masked_tensor(X, MASK).to_sparse().to_dense().to_tensor(0.0).tolist() == [[1.5, 0, 2], [0, 0, 0]]
    assert a.argmax().get_data() == 2
    with pytest.raises(TypeError, match="must have the same layout"):
        masked.masked_tensor(X, mask)
    with pytest.raises(TypeError, match="torch._ops.aten.max.default"):
        a.max()


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_operators_by_element_and_what_moves():
    from taper.masked.maskedtensor.binary import NATIVE_BINARY_FNS
    from taper.masked.maskedtensor.unary import NATIVE_UNARY_FNS

    assert len(NATIVE_UNARY_FNS) == 62
    assert len(NATIVE_BINARY_FNS) == 36
    a = masked.masked_tensor(X, MASK)
    assert torch.equal(torch.ops.aten.atan2(a, X).get_data(), torch.atan2(X, X))
    assert a.neg_() is a
    assert torch.equal(a.get_data(), -X)
    chosen = torch.where(MASK, a, masked.masked_tensor(X, ~MASK))
    assert chosen.get_mask().all()
    assert chosen.get_data().tolist() == torch.where(MASK, -X, X).tolist()
    assert torch.nn.functional.unfold(
        masked.masked_tensor(X.view(1, 1, 2, 3), MASK.view(1, 1, 2, 3)), (1, 3)
    ).get_mask().tolist() == [[[True, False], [False, False], [True, False]]]


def test_running_sums_keep_the_dtype():
    small = torch.tensor([200, 100], dtype=torch.uint8)
    assert torch.masked.cumsum(small, 0).tolist() == [200, 44] and torch.masked.cumsum(small, 0).dtype is torch.uint8
    assert torch.masked.cumprod(small.int(), 0).dtype is torch.masked.logsumexp(small.int(), 0).dtype is torch.int32
    assert torch.masked.var(torch.ones(3).half(), 0, correction=0.5).dtype is torch.float16

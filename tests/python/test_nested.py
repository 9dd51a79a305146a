"""Nested tensors: what PyTorch 2.15 gave for the same calls."""
import pytest
import taper as torch
from taper.nn import functional as F

A, B = torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([[5., 6.], [7., 8.], [9., 10.]])


@pytest.fixture(params=["strided", "jagged"])
def pair(request):
    return torch.nested.nested_tensor([A, B], layout=getattr(torch, request.param))


def test_parts(pair):
    assert pair.is_nested and not A.is_nested and pair.size(0) == 2 and pair.size(2) == 2 and pair.dim() == 3 and pair.numel() == 10
    assert [t.tolist() for t in pair.unbind()] == [A.tolist(), B.tolist()] and pair[1].shape == (3, 2)
    assert torch.nested.to_padded_tensor(pair, -1.)[0].tolist() == [[1, 2], [3, 4], [-1, -1]] and pair.to_padded_tensor(0.).shape == (2, 3, 2)
    if pair.layout is torch.strided:
        with pytest.raises(RuntimeError, match="Given dimension 1 is irregular and does not have a size"):
            pair.size(1)


def test_texts():
    assert repr(torch.nested.nested_tensor([A, B], layout=torch.jagged)) == "NestedTensor(size=(2, j1, 2), offsets=tensor([0, 2, 5]), contiguous=True)"
    assert repr(torch.nested.nested_tensor([A, B[:1]])) == "nested_tensor([\n  tensor([[1., 2.],\n          [3., 4.]]),\n  tensor([[5., 6.]])\n])"


def test_operators(pair):
    assert (pair * 2 + pair).unbind()[0].tolist() == (3 * A).tolist() and F.relu(-pair).unbind()[1].sum().item() == 0 and pair.double().dtype == torch.float64
    assert torch.equal(F.linear(pair, torch.ones(3, 2)).unbind()[1], F.linear(B, torch.ones(3, 2))) and torch.equal(pair.softmax(-1).unbind()[1], B.softmax(-1))
    layer = torch.nn.Linear(2, 3)
    assert torch.allclose(layer(pair).unbind()[0], layer(A))
    assert pair.sum(-1).unbind()[0].tolist() == [3, 7]
    with pytest.raises(NotImplementedError, match="cumsum is not there for nested tensors"):
        pair.cumsum(1)
    with pytest.raises(RuntimeError, match="different lengths"):
        pair + torch.nested.nested_tensor([B, A])


def test_jagged_sums_and_gradients():
    x = A.clone().requires_grad_()
    made = torch.nested.as_nested_tensor([x, B], layout=torch.jagged)
    assert made.sum(dim=1).tolist() == [[4, 6], [21, 24]] and made.mean(dim=1).tolist() == [[2, 3], [7, 8]]
    (made * 2).values().sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]] and made.offsets().tolist() == [0, 2, 5]
    leaf = torch.nested.nested_tensor([A, B], layout=torch.jagged, requires_grad=True)
    (leaf.to_padded_tensor(0.) ** 2).sum().backward()
    assert leaf.grad.is_nested and leaf.grad.values()[0].tolist() == [2, 4]
    assert torch.nested.nested_tensor_from_jagged(torch.ones(5, 2), torch.tensor([0, 2, 5])).unbind()[1].shape == (3, 2)

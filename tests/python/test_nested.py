"""Nested tensors: what PyTorch 2.15 gave for the same calls."""

import pytest
import taper as torch
from taper.nn import functional as F

A, B = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0], [9.0, 10.0]])


@pytest.fixture(params=["strided", "jagged"])
def pair(request):
    return torch.nested.nested_tensor([A, B], layout=getattr(torch, request.param))


def test_parts(pair):
    assert pair.is_nested
    assert not A.is_nested
    assert pair.size(0) == 2
    assert pair.size(2) == 2
    assert pair.dim() == 3
    assert pair.numel() == 10
    assert [t.tolist() for t in pair.unbind()] == [A.tolist(), B.tolist()]
    assert pair[1].shape == (3, 2)
    assert torch.nested.to_padded_tensor(pair, -1.0)[0].tolist() == [
        [1, 2],
        [3, 4],
        [-1, -1],
    ]
    assert pair.to_padded_tensor(0.0).shape == (2, 3, 2)
    if pair.layout is torch.strided:
        with pytest.raises(RuntimeError, match="Given dimension 1 is irregular and does not have a size"):
            pair.size(1)


def test_texts():
    assert (
        repr(torch.nested.nested_tensor([A, B], layout=torch.jagged))
        == "NestedTensor(size=(2, j1, 2), offsets=tensor([0, 2, 5]), contiguous=True)"
    )
    assert (
        repr(torch.nested.nested_tensor([A, B[:1]]))
        == "nested_tensor([\n  tensor([[1., 2.],\n          [3., 4.]]),\n  tensor([[5., 6.]])\n])"
    )


def test_operators(pair):
    assert (pair * 2 + pair).unbind()[0].tolist() == (3 * A).tolist()
    assert F.relu(-pair).unbind()[1].sum().item() == 0
    assert pair.double().dtype == torch.float64
    assert torch.equal(F.linear(pair, torch.ones(3, 2)).unbind()[1], F.linear(B, torch.ones(3, 2)))
    assert torch.equal(pair.softmax(-1).unbind()[1], B.softmax(-1))
    layer = torch.nn.Linear(2, 3)
    assert torch.allclose(layer(pair).unbind()[0], layer(A))
    assert pair.sum(-1, keepdim=True).unbind()[0].tolist() == [[3], [7]]
    with pytest.raises(NotImplementedError, match="cumsum is not there for nested tensors"):
        pair.cumsum(1)
    with pytest.raises(RuntimeError, match="different lengths|does not support broadcasting"):
        pair + torch.nested.nested_tensor([B, A], layout=pair.layout)


def test_jagged_sums_and_gradients():
    x = A.clone().requires_grad_()
    made = torch.nested.as_nested_tensor([x, B], layout=torch.jagged)
    assert made.sum(dim=1).tolist() == [[4, 6], [21, 24]]
    assert made.mean(dim=1).tolist() == [[2, 3], [7, 8]]
    (made * 2).values().sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]
    assert made.offsets().tolist() == [0, 2, 5]
    leaf = torch.nested.nested_tensor([A, B], layout=torch.jagged, requires_grad=True)
    (leaf.to_padded_tensor(0.0) ** 2).sum().backward()
    assert leaf.grad.is_nested
    assert leaf.grad.values()[0].tolist() == [2, 4]
    assert torch.nested.nested_tensor_from_jagged(torch.ones(5, 2), torch.tensor([0, 2, 5])).unbind()[1].shape == (3, 2)


# ---- Strided ones: parts of any sizes ----
def test_parts_of_any_sizes():
    c, d = torch.arange(6.0).view(2, 3), torch.arange(20.0).view(4, 5)
    both = torch.nested.nested_tensor([c, d])
    assert both.dim() == 3
    assert both.numel() == 26
    assert both.size(0) == 2
    assert both.is_contiguous()
    assert torch.equal(both[1], d)
    padded = both.to_padded_tensor(-1.0)
    assert padded.shape == (2, 4, 5)
    assert padded[0, 1].tolist() == [3, 4, 5, -1, -1]
    assert torch.equal(padded[1], d)
    turned = both.transpose(1, 2)
    assert torch.equal(turned[0], c.t())
    assert not turned.is_contiguous()
    assert torch.equal(turned.contiguous()[1], d.t())
    assert torch.equal((both + both)[1], 2 * d)
    assert torch.equal(torch.bmm(both, turned)[0], c @ c.t())
    assert torch.equal(both.softmax(-1)[0], c.softmax(-1))
    pieces = torch.nested.nested_tensor([torch.arange(8.0).view(2, 4), torch.ones(1, 4)]).chunk(2, -1)
    assert pieces[1][0].tolist() == [[2, 3], [6, 7]]
    assert repr(torch.nested.nested_tensor([])) == "nested_tensor([\n\n])"
    for call, kind, text in [
        (both.size, RuntimeError, "doesn't support sizes"),
        (lambda: both.size(1), RuntimeError, "dimension 1 is irregular"),
        (lambda: both[2], IndexError, "out of bounds"),
        (lambda: both.view(-1, 2), RuntimeError, "cannot change or infer the implicit batch"),
        (lambda: torch.sin(turned), RuntimeError, "must be contiguous to get buffer"),
        (lambda: both.sum(-1), RuntimeError, "keepdim=True"),
        (
            lambda: torch.nested.nested_tensor([c, c[0]]),
            RuntimeError,
            "Found dimension 1 for Tensor at index 1 and dimension 2 for Tensor at index 0",
        ),
        (lambda: torch.nested.nested_tensor(c), TypeError, "list of tensors"),
    ]:
        with pytest.raises(kind, match=text):
            call()


def test_strided_gradients_and_files():
    import io

    c, d = (
        torch.randn(2, 3, dtype=torch.float64, requires_grad=True),
        torch.randn(4, 3, dtype=torch.float64, requires_grad=True),
    )
    weight = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda a, b, w: (
            F.linear(torch.nested.as_nested_tensor([a, b]), w).transpose(1, 2).contiguous().to_padded_tensor(0.0)
        ),
        (c, d, weight),
    )
    leaf = torch.nested.nested_tensor([c, d], requires_grad=True)
    (leaf * leaf).to_padded_tensor(0.0).sum().backward()
    assert leaf.grad.is_nested
    assert torch.equal(leaf.grad[0], 2 * c)
    file = io.BytesIO()
    torch.save(leaf.transpose(1, 2), file)
    file.seek(0)
    read = torch.load(file)
    assert torch.equal(read[1], d.t())
    assert not read.is_contiguous()
    assert read.requires_grad


def test_jagged_extremes():
    made = torch.nested.nested_tensor([torch.arange(0, n) for n in (10, 20)], layout=torch.jagged)
    assert made.max(dim=1).values.tolist() == [9, 19]
    assert made.amin(dim=1).tolist() == [0, 0]
    assert made.argmax(dim=1).tolist() == [9, 19]
    assert made.shape == made.clone().shape
    assert torch.nested.narrow(
        torch.arange(8).view(2, 4), 1, 1, torch.tensor([2, 3]), layout=torch.jagged
    ).values().tolist() == [1, 2, 5, 6, 7]
    assert torch.nested.masked_select(
        torch.arange(4).view(2, 2), torch.tensor([[True, False], [True, True]])
    ).offsets().tolist() == [0, 1, 3]


def test_jagged_ones_turned_and_with_gaps():
    made = torch.nested.nested_tensor([A, B], layout=torch.jagged)
    turned = made.transpose(1, 2)
    assert not turned.is_contiguous()
    assert torch.equal(turned.unbind()[1], B.t())
    assert torch.equal(torch.sin(turned).unbind()[0], A.sin().t())
    gaps = torch.nested.nested_tensor_from_jagged(torch.cat([A, B]), torch.tensor([0, 2, 5]), torch.tensor([1, 2]))
    assert [t.tolist() for t in gaps.unbind()] == [
        A[:1].tolist(),
        B[:2].tolist(),
    ]
    assert gaps.contiguous().offsets().tolist() == [0, 1, 3]
    assert gaps.sum(dim=1).tolist() == [[1, 2], [12, 14]]
    assert torch.equal(torch.special.i0e(gaps).unbind()[1], torch.special.i0e(B[:2]))
    assert torch.nested.as_nested_tensor([A.t(), B.t()], layout=torch.jagged).shape[1] == 2
    dense = torch.arange(4.0).view(2, 1, 2)
    assert torch.equal((made + dense).unbind()[1], B + dense[1])
    assert torch.equal((dense[:1] * made).unbind()[0], A * dense[0])
    assert torch.equal((gaps + gaps.contiguous()).unbind()[1], 2 * B[:2])

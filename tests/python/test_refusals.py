"""What PyTorch refuses is refused, in its words; what it takes is taken."""

import inspect

import pytest
import taper as torch
import taper.nn.functional as F


@pytest.mark.parametrize("operator", [torch.add, torch.sub])
def test_a_factor_is_not_above_the_kind_of_the_summands(operator):
    x = torch.ones(3, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="For integral input tensors, argument alpha must not be a floating point"):
        operator(x, x, alpha=1.5)
    with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
        operator(x, x, alpha=True)
    with pytest.raises(RuntimeError, match="For non-complex input tensors, argument alpha must not be a complex"):
        operator(x.float(), x, alpha=1j)
    assert torch.equal(operator(x.float(), x, alpha=0.5), x.float() + (0.5 if operator is torch.add else -0.5))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: torch.lerp(torch.ones(2).double(), torch.ones(2), 1), RuntimeError, "dtype"),
        (lambda: torch.polar(torch.tensor([1]), torch.tensor([1])), RuntimeError, "got Long and Long"),
        (lambda: float(torch.tensor(1.5j)), RuntimeError, "without overflow"),
        (lambda: torch.Size([1]) + [2], TypeError, "can only concatenate tuple"),
        (lambda: torch.ones(3).chunk(0), RuntimeError, "chunk expects `chunks` to be greater than 0"),
        (lambda: torch.view_as_complex(torch.ones(3)), RuntimeError, "Tensor must have a last dimension of size 2"),
        (lambda: torch.broadcast_shapes((2, 3), (4,)), RuntimeError, "expected shape should be broadcastable to"),
        (lambda: torch.empty(2, 0).argmax(1), IndexError, "Expected reduction dim 1 to have non-zero size"),
        (lambda: torch.empty(0, 2)[[0]], IndexError, "for dimension with size 0"),
        (lambda: torch.ones(2, dtype=torch.bool).random_(-4, -4), RuntimeError, "'from' to be less than 'to'"),
        (lambda: F.binary_cross_entropy(torch.ones(2), torch.ones(3)), ValueError, r"Using a target size \("),
        (lambda: torch.ones(2).as_subclass(int), TypeError, "does not inherit from Tensor"),
    ],
)
def test_words(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_what_is_taken():
    x = torch.tensor([[1, 2], [3, 4]])
    x[0] = x[0][1]
    assert x.tolist() == [[2, 2], [3, 4]]
    assert float(torch.tensor(1.5 + 0j)) == 1.5
    assert torch.ones(1).new(size=(3, 4)).shape == (3, 4)
    end = torch.tensor(3.0, requires_grad=True)
    assert not torch.linspace(0, end, 4).requires_grad
    assert torch.tensor([1 + 2j]).conj().numpy(force=True).tolist() == [1 - 2j]
    assert torch.equal(torch._neg_view(torch.ones(2)), -torch.ones(2))
    assert torch._neg_view(torch.ones(2)).is_neg()
    assert torch.testing.make_tensor(3, dtype=torch.float8_e5m2).dtype == torch.float8_e5m2
    assert inspect.isroutine(torch.add)
    assert inspect.isroutine(torch.fft.fft)
    assert "fft" in torch.fft.__all__


def test_a_sparse_gradient_that_a_program_sets_is_used():
    p = torch.nn.Parameter(torch.tensor([1.5, 1.5]))
    p.grad = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.tensor([1.0, 2.0]), (2,))
    torch.optim.SGD([p], lr=0.1).step()
    assert torch.allclose(p.detach(), torch.tensor([1.5, 1.2]))


def test_columns_with_dense_dims_become_blocks():
    x = torch.arange(24.0).reshape(4, 2, 3)
    blocks = x.to_sparse(layout=torch.sparse_csc, dense_dim=1).to_sparse(layout=torch.sparse_bsr, blocksize=(2, 1))
    assert blocks.layout is torch.sparse_bsr
    assert torch.equal(blocks.to_dense(), x)


def test_vmap_of_a_function_that_gives_sizes():
    x = torch.ones(3, 1, 4, 4)
    out = torch.vmap(lambda t: F.interpolate(t, size=torch.Size([8]), mode="nearest"))(x)
    assert out.shape == (3, 1, 4, 8)

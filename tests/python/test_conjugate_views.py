"""Conjugates and negatives share memory with what they were made of, as in PyTorch."""

import io

import numpy as np
import pytest
import taper as torch


def pair():
    x = torch.tensor([1 + 2j, 3 - 4j])
    return x, x.conj()


def test_a_conjugate_sees_later_writes():
    x, y = pair()
    assert y.is_conj()
    assert not x.is_conj()
    assert y.data_ptr() == x.data_ptr()
    assert torch.is_conj(y)
    x[0] = 5 + 6j
    assert y.tolist() == [5 - 6j, 3 + 4j]
    assert y[0].item() == 5 - 6j
    assert (y * 1j).tolist() == [6 + 5j, -4 + 3j]
    assert torch.stack([x, y])[1].tolist() == y.tolist()
    assert repr(y) == "tensor([5.-6.j, 3.+4.j])"


def test_writes_to_a_conjugate_reach_the_tensor():
    x, y = pair()
    y.add_(1j)
    assert x.tolist() == [1 + 1j, 3 - 5j]
    assert y.tolist() == [1 - 1j, 3 + 5j]
    y[1] = 7 + 7j
    assert x.tolist() == [1 + 1j, 7 - 7j]
    y.copy_(x)
    assert x.tolist() == [1 - 1j, 7 + 7j]
    torch.mul(x, 1j, out=y)
    assert y.tolist() == [1 + 1j, -7 + 7j]
    assert x.tolist() == [1 - 1j, -7 - 7j]


def test_the_imaginary_part_of_a_conjugate_is_a_negative():
    x, y = pair()
    part = y.imag
    assert part.is_neg()
    assert part.tolist() == [-2, 4]
    assert part.data_ptr() == x.imag.data_ptr()
    assert not y.real.is_neg()
    part.add_(1)
    assert x.tolist() == [1 + 1j, 3 - 5j]
    part[0] = 9
    assert x.tolist() == [1 - 9j, 3 - 5j]
    assert part.resolve_neg().tolist() == [9, 5]


def test_views_keep_the_mark_and_results_do_not():
    x, y = pair()
    assert all(v.is_conj() for v in (y.detach(), y.view(2, 1), y[0], y.unsqueeze(0), y.reshape(1, 2), y.contiguous()))
    assert not any(v.is_conj() for v in (y.conj(), y.clone(), y.resolve_conj(), y * 1, y.to(torch.complex128)))
    m = torch.tensor([[1j, 2], [3, 4]])
    assert m.mH.is_conj()
    assert m.H.data_ptr() == m.data_ptr()
    assert (m.mH @ m).tolist() == [[10, 12 - 2j], [12 + 2j, 20]]
    assert x.resolve_conj() is x
    assert torch.ones(2).conj().is_conj() is False


def test_what_reads_memory_is_refused():
    x, y = pair()
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
        torch.view_as_real(y)
    with pytest.raises(RuntimeError, match=r"has conjugate bit set. Use tensor.resolve_conj\(\).numpy\(\) instead"):
        y.numpy()
    with pytest.raises(RuntimeError, match="has negative bit set"):
        y.imag.numpy()
    with pytest.raises(RuntimeError, match="not supported for conjugate view tensors"):
        y.view(torch.float32)
    with pytest.raises(Exception, match="Can't export tensors with the conjugate bit set"):
        torch.utils.dlpack.to_dlpack(y)
    assert np.array_equal(y.resolve_conj().numpy(), np.conj(x.numpy()))


def test_gradients_through_writes():
    def leaf():
        a = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
        return a, a * 1

    a, c = leaf()
    c.conj().mul_(3 + 1j)
    (c * c).sum().real.backward()
    b, d = leaf()
    d = (d.conj() * (3 + 1j)).resolve_conj().conj_physical()
    (d * d).sum().real.backward()
    assert torch.allclose(a.grad, b.grad)

    a, c = leaf()
    view = c.conj()
    c.mul_(3 + 1j)
    (view * view).sum().real.backward()
    b, d = leaf()
    d = (d * (3 + 1j)).conj_physical()
    (d * d).sum().real.backward()
    assert torch.allclose(a.grad, b.grad)


def test_gradients_that_a_program_conjugates():
    a = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    a.backward(torch.tensor([1 + 1j, 2j]).conj())
    assert a.grad.tolist() == [1 - 1j, -2j]
    assert not a.grad.is_conj()
    b = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    c = b * 1
    c.register_hook(lambda g: g.conj())
    (c * (1 + 2j)).sum().real.backward()
    assert b.grad.tolist() == [1 + 2j, 1 + 2j]


def test_saved_and_copied():
    import copy

    x, y = pair()
    file = io.BytesIO()
    torch.save({"x": x, "y": y}, file)
    file.seek(0)
    again = torch.load(file)
    assert again["x"].tolist() == x.tolist()
    assert again["y"].tolist() == y.tolist()
    file = io.BytesIO()
    torch.save(y.imag, file)
    file.seek(0)
    assert torch.load(file).tolist() == y.imag.tolist()
    assert copy.deepcopy(y).tolist() == y.tolist()


def test_compiled_functions_see_marks():
    @torch.compile
    def f(t):
        return t * 2 + 1j

    x, y = pair()
    for t in (x, x, y, y, x):
        assert torch.equal(f(t), t.resolve_conj() * 2 + 1j)

    @torch.compile
    def g(t):
        return (t.conj() + t.mH[0]).imag if t.ndim == 2 else t.conj().imag + 1

    for value in (1 + 2j, 3 + 4j, 5 + 6j):
        assert g(torch.tensor([value])).tolist() == [1 - value.imag]


def test_what_reads_memory_gets_resolved_values_or_refuses():
    """Optimisers read the memory of parameters and gradients, which holds other values under a mark."""
    p, grad = torch.nn.Parameter(torch.randn(3, dtype=torch.complex64)), torch.randn(3, dtype=torch.complex64)
    want = p.detach() - grad.conj().resolve_conj()
    p.grad = grad.conj()
    torch.optim.SGD([p], lr=1.0).step()
    assert torch.equal(p.detach(), want)
    marked = torch.nn.Parameter(torch.randn(3, dtype=torch.complex64).conj())
    marked.grad = torch.ones_like(marked)
    before = marked.detach().resolve_conj().clone()
    with pytest.raises(RuntimeError, match="lazy conjugate"):
        torch.optim.SGD([marked], lr=1.0).step()
    assert torch.equal(marked.detach(), before)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.conj() * 2,
        lambda x: x * x.conj(),
        lambda x: x.conj().imag * 2,
        lambda x: x.conj().imag.t() * 2,
        lambda x: torch.cat([x, x.conj()]),
        lambda x: x @ x.conj(),
        lambda x: x.conj() @ x,
        lambda x: torch.einsum("ij,kj->ik", x, x.conj()),
        lambda x: x @ x.mH,
    ],
)
@pytest.mark.filterwarnings("ignore:torch.compile runs")
def test_compiled_calls_give_what_the_function_gives(f):
    """A graph holds no marked tensor: such calls run as they are, gradients included."""
    compiled = torch.compile(f)
    for turn in range(3):
        x = torch.randn(3, 3, dtype=torch.complex64)
        for argument in (x, x.conj()):
            a, b = (argument.clone().requires_grad_() for _ in range(2))
            want, got = f(a), compiled(b)
            assert torch.equal(got, want)
            for result in (want, got):
                result.abs().sum().backward()
            assert torch.equal(a.grad, b.grad)


def test_numbers_of_other_dtypes_written_to_a_marked_tensor():
    c = torch.tensor([1 + 2j]).conj()
    for value in (torch.tensor(4.0), torch.tensor(3), torch.tensor(True), 2, 2 + 1j):
        c[0] = value
        assert c.item() == complex(value if not isinstance(value, torch.Tensor) else value.item())
    part = torch.tensor([1 + 2j]).conj().imag
    part.copy_(torch.tensor([5.0]))
    assert part.tolist() == [5]


def test_data_and_shared_memory_keep_the_values():
    x, z = torch.tensor([1 + 2j]), torch.zeros(1, dtype=torch.complex64)
    z.data = x.conj()
    assert z.tolist() == [1 - 2j]
    z.data = x
    assert z.tolist() == [1 + 2j]
    assert not z.is_conj()
    c = x.conj()
    assert c.share_memory_().tolist() == [1 - 2j]
    assert x.tolist() == [1 + 2j]

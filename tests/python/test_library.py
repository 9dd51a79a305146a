"""torch.ops and torch.library: operators by name, and those that a program adds."""
import uuid

import pytest
import taper as torch
from taper import Tensor


@pytest.fixture
def place():
    return "test" + uuid.uuid4().hex[:8]


def test_custom_operator_with_its_own_derivative(place):
    @torch.library.custom_op(f"{place}::triple", mutates_args=())
    def triple(x: Tensor, times: int = 3) -> Tensor:
        """Three times."""
        return torch.tensor([v * times for v in x.tolist()])

    x = torch.tensor([1., 2.], requires_grad=True)
    with pytest.raises(RuntimeError, match=f"Trying to backward through {place}::triple.default but no autograd formula was registered"):
        triple(x).sum().backward()
    triple.register_autograd(lambda ctx, grad: (grad * ctx.times, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "times", inputs[1]))
    triple(x, 4).sum().backward()
    assert x.grad.tolist() == [4, 4] and triple.__doc__ == "Three times."
    same = getattr(torch.ops, place).triple
    assert same(x).tolist() == same.default(x).tolist() == [3, 6] and str(same.default) == f"{place}.triple.default" and same.default.name() == f"{place}::triple"
    x.grad = None
    same(x, times=5).sum().backward()
    assert x.grad.tolist() == [5, 5]

    @triple.register_kernel("cpu")
    def _(x, times=3):
        return torch.zeros(1)
    assert triple(torch.ones(2)).tolist() == [0]


def test_what_an_operator_changes_in_place(place):
    @torch.library.custom_op(f"{place}::axpy", mutates_args=("y",))
    def axpy(a: float, x: Tensor, y: Tensor) -> None:
        y.add_(x, alpha=a)
    y = torch.ones(2)
    assert axpy(2.0, torch.ones(2), y) is None and y.tolist() == [3, 3]


def test_libraries(place):
    library = torch.library.Library(place, "DEF")
    library.define("twice(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match=f"Could not run '{place}::twice' with arguments from the 'CPU' backend"):
        getattr(torch.ops, place).twice(torch.ones(1))
    library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    x = torch.ones(1, requires_grad=True)
    getattr(torch.ops, place).twice(x).backward()
    assert x.grad.item() == 2
    torch.library.define(f"{place}::half", "(Tensor x) -> Tensor")

    @torch.library.impl(f"{place}::half", "cpu")
    def half(x):
        return x / 2
    assert getattr(torch.ops, place).half(torch.ones(1)).item() == 0.5
    with pytest.raises(AttributeError, match=f"'_OpNamespace' '{place}' object has no attribute 'third'"):
        getattr(torch.ops, place).third


def test_schemas():
    def f(x: Tensor, n: int, scale: float = 1.0, *, mask: Tensor) -> Tensor:
        return x
    assert torch.library.infer_schema(f, mutates_args={"x"}) == "(Tensor(a0!) x, SymInt n, float scale=1.0, *, Tensor mask) -> Tensor"
    def plain(x: Tensor) -> Tensor:
        return x
    with pytest.raises(ValueError, match="namespace::name"):
        torch.library.custom_op("plain", plain, mutates_args=())
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        torch.library.custom_op("plain", lambda x: x, mutates_args=())


def test_aten():
    aten = torch.ops.aten
    assert aten.add.Tensor(torch.ones(1), torch.ones(1), alpha=2).item() == 3 and aten.mm.default(torch.eye(2), torch.ones(2, 2)).sum().item() == 4
    assert aten.sum.dim_IntList(torch.ones(2, 2), [1]).tolist() == [2, 2] and aten._softmax(torch.zeros(1, 2), 1, False).tolist() == [[.5, .5]]
    assert aten.linalg_vector_norm(torch.tensor([3., 4.])).item() == 5 and aten.relu(torch.tensor([-1.])).item() == 0 and aten.clone.default(torch.ones(1)).item() == 1
    assert aten.t.default(torch.ones(2, 3)).shape == (3, 2) and aten.add_.Tensor(torch.ones(1), 1).item() == 2 and aten.gelu(torch.zeros(1)).item() == 0
    assert aten.mm.default is aten.mm.default and repr(aten.mm.default) == "<OpOverload(op='aten.mm', overload='default')>"
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'nothere'"):
        aten.nothere

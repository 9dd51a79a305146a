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

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(
        RuntimeError, match=f"Trying to backward through {place}::triple.default but no autograd formula was registered"
    ):
        triple(x).sum().backward()
    triple.register_autograd(
        lambda ctx, grad: (grad * ctx.times, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "times", inputs[1]),
    )
    triple(x, 4).sum().backward()
    assert x.grad.tolist() == [4, 4]
    assert triple.__doc__ == "Three times."
    same = getattr(torch.ops, place).triple
    assert same(x).tolist() == same.default(x).tolist() == [3, 6]
    assert str(same.default) == f"{place}.triple.default"
    assert same.default.name() == f"{place}::triple"
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
    assert axpy(2.0, torch.ones(2), y) is None
    assert y.tolist() == [3, 3]


def test_libraries(place):
    library = torch.library.Library(place, "DEF")
    library.define("twice(Tensor x) -> Tensor")
    with pytest.raises(
        NotImplementedError, match=f"Could not run '{place}::twice' with arguments from the 'CPU' backend"
    ):
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

    assert (
        torch.library.infer_schema(f, mutates_args={"x"})
        == "(Tensor(a0!) x, SymInt n, float scale=1.0, *, Tensor mask) -> Tensor"
    )

    def plain(x: Tensor) -> Tensor:
        return x

    with pytest.raises(ValueError, match="namespace::name"):
        torch.library.custom_op("plain", plain, mutates_args=())
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        torch.library.custom_op("plain", lambda x: x, mutates_args=())


def test_aten():
    aten = torch.ops.aten
    assert aten.add.Tensor(torch.ones(1), torch.ones(1), alpha=2).item() == 3
    assert aten.mm.default(torch.eye(2), torch.ones(2, 2)).sum().item() == 4
    assert aten.sum.dim_IntList(torch.ones(2, 2), [1]).tolist() == [2, 2]
    assert aten._softmax(torch.zeros(1, 2), 1, False).tolist() == [[0.5, 0.5]]
    assert aten.linalg_vector_norm(torch.tensor([3.0, 4.0])).item() == 5
    assert aten.relu(torch.tensor([-1.0])).item() == 0
    assert aten.clone.default(torch.ones(1)).item() == 1
    assert aten.t.default(torch.ones(2, 3)).shape == (3, 2)
    assert aten.add_.Tensor(torch.ones(1), 1).item() == 2
    assert aten.gelu(torch.zeros(1)).item() == 0
    assert aten.mm.default is aten.mm.default
    assert repr(aten.mm.default) == "<OpOverload(op='aten.mm', overload='default')>"
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'nothere'"):
        aten.nothere


def test_handlers_see_custom_operators(place):
    @torch.library.custom_op(f"{place}::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    twice.register_autograd(lambda ctx, grad: grad * 2)

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with Mode():
        y = twice(x)
    assert Mode.seen[0] == f"{place}.twice.default"
    assert y.tolist() == [2, 2]
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]

    @torch.library.register_torch_dispatch(f"{place}::twice", Mode)
    def _(mode, func, types, args, kwargs):
        return args[0] * 10

    with Mode():
        assert twice(torch.ones(1)).item() == 10


def test_overloads_and_lists_of_tensors(place):
    @torch.library.custom_op(f"{place}::total", mutates_args=())
    def total(xs: list[Tensor], scale: float = 1.0) -> Tensor:
        return sum(x.sum() for x in xs) * scale

    @torch.library.custom_op(f"{place}::total.one", mutates_args=())
    def one(x: Tensor) -> Tensor:
        return x.sum()

    def setup(ctx, inputs, output):
        ctx.shapes, ctx.scale = [x.shape for x in inputs[0]], inputs[1]

    total.register_autograd(
        lambda ctx, grad: ([grad.expand(s) * ctx.scale for s in ctx.shapes], None), setup_context=setup
    )
    xs = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    packet = getattr(torch.ops, place).total
    packet(xs, 2.0).backward()
    assert [x.grad.tolist() for x in xs] == [[2, 2], [2, 2, 2]]
    assert packet(torch.ones(4)).item() == 4
    assert packet.overloads() == ["default", "one"]
    assert str(packet.one._schema) == f"{place}::total.one(Tensor x) -> Tensor"


def test_what_custom_operators_promise(place):
    @torch.library.custom_op(f"{place}::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="may not alias"):
        same(torch.ones(2))

    @torch.library.custom_op(f"{place}::fill", mutates_args={"x"})
    def fill(x: Tensor) -> None:
        x.numpy()[:] = 3

    x = torch.zeros(2)
    before = x._version
    fill(x)
    assert x.tolist() == [3, 3]
    assert x._version > before
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        fill.register_autograd(lambda ctx, grad: None)
    with torch.library._scoped_library(place, "FRAGMENT") as lib:
        lib.define("gone(Tensor x) -> Tensor")
        lib.impl("gone", lambda x: x + 1, "CPU")
        assert getattr(torch.ops, place).gone(torch.ones(1)).item() == 2
        with pytest.raises(RuntimeError, match="with the same name and overload name multiple times"):
            lib.define("gone(Tensor x) -> Tensor")
    with pytest.raises(AttributeError):
        getattr(torch.ops, place).gone


def test_opcheck_finds_what_a_schema_does_not_say(place):
    @torch.library.custom_op(f"{place}::bad", mutates_args=())
    def bad(x: Tensor) -> Tensor:
        x.add_(1)
        return x.clone()

    with pytest.raises(Exception, match="is not defined as mutable but was mutated"):
        torch.library.opcheck(bad, (torch.ones(2),), test_utils="test_schema")

    @torch.library.custom_op(f"{place}::good", mutates_args=())
    def good(x: Tensor) -> Tensor:
        return x.clone()

    good.register_fake(lambda x: torch.empty_like(x))
    assert set(torch.library.opcheck(good, (torch.ones(2),)).values()) == {"SUCCESS"}


def test_the_older_declarations(place):
    from taper import _custom_ops

    @_custom_ops.custom_op(f"{place}::cube")
    def cube(x: Tensor) -> Tensor:
        raise NotImplementedError

    @_custom_ops.impl(f"{place}::cube", device_types="cpu")
    def _(x):
        return x**3

    @_custom_ops.impl_save_for_backward(f"{place}::cube")
    def _(inputs, output):
        return {"x": inputs.x, "power": 3}

    @_custom_ops.impl_backward(f"{place}::cube")
    def _(ctx, saved, grad):
        return {"x": grad * saved["power"] * saved["x"] ** 2}

    x = torch.tensor([2.0], requires_grad=True)
    getattr(torch.ops, place).cube(x).backward()
    assert x.grad.item() == 12
    with pytest.raises(ValueError, match="only supports functional"):
        _custom_ops.custom_op(f"{place}::bad", "(Tensor(a!) x) -> Tensor(a!)")
    with pytest.raises(ValueError, match="reserved namespace"):
        _custom_ops.custom_op("aten::bad", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="to have name"):

        @_custom_ops.custom_op(f"{place}::name")
        def other(x: Tensor) -> Tensor:
            raise NotImplementedError

    assert str(torch._library.utils.lookup_op(f"{place}::cube")) == f"{place}.cube.default"


def test_calls_are_held_to_the_schema():
    with torch.library._scoped_library("held", "DEF") as lib:
        lib.define("m(Tensor x, int n=2, *, Tensor? o=None, SymInt[2] size=[1, 2], str s='a') -> Tensor")
        lib.impl("m", lambda x, n=2, *, o=None, size=(1, 2), s="a": x * n, "CompositeExplicitAutograd")
        m, x = torch.ops.held.m, torch.ones(2)
        assert m(x, True).tolist() == [1, 1]
        assert m(x, torch.tensor(3)).tolist() == [3, 3]
        assert m.default(x, o=x, size=[3, 4], s="b").tolist() == [2, 2]
        for args, kwargs, text in (
            ((3,), {}, "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'"),
            ((x, 1.5), {}, "Expected a value of type 'int' for argument 'n' but instead found type 'float'"),
            ((x,), {"q": 1}, "Unknown keyword argument 'q' for operator 'held::m'"),
            ((), {}, "is missing value for argument 'x'"),
            ((x, 1, x), {}, r"takes 2 positional argument\(s\) but 3 was/were given"),
            ((x,), {"o": 3}, r"Expected a value of type 'Optional\[Tensor\]' for argument 'o'"),
            (
                (x,),
                {"size": [1, "a"]},
                r"Expected a value of type 'List\[int\]' for argument 'size' but instead found type 'list'",
            ),
            ((x,), {"s": 3}, "Expected a value of type 'str' for argument 's'"),
        ):
            for call in (m, m.default):
                with pytest.raises(RuntimeError, match=text):
                    call(*args, **kwargs)
        for schema, text in (
            ("bad(Tensr x) -> Tensor", "unknown type specifier"),
            ("bad(Tensor x) -> Tensr", "unknown type specifier"),
            ("bad(Tensor) -> Tensor", "expected ident"),
            ("bad(Tensor x, int n=a) -> Tensor", "invalid numeric default value"),
        ):
            with pytest.raises(RuntimeError, match=text):
                lib.define(schema)

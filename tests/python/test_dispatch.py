"""__torch_dispatch__ on subclasses and modes: handlers see operators of aten below the tape, under PyTorch's names and
arguments."""

import pytest
import taper as torch
import taper.nn.functional as F
from taper.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, return_and_correct_aliasing
from taper.utils._pytree import tree_map

LOG = []


class Wrapped(torch.Tensor):
    """Holds a tensor, and notes every operator it sees."""

    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            layout=elem.layout,
            device=elem.device,
            requires_grad=requires_grad,
        )
        made.elem = elem
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(x):
            return x.elem if isinstance(x, Wrapped) else x

        LOG.append(str(func))
        out = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        return tree_map(lambda x: Wrapped(x) if isinstance(x, torch.Tensor) else x, out)


def seen():
    found = [name.removeprefix("aten.") for name in LOG]
    LOG.clear()
    return found


def wrapped(*shape, requires_grad=True):
    LOG.clear()
    return Wrapped(torch.randn(*shape), requires_grad)


def test_a_product_and_its_backward():
    x = wrapped(3)
    y = x * x
    assert seen() == ["mul.Tensor"]
    assert type(y) is Wrapped
    assert y.grad_fn.name() == "MulBackward0"
    assert y.device.type == "cpu"
    assert y.shape == (3,)
    y.sum().backward()
    assert seen() == [
        "sum.default",
        "ones_like.default",
        "expand.default",
        "mul.Tensor",
        "mul.Tensor",
        "add.Tensor",
        "detach.default",
    ]
    assert torch.equal(x.grad.elem, 2 * x.elem)


# What PyTorch 2.15 shows a handler: forward, then the backward of the sum.
CASES = {
    "linear": (lambda x, w, b: F.linear(x, w, b), ((2, 3), (5, 3), (5,)), "t.default addmm.default"),
    "linear of batches": (
        lambda x, w, b: F.linear(x, w, b),
        ((2, 4, 3), (5, 3), (5,)),
        "view.default t.default addmm.default _unsafe_view.default",
    ),
    "batches of matrices": (
        torch.matmul,
        ((2, 3, 4), (2, 4, 5)),
        "expand.default view.default expand.default view.default bmm.default _unsafe_view.default",
    ),
    "softmax": (lambda x: F.softmax(x, -1), ((2, 3),), "_softmax.default detach.default"),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (3,), w, b), ((2, 3), (3,), (3,)), "native_layer_norm.default"),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        ((4, 2), (2,), (2,)),
        "native_batch_norm.default",
    ),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), ((1, 2, 4, 4), (3, 2, 3, 3), (3,)), "convolution.default"),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, torch.tensor([0, 2])),
        ((2, 3),),
        "_log_softmax.default detach.default nll_loss_forward.default",
    ),
    "mse_loss": (lambda x: F.mse_loss(x, torch.zeros(2, 3)), ((2, 3),), "mse_loss.default"),
    "reshape of a turned tensor": (
        lambda x: x.t().reshape(6),
        ((2, 3),),
        "t.default clone.default _unsafe_view.default",
    ),
    "an index and a slice": (lambda x: x[0, 1:], ((2, 3),), "select.int slice.Tensor"),
    "to": (lambda x: x.to(torch.float64), ((2, 3),), "_to_copy.default"),
    "std": (lambda x: x.std(), ((2, 3),), "std.correction detach.default"),
    "embedding": (lambda w: F.embedding(torch.tensor([1, 0]), w), ((4, 3),), "embedding.default"),
    "where with a number": (lambda x: torch.where(torch.tensor([True, False, True]), x, 0.0), ((2, 3),), "where.self"),
    "einsum": (lambda x, y: torch.einsum("ij,jk->ik", x, y), ((2, 3), (3, 4)), None),
    "1 - x": (lambda x: 1 - x, ((2, 3),), "rsub.Scalar"),
    "in place": (lambda x: x.clone().add_(1).mul_(2), ((2, 3),), "clone.default add_.Tensor mul_.Tensor"),
    "parts": (lambda x: torch.cat([p * i for i, p in enumerate(x.chunk(3, 1))]), ((2, 3),), None),
}


@pytest.mark.parametrize("name", CASES)
def test_what_handlers_see_and_the_gradients(name):
    function, shapes, forward = CASES[name]
    inputs = [wrapped(*shape) for shape in shapes]
    result = function(*inputs)
    ops = seen()
    if forward is not None:
        assert ops == forward.split()
    (result if result.dim() == 0 else (result * result).sum()).backward()
    plain = [x.elem.clone().requires_grad_() for x in inputs]
    expected = function(*plain)
    assert torch.allclose(result.elem, expected.detach(), atol=1e-6)
    (expected if expected.dim() == 0 else (expected * expected).sum()).backward()
    for x, p in zip(inputs, plain):
        assert torch.allclose(x.grad.elem, p.grad, atol=1e-4), name


def test_a_network_of_wrapped_parameters_trains():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    for module in net.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, torch.nn.Parameter(Wrapped(parameter.detach())))
    x, target = torch.randn(16, 3), torch.randint(2, (16,))
    losses = []
    for _ in range(20):
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                assert isinstance(p, Wrapped)
                assert isinstance(p.grad, Wrapped)
                p.elem.sub_(0.5 * p.grad.elem)
                p.grad = None
        losses.append(loss.elem.item())
    assert losses[-1] < losses[0] * 0.8


def test_second_derivatives():
    x = wrapped(3)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.allclose(second.elem, 6 * x.elem, atol=1e-5)


def test_an_operator_without_a_derivative_says_so_in_the_backward():
    x = wrapped(3, 3)
    y = torch.linalg.inv(x)
    with pytest.raises(NotImplementedError, match="derivative of aten.linalg_inv"):
        y.sum().backward()


def test_handlers_that_answer_nothing():
    class Silent(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = torch.Tensor._make_wrapper_subclass(Silent, (2,))
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.ops.aten.add.Tensor'"):
        x + 1
    with pytest.raises(RuntimeError, match="must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(type("None_", (torch.Tensor,), {}), (2,))


class Log(TorchDispatchMode):
    def __init__(self):
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops.append(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_operators_and_their_backward():
    linear = torch.nn.Linear(3, 4)
    with Log() as log:
        assert _get_current_dispatch_mode() is log
        y = linear(torch.ones(2, 3)).relu().sum()
        assert log.ops[:4] == ["ones.default", "t.default", "addmm.default", "relu.default"]
        log.ops.clear()
        y.backward()
    assert "threshold_backward.default" in log.ops
    assert "mm.default" in log.ops
    assert linear.weight.grad.shape == (4, 3)
    assert _get_current_dispatch_mode() is None
    seen_before = list(log.ops)
    torch.ones(2) + 1
    assert log.ops == seen_before


def test_modes_in_modes_and_views():
    with Log() as outer, Log() as inner:
        x = torch.ones(2, 3)
        x.view(6).add_(1)
    assert outer.ops == inner.ops == ["ones.default", "view.default", "add_.Tensor"]
    assert x.sum() == 12


def test_overloads_know_their_schemas():
    op = torch.ops.aten.add.Tensor
    assert str(op) == "aten.add.Tensor"
    assert op.name() == "aten::add.Tensor"
    assert op.overloadpacket is torch.ops.aten.add
    assert str(op._schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert op._schema.name == "aten::add"
    assert op._schema.overload_name == "Tensor"
    assert op._schema.arguments[2].kwarg_only
    assert torch.Tag.pointwise in op.tags
    assert torch.Tag.core in op.tags
    assert (
        str(torch.ops.aten.add_.Tensor._schema)
        == "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    )
    assert torch.ops.aten.add_.Tensor._schema.is_mutable
    assert not op._schema.is_mutable
    assert [str(a.type) for a in torch.ops.aten.sum.dim_IntList._schema.arguments] == [
        "Tensor",
        "Optional[List[int]]",
        "bool",
        "Optional[int]",
    ]
    with pytest.raises(AttributeError, match="has no overload name 'nothing'"):
        torch.ops.aten.add.nothing


def test_in_place_results_are_the_argument():
    x = torch.ones(2)
    y = x.clone()
    assert return_and_correct_aliasing(torch.ops.aten.add_.Tensor, (x, 1), {}, y) is x
    assert return_and_correct_aliasing(torch.ops.aten.add.Tensor, (x, 1), {}, y) is y


def test_plain_calls_ask_no_handler():
    wrapped(2) + 1
    LOG.clear()
    torch.ones(2) + torch.nn.Parameter(torch.ones(2))
    assert not LOG


def test_what_modes_see_of_data_and_values():
    with Log() as log:
        x = torch.tensor([1.0, 2.0])
        assert x.sum().item() == 3
        assert bool((x > 0).all())
        torch.zeros(2), torch.randn(2, 3), torch.empty(2), torch.full((2,), 1.0)
    assert log.ops == [
        "lift_fresh.default",
        "sum.default",
        "_local_scalar_dense.default",
        "gt.Scalar",
        "all.default",
        "_local_scalar_dense.default",
        "zeros.default",
        "randn.default",
        "empty.memory_format",
        "full.default",
    ]


def test_fake_tensors_have_shapes_alone():
    from taper._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensor,
        FakeTensorMode,
    )

    with FakeTensorMode() as mode:
        x = torch.randn(3, 4)
        net = torch.nn.Linear(4, 5)
        y = net(x).relu()
        assert type(y) is FakeTensor
        assert y.shape == (3, 5)
        assert y.device.type == "cpu"
        assert repr(x) == "FakeTensor(..., size=(3, 4))"
        with pytest.raises(DataDependentOutputException):
            y.sum().item()
        counts = torch.ones(3, dtype=torch.int64)
        for by_values in (
            lambda: x.nonzero(),
            lambda: x[x > 0],
            lambda: x.masked_select(x > 0),
            lambda: x.unique(),
            lambda: x.unique(dim=0),
            lambda: x.unique_consecutive(),
            lambda: counts.bincount(),
            lambda: x.repeat_interleave(counts, 0),
        ):
            with pytest.raises(DynamicOutputShapeException):
                by_values()
        assert x[counts].shape == (3, 4)
        assert x.repeat_interleave(2).shape == (24,)
        y.sum().backward()
        assert net.weight.grad.shape == (5, 4)
    real = torch.ones(2)
    assert mode.from_tensor(real).add(1).shape == (2,)
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first"), mode:
        real + 1


def test_swapped_tensors_keep_their_objects():
    one, two = torch.nn.Parameter(torch.ones(2)), torch.zeros(3)
    one.note = "mine"
    torch.utils.swap_tensors(one, two)
    assert type(one) is torch.Tensor
    assert one.shape == (3,)
    assert type(two) is torch.nn.Parameter
    assert two.note == "mine"
    assert two.requires_grad
    import weakref

    held = weakref.ref(one)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref associated with it"):
        torch.utils.swap_tensors(one, two)
    del held


def test_a_class_may_let_a_function_run_without_being_asked_again():
    calls = []

    class Told(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return torch.overrides.redispatch_function(func, types, args, kwargs)

    x = torch.ones(2).as_subclass(Told)
    assert type(x * 2) is torch.Tensor
    assert calls == ["mul"]


def test_super_runs_the_operator_itself():
    class Counted(torch.Tensor):
        seen = []

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = torch.Tensor._make_subclass(Counted, torch.ones(2))
    assert (x + 1).tolist() == [2, 2]
    assert Counted.seen == ["aten.add.Tensor"]


def test_the_names_of_the_dispatcher():
    C = torch._C
    assert str(C._get_schema("aten::sin", "")) == "aten::sin(Tensor self) -> Tensor"
    assert C._jit_resolve_packet("aten::add", torch.ones(1), 2) == "Tensor"
    assert C._dispatch_has_kernel_for_dispatch_key("aten::linear", "CompositeImplicitAutograd")
    assert not C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", "CompositeImplicitAutograd")
    assert C.DispatchKeySet(C.DispatchKey.CPU).has(C.DispatchKey.CPU)
    assert C._dispatch_isTensorSubclassLike(wrapped(1))
    x = torch.ones(2)
    assert C._any_output_is_alias_to_input_or_output((x,), {}, x.view(2))
    assert not C._any_output_is_alias_to_input_or_output((x,), {}, x + 1)
    parsed = C.parse_schema("foo.bar(Tensor(a!) x, int[2] y=1, *, str? z=None) -> (Tensor(a!), int)")
    assert parsed.name == "foo"
    assert parsed.is_mutable
    assert str(parsed) == "foo.bar(Tensor(a!) x, int[2] y=1, *, str? z=None) -> (Tensor(a!), int)"


def test_wrappers_as_parameters():
    from copy import deepcopy

    p = torch.nn.Parameter(wrapped(2, requires_grad=False))
    assert isinstance(p, torch.nn.Parameter)
    assert type(p) is Wrapped
    assert p.requires_grad
    assert torch.Tensor.__repr__(p).startswith("Parameter(Wrapped(")
    q = deepcopy(p)
    assert isinstance(q, torch.nn.Parameter)
    assert q.elem is not p.elem
    assert torch.equal(q.elem, p.elem)
    (p * 2).sum().backward(torch.tensor(1))  # a gradient of another dtype, and no wrapper
    assert (
        p.grad.tolist() == [2, 2] if type(p.grad) is torch.Tensor else torch.equal(p.grad.elem, torch.full((2,), 2.0))
    )


def test_a_class_with_a_handler_gets_what_that_gives():
    class Unwrapping(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*(a.elem if isinstance(a, Unwrapping) else a for a in args), **(kwargs or {}))

    x = torch.Tensor._make_wrapper_subclass(Unwrapping, (2,))
    x.elem = torch.ones(2)
    assert type(x + 1) is torch.Tensor
    with pytest.raises(RuntimeError, match=r"requires that detach\(\) returns an instance of the same type"):
        torch.nn.Parameter(x)


def test_wrappers_are_pickled_with_what_they_hold():
    import pickle

    x = wrapped(2, requires_grad=False)
    y = pickle.loads(pickle.dumps(x))
    assert type(y) is Wrapped
    assert torch.equal(y.elem, x.elem)

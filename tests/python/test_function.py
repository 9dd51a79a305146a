"""torch.autograd.Function. TAPER_TEST_MODULE=torch runs the same tests against PyTorch."""

import gc
import importlib
import os
import traceback
import weakref

import pytest

NAME = os.environ.get("TAPER_TEST_MODULE", "taper")
torch = importlib.import_module(NAME)
Function = importlib.import_module(NAME + ".autograd").Function
once_differentiable = importlib.import_module(NAME + ".autograd.function").once_differentiable
graph = importlib.import_module(NAME + ".autograd.graph")


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def test_forward_and_backward():
    x = leaf(1.0, 2.0)
    y = Cube.apply(x)
    assert y.requires_grad
    assert y.grad_fn.name() == "CubeBackward"
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    assert not Cube.apply(x.detach()).requires_grad
    with torch.no_grad():
        assert not Cube.apply(x).requires_grad


def test_double_backward():
    x = leaf(2.0)
    (g,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert g.item() == 12.0
    assert h.item() == 12.0


def test_a_second_backward_is_an_error_with_advice():
    x = leaf(2.0)
    y = Cube.apply(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_other_arguments_attributes_and_needs():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor, y, options=None):
            ctx.factor, ctx.options = factor, options
            ctx.needs = ctx.needs_input_grad
            return x * factor + y

        @staticmethod
        def backward(ctx, grad):
            assert ctx.needs == (True, False, False, False)
            assert ctx.options == {"a": [1]}
            return grad * ctx.factor, None, None, None

    x = leaf(1.0, 2.0)
    Scale.apply(x, 5, torch.ones(2, dtype=torch.float64), {"a": [1]}).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_arguments_by_keyword():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor=2, shift=0):
            ctx.factor = factor
            return x * factor + shift

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    x = leaf(1.0)
    Scale.apply(x, factor=5).sum().backward()
    assert x.grad.item() == 5.0


def test_setup_context():
    class Power(Function):
        @staticmethod
        def forward(x, n=2):
            return x**n

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.n = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, grad):
            return ctx.n * ctx.saved_tensors[0] ** (ctx.n - 1) * grad, None

        @staticmethod
        def vmap(info, in_dims, x, n):
            return x**n, in_dims[0]

        @staticmethod
        def jvp(ctx, x, n):
            return x

    x = leaf(3.0)
    Power.apply(x, 3).sum().backward()
    assert x.grad.item() == 27.0
    x.grad = None
    Power.apply(x).sum().backward()
    assert x.grad.item() == 6.0


def test_several_results_and_missing_gradients():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, "text", x * 3

        @staticmethod
        def backward(ctx, a, text, b):
            assert text is None
            ctx.seen.append((a.tolist(), b.tolist()))
            return 2 * a + 3 * b

    Two._backward_cls.seen = []
    x = leaf(1.0)
    a, text, b = Two.apply(x)
    assert text == "text"
    b.sum().backward()
    assert x.grad.item() == 3.0
    assert Two._backward_cls.seen == [([0.0], [1.0])]


def test_gradients_need_not_be_materialized():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            assert a is None
            return 3 * b

    x = leaf(1.0)
    Two.apply(x)[1].sum().backward()
    assert x.grad.item() == 3.0


def test_results_that_are_not_differentiable():
    class Sorted(Function):
        @staticmethod
        def forward(ctx, x):
            values, indices = x.sort()
            ctx.mark_non_differentiable(indices)
            ctx.save_for_backward(x, indices)
            return values, indices

        @staticmethod
        def backward(ctx, g, unused):
            x, indices = ctx.saved_tensors
            return torch.zeros_like(x).index_add(0, indices, g)

    x = leaf(3.0, 1.0, 2.0)
    values, indices = Sorted.apply(x)
    assert not indices.requires_grad
    assert values.requires_grad
    (values * torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [100.0, 1.0, 10.0]


def test_in_place_functions():
    class Double_(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    version = y._version
    z = Double_.apply(y)
    assert z is y
    assert y.tolist() == [2.0, 4.0]
    assert y._version > version
    assert y.grad_fn.name() == "Double_Backward"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        Double_.apply(leaf(1.0))


def test_inputs_as_results():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x
    assert y.grad_fn is not None
    assert x.is_leaf
    y.sum().backward()
    assert x.grad.item() == 7.0


def test_nested_results_come_as_they_are():
    class Nested(Function):
        @staticmethod
        def forward(ctx, x):
            return [x * 2, {"a": 1}]

        @staticmethod
        def backward(ctx, grad):
            return None

    out = Nested.apply(leaf(1.0))
    assert isinstance(out, list)
    assert out[1] == {"a": 1}
    assert not out[0].requires_grad


def broken(grads):
    class Broken(Function):
        @staticmethod
        def forward(ctx, x, y, n):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return grads(grad)

    return Broken


def test_wrong_gradients():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(
        RuntimeError, match=r"function BrokenBackward returned an incorrect number of gradients \(expected 3, got 1\)"
    ):
        broken(lambda g: g).apply(x, y, 3).sum().backward()
    with pytest.raises(
        RuntimeError,
        match="returned a gradient different than None at position 3, but the corresponding forward input was not a Variable",
    ):
        broken(lambda g: (g, g, g)).apply(x, y, 3).sum().backward()
    with pytest.raises(RuntimeError, match="invalid gradient at index 0"):
        broken(lambda g: (torch.ones(4, dtype=torch.float64), None, None)).apply(leaf(1.0, 2.0), y, 3).sum().backward()
    broken(lambda g: (g, None, None, None)).apply(x, y, 3).sum().backward()
    assert x.grad.item() == 1.0
    assert y.grad is None


def test_exceptions_arrive_as_they_are():
    class Mine(Exception):
        pass

    def the_place(g):
        raise Mine("in backward")

    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(Mine, match="in backward") as caught:
        broken(the_place).apply(x, y, 3).sum().backward()
    assert any(frame.name == "the_place" for frame in traceback.extract_tb(caught.value.__traceback__))

    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            raise Mine("in forward")

    with pytest.raises(Mine, match="in forward"):
        Bad.apply(x)
    assert torch.is_grad_enabled()


def test_missing_methods():
    class Empty(Function):
        pass

    class NoBackward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="forward"):
        Empty.apply(leaf(1.0))
    with pytest.raises(NotImplementedError, match="backward or vjp"):
        NoBackward.apply(leaf(1.0)).sum().backward()
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        with pytest.warns(DeprecationWarning, match="should not be instantiated"):
            Cube()(leaf(1.0))


def test_vjp_is_another_name_for_backward():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, grad):
            return grad * 2

    x = leaf(1.0)
    Twice.apply(x).sum().backward()
    assert x.grad.item() == 2.0


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = leaf(3.0)
    (g,) = torch.autograd.grad((Square.apply(x) ** 2).sum(), x, create_graph=True)
    assert g.item() == 108.0
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_ctx_is_the_node():
    class Noted(Cube):
        @staticmethod
        def forward(ctx, x):
            ctx.note = "here"
            ctx.save_for_backward(x)
            return x**3

    x = leaf(2.0)
    y = Noted.apply(x)
    fn = y.grad_fn
    assert fn.note == "here"
    assert fn is y.grad_fn
    assert isinstance(fn, graph.Node)
    assert fn.saved_tensors[0].tolist() == [2.0]
    assert fn.next_functions[0][0].variable is x
    fn.metadata["a"] = 1
    assert y.grad_fn.metadata == {"a": 1}
    fn.register_hook(lambda inputs, outputs: (inputs[0] * 2,))
    y.sum().backward()
    assert x.grad.item() == 24.0


def test_saved_tensors_are_watched():
    x = leaf(2.0)
    y = x * 1
    z = Cube.apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_saving_results_and_none():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y, None)
            return y

        @staticmethod
        def backward(ctx, grad):
            y, nothing = ctx.saved_tensors
            assert nothing is None
            return grad * y

    x = leaf(1.0)
    Exp.apply(x).sum().backward()
    assert torch.allclose(x.grad, x.detach().exp())
    with pytest.raises(TypeError, match="save_for_backward can only save variables"):

        class Bad(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(3)
                return x * 2

        Bad.apply(x)


def test_functions_run_inside_functions():
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Cube.apply(x)

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                y = Cube.apply(x).sum()
            y.backward()
            return x.grad * grad

    x = leaf(2.0)
    Outer.apply(x).sum().backward()
    assert x.grad.item() == 12.0


def test_a_call_is_freed_with_its_graph():
    class Marker:
        pass

    alive = []

    class Marked(Cube):
        @staticmethod
        def forward(ctx, x):
            ctx.marker = Marker()
            alive.append(weakref.ref(ctx.marker))
            ctx.save_for_backward(x)
            return x**3

    x = leaf(1.0)
    y = Marked.apply(x)
    y.sum().backward()
    del y
    gc.collect()
    assert alive[0]() is None


def test_a_cycle_through_ctx_is_collected():
    class Marker:
        pass

    alive = []

    class Cyclic(Cube):
        @staticmethod
        def forward(ctx, x):
            y = x**3
            ctx.save_for_backward(x)
            ctx.y, ctx.marker = y, Marker()
            alive.append(weakref.ref(ctx.marker))
            return y

    y = Cyclic.apply(leaf(1.0))
    gc.collect()
    assert alive[0]() is not None
    assert y.grad_fn.y is y
    del y
    gc.collect()
    assert alive[0]() is None
    Cyclic.apply(leaf(1.0)).sum().backward()
    gc.collect()
    assert alive[1]() is None


def test_boxed_gradients_come_as_a_list():
    seen = []

    class Twice(torch.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, grads):
            seen.append(type(grads))
            first, second = grads
            grads.clear()
            return first * 2 + second * 3

    x = torch.ones(2, requires_grad=True)
    a, b = Twice.apply(x)
    (a.sum() + b.sum()).backward()
    assert seen == [list]
    assert x.grad.tolist() == [5.0, 5.0]
    assert a.grad_fn.apply(torch.ones(2), torch.ones(2)).tolist() == [5.0, 5.0]


def test_an_input_returned_as_it_is_may_not_be_saved_in_setup_context():
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(RuntimeError, match="An input that has been returned as-is"):
        Same.apply(torch.ones(2, requires_grad=True) * 1)


def test_vmap_uses_a_functions_own_rule():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(x):
            raise AssertionError("the rule runs instead")

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            assert info.batch_size == 3
            assert in_dims == (0,)
            return x * 2, 0

    x = torch.arange(6.0).reshape(3, 2)
    assert torch.equal(torch.vmap(Double.apply)(x), x * 2)

    class Bare(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

    for transform in (torch.vmap, torch.func.grad, torch.func.jacrev):
        with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
            transform(Bare.apply)(torch.ones(()) if transform is torch.func.grad else x)

"""torch.func, torch.autograd.functional, gradcheck and forward-mode AD. TAPER_TEST_MODULE=torch runs the same tests
against PyTorch."""

import collections
import importlib
import os

import pytest

NAME = os.environ.get("TAPER_TEST_MODULE", "taper")
torch = importlib.import_module(NAME)
func = importlib.import_module(NAME + ".func")
functional = importlib.import_module(NAME + ".autograd.functional")
forward_ad = importlib.import_module(NAME + ".autograd.forward_ad")
pytree = importlib.import_module(NAME + ".utils._pytree")
autograd = importlib.import_module(NAME + ".autograd")
Point = collections.namedtuple("Point", ["x", "y"])


def vec(*values, **kwargs):
    return torch.tensor(values, dtype=torch.float64, **kwargs)


def close(a, b):
    return torch.allclose(a, b, rtol=1e-9, atol=1e-12)


# ---- gradients ----
def test_grad_and_its_grad():
    x = vec(2.0)[0]
    f = lambda x: x**4
    g = func.grad(f)(x)
    assert g.item() == 32.0
    assert not g.requires_grad
    assert func.grad(func.grad(f))(x).item() == 48.0
    h = func.grad(func.grad(func.grad(f)))(x)
    assert h.item() == 48.0
    assert not h.requires_grad
    with torch.no_grad():
        assert func.grad(f)(x).item() == 32.0


def test_grad_arguments():
    a, b = vec(2.0)[0], vec(3.0)[0]
    f = lambda a, b: a * a * b
    assert [g.item() for g in func.grad(f, argnums=(0, 1))(a, b)] == [12.0, 4.0]
    assert func.grad(f, argnums=-1)(a, b).item() == 4.0
    g, (value, aux) = func.grad_and_value(lambda x: (x * x, {"twice": 2 * x}), has_aux=True)(a)
    assert (g.item(), value.item(), aux["twice"].item()) == (4.0, 4.0, 4.0)
    assert not aux["twice"].requires_grad
    tree = func.grad(lambda p: (p["w"] * p["b"][0]).sum())({"w": vec(1.0, 2.0), "b": [vec(5.0)]})
    assert tree["w"].tolist() == [5.0, 5.0]
    assert tree["b"][0].tolist() == [3.0]
    with pytest.raises(RuntimeError, match="Expected f\\(\\*args\\) to return a scalar Tensor, got tensor with 1 dims"):
        func.grad(lambda x: x * 2)(vec(1.0, 2.0))
    assert func.grad(lambda x, y: y.sum())(a, b).item() == 0.0


def test_results_hang_on_what_the_caller_tracks():
    w = vec(3.0, requires_grad=True)
    g = func.grad(lambda x: (w * x * x).sum())(vec(2.0))
    assert g.requires_grad
    assert g.tolist() == [12.0]
    g.sum().backward()
    assert w.grad.tolist() == [4.0]
    x = vec(2.0, requires_grad=True)
    func.grad(lambda x: (x**3).sum())(x).sum().backward()
    assert x.grad.tolist() == [12.0]


def test_vjp_and_jvp():
    x = vec(1.0, 2.0, 3.0)
    out, back = func.vjp(lambda x: (x * x, x.sum()), x)
    assert out[0].tolist() == [1.0, 4.0, 9.0]
    assert not out[0].requires_grad
    (g,) = back((torch.ones_like(x), vec(10.0)[0]))
    assert g.tolist() == [12.0, 14.0, 16.0]
    value, tangent = func.jvp(lambda x: x**3, (x,), (vec(1.0, 0.0, 2.0),))
    assert value.tolist() == [1.0, 8.0, 27.0]
    assert close(tangent, vec(3.0, 0.0, 54.0))
    assert not tangent.requires_grad
    value, push = func.linearize(lambda x: x.sin(), x)
    assert close(push(torch.ones_like(x)), x.cos())
    second = func.jvp(lambda y: func.jvp(lambda x: x**3, (y,), (torch.ones_like(y),))[1], (x,), (torch.ones_like(x),))[
        1
    ]
    assert close(second, 6 * x)
    with pytest.raises(RuntimeError, match="same python structure|same structure"):
        func.jvp(lambda x: x, (x,), (x, x))


def test_jacobians():
    x = vec(1.0, 2.0)
    f = lambda x: torch.stack([x[0] * x[1], x[0] ** 2, x[1].exp()])
    expected = torch.stack(
        [torch.stack([x[1], x[0]]), vec(2.0, 0.0), torch.stack([torch.zeros_like(x[0]), x[1].exp()])]
    )
    assert close(func.jacrev(f)(x), expected)
    assert close(func.jacfwd(f)(x), expected)
    assert close(func.jacfwd(lambda x: x.prod())(x), vec(2.0, 1.0))
    h = func.hessian(lambda x: (x**3).sum())(x)
    assert close(h, torch.diag(6 * x))
    assert not h.requires_grad
    both = func.jacrev(lambda a, b: {"p": a * b}, argnums=(0, 1))(x, x + 1)
    assert close(both["p"][0], torch.diag(x + 1))
    assert close(both["p"][1], torch.diag(x))
    j, aux = func.jacrev(lambda x: (x * 2, x.sum()), has_aux=True)(x)
    assert close(j, 2 * torch.eye(2, dtype=torch.float64))
    assert aux.item() == 3.0


# ---- vmap ----
def test_vmap():
    x, y = torch.arange(6.0).view(3, 2), torch.arange(3.0)
    assert torch.equal(func.vmap(torch.dot)(x, x), (x * x).sum(1))
    assert torch.equal(func.vmap(lambda a, b: a * b)(x, y), x * y[:, None])
    assert torch.equal(func.vmap(lambda a, b: a * b, in_dims=(0, None))(x, x[0]), x * x[0])
    assert torch.equal(func.vmap(lambda a: a * 2, in_dims=1, out_dims=1)(x), x * 2)
    assert torch.equal(func.vmap(func.vmap(lambda a, b: a * b, (None, 0)), (0, None))(y, y), y[:, None] * y)
    out = func.vmap(lambda d: {"a": d["x"] + 1, "b": (d["x"], d["y"] * 2)})({"x": x, "y": y})
    assert torch.equal(out["a"], x + 1)
    assert torch.equal(out["b"][1], y * 2)
    assert torch.equal(func.vmap(lambda a: a.sum(), chunk_size=2)(x), x.sum(1))
    a, b = func.vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(x)
    assert a.shape == (2, 3)
    assert b.shape == (3,)
    assert func.vmap(lambda a: a.sum())(torch.ones(0, 2)).shape == (0,)
    assert torch.vmap is not None
    assert torch.equal(torch.vmap(torch.sum)(x), x.sum(1))


def test_vmap_of_grad():
    w, x, t = vec(1.0, -2.0), torch.arange(8.0, dtype=torch.float64).view(4, 2), vec(0.0, 1.0, 0.0, 1.0)
    loss = lambda w, x, t: ((w * x).sum() - t) ** 2
    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(w, x, t)
    assert close(each, 2 * ((x * w).sum(1) - t)[:, None] * x)


def test_vmap_refuses():
    x = torch.ones(3, 2)
    for bad in (
        lambda: func.vmap(torch.mul)(x, torch.ones(4, 2)),
        lambda: func.vmap(torch.sum, in_dims=5)(x),
        lambda: func.vmap(lambda x: 3)(x),
        lambda: func.vmap(torch.sum, in_dims=(0, 0))(x),
        lambda: func.vmap(lambda: 1)(),
        lambda: func.vmap(torch.mul, in_dims=None)(x, x),
    ):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(torch.sum, randomness="some")(x)(x)


def test_vmap_randomness():
    x = torch.zeros(4, 3)
    same = func.vmap(lambda a: a + torch.rand(3), randomness="same")(x)
    different = func.vmap(lambda a: a + torch.rand(3), randomness="different")(x)
    assert torch.equal(same[0], same[3])
    assert not torch.equal(different[0], different[3])


# ---- torch.autograd.functional ----
def test_functional():
    x, v = vec(1.0, 2.0), vec(1.0, -1.0)
    f = lambda x: x**3
    assert close(functional.jacobian(f, x), torch.diag(3 * x * x))
    assert close(functional.hessian(lambda x: (x**3).sum(), x), torch.diag(6 * x))
    value, product = functional.vjp(f, x, v)
    assert close(value, x**3)
    assert close(product, 3 * x * x * v)
    assert close(functional.jvp(f, x, v)[1], 3 * x * x * v)
    assert close(functional.hvp(lambda x: (x**3).sum(), x, v)[1], 6 * x * v)
    assert close(functional.vhp(lambda x: (x**3).sum(), x, v)[1], 6 * x * v)
    pair = functional.jacobian(lambda a, b: (a * b, a.sum()), (x, v))
    assert close(pair[0][1], torch.diag(x))
    assert pair[1][1].tolist() == [0.0, 0.0]
    w = x.clone().requires_grad_()
    functional.jacobian(f, w, create_graph=True).sum().backward()
    assert close(w.grad, 6 * x)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        functional.jacobian(lambda a, b: a * 2, (x, v), strict=True)
    with pytest.raises(TypeError):
        functional.jacobian(f, 3.0)


# ---- gradcheck ----
class WrongSquare(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * ctx.saved_tensors[0] * grad


def test_gradcheck():
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    y = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert autograd.gradcheck(lambda x, y: (x * y).sin(), (x, y))
    assert autograd.gradgradcheck(lambda x, y: (x * y).sin(), (x, y))
    GradcheckError = importlib.import_module(NAME + ".autograd.gradcheck").GradcheckError
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        autograd.gradcheck(WrongSquare.apply, (x,))
    assert autograd.gradcheck(WrongSquare.apply, (x,), raise_exception=False) is False
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        autograd.gradcheck(torch.sin, (x.detach(),))


def test_gradcheck_of_complex_functions():
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    assert autograd.gradcheck(lambda z: z * z.conj() + z**2, (z,))
    assert autograd.gradcheck(lambda z: z.abs(), (z,))


# ---- forward mode ----
def test_dual_numbers():
    x, t = vec(1.0, 2.0), vec(1.0, 10.0)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        out = forward_ad.unpack_dual(dual**3)
        assert close(out.primal, x**3)
        assert close(out.tangent, 3 * x * x * t)
        assert forward_ad.unpack_dual(x * 2).tangent is None
    with pytest.raises(RuntimeError, match="enter_dual_level|no level exists"):
        forward_ad.make_dual(x, t)


# ---- trees ----
def test_trees():
    tree = {"a": [1, (2, 3)], "b": Point(4, None)}
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, 3, 4, None]
    assert pytree.tree_unflatten([x and x * 10 for x in leaves], spec) == {"a": [10, (20, 30)], "b": Point(40, None)}
    assert pytree.tree_map(lambda a, b: a + b, [1, {"k": 2}], [10, {"k": 20}]) == [11, {"k": 22}]
    assert spec == pytree.tree_flatten({"a": [5, (6, 7)], "b": Point(8, 9)})[1]
    assert spec != pytree.tree_flatten([1])[1]
    assert pytree.tree_map_only(int, str, [1, "x", (2.0,)]) == ["1", "x", (2.0,)]
    with pytest.raises(ValueError):
        pytree.tree_unflatten([1], spec)


# ---- Refusals, in PyTorch's words ----
@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: func.jvp(torch.sin, x, x), "Expected primals to be a tuple"),
        (lambda x: func.jvp(torch.sin, (), ()), "Expected primals to contain at least one Tensor"),
        (
            lambda x: func.jvp(lambda x: None, (x,), (x,)),
            r"jvp\(f, primals, tangents\): Expected f to be a function that has non-empty output",
        ),
        (lambda x: func.jvp(lambda x: torch.ones(2), (x,), (x,), strict=True), "independent of the inputs"),
        (lambda x: func.vjp(lambda x: 1.0, x), "to return only tensors, got unsupported type <class 'float'>"),
        (
            lambda x: func.vjp(lambda x: x, x, has_aux=True),
            r"vjp\(f, \*primals\): output of function f should be a tuple",
        ),
        (lambda x: func.grad(lambda x: (x.sum(), 1.0), has_aux=True)(x), "Expected tensors, got unsupported type"),
        (lambda x: func.jacrev(torch.sin, argnums=())(x), "argnums must be non-empty"),
        (lambda x: func.jacfwd(torch.sin, argnums=0.0)(x), r"argnums must be int or Tuple\[int, ...\]"),
        (lambda x: func.jacrev(torch.sin)(x.to(torch.complex64)), "jacrev: Expected all inputs to be real"),
        (lambda x: func.grad(lambda x: x.requires_grad_().sum())(x), r"attempting to call Tensor.requires_grad_\(\)"),
        (lambda x: func.grad(lambda x: x.retain_grad())(x), r"attempting to call Tensor.retain_grad\(\)"),
        (lambda x: torch.vmap(lambda x: x.requires_grad_())(x), r"attempting to call Tensor.requires_grad_\(\)"),
        (lambda x: func.grad(lambda x: functional.jacobian(torch.sin, x).sum())(x), r"torch.autograd.functional"),
    ],
)
def test_refusals_of_transforms(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(torch.rand(3))


def test_transforms_take_no_hooks_for_saved_tensors():
    graph = importlib.import_module(NAME + ".autograd.graph")
    with graph.save_on_cpu():
        with pytest.raises(RuntimeError, match="saved tensor hooks"):
            func.grad(torch.sin)(torch.ones(()))
    with graph.save_on_cpu():
        assert close(func.jvp(torch.sin, (vec(0.0),), (vec(2.0),))[1], vec(2.0))
    with graph.save_on_cpu():  # they are allowed again afterwards
        assert torch.ones(1, requires_grad=True).sin().requires_grad


def test_vmap_with_randomness_runs_as_a_batch_where_nothing_is_drawn():
    calls = []

    def square(x):
        calls.append(1)
        return x * x

    x = torch.rand(5)
    assert torch.equal(torch.vmap(square, randomness="different")(x), x * x)
    assert len(calls) == 1
    drawn = torch.vmap(lambda x: x + torch.rand(()), randomness="different")(torch.zeros(5))
    assert len(set(drawn.tolist())) == 5
    assert len(set(torch.vmap(lambda x: x + torch.rand(()), randomness="same")(torch.zeros(5)).tolist())) == 1


@pytest.mark.skipif(NAME != "taper", reason="the package is PyTorch's own there")
def test_functorch_is_torch_func_by_its_old_names():
    functorch = importlib.import_module("taper.functorch")
    model, x = torch.nn.Linear(3, 2), torch.rand(4, 3)
    with pytest.warns(FutureWarning, match="Please use `torch.func.grad`"):
        assert functorch.grad(torch.sin)(torch.zeros(())).item() == 1
    with pytest.warns(FutureWarning, match="Please use `torch.func.functional_call`"):
        function, params = functorch.make_functional(model)
    assert torch.equal(function(params, x), model(x))
    with pytest.warns(FutureWarning, match="Please use `torch.func.stack_module_state`"):
        stacked, params, buffers = functorch.combine_state_for_ensemble([model, torch.nn.Linear(3, 2)])
    assert torch.vmap(stacked, (0, 0, None))(params, buffers, x).shape == (2, 4, 2)


# ---- Forward mode ----
def test_tangents_follow_views_and_writes():
    with forward_ad.dual_level():
        primal, tangent = vec(1.0, 2.0), vec(1.0, 1.0)
        dual = forward_ad.make_dual(primal, tangent)
        assert not dual.requires_grad
        assert forward_ad.unpack_dual(dual).tangent is tangent
        part = dual[0:1]
        part *= 3
        assert forward_ad.unpack_dual(dual).tangent.tolist() == [3.0, 1.0]
        assert tangent.tolist() == [3.0, 1.0]
        other = vec(0.0, 0.0)
        other[1] = dual[0]
        assert forward_ad.unpack_dual(other).tangent.tolist() == [0.0, 3.0]
        assert forward_ad.unpack_dual(dual.detach()).tangent is None
        with torch.no_grad():
            assert forward_ad.unpack_dual(dual * 2).tangent.tolist() == [6.0, 2.0]
        with pytest.raises(RuntimeError, match="has a different size than that of the original Tensor"):
            forward_ad.make_dual(primal, vec(1.0))
        with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
            forward_ad.make_dual(primal, dual)
    assert forward_ad.unpack_dual(dual).tangent is None


def test_tangents_have_a_history_of_their_own():
    x, v = vec(0.5, 1.0, requires_grad=True), vec(1.0, 2.0, requires_grad=True)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, v).sin()).tangent
        by_x, by_v = autograd.grad(tangent.sum(), (x, v))
    assert close(by_x, -x.detach().sin() * v.detach())
    assert close(by_v, x.detach().cos())


def test_a_functions_own_jvp_is_used_and_checked():
    class Scaled(autograd.Function):
        @staticmethod
        def forward(ctx, x, how):
            ctx.how = how
            ctx.save_for_forward(x)
            return x * 2

        @staticmethod
        def jvp(ctx, tangent, how):
            (x,) = ctx.saved_tensors
            return tangent * (20 if ctx.how == "loud" else 2) + 0 * x

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(vec(1.0), vec(1.0))
        assert forward_ad.unpack_dual(Scaled.apply(dual, "loud")).tangent.tolist() == [20.0]
    x = vec(1.0, 2.0, requires_grad=True)
    assert autograd.gradcheck(lambda x: Scaled.apply(x, "right"), (x,), check_forward_ad=True, check_backward_ad=False)
    with pytest.raises(autograd.GradcheckError, match="Jacobian computed with forward mode mismatch for output 0"):
        autograd.gradcheck(lambda x: Scaled.apply(x, "loud"), (x,), check_forward_ad=True, check_backward_ad=False)

    class NoRule(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="must implement the jvp function"):
        NoRule.apply(forward_ad.make_dual(vec(1.0), vec(1.0)))


def test_gradients_inside_of_a_level_have_tangents():
    x, v = vec(0.5, 1.0), vec(1.0, 2.0)
    first, second = x.sin() + x * x.cos(), 2 * x.cos() - x * x.sin()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        value, back = func.vjp(lambda x: x.sin() * x, dual)
        assert close(forward_ad.unpack_dual(value).tangent, first * v)
        assert close(forward_ad.unpack_dual(back(torch.ones_like(x))[0]).tangent, second * v)
        assert close(forward_ad.unpack_dual(func.grad(lambda x: (x.sin() * x).sum())(dual)).tangent, second * v)
        y = vec(2.0, 3.0, requires_grad=True)
        (by_y,) = autograd.grad((y * dual * dual).sum(), y)
        assert close(forward_ad.unpack_dual(by_y).tangent, 2 * x * v)


@pytest.mark.parametrize(
    "draw",
    [
        torch.bernoulli,
        torch.poisson,
        lambda t: torch.normal(t, 1.0),
        lambda t: torch.normal(0.0, t),
        lambda t: torch.binomial(t, t),
        lambda t: t.clone().bernoulli_(t),
    ],
)
def test_slices_draw_from_distributions_of_their_own(draw):
    x = torch.rand(4, 3)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        torch.vmap(draw)(x)
    with pytest.raises(RuntimeError, match="does not currently support same randomness with a batched tensor input"):
        torch.vmap(draw, randomness="same")(x)
    assert torch.vmap(draw, randomness="different")(x).shape == x.shape


def test_writing_random_numbers_into_a_batch_is_a_random_operation():
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        torch.vmap(lambda t: t.clone().uniform_())(torch.rand(4, 3))


@pytest.mark.parametrize(
    "draw", [lambda x: x + torch.rand(1), lambda x: torch.rand(1) + torch.randn_like(x), lambda x: torch.bernoulli(x)]
)
def test_a_refused_draw_leaves_the_generator_as_it_was(draw):
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="randomness error mode"):
        torch.vmap(draw)(torch.ones(3, 1))
    assert torch.equal(torch.get_rng_state(), before)


def test_vmap_of_a_gradient_through_one_graph():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x**3
    rows = torch.func.vmap(lambda g: torch.autograd.grad(y, x, g)[0])(torch.eye(2))
    assert rows.tolist() == [[3, 0], [0, 12]]
    with pytest.raises(RuntimeError, match="a second time"):  # the last slice let the graph go
        torch.autograd.grad(y, x, torch.ones(2))

"""torch.fx.experimental.proxy_tensor.make_fx: graphs of aten's operators, which hold for other inputs as well."""

import taper as torch
from taper import nn
from taper.fx.experimental.proxy_tensor import make_fx
from taper.nn import functional as F
from taper.utils import _pytree as pytree


def operators(graph_module):
    return [str(n.target) for n in graph_module.graph.nodes if n.op == "call_function"]


def holds(function, make, **options):
    """The graph of one draw computes what the function does for another."""
    torch.manual_seed(0)
    graph = make_fx(function, **options)(*make())
    inputs = make()
    ours, theirs = pytree.tree_leaves(graph(*inputs)), pytree.tree_leaves(function(*inputs))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b)
    return graph


def normal(*shape, grad=False):
    return torch.randn(*shape, requires_grad=grad)


def test_names_and_source_are_pytorchs():
    graph = make_fx(lambda x: x.sin() * 2 + x)(torch.ones(3, 4))
    assert graph.code.strip().splitlines() == [
        "def forward(self, x_1):",
        "    sin = torch.ops.aten.sin.default(x_1)",
        "    mul = torch.ops.aten.mul.Tensor(sin, 2);  sin = None",
        "    add = torch.ops.aten.add.Tensor(mul, x_1);  mul = x_1 = None",
        "    return add",
    ]


def test_arguments_of_which_one_begins_as_the_other_keep_their_names():
    graph = make_fx(lambda x_y, x: x_y + x)(torch.ones(2), torch.ones(2))
    assert [n.name for n in graph.graph.nodes if n.op == "placeholder"] == ["x_y_1", "x_1"]


def test_lists_and_dicts_are_taken_apart():
    graph = holds(
        lambda d, l: {"r": d["a"] + l[0], "s": [l[1] * 3]}, lambda: [{"a": normal(3)}, [normal(3), normal(3)]]
    )
    assert "d_1, l_1, l_2, = fx_pytree.tree_flatten_spec([d, l], self._in_spec)" in graph.code
    assert pytree.tree_leaves(graph.graph.process_inputs({"a": 1}, [2, 3])) == [1, 2, 3]


def test_transforms_are_in_the_graph():
    graph = holds(torch.func.grad(lambda x: (x.sin() * x).sum()), lambda: [normal(3, 4)])
    assert operators(graph)[1:5] == [
        f"aten.{name}" for name in ("sin.default", "mul.Tensor", "sum.default", "ones_like.default")
    ]
    assert "_constant" not in graph.code
    holds(torch.vmap(lambda a: a.sum() * a), lambda: [normal(3, 4)])
    holds(torch.vmap(torch.func.grad(lambda x: (x.exp() * x).sum())), lambda: [normal(3, 4)])
    holds(torch.func.jacrev(lambda x: x.sin() * x.sum()), lambda: [normal(3)])


def test_backward_passes_are_in_the_graph():
    def step(p, x, y):
        hidden = F.layer_norm(torch.addmm(p["b"], x, p["w"]).relu(), (5,))
        return torch.autograd.grad(F.cross_entropy(hidden, y), [p["w"], p["b"]])

    graph = holds(
        step,
        lambda: [
            {"w": normal(4, 5, grad=True), "b": normal(5, grad=True)},
            normal(6, 4),
            torch.randint(0, 5, (6,)),
        ],
    )
    assert "_constant" not in graph.code
    holds(
        lambda x, w: torch.autograd.grad(F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2).pow(2).sum(), [w]),
        lambda: [normal(1, 2, 4, 4), normal(3, 2, 3, 3, grad=True)],
    )
    holds(
        lambda x: torch.autograd.grad((x.view(2, 6)[:, ::2].t() * x.sum(0)[:2]).exp().sum(), [x]),
        lambda: [normal(3, 4, grad=True)],
    )


def test_grads_that_meet_in_a_leaf_are_added_in_the_graph():
    def twice(x):
        leaf = x.detach().requires_grad_()
        (leaf * 2).sum().backward()
        (leaf * leaf).sum().backward()
        return leaf.grad

    holds(twice, lambda: [normal(3)])


def test_writes_stay():
    def write(x):
        y = x.clone()
        y[0] = y[1] * 2
        y[:, 1].mul_(3)
        y.view(-1).add_(1)
        return y.sum(0)

    holds(write, lambda: [normal(3, 4)])


def test_parameters_and_other_tensors_from_outside_are_attributes():
    layer, outside = nn.Linear(4, 2), torch.ones(2)
    graph = make_fx(lambda x: layer(x) + outside)(normal(3, 4))
    assert [n.target for n in graph.graph.nodes if n.op == "get_attr"] == [
        "_param_constant0",
        "_param_constant1",
        "_tensor_constant0",
    ]
    assert dict(graph.named_parameters())["_param_constant0"] is layer.weight


def test_fake_and_symbolic_tracing_compute_nothing():
    for mode in ("fake", "symbolic"):
        graph = holds(lambda x: x.sin() @ x.t(), lambda: [normal(3, 4)], tracing_mode=mode)
        assert operators(graph) == ["aten.sin.default", "aten.t.default", "aten.mm.default"]
        assert [tuple(n.meta["val"].shape) for n in graph.graph.nodes if "val" in n.meta][-1] == (3, 3)


def test_decompositions_take_the_place_of_operators():
    def mine(x):
        return x * torch.sigmoid(x)

    graph = holds(lambda x: F.silu(x) + 1, lambda: [normal(3)], decomposition_table={torch.ops.aten.silu.default: mine})
    assert operators(graph) == ["aten.sigmoid.default", "aten.mul.Tensor", "aten.add.Tensor"]


def test_values_that_a_program_reads_are_refused():
    for function in (lambda x: x * x.sum().item(), lambda x: x if x.sum() > 0 else -x):
        try:
            make_fx(function)(torch.ones(3))
        except RuntimeError as error:
            assert "trying to get value out of a tracing tensor" in str(error)
        else:
            raise AssertionError("a value went into the graph as a constant")


def test_a_mode_sees_what_the_tape_itself_computes():
    from taper.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log():
        x = torch.ones(2, requires_grad=True)
        (x * 2 + x.sin()).sum().backward()
    assert seen[0] == "aten.ones.default" and "aten.ones_like.default" in seen
    assert seen.count("aten.add.Tensor") == 2, seen  # the program's, and the sum of two gradients
    torch.testing.assert_close(x.grad, 2 + torch.ones(2).cos())


def test_what_the_graph_cannot_hold_is_refused():
    def written(x):
        y = torch.zeros(3, 4)
        y[1:] = x[1:] * 2  # the library's own tape differentiates this
        return torch.autograd.grad((y * y).sum(), [x])

    def interpolated(x):  # which is no operator of aten
        return F.interpolate(x[None, None], scale_factor=2, mode="bilinear")

    for function in (written, interpolated, lambda x: torch.autograd.grad(x.diagonal().sin().sum(), [x])):
        try:
            make_fx(function)(normal(3, 4, grad=True))
        except NotImplementedError as error:
            assert "make_fx: a tensor of shape" in str(error) or "derivative of aten.diagonal" in str(error)
        else:
            raise AssertionError("a value of this run went into the graph")

"""Graphs built, changed, copied, run node by node and rewritten."""

import copy
import io
import operator
import pickle

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import fx
from torch.fx.experimental.optimization import fuse, remove_dropout
from torch.fx.node import map_aggregate
from torch.fx.passes.shape_prop import ShapeProp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.drop = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5)
        self.lin, self.unused = nn.Linear(2, 3), nn.Linear(1, 1)
        self.p = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(torch.relu(self.bn(self.conv(x))).mean((2, 3)))
        return self.lin(x) + self.p


torch.manual_seed(0)
net, x = Net().eval(), torch.randn(2, 1, 5, 5)


def exchange_a_function():
    traced = fx.symbolic_trace(net)
    for node in traced.graph.nodes:
        if node.target is torch.relu:
            with traced.graph.inserting_after(node):
                node.replace_all_uses_with(traced.graph.call_function(F.gelu, node.args, node.kwargs))
            traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    print(traced, traced(x).shape, len(traced.graph.nodes), list(traced.state_dict()))
    traced.print_readable()


def build_by_hand():
    graph = fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b", default_value=2.5)
    c = graph.call_function(torch.add, (a, b))
    d = graph.call_module("act", (graph.call_method("relu", (c,)),))
    e = graph.call_function(operator.mul, (d, graph.get_attr("weight")))
    graph.output((e, {"k": c}))
    module = fx.GraphModule({"act": nn.ReLU(), "weight": nn.Parameter(torch.ones(2))}, graph)
    print(graph, module, module(torch.ones(2)))
    print(list(reversed(graph.nodes)), a.users, e.all_input_nodes, c.next, c.prev, e.args, e.kwargs, e.op, e.target)
    print(copy.deepcopy(graph))
    for wrong in (
        lambda: graph.erase_node(c),
        lambda: fx.GraphModule({}, graph),
        lambda: e.prepend(graph.output_node()) or graph.lint(),
    ):
        try:
            wrong()
        except RuntimeError as error:
            print(str(error).split("\n")[0])


def remove_dead_code():
    def function(x):
        x + 1
        torch._assert(x.sum() > 0, "message")
        return x * 2

    traced = fx.symbolic_trace(function)
    print(traced.graph.eliminate_dead_code(), traced.graph.eliminate_dead_code())
    traced.recompile()
    print(traced.code)


def run_node_by_node():
    class Loud(fx.Interpreter):
        def run_node(self, n):
            result = super().run_node(n)
            print(n.op, n.name, tuple(result.shape))
            return result

    class Sigmoid(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.sigmoid if target is torch.relu else target, args, kwargs)

    traced = fx.symbolic_trace(net)
    print(torch.equal(Loud(traced).run(x), net(x)))
    print(Sigmoid(traced).transform().code)
    ShapeProp(traced).propagate(x)
    for node in traced.graph.nodes:
        print(node.name, node.meta["tensor_meta"])


def replace_patterns():
    def repeated(x, w1, w2):
        first, second = torch.cat([w1, w2]).sum(), torch.cat([w1, w2]).sum()
        return x + torch.max(first) + torch.max(second)

    for function, pattern, replacement in (
        (repeated, lambda w1, w2: torch.cat([w1, w2]).sum(), lambda w1, w2: torch.stack([w1, w2])),
        (lambda x: torch.relu(torch.relu(x + 1) * 2 + 1) * 2, lambda a: torch.relu(a) * 2, lambda a: F.gelu(a)),
        (lambda x: (x.neg().abs(), x.neg()), lambda a: a.neg().abs(), lambda a: a.abs()),
        (lambda x: (x.neg().abs() + x.neg(), x.tan()), lambda a: a.sin(), lambda a: a.cos()),
        (lambda x, y: torch.sigmoid(x) * x + torch.sigmoid(y) * y, lambda a: torch.sigmoid(a) * a, lambda a: F.silu(a)),
    ):
        traced = fx.symbolic_trace(function)
        matches = fx.replace_pattern(traced, pattern, replacement)
        print(traced.code, [(match.anchor, list(match.nodes_map.values())) for match in matches])


def copies_and_files():
    traced = fx.symbolic_trace(net)
    file = io.BytesIO()
    torch.save(traced, file)
    file.seek(0)
    for other in (
        copy.deepcopy(traced),
        copy.copy(traced),
        pickle.loads(pickle.dumps(traced)),
        torch.load(file, weights_only=False),
    ):
        print(
            torch.equal(other(x), net(x)),
            other.code == traced.code,
            type(other).__name__,
            other.training,
            list(other.state_dict()),
        )


def submodules():
    traced = fx.symbolic_trace(net)
    print(
        traced.add_submodule("a.b.c", nn.ReLU()),
        traced.delete_submodule("a.b.c"),
        traced.delete_submodule("nothing"),
        [name for name, _ in traced.named_modules()],
    )
    traced.delete_all_unused_submodules()
    print([name for name, _ in traced.named_modules()])


def own_tracers():
    class Branch(nn.Module):
        def forward(self, x):
            return x.relu() if x.dim() == 2 else x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Branch(), nn.Sequential(nn.ReLU(), nn.Linear(2, 2))

        def forward(self, x, n=3):
            return self.b(self.a(x)) * n

    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Branch) or super().is_leaf_module(m, module_qualified_name)

    class Taking(fx.Tracer):
        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter((obj[0], obj[1]))

    def control(x):
        if x:
            x = x + 1
        for i in x:
            x = x + i
        return x

    tracer = Leaves()
    graph = tracer.trace(Outer())
    print(fx.GraphModule(tracer.root, graph, "Other"), graph)
    print(Taking().trace(control))


def proxies_and_moves():
    traced = fx.symbolic_trace(lambda x: (x + 1, x * 2, x - 3))
    x, add, mul, sub, output = traced.graph.nodes
    add.append(sub)
    add.prepend(mul)
    add.args = (x, 5)
    add.update_arg(1, 7)
    mul.update_kwarg("key", 1)
    print(traced.graph, add < mul, x.users)
    with traced.graph.inserting_before(output):
        proxy = fx.Proxy(sub)
        output.replace_input_with(sub, (proxy * 3 + torch.sin(F.relu(proxy)).foo(2)).node)
    print(traced.graph)
    other, made = fx.Graph(), {}
    other.output(other.graph_copy(fx.symbolic_trace(lambda x: x.sin() + 1).graph, made))
    print(other, list(made.values()), other.node_copy(list(other.nodes)[1], lambda node: node))
    print(map_aggregate({"a": [1, (2, 3)], "b": slice(1, 2, None)}, lambda value: value and value * 2))
    names = fx.Graph()
    print(
        [
            names.create_node("placeholder", name).name
            for name in ("x", "x", "relu_1", "relu", "relu", "for", "1a", "a.b", "print", "self", "torch", "inf")
        ]
    )


for step in (
    exchange_a_function,
    build_by_hand,
    remove_dead_code,
    run_node_by_node,
    replace_patterns,
    copies_and_files,
    submodules,
    own_tracers,
    proxies_and_moves,
):
    print("--", step.__name__)
    step()
print(fuse(net).code, torch.allclose(fuse(net)(x), net(x), atol=1e-6), remove_dropout(net).code)

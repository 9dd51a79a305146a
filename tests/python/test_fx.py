"""torch.fx: graphs of modules run and print as PyTorch's do. tests/python/programs/fx_*.py compare whole texts."""

import taper as torch
from taper import fx, nn
from taper.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.tensor([2.0]))
        self.register_buffer("shift", torch.tensor([0.5]))

    def forward(self, x, bias=None):
        x = F.adaptive_avg_pool2d(self.features(x), 1).flatten(1)
        x = self.head(F.dropout(x, 0.5, self.training)) * self.scale + self.shift
        return F.softmax(x, dim=-1)


def test_a_traced_module_computes_the_same():
    net = Net().eval()
    traced = fx.symbolic_trace(net)
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(traced(x), net(x))
    assert sorted(traced.state_dict()) == sorted(net.state_dict())
    assert not traced.training
    assert type(traced).__name__ == "Net"
    traced(x).sum().backward()
    assert net.head.weight.grad is not None
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"] == [
        "features.0",
        "features.1",
        "features.2",
        "head",
    ]


def test_operands_in_a_list_are_recorded_one_by_one():
    traced = fx.symbolic_trace(lambda a, b: torch.einsum("ij,jk->ik", (a, b)) + torch.einsum("ij,jk->ik", a, b))
    calls = [node for node in traced.graph.nodes if node.op == "call_function"]
    assert str(calls[0].args) == str(calls[1].args) == "('ij,jk->ik', a, b)"
    assert traced(torch.ones(2, 2), torch.ones(2, 2)).sum() == 16


def test_calls_are_as_they_were_after_a_trace():
    before = dict(vars(nn.Module))
    fx.symbolic_trace(Net())
    assert vars(nn.Module).keys() == before.keys()
    assert isinstance(nn.Linear(2, 2).weight, nn.Parameter)


def test_a_table_of_the_nodes(capsys):
    """The layout is that of the package tabulate, which PyTorch prints with."""
    fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).graph.print_tabular()
    assert (
        capsys.readouterr().out
        == """\
opcode       name     target    args        kwargs
-----------  -------  --------  ----------  --------
placeholder  input_1  input     ()          {}
call_module  _0       0         (input_1,)  {}
call_module  _1       1         (_0,)       {}
output       output   output    (_1,)       {}
"""
    )


def test_functions_in_python_are_functions_to_programs():
    """nn.functional's are asked first, and are else what they were: picklable, inspectable, methods of classes."""
    import copy
    import inspect
    import pickle

    class Layer:
        act = F.relu

    assert pickle.loads(pickle.dumps(F.relu)) is F.relu
    assert copy.deepcopy(F.relu) is F.relu
    assert inspect.isfunction(F.relu)
    assert str(inspect.signature(F.relu)) == "(input, inplace=False)"
    assert F.relu.__name__ == "relu"
    assert Layer().act.__func__ is F.relu


def test_stand_ins_are_asked_for_by_every_function():
    class Stand:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function.__name__

    stand, t = Stand(), torch.ones(2)
    assert [
        f(stand) for f in (F.relu, F.softmax, F.dropout, torch.relu, torch.numel, torch.is_complex)
    ] == "relu softmax dropout relu numel is_complex".split()
    assert [
        F.adaptive_avg_pool2d(stand, 1),
        F.max_pool2d(stand, 2),
        torch.split(stand, 1),
        torch.einsum("i,i", t, stand),
    ] == ["adaptive_avg_pool2d", "max_pool2d", "split", "einsum"]
    assert (t @ stand, t + stand, t[stand], torch.cat([t, stand])) == ("matmul", "add", "__getitem__", "cat")


def test_proxies_of_unknown_things_refuse():
    import pytest

    graph = fx.Graph()
    proxy = fx.Proxy(graph.placeholder("x"))
    with pytest.raises(fx.proxy.TraceError, match="control flow"):
        bool(proxy)
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        list(proxy)
    with pytest.raises(RuntimeError, match="'len' is not supported"):
        len(proxy)
    with pytest.raises(NotImplementedError):
        graph.call_function(torch.cat, ([proxy.node],)).args[0].append(1)


def test_asserts_can_be_recorded():
    class Asserting(fx.Tracer):
        trace_asserts = True

    scope = {}  # pytest rewrites the asserts of this file
    exec("def checked(x):\n    assert x.shape[0] == 2, 'two'\n    assert x.ndim == 1\n    return x + 1\n", scope)
    graph = Asserting().trace(scope["checked"])
    calls = [node.args for node in graph.nodes if node.target is torch._assert]
    assert [message for _, message in calls] == ["two", ""]
    module = fx.GraphModule(nn.Module(), graph)
    assert module(torch.ones(2)).tolist() == [2.0, 2.0]
    import pytest

    with pytest.raises(AssertionError, match="two"):
        module(torch.ones(3))

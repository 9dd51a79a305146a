"""torch.jit and the wrappers of torch.compile: files bring modules back, wrappers look like PyTorch's. What they run is
test_compile.py's affair."""

import copy
import io
import pickle

import pytest

import taper as torch
from taper import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))
        self.register_buffer("seen", torch.zeros(()))
        self.inner = Inner()

    def forward(self, x):
        if self.training:
            self.seen += 1
        return self.inner(x @ self.weight.t())

    @torch.jit.export
    def twice(self, x):
        return self.forward(x) * 2

    @torch.jit.ignore
    def plain(self, x):
        return x

    @torch.jit.unused
    def never(self):
        raise NotImplementedError


class Inner(nn.Module):
    def forward(self, x):
        return x + 1


@torch.jit.script
def shifted(x, by: int = 1):
    """Shifts."""
    return x + by


X = torch.ones(1, 3)
KEYS = ["weight", "seen"]


def test_a_scripted_module_is_the_module():
    net = Net()
    scripted = torch.jit.script(net)
    assert isinstance(scripted, torch.jit.ScriptModule)
    assert isinstance(scripted, nn.Module)
    assert not isinstance(scripted, Net)
    assert scripted(X).tolist() == [[4, 4]]
    assert scripted.twice(X).tolist() == [[8, 8]]
    assert list(scripted.state_dict()) == KEYS
    assert scripted.weight is net.weight
    assert scripted.original_name == "Net"
    assert (
        repr(scripted)
        == "RecursiveScriptModule(\n  original_name=Net\n  (inner): RecursiveScriptModule(original_name=Inner)\n)"
    )
    scripted.eval()
    assert not net.training
    assert not scripted.training
    assert not net.inner.training
    assert scripted.double().weight.dtype == net.weight.dtype == torch.float64
    assert torch.jit.script(scripted) is scripted
    assert "self.inner" in scripted.code
    scripted.rate = 3
    assert net.rate == 3
    other = copy.deepcopy(scripted)
    assert other.weight is not net.weight
    assert list(other.state_dict()) == KEYS
    outer = nn.Sequential(torch.jit.script(Net()))
    assert list(outer.state_dict()) == ["0." + key for key in KEYS]
    outer.load_state_dict(outer.state_dict())


def test_scripted_functions():
    assert shifted(torch.zeros(1)).tolist() == [1]
    assert shifted(torch.zeros(1), by=3).tolist() == [3]
    assert isinstance(shifted, torch.jit.ScriptFunction)
    assert shifted.name == "shifted"
    assert "x + by" in shifted.code
    assert not torch.jit.is_scripting()
    assert torch.jit.annotate(int, 3) == 3
    assert torch.jit.Attribute(3, int) == 3


def test_scripts_can_be_differentiated_twice():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 1)

        def forward(self, x: torch.Tensor):
            return self.linear(x).tanh() ** 2

    def cube(x: torch.Tensor):
        return x**3

    for call in (torch.jit.script(cube), torch.jit.script(Net()), torch.jit.trace(cube, torch.ones(3, 2))):
        for _ in range(3):  # the first calls run as Python in any case
            x = torch.full((3, 2), 2.0, requires_grad=True)
            (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), x)
        assert second.abs().sum() > 0
        with torch.no_grad():
            assert not call(x).requires_grad


def test_the_operators_of_a_call_as_a_graph():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(64, 2)
    ).eval()
    states = []
    net[3].register_forward_pre_hook(
        lambda module, inputs: states.append(torch._C._get_tracing_state()) or states[-1].push_scope("head")
    )
    net[3].register_forward_hook(lambda module, inputs, out: states[-1].pop_scope())
    graph, out = torch.jit._get_trace_graph(net, (torch.ones(2, 3, 4, 4),))
    calls = [node for node in graph.nodes() if node.kind().startswith("aten::")]
    assert [node.kind() for node in calls] == [
        "aten::_convolution",
        "aten::batch_norm",
        "aten::flatten",
        "aten::linear",
    ]
    assert [node.scopeName() for node in calls] == ["", "", "", "head"]
    assert torch._C._get_tracing_state() is None
    sizes = [[value.type().sizes() for value in node.inputs() if value.isCompleteTensor()] for node in calls]
    assert sizes[0] == [[2, 3, 4, 4], [4, 3, 3, 3], [4]]
    assert sizes[3] == [[2, 64], [2, 64], [2]]
    assert list(calls[0].inputs())[6].toIValue() is False
    assert calls[0].output().type().scalarType() == "Float"
    assert list(calls[1].inputs())[1] is list(graph.inputs())[3]  # the weights, as aten orders them
    assert len(list(graph.inputs())) == 1 + len(net.state_dict())
    assert list(graph.outputs())[0].type().sizes() == list(out.shape)
    assert "aten::linear" in str(graph)


def test_a_trace_graph_of_conversions_lists_and_constants():
    class Net(torch.nn.Module):
        def forward(self, x):
            y = torch.nn.functional.gelu(torch.stack([x, x[0:2]]), approximate="tanh")
            return y.to(torch.float64).cpu(), y.type(torch.float32).long()

    graph, _ = torch.jit._get_trace_graph(Net(), (torch.ones(2, 2),))
    calls = [node.kind() for node in graph.nodes() if node.kind().startswith("aten::")]
    assert calls == ["aten::index", "aten::stack", "aten::gelu", *["aten::to"] * 4]
    kinds = {
        str(v.type()): v.type().kind() for node in graph.nodes() for v in node.outputs() if not v.isCompleteTensor()
    }
    assert kinds["List[Tensor]"] == "ListType"
    assert kinds["str"] == "StringType"
    named = [node for node in graph.nodes() if node.attributeNames() and node.kindOf("value") == "s"]
    assert [node.s("value") for node in named] == ["tanh"]
    assert named[0].hasAttribute("value")


def test_traces():
    seen = []

    def f(x):
        seen.append(torch.jit.is_tracing())
        return x * 2

    traced = torch.jit.trace(f, torch.ones(2))
    assert traced(torch.ones(3)).tolist() == [2, 2, 2]
    assert seen == [True, False]
    assert not torch.jit.is_tracing()
    net = torch.jit.trace(Net().eval(), X)
    assert isinstance(net, torch.jit.ScriptModule)
    assert net(X).tolist() == [[4, 4]]
    assert torch.jit.trace_module(Net(), {"forward": X, "twice": (X,)})(X).tolist() == [[4, 4]]
    with pytest.raises(RuntimeError, match="one of example_inputs or example_kwarg_inputs must be specified"):
        torch.jit.trace(f)
    with pytest.warns(UserWarning, match="tracing it is a no-op"):
        assert torch.jit.trace(net, X) is net


def test_files_bring_modules_back(tmp_path):
    scripted = torch.jit.script(Net())
    scripted(X)
    path = str(tmp_path / "net.pt")
    scripted.save(path)
    with open(path, "rb") as file:
        assert file.read(2) == b"PK"
    back = torch.jit.load(path, map_location="cpu")
    assert type(back) is type(scripted)
    assert back(X).tolist() == [[4, 4]]
    assert back.seen.item() == 2
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Net().eval(), X), buffer, _extra_files={"note": "kept"})
    buffer.seek(0)
    extra = {"note": ""}
    back = torch.jit.load(buffer, _extra_files=extra)
    assert not back.training
    assert back.twice(X).tolist() == [[8, 8]]
    assert extra == {"note": b"kept"}
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(str(tmp_path / "nowhere"))
    torch.save({"a": 1}, path)
    with pytest.raises(RuntimeError, match="torch.jit.save"):
        torch.jit.load(path)


def test_freezing():
    net = torch.jit.script(Net())
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(net)
    frozen = torch.jit.freeze(net.eval())
    assert frozen(X).tolist() == [[4, 4]]
    assert not frozen(X).requires_grad
    assert torch.jit.optimize_for_inference(frozen) is frozen
    with pytest.raises(RuntimeError, match="Freezing expects a ScriptModule as input."):
        torch.jit.freeze(Net())


def test_forks_and_scripts_from_text():
    future = torch.jit.fork(lambda x, y: x + y, torch.ones(1), y=2)
    assert future.done()
    assert torch.jit.wait(future).tolist() == [3]
    assert future.then(lambda f: f.value() * 2).wait().tolist() == [6]
    unit = torch.jit.CompilationUnit("""
        def double(x: Tensor):
            return torch.mul(x, 2)
    """)
    assert unit.double(torch.ones(1)).tolist() == [2]

    class Scripted(torch.jit.ScriptModule):
        @torch.jit.script_method
        def forward(self, x):
            return x * 3

    assert Scripted()(torch.ones(1)).tolist() == [3]


def test_a_compiled_module_wraps_the_module():
    net = Net()
    compiled = torch.compile(net, mode="reduce-overhead", fullgraph=True, dynamic=False)
    assert compiled._orig_mod is net
    assert isinstance(compiled, nn.Module)
    assert type(compiled).__name__ == "OptimizedModule"
    assert compiled(X).tolist() == [[4, 4]]
    assert compiled.weight is net.weight
    assert compiled.twice(X).tolist() == [[8, 8]]
    assert list(compiled.state_dict()) == ["_orig_mod." + key for key in KEYS]
    assert [name for name, _ in compiled.named_parameters()] == ["_orig_mod.weight"]
    compiled.load_state_dict(compiled.state_dict())
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Net(")
    assert not compiled.eval().training
    assert not net.training
    assert compiled.train().training
    assert net.training
    compiled.rate = 3
    assert net.rate == 3
    assert compiled.rate == 3
    assert list(copy.deepcopy(compiled).state_dict()) == list(compiled.state_dict())
    assert torch.compile(compiled) is compiled
    assert net.compile(backend="inductor") is None
    compiled(X).sum().backward()
    assert net.weight.grad is not None
    with pytest.raises(AttributeError):
        compiled.nothing


def test_compiled_functions_and_their_names():
    @torch.compile
    def f(x):
        "Doubles."
        return x * 2

    @torch.compile(backend="eager", dynamic=True)
    def g(x):
        return x * 3

    assert f(torch.ones(1)).tolist() == [2]
    assert g(torch.ones(1)).tolist() == [3]
    assert f.__name__ == "f"
    assert f.__doc__ == "Doubles."
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        torch.compile(f, mode="fast")
    with pytest.raises(RuntimeError, match="Invalid backend: 'nothing'"):
        torch.compile(f, backend="nothing")
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        torch.compile(f, mode="default", options={})


def test_what_programs_say_to_the_compiler():
    torch._dynamo.reset(), torch.compiler.reset(), torch.compiler.cudagraph_mark_step_begin()
    torch._dynamo.config.cache_size_limit = 64
    torch._dynamo.config.suppress_errors = True
    with torch._dynamo.config.patch(suppress_errors=False):
        assert not torch._dynamo.config.suppress_errors
    assert torch._dynamo.config.suppress_errors
    torch._inductor.config.coordinate_descent_tuning = True
    torch._inductor.config.triton.unique_kernel_names = True
    assert not torch.compiler.is_compiling()
    assert not torch._dynamo.is_compiling()
    assert "inductor" in torch.compiler.list_backends()

    @torch.compiler.disable
    def f(x):
        return x

    @torch.compiler.disable(recursive=False)
    def g(x):
        return x

    with torch.compiler.set_stance("force_eager"):
        assert f(1) == g(1) == torch.compiler.allow_in_graph(f)(1) == 1
    with pytest.raises(RuntimeError):
        torch.compiler.set_stance("sideways")


class Calls:
    def __reduce__(self):
        import os

        return os.putenv, ("TAPER_CALLED", "1")


def test_a_file_calls_nothing(tmp_path):
    import pickle
    import zipfile

    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), tmp_path / "good.pt")
    with zipfile.ZipFile(tmp_path / "good.pt") as good, zipfile.ZipFile(tmp_path / "bad.pt", "w") as bad:
        for name in good.namelist():
            bad.writestr(name, pickle.dumps(Calls(), 2) if name.endswith("data.pkl") else good.read(name))
    with pytest.raises(pickle.UnpicklingError, match="GLOBAL posix.putenv"):
        torch.jit.load(tmp_path / "bad.pt")
    assert torch.jit.load(tmp_path / "good.pt")(torch.ones(1, 2)).shape == (1, 2)


SOURCE = """
import taper as torch
from taper import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))

def double(x, y):
    return x * 2 + y
"""


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A module of the program's, and a function that forgets it."""
    import importlib
    import sys

    (tmp_path / "elsewhere.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("elsewhere"), lambda: sys.modules.pop("elsewhere")
    sys.modules.pop("elsewhere", None)


def test_a_traced_module_needs_no_class(tmp_path, elsewhere):
    (there, forget), x = elsewhere, torch.randn(2, 3, 8, 8)
    net, path = there.Net().eval(), tmp_path / "net.pt"
    state, random = {key: value.clone() for key, value in net.state_dict().items()}, torch.get_rng_state()
    torch.jit.save(torch.jit.trace(net, x), path, _extra_files={"about": "a net"})
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    back = torch.jit.load(path)
    assert type(back).__name__ == "TopLevelTracedModule"
    assert torch.equal(back(x), net(x))
    assert type(back._original) is there.Net
    forget()
    extra = {"about": ""}
    back = torch.jit.load(path, _extra_files=extra)
    assert isinstance(back, torch.jit.ScriptModule)
    assert extra == {"about": b"a net"}
    assert not back.training
    for n in (2, 5, 1):
        x = torch.randn(n, 3, 8, 8)
        assert torch.allclose(back(x), net(x), atol=1e-5)
    assert list(back.state_dict()) == list(net.state_dict())
    assert back.to("cpu").eval() is back
    assert back.train().training
    assert [name for name, _ in back.named_parameters()] == [name for name, _ in net.named_parameters()]
    other = there.Net().eval()
    back.load_state_dict(other.state_dict())
    again = copy.deepcopy(back)
    back.save(path)
    for loaded in (back, again, torch.jit.load(path)):
        assert torch.allclose(loaded(x), other(x), atol=1e-5)
    assert "conv" in back.code
    assert any(node.op == "call_function" for node in back.graph.nodes)
    with pytest.raises(RuntimeError, match="dtypes"):
        back.double()(x.double())
    with pytest.raises(AssertionError, match="expected"):
        again(torch.randn(2, 3, 9, 9))


def test_a_traced_function_needs_no_module(tmp_path, elsewhere):
    there, forget = elsewhere
    torch.jit.trace(there.double, (torch.ones(3), torch.ones(3))).save(tmp_path / "f.pt")
    assert torch.jit.load(tmp_path / "f.pt")(torch.ones(5), torch.ones(5)).tolist() == [3] * 5
    forget()
    assert torch.jit.load(tmp_path / "f.pt")(torch.ones(5), torch.ones(5)).tolist() == [3] * 5


def test_the_graph_of_a_trace_runs_at_any_batch(tmp_path):
    """As a C program runs it: without what the file says of the module."""
    import taper._C as _C

    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5), nn.Softmax(-1)).eval()
    for example in (1, 2, 6):
        torch.jit.trace(net, torch.randn(example, 1, 8, 8)).save(tmp_path / "net.pt")
        graph, _ = _C._graph_load(str(tmp_path / "net.pt"))
        for n in (1, 2, 5, 6, 1, 33):
            x = torch.randn(n, 1, 8, 8)
            (y,) = _C._graph_run(graph, [x])
            assert torch.allclose(y, net(x), atol=1e-6)
        with pytest.raises(RuntimeError, match="expected float32 of shape"):
            _C._graph_run(graph, [torch.randn(2, 1, 9, 8)])


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_what_is_no_graph_is_saved_by_name(tmp_path):
    traced = torch.jit.trace(Branching(), torch.ones(2))
    with pytest.warns(
        torch.jit.TracerWarning, match=r"test_jit.py:\d+: a value of a tensor is looked at; the file holds the module"
    ):
        traced.save(tmp_path / "branching.pt")
    assert torch.jit.load(tmp_path / "branching.pt")(-torch.ones(2)).tolist() == [1, 1]


def test_functions_are_saved_by_name(tmp_path):
    path = tmp_path / "function.pt"
    decorated.save(path)
    assert torch.jit.load(path)(torch.tensor([-1.0, 2])).tolist() == [1, 3]

    @torch.jit.script
    def inner(x):
        return x

    with pytest.raises(pickle.PicklingError, match="this has none that a program could load it by"):
        inner.save(path)


@torch.jit.script
def decorated(x):
    return x.relu() + 1


def test_methods_defined_by_text_and_names_of_the_caller():
    import io

    twice = torch.jit.script(lambda x: x * 2)

    class Holder(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

    module = Holder()
    module.define("""
        def forward(self, x):
            return twice(self.layer(x)) + self.more()

        def more(self):
            return 1
    """)
    x = torch.ones(1, 3)
    assert torch.equal(module(x), module.layer(x) * 2 + 1)
    assert "twice" in str(module.graph)
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(x), module(x))
    assert torch.jit.CompilationUnit("def f(x):\n    return twice(x) + 1").f(torch.tensor(3)) == 7


def test_file_check():
    from taper.testing import FileCheck

    text = "a b\nc d\ne a"
    FileCheck().check("a").check_same("b").check_next("c").check_not("x").check("e").run(text)
    FileCheck().check_count("a", 2, exactly=True).run(text)
    FileCheck().check_dag("c").check_dag("a b").check_regex("e .").run(text)
    for wrong in (
        FileCheck().check("d").check("c"),
        FileCheck().check_not("d"),
        FileCheck().check_count("a", 1, exactly=True),
        FileCheck().check("a").check_same("c"),
    ):
        with pytest.raises(RuntimeError, match="Expected to"):
            wrong.run(text)

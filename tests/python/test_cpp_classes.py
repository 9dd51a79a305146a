"""torch.classes: C++ classes of an extension that is compiled without Python's headers, their methods, properties and
states, and operators that take and give them; c10::Dispatcher, by which C++ calls operators."""

import copy
import gc
import pickle
from pathlib import Path

import pytest
import taper as torch
from taper.utils import cpp_extension

SOURCE = Path(__file__).parent / "extensions" / "classes.cpp"


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    cpp_extension.load(
        "cpp_classes_test",
        [str(SOURCE)],
        build_directory=str(folder),
        extra_cflags=["-Wall", "-Werror"],
        is_python_module=False,
    )
    return torch.ops.cpp_classes_test


def test_methods_and_properties(ops):
    Stack = torch.classes.cpp_classes_test.Stack
    stack = Stack(["a", "b"])
    assert isinstance(stack, torch.ScriptObject)
    assert isinstance(stack, Stack)
    stack.push("c")
    assert stack.size() == len(stack) == 3
    assert stack.pop() == "c"
    assert stack.items == ["a", "b"]
    assert stack.pushes == 1
    stack.pushes = 7
    stack.top = "z"
    assert stack.pushes == 7
    assert stack.top == "z"
    assert stack.take(0) == "a"
    assert stack.take(1, True) == "z"
    assert stack.take(n=1, back=True) == "z"
    assert Stack.joined(stack, stack.clone()).items == ["a", "z", "a", "z"]
    assert [stack.kind(torch.int16), stack.kind(torch.int32), stack.kind(6)] == [2, 15, 6]  # PyTorch's numbers
    assert stack.empty().shape == (2, 0)
    scale = torch.classes.cpp_classes_test.Scale(torch.tensor([2.0]))
    assert scale.apply(torch.tensor([3.0])).tolist() == [6.5]


def test_errors_are_pythons(ops):
    Stack = torch.classes.cpp_classes_test.Stack
    with pytest.raises(RuntimeError, match="Stack.pop: the stack is empty"):
        Stack([]).pop()
    with pytest.raises(TypeError, match="expected 2 arguments, got 1"):
        Stack([]).push()
    with pytest.raises(TypeError, match="missing value for argument 'n'"):
        Stack([]).take()
    with pytest.raises(TypeError, match="unexpected keyword argument 'of'"):
        Stack([]).take(1, of=2)
    with pytest.raises(AttributeError):
        Stack([]).nothing
    with pytest.raises(AttributeError):
        Stack([]).items = []
    with pytest.raises(RuntimeError, match="Class cpp_classes_test.Nothing not registered"):
        torch.classes.cpp_classes_test.Nothing
    with pytest.raises(TypeError):
        torch.ScriptObject()


def test_states(ops, tmp_path):
    stack = torch.classes.cpp_classes_test.Stack(["a", "b"])
    for other in (pickle.loads(pickle.dumps(stack)), copy.deepcopy(stack), copy.copy(stack)):
        other.push("c")
        assert other.items == ["a", "b", "c"]
        assert stack.size() == 2
    torch.save({"stack": stack}, tmp_path / "stack.pt")
    assert torch.load(tmp_path / "stack.pt", weights_only=False)["stack"].items == ["a", "b"]
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "stack.pt", weights_only=True)
    with pytest.raises(RuntimeError, match="does not have a __getstate__ method"):
        pickle.dumps(torch.classes.cpp_classes_test.Scale(torch.ones(1)))


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stack = torch.classes.cpp_classes_test.Stack(["a", "b"])

    def forward(self, x):
        return x * self.stack.size()


def test_files_of_scripts_hold_instances(ops, tmp_path):
    torch.jit.save(torch.jit.script(Holder()), tmp_path / "holder.pt")
    assert torch.jit.load(tmp_path / "holder.pt")(torch.ones(1)) == 2


def test_operators_take_and_give_instances(ops):
    Stack = torch.classes.cpp_classes_test.Stack
    stack = Stack(["a"])
    assert ops.total([stack, Stack(["b", "c"])]) == 3
    same = ops.pushed(stack, None)
    same.push("again")
    assert stack.items == ["a", "pushed", "again"]
    assert ops.pushed(stack, Stack(["other"])).top == "other"
    with pytest.raises((TypeError, RuntimeError)):
        ops.pushed(torch.classes.cpp_classes_test.Scale(torch.ones(1)), None)
    with pytest.raises((TypeError, RuntimeError)):
        ops.total([3])


def test_instances_end(ops):
    gc.collect()
    before = ops.alive()
    stack = torch.classes.cpp_classes_test.Stack(["a"])
    same = ops.pushed(stack, None)
    assert ops.alive() == before + 1
    del stack
    assert ops.alive() == before + 1
    assert same.size() == 2
    del same
    assert ops.alive() == before


def test_cpp_calls_operators(ops):
    """From C++ and from Python: Autograd's kernel first, the CPU's below it."""
    for call, times in ((lambda x: ops.doubled(x, 3), 3), (ops.from_cpp, 3), (ops.doubled, 1)):
        x, before = torch.ones(2, requires_grad=True), ops.cpu_calls()
        y = call(x)
        assert y.tolist() == [2.0 * times] * 2
        assert ops.cpu_calls() == before + 1
        y.sum().backward()
        assert x.grad.tolist() == [200.0 * times] * 2
    with pytest.raises(RuntimeError, match="Expected 1-dimensional tensor, but got 2-dimensional tensor for argument"):
        ops.from_cpp(torch.ones(2, 2))
    assert not ops.missing()
    with pytest.raises(TypeError, match="cpp_classes_test::doubled with a wrong signature"):
        ops.mistyped()

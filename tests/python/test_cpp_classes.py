"""torch.classes: C++ classes of an extension that is compiled without Python's headers, their methods, properties and
states, and operators that take and give them; c10::Dispatcher, by which C++ calls operators."""

import copy
import gc
import pickle

import pytest
import taper as torch
from taper.utils import cpp_extension

SOURCE = """
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/autograd.h>
#include <torch/custom_class.h>
#include <torch/library.h>
#ifdef Py_PYTHON_H
#error "operators and classes need no Python.h"
#endif

static int64_t alive = 0;
struct Stack : torch::CustomClassHolder {
    std::vector<std::string> items;
    int64_t pushes = 0;
    explicit Stack(std::vector<std::string> first) : items(std::move(first)) { alive++; }
    ~Stack() override { alive--; }
    void push(std::string item) {
        items.push_back(std::move(item));
        pushes++;
    }
    std::string pop() {
        TORCH_CHECK(!items.empty(), "Stack.pop: the stack is empty");
        std::string last = items.back();
        items.pop_back();
        return last;
    }
    int64_t size() const { return static_cast<int64_t>(items.size()); }
    at::ScalarType kind(at::ScalarType of) const { return of == at::kInt ? at::kBFloat16 : of; }
    at::Tensor empty() const { return at::from_blob(nullptr, {2, 0}, at::kLong).clone(); }
    c10::intrusive_ptr<Stack> clone() const { return c10::make_intrusive<Stack>(items); }
};
struct Scale : torch::CustomClassHolder {
    at::Tensor by;
    double offset;
    Scale(at::Tensor by_, double offset_) : by(std::move(by_)), offset(offset_) {}
    at::Tensor apply(const at::Tensor &x) { return x * by + offset; }
};

at::Tensor doubled(const at::Tensor &x, int64_t times) {
    at::TensorArg arg{x, "x", 1};
    at::checkDim("doubled", arg, 1);
    static auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("cpp_classes_test::doubled", "").typed<decltype(doubled)>();
    return op.call(x, times);
}
static int cpu_calls = 0;
at::Tensor doubled_cpu(const at::Tensor &x, int64_t times) {
    cpu_calls++;
    return x * (2 * times);
}
struct Doubled : torch::autograd::Function<Doubled> {
    static at::Tensor forward(torch::autograd::AutogradContext *ctx, at::Tensor x, int64_t times) {
        at::AutoDispatchBelowADInplaceOrView guard;
        ctx->saved_data["times"] = times;
        return doubled(x, times);
    }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext *ctx,
                                                 torch::autograd::tensor_list grads) {
        return {grads[0] * (200 * ctx->saved_data["times"].toInt()), at::Tensor()};
    }
};
at::Tensor doubled_autograd(const at::Tensor &x, int64_t times) { return Doubled::apply(x, times); }
double wrong_type(double x) { return x; }

TORCH_LIBRARY(cpp_classes_test, m) {
    m.class_<Stack>("Stack")
        .def(torch::init<std::vector<std::string>>())
        .def("push", &Stack::push)
        .def("pop", &Stack::pop)
        .def("size", &Stack::size)
        .def("kind", &Stack::kind)
        .def("empty", &Stack::empty)
        .def("clone", &Stack::clone)
        .def("__len__", &Stack::size)
        .def("take", [](const c10::intrusive_ptr<Stack> &self, int64_t n, bool back) {
            return back ? self->items[self->items.size() - n] : self->items[n];
        }, "", {torch::arg("n"), torch::arg("back") = false})
        .def_property("top", [](const c10::intrusive_ptr<Stack> &self) { return self->items.back(); },
                      [](const c10::intrusive_ptr<Stack> &self, std::string item) { self->items.back() = item; })
        .def_readonly("items", &Stack::items)
        .def_readwrite("pushes", &Stack::pushes)
        .def_static("joined", [](const c10::intrusive_ptr<Stack> &a, const c10::intrusive_ptr<Stack> &b) {
            auto both = c10::make_intrusive<Stack>(a->items);
            both->items.insert(both->items.end(), b->items.begin(), b->items.end());
            return both;
        })
        .def_pickle([](const c10::intrusive_ptr<Stack> &self) -> std::vector<std::string> { return self->items; },
                    [](std::vector<std::string> state) { return c10::make_intrusive<Stack>(std::move(state)); });
    m.class_<Scale>("Scale")
        .def(torch::init([](at::Tensor by) { return c10::make_intrusive<Scale>(by, 0.5); }))
        .def("apply", &Scale::apply)
        .def_readonly("by", &Scale::by);
    m.def("total", [](const std::vector<c10::intrusive_ptr<Stack>> &all) {
        int64_t n = 0;
        for (const auto &s : all) n += s->size();
        return n;
    });
    m.def("pushed", [](const c10::intrusive_ptr<Stack> &s, c10::optional<c10::intrusive_ptr<Stack>> other) {
        s->push(other ? (*other)->items.back() : "pushed");
        return s;
    });
    m.def("alive", [] { return alive; });
    m.def("cpu_calls", [] { return static_cast<int64_t>(cpu_calls); });
    m.def("doubled(Tensor x, int times=1) -> Tensor");
    m.def("from_cpp", [](const at::Tensor &x) { return doubled(x, 3); });
    m.def("missing", [] {
        return c10::Dispatcher::singleton().findSchema("cpp_classes_test::missing_one", "").has_value();
    });
    m.def("mistyped", [] {
        c10::Dispatcher::singleton().findSchemaOrThrow("cpp_classes_test::doubled", "").typed<decltype(wrong_type)>();
    });
}
TORCH_LIBRARY_IMPL(cpp_classes_test, CPU, m) { m.impl("doubled", &doubled_cpu); }
TORCH_LIBRARY_IMPL(cpp_classes_test, Autograd, m) { m.impl("doubled", &doubled_autograd); }
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    source = folder / "source.cpp"
    source.write_text(SOURCE)
    cpp_extension.load(
        "cpp_classes_test",
        [str(source)],
        build_directory=str(folder),
        extra_cflags=["-Wall", "-Werror"],
        is_python_module=False,
    )
    return torch.ops.cpp_classes_test


def test_methods_and_properties(ops):
    Stack = torch.classes.cpp_classes_test.Stack
    stack = Stack(["a", "b"])
    assert isinstance(stack, torch.ScriptObject) and isinstance(stack, Stack)
    stack.push("c")
    assert stack.size() == len(stack) == 3 and stack.pop() == "c" and stack.items == ["a", "b"]
    assert stack.pushes == 1
    stack.pushes = 7
    stack.top = "z"
    assert stack.pushes == 7 and stack.top == "z"
    assert stack.take(0) == "a" and stack.take(1, True) == "z" and stack.take(n=1, back=True) == "z"
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
        assert other.items == ["a", "b", "c"] and stack.size() == 2
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
    assert ops.alive() == before + 1 and same.size() == 2
    del same
    assert ops.alive() == before


def test_cpp_calls_operators(ops):
    """From C++ and from Python: Autograd's kernel first, the CPU's below it."""
    for call, times in ((lambda x: ops.doubled(x, 3), 3), (ops.from_cpp, 3), (ops.doubled, 1)):
        x, before = torch.ones(2, requires_grad=True), ops.cpu_calls()
        y = call(x)
        assert y.tolist() == [2.0 * times] * 2 and ops.cpu_calls() == before + 1
        y.sum().backward()
        assert x.grad.tolist() == [200.0 * times] * 2
    with pytest.raises(RuntimeError, match="Expected 1-dimensional tensor, but got 2-dimensional tensor for argument"):
        ops.from_cpp(torch.ones(2, 2))
    assert not ops.missing()
    with pytest.raises(TypeError, match="cpp_classes_test::doubled with a wrong signature"):
        ops.mistyped()

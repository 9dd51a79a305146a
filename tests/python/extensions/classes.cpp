/* What test_cpp_classes.py builds: classes, and operators that take and give them. */
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
        .def("take",
             [](const c10::intrusive_ptr<Stack> &self, int64_t n, bool back) {
                 return back ? self->items[self->items.size() - n] : self->items[n];
             },
             "", {torch::arg("n"), torch::arg("back") = false})
        .def_property(
            "top", [](const c10::intrusive_ptr<Stack> &self) { return self->items.back(); },
            [](const c10::intrusive_ptr<Stack> &self, std::string item) { self->items.back() = item; })
        .def_readonly("items", &Stack::items)
        .def_readwrite("pushes", &Stack::pushes)
        .def_static("joined",
                    [](const c10::intrusive_ptr<Stack> &a, const c10::intrusive_ptr<Stack> &b) {
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
    m.def("missing",
          [] { return c10::Dispatcher::singleton().findSchema("cpp_classes_test::missing_one", "").has_value(); });
    m.def("mistyped", [] {
        c10::Dispatcher::singleton().findSchemaOrThrow("cpp_classes_test::doubled", "").typed<decltype(wrong_type)>();
    });
}
TORCH_LIBRARY_IMPL(cpp_classes_test, CPU, m) { m.impl("doubled", &doubled_cpu); }
TORCH_LIBRARY_IMPL(cpp_classes_test, Autograd, m) { m.impl("doubled", &doubled_autograd); }

"""C++ extensions: built by torch.utils.cpp_extension against Taper's headers, called with tensors, reached as
torch.ops."""

import pytest
import taper as torch
from taper.utils import cpp_extension

SOURCE = """
#include <torch/extension.h>

at::Tensor squares(const at::Tensor &x) {
    TORCH_CHECK(x.dim() == 1, "squares: expected one dim, got ", x.dim());
    auto out = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "squares", [&] {
        auto from = x.accessor<scalar_t, 1>();
        auto to = out.data_ptr<scalar_t>();
        at::parallel_for(0, x.numel(), 2, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i++) to[i] = from[i] * from[i];
        });
    });
    return out;
}
struct Cube : torch::autograd::Function<Cube> {
    static at::Tensor forward(torch::autograd::AutogradContext *ctx, at::Tensor x) {
        ctx->save_for_backward({x});
        return x * x * x;
    }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext *ctx, torch::autograd::tensor_list grads) {
        auto x = ctx->get_saved_variables()[0];
        return {grads[0] * 3 * x * x};
    }
};
std::tuple<at::Tensor, int64_t> folded(std::vector<at::Tensor> all, c10::optional<at::Tensor> start, at::IntArrayRef dims, double scale) {
    at::Tensor total = start.has_value() ? *start : torch::zeros_like(all[0]);
    for (const auto &t : all) total = total + t * scale;
    return {total.sum(dims), total.numel()};
}
at::Tensor element(const at::Tensor &x, int64_t i) { return x.select(0, i); }

TORCH_LIBRARY(cpp_extension_test, m) {
    m.def("cube(Tensor x) -> Tensor", [](const at::Tensor &x) { return Cube::apply(x); });
    m.def("plus", [](at::Tensor x, int64_t n, c10::optional<double> more) { return x + n + more.value_or(0); });
    m.def("squares(Tensor x) -> Tensor");
    m.def("scaled", [](const c10::Dict<std::string, at::Tensor> &all, const std::vector<std::tuple<std::string, double>> &by) {
        c10::Dict<std::string, at::Tensor> scaled;
        for (const auto &item : by) scaled.insert(std::get<0>(item), all.at(std::get<0>(item)) * std::get<1>(item));
        return scaled;
    });
    m.def("shape", [](std::array<int64_t, 2> shape, std::unordered_map<int64_t, bool> ones) {
        return std::make_tuple(shape, ones[1] ? torch::ones(shape) : torch::zeros(shape));
    });
}
TORCH_LIBRARY_IMPL(cpp_extension_test, CPU, m) { m.impl("squares", &squares); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("squares", &squares);
    m.def("folded", &folded);
    m.def("element", &element);
}
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extension")
    source = folder / "source.cpp"
    source.write_text(SOURCE)
    return cpp_extension.load(
        "cpp_extension_test", [str(source)], build_directory=str(folder), extra_cflags=["-Wall", "-Werror"]
    )


def test_tensors_travel_both_ways(extension):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float16)
    assert torch.equal(extension.squares(x), torch.tensor([1.0, 4.0, 9.0], dtype=torch.float16))
    total, count = extension.folded([torch.ones(2, 3), torch.ones(2, 3)], None, [0], 0.5)
    assert count == 6 and total.tolist() == [2.0, 2.0, 2.0]
    assert extension.folded([torch.ones(2)], torch.ones(2), [0], 1.0)[0].item() == 4.0


def test_errors_are_pythons(extension):
    with pytest.raises(RuntimeError, match="squares: expected one dim, got 2"):
        extension.squares(torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        extension.squares(torch.arange(3))
    with pytest.raises(IndexError):
        extension.element(torch.ones(2), 7)
    with pytest.raises(TypeError):
        extension.squares(3)


def test_operators_are_under_torch_ops(extension):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.ops.cpp_extension_test.cube(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    assert torch.ops.cpp_extension_test.plus(torch.ones(1), 2, None).item() == 3.0
    assert torch.ops.cpp_extension_test.plus(torch.ones(1), 2, 0.5).item() == 3.5
    assert torch.ops.cpp_extension_test.squares(torch.tensor([3.0])).item() == 9.0


def test_dicts_and_tuples_travel_both_ways(extension):
    ops = torch.ops.cpp_extension_test
    scaled = ops.scaled({"a": torch.ones(1), "b": torch.ones(2)}, [("b", 2.0), ("a", 3.0)])
    assert {key: t.tolist() for key, t in scaled.items()} == {"b": [2.0, 2.0], "a": [3.0]}
    shape, filled = ops.shape([1, 2], {1: True})
    assert list(shape) == [1, 2] and filled.tolist() == [[1.0, 1.0]]
    with pytest.raises(RuntimeError, match="Key 'c' is not defined"):
        ops.scaled({"a": torch.ones(1)}, [("c", 1.0)])
    with pytest.raises(Exception, match="list of 2 items, got 3"):
        ops.shape([1, 2, 3], {})


def test_cuda_sources_are_refused(tmp_path):
    with pytest.raises(NotImplementedError, match="for the CPU"):
        cpp_extension.load("none", [str(tmp_path / "kernel.cu")])

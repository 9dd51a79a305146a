/* What test_cpp_extension.py builds: functions for Python, and operators. */
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
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext *ctx,
                                                 torch::autograd::tensor_list grads) {
        auto x = ctx->get_saved_variables()[0];
        return {grads[0] * 3 * x * x};
    }
};
std::tuple<at::Tensor, int64_t> folded(std::vector<at::Tensor> all, c10::optional<at::Tensor> start,
                                       at::IntArrayRef dims, double scale) {
    at::Tensor total = start.has_value() ? *start : torch::zeros_like(all[0]);
    for (const auto &t : all) total = total + t * scale;
    return {total.sum(dims), total.numel()};
}
at::Tensor element(const at::Tensor &x, int64_t i) { return x.select(0, i); }

TORCH_LIBRARY(cpp_extension_test, m) {
    m.def("cube(Tensor x) -> Tensor", [](const at::Tensor &x) { return Cube::apply(x); });
    m.def("plus", [](at::Tensor x, int64_t n, c10::optional<double> more) { return x + n + more.value_or(0); });
    m.def("squares(Tensor x) -> Tensor");
    m.def("scaled",
          [](const c10::Dict<std::string, at::Tensor> &all, const std::vector<std::tuple<std::string, double>> &by) {
              c10::Dict<std::string, at::Tensor> scaled;
              for (const auto &item : by)
                  scaled.insert(std::get<0>(item), all.at(std::get<0>(item)) * std::get<1>(item));
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

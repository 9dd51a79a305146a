// TorchScript values and modules by LibTorch's names: values FOLDER. tests/cpp/values.expected is LibTorch's output.
#include <torch/script.h>
#include <iostream>
#include <sstream>
#include <fstream>
int main(int argc, const char *argv[]) {
    if (argc != 2) return 2;
    const std::string folder = std::string(argv[1]) + "/";
    torch::jit::ExtraFilesMap extra{{"note.txt", ""}, {"bytes", ""}};
    auto m = torch::jit::load(folder + "values.pt", c10::nullopt, extra);
    std::cout << extra["note.txt"] << extra["bytes"] << "\n";
    torch::jit::setGraphExecutorOptimize(false);
    auto x = torch::ones({1, 2});
    std::cout << m.forward({x}) << "\n";
    c10::IValue v = m.run_method("three", x);
    std::cout << v << "\n" << v.toTuple()->elements()[1] << "\n";
    std::cout << m.run_method("in_order", c10::List<int64_t>({3, 1, 2})) << "\n";
    auto l = m.run_method("in_order", std::vector<int64_t>{3, 1, 2}).toList();
    std::cout << l.size() << l.get(0).toInt() << "\n";
    c10::Dict<std::string, int64_t> d;
    d.insert("a", 5);
    auto tup = c10::ivalue::Tuple::create({c10::IValue(1), c10::IValue(2.5)});
    std::cout << m.run_method("total", d, tup) << "\n";
    c10::impl::GenericDict g = m.run_method("pair", x).toGenericDict();
    std::cout << g.size() << g.at("a").toTensor().sizes() << "\n";
    for (const auto &item : g)
        std::cout << item.key().toStringRef() << " " << item.value().toTensor().sum().item<float>() << "\n";
    std::cout << m.run_method("reals", 1.5) << c10::IValue(true) << c10::IValue("s") << c10::IValue()
              << c10::IValue(2.0) << c10::IValue(7) << "\n";
    std::cout << c10::IValue(std::vector<double>{1.5, 2}) << c10::IValue(std::vector<bool>{true, false}) << "\n";
    for (const auto &method : m.get_methods()) std::cout << method.name() << ",";
    std::cout << "\n" << m.type()->name()->name() << "\n";
    auto deep = m.deepcopy();
    {
        torch::NoGradGuard guard;
        deep.attr("part").toModule().attr("w").toTensor().fill_(5);
    }
    std::cout << m.forward({x}) << deep.forward({x}) << "\n";
    auto c = m.clone();
    std::cout << c.forward({x}) << "\n";
    for (const auto &p : m.named_parameters()) std::cout << p.name << p.value.sizes() << " ";
    for (const auto &p : m.named_buffers()) std::cout << p.name << p.value.sizes() << " ";
    std::cout << "\n";
    std::stringstream s;
    c.save(s);
    auto again = torch::jit::load(s);
    std::cout << again.forward({x}) << "\n";
    torch::jit::ExtraFilesMap out{{"k", "v"}};
    c.save("values-saved.pt", out);
    torch::jit::ExtraFilesMap in{{"k", ""}};
    torch::jit::load("values-saved.pt", torch::kCPU, in);
    std::cout << in["k"] << "\n";
    std::ifstream file(folder + "values.pt", std::ios::binary);
    auto f = torch::jit::load(file);
    std::cout << f.is_training() << f.hasattr("k") << f.attr("k") << "\n";
    for (const auto &p : f.named_modules()) std::cout << "[" << p.name << "]";
    for (const auto &p : f.named_children()) std::cout << "(" << p.name << ")";
    for (const auto &p : f.named_attributes(false)) std::cout << "<" << p.name << ">";
    std::cout << f.parameters().size() << f.children().size() << f.modules().size() << "\n";
    if (auto method = f.find_method("three")) std::cout << (*method)({x}) << "\n";
    std::cout << f.get_method("in_order")({c10::IValue(std::vector<int64_t>{2, 1})}) << "\n";
    std::vector<torch::jit::IValue> inputs;
    inputs.push_back(torch::ones({1, 2}));
    at::Tensor output = f.forward(inputs).toTensor();
    std::cout << output.slice(1, 0, 1) << "\n";
    f.eval();
    f.to(torch::kDouble);
    std::cout << f.forward({x.to(torch::kDouble)}).toTensor().dtype() << "\n";
    auto frozen = torch::jit::freeze(f);
    std::cout << frozen.forward({x.to(torch::kDouble)}) << "\n";
}

// Containers of modules and parameters, and the tape's nodes: prints the same under LibTorch and Taper.
#include <torch/torch.h>
#include <iostream>

int main() {
    torch::manual_seed(0);
    torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> modules = {
        {"conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 2, 3)).ptr()}, {"pool", torch::nn::MaxPool2d(2).ptr()}};
    torch::nn::ModuleDict dict(modules);
    modules = {{"linear", torch::nn::Linear(3, 4).ptr()}};
    dict->update(modules);
    std::cout << dict->size() << dict->contains("pool") << dict->contains("none") << " " << dict->keys().back() << "\n";
    std::cout << dict << "\n";
    auto x = torch::ones({1, 3});
    std::cout << dict->at<torch::nn::LinearImpl>("linear").forward(x) << "\n";
    dict->pop("pool");
    for (const auto &item : dict->named_parameters()) std::cout << item.key() << item.value().sizes() << "\n";

    torch::nn::ParameterList list(torch::randn({2}), torch::ones({2, 2}, torch::requires_grad()));
    list->append(torch::zeros({1}));
    std::cout << list << "\n"
              << list->size() << list[1].requires_grad() << list->at(0).requires_grad() << "\n"
              << list->at(0) << "\n";

    torch::nn::ParameterDict named;
    named->insert("a", torch::full({2}, 3.0));
    named->insert("b", torch::ones({1, 2}, torch::requires_grad()));
    std::cout << named << "\n" << named->keys()[1] << named->contains("a") << named["b"].requires_grad() << "\n";
    std::cout << named->pop("a") << "\n" << named->size() << "\n";

    auto w = torch::ones({2, 2}, torch::requires_grad());
    auto y = 3 * w + (w + w) * (w + w);
    auto out = y.mean();
    std::cout << y.grad_fn()->name() << " " << out.grad_fn()->name() << " " << (w.grad_fn() == nullptr) << "\n";
    auto edges = out.grad_fn()->next_edges();
    std::cout << edges.size() << " " << edges[0].function->name() << " " << edges[0].input_nr << " "
              << out.grad_fn()->num_inputs() << out.grad_fn()->num_outputs() << "\n";
    auto leaf = (w * 2).grad_fn()->next_edge(0).function;
    std::cout << leaf->name() << "\n";
    return 0;
}

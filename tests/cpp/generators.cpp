// Generators by LibTorch's names. tests/cpp/generators.expected is LibTorch's output.
#include <torch/torch.h>
#include <iostream>
int main() {
    torch::manual_seed(3);
    auto gen = at::detail::getDefaultCPUGenerator();
    std::cout << gen.current_seed() << "\n";
    at::Tensor state = gen.get_state();
    auto a = torch::rand({3});
    gen.set_state(state);
    auto b = torch::rand({3});
    std::cout << torch::equal(a, b) << state.sizes() << state.dtype() << "\n";
    auto own = at::detail::createCPUGenerator(42);
    std::cout << torch::rand({2}, own) << "\n";
    std::cout << torch::randn({2, 2}, own, torch::kDouble) << "\n";
    auto made = at::make_generator<at::CPUGeneratorImpl>(7);
    std::cout << torch::randint(0, 10, {4}, made) << "\n";
    std::cout << torch::randperm(5, made) << "\n";
    auto t = torch::empty({3}).uniform_(0, 1, made);
    std::cout << t << torch::empty({2}).normal_(0, 1, made) << "\n";
    std::cout << torch::bernoulli(torch::full({4}, 0.5), made) << torch::multinomial(torch::ones({4}), 2, false, made)
              << "\n";
    own.set_current_seed(5);
    std::cout << own.current_seed() << own.device() << "\n";
    {
        std::lock_guard<std::mutex> lock(own.mutex());
        own.set_current_seed(6);
    }
    auto copy = own.clone();
    std::cout << torch::rand({2}, own) << torch::rand({2}, copy) << own.defined() << "\n";
    at::Generator none;
    std::cout << none.defined() << (own == own) << "\n";
    std::optional<at::Generator> opt = own;
    std::cout << torch::rand({1}, opt).sizes() << "\n";
    auto cpu = at::globalContext().defaultGenerator(at::kCPU);
    std::cout << cpu.current_seed() << "\n";
}

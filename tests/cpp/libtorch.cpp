// A program for LibTorch that uses a bit of everything. libtorch.expected is what it printed under LibTorch 2.15.
#include <torch/torch.h>
#include <iostream>
struct Net : torch::nn::Module {
    Net()
        : conv1(torch::nn::Conv2dOptions(1, 10, 5)), conv2(torch::nn::Conv2dOptions(10, 20, 5)), fc1(320, 50),
          fc2(50, 10) {
        register_module("conv1", conv1);
        register_module("conv2", conv2);
        register_module("conv2_drop", conv2_drop);
        register_module("fc1", fc1);
        register_module("fc2", fc2);
    }
    torch::Tensor forward(torch::Tensor x) {
        x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
        x = torch::relu(torch::max_pool2d(conv2_drop->forward(conv2->forward(x)), 2));
        x = x.view({-1, 320});
        x = torch::relu(fc1->forward(x));
        x = torch::dropout(x, 0.5, is_training());
        x = fc2->forward(x);
        return torch::log_softmax(x, 1);
    }
    torch::nn::Conv2d conv1, conv2;
    torch::nn::Dropout2d conv2_drop;
    torch::nn::Linear fc1, fc2;
};
int main() {
    torch::manual_seed(1);
    torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
    Net model;
    model.to(device);
    std::cout << model << std::endl;
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
    auto data = torch::randn({64, 1, 28, 28});
    auto targets = torch::randint(0, 10, {64}, torch::kLong);
    for (int i = 0; i < 5; i++) {
        optimizer.zero_grad();
        auto output = model.forward(data.to(device));
        auto loss = torch::nll_loss(output, targets);
        AT_ASSERT(!std::isnan(loss.template item<float>()));
        loss.backward();
        optimizer.step();
        std::printf("%.4f\n", loss.item<float>());
    }
    {
        torch::NoGradGuard no_grad;
        model.eval();
    }
    auto out = model.forward(data).detach();
    auto pred = out.argmax(1);
    std::cout << pred.eq(targets).sum().template item<int64_t>() << "\n";
    std::cout << torch::nll_loss(out, targets, {}, torch::Reduction::Sum).item<float>() << std::endl;
    auto opts = torch::TensorOptions().dtype(torch::kFloat64).requires_grad(true);
    auto a = torch::tensor({1.5, -2.25, 1e-3}, opts);
    auto b = (a * a).sum();
    b.backward();
    std::cout << a << "\n"
              << a.grad() << "\n"
              << torch::rand({3, 3}) * 1000 << "\n"
              << torch::arange(30).reshape({2, 15}) << std::endl;
    std::cout << torch::randn({2, 25}) << "\n"
              << torch::eye(2).to(torch::kHalf) << torch::full({2}, 1e7) << torch::tensor(3.5) << std::endl;
    using namespace torch::indexing;
    auto m = torch::arange(24).view({2, 3, 4});
    std::cout << m.index({Slice(), 1, Slice(None, None, 2)}) << m.index({"...", -1}) << m.sizes() << m.dtype()
              << m.options().device() << std::endl;
    TORCH_CHECK(m.dim() == 3, "bad dims ", m.dim());
    try {
        TORCH_CHECK(m.dim() == 2, "dims are ", m.dim());
    } catch (const c10::Error &e) {
        std::cout << std::string(e.what_without_backtrace()) << std::endl;
    }
    torch::nn::Sequential seq(torch::nn::Linear(torch::nn::LinearOptions(4, 3).bias(false)), torch::nn::ReLU());
    std::cout << seq << std::endl;
    for (const auto &p : seq->named_parameters()) std::cout << p.key() << " " << p.value().sizes() << "\n";
    return 0;
}

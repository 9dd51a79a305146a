// Handwritten digits with a convolutional network, as a program for LibTorch: it includes <torch/torch.h> and runs on
// Taper.
//     c++ -std=c++17 -O2 -I PREFIX/include/taper/libtorch digits.cpp $(pkg-config --cflags --libs taper) && ./a.out
//     examples/data
#include <torch/torch.h>

#include <cstdio>

struct NetImpl : torch::nn::Module {
    NetImpl()
        : conv1(register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 5).padding(2)))),
          conv2(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 5).padding(2)))),
          norm(register_module("norm", torch::nn::BatchNorm2d(16))),
          fc(register_module("fc", torch::nn::Linear(16 * 7 * 7, 10))) {}
    torch::Tensor forward(torch::Tensor x) {
        x = torch::max_pool2d(torch::relu(conv1(x)), 2);
        x = torch::max_pool2d(torch::relu(norm(conv2(x))), 2);
        return torch::log_softmax(fc(torch::dropout(x.flatten(1), 0.25, is_training())), 1);
    }
    torch::nn::Conv2d conv1, conv2;
    torch::nn::BatchNorm2d norm;
    torch::nn::Linear fc;
};
TORCH_MODULE(Net);

template <class Loader> double accuracy(Net &net, Loader &loader, size_t count) {
    torch::NoGradGuard no_grad;
    net->eval();
    int64_t right = 0;
    for (auto &batch : loader)
        right += net->forward(batch.data).argmax(1).eq(batch.target).sum().template item<int64_t>();
    net->train();
    return 100.0 * static_cast<double>(right) / static_cast<double>(count);
}

int main(int argc, char **argv) {
    const std::string folder = argc > 1 ? argv[1] : "examples/data";
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 2;
    torch::manual_seed(1);
    using torch::data::datasets::MNIST;
    auto train =
        MNIST(folder).map(torch::data::transforms::Normalize<>(0.1307, 0.3081)).map(torch::data::transforms::Stack<>());
    auto test = MNIST(folder, MNIST::Mode::kTest)
                    .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
                    .map(torch::data::transforms::Stack<>());
    const size_t count = *test.size();
    auto batches =
        torch::data::make_data_loader(std::move(train), torch::data::DataLoaderOptions().batch_size(64).workers(1));
    auto checks = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(std::move(test), 256);

    Net net;
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
    torch::optim::StepLR schedule(sgd, 1, 0.5);
    for (int epoch = 1; epoch <= epochs; epoch++) {
        double total = 0;
        int64_t n = 0;
        for (auto &batch : *batches) {
            sgd.zero_grad();
            auto loss = torch::nll_loss(net->forward(batch.data), batch.target);
            loss.backward();
            sgd.step();
            total += loss.item<double>();
            n++;
        }
        schedule.step();
        std::printf("epoch %d: loss %.4f\n", epoch, total / static_cast<double>(n));
    }
    std::printf("test accuracy %.1f%%\n", accuracy(net, *checks, count));
    torch::save(net, "digits-cpp.pt"); // torch.load in Python reads it as a state_dict
    Net other;
    torch::load(other, "digits-cpp.pt");
    std::printf("loaded again %.1f%%\n", accuracy(other, *checks, count));
    std::remove("digits-cpp.pt");
    return 0;
}

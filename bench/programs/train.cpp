// Four trainings with LibTorch's names; the same file is built against LibTorch and against Taper (bench/programs.py).
//     train mlp|cnn|gpt|lstm THREADS SECONDS      prints the seconds of a step, the loss after ten steps, the peak in
//     kB
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <sys/resource.h>
#include <torch/torch.h>

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

enum { CHARACTERS = 65, LENGTH = 64, LAYERS = 4, HEADS = 4, WIDTH = 128 };

struct BlockImpl : nn::Module {
    nn::LayerNorm norm1{nullptr}, norm2{nullptr};
    nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
    BlockImpl() {
        norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({WIDTH})));
        qkv = register_module("qkv", nn::Linear(WIDTH, 3 * WIDTH));
        out = register_module("out", nn::Linear(WIDTH, WIDTH));
        norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({WIDTH})));
        up = register_module("up", nn::Linear(WIDTH, 4 * WIDTH));
        down = register_module("down", nn::Linear(4 * WIDTH, WIDTH));
    }
    Tensor forward(Tensor x) {
        const int64_t batch = x.size(0), n = x.size(1);
        auto parts = qkv(norm1(x)).split(WIDTH, 2);
        for (auto &t : parts) t = t.view({batch, n, HEADS, -1}).transpose(1, 2);
        Tensor a = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
        x = x + out(a.transpose(1, 2).contiguous().view({batch, n, -1}));
        return x + down(F::gelu(up(norm2(x)), F::GELUFuncOptions().approximate("tanh")));
    }
};
TORCH_MODULE(Block);

struct GPTImpl : nn::Module {
    nn::Embedding tokens{nullptr}, places{nullptr};
    nn::Sequential blocks;
    nn::LayerNorm norm{nullptr};
    nn::Linear head{nullptr};
    GPTImpl() {
        tokens = register_module("tokens", nn::Embedding(CHARACTERS, WIDTH));
        places = register_module("places", nn::Embedding(LENGTH, WIDTH));
        for (int i = 0; i < LAYERS; i++) blocks->push_back(Block());
        register_module("blocks", blocks);
        norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({WIDTH})));
        head = register_module("head", nn::Linear(nn::LinearOptions(WIDTH, CHARACTERS).bias(false)));
    }
    Tensor forward(Tensor index) {
        Tensor x = tokens(index) + places(torch::arange(index.size(1)));
        return head(norm(blocks->forward(x)));
    }
};
TORCH_MODULE(GPT);

static double now(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/* The best of bursts of a twentieth of a second; one thread is measured in its processor time. */
static int run(const std::function<double()> &step, int threads, double seconds) {
    const clockid_t clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    double loss = 0, begin = now(clock), best = 1e9;
    for (int i = 0; i < 10; i++) loss = step();
    const int burst = std::max(1, static_cast<int>(0.5 / (now(clock) - begin)));
    for (double end = now(clock) + seconds; now(clock) < end;) {
        begin = now(clock);
        for (int i = 0; i < burst; i++) step();
        best = std::min(best, (now(clock) - begin) / burst);
    }
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    std::printf("%.9g %.6g %ld\n", best, loss, used.ru_maxrss);
    return 0;
}

template <class Optimiser, class Loss> static std::function<double()> training(Optimiser &optimiser, Loss loss_of) {
    return [&optimiser, loss_of] {
        optimiser.zero_grad();
        Tensor loss = loss_of();
        loss.backward();
        optimiser.step();
        return loss.template item<double>();
    };
}

int main(int argc, char **argv) {
    const std::string which = argc > 1 ? argv[1] : "mlp";
    const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
    const double seconds = argc > 3 ? std::atof(argv[3]) : 1;
    torch::set_num_threads(threads);
    torch::manual_seed(0);
    if (which == "mlp") {
        nn::Sequential net(nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU(), nn::Linear(128, 10));
        Tensor x = torch::randn({32, 64}), y = torch::randint(10, {32}, torch::kLong);
        torch::optim::Adam adam(net->parameters(), 1e-3);
        return run(training(adam, [&] { return F::cross_entropy(net->forward(x), y); }), threads, seconds);
    }
    if (which == "cnn") {
        nn::Sequential net(nn::Conv2d(3, 6, 5), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(6, 16, 5), nn::ReLU(),
                           nn::MaxPool2d(2), nn::Flatten(), nn::Linear(400, 120), nn::ReLU(), nn::Linear(120, 84),
                           nn::ReLU(), nn::Linear(84, 10));
        Tensor x = torch::randn({32, 3, 32, 32}), y = torch::randint(10, {32}, torch::kLong);
        torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.001).momentum(0.9));
        return run(training(sgd, [&] { return F::cross_entropy(net->forward(x), y); }), threads, seconds);
    }
    if (which == "gpt") {
        GPT net;
        Tensor x = torch::randint(CHARACTERS, {12, LENGTH}, torch::kLong);
        Tensor y = torch::randint(CHARACTERS, {12, LENGTH}, torch::kLong);
        torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(3e-4));
        auto loss = [&] { return F::cross_entropy(net(x).view({-1, CHARACTERS}), y.view(-1)); };
        return run(training(adam, loss), threads, seconds);
    }
    if (which == "lstm") {
        nn::LSTM net(nn::LSTMOptions(128, 128).num_layers(2));
        Tensor x = torch::randn({32, 16, 128});
        torch::optim::SGD sgd(net->parameters(), 1e-3);
        auto loss = [&] { return std::get<0>(net(x)).square().mean(); };
        return run(training(sgd, loss), threads, seconds);
    }
    return 2;
}

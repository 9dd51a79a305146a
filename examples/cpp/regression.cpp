// A network fits a noisy sine: taper.hpp in a dozen lines. Then the same network is saved, loaded and asked again.
//     c++ -std=c++17 regression.cpp $(pkg-config --cflags --libs taper)
#include <taper/taper.hpp>

int main() {
    using namespace taper;
    manual_seed(0);
    const Tensor x = linspace(-3, 3, 200).unsqueeze(1);
    const Tensor y = sin(x) + 0.05 * randn_like(x);

    /* In braces, so that the layers are made from left to right and a seed gives one network. */
    nn::Sequential net{nn::Linear(1, 32), nn::Tanh(), nn::Linear(32, 1)};
    optim::Adam adam(net->parameters(), optim::AdamOptions(1e-2));
    for (int step = 1; step <= 300; step++) {
        adam.zero_grad();
        Tensor loss = mse_loss(net->forward(x), y);
        loss.backward();
        adam.step();
        if (step % 100 == 0) std::printf("step %d: loss %.5f\n", step, loss.item<double>());
    }

    save(net, "regression.pt");
    nn::Sequential again{nn::Linear(1, 32), nn::Tanh(), nn::Linear(32, 1)};
    load(again, "regression.pt");
    NoGradGuard no_grad;
    std::printf("at 1.0: %.3f, loaded: %.3f\n", net->forward(ones({1, 1})).item<double>(),
                again->forward(ones({1, 1})).item<double>());
    std::remove("regression.pt");
    try {
        net->forward(ones({1, 2}));
    } catch (const Error &e) {
        std::printf("an error is an exception: %s\n", e.what());
    }
    return 0;
}

// An LSTM learns to continue sine waves: sequences, gradient clipping, a schedule.
#include <taper/taper.hpp>

struct WaveImpl : taper::nn::Module {
    WaveImpl() : lstm(taper::nn::LSTMOptions(1, 24).batch_first(true)), head(24, 1) {
        register_module("lstm", lstm);
        register_module("head", head);
    }
    taper::Tensor forward(const taper::Tensor &x) { return head(std::get<0>(lstm(x))); }
    taper::nn::LSTM lstm;
    taper::nn::Linear head;
};
TAPER_MODULE(Wave);

int main() {
    using namespace taper;
    using indexing::None, indexing::Slice;
    manual_seed(3);
    const Tensor phase = rand({32, 1}) * 6.28318;
    const Tensor waves = sin(arange(41, kFloat).unsqueeze(0) * 0.3 + phase).unsqueeze(2); // (batch, time, 1)
    const Tensor input = waves.index({Slice(), Slice(None, -1)}), target = waves.index({Slice(), Slice(1, None)});

    Wave net;
    optim::AdamW adam(net->parameters(), optim::AdamWOptions(1e-2));
    optim::StepLR schedule(adam, 50, 0.5);
    for (int step = 1; step <= 100; step++) {
        adam.zero_grad();
        Tensor loss = mse_loss(net(input), target);
        loss.backward();
        nn::utils::clip_grad_norm_(net->parameters(), 1.0);
        adam.step();
        schedule.step();
        if (step % 50 == 0) std::printf("step %d: loss %.5f\n", step, loss.item<double>());
    }
    return 0;
}

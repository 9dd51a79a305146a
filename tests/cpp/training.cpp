// Schedules of the C library in C++, and a training in one file: what does not fit is an error and changes nothing.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <taper/taper.hpp>

static int failed = 0;
#define EXPECT(...)                                                            \
    do {                                                                       \
        if (!(__VA_ARGS__)) {                                                  \
            std::cout << "line " << __LINE__ << " failed: " #__VA_ARGS__ "\n"; \
            failed = 1;                                                        \
        }                                                                      \
    } while (0)

using namespace taper;
static const char *const path = "training-cpp.pt";

static nn::Sequential net_of(int64_t width) {
    return nn::Sequential(nn::Linear(3, width), nn::Tanh(), nn::Linear(width, 1));
}

template <class O> static void some_steps(nn::Sequential &net, O &optimizer, int steps = 2) {
    for (int i = 0; i < steps; i++) {
        optimizer.zero_grad();
        mse_loss(net->forward(ones({2, 3})), zeros({2, 1})).backward();
        optimizer.step();
    }
}

static std::string error_of(Training &all) {
    try {
        all.load(path);
    } catch (const taper::Error &e) {
        return e.what();
    }
    return "";
}

static void schedules_give_pytorchs_rates() {
    nn::Sequential net = net_of(4);
    optim::SGD sgd(net->parameters(), optim::SGDOptions(1.0).momentum(0.9));
    const auto lr = [&] { return sgd.param_groups()[0].options().get_lr(); };
    optim::ExponentialLR halved(sgd, {{"gamma", 0.5}});
    some_steps(net, sgd, 1);
    halved.step();
    EXPECT(lr() == 0.5 && halved.get_last_lr()[0] == 0.5);
    sgd.param_groups()[0].options().set_lr(1.0); // what the program sets is what the schedule goes on from
    halved.step();
    EXPECT(lr() == 0.5);
    optim::SGD other(net->parameters(), optim::SGDOptions(1.0).momentum(0.9));
    optim::CosineAnnealingLR cosine(other, {{"T_max", 4}});
    for (int i = 1; i <= 4; i++) {
        some_steps(net, other, 1);
        cosine.step();
        EXPECT(std::fabs(cosine.get_last_lr()[0] - (1 + std::cos(M_PI * i / 4)) / 2) < 1e-12);
    }
    optim::SGD third(net->parameters(), optim::SGDOptions(1.0).momentum(0.9));
    optim::LambdaLR by_hand(third, [](int64_t epoch) { return 1.0 / static_cast<double>(epoch + 1); });
    by_hand.step();
    EXPECT(by_hand.get_last_lr()[0] == 0.5);
    optim::MultiStepLR steps(other, {1, 2}, {{"gamma", 0.1}});
    optim::OneCycleLR cycle(other, {{"max_lr", 0.1}, {"total_steps", 10}}, "linear");
    optim::CyclicLR up_and_down(other, {{"base_lr", 0.1}, {"max_lr", 0.2}}, "triangular2");
    optim::ConstantLR constant(other);
    optim::LinearLR linear(other);
    optim::PolynomialLR polynomial(other);
    optim::CosineAnnealingWarmRestarts restarts(other, {{"T_0", 3}});
    optim::MultiplicativeLR product(other, [](int64_t) { return 0.5; });
    optim::SWALR average(other, {{"swa_lr", 0.05}});
    try {
        optim::LinearLR wrong(other, {{"gama", 1}});
        EXPECT(false);
    } catch (const taper::Error &e) {
        EXPECT(std::string(e.what()).find("LinearLR has no option 'gama'") != std::string::npos);
    }
}

/* The gains of the table of operators; LibTorch's names of nonlinearities are among them. */
static void gains_are_the_tables() {
    EXPECT(nn::init::calculate_gain(kTanh) == 5.0 / 3);
    EXPECT(nn::init::calculate_gain(kReLU) == std::sqrt(2.0));
    EXPECT(nn::init::calculate_gain(kLeakyReLU, 0.2) == std::sqrt(2 / (1 + 0.2 * 0.2)));
    for (const auto &name : {kLinear, kConv1D, kConvTranspose3D, kSigmoid}) EXPECT(nn::init::calculate_gain(name) == 1);
    try {
        nn::init::calculate_gain("swish");
        EXPECT(false);
    } catch (const taper::Error &e) {
        EXPECT(std::string(e.what()).find("Unsupported nonlinearity swish") != std::string::npos);
    }
}

static void a_training_goes_on() {
    nn::Sequential net = net_of(4), again = net_of(4);
    optim::Adam adam(net->parameters(), 0.1), same(again->parameters(), 0.1);
    optim::ExponentialLR schedule(adam, {{"gamma", 0.5}}), loaded(same, {{"gamma", 0.5}});
    some_steps(net, adam);
    schedule.step();
    Training all, into;
    all.add("model", net).add("optimizer", adam).add("schedule", schedule);
    into.add("model", again).add("optimizer", same).add("schedule", loaded);
    all.epoch = 3;
    all.save(path);
    into.load(path);
    EXPECT(into.epoch == 3 && loaded.get_last_lr()[0] == 0.05);
    some_steps(net, adam);
    some_steps(again, same);
    EXPECT(equal(net->parameters()[0], again->parameters()[0]));
}

static void what_does_not_fit_changes_nothing() {
    nn::Sequential net = net_of(4), wide = net_of(5);
    nn::Sequential deep(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 1), nn::Linear(1, 1));
    optim::Adam adam(net->parameters(), 0.1), of_wide(wide->parameters(), 0.1);
    optim::SGD sgd(net->parameters(), 0.2);
    optim::ExponentialLR exponential(adam, {{"gamma", 0.5}});
    optim::PolynomialLR polynomial(adam);
    some_steps(net, adam);
    const Tensor weight = net->parameters()[0].detach().clone();
    const auto refused = [&](Training &saved, Training &into, const std::string &words) {
        saved.epoch = 9;
        saved.save(path);
        const std::string said = error_of(into);
        EXPECT(said.find(words) != std::string::npos);
        if (said.find(words) == std::string::npos) std::cout << "got '" << said << "'\n";
        EXPECT(into.epoch == 0 && equal(weight, net->parameters()[0].detach()));
        EXPECT(sgd.param_groups()[0].options().get_lr() == 0.2);
    };
    Training a, b, c, d, e, f, g, h;
    a.add("model", wide);
    b.add("model", net);
    refused(a, b, "size mismatch for 'model.0.weight': the file has [5, 3], expected [4, 3]");
    Training more;
    more.add("model", deep);
    refused(more, b, "the file has 'model.3.weight', expected nothing of that name");
    c.add("model", deep).add("optimizer", adam);
    d.add("model", deep).add("optimizer", sgd);
    refused(c, d, "the saved state is that of Adam, expected that of SGD");
    e.add("model", net).add("schedule", exponential);
    f.add("model", net).add("schedule", polynomial);
    refused(e, f, "the saved state is that of ExponentialLR, expected that of PolynomialLR");
    some_steps(wide, of_wide);
    g.add("optimizer", of_wide);
    h.add("optimizer", adam);
    refused(g, h, "exp_avg");
    refused(b, h, "optimizer.param_groups.0.lr");
}

/* The function gives what the layer gives, with masks of both kinds, and a place that is masked has no weight. */
static void attention_as_a_function() {
    nn::MultiheadAttention layer(4, 2);
    const Tensor x = randn({3, 2, 4}), later = triu(ones({3, 3}), 1).to(kBool);
    const Tensor padding = tensor({0, 0, 0, 0, 0, 1}).view({2, 3}).to(kBool);
    auto p = layer->named_parameters();
    auto options = nn::functional::MultiheadAttentionForwardFuncOptions(
        4, 2, p["in_proj_weight"], p["in_proj_bias"], {}, {}, false, 0.0, p["out_proj.weight"], p["out_proj.bias"]);
    options.attn_mask(later).key_padding_mask(padding);
    auto [y, weights] = nn::functional::multi_head_attention_forward(x, x, x, options);
    auto [expected, of_layer] = layer(x, x, x, padding, true, later);
    EXPECT(allclose(y, expected, 1e-5, 1e-6));
    EXPECT(allclose(weights, of_layer, 1e-5, 1e-6));
    EXPECT(weights.masked_select(later).abs().sum().item<double>() == 0);
    EXPECT(weights[1].select(1, 2).abs().sum().item<double>() == 0);
}

int main() {
    attention_as_a_function();
    gains_are_the_tables();
    schedules_give_pytorchs_rates();
    a_training_goes_on();
    what_does_not_fit_changes_nothing();
    std::remove(path);
    return failed;
}

/* Options of layers and loaders, states of recurrent layers and optimisers, names in archives. The output is
 * LibTorch's. */
#include <torch/torch.h>

#include <iostream>
#include <map>
#include <sstream>
#include <type_traits>

namespace nn = torch::nn;
namespace F = torch::nn::functional;

/* A function takes the options of its layer. */
#define ALIKE(function, layer) \
    static_assert(std::is_convertible_v<nn::layer##Options, F::function##FuncOptions>, #function)
ALIKE(AvgPool2d, AvgPool2d);
ALIKE(BinaryCrossEntropy, BCELoss);
ALIKE(BinaryCrossEntropyWithLogits, BCEWithLogitsLoss);
ALIKE(CELU, CELU);
ALIKE(CTCLoss, CTCLoss);
ALIKE(CosineEmbeddingLoss, CosineEmbeddingLoss);
ALIKE(CosineSimilarity, CosineSimilarity);
ALIKE(CrossEntropy, CrossEntropyLoss);
ALIKE(ELU, ELU);
ALIKE(Fold, Fold);
ALIKE(GELU, GELU);
ALIKE(GLU, GLU);
ALIKE(Hardshrink, Hardshrink);
ALIKE(Hardtanh, Hardtanh);
ALIKE(HingeEmbeddingLoss, HingeEmbeddingLoss);
ALIKE(HuberLoss, HuberLoss);
ALIKE(KLDiv, KLDivLoss);
ALIKE(L1Loss, L1Loss);
ALIKE(LPPool2d, LPPool2d);
ALIKE(LeakyReLU, LeakyReLU);
ALIKE(LocalResponseNorm, LocalResponseNorm);
ALIKE(MSELoss, MSELoss);
ALIKE(MarginRankingLoss, MarginRankingLoss);
ALIKE(MaxPool2d, MaxPool2d);
ALIKE(MultiMarginLoss, MultiMarginLoss);
ALIKE(MultilabelMarginLoss, MultiLabelMarginLoss);
ALIKE(MultilabelSoftMarginLoss, MultiLabelSoftMarginLoss);
ALIKE(NLLLoss, NLLLoss);
ALIKE(PairwiseDistance, PairwiseDistance);
ALIKE(PixelShuffle, PixelShuffle);
ALIKE(PixelUnshuffle, PixelUnshuffle);
ALIKE(PoissonNLLLoss, PoissonNLLLoss);
ALIKE(ReLU6, ReLU6);
ALIKE(ReLU, ReLU);
ALIKE(SELU, SELU);
ALIKE(SmoothL1Loss, SmoothL1Loss);
ALIKE(SoftMarginLoss, SoftMarginLoss);
ALIKE(Softplus, Softplus);
ALIKE(Softshrink, Softshrink);
ALIKE(Threshold, Threshold);
ALIKE(TripletMarginLoss, TripletMarginLoss);
ALIKE(Unfold, Unfold);
ALIKE(AdaptiveAvgPool2d, AdaptiveAvgPool2d);
ALIKE(AdaptiveMaxPool2d, AdaptiveMaxPool2d);

struct Tens : torch::data::datasets::BatchDataset<Tens, std::vector<int>> {
    std::vector<int> get_batch(torch::ArrayRef<size_t> indices) override {
        std::vector<int> batch;
        for (const size_t i : indices) batch.push_back(static_cast<int>(i) * 10);
        return batch;
    }
    torch::optional<size_t> size() const override { return 7; }
};
struct Sum : torch::data::transforms::Collation<int, std::vector<int>> {
    int apply_batch(std::vector<int> batch) override {
        int sum = 0;
        for (const int x : batch) sum += x;
        return sum;
    }
};

static void sizes() {
    nn::Conv2d conv(nn::Conv2dOptions(4, 6, 3).stride(2).padding({1, 2}));
    std::cout << conv->options.kernel_size() << conv->options.stride() << "\n";
    std::cout << conv->options.kernel_size()->at(1) << " " << conv->options.stride().size() << "\n";
    nn::Conv1d line(nn::Conv1dOptions(1, 1, 3));
    std::cout << line->options.kernel_size() << " " << torch::ExpandingArray<3>(2) << "\n";
}
static void functions() {
    const torch::Tensor x = torch::arange(6, torch::kFloat).view({2, 3}), y = torch::tensor({0, 2});
    std::cout << F::cross_entropy(x, y, nn::CrossEntropyLossOptions().reduction(torch::kSum)) << "\n";
    std::cout << F::l1_loss(x, x * 2, nn::L1LossOptions(torch::kNone)) << "\n";
    std::cout << F::hardshrink(x, F::HardshrinkFuncOptions(1.5)) << "\n";
    const torch::Tensor image = torch::arange(16, torch::kFloat).view({1, 1, 4, 4}), ones = torch::ones({1, 1, 3, 3});
    std::cout << F::conv2d(image, ones, F::Conv2dFuncOptions().padding(torch::kSame)) << "\n";
    std::cout << torch::eye(2, torch::kInt) << torch::eye(2, 3, torch::kDouble).dtype()
              << torch::hann_window(4, torch::TensorOptions(torch::kDouble)).dtype() << "\n";
    std::cout << x.var(0) << x.std(1) << torch::var(x, 1) << std::get<1>(torch::var_mean(x, 0)) << "\n";
    std::cout << x.var(false) << "\n";
    const torch::Tensor wave = torch::arange(8, torch::kFloat), window = torch::hann_window(4);
    std::cout << torch::stft(wave, 4, 2, 4, window, false, true, true).sizes() << "\n";
}
static void dtypes() {
    const torch::Tensor floats = torch::ones(2), number = torch::ones({}, torch::kDouble),
                        ints = torch::ones(1, torch::kInt);
    std::cout << torch::result_type(floats, number) << torch::result_type(ints, 2.5) << torch::result_type(2, ints)
              << torch::result_type(at::Scalar(1), at::Scalar(true)) << torch::result_type(ints, floats) << "\n";
    std::cout << c10::make_optional(4).value() << "\n";
}
static void loaders() {
    auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        Tens().map(Sum()), torch::data::DataLoaderOptions(3).workers(1).drop_last(true));
    for (const int sum : *loader) std::cout << sum << " ";
    std::cout << loader->options().batch_size << loader->options().max_jobs << loader->options().drop_last << "\n";
    torch::data::samplers::SequentialSampler sampler(5);
    std::cout << *sampler.next(3) << ", " << *sampler.next(3) << "\n";
    std::cout << std::vector<double>{1.5, 2} << "|" << std::map<std::string, int>{{"a", 1}, {"b", 2}} << "\n";
    std::cout << std::vector<torch::Tensor>{torch::ones(1), torch::zeros(1)} << "\n";
}
static void states() {
    torch::manual_seed(1);
    const torch::Tensor h = torch::ones({1, 1, 4}), x = torch::ones({2, 1, 3});
    nn::LSTM lstm(nn::LSTMOptions(3, 4));
    const auto [y, state] = lstm(x, std::make_tuple(h, h * 2));
    std::cout << y << std::get<1>(state) << "\n";
    nn::LSTMCell cell(3, 4);
    std::cout << std::get<0>(cell(x[0], std::make_tuple(h[0], h[0]))) << "\n";

    torch::Tensor w = torch::tensor({1., -2.}, torch::requires_grad());
    torch::optim::Adam adam({w}, torch::optim::AdamOptions(0.1));
    std::cout << adam.state().size() << "\n";
    for (int i = 0; i < 3; i++) {
        adam.zero_grad();
        (w * w).sum().backward();
        adam.step();
    }
    const auto &kept = static_cast<const torch::optim::AdamParamState &>(*adam.state().at(w.unsafeGetTensorImpl()));
    std::cout << kept.step() << kept.exp_avg() << kept.max_exp_avg_sq().defined() << "\n";
    kept.exp_avg().zero_(); /* the optimiser's own */
    (w * w).sum().backward();
    adam.step();
    std::cout << w << "\n";
}
static void archives() {
    torch::serialize::OutputArchive out, inner;
    inner.write("x", torch::ones(2));
    out.write("weight", torch::zeros(1));
    out.write("epoch", c10::IValue(7));
    out.write("inner", inner);
    std::stringstream file;
    out.save_to(file);
    torch::serialize::InputArchive in, part;
    in.load_from(file);
    std::vector<std::string> keys = in.keys();
    std::sort(keys.begin(), keys.end());
    std::cout << keys << "\n";
    in.read("inner", part);
    std::cout << part.keys() << "\n";
}

int main() {
    sizes();
    functions();
    dtypes();
    loaders();
    states();
    archives();
}

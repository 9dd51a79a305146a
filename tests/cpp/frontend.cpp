/* A program for LibTorch that names namespaces as its tutorials do. It prints the same under both. */
#include <torch/torch.h>

#include <iostream>

using namespace torch;

struct Pairs : data::Dataset<Pairs> {
    data::Example<> get(size_t i) override { return {torch::full({2}, static_cast<double>(i)), torch::tensor({1.0f})}; }
    optional<size_t> size() const override { return 5; }
};

struct NetImpl : nn::Module {
    NetImpl() : linear(register_module("linear", nn::Linear(3, 2))) {}
    Tensor forward(Tensor x) { return torch::relu(linear(x)); }
    nn::Linear linear;
};
TORCH_MODULE(Net);

/* Values that no seed decides: docs/libtorch.md says which layers draw otherwise under LibTorch. */
static void fill(nn::Module &module) {
    NoGradGuard guard;
    for (Tensor &p : module.parameters()) p.copy_(torch::linspace(-0.5, 0.5, p.numel()).view(p.sizes()));
}

static void stacks() {
    torch::manual_seed(1);
    nn::TransformerEncoderLayer layer(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0));
    nn::TransformerEncoder encoder(
        nn::TransformerEncoderOptions(layer, 2).norm(nn::AnyModule(nn::LayerNorm(nn::LayerNormOptions({8})))));
    nn::TransformerDecoder decoder(
        nn::TransformerDecoderOptions(nn::TransformerDecoderLayerOptions(8, 2).dim_feedforward(16).dropout(0), 2));
    fill(*encoder);
    fill(*decoder);
    torch::manual_seed(1);
    Tensor x = torch::randn({3, 1, 8});
    Tensor encoded = encoder(x);
    std::cout << encoded.sizes() << " " << encoder->parameters().size() << "\n" << encoded << "\n";
    std::cout << decoder(x, encoded)[0] << "\n";
}

static void sequences() {
    namespace rnn = nn::utils::rnn;
    torch::manual_seed(2);
    std::vector<Tensor> list{torch::randn({2, 3}), torch::randn({4, 3}), torch::randn({1, 3})};
    std::cout << rnn::pad_sequence(list, true, -1).sizes() << "\n";
    auto packed = rnn::pack_sequence(list, false);
    std::cout << packed.batch_sizes() << "\n" << rnn::invert_permutation(packed.sorted_indices()) << "\n";
    nn::LSTM lstm(nn::LSTMOptions(3, 2));
    auto [output, state] = lstm->forward_with_packed_input(packed);
    auto [padded, lengths] = rnn::pad_packed_sequence(output);
    std::cout << padded << "\n" << lengths << "\n" << std::get<0>(state) << "\n";
    nn::GRU gru(3, 2);
    std::cout << std::get<1>(gru->forward_with_packed_input(packed)) << "\n";
}

static void functions() {
    namespace F = nn::functional;
    torch::manual_seed(3);
    Tensor image = torch::randn({1, 1, 4, 4});
    auto [values, places] = F::max_pool2d_with_indices(image, F::MaxPool2dFuncOptions(2));
    std::cout << values << "\n" << places << "\n" << F::unfold(image, F::UnfoldFuncOptions({2, 2}).stride(2)) << "\n";
    auto distance = [](const Tensor &a, const Tensor &b) { return (a - b).abs().sum(1); };
    nn::TripletMarginWithDistanceLoss triplet(
        nn::TripletMarginWithDistanceLossOptions().distance_function(distance).margin(2).swap(true));
    Tensor a = torch::randn({3, 4}), b = torch::randn({3, 4}), c = torch::randn({3, 4});
    std::cout << triplet(a, b, c) << "\n";
    nn::AdaptiveLogSoftmaxWithLoss adaptive(nn::AdaptiveLogSoftmaxWithLossOptions(8, 10, {4, 7}).div_value(2));
    fill(*adaptive);
    Tensor rows = torch::randn({3, 8});
    auto result = adaptive(rows, torch::tensor({1, 5, 9}));
    std::cout << result.output << "\n" << adaptive->log_prob(rows) << "\n" << adaptive->predict(rows) << "\n";
    std::cout << nn::init::dirac_(torch::empty({2, 2, 3})) << "\n";
    nn::Conv2d conv(nn::ConvOptions<2>(1, 2, 3).padding(1));
    std::cout << conv(image).sizes() << "\n";
}

int main() {
    torch::manual_seed(0);
    Net net;
    std::cout << net(torch::ones({1, 3})) << torch::str("\nstep ", 1, "\n");
    auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
        Pairs().map(data::transforms::Stack<>()), data::DataLoaderOptions().batch_size(2).workers(1));
    for (auto &batch : *loader) std::cout << batch.data.sizes() << batch.target.sizes() << "\n";
    nn::Sequential copy =
        std::dynamic_pointer_cast<nn::SequentialImpl>(nn::Sequential(nn::Linear(2, 2), nn::Tanh())->clone());
    std::cout << copy->forward(torch::zeros({1, 2})).sizes() << "\n";
    c10::Dict<std::string, Tensor> dict;
    dict.insert("one", torch::ones({1}));
    dict.insert("one", torch::zeros({1}));
    auto same = dict;
    same.insert_or_assign("two", torch::ones({2}));
    for (const auto &item : dict) std::cout << item.key() << " " << item.value().sizes() << "\n";
    std::cout << dict.at("one").item<float>() << " " << dict.contains("three") << "\n";
    stacks();
    sequences();
    functions();
}

/* What programs write every day: data that comes in streams, options of groups, gradients put in another's place,
 * embeddings from a table, attention as a function, bytes of a pickle. The same under LibTorch: everyday.expected is
 * its output. */
#include <torch/torch.h>
#include <iostream>
#include <mutex>

namespace nn = torch::nn;
namespace F = torch::nn::functional;
namespace datasets = torch::data::datasets;
using torch::data::make_data_loader;

struct Stream : datasets::StreamDataset<Stream, std::vector<int>> {
    int at = 0;
    std::vector<int> get_batch(size_t n) override {
        std::vector<int> batch;
        for (size_t i = 0; i < n; i++) batch.push_back(at++);
        return batch;
    }
    std::optional<size_t> size() const override { return 6; }
};

struct Counter : datasets::StatefulDataset<Counter, int, size_t> {
    int at = 0;
    std::optional<int> get_batch(size_t n) override {
        if (at >= 5) return std::nullopt;
        at += static_cast<int>(n);
        return at;
    }
    void reset() override { at = 0; }
    std::optional<size_t> size() const override { return std::nullopt; }
    void save(torch::serialize::OutputArchive &) const override {}
    void load(torch::serialize::InputArchive &) override {}
};

struct Squares : datasets::Dataset<Squares, torch::data::TensorExample> {
    torch::data::TensorExample get(size_t i) override { return torch::full({2}, static_cast<double>(i * i)); }
    std::optional<size_t> size() const override { return 5; }
};

static void data() {
    auto stream = make_data_loader(Stream(), torch::data::samplers::StreamSampler(6), 4);
    for (auto &batch : *stream) {
        for (int i : batch) std::cout << i << " ";
        std::cout << "\n";
    }
    auto counter = make_data_loader(datasets::make_shared_dataset<Counter>(), 2);
    for (int epoch = 0; epoch < 2; epoch++)
        for (auto &n : *counter) std::cout << n << "\n";
    auto doubled = Counter().map(torch::data::transforms::BatchLambda<int, int>([](int n) { return 2 * n; }));
    auto mapped = make_data_loader(std::move(doubled), 3);
    for (auto &n : *mapped) std::cout << n << "\n";
    auto squares =
        datasets::make_shared_dataset<Squares>().map(torch::data::transforms::Stack<torch::data::TensorExample>());
    auto loader = make_data_loader<torch::data::samplers::SequentialSampler>(
        std::move(squares), torch::data::DataLoaderOptions(2).workers(2).drop_last(true));
    for (auto &batch : *loader) std::cout << batch.data << "\n";
}

static void groups() {
    nn::Linear a(3, 3), b(3, 2);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(a->parameters(),
                        std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(0.05).momentum(0.9)));
    groups.emplace_back(b->parameters());
    groups[1].set_options(std::make_unique<torch::optim::SGDOptions>(0.01));
    torch::optim::SGD sgd(groups, torch::optim::SGDOptions(0.1).momentum(0.5).weight_decay(0.01));
    for (auto &group : sgd.param_groups()) {
        auto &o = static_cast<torch::optim::SGDOptions &>(group.options());
        std::cout << o.lr() << " " << o.momentum() << " " << o.weight_decay() << "\n";
    }
    const torch::Tensor x = torch::randn({8, 3}), y = torch::randint(0, 2, {8}, torch::kLong);
    for (int i = 0; i < 4; i++) {
        sgd.zero_grad();
        const auto loss = F::cross_entropy(b(torch::relu(a(x))), y);
        loss.backward();
        sgd.step();
    }
    std::cout << a->bias << "\n" << b->bias << "\n";
}

static void gradients() {
    torch::Tensor x = torch::ones({2}).requires_grad_();
    (x * 3).sum().backward();
    x.mutable_grad().reset();
    std::cout << x.grad().defined() << "\n";
    x.mutable_grad() = torch::full({2}, 7.);
    (x * 3).sum().backward();
    x.mutable_grad().mul_(2);
    std::cout << x.grad() << "\n";
}

static void layers() {
    const torch::Tensor table = torch::arange(6.).reshape({3, 2}), rows = torch::tensor({2, 0});
    auto frozen = nn::Embedding::from_pretrained(table);
    auto bag = nn::EmbeddingBag::from_pretrained(
        table, nn::EmbeddingBagFromPretrainedOptions().freeze(false).mode(torch::kSum));
    std::cout << frozen(rows) << "\n";
    std::cout << bag(rows.unsqueeze(0)) << bag->weight.requires_grad() << "\n" << torch::rand({1}) << "\n";
    nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(1, 2, 3)), nn::BatchNorm2d(nn::BatchNormOptions(2).eps(1e-4)),
                       nn::AvgPool2d(nn::AvgPool2dOptions(2).stride({2, 1})), nn::LogSoftmax(1));
    for (auto &m : net->modules(false))
        if (auto *conv = m->as<nn::Conv2d>()) torch::nn::init::constant_(conv->weight, 0.5);
    std::cout << net->ptr<nn::Conv2dImpl>(0)->options.kernel_size()->front() << net[3]->name() << "\n";
    std::cout << nn::L1Loss(torch::kSum)(table, table + 1)
              << F::kl_div(table.softmax(1).log(), table.softmax(1), F::KLDivFuncOptions(torch::kBatchMean)) << "\n";
    std::cout << torch::TensorOptions().dtype(torch::kDouble).requires_grad(true) << " " << table.type() << "\n";
    std::cout << std::get<0>(at::_unique2(torch::tensor({3, 1, 1, 2})))
              << torch::complex(torch::ones({2}), torch::zeros({2})).is_complex() << "\n";
}

static void attention() {
    const torch::Tensor x = torch::randn({3, 2, 4}), w = torch::randn({12, 4}), out = torch::randn({4, 4});
    auto more = F::MultiheadAttentionForwardFuncOptions(4, 2, w, torch::zeros({12}), torch::ones({1, 1, 4}),
                                                        torch::ones({1, 1, 4}), true, 0.0, out, torch::ones({4}))
                    .average_attn_weights(false);
    auto [z, each] = F::multi_head_attention_forward(x, x, x, more);
    std::cout << z << "\n" << each.sizes() << "\n";
}

static void pickles() {
    c10::Dict<std::string, torch::Tensor> dict;
    dict.insert("w", torch::arange(3.));
    const auto read = torch::pickle_load(torch::pickle_save(dict)).toGenericDict();
    for (const auto &item : read) std::cout << item.key().toStringRef() << " " << item.value().toTensor() << "\n";
    std::cout << torch::pickle_load(torch::pickle_save(torch::eye(2))).toTensor() << "\n";
    std::cout << torch::pickle_load(torch::pickle_save(torch::IValue(2.5))).toDouble() << "\n";
}

int main() {
    torch::manual_seed(11);
    torch::set_num_threads(1);
    data();
    groups();
    gradients();
    layers();
    attention();
    pickles();
}

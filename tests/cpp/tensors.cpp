// taper.hpp by itself: ownership, errors, callbacks that throw, modules, optimisers, files. Exits with 0 if all holds.
#include <taper/cpp/distributed.hpp>
#include <taper/taper.hpp>

#include <cstdlib>

using namespace taper;

static int failures;
#define EXPECT(condition)                                                     \
    do {                                                                      \
        if (!(condition)) {                                                   \
            std::printf("line %d: %s does not hold\n", __LINE__, #condition); \
            failures++;                                                       \
        }                                                                     \
    } while (false)

static void references() {
    Tensor x = ones({2, 3});
    EXPECT(x.use_count() == 1);
    {
        Tensor y = x;
        EXPECT(x.use_count() == 2 && y.is_same(x));
        Tensor z = std::move(y);
        EXPECT(x.use_count() == 2 && !y.defined() && z.defined());
    }
    EXPECT(x.use_count() == 1);
    {
        TP_SCOPE {
            x = x + 1;
        } /* a scope of C's does not own what C++ holds */
    }
    EXPECT(x.sum().item<double>() == 12);
    x[0] = 5;
    EXPECT(x.sum().item<double>() == 21);
    x.index_put_({indexing::Slice(), 1}, tensor({1.0, 2.0}));
    EXPECT(x[1][1].item<float>() == 2 && x[0][1].item<float>() == 1);
    EXPECT((x.index({x > 4}).numel()) == 2);
    int freed = 0;
    float memory[3] = {1, 2, 3};
    {
        Tensor over = from_blob(
            memory, {3}, [&freed](void *) { freed++; }, kFloat);
        over.mul_(2);
    }
    EXPECT(freed == 1 && memory[2] == 6);
}

/* What LibTorch says of an undefined tensor; none of the questions leaves an error behind. */
static void undefined() {
    const Tensor none;
    EXPECT(none.size(0) == 0 && none.size(-1) == 0 && none.dim() == 1 && none.sizes() == IntArrayRef({0}));
    EXPECT(none.numel() == 0 && none.is_contiguous() && none.is_non_overlapping_and_dense());
    EXPECT(none.storage_offset() == 0 && none._version() == 0 && none.toString() == "UndefinedType");
    EXPECT(none.scalar_type() == ScalarType::Undefined && none.dtype() != kFloat && !none.has_storage());
    EXPECT(!none.is_cpu() && !none.is_cuda() && !none.is_xpu() && !none.is_meta() && !none.requires_grad());
    EXPECT(!none.is_floating_point() && !none.is_complex() && !none.is_view() && !none.is_alias_of(ones({1})));
    EXPECT(tp_ok() && error().empty());
    const std::function<void()> refused[] = {
        [&none] { none.size(1); },        [&none] { none.strides(); },        [&none] { none.stride(0); },
        [&none] { none.device(); },       [&none] { none.options(); },        [&none] { none.get_device(); },
        [&none] { none.itemsize(); },     [&none] { none.nbytes(); },         [&none] { none.data_ptr(); },
        [&none] { none.element_size(); }, [&none] { none.const_data_ptr(); }, [&none] { none.data_ptr<float>(); }};
    for (const auto &ask : refused) {
        bool threw = false;
        try {
            ask();
        } catch (const Error &) {
            threw = true;
        }
        EXPECT(threw && tp_ok());
    }
}

static void defaults() {
    Tensor x = arange(6, kFloat).view({2, 3});
    EXPECT(x.sum(0).sizes() == IntArrayRef({3}) && x.sum({0, 1}).dim() == 0 &&
           x.sum(1, true).sizes() == IntArrayRef({2, 1}));
    EXPECT(x.max().item<float>() == 5);
    auto [values, indices] = x.max(1);
    EXPECT(values[1].item<float>() == 5 && indices[0].item<int64_t>() == 2);
    EXPECT(x.softmax(1).sum().item<float>() > 1.999f && x.to(kLong).scalar_type() == kLong);
    EXPECT(zeros({2}, dtype(kDouble).requires_grad(true)).requires_grad());
    EXPECT(x.split(2, 1).size() == 2 && cat({x, x}).size(0) == 4 && x.clamp(1, 2).max().item<int>() == 2);
    EXPECT(linalg::norm(x).item<float>() > 7.4f && pow(2, x)[0][2].item<float>() == 4);
    EXPECT(std::get<0>(var_mean(x)).item<float>() == 3.5f && equal(x, x.clone()));
    EXPECT((1 - x)[0][0].item<int>() == 1 && (x < 3).sum().item<int>() == 3);
    EXPECT(tensor({{1, 2}, {3, 4}}).scalar_type() == kLong && tensor(2.5).scalar_type() == kFloat);
}

static void errors() {
    Tensor x = ones({2, 3});
    bool thrown = false;
    try {
        x.view({5});
    } catch (const Error &e) {
        thrown = std::string(e.what()).find("invalid for input of size 6") != std::string::npos;
    }
    EXPECT(thrown && tp_ok());
    thrown = false;
    try {
        x.select(0, 7);
    } catch (const IndexError &) {
        thrown = true;
    }
    EXPECT(thrown);
    /* What a hook throws comes out of backward. */
    Tensor leaf = ones({2}, requires_grad());
    leaf.register_hook([](const Tensor &) -> Tensor { throw std::out_of_range("the hook's own"); });
    thrown = false;
    try {
        (leaf * 2).sum().backward();
    } catch (const std::out_of_range &) {
        thrown = true;
    }
    EXPECT(thrown && tp_ok());
}

struct Net : nn::Module {
    Net()
        : a(register_module("a", nn::Linear(3, 4))),
          b(register_module("b", nn::Linear(nn::LinearOptions(4, 1).bias(false)))) {
        scale = register_parameter("scale", ones({1}));
        steps = register_buffer("steps", zeros({1}, kLong));
    }
    Tensor forward(const Tensor &x) { return b(tanh(a(x))) * scale; }
    nn::Linear a, b;
    Tensor scale, steps;
};

static std::vector<optim::OptimizerParamGroup> groups(const Net &net) {
    return {std::vector<Tensor>{net.scale}, std::vector<Tensor>{net.b->weight}};
}
static void modules() {
    manual_seed(5);
    auto net = std::make_shared<Net>();
    const auto named = net->named_parameters();
    EXPECT(named.keys() == (std::vector<std::string>{"scale", "a.weight", "a.bias", "b.weight"}));
    EXPECT(net->named_buffers().size() == 1);
    const Tensor x = ones({2, 3});
    const Tensor before = net->forward(x);
    net->a->weight = zeros({4, 3}); /* a layer computes with what its member holds */
    EXPECT((net->forward(x) - net->b(tanh(net->a->bias))).abs().max().item<float>() < 1e-6f);
    net->a->weight = named["a.weight"];
    EXPECT(equal(net->forward(x), before));
    optim::Adam adam(groups(*net), optim::AdamOptions(0.1));
    static_cast<optim::AdamOptions &>(adam.param_groups()[1].options()).lr(0);
    const Tensor kept = net->b->weight.detach().clone();
    net->forward(x).sum().backward();
    adam.step();
    EXPECT(equal(kept, net->b->weight) && std::fabs(net->scale.item<float>() - 1) > 0.09f);
    save(net, "cpp_test.pt");
    save(adam, "cpp_test_adam.pt");
    auto other = std::make_shared<Net>();
    load(other, "cpp_test.pt");
    EXPECT(equal(other->forward(x), net->forward(x)));
    optim::Adam again(groups(*other), optim::AdamOptions(0.5));
    other->forward(x).sum().backward();
    again.step();
    load(other, "cpp_test.pt");
    load(again, "cpp_test_adam.pt");
    for (auto *pair : {&adam, &again}) pair->zero_grad();
    net->forward(x).sum().backward();
    other->forward(x).sum().backward();
    adam.step();
    again.step();
    EXPECT(equal(net->scale, other->scale)); /* moments and rates came back, too */
    std::remove("cpp_test.pt");
    std::remove("cpp_test_adam.pt");
    auto copy = std::dynamic_pointer_cast<nn::LinearImpl>(net->a->clone());
    EXPECT(equal(copy->weight, net->a->weight) && !copy->weight.is_same(net->a->weight));
    net->to(kDouble);
    EXPECT(net->forward(x.to(kDouble)).scalar_type() == kDouble && net->steps.scalar_type() == kLong);
}

/* Braces make the layers from left to right. */
static void order() {
    manual_seed(9);
    nn::Sequential net{nn::Linear(2, 2), nn::Linear(2, 2)};
    manual_seed(9);
    nn::Linear first(2, 2), second(2, 2);
    const auto p = net->named_parameters();
    EXPECT(equal(p["0.weight"], first->weight) && equal(p["1.weight"], second->weight));
}

struct Squares : data::datasets::Dataset<Squares> {
    data::Example<> get(size_t i) override {
        if (i == fail_at) throw std::runtime_error("no such square");
        return {tensor(static_cast<double>(i)), tensor(static_cast<double>(i * i))};
    }
    std::optional<size_t> size() const override { return 10; }
    size_t fail_at = 99;
};
static void loaders() {
    for (size_t workers : {0, 2}) {
        auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
            Squares().map(data::transforms::Stack<>()), data::DataLoaderOptions(4).workers(workers).drop_last(true));
        double total = 0;
        for (int epoch = 0; epoch < 2; epoch++)
            for (auto &batch : *loader) total += batch.target.sum().item<double>();
        EXPECT(total == 2 * 140);
    }
    Squares broken;
    broken.fail_at = 5;
    auto loader = data::make_data_loader<data::samplers::SequentialSampler>(broken.map(data::transforms::Stack<>()),
                                                                            data::DataLoaderOptions(4).workers(2));
    bool thrown = false;
    try {
        for (auto &batch : *loader) (void)batch;
    } catch (const std::runtime_error &e) {
        thrown = std::string(e.what()) == "no such square";
    }
    EXPECT(thrown);
}

/* The weights after so many epochs, from where the file stopped if there is one. */
static Tensor trained(int64_t epochs, bool resume) {
    manual_seed(3);
    nn::Sequential net{nn::Linear(1, 4), nn::Dropout(0.5), nn::Linear(4, 1)};
    optim::Adam adam(net->parameters(), optim::AdamOptions(0.05));
    optim::StepLR schedule(adam, 1, 0.5);
    optim::ReduceLROnPlateauScheduler plateau(adam, optim::ReduceLROnPlateauScheduler::min, 0.1f, 0);
    auto loader = data::make_data_loader<data::samplers::RandomSampler>(Squares().map(data::transforms::Stack<>()), 4);
    Training state;
    state.add("model", net).add("optimizer", adam).add("schedule", schedule).add("plateau", plateau);
    if (resume) state.load("cpp_test_training.pt");
    while (state.epoch < epochs) {
        for (auto &batch : *loader) {
            adam.zero_grad();
            mse_loss(net->forward(batch.data.view({-1, 1})).view({-1}), batch.target.to(kFloat).view({-1})).backward();
            adam.step();
            state.step++;
        }
        schedule.step();
        plateau.step(static_cast<float>(state.epoch)); // worse and worse
        state.epoch++;
        state.save("cpp_test_training.pt");
    }
    EXPECT(state.step == 3 * epochs);
    return nn::utils::parameters_to_vector(net->parameters());
}
static void trainings() {
    const Tensor whole = trained(4, false);
    trained(2, false);
    EXPECT(equal(trained(4, true), whole));
    EXPECT(!equal(trained(5, true), whole));
    nn::Sequential other{nn::Linear(2, 2)};
    Training state;
    state.add("other", other);
    bool refused = false;
    try {
        state.load("cpp_test_training.pt");
    } catch (const Error &e) {
        refused = std::string(e.what()).find("other.0.weight") != std::string::npos;
    }
    EXPECT(refused);
    std::remove("cpp_test_training.pt");
}

static void process_groups() { // of this process alone
    EXPECT(tp_dist_init());
    c10d::ProcessGroup group;
    EXPECT(group.getRank() == 0 && group.getSize() == 1);
    std::vector<Tensor> one = {full({2}, 3.0)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    std::shared_ptr<c10d::ProcessGroup::Work> work = group.allreduce(one, options);
    EXPECT(work->wait() && work->isCompleted() && work->isSuccess() && equal(work->result()[0], full({2}, 3.0)));
    std::vector<std::vector<Tensor>> all = {{zeros({2})}};
    group.allgather(all, one)->wait();
    EXPECT(equal(all[0][0], one[0]));
    group.barrier()->wait();
    one.push_back(one[0]);
    bool refused = false;
    try {
        group.broadcast(one);
    } catch (const ValueError &e) {
        refused = std::string(e.what()).find("expected one tensor per process, got 2") != std::string::npos;
    }
    EXPECT(refused);
    tp_dist_end();
}

int main() {
    references();
    undefined();
    defaults();
    errors();
    modules();
    order();
    loaders();
    trainings();
    process_groups();
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

// A program in the style of LibTorch's tutorials, on TorchScript files that PyTorch wrote: script FOLDER
#include <fstream>
#include <iostream>
#include <torch/script.h>

static int failed = 0;
#define EXPECT(...)                                          \
    do {                                                     \
        if (!(__VA_ARGS__)) {                                \
            std::cout << "failed: " << #__VA_ARGS__ << "\n"; \
            failed = 1;                                      \
        }                                                    \
    } while (0)

int main(int argc, const char *argv[]) {
    if (argc != 2) return 2;
    std::string folder = std::string(argv[1]) + "/";
    torch::jit::script::Module module;
    try {
        module = torch::jit::load(folder + "perceptron.pt");
    } catch (const c10::Error &e) {
        std::cerr << "error loading the model\n" << e.what();
        return 1;
    }
    std::vector<torch::jit::IValue> inputs;
    inputs.push_back(torch::ones({2, 4}));
    at::Tensor output = module.forward(inputs).toTensor();
    EXPECT(output.sizes() == torch::IntArrayRef({2, 3}));
    EXPECT(module.named_parameters().size() == 4);
    EXPECT(module.named_parameters()[0].name == "a.weight");
    EXPECT(torch::equal(module.forward({torch::ones({2, 4})}).toTensor(), output));
    output.sum().backward();
    EXPECT(module.parameters()[0].grad().defined());
    module.eval();
    EXPECT(!module.is_training());
    module.to(torch::kCPU);
    module.to(torch::kDouble);
    EXPECT(module.forward({torch::ones({2, 4}, torch::kDouble)}).toTensor().scalar_type() == torch::kDouble);

    std::ifstream stream(folder + "words.pt", std::ios::binary);
    torch::jit::Module words = torch::jit::load(stream);
    auto result = words.forward({torch::ones({3, 7}, torch::kLong)}).toTuple();
    EXPECT(result->elements().size() == 3);
    EXPECT(result->elements()[0].toTensor().size(2) == 2);
    EXPECT(words.attr("out").isObject() && words.hasattr("lstm") && !words.hasattr("nothing"));
    EXPECT(words.named_children().size() == 3);

    torch::jit::Module methods = torch::jit::load(folder + "methods.pt");
    at::Tensor x = torch::ones({2, 3}), w = methods.attr("w").toTensor();
    EXPECT(torch::allclose(methods.get_method("scaled")({x, 2}).toTensor(), x.matmul(w) * 2));
    EXPECT(torch::allclose(methods.run_method("scaled", x, 3).toTensor(), x.matmul(w) * 3));
    methods.forward({x});
    EXPECT(methods.attr("calls").toInt() == 1 && methods.named_buffers()[0].value.item<int64_t>() == 1);
    methods.setattr("calls", int64_t(7));
    methods.save("methods_saved.pt");
    EXPECT(torch::jit::load("methods_saved.pt").attr("calls").toInt() == 7);

    torch::jit::Module containers = torch::jit::load(folder + "containers.pt");
    std::unordered_map<std::string, torch::Tensor> given{{"a", torch::ones({2})}};
    auto answer = containers.forward({given, "words"}).toTuple()->elements();
    EXPECT(torch::allclose(answer[0].toGenericDict().at("a").toTensor(), torch::full({2}, 1.5)));
    EXPECT(answer[1].toStringRef() == "2 of WORDS" && answer[2].toInt() == 1);
    EXPECT(containers.attr("scale").toDoubleVector() == std::vector<double>({0.5, 1.5}));
    try {
        containers.forward({given, "bad"});
        EXPECT(false);
    } catch (const c10::Error &e) {
        EXPECT(std::string(e.what()).find("asked for an error: bad") != std::string::npos);
    }
    return failed;
}

/* What a layer prints: the library has Python's text of it, here it becomes LibTorch's. True is true, (5, 5) is [5, 5],
 * 1.0 is 1, 'reflect' is kReflect, and one number for all dims of a pool stands for each of them. */
#pragma once
#include <taper/cpp/base.hpp>

#include <cctype>

namespace taper {
namespace detail {
struct Shown { /* an argument: padding=(1, 2); without a name where it has none */
    std::string name, value;
};
inline bool ends_with(const std::string &text, const std::string &end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}
/* "3, eps=1e-05, (1, 2)" at its commas outside of brackets. */
inline std::vector<Shown> arguments_of(const std::string &text) {
    std::vector<Shown> all;
    int depth = 0;
    std::string now;
    const auto finish = [&] {
        const size_t start = now.find_first_not_of(' ');
        if (start == std::string::npos) return;
        now = now.substr(start);
        const size_t equals = now.find('=');
        const bool named = equals != std::string::npos && std::isalpha(static_cast<unsigned char>(now[0]));
        all.push_back(named ? Shown{now.substr(0, equals), now.substr(equals + 1)} : Shown{"", now});
        now.clear();
    };
    for (const char c : text) {
        depth += (c == '(' || c == '[') - (c == ')' || c == ']');
        if (c == ',' && !depth)
            finish();
        else
            now += c;
    }
    finish();
    return all;
}
/* 0.3333333333333333 as a stream writes it; whole numbers and words as they are. */
inline std::string plain_number(const std::string &value) {
    char *end = nullptr;
    const double v = std::strtod(value.c_str(), &end);
    const bool fraction = value.find_first_of(".e") != std::string::npos;
    return !value.empty() && !*end && fraction ? text(v) : value;
}
/* reflect is kReflect, relu kReLU */
inline std::string choice_name(const std::string &word) {
    if (word == "relu") return "kReLU";
    return std::string("k") + static_cast<char>(std::toupper(static_cast<unsigned char>(word[0]))) + word.substr(1);
}
inline std::string shown_value(const Shown &a) {
    std::string v = a.value;
    if (v == "True") return "true";
    if (v == "False") return "false";
    if (v[0] == '(' || v[0] == '[') {
        const std::vector<Shown> items = arguments_of(v.substr(1, v.size() - 2));
        if (items.size() == 1 && !a.name.empty()) return shown_value({a.name, items[0].value});
        const bool braces = a.name == "unflattened_size";
        std::string out = braces ? "{" : "[";
        for (size_t i = 0; i < items.size(); i++) out += (i ? ", " : "") + shown_value({"", items[i].value});
        return out + (braces ? "}" : "]");
    }
    if (v[0] == '\'') v = v.substr(1, v.size() - 2);
    if (a.name == "mode" || a.name == "padding_mode" || a.name == "nonlinearity") return choice_name(v);
    if (a.name == "padding" && std::isalpha(static_cast<unsigned char>(v[0]))) return "'" + v + "'";
    return plain_number(v);
}
/* How many dims one number stands for in the arguments of a pool, Fold or Unfold; 1 elsewhere. */
inline size_t dims_of(const std::string &layer) {
    if (layer == "Fold" || layer == "Unfold") return 2;
    const size_t pool = layer.find("ool");
    const bool several = pool != std::string::npos && pool + 3 < layer.size() && std::isdigit(layer[pool + 3]);
    return several ? static_cast<size_t>(layer[pool + 3] - '0') : 1;
}
inline std::string for_each_dim(const std::string &value, size_t dims) {
    std::string out = "[";
    for (size_t d = 0; d < dims; d++) out += (d ? ", " : "") + value;
    return out + "]";
}
/* The arguments by the names, and without those, that LibTorch has. */
inline std::vector<Shown> as_libtorch(const std::string &layer, std::vector<Shown> all) {
    if (layer == "GELU") return {};
    std::vector<Shown> kept;
    for (Shown &a : all) {
        if (layer.find("Norm") != std::string::npos && a.name == "bias") continue;
        if (layer == "EmbeddingBag" && a.name == "mode" && a.value == "'mean'") continue;
        if (a.name.empty() && layer.find("Pad") != std::string::npos) a.name = "padding";
        if (a.name.empty() && layer.compare(0, 9, "Embedding") == 0)
            a.name = kept.empty() ? "num_embeddings" : "embedding_dim";
        if (a.name == "stride" && a.value == "None") a.value = kept.back().value; /* of LPPool: the kernel's size */
        kept.push_back(std::move(a));
    }
    return kept;
}
inline std::string layer_line(const std::string &line) { /* Name(arguments) */
    const size_t open = line.find('(');
    std::string layer = line.substr(0, open);
    const std::string own = "NonDynamicallyQuantizable";
    if (layer.compare(0, own.size(), own) == 0) layer = layer.substr(own.size());
    std::string out = "torch::nn::" + layer + "(";
    const char *between = "";
    const size_t dims = dims_of(layer);
    for (const Shown &a : as_libtorch(layer, arguments_of(line.substr(open + 1, line.size() - open - 2)))) {
        std::string value = shown_value(a);
        const bool number = value.find_first_not_of("0123456789") == std::string::npos;
        if (dims > 1 && number && a.name != "norm_type") value = for_each_dim(value, dims);
        out += between + (a.name.empty() ? value : a.name + "=" + value);
        between = ", ";
    }
    return out + ")";
}
/* Line by line: "  (linear1): Linear(...)" is a child, a line that ends in "(" has children below. */
inline std::string layer_text(const std::string &python) {
    std::istringstream lines(python);
    std::string line, out;
    while (std::getline(lines, line)) {
        size_t start = line.find_first_not_of(' ');
        if (start == std::string::npos) start = 0;
        const size_t child = line[start] == '(' ? line.find("): ") : std::string::npos;
        if (child != std::string::npos) start = child + 3;
        const std::string rest = line.substr(start);
        if (!out.empty()) out += '\n';
        out += line.substr(0, start);
        if (rest == ")")
            out += rest;
        else if (ends_with(rest, "(")) {
            const std::string layer = rest.substr(0, rest.size() - 1);
            out += "torch::nn::" + layer + (ends_with(layer, "coderLayer") ? "Impl(" : "(");
        } else
            out += layer_line(rest);
    }
    return out;
}
} // namespace detail
} // namespace taper

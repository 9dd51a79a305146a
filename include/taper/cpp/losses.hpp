/* Losses that the table does not write: one with a distance of the program's own, and the softmax over very many
 * classes, whose forward gives two values. */
#pragma once
#include <taper/cpp/layers.hpp>

namespace taper {
namespace nn {
struct TripletMarginWithDistanceLossOptions {
    using distance_function_t = std::function<Tensor(const Tensor &, const Tensor &)>;
    TAPER_OPTION_(TripletMarginWithDistanceLossOptions, std::optional<distance_function_t>, distance_function,
                  std::nullopt)
    TAPER_OPTION_(TripletMarginWithDistanceLossOptions, double, margin, 1.0)
    TAPER_OPTION_(TripletMarginWithDistanceLossOptions, bool, swap, false)
    TAPER_OPTION_(TripletMarginWithDistanceLossOptions, Text, reduction, "mean")
};
namespace functional {
using TripletMarginWithDistanceLossFuncOptions = TripletMarginWithDistanceLossOptions;
inline Tensor triplet_margin_with_distance_loss(const Tensor &anchor, const Tensor &positive, const Tensor &negative,
                                                const TripletMarginWithDistanceLossFuncOptions &options = {}) {
    auto distance = [&](const Tensor &a, const Tensor &b) {
        return options.distance_function() ? (*options.distance_function())(a, b) : taper::pairwise_distance(a, b);
    };
    const Tensor near = distance(anchor, positive);
    Tensor far = distance(anchor, negative);
    if (options.swap()) far = taper::min(far, distance(positive, negative));
    const Tensor loss = taper::clamp_min(near - far + options.margin(), 0);
    if (options.reduction() == "mean") return loss.mean();
    if (options.reduction() == "sum") return loss.sum();
    if (options.reduction() != "none")
        detail::raise(TP_ERR_VALUE, "triplet_margin_with_distance_loss: reduction is '" + options.reduction().str() +
                                        "', expected 'none', 'mean' or 'sum'");
    return loss;
}
} // namespace functional
class TripletMarginWithDistanceLossImpl : public Cloneable<TripletMarginWithDistanceLossImpl> {
  public:
    TripletMarginWithDistanceLossOptions options;
    explicit TripletMarginWithDistanceLossImpl(TripletMarginWithDistanceLossOptions given = {})
        : options(std::move(given)) {}
    void reset() override {}
    void pretty_print(std::ostream &out) const override {
        out << "torch::nn::TripletMarginWithDistanceLoss(margin=" << options.margin() << std::boolalpha
            << ", swap=" << options.swap() << ")";
    }
    Tensor forward(const Tensor &anchor, const Tensor &positive, const Tensor &negative) {
        return functional::triplet_margin_with_distance_loss(anchor, positive, negative, options);
    }
};
TAPER_LAYER_(TripletMarginWithDistanceLoss);

struct ASMoutput {
    ASMoutput(Tensor output_, double loss_) : output(std::move(output_)), loss(loss_) {}
    Tensor output; /* the log probability of each target */
    double loss;
};
class AdaptiveLogSoftmaxWithLossImpl : public AdaptiveLogSoftmaxWithLossImplBase {
  public:
    using AdaptiveLogSoftmaxWithLossImplBase::AdaptiveLogSoftmaxWithLossImplBase;
    Module *make_like() const override { return new AdaptiveLogSoftmaxWithLossImpl(options); }
    ASMoutput forward(const Tensor &input, const Tensor &target) {
        const std::vector<Tensor> r = run_many({detail::box(input), detail::box(target)}, 2);
        return ASMoutput(r[0], r[1].item<double>());
    }
    /* The log probability of every class: (rows, n_classes). */
    Tensor log_prob(const Tensor &input) {
        const OrderedDict<std::string, Tensor> p = named_parameters();
        const Tensor *bias = p.find("head.bias");
        const Tensor head = taper::log_softmax(
            taper::linear(input, p["head.weight"], bias ? OptionalTensor(*bias) : OptionalTensor()), 1);
        const IntArrayRef cutoffs = options.cutoffs_;
        std::vector<Tensor> parts{head.slice(1, 0, cutoffs[0])};
        for (size_t i = 0; i < cutoffs.size(); i++) {
            const std::string tail = "tail." + std::to_string(i);
            const Tensor *first = p.find(tail + ".0.weight");
            if (!first) break; /* the last cutoff was the number of classes */
            const Tensor inside =
                taper::log_softmax(taper::linear(taper::linear(input, *first), p[tail + ".1.weight"]), 1);
            parts.push_back(inside + head.select(1, cutoffs[0] + static_cast<int64_t>(i)).unsqueeze(1));
        }
        return taper::cat(parts, 1);
    }
    Tensor predict(const Tensor &input) { return log_prob(input).argmax(1); }
};
TAPER_LAYER_(AdaptiveLogSoftmaxWithLoss);
} // namespace nn
} // namespace taper

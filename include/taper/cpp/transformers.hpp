/* Stacks of transformer layers, and attention as a function. */
#pragma once
#include <taper/cpp/layers.hpp>

namespace taper {
namespace nn {
#define TAPER_STACK_OPTIONS_(Name, layer_name)                              \
    struct Name##Options {                                                  \
        Name##Options(Name##Layer layer, int64_t num_layers)                \
            : layer_name##_(std::move(layer)), num_layers_(num_layers) {}   \
        Name##Options(const Name##LayerOptions &layer, int64_t num_layers)  \
            : layer_name##_(Name##Layer(layer)), num_layers_(num_layers) {} \
        Name##Options &layer_name(Name##Layer value) {                      \
            layer_name##_ = std::move(value);                               \
            return *this;                                                   \
        }                                                                   \
        const Name##Layer &layer_name() const { return layer_name##_; }     \
        Name##Options &num_layers(int64_t value) {                          \
            num_layers_ = value;                                            \
            return *this;                                                   \
        }                                                                   \
        int64_t num_layers() const { return num_layers_; }                  \
        Name##Options &norm(AnyModule value) {                              \
            norm_ = std::move(value);                                       \
            return *this;                                                   \
        }                                                                   \
        const AnyModule &norm() const { return norm_; }                     \
        Name##Layer layer_name##_;                                          \
        int64_t num_layers_;                                                \
        AnyModule norm_;                                                    \
    }
TAPER_STACK_OPTIONS_(TransformerEncoder, encoder_layer);
TAPER_STACK_OPTIONS_(TransformerDecoder, decoder_layer);
#undef TAPER_STACK_OPTIONS_

/* Layers that are copies of one, with its values, and a module behind them where one is given. */
template <class Derived> class TransformerStack : public Cloneable<Derived> {
  public:
    ModuleList layers = nullptr;
    AnyModule norm;

  protected:
    template <class L> void build(const ModuleHolder<L> &layer, int64_t count, const AnyModule &behind) {
        layers = this->register_module("layers", ModuleList(std::make_shared<ModuleListImpl>()));
        for (int64_t i = 0; i < count; i++) layers->push_back(layer->clone());
        if (behind.is_empty()) return;
        norm = behind.clone();
        this->register_module("norm", norm.ptr());
    }
    Tensor finish(Tensor output) { return norm.is_empty() ? output : norm.template forward<Tensor>(output); }
};
class TransformerEncoderImpl : public TransformerStack<TransformerEncoderImpl> {
  public:
    TransformerEncoderOptions options;
    TransformerEncoderImpl(TransformerEncoderLayer layer, int64_t num_layers)
        : TransformerEncoderImpl(TransformerEncoderOptions(std::move(layer), num_layers)) {}
    explicit TransformerEncoderImpl(TransformerEncoderOptions given) : options(std::move(given)) { reset(); }
    void reset() override { build(options.encoder_layer(), options.num_layers(), options.norm()); }
    Tensor forward(const Tensor &src, const Tensor &src_mask = {}, const Tensor &src_key_padding_mask = {}) {
        Tensor output = src;
        for (size_t i = 0; i < layers->size(); i++)
            output = layers->at<TransformerEncoderLayerImpl>(i).forward(output, src_mask, src_key_padding_mask);
        return finish(output);
    }
};
TAPER_LAYER_(TransformerEncoder);
class TransformerDecoderImpl : public TransformerStack<TransformerDecoderImpl> {
  public:
    TransformerDecoderOptions options;
    TransformerDecoderImpl(TransformerDecoderLayer layer, int64_t num_layers)
        : TransformerDecoderImpl(TransformerDecoderOptions(std::move(layer), num_layers)) {}
    explicit TransformerDecoderImpl(TransformerDecoderOptions given) : options(std::move(given)) { reset(); }
    void reset() override { build(options.decoder_layer(), options.num_layers(), options.norm()); }
    Tensor forward(const Tensor &tgt, const Tensor &memory, const Tensor &tgt_mask = {}, const Tensor &memory_mask = {},
                   const Tensor &tgt_key_padding_mask = {}, const Tensor &memory_key_padding_mask = {}) {
        Tensor output = tgt;
        for (size_t i = 0; i < layers->size(); i++)
            output = layers->at<TransformerDecoderLayerImpl>(i).forward(output, memory, tgt_mask, memory_mask,
                                                                        tgt_key_padding_mask, memory_key_padding_mask);
        return finish(output);
    }
};
TAPER_LAYER_(TransformerDecoder);
} // namespace nn
} // namespace taper

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

namespace functional {
struct MultiheadAttentionForwardFuncOptions {
    MultiheadAttentionForwardFuncOptions(int64_t embed_dim_to_check, int64_t num_heads, Tensor in_proj_weight,
                                         Tensor in_proj_bias, Tensor bias_k, Tensor bias_v, bool add_zero_attn,
                                         double dropout_p, Tensor out_proj_weight, Tensor out_proj_bias)
        : embed_dim_to_check_(embed_dim_to_check), num_heads_(num_heads), in_proj_weight_(std::move(in_proj_weight)),
          in_proj_bias_(std::move(in_proj_bias)), bias_k_(std::move(bias_k)), bias_v_(std::move(bias_v)),
          add_zero_attn_(add_zero_attn), dropout_p_(dropout_p), out_proj_weight_(std::move(out_proj_weight)),
          out_proj_bias_(std::move(out_proj_bias)) {}
#define TAPER_HERE_(type, name, initial) TAPER_OPTION_(MultiheadAttentionForwardFuncOptions, type, name, initial)
    TAPER_HERE_(int64_t, embed_dim_to_check, 0)
    TAPER_HERE_(int64_t, num_heads, 1)
    TAPER_HERE_(Tensor, in_proj_weight, {})
    TAPER_HERE_(Tensor, in_proj_bias, {})
    TAPER_HERE_(Tensor, bias_k, {})
    TAPER_HERE_(Tensor, bias_v, {})
    TAPER_HERE_(bool, add_zero_attn, false)
    TAPER_HERE_(double, dropout_p, 0)
    TAPER_HERE_(Tensor, out_proj_weight, {})
    TAPER_HERE_(Tensor, out_proj_bias, {})
    TAPER_HERE_(bool, training, true)
    TAPER_HERE_(Tensor, key_padding_mask, {})
    TAPER_HERE_(bool, need_weights, true)
    TAPER_HERE_(Tensor, attn_mask, {})
    TAPER_HERE_(bool, use_separate_proj_weight, false)
    TAPER_HERE_(Tensor, q_proj_weight, {})
    TAPER_HERE_(Tensor, k_proj_weight, {})
    TAPER_HERE_(Tensor, v_proj_weight, {})
    TAPER_HERE_(Tensor, static_k, {})
    TAPER_HERE_(Tensor, static_v, {})
    TAPER_HERE_(bool, average_attn_weights, true)
#undef TAPER_HERE_
};
namespace attention_ {
using Options = MultiheadAttentionForwardFuncOptions;
inline void expect(bool good, const std::string &what) {
    if (!good) detail::raise(TP_ERR_VALUE, "multi_head_attention_forward: " + what);
}
/* -inf where a mask of truths leaves out, 0 elsewhere; other masks are added as they are. */
inline Tensor additive(const Tensor &mask, ScalarType dtype) {
    if (!mask.defined() || mask.scalar_type() != kBool) return mask;
    return zeros(mask.sizes(), mask.options().dtype(dtype)).masked_fill_(mask, -INFINITY);
}
/* (length, batch, embed) to (batch * heads, length, head). */
inline Tensor heads_of(const Tensor &x, const Options &o) {
    return x.reshape({x.size(0), x.size(1) * o.num_heads(), o.embed_dim_to_check() / o.num_heads()}).transpose(0, 1);
}
inline Tensor project(const Tensor &x, const Options &o, const Tensor &own, int64_t which) {
    const int64_t n = o.embed_dim_to_check(), from = which * n;
    const Tensor weight = o.use_separate_proj_weight() ? own : o.in_proj_weight().slice(0, from, from + n);
    const Tensor bias = o.in_proj_bias().defined() ? o.in_proj_bias().slice(0, from, from + n) : Tensor();
    return taper::linear(x, weight, bias);
}
/* One more place for masks, which nothing leaves out. */
inline Tensor longer(const Tensor &mask) { return mask.defined() ? taper::pad(mask, {0, 1}) : mask; }
inline void check(const Tensor &query, const Tensor &key, const Tensor &value, const Options &o) {
    expect(query.dim() == 3 && key.dim() == 3 && value.dim() == 3, "query, key and value have three dims");
    expect(query.size(2) == o.embed_dim_to_check(),
           detail::text("query's last dim is ", query.size(2), ", expected ", o.embed_dim_to_check()));
    expect(o.num_heads() > 0 && o.embed_dim_to_check() % o.num_heads() == 0,
           "embed_dim must be divisible by num_heads");
    expect(key.size(0) == value.size(0) && key.size(1) == value.size(1),
           "key and value have the same length and batch");
    expect(o.bias_k().defined() == o.bias_v().defined(), "bias_k and bias_v are given together");
    expect(!o.bias_k().defined() || (!o.static_k().defined() && !o.static_v().defined()),
           "bias cannot be added to static keys and values");
}
/* The masks of a call in one: added to the scores, (batch * heads or 1, target, source). */
inline Tensor joined(const Tensor &mask, const Tensor &padding, int64_t batch, int64_t heads) {
    const Tensor each = mask.defined() && mask.dim() == 2 ? mask.unsqueeze(0) : mask;
    if (!padding.defined()) return each;
    const int64_t source = padding.size(1);
    const Tensor wide =
        padding.view({batch, 1, 1, source}).expand({-1, heads, -1, -1}).reshape({batch * heads, 1, source});
    return each.defined() ? each + wide : wide;
}
} // namespace attention_

/* Attention over several heads; query, key and value are (length, batch, embedding). */
inline std::tuple<Tensor, Tensor> multi_head_attention_forward(const Tensor &query, const Tensor &key,
                                                               const Tensor &value,
                                                               const MultiheadAttentionForwardFuncOptions &o) {
    using namespace attention_;
    attention_::check(query, key, value, o);
    const int64_t target = query.size(0), batch = query.size(1), embed = query.size(2), heads = o.num_heads();
    Tensor q = project(query, o, o.q_proj_weight(), 0);
    Tensor k = project(key, o, o.k_proj_weight(), 1);
    Tensor v = project(value, o, o.v_proj_weight(), 2);
    Tensor mask = additive(o.attn_mask(), q.scalar_type());
    Tensor padding = additive(o.key_padding_mask(), q.scalar_type());
    if (o.bias_k().defined()) {
        k = taper::cat({k, o.bias_k().repeat({1, batch, 1})});
        v = taper::cat({v, o.bias_v().repeat({1, batch, 1})});
        mask = longer(mask);
        padding = longer(padding);
    }
    q = heads_of(q, o);
    k = o.static_k().defined() ? o.static_k() : heads_of(k, o);
    v = o.static_v().defined() ? o.static_v() : heads_of(v, o);
    if (o.add_zero_attn()) {
        const Tensor zero = taper::zeros({batch * heads, 1, embed / heads}, k.options());
        k = taper::cat({k, zero}, 1);
        v = taper::cat({v, zero}, 1);
        mask = longer(mask);
        padding = longer(padding);
    }
    const Tensor added = joined(mask, padding, batch, heads);
    Tensor scores = taper::bmm(q * std::pow(static_cast<double>(embed / heads), -0.5), k.transpose(1, 2));
    if (added.defined()) scores = scores + added;
    const Tensor weights = taper::dropout(taper::softmax(scores, -1), o.dropout_p(), o.training());
    const Tensor out = taper::linear(taper::bmm(weights, v).transpose(0, 1).reshape({target, batch, embed}),
                                     o.out_proj_weight(), o.out_proj_bias());
    if (!o.need_weights()) return {out, Tensor()};
    const Tensor all = weights.view({batch, heads, target, k.size(1)});
    return {out, o.average_attn_weights() ? all.sum(1) / static_cast<double>(heads) : all};
}
} // namespace functional
} // namespace nn
} // namespace taper

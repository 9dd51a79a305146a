/* Layers and containers. table_layers.hpp holds the layers of tables/layers; here are those whose forward takes or
 * gives more than one tensor, and the containers. */
#pragma once
#include <taper/cpp/module.hpp>
#include <taper/cpp/sequence.hpp>
#include <taper/cpp/table_layers.hpp>
#include <taper/cpp/operators_functional.hpp>

#include <any>

namespace taper {
namespace nn {

// ---- Layers whose forward is the library's own function ----
#define TAPER_ONE_INPUT_LAYER_(Name)                                              \
    class Name##Impl : public Name##ImplBase {                                    \
      public:                                                                     \
        using Name##ImplBase::Name##ImplBase;                                     \
        Tensor forward(const Tensor &input) { return run({detail::box(input)}); } \
        Module *make_like() const override { return new Name##Impl(options); }    \
    };                                                                            \
    TAPER_LAYER_(Name)
TAPER_ONE_INPUT_LAYER_(BatchNorm1d);
TAPER_ONE_INPUT_LAYER_(BatchNorm2d);
TAPER_ONE_INPUT_LAYER_(BatchNorm3d);
TAPER_ONE_INPUT_LAYER_(InstanceNorm1d);
TAPER_ONE_INPUT_LAYER_(InstanceNorm2d);
TAPER_ONE_INPUT_LAYER_(InstanceNorm3d);
#undef TAPER_ONE_INPUT_LAYER_

#define TAPER_CONV_TRANSPOSE_(Name)                                                                               \
    class Name##Impl : public Name##ImplBase {                                                                    \
      public:                                                                                                     \
        using Name##ImplBase::Name##ImplBase;                                                                     \
        Tensor forward(const Tensor &input, OptionalIntArrayRef output_size = std::nullopt) {                     \
            return output_size ? run({detail::box(input), detail::box(output_size)}) : run({detail::box(input)}); \
        }                                                                                                         \
        Module *make_like() const override { return new Name##Impl(options); }                                    \
    };                                                                                                            \
    TAPER_LAYER_(Name)
TAPER_CONV_TRANSPOSE_(ConvTranspose1d);
TAPER_CONV_TRANSPOSE_(ConvTranspose2d);
TAPER_CONV_TRANSPOSE_(ConvTranspose3d);
#undef TAPER_CONV_TRANSPOSE_

#define TAPER_MAX_POOL_(Name, function)                                                                             \
    class Name##Impl : public Name##ImplBase {                                                                      \
      public:                                                                                                       \
        using Name##ImplBase::Name##ImplBase;                                                                       \
        Tensor forward(const Tensor &input) { return run({detail::box(input)}); }                                   \
        std::tuple<Tensor, Tensor> forward_with_indices(const Tensor &input) {                                      \
            return function(input, options.kernel_size_, options.stride_ ? *options.stride_ : options.kernel_size_, \
                            options.padding_, options.dilation_, options.ceil_mode_);                               \
        }                                                                                                           \
        Module *make_like() const override { return new Name##Impl(options); }                                      \
    };                                                                                                              \
    TAPER_LAYER_(Name)
TAPER_MAX_POOL_(MaxPool1d, max_pool1d_with_indices);
TAPER_MAX_POOL_(MaxPool2d, max_pool2d_with_indices);
TAPER_MAX_POOL_(MaxPool3d, max_pool3d_with_indices);
#undef TAPER_MAX_POOL_

namespace detail_ {
template <class Options> inline void print_recurrent(std::ostream &out, const char *name, const Options &o) {
    out << std::boolalpha << "torch::nn::" << name << "(input_size=" << o.input_size();
    out << ", hidden_size=" << o.hidden_size() << ", num_layers=" << o.num_layers() << ", bias=" << o.bias();
    out << ", batch_first=" << o.batch_first() << ", dropout=" << o.dropout();
    out << ", bidirectional=" << o.bidirectional();
}
/* h (0) or c (1) of an LSTM, none where they are missing. */
template <size_t i> inline tp_value state_of(const std::optional<std::tuple<Tensor, Tensor>> &hx) {
    return hx && std::get<i>(*hx).defined() ? detail::box(std::get<i>(*hx)) : tp_value_none();
}
} // namespace detail_
class LSTMImpl : public LSTMImplBase {
  public:
    using LSTMImplBase::LSTMImplBase;
    void pretty_print(std::ostream &out) const override {
        detail_::print_recurrent(out, "LSTM", options);
        if (options.proj_size() > 0) out << ", proj_size=" << options.proj_size();
        out << ")";
    }
    std::tuple<Tensor, std::tuple<Tensor, Tensor>>
    forward(const Tensor &input, std::optional<std::tuple<Tensor, Tensor>> hx = std::nullopt) {
        std::vector<Tensor> r = run_many({detail::box(input), detail_::state_of<0>(hx), detail_::state_of<1>(hx)}, 3);
        return {r[0], {r[1], r[2]}};
    }
    std::tuple<utils::rnn::PackedSequence, std::tuple<Tensor, Tensor>>
    forward_with_packed_input(const utils::rnn::PackedSequence &input,
                              std::optional<std::tuple<Tensor, Tensor>> hx = std::nullopt) {
        tp_tensor *h = nullptr;
        tp_tensor *c = nullptr;
        utils::rnn::PackedSequence output(tp_forward_packed(ready(), input.c_packed(),
                                                            hx ? std::get<0>(*hx).get() : nullptr,
                                                            hx ? std::get<1>(*hx).get() : nullptr, &h, &c));
        return {output, {Tensor::steal(h), Tensor::steal(c)}};
    }
    void flatten_parameters() {}
    std::vector<Tensor> all_weights() const { return parameters(); }
    Module *make_like() const override { return new LSTMImpl(options); }
};
TAPER_LAYER_(LSTM);
#define TAPER_RECURRENT_(Name)                                                                          \
    class Name##Impl : public Name##ImplBase {                                                          \
      public:                                                                                           \
        using Name##ImplBase::Name##ImplBase;                                                           \
        std::tuple<Tensor, Tensor> forward(const Tensor &input, const Tensor &hx = {}) {                \
            std::vector<Tensor> r = run_many({detail::box(input), detail::box(OptionalTensor(hx))}, 2); \
            return {r[0], r[1]};                                                                        \
        }                                                                                               \
        std::tuple<utils::rnn::PackedSequence, Tensor>                                                  \
        forward_with_packed_input(const utils::rnn::PackedSequence &input, const Tensor &hx = {}) {     \
            tp_tensor *h = nullptr;                                                                     \
            utils::rnn::PackedSequence output(                                                          \
                tp_forward_packed(ready(), input.c_packed(), hx.get(), nullptr, &h, nullptr));          \
            return {output, Tensor::steal(h)};                                                          \
        }                                                                                               \
        void pretty_print(std::ostream &out) const override {                                           \
            detail_::print_recurrent(out, #Name, options);                                              \
            out << ")";                                                                                 \
        }                                                                                               \
        void flatten_parameters() {}                                                                    \
        std::vector<Tensor> all_weights() const { return parameters(); }                                \
        Module *make_like() const override { return new Name##Impl(options); }                          \
    };                                                                                                  \
    TAPER_LAYER_(Name)
TAPER_RECURRENT_(RNN);
TAPER_RECURRENT_(GRU);
#undef TAPER_RECURRENT_
class LSTMCellImpl : public LSTMCellImplBase {
  public:
    using LSTMCellImplBase::LSTMCellImplBase;
    Module *make_like() const override { return new LSTMCellImpl(options); }
    std::tuple<Tensor, Tensor> forward(const Tensor &input,
                                       std::optional<std::tuple<Tensor, Tensor>> hx = std::nullopt) {
        std::vector<Tensor> r = run_many({detail::box(input), detail_::state_of<0>(hx), detail_::state_of<1>(hx)}, 2);
        return {r[0], r[1]};
    }
};
TAPER_LAYER_(LSTMCell);
#define TAPER_CELL_(Name)                                                      \
    class Name##Impl : public Name##ImplBase {                                 \
      public:                                                                  \
        using Name##ImplBase::Name##ImplBase;                                  \
        Module *make_like() const override { return new Name##Impl(options); } \
        Tensor forward(const Tensor &input, const Tensor &hx = {}) {           \
            return run({detail::box(input), detail::box(OptionalTensor(hx))}); \
        }                                                                      \
    };                                                                         \
    TAPER_LAYER_(Name)
TAPER_CELL_(RNNCell);
TAPER_CELL_(GRUCell);
#undef TAPER_CELL_

class MultiheadAttentionImpl : public MultiheadAttentionImplBase {
  public:
    using MultiheadAttentionImplBase::MultiheadAttentionImplBase;
    Module *make_like() const override { return new MultiheadAttentionImpl(options); }
    std::tuple<Tensor, Tensor> forward(const Tensor &query, const Tensor &key, const Tensor &value,
                                       const Tensor &key_padding_mask = {}, bool need_weights = true,
                                       const Tensor &attn_mask = {}, bool average_attn_weights = true) {
        std::vector<Tensor> r = run_many({detail::box(query), detail::box(key), detail::box(value),
                                          detail::box(OptionalTensor(key_padding_mask)), tp_value_bool(need_weights),
                                          detail::box(OptionalTensor(attn_mask)), tp_value_bool(average_attn_weights)},
                                         2);
        return {r[0], r[1]};
    }
};
TAPER_LAYER_(MultiheadAttention);
class TransformerEncoderLayerImpl : public TransformerEncoderLayerImplBase {
  public:
    using TransformerEncoderLayerImplBase::TransformerEncoderLayerImplBase;
    Module *make_like() const override { return new TransformerEncoderLayerImpl(options); }
    Tensor forward(const Tensor &src, const Tensor &src_mask = {}, const Tensor &src_key_padding_mask = {}) {
        return run({detail::box(src), detail::box(OptionalTensor(src_mask)),
                    detail::box(OptionalTensor(src_key_padding_mask))});
    }
};
TAPER_LAYER_(TransformerEncoderLayer);
class TransformerDecoderLayerImpl : public TransformerDecoderLayerImplBase {
  public:
    using TransformerDecoderLayerImplBase::TransformerDecoderLayerImplBase;
    Module *make_like() const override { return new TransformerDecoderLayerImpl(options); }
    Tensor forward(const Tensor &tgt, const Tensor &memory, const Tensor &tgt_mask = {}, const Tensor &memory_mask = {},
                   const Tensor &tgt_key_padding_mask = {}, const Tensor &memory_key_padding_mask = {}) {
        return run({detail::box(tgt), detail::box(memory), detail::box(OptionalTensor(tgt_mask)),
                    detail::box(OptionalTensor(memory_mask)), detail::box(OptionalTensor(tgt_key_padding_mask)),
                    detail::box(OptionalTensor(memory_key_padding_mask))});
    }
};
TAPER_LAYER_(TransformerDecoderLayer);
class TransformerImpl : public TransformerImplBase {
  public:
    using TransformerImplBase::TransformerImplBase;
    Module *make_like() const override { return new TransformerImpl(options); }
    Tensor forward(const Tensor &src, const Tensor &tgt, const Tensor &src_mask = {}, const Tensor &tgt_mask = {},
                   const Tensor &memory_mask = {}, const Tensor &src_key_padding_mask = {},
                   const Tensor &tgt_key_padding_mask = {}, const Tensor &memory_key_padding_mask = {}) {
        return run({detail::box(src), detail::box(tgt), detail::box(OptionalTensor(src_mask)),
                    detail::box(OptionalTensor(tgt_mask)), detail::box(OptionalTensor(memory_mask)),
                    detail::box(OptionalTensor(src_key_padding_mask)),
                    detail::box(OptionalTensor(tgt_key_padding_mask)),
                    detail::box(OptionalTensor(memory_key_padding_mask))});
    }
    static Tensor generate_square_subsequent_mask(int64_t n) { return triu(full({n, n}, -INFINITY), 1); }
};
TAPER_LAYER_(Transformer);

// ---- Tables of vectors from a tensor: Embedding::from_pretrained(vectors) ----
struct EmbeddingFromPretrainedOptions {
    TAPER_OPTION_(EmbeddingFromPretrainedOptions, bool, freeze, true)
    TAPER_OPTION_(EmbeddingFromPretrainedOptions, std::optional<int64_t>, padding_idx, std::nullopt)
    TAPER_OPTION_(EmbeddingFromPretrainedOptions, std::optional<double>, max_norm, std::nullopt)
    TAPER_OPTION_(EmbeddingFromPretrainedOptions, double, norm_type, 2.0)
    TAPER_OPTION_(EmbeddingFromPretrainedOptions, bool, scale_grad_by_freq, false)
    TAPER_OPTION_(EmbeddingFromPretrainedOptions, bool, sparse, false)
};
struct EmbeddingBagFromPretrainedOptions {
    TAPER_OPTION_(EmbeddingBagFromPretrainedOptions, bool, freeze, true)
    TAPER_OPTION_(EmbeddingBagFromPretrainedOptions, std::optional<double>, max_norm, std::nullopt)
    TAPER_OPTION_(EmbeddingBagFromPretrainedOptions, double, norm_type, 2.0)
    TAPER_OPTION_(EmbeddingBagFromPretrainedOptions, bool, scale_grad_by_freq, false)
    TAPER_OPTION_(EmbeddingBagFromPretrainedOptions, Text, mode, "mean")
    TAPER_OPTION_(EmbeddingBagFromPretrainedOptions, bool, sparse, false)
    TAPER_OPTION_(EmbeddingBagFromPretrainedOptions, bool, include_last_offset, false)
    TAPER_OPTION_(EmbeddingBagFromPretrainedOptions, std::optional<int64_t>, padding_idx, std::nullopt)
};
namespace detail_ {
/* The weights that the layer was made with are replaced, so what it drew for them is put back. */
template <class Layer, class Options>
inline Layer made_from(const Tensor &weight, const Options &layer_options, bool freeze) {
    Generator generator = Generator::default_of(tp_device{TP_CPU, 0});
    const Tensor state = generator.get_state();
    Layer layer(layer_options);
    generator.set_state(state);
    layer->weight.set_data(weight.detach());
    layer->weight.set_requires_grad(!freeze);
    return layer;
}
template <class Options> inline Options table_of(const Tensor &weight) {
    if (weight.dim() != 2) detail::raise(TP_ERR_VALUE, "Embeddings parameter is expected to be 2-dimensional");
    return Options(weight.size(0), weight.size(1));
}
} // namespace detail_
template <> struct pretrained_<EmbeddingImpl> {
    static Embedding make(const Tensor &weight, const EmbeddingFromPretrainedOptions &o = {}) {
        auto options = detail_::table_of<EmbeddingOptions>(weight).padding_idx(o.padding_idx()).max_norm(o.max_norm());
        options.norm_type(o.norm_type()).scale_grad_by_freq(o.scale_grad_by_freq()).sparse(o.sparse());
        return detail_::made_from<Embedding>(weight, options, o.freeze());
    }
};
template <> struct pretrained_<EmbeddingBagImpl> {
    static EmbeddingBag make(const Tensor &weight, const EmbeddingBagFromPretrainedOptions &o = {}) {
        auto options = detail_::table_of<EmbeddingBagOptions>(weight).padding_idx(o.padding_idx()).mode(o.mode());
        options.max_norm(o.max_norm()).norm_type(o.norm_type()).scale_grad_by_freq(o.scale_grad_by_freq());
        options.sparse(o.sparse()).include_last_offset(o.include_last_offset());
        return detail_::made_from<EmbeddingBag>(weight, options, o.freeze());
    }
};

// ---- Containers ----
/* A module of any type. Values of forward travel as std::any, so that a tuple can pass from one module to the next. */
class AnyModule {
  public:
    AnyModule() = default;
    template <class M, class = std::enable_if_t<std::is_base_of_v<Module, M>>>
    explicit AnyModule(std::shared_ptr<M> m)
        : module_(m), call_([m](std::vector<std::any> &in) { return invoke(*m, in); }),
          clone_([](const Module &from, const std::optional<Device> &device) {
              return AnyModule(std::dynamic_pointer_cast<M>(from.clone(device)));
          }) {}
    template <class M> explicit AnyModule(const ModuleHolder<M> &holder) : AnyModule(holder.ptr()) {}
    template <class M, class = std::enable_if_t<std::is_base_of_v<Module, std::decay_t<M>> && !std::is_pointer_v<M>>,
              class = void>
    explicit AnyModule(M &&m) : AnyModule(std::make_shared<std::decay_t<M>>(std::forward<M>(m))) {}
    template <class R = Tensor, class... A> R forward(A &&...inputs) const {
        std::vector<std::any> in{std::any(std::decay_t<A>(std::forward<A>(inputs)))...};
        return take<R>(call_(in));
    }
    std::any any_forward(std::vector<std::any> in) const { return call_(in); }
    const std::shared_ptr<Module> &ptr() const { return module_; }
    template <class M> std::shared_ptr<M> ptr() const { return std::dynamic_pointer_cast<M>(module_); }
    /* get<LinearImpl>() is the module, get<Linear>() another holder of it. */
    template <class M> decltype(auto) get() const {
        if constexpr (is_holder<M>::value)
            return M(std::dynamic_pointer_cast<impl_t<M>>(module_));
        else
            return dynamic_cast<M &>(*module_);
    }
    bool is_empty() const { return !module_; }
    AnyModule clone(const std::optional<Device> &device = std::nullopt) const {
        return module_ ? clone_(*module_, device) : AnyModule();
    }
    template <class R> static R take(std::any v) {
        R *r = std::any_cast<R>(&v);
        if (!r) detail::raise(TP_ERR_TYPE, "The type of the return value is not the one that forward was asked for");
        return std::move(*r);
    }

  private:
    using Pair = std::tuple<Tensor, Tensor>;
    using LSTMResult = std::tuple<Tensor, std::tuple<Tensor, Tensor>>;
    template <class M, class... A> using result_t = decltype(std::declval<M &>().forward(std::declval<A>()...));
    template <class V, class M, class... A> struct callable_ : std::false_type {};
    template <class M, class... A> struct callable_<std::void_t<result_t<M, A...>>, M, A...> : std::true_type {};
    template <class M, class... A> static constexpr bool callable = callable_<void, M, A...>::value;
    template <class T> static T *at(std::vector<std::any> &in, size_t i) { return std::any_cast<T>(&in[i]); }
    template <class M> static std::any invoke(M &m, std::vector<std::any> &in) {
        if constexpr (callable<M, Tensor>)
            if (in.size() == 1 && at<Tensor>(in, 0)) return m.forward(*at<Tensor>(in, 0));
        if constexpr (callable<M, Tensor, Tensor>)
            if (in.size() == 2 && at<Tensor>(in, 0) && at<Tensor>(in, 1))
                return m.forward(*at<Tensor>(in, 0), *at<Tensor>(in, 1));
        if constexpr (callable<M, Tensor, Tensor, Tensor>)
            if (in.size() == 3 && at<Tensor>(in, 0) && at<Tensor>(in, 1) && at<Tensor>(in, 2))
                return m.forward(*at<Tensor>(in, 0), *at<Tensor>(in, 1), *at<Tensor>(in, 2));
        if constexpr (callable<M, Pair>)
            if (in.size() == 1 && at<Pair>(in, 0)) return m.forward(*at<Pair>(in, 0));
        if constexpr (callable<M, LSTMResult>)
            if (in.size() == 1 && at<LSTMResult>(in, 0)) return m.forward(*at<LSTMResult>(in, 0));
        detail::raise(TP_ERR_TYPE, detail::text(m.name(), ": forward does not take these ", in.size(), " inputs"));
        return {};
    }
    std::shared_ptr<Module> module_;
    std::function<std::any(std::vector<std::any> &)> call_;
    AnyModule (*clone_)(const Module &, const std::optional<Device> &) = nullptr;
};
class NamedAnyModule {
  public:
    template <class M>
    NamedAnyModule(std::string name, M &&module) : name_(std::move(name)), module_(std::forward<M>(module)) {}
    const std::string &name() const { return name_; }
    const AnyModule &module() const { return module_; }

  private:
    std::string name_;
    AnyModule module_;
};

/* Modules called one after the other. Give them in braces, Sequential{a, b}, to have them made from left to right. */
class SequentialImpl : public Cloneable<SequentialImpl> {
  public:
    SequentialImpl() = default;
    template <class... M, class = std::enable_if_t<(sizeof...(M) > 0) &&
                                                   !(sizeof...(M) == 1 &&
                                                     (std::is_same_v<std::decay_t<M>, SequentialImpl> && ...))>>
    explicit SequentialImpl(M &&...modules) {
        (push_back(std::forward<M>(modules)), ...);
    }
    explicit SequentialImpl(std::initializer_list<NamedAnyModule> modules) {
        for (const NamedAnyModule &m : modules) push_back(m.name(), m.module());
    }
    explicit SequentialImpl(OrderedDict<std::string, AnyModule> &&modules) {
        for (auto &m : modules) push_back(m.key(), m.value());
    }
    std::shared_ptr<Module> clone(const std::optional<Device> &device = std::nullopt) const override {
        auto copy = std::make_shared<SequentialImpl>();
        for (size_t i = 0; i < modules_.size(); i++) copy->push_back(names_[i], modules_[i].clone(device));
        copy->training_ = training_;
        return copy;
    }
    void reset() override {}
    void pretty_print(std::ostream &out) const override { out << "torch::nn::Sequential"; }
    template <class R = Tensor, class... A> R forward(A &&...inputs) {
        if (modules_.empty()) detail::raise(TP_ERR_RUNTIME, "Cannot call forward() on an empty Sequential");
        std::vector<std::any> in{std::any(std::decay_t<A>(std::forward<A>(inputs)))...};
        std::any value = modules_[0].any_forward(std::move(in));
        for (size_t i = 1; i < modules_.size(); i++) {
            std::vector<std::any> next;
            next.push_back(std::move(value));
            value = modules_[i].any_forward(std::move(next));
        }
        return AnyModule::take<R>(std::move(value));
    }
    template <class M> void push_back(M &&module) {
        push_back(std::to_string(modules_.size()), std::forward<M>(module));
    }
    template <class M> void push_back(std::string name, M &&module) {
        if constexpr (std::is_same_v<std::decay_t<M>, AnyModule>)
            modules_.push_back(module);
        else if constexpr (std::is_same_v<std::decay_t<M>, NamedAnyModule>) {
            modules_.push_back(module.module());
            name = module.name();
        } else
            modules_.push_back(AnyModule(std::forward<M>(module)));
        names_.push_back(name);
        register_module(std::move(name), modules_.back().ptr());
    }
    void extend(const SequentialImpl &other) {
        for (const AnyModule &m : other.modules_) push_back(m);
    }
    size_t size() const { return modules_.size(); }
    bool is_empty() const { return modules_.empty(); }
    template <class T> T &at(size_t i) { return modules_.at(i).template get<T>(); }
    std::shared_ptr<Module> ptr(size_t i) const { return modules_.at(i).ptr(); }
    template <class T> std::shared_ptr<T> ptr(size_t i) const { return modules_.at(i).template ptr<T>(); }
    std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
    std::vector<AnyModule>::iterator begin() { return modules_.begin(); }
    std::vector<AnyModule>::iterator end() { return modules_.end(); }

  private:
    std::vector<AnyModule> modules_;
    std::vector<std::string> names_;
};
class Sequential : public ModuleHolder<SequentialImpl> {
  public:
    using ModuleHolder<SequentialImpl>::ModuleHolder;
    using Impl = SequentialImpl;
    Sequential() : ModuleHolder(std::make_shared<SequentialImpl>()) {}
    Sequential(std::initializer_list<NamedAnyModule> modules)
        : ModuleHolder(std::make_shared<SequentialImpl>(modules)) {}
};

class ModuleListImpl : public Module {
  public:
    ModuleListImpl() = default;
    template <class... M, class = std::enable_if_t<(sizeof...(M) > 0)>> explicit ModuleListImpl(M &&...modules) {
        (push_back(std::forward<M>(modules)), ...);
    }
    void pretty_print(std::ostream &out) const override { out << "torch::nn::ModuleList"; }
    template <class M> void push_back(M &&m) {
        std::shared_ptr<Module> p;
        if constexpr (is_holder<M>::value)
            p = m.ptr();
        else if constexpr (std::is_base_of_v<Module, std::decay_t<M>>)
            p = std::make_shared<std::decay_t<M>>(std::forward<M>(m));
        else
            p = m;
        modules_.push_back(p);
        register_module(std::to_string(modules_.size() - 1), p);
    }
    size_t size() const { return modules_.size(); }
    bool is_empty() const { return modules_.empty(); }
    std::shared_ptr<Module> operator[](size_t i) const { return modules_.at(i); }
    std::shared_ptr<Module> ptr(size_t i) const { return modules_.at(i); }
    template <class T> std::shared_ptr<T> ptr(size_t i) const { return std::dynamic_pointer_cast<T>(modules_.at(i)); }
    template <class T> T &at(size_t i) { return dynamic_cast<T &>(*modules_.at(i)); }
    std::vector<std::shared_ptr<Module>>::iterator begin() { return modules_.begin(); }
    std::vector<std::shared_ptr<Module>>::iterator end() { return modules_.end(); }

  private:
    std::vector<std::shared_ptr<Module>> modules_;
};
TAPER_LAYER_(ModuleList);

/* Any function as a module: Functional(relu), Functional(elu, 1, 1, 1). */
class FunctionalImpl : public Cloneable<FunctionalImpl> {
  public:
    using Function = std::function<Tensor(Tensor)>;
    explicit FunctionalImpl(Function f) : f_(std::move(f)) {}
    template <class F, class... A, class = std::enable_if_t<(sizeof...(A) > 0)>>
    explicit FunctionalImpl(F f, A... args) : f_([f, args...](Tensor x) { return f(x, args...); }) {}
    void reset() override {}
    void pretty_print(std::ostream &out) const override { out << "torch::nn::Functional()"; }
    Tensor forward(Tensor input) { return f_(std::move(input)); }
    Tensor operator()(Tensor input) { return f_(std::move(input)); }

  private:
    Function f_;
};
TAPER_LAYER_(Functional);

// ---- Functions that give places, too ----
namespace functional {
#define TAPER_WITH_INDICES_(name, Options)                                                                    \
    inline std::tuple<Tensor, Tensor> name(const Tensor &input, const Options &options) {                     \
        return taper::name(input, options.kernel_size_, options.stride_, options.padding_, options.dilation_, \
                           options.ceil_mode_);                                                               \
    }
TAPER_WITH_INDICES_(max_pool1d_with_indices, MaxPool1dFuncOptions)
TAPER_WITH_INDICES_(max_pool2d_with_indices, MaxPool2dFuncOptions)
TAPER_WITH_INDICES_(max_pool3d_with_indices, MaxPool3dFuncOptions)
#undef TAPER_WITH_INDICES_
using UnfoldFuncOptions = UnfoldOptions;
inline Tensor unfold(const Tensor &input, const UnfoldFuncOptions &options) {
    return taper::unfold(input, options.kernel_size_, options.dilation_, options.padding_, options.stride_);
}
} // namespace functional

// ---- How parameters begin ----
namespace init {
using FanModeType = Text;
using NonlinearityType = Text;
inline Tensor done(bool good, const Tensor &t) {
    detail::check(good);
    return t;
}
inline Tensor constant_(Tensor t, const Scalar &v) { return done(tp_init_constant(t.get(), v.toDouble()), t); }
inline Tensor zeros_(Tensor t) { return done(tp_init_zeros(t.get()), t); }
inline Tensor ones_(Tensor t) { return done(tp_init_ones(t.get()), t); }
inline Tensor uniform_(Tensor t, double low = 0, double high = 1) {
    return done(tp_init_uniform(t.get(), low, high), t);
}
inline Tensor normal_(Tensor t, double mean = 0, double std = 1) { return done(tp_init_normal(t.get(), mean, std), t); }
inline Tensor xavier_uniform_(Tensor t, double gain = 1.0) { return done(tp_init_xavier_uniform(t.get(), gain), t); }
inline Tensor xavier_normal_(Tensor t, double gain = 1.0) { return done(tp_init_xavier_normal(t.get(), gain), t); }
inline double calculate_gain(const Text &nonlinearity, double param = 0.01) {
    const double gain = tp_init_gain(nonlinearity.c_str(), param);
    detail::check(!std::isnan(gain));
    return gain;
}
inline std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor &t) {
    if (t.dim() < 2)
        detail::raise(TP_ERR_RUNTIME, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    const int64_t field = t.numel() / (t.size(0) * t.size(1));
    return {t.size(1) * field, t.size(0) * field};
}
inline Tensor kaiming_uniform_(Tensor t, double a = 0, const Text &mode = kFanIn,
                               const Text &nonlinearity = kLeakyReLU) {
    const auto [in, out] = _calculate_fan_in_and_fan_out(t);
    const double bound =
        std::sqrt(3.0) * calculate_gain(nonlinearity, a) / std::sqrt(static_cast<double>(mode == "fan_out" ? out : in));
    return init::uniform_(t, -bound, bound);
}
inline Tensor kaiming_normal_(Tensor t, double a = 0, const Text &mode = kFanIn,
                              const Text &nonlinearity = kLeakyReLU) {
    const auto [in, out] = _calculate_fan_in_and_fan_out(t);
    return init::normal_(
        t, 0, calculate_gain(nonlinearity, a) / std::sqrt(static_cast<double>(mode == "fan_out" ? out : in)));
}
inline Tensor dirac_(Tensor t) { return done(tp_init_dirac(t.get(), 1), t); }
inline Tensor sparse_(Tensor t, double sparsity, double std = 0.01) {
    return done(tp_init_sparse(t.get(), sparsity, std), t);
}
inline Tensor eye_(Tensor t) {
    NoGradGuard guard;
    return t.copy_(eye(t.size(0), t.size(1), t.options()));
}
inline Tensor orthogonal_(Tensor t, double gain = 1.0) {
    NoGradGuard guard;
    const int64_t rows = t.size(0), columns = t.numel() / rows;
    Tensor flat = randn({rows, columns}, t.options());
    if (rows < columns) flat = flat.t();
    auto [q, r] = linalg_qr(flat);
    q = q * r.diag().sign();
    if (rows < columns) q = q.t();
    return t.copy_(q.reshape(t.sizes()).mul(gain));
}
} // namespace init

// ---- Gradients and parameters together ----
namespace utils {
inline double clip_grad_norm_(const std::vector<Tensor> &parameters, double max_norm, double norm_type = 2.0,
                              bool error_if_nonfinite = false) {
    std::vector<Tensor> grads;
    for (const Tensor &p : parameters)
        if (p.grad().defined()) grads.push_back(p.grad());
    if (grads.empty()) return 0;
    const Tensor total = detail::take(tp_total_norm(detail::c_tensors(grads), norm_type));
    if (error_if_nonfinite && !std::isfinite(total.item<double>()))
        detail::raise(TP_ERR_RUNTIME, "The total norm of the gradients is not finite, so it cannot be clipped");
    detail::check(tp_clip_to_norm(detail::c_tensors(grads), max_norm, total.get()));
    return total.item<double>();
}
inline double clip_grad_norm_(const Tensor &parameter, double max_norm, double norm_type = 2.0) {
    return clip_grad_norm_(std::vector<Tensor>{parameter}, max_norm, norm_type);
}
inline void clip_grad_value_(const std::vector<Tensor> &parameters, double value) {
    detail::check(tp_clip_grad_value(static_cast<int64_t>(parameters.size()),
                                     reinterpret_cast<tp_tensor *const *>(parameters.data()), value));
}
inline Tensor parameters_to_vector(const std::vector<Tensor> &parameters) {
    std::vector<Tensor> flat;
    for (const Tensor &p : parameters) flat.push_back(p.view(-1));
    return cat(flat);
}
inline void vector_to_parameters(const Tensor &vector, const std::vector<Tensor> &parameters) {
    int64_t at = 0;
    for (const Tensor &p : parameters) {
        p.set_data(vector.slice(0, at, at + p.numel()).view(p.sizes()).detach());
        at += p.numel();
    }
}
} // namespace utils
} // namespace nn
} // namespace taper

/* Modules in C++: a tree with parameters, buffers and children under names, written by subclassing nn::Module. */
#pragma once
#include <taper/cpp/dict.hpp>
#include <taper/cpp/layer_text.hpp>
#include <taper/cpp/print.hpp>
#include <taper/cpp/tensor.hpp>

#include <cxxabi.h>
#include <typeinfo>

namespace taper {
namespace serialize {
class OutputArchive;
class InputArchive;
} // namespace serialize

namespace nn {
template <class Impl> class ModuleHolder;
class Layer;
/* The class that a holder holds; any other class is itself. */
namespace of_holder {
template <class M> struct itself { using type = M; };
template <class M, class = void> struct contained : itself<M> {};
template <class M> struct contained<M, std::void_t<typename M::ContainedType>> : itself<typename M::ContainedType> {};
} // namespace of_holder
template <class M> using impl_t = typename of_holder::contained<M>::type;

class Module : public std::enable_shared_from_this<Module> {
  public:
    Module() = default;
    explicit Module(std::string name) : name_(std::move(name)) {}
    virtual ~Module() = default;

    const std::string &name() const {
        if (!name_) {
            int status = 0;
            char *plain = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status);
            name_ = plain ? plain : typeid(*this).name();
            std::free(plain);
            if (name_->compare(0, 11, "taper::nn::") == 0) name_ = "torch" + name_->substr(5);
        }
        return *name_;
    }

    // ---- What it holds ----
    Tensor &register_parameter(std::string name, Tensor tensor, bool requires_grad = true) {
        check_name(name, "Parameter");
        if (tensor.defined()) tensor.set_requires_grad(requires_grad);
        return parameters_.insert(std::move(name), std::move(tensor));
    }
    Tensor &register_buffer(std::string name, Tensor tensor) {
        check_name(name, "Buffer");
        return buffers_.insert(std::move(name), std::move(tensor));
    }
    template <class M> std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
        check_name(name, "Submodule");
        children_.insert(std::move(name), module);
        return module;
    }
    template <class M> std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> holder) {
        return register_module(std::move(name), holder.ptr());
    }
    template <class M> std::shared_ptr<M> replace_module(const std::string &name, std::shared_ptr<M> module) {
        children_[name] = module;
        return module;
    }
    template <class M> std::shared_ptr<M> replace_module(const std::string &name, ModuleHolder<M> holder) {
        return replace_module(name, holder.ptr());
    }
    void unregister_module(const std::string &name) { children_.erase(name); }

    OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const {
        OrderedDict<std::string, Tensor> result;
        collect(&Module::parameters_, "", recurse, result);
        return result;
    }
    OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const {
        OrderedDict<std::string, Tensor> result;
        collect(&Module::buffers_, "", recurse, result);
        return result;
    }
    std::vector<Tensor> parameters(bool recurse = true) const { return named_parameters(recurse).values(); }
    std::vector<Tensor> buffers(bool recurse = true) const { return named_buffers(recurse).values(); }
    std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const {
        return named_modules("", include_self).values();
    }
    OrderedDict<std::string, std::shared_ptr<Module>> named_modules(const std::string &prefix = "",
                                                                    bool include_self = true) const {
        OrderedDict<std::string, std::shared_ptr<Module>> result("Module");
        if (include_self) result.insert(prefix, std::const_pointer_cast<Module>(shared_from_this()));
        for (const auto &child : children_)
            child.value()->collect_modules(prefix.empty() ? child.key() : prefix + "." + child.key(), result);
        return result;
    }
    std::vector<std::shared_ptr<Module>> children() const { return children_.values(); }
    OrderedDict<std::string, std::shared_ptr<Module>> named_children() const { return children_; }

    // ---- The whole tree ----
    void apply(const std::function<void(Module &)> &f) {
        f(*this);
        for (const auto &child : children_) child.value()->apply(f);
    }
    void apply(const std::function<void(const std::string &, Module &)> &f, const std::string &prefix = "") {
        f(prefix, *this);
        for (const auto &child : children_)
            child.value()->apply(f, prefix.empty() ? child.key() : prefix + "." + child.key());
    }
    virtual void train(bool on = true) {
        for (const auto &child : children_) child.value()->train(on);
        training_ = on;
    }
    void eval() { train(false); }
    virtual bool is_training() const noexcept { return training_; }
    virtual void to(Device device, ScalarType dtype, bool non_blocking = false) { move(device, dtype, non_blocking); }
    virtual void to(ScalarType dtype, bool non_blocking = false) { move(std::nullopt, dtype, non_blocking); }
    virtual void to(Device device, bool non_blocking = false) { move(device, std::nullopt, non_blocking); }
    void to(TypeMeta dtype, bool non_blocking = false) { to(dtype.toScalarType(), non_blocking); }
    void to(DeviceType type, bool non_blocking = false) { to(Device(type), non_blocking); }
    virtual void zero_grad(bool set_to_none = true) {
        for (Tensor &p : parameters()) {
            if (!p.grad().defined()) continue;
            if (set_to_none)
                p.set_grad(Tensor());
            else {
                p.grad().detach_();
                p.grad().zero_();
            }
        }
    }
    virtual std::shared_ptr<Module> clone(const std::optional<Device> & = std::nullopt) const {
        detail::raise(TP_ERR_RUNTIME, "clone() has not been implemented for " + name() +
                                          ". Subclass torch::nn::Cloneable<" + name() +
                                          "> instead of torch::nn::Module to inherit the ability to clone.");
        return nullptr;
    }
    /* inline: else this function would have every file with this header hold the class's table of functions. */
    inline virtual void save(serialize::OutputArchive &archive) const;
    inline virtual void load(serialize::InputArchive &archive);
    virtual bool is_serializable() const { return true; }
    virtual void pretty_print(std::ostream &out) const { out << name(); }
    friend std::ostream &operator<<(std::ostream &out, const Module &m) {
        m.print_tree(out, "");
        return out;
    }
    /* as<LinearImpl>() or as<Linear>(): the module as that class, or NULL. */
    template <class M> impl_t<M> *as() noexcept { return dynamic_cast<impl_t<M> *>(this); }
    template <class M> const impl_t<M> *as() const noexcept { return dynamic_cast<const impl_t<M> *>(this); }

  protected:
    OrderedDict<std::string, Tensor> parameters_{"Parameter"}, buffers_{"Buffer"};
    OrderedDict<std::string, std::shared_ptr<Module>> children_{"Submodule"};
    bool training_ = true;
    template <class> friend class Cloneable;
    friend class Layer;
    /* The parameters, buffers and children of one module into those of another that is built like it. */
    static void copy_values(const Module &from, Module &to, const std::optional<Device> &device) {
        auto all = [&](const OrderedDict<std::string, Tensor> &source, OrderedDict<std::string, Tensor> &target) {
            if (source.size() != target.size())
                detail::raise(TP_ERR_RUNTIME,
                              "The cloned module does not have the same number of parameters, buffers and "
                              "children. Are you sure they are all registered in reset()?");
            for (const auto &item : source) {
                if (!item.value().defined()) continue;
                Tensor t = item.value().detach().clone();
                if (device) t = t.to(*device);
                target[item.key()].set_data(t);
            }
        };
        all(from.parameters_, to.parameters_);
        all(from.buffers_, to.buffers_);
        for (const auto &child : from.children_) {
            std::shared_ptr<Module> *mine = to.children_.find(child.key());
            if (!mine) detail::raise(TP_ERR_RUNTIME, "The cloned module does not have the child '" + child.key() + "'");
            copy_values(*child.value(), **mine, device);
        }
    }

  private:
    void check_name(const std::string &name, const char *what) const {
        if (name.empty()) detail::raise(TP_ERR_RUNTIME, detail::text(what, " name must not be empty"));
        if (name.find('.') != std::string::npos)
            detail::raise(TP_ERR_RUNTIME, detail::text(what, " name must not contain a dot (got '", name, "')"));
    }
    void collect(OrderedDict<std::string, Tensor> Module::*which, const std::string &prefix, bool recurse,
                 OrderedDict<std::string, Tensor> &into) const {
        for (const auto &item : this->*which)
            if (item.value().defined()) into.insert(prefix + item.key(), item.value());
        if (recurse)
            for (const auto &child : children_) child.value()->collect(which, prefix + child.key() + ".", true, into);
    }
    void collect_modules(const std::string &path, OrderedDict<std::string, std::shared_ptr<Module>> &into) {
        into.insert(path, shared_from_this());
        for (const auto &child : children_) child.value()->collect_modules(path + "." + child.key(), into);
    }
    void move(std::optional<Device> device, std::optional<ScalarType> dtype, bool non_blocking) {
        for (const auto &child : children_) child.value()->move(device, dtype, non_blocking);
        for (auto *dict : {&parameters_, &buffers_})
            for (auto &item : *dict) {
                Tensor &t = item.value();
                if (!t.defined()) continue;
                /* A change of dtype is for floating tensors; counts stay whole numbers. */
                const ScalarType type = dtype && (t.is_floating_point() || t.is_complex()) ? *dtype : t.scalar_type();
                t.set_data(t.detach().to(device.value_or(t.device()), type, non_blocking));
            }
    }
    void print_tree(std::ostream &out, const std::string &indent) const {
        if (leaf_text() && !children_.is_empty()) { /* a text of several lines */
            std::ostringstream lines;
            pretty_print(lines);
            for (const char c : lines.str()) out << (c == '\n' ? "\n" + indent : std::string(1, c));
            out << std::boolalpha;
            return;
        }
        pretty_print(out);
        if (children_.is_empty()) return;
        out << "(\n";
        for (const auto &child : children_) {
            out << indent << "  (" << child.key() << "): ";
            child.value()->print_tree(out, indent + "  ");
            out << '\n';
        }
        out << indent << ")";
    }
    virtual bool leaf_text() const { return false; }
    mutable std::optional<std::string> name_;
};

/* A module that can be copied: reset() makes its parameters anew, and their values are copied over. */
template <class Derived> class Cloneable : public Module {
  public:
    using Module::Module;
    virtual void reset() = 0;
    std::shared_ptr<Module> clone(const std::optional<Device> &device = std::nullopt) const override {
        NoGradGuard guard;
        auto copy = std::make_shared<Derived>(static_cast<const Derived &>(*this));
        copy->parameters_.clear();
        copy->buffers_.clear();
        copy->children_.clear();
        copy->reset();
        copy_values(*this, *copy, device);
        return copy;
    }
};

template <class Impl> struct pretrained_; /* of layers that can be made from a tensor: layers.hpp */

/* A counted handle: what users pass around as nn::Linear. */
template <class Impl_> class ModuleHolder {
  public:
    template <class... A> static ModuleHolder from_pretrained(const Tensor &embeddings, const A &...options) {
        return pretrained_<Impl_>::make(embeddings, options...);
    }
    using ContainedType = Impl_;
    using Impl = Impl_;
    ModuleHolder() : impl_(make_default()) {}
    ModuleHolder(std::nullptr_t) {}
    template <
        class Head, class... Tail,
        class = std::enable_if_t<!(sizeof...(Tail) == 0 && (std::is_base_of_v<ModuleHolder, std::decay_t<Head>> ||
                                                            std::is_convertible_v<Head, std::shared_ptr<Impl_>>))>>
    explicit ModuleHolder(Head &&head, Tail &&...tail)
        : impl_(std::make_shared<Impl_>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}
    ModuleHolder(std::shared_ptr<Impl_> module) : impl_(std::move(module)) {}
    explicit operator bool() const noexcept { return impl_ != nullptr; }
    bool is_empty() const noexcept { return !impl_; }
    Impl_ *operator->() const { return get(); }
    Impl_ &operator*() const { return *get(); }
    const std::shared_ptr<Impl_> &ptr() const {
        if (!impl_) detail::raise(TP_ERR_RUNTIME, "Accessing empty ModuleHolder");
        return impl_;
    }
    Impl_ *get() const { return ptr().get(); }
    template <class... A> auto operator()(A &&...args) const { return get()->forward(std::forward<A>(args)...); }
    /* of containers: list[0], dict["conv"] */
    template <class A> decltype(auto) operator[](A &&at) const { return (*get())[std::forward<A>(at)]; }
    /* The text of the module itself. */
    friend std::ostream &operator<<(std::ostream &out, const ModuleHolder &m) { return out << *m.get(); }

  protected:
    std::shared_ptr<Impl_> impl_;

  private:
    static std::shared_ptr<Impl_> make_default() {
        if constexpr (std::is_default_constructible_v<Impl_>)
            return std::make_shared<Impl_>();
        else
            return nullptr;
    }
};
template <class T> struct is_holder {
    template <class I> static std::true_type test(const ModuleHolder<I> *);
    static std::false_type test(const void *);
    static constexpr bool value = decltype(test(static_cast<std::decay_t<T> *>(nullptr)))::value;
};

#define TAPER_MODULE_IMPL(Name, ImplType)                        \
    class Name : public ::taper::nn::ModuleHolder<ImplType> {    \
      public:                                                    \
        using ::taper::nn::ModuleHolder<ImplType>::ModuleHolder; \
        using Impl [[maybe_unused]] = ImplType;                  \
    }
#define TAPER_MODULE(Name) TAPER_MODULE_IMPL(Name, Name##Impl)
/* For the library's own layers: another name of the holder, which costs a compiler nothing until a program uses it. */
#define TAPER_LAYER_(Name) using Name = ::taper::nn::ModuleHolder<Name##Impl>
} // namespace nn

namespace detail {
inline tp_value box(const Tensor &t) { return tp_value_tensor(t.get()); }
inline tp_value box(const OptionalTensor &t) { return t.get() ? tp_value_tensor(t.get()) : tp_value_none(); }
inline tp_value box(const OptionalIntArrayRef &v) { return v ? tp_value_ints(c_ints(*v)) : tp_value_none(); }
} // namespace detail

namespace nn {
struct TensorVisitor {
    void (*call)(void *context, const char *name, Tensor &member);
    void *context;
    void operator()(const char *name, Tensor &member) const { call(context, name, member); }
};

/* A layer of the C library. Its tensors are members of the class (layer->weight); one that the program has replaced is
 * handed to the library before the next forward. */
class Layer : public Module {
  public:
    void reset() { hold(); }
    void reset_parameters() { detail::check(tp_module_reset(module())); }
    tp_module *module() const { return module_.get(); }
    void train(bool on = true) override {
        Module::train(on);
        tp_module_train(module(), on);
    }
    void pretty_print(std::ostream &out) const override {
        const int64_t n = tp_module_format(module(), nullptr, 0);
        detail::check(n >= 0);
        std::string text(static_cast<size_t>(n) + 1, 0);
        tp_module_format(module(), &text[0], text.size());
        text.pop_back();
        const std::string shown = detail::layer_text(text);
        /* LibTorch's layers leave the stream so that truths print as words. */
        if (shown.find("=true") != std::string::npos || shown.find("=false") != std::string::npos)
            out << std::boolalpha;
        out << shown;
    }
    virtual void each_tensor(const TensorVisitor &visit) = 0;
    virtual tp_module *make() const = 0;
    virtual Module *make_like() const = 0; /* of the same class and options */
    std::shared_ptr<Module> clone(const std::optional<Device> &device = std::nullopt) const override {
        NoGradGuard guard;
        std::shared_ptr<Module> copy(make_like());
        copy_values(*this, *copy, device);
        copy->train(training_);
        return copy;
    }

  protected:
    /* The library's module, with the tensors that the program has put into members. */
    tp_module *ready() {
        refresh();
        return module();
    }
    void hold() {
        tp_module *m = make();
        detail::check(m != nullptr);
        module_ = std::shared_ptr<tp_module>(m, tp_module_release);
        tp_module_train(m, training_);
        adopt(tp_module_parameters(m), true);
        adopt(tp_module_buffers(m), false);
        held_.clear();
        each_tensor({[](void *context, const char *name, Tensor &member) {
                         auto &self = *static_cast<Layer *>(context);
                         const Tensor *t = self.parameters_.find(name);
                         if (!t) t = self.buffers_.find(name);
                         member = t ? *t : Tensor();
                         self.held_.push_back(member.get());
                     },
                     this});
    }
    Tensor run(std::initializer_list<tp_value> inputs) {
        return detail::take(tp_forward_one(ready(), static_cast<int64_t>(inputs.size()), inputs.begin()));
    }
    std::vector<Tensor> run_many(std::initializer_list<tp_value> inputs, int64_t n) {
        std::vector<tp_value> results(static_cast<size_t>(n), tp_value_none());
        detail::check(
            tp_forward_values(ready(), static_cast<int64_t>(inputs.size()), inputs.begin(), n, results.data()));
        std::vector<Tensor> tensors;
        for (const tp_value &v : results)
            tensors.push_back(v.kind == TP_K_TENSOR && v.as.tensor ? Tensor::steal(tp_own(v.as.tensor)) : Tensor());
        return tensors;
    }

  private:
    bool leaf_text() const override { return true; }
    void adopt(tp_state state, bool parameters) {
        detail::check(state.n >= 0);
        for (int64_t i = 0; i < state.n; i++) {
            Module *at = this;
            std::string path = state.names[i];
            for (size_t dot; (dot = path.find('.')) != std::string::npos; path = path.substr(dot + 1)) {
                const std::string child = path.substr(0, dot);
                if (!at->children_.contains(child)) at->children_.insert(child, std::make_shared<Module>(child));
                at = at->children_[child].get();
            }
            (parameters ? at->parameters_ : at->buffers_).insert(path, Tensor::borrow(state.tensors[i]));
        }
        tp_state_free(state);
    }
    void refresh() {
        size_t at = 0;
        struct Walk {
            Layer *self;
            size_t *at;
        } walk{this, &at};
        each_tensor({[](void *context, const char *name, Tensor &member) {
                         auto &w = *static_cast<Walk *>(context);
                         tp_tensor *&held = w.self->held_[(*w.at)++];
                         if (held == member.get()) return;
                         detail::check(tp_module_add_buffer(w.self->module(), name, member.get(), true));
                         held = member.get();
                     },
                     &walk});
    }
    std::shared_ptr<tp_module> module_;
    std::vector<tp_tensor *> held_;
};
} // namespace nn
} // namespace taper

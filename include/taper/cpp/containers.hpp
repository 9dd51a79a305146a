/* Modules and parameters under names: ModuleDict, ParameterDict, ParameterList. */
#pragma once
#include <taper/cpp/layers.hpp>

namespace taper {
namespace nn {
class ModuleDictImpl : public Module {
  public:
    using Items = OrderedDict<std::string, std::shared_ptr<Module>>;
    ModuleDictImpl() = default;
    explicit ModuleDictImpl(const std::vector<std::pair<std::string, std::shared_ptr<Module>>> &modules) {
        update(modules);
    }
    explicit ModuleDictImpl(const Items &modules) { update(modules.pairs()); }
    void pretty_print(std::ostream &out) const override { out << "torch::nn::ModuleDict"; }

    std::vector<std::pair<std::string, std::shared_ptr<Module>>> items() const { return children_.pairs(); }
    std::vector<std::string> keys() const { return children_.keys(); }
    std::vector<std::shared_ptr<Module>> values() const { return children_.values(); }
    Items::Iterator begin() { return children_.begin(); }
    Items::Iterator end() { return children_.end(); }
    Items::ConstIterator begin() const { return children_.begin(); }
    Items::ConstIterator end() const { return children_.end(); }
    size_t size() const noexcept { return children_.size(); }
    bool empty() const noexcept { return children_.is_empty(); }
    bool contains(const std::string &key) const noexcept { return children_.contains(key); }
    std::shared_ptr<Module> operator[](const std::string &key) const { return children_[key]; }
    std::shared_ptr<Module> ptr(const std::string &key) const { return children_[key]; }
    template <class T> std::shared_ptr<T> ptr(const std::string &key) const {
        return std::dynamic_pointer_cast<T>(children_[key]);
    }
    template <class T> T &at(const std::string &key) {
        T *module = children_[key]->template as<T>();
        if (!module)
            detail::raise(TP_ERR_TYPE, detail::text("Unable to cast module[", key, "] to the class asked for"));
        return *module;
    }
    std::shared_ptr<Module> pop(const std::string &key) {
        std::shared_ptr<Module> module = children_[key];
        children_.erase(key);
        return module;
    }
    template <class C> void update(const C &modules) { /* pairs of names and modules */
        for (const auto &item : modules) {
            if (contains(item.first))
                replace_module(item.first, item.second);
            else
                register_module(item.first, item.second);
        }
    }
    void update(const Items &modules) { update(modules.pairs()); }
    void clear() { children_.clear(); }
};
TAPER_LAYER_(ModuleDict);

class ParameterDictImpl : public Module {
  public:
    using Items = OrderedDict<std::string, Tensor>;
    ParameterDictImpl() = default;
    explicit ParameterDictImpl(const Items &parameters) { update(parameters); }
    void pretty_print(std::ostream &out) const override {
        out << "torch::nn::ParameterDict(" << std::endl;
        for (const auto &item : parameters_)
            out << "(" << item.key() << "): Parameter containing: [" << item.value().scalar_type() << " of size "
                << item.value().sizes() << "]" << std::endl;
        out << ")";
    }
    Tensor &insert(std::string key, Tensor parameter) {
        const bool grad = parameter.requires_grad();
        return register_parameter(std::move(key), std::move(parameter), grad);
    }
    Tensor pop(const std::string &key) {
        Tensor parameter = parameters_[key];
        parameters_.erase(key);
        return parameter;
    }
    std::vector<std::string> keys() const { return parameters_.keys(); }
    std::vector<Tensor> values() const { return parameters_.values(); }
    Items::Iterator begin() { return parameters_.begin(); }
    Items::Iterator end() { return parameters_.end(); }
    Items::ConstIterator begin() const { return parameters_.begin(); }
    Items::ConstIterator end() const { return parameters_.end(); }
    size_t size() const noexcept { return parameters_.size(); }
    bool empty() const noexcept { return parameters_.is_empty(); }
    bool contains(const std::string &key) const noexcept { return parameters_.contains(key); }
    const Tensor &get(const std::string &key) const { return parameters_[key]; }
    Tensor &get(const std::string &key) { return parameters_[key]; }
    Tensor &operator[](const std::string &key) { return parameters_[key]; }
    const Tensor &operator[](const std::string &key) const { return parameters_[key]; }
    void update(const Items &parameters) {
        for (const auto &item : parameters) {
            if (contains(item.key()))
                parameters_[item.key()] = item.value();
            else
                insert(item.key(), item.value());
        }
    }
    template <class C> void update(const C &parameters) {
        for (const auto &item : parameters) {
            if (contains(item.first))
                parameters_[item.first] = item.second;
            else
                insert(item.first, item.second);
        }
    }
    void clear() { parameters_.clear(); }
};
TAPER_LAYER_(ParameterDict);

class ParameterListImpl : public Module {
  public:
    using Items = OrderedDict<std::string, Tensor>;
    ParameterListImpl() = default;
    template <class... T, class = std::enable_if_t<(sizeof...(T) > 0) && (std::is_convertible_v<T, Tensor> && ...)>>
    explicit ParameterListImpl(T &&...parameters) {
        (append(Tensor(std::forward<T>(parameters))), ...);
    }
    void pretty_print(std::ostream &out) const override {
        out << "torch::nn::ParameterList(" << std::endl;
        for (const auto &item : parameters_)
            out << "(" << item.key() << "): Parameter containing: [" << item.value().scalar_type() << " of size "
                << item.value().sizes() << "]" << std::endl;
        out << ")";
    }
    void append(Tensor parameter) {
        const bool grad = parameter.requires_grad();
        register_parameter(std::to_string(parameters_.size()), std::move(parameter), grad);
    }
    void append(const Items::Item &item) { append(item.value()); }
    template <class C> void extend(const C &container) {
        for (const auto &parameter : container) append(parameter);
    }
    Items::Iterator begin() { return parameters_.begin(); }
    Items::Iterator end() { return parameters_.end(); }
    Items::ConstIterator begin() const { return parameters_.begin(); }
    Items::ConstIterator end() const { return parameters_.end(); }
    Tensor &at(size_t i) { return parameters_[std::to_string(i)]; }
    const Tensor &at(size_t i) const { return parameters_[std::to_string(i)]; }
    Tensor &operator[](size_t i) { return at(i); }
    const Tensor &operator[](size_t i) const { return at(i); }
    size_t size() const noexcept { return parameters_.size(); }
    bool is_empty() const noexcept { return parameters_.is_empty(); }
};
TAPER_LAYER_(ParameterList);
} // namespace nn
} // namespace taper

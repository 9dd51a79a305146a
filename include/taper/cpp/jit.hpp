/* Programs that torch.jit.save wrote, run without Python: TorchScript files of PyTorch, which are interpreted, and
 * graphs that Taper saved. */
#pragma once
#include <taper/cpp/tensor.hpp>
#include <taper/cpp/value.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <unistd.h>

namespace taper {
namespace jit {
using taper::IValue;
using Stack = std::vector<IValue>;
using Kwargs = std::unordered_map<std::string, IValue>;
namespace detail_ {
using Held = std::shared_ptr<tp_ivalue>;
inline Held hold(tp_ivalue *v) {
    detail::check(v != nullptr);
    return Held(v, tp_ivalue_release);
}
inline Held to_c(const IValue &v);
inline Held to_c(const std::vector<IValue> &items, bool tuple) {
    std::vector<Held> held;
    std::vector<tp_ivalue *> raw;
    for (const IValue &item : items) {
        held.push_back(to_c(item));
        raw.push_back(held.back().get());
    }
    int64_t n = static_cast<int64_t>(raw.size());
    return hold(tuple ? tp_ivalue_tuple(n, raw.data()) : tp_ivalue_list(n, raw.data()));
}
inline Held to_c(const IValue &v) {
    if (v.isNone()) return hold(tp_ivalue_none());
    if (v.isTensor()) return hold(tp_ivalue_of_tensor(v.toTensor().get()));
    if (v.isBool()) return hold(tp_ivalue_of_number(tp_truth(v.toBool())));
    if (v.isInt()) return hold(tp_ivalue_of_number(tp_int(v.toInt())));
    if (v.isDouble()) return hold(tp_ivalue_of_number(tp_float(v.toDouble())));
    if (v.isString()) return hold(tp_ivalue_of_text(v.toStringRef().c_str()));
    if (v.isDevice()) return hold(tp_ivalue_of_device(detail::c_device(v.toDevice())));
    if (v.isObject()) return v.toObject();
    if (v.isTuple()) return to_c(v.toTuple()->elements(), true);
    if (v.isList()) return to_c(v.toListRef(), false);
    std::vector<Held> held;
    std::vector<tp_ivalue *> keys, values;
    for (const auto &pair : v.toGenericDict()) {
        held.push_back(to_c(pair.key()));
        keys.push_back(held.back().get());
        held.push_back(to_c(pair.value()));
        values.push_back(held.back().get());
    }
    return hold(tp_ivalue_dict(static_cast<int64_t>(keys.size()), keys.data(), values.data()));
}
inline IValue from_c(Held v);
inline std::vector<IValue> items_of(const Held &v) {
    std::vector<IValue> items;
    for (int64_t i = 0; i < tp_ivalue_count(v.get()); i++) items.push_back(from_c(hold(tp_ivalue_at(v.get(), i))));
    return items;
}
/* A list of one kind is what LibTorch's is: of tensors, ints, doubles, bools. */
inline IValue list_from(std::vector<IValue> items) {
    bool tensors = !items.empty(), ints = tensors, doubles = tensors, bools = tensors;
    for (const IValue &item : items) {
        tensors = tensors && item.isTensor();
        ints = ints && item.isInt();
        doubles = doubles && item.isDouble();
        bools = bools && item.isBool();
    }
    std::vector<Tensor> t;
    std::vector<int64_t> i;
    std::vector<double> d;
    std::vector<bool> b;
    for (const IValue &item : items) {
        if (tensors) t.push_back(item.toTensor());
        if (ints) i.push_back(item.toInt());
        if (doubles) d.push_back(item.toDouble());
        if (bools) b.push_back(item.toBool());
    }
    if (tensors) return IValue(std::move(t));
    if (ints) return IValue(std::move(i));
    if (doubles) return IValue(std::move(d));
    return bools ? IValue(std::move(b)) : IValue::list(std::move(items));
}
inline IValue number_from(tp_scalar s) {
    if (s.kind == TP_SCALAR_BOOL) return IValue(s.as.i != 0);
    if (s.kind == TP_SCALAR_INT) return IValue(s.as.i);
    return IValue(tp_scalar_to_double(s));
}
inline IValue from_c(Held v) {
    switch (tp_ivalue_kind_of(v.get())) {
    case TP_IVALUE_TENSOR: {
        tp_tensor *t = tp_ivalue_tensor(v.get());
        return IValue(Tensor::steal(t ? tp_own(t) : nullptr));
    }
    case TP_IVALUE_NUMBER: return number_from(tp_ivalue_number(v.get()));
    case TP_IVALUE_TEXT: return IValue(tp_ivalue_text(v.get()));
    case TP_IVALUE_DEVICE: return IValue(Device(tp_ivalue_device(v.get())));
    case TP_IVALUE_LIST: return list_from(items_of(v));
    case TP_IVALUE_TUPLE: return IValue(Tuple::create(items_of(v)));
    case TP_IVALUE_OBJECT: return IValue::object(std::move(v));
    case TP_IVALUE_DICT: {
        std::vector<std::pair<IValue, IValue>> pairs;
        for (int64_t i = 0; i < tp_ivalue_count(v.get()); i++)
            pairs.emplace_back(from_c(hold(tp_ivalue_key_at(v.get(), i))), from_c(hold(tp_ivalue_at(v.get(), i))));
        return IValue::dict(std::move(pairs));
    }
    default: return IValue();
    }
}
} // namespace detail_

template <class T> struct Named {
    std::string name;
    T value;
};
using ExtraFilesMap = std::unordered_map<std::string, std::string>;
/* A class of a program: "__torch__.models.Net" and "Net". */
class QualifiedName {
  public:
    explicit QualifiedName(std::string full) : full_(std::move(full)) {}
    const std::string &qualifiedName() const { return full_; }
    std::string name() const { return full_.substr(full_.rfind('.') + 1); }

  private:
    std::string full_;
};
class ClassType {
  public:
    explicit ClassType(std::string full) : full_(std::move(full)) {}
    std::optional<QualifiedName> name() const { return QualifiedName(full_); }
    const std::string &str() const { return full_; }

  private:
    std::string full_;
};

class Module;
class Method {
  public:
    Method(std::shared_ptr<tp_ivalue> object, std::string name) : object_(std::move(object)), name_(std::move(name)) {}
    IValue operator()(const std::vector<IValue> &inputs, const Kwargs &kwargs = {}) const {
        std::vector<detail_::Held> held;
        std::vector<tp_ivalue *> args, named;
        std::vector<const char *> names;
        for (const IValue &v : inputs) {
            held.push_back(detail_::to_c(v));
            args.push_back(held.back().get());
        }
        for (const auto &pair : kwargs) {
            held.push_back(detail_::to_c(pair.second));
            named.push_back(held.back().get());
            names.push_back(pair.first.c_str());
        }
        return detail_::from_c(
            detail_::hold(tp_script_call(object_.get(), name_.c_str(), static_cast<int64_t>(args.size()), args.data(),
                                         static_cast<int64_t>(named.size()), names.data(), named.data())));
    }
    const std::string &name() const { return name_; }

  private:
    std::shared_ptr<tp_ivalue> object_;
    std::string name_;
};

class Module {
  public:
    Module() = default;
    explicit Module(tp_compiled *graph) : graph_(graph, tp_compiled_release) { detail::check(graph != nullptr); }
    explicit Module(std::shared_ptr<tp_ivalue> object) : object_(std::move(object)) {}

    /* ---- Calls ---- */
    IValue forward(const std::vector<IValue> &inputs, const Kwargs &kwargs = {}) {
        return object_ ? get_method("forward")(inputs, kwargs) : run_graph(inputs);
    }
    IValue operator()(const std::vector<IValue> &inputs) { return forward(inputs); }
    template <class... A> IValue operator()(const Tensor &first, const A &...more) {
        return forward({IValue(first), IValue(more)...});
    }
    Method get_method(const std::string &name) const {
        if (!find_method(name)) detail::raise(TP_ERR_VALUE, "Method '" + name + "' is not defined.");
        return Method(object_, name);
    }
    std::optional<Method> find_method(const std::string &name) const {
        for (int64_t i = 0; object_ && i < tp_ivalue_methods(object_.get()); i++)
            if (name == tp_ivalue_method(object_.get(), i)) return Method(object_, name);
        return std::nullopt;
    }
    std::vector<Method> get_methods() const {
        std::vector<Method> all;
        for (int64_t i = 0; object_ && i < tp_ivalue_methods(object_.get()); i++)
            all.emplace_back(object_, tp_ivalue_method(object_.get(), i));
        return all;
    }
    std::shared_ptr<ClassType> type() const {
        const char *name = object_ ? tp_ivalue_class(object_.get()) : nullptr;
        return std::make_shared<ClassType>(name ? name : "");
    }
    template <class... A> IValue run_method(const std::string &name, const A &...args) const {
        return get_method(name)({IValue(args)...});
    }

    /* ---- Attributes ---- */
    IValue attr(const std::string &name) const {
        return detail_::from_c(detail_::hold(tp_ivalue_get(object_.get(), name.c_str())));
    }
    IValue attr(const std::string &name, IValue otherwise) const { return hasattr(name) ? attr(name) : otherwise; }
    bool hasattr(const std::string &name) const {
        for (int64_t i = 0; object_ && i < tp_ivalue_attributes(object_.get()); i++)
            if (name == tp_ivalue_attribute(object_.get(), i)) return true;
        return false;
    }
    void setattr(const std::string &name, const IValue &value) {
        detail::check(tp_ivalue_set(object_.get(), name.c_str(), detail_::to_c(value).get()));
    }
    std::vector<Named<Module>> named_children() const {
        std::vector<Named<Module>> all;
        for (int64_t i = 0; object_ && i < tp_ivalue_attributes(object_.get()); i++) {
            std::string name = tp_ivalue_attribute(object_.get(), i);
            detail_::Held v = detail_::hold(tp_ivalue_get(object_.get(), name.c_str()));
            if (tp_ivalue_is_module(v.get())) all.push_back({name, Module(v)});
        }
        return all;
    }
    std::vector<Module> children() const { return values(named_children()); }
    /* This one, "", and all below it. */
    std::vector<Named<Module>> named_modules(const std::string &prefix = "") const {
        std::vector<Named<Module>> all{{prefix, *this}};
        for (const Named<Module> &child : named_children())
            for (Named<Module> &m : child.value.named_modules(prefix.empty() ? child.name : prefix + "." + child.name))
                all.push_back(std::move(m));
        return all;
    }
    std::vector<Module> modules() const { return values(named_modules()); }
    std::vector<Named<IValue>> named_attributes(bool recurse = true) const {
        std::vector<Named<IValue>> all;
        for (const Named<Module> &m : recurse ? named_modules() : std::vector<Named<Module>>{{"", *this}})
            for (int64_t i = 0; m.value.object_ && i < tp_ivalue_attributes(m.value.object_.get()); i++) {
                const std::string name = tp_ivalue_attribute(m.value.object_.get(), i);
                all.push_back({m.name.empty() ? name : m.name + "." + name, m.value.attr(name)});
            }
        return all;
    }
    std::vector<Named<Tensor>> named_parameters(bool recurse = true) const {
        return tensors(TP_ATTRIBUTE_PARAMETER, recurse, "");
    }
    std::vector<Named<Tensor>> named_buffers(bool recurse = true) const {
        return tensors(TP_ATTRIBUTE_BUFFER, recurse, "");
    }
    std::vector<Tensor> parameters(bool recurse = true) const {
        if (object_) return values(named_parameters(recurse));
        std::vector<Tensor> all;
        int64_t value = 0;
        for (int64_t i = 0; tp_tensor *t = tp_compiled_tensor(graph_.get(), i, &value); i++)
            all.push_back(Tensor::borrow(t));
        return all;
    }
    std::vector<Tensor> buffers(bool recurse = true) const { return values(named_buffers(recurse)); }

    /* ---- The whole module ---- A graph is what it was when it was saved: its mode is part of it. */
    void eval() { train(false); }
    void train(bool on = true) {
        if (object_) detail::check(tp_script_train(object_.get(), on));
    }
    bool is_training() const { return attr("training", IValue(true)).toBool(); }
    void to(Device device, bool = false) {
        if (object_) {
            detail::check(tp_script_to(object_.get(), detail::c_device(device)));
            return;
        }
        NoGradGuard guard;
        for (Tensor &t : parameters()) t.set_data(t.detach().to(device));
    }
    void to(ScalarType dtype, bool = false) {
        NoGradGuard guard;
        std::vector<Tensor> all = parameters();
        for (Tensor &t : buffers()) all.push_back(t);
        for (Tensor &t : all)
            if (t.is_floating_point()) t.set_data(t.detach().to(dtype));
    }
    void save(const std::string &path, const ExtraFilesMap &extra = {}) const {
        if (!object_) {
            detail::check(tp_compiled_save(graph_.get(), path.c_str(), tp_compiled_note(graph_.get())));
            return;
        }
        std::vector<const char *> names;
        std::vector<Tensor> held;
        for (const auto &file : extra) {
            names.push_back(file.first.c_str());
            const int64_t n = static_cast<int64_t>(file.second.size());
            held.push_back(detail::take(tp_from_data(file.second.data(), TP_UINT8, tp_ints_view(&n, 1))));
        }
        const tp_tensors contents = detail::c_tensors(held);
        detail::check(tp_script_save_with(object_.get(), path.c_str(), contents.n, names.data(), contents.v));
    }
    void save(std::ostream &out, const ExtraFilesMap &extra = {}) const { out << bytes(extra); }
    /* Of its own in everything. */
    Module deepcopy() const {
        const std::string all = bytes({});
        return Module(detail_::hold(tp_script_load_memory("a copy", all.data(), static_cast<int64_t>(all.size()))));
    }
    /* Modules of their own that share the tensors. */
    Module clone(bool = false) const {
        Module made = deepcopy();
        share_tensors(*this, made);
        return made;
    }
    Module copy() const { return clone(); }
    std::string dump_to_str(bool print_method_bodies, bool print_attr_values, bool print_param_values) const {
        std::ostringstream out;
        out << "module " << type()->str() << " {\n  parameters {\n";
        for (const auto &p : named_parameters(false)) {
            out << "    " << p.name << " = ";
            if (print_param_values)
                out << p.value << "\n";
            else
                out << "...\n";
        }
        out << "  }\n  attributes {\n";
        for (const auto &a : named_attributes(false)) {
            out << "    " << a.name << " = ";
            if (a.value.isObject())
                out << "<" << tp_ivalue_class(a.value.toObject().get()) << ">\n";
            else if (print_attr_values && !a.value.isTensor())
                out << a.value << "\n";
            else
                out << "...\n";
        }
        out << "  }\n  methods {\n";
        for (const Method &m : get_methods()) {
            out << "    method " << m.name() << " {\n";
            if (print_method_bodies) out << tp_ivalue_code(object_.get(), m.name().c_str());
            out << "    }\n";
        }
        out << "  }\n  submodules {\n";
        for (const auto &child : named_children())
            out << child.value.dump_to_str(print_method_bodies, print_attr_values, print_param_values);
        out << "  }\n}\n";
        return out.str();
    }
    void dump(bool print_method_bodies = true, bool print_attr_values = true, bool print_param_values = true) const {
        std::cout << dump_to_str(print_method_bodies, print_attr_values, print_param_values) << std::endl;
    }
    tp_ivalue *get() const { return object_.get(); }

  private:
    std::string bytes(const ExtraFilesMap &extra) const { /* by way of a file: the table of contents comes last */
        std::string all;
        char path[] = "/tmp/taper-XXXXXX";
        const int fd = mkstemp(path);
        if (fd < 0) detail::raise(TP_ERR_IO, "save: no temporary file could be made");
        close(fd);
        const std::unique_ptr<char, void (*)(char *)> gone(path, [](char *p) { std::remove(p); });
        save(std::string(path), extra);
        std::ostringstream read;
        read << std::ifstream(path, std::ios::binary).rdbuf();
        return read.str();
    }
    static void share_tensors(const Module &from, Module &to) {
        for (int64_t i = 0; i < tp_ivalue_attributes(from.object_.get()); i++) {
            const char *name = tp_ivalue_attribute(from.object_.get(), i);
            detail_::Held v = detail_::hold(tp_ivalue_get(from.object_.get(), name));
            if (tp_ivalue_kind_of(v.get()) == TP_IVALUE_TENSOR)
                detail::check(tp_ivalue_set(to.object_.get(), name, v.get()));
            if (!tp_ivalue_is_module(v.get())) continue;
            Module below(detail_::hold(tp_ivalue_get(to.object_.get(), name)));
            share_tensors(Module(v), below);
        }
    }
    template <class T> static std::vector<T> values(const std::vector<Named<T>> &named) {
        std::vector<T> all;
        for (const Named<T> &item : named) all.push_back(item.value);
        return all;
    }
    std::vector<Named<Tensor>> tensors(tp_attribute_kind kind, bool recurse, const std::string &prefix) const {
        std::vector<Named<Tensor>> all;
        for (int64_t i = 0; object_ && i < tp_ivalue_attributes(object_.get()); i++) {
            std::string name = tp_ivalue_attribute(object_.get(), i);
            if (tp_ivalue_attribute_kind(object_.get(), i) != kind) continue;
            IValue v = attr(name);
            if (v.isTensor()) all.push_back({prefix + name, v.toTensor()});
        }
        for (const Named<Module> &child : recurse ? named_children() : std::vector<Named<Module>>())
            for (Named<Tensor> &t : child.value.tensors(kind, true, prefix + child.name + ".")) all.push_back(t);
        return all;
    }
    /* One result as a tensor, several as a tuple. */
    IValue run_graph(const std::vector<IValue> &inputs) {
        std::vector<Tensor> given;
        for (const IValue &v : inputs) {
            if (v.isTuple())
                for (const IValue &item : v.toTuple()->elements()) given.push_back(item.toTensor());
            else if (v.isTensorList())
                given.insert(given.end(), v.toTensorVector().begin(), v.toTensorVector().end());
            else
                given.push_back(v.toTensor());
        }
        std::vector<tp_tensor *> outputs(static_cast<size_t>(tp_compiled_outputs(graph_.get())), nullptr);
        detail::check(tp_compiled_run(graph_.get(), detail::c_tensors(given), outputs.data()));
        std::vector<IValue> results;
        for (tp_tensor *t : outputs) results.emplace_back(Tensor::steal(t ? tp_own(t) : nullptr));
        return results.size() == 1 ? results[0] : IValue(std::move(results));
    }
    std::shared_ptr<tp_compiled> graph_;
    std::shared_ptr<tp_ivalue> object_;
};
namespace script {
using jit::Method;
using jit::Module;
} // namespace script
/* Of the files that `extra` names, the contents; what the archive has not stays empty. */
namespace detail_ {
inline void read_extra(const char *path, const std::string &memory, ExtraFilesMap &extra) {
    for (auto &file : extra) {
        tp_tensor *t = tp_script_extra(path, path ? nullptr : memory.data(), static_cast<int64_t>(memory.size()),
                                       file.first.c_str());
        detail::check(t != nullptr || tp_ok());
        const Tensor bytes = Tensor::steal(t ? tp_own(t) : nullptr);
        if (t) file.second.assign(static_cast<const char *>(tp_data(bytes.get())), static_cast<size_t>(bytes.numel()));
    }
}
} // namespace detail_
inline Module load(const std::string &path, std::optional<Device> device, ExtraFilesMap &extra) {
    Module m = tp_script_is(path.c_str()) ? Module(detail_::hold(tp_script_load(path.c_str())))
                                          : Module(tp_compiled_load(path.c_str()));
    if (device) m.to(*device);
    if (m.get()) detail_::read_extra(path.c_str(), {}, extra);
    return m;
}
inline Module load(const std::string &path, std::optional<Device> device = std::nullopt) {
    ExtraFilesMap none;
    return load(path, device, none);
}
inline Module load(std::istream &in, std::optional<Device> device, ExtraFilesMap &extra) {
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    Module m(detail_::hold(tp_script_load_memory("stream", bytes.data(), static_cast<int64_t>(bytes.size()))));
    if (device) m.to(*device);
    detail_::read_extra(nullptr, bytes, extra);
    return m;
}
inline Module load(std::istream &in, std::optional<Device> device = std::nullopt) {
    ExtraFilesMap none;
    return load(in, device, none);
}
/* Programs are interpreted: there is nothing to choose. */
inline void setGraphExecutorOptimize(bool) {}
inline bool getGraphExecutorOptimize() { return false; }
inline Module freeze(Module m) { return m; }
inline Module optimize_for_inference(Module m) { return m; }
} // namespace jit
inline jit::Module IValue::toModule() const { return jit::Module(toObject()); }
} // namespace taper

/* c10::Dispatcher: the operators of this shared library, called from C++. An operator's kernel for Autograd comes
 * first, then the one for the first tensor's device, then the one for all devices. */
#pragma once
#include <taper/cpp/checks.hpp>
#include <torch/library.h>

namespace c10 {
template <class F> class TypedOperatorHandle;
namespace detail {
inline const taper::Tensor *tensor_in(const taper::Tensor &t) { return t.defined() ? &t : nullptr; }
inline const taper::Tensor *tensor_in(const std::optional<taper::Tensor> &t) { return t ? tensor_in(*t) : nullptr; }
inline const taper::Tensor *tensor_in(taper::ArrayRef<taper::Tensor> list) {
    return list.empty() ? nullptr : tensor_in(list[0]);
}
inline const taper::Tensor *tensor_in(const std::vector<taper::Tensor> &list) {
    return list.empty() ? nullptr : tensor_in(list[0]);
}
template <class T> inline const taper::Tensor *tensor_in(const T &) { return nullptr; }
inline const char *key_of(const taper::Tensor *t) {
    if (!t || t->device().is_cpu()) return "CPU";
    return t->device().is_cuda() ? "CUDA" : "XPU";
}
} // namespace detail

/* An operator, whatever its arguments are. */
class OperatorHandle {
  public:
    OperatorHandle(std::string space, std::string name) : space_(std::move(space)), name_(std::move(name)) {}
    template <class F> TypedOperatorHandle<F> typed() const { return TypedOperatorHandle<F>(*this); }
    std::string operator_name() const { return space_ + "::" + name_; }
    /* The kernel registered under one of the keys; NULL where there is none. */
    const taper::library::Entry *kernel(std::initializer_list<const char *> keys) const {
        for (const char *key : keys)
            for (const taper::library::Entry &e : taper::library::entries())
                if (e.call && e.key == key && e.name == name_ && e.space == space_) return &e;
        return nullptr;
    }

  private:
    std::string space_, name_;
};
template <class R, class... A> class TypedOperatorHandle<R(A...)> {
    using Function = std::function<R(A...)>;

  public:
    explicit TypedOperatorHandle(OperatorHandle op)
        : op_(std::move(op)), autograd_(function(op_.kernel({"Autograd", "AutogradCPU", "AutogradCUDA"}))),
          for_all_(function(op_.kernel({"BackendSelect", "CompositeExplicitAutograd", "CompositeImplicitAutograd"}))),
          cpu_(function(op_.kernel({"CPU"}))) {}
    R call(A... arguments) const {
        if (autograd_ && !taper::below_autograd()) return (*autograd_)(std::forward<A>(arguments)...);
        const taper::Tensor *first = nullptr;
        ((first = first ? first : detail::tensor_in(arguments)), ...);
        const char *key = detail::key_of(first);
        const Function *kernel = key[1] == 'P' ? cpu_ : function(op_.kernel({key}));
        if (!kernel) kernel = for_all_;
        if (!kernel)
            taper::detail::raise(TP_ERR_MISSING, taper::detail::text("Could not run '", op_.operator_name(),
                                                                     "' with arguments from the '", key,
                                                                     "' backend: no kernel was registered for it"));
        return (*kernel)(std::forward<A>(arguments)...);
    }
    R operator()(A... arguments) const { return call(std::forward<A>(arguments)...); }

  private:
    const Function *function(const taper::library::Entry *e) const {
        if (!e) return nullptr;
        if (*e->signature != typeid(R(A...)))
            taper::detail::raise(TP_ERR_TYPE, taper::detail::text("Tried to access operator ", op_.operator_name(),
                                                                  " with a wrong signature: its kernel for ", e->key,
                                                                  " has other C++ types"));
        return static_cast<const Function *>(e->function.get());
    }
    OperatorHandle op_;
    const Function *autograd_, *for_all_, *cpu_;
};
class Dispatcher {
  public:
    static Dispatcher &singleton() {
        static Dispatcher one;
        return one;
    }
    std::optional<OperatorHandle> findSchema(const std::string &name, const std::string &overload) const {
        const size_t colons = name.find("::");
        if (colons == std::string::npos) return std::nullopt;
        const std::string space = name.substr(0, colons),
                          full = name.substr(colons + 2) + (overload.empty() ? "" : "." + overload);
        for (const taper::library::Entry &e : taper::library::entries())
            if (!e.schema.empty() && e.name == full && e.space == space) return OperatorHandle(space, full);
        return std::nullopt;
    }
    OperatorHandle findSchemaOrThrow(const char *name, const char *overload) const {
        std::optional<OperatorHandle> found = findSchema(name, overload);
        if (!found)
            taper::detail::raise(TP_ERR_RUNTIME, taper::detail::text("Could not find schema for ", name, ".", overload,
                                                                     ": this shared library does not define it"));
        return *found;
    }
};
} // namespace c10

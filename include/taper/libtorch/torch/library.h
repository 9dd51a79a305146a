/* Operators that a C++ extension gives to Python: TORCH_LIBRARY, TORCH_LIBRARY_IMPL, RegisterOperators. They are called
 * as torch.ops.NAMESPACE.NAME once Python has loaded the extension (import, or torch.ops.load_library). C++ calls them
 * by c10::Dispatcher (ATen/core/dispatch/Dispatcher.h). */
#pragma once
#include <torch/custom_class.h>
#include <torch/python_values.h>
#include <torch/types.h>

#include <typeinfo>

namespace taper {
namespace library {

// ---- A function's schema from its C++ type ----
template <class T> struct schema_name;
#define TAPER_SCHEMA_(T, text)                    \
    template <> struct schema_name<T> {           \
        static std::string get() { return text; } \
    };
TAPER_SCHEMA_(Tensor, "Tensor")
TAPER_SCHEMA_(int64_t, "int")
TAPER_SCHEMA_(double, "float")
TAPER_SCHEMA_(bool, "bool")
TAPER_SCHEMA_(std::string, "str")
TAPER_SCHEMA_(std::string_view, "str")
TAPER_SCHEMA_(Scalar, "Scalar")
TAPER_SCHEMA_(ScalarType, "ScalarType")
TAPER_SCHEMA_(Device, "Device")
TAPER_SCHEMA_(IValue, "Any")
TAPER_SCHEMA_(void, "()")
#undef TAPER_SCHEMA_
template <class T> struct schema_name<std::optional<T>> {
    static std::string get() { return schema_name<T>::get() + "?"; }
};
template <class T> struct schema_name<std::vector<T>> {
    static std::string get() { return schema_name<T>::get() + "[]"; }
};
template <class T> struct schema_name<List<T>> : schema_name<std::vector<T>> {};
template <class T> struct schema_name<ArrayRef<T>> {
    static std::string get() { return schema_name<T>::get() + "[]"; }
};
template <class T, size_t N> struct schema_name<std::array<T, N>> {
    static std::string get() { return schema_name<T>::get() + "[" + std::to_string(N) + "]"; }
};
template <class K, class V> struct schema_name<Dict<K, V>> {
    static std::string get() { return "Dict(" + schema_name<K>::get() + ", " + schema_name<V>::get() + ")"; }
};
template <class K, class V> struct schema_name<std::unordered_map<K, V>> : schema_name<Dict<K, V>> {};
template <class T> struct schema_name<intrusive_ptr<T>> {
    static std::string get() { return "__torch__.torch.classes." + class_name<T>(); }
};
template <class... T> struct schema_name<std::tuple<T...>> {
    static std::string get() {
        std::string s = "(";
        ((s += (s.size() > 1 ? ", " : "") + schema_name<T>::get()), ...);
        return s + ")";
    }
};
template <class F> struct signature : signature<decltype(&F::operator())> {};
template <class R, class... A> struct signature<R (*)(A...)> {
    using type = R(A...);
    using result = R;
    using arguments = std::tuple<std::decay_t<A>...>;
    static std::string schema() {
        std::string s = "(";
        int i = 0;
        ((s += (i ? ", " : "") + schema_name<std::decay_t<A>>::get() + " _" + std::to_string(i), i++), ...);
        return s + ") -> " + schema_name<std::decay_t<R>>::get();
    }
};
template <class R, class... A> struct signature<R(A...)> : signature<R (*)(A...)> {};
template <class C, class R, class... A> struct signature<R (C::*)(A...) const> : signature<R (*)(A...)> {};
template <class C, class R, class... A> struct signature<R (C::*)(A...)> : signature<R (*)(A...)> {};

struct Entry {
    std::string space, name, schema, key;       /* schema empty: an implementation of what is defined elsewhere */
    std::shared_ptr<python::CallableBase> call; /* NULL: a definition alone */
    std::shared_ptr<void> function;             /* a std::function of the type in signature */
    const std::type_info *signature = nullptr;
};
/* Of this shared library alone: each hands its own to Python. */
__attribute__((visibility("hidden"))) inline std::vector<Entry> &entries() {
    static std::vector<Entry> all;
    return all;
}
template <class F>
inline void add(const std::string &space, std::string name, std::string schema, const std::string &key, F f) {
    Entry e;
    e.space = space;
    const size_t colons = name.find("::");
    if (colons != std::string::npos) {
        e.space = name.substr(0, colons);
        name = name.substr(colons + 2);
    }
    e.name = std::move(name);
    e.schema = std::move(schema);
    e.key = key;
    if constexpr (!std::is_same_v<F, std::nullptr_t>) {
        using Type = typename signature<F>::type;
        e.call = std::make_shared<python::Callable<F>>(f);
        e.function = std::make_shared<std::function<Type>>(std::move(f));
        e.signature = &typeid(Type);
    }
    entries().push_back(std::move(e));
}
inline std::string trimmed(const std::string &s) {
    const size_t a = s.find_first_not_of(" \n\t");
    return a == std::string::npos ? "" : s.substr(a);
}
} // namespace library
} // namespace taper

namespace torch {
class Library {
  public:
    Library(std::string space, std::string key) : space_(std::move(space)), key_(std::move(key)) {}
    /* A schema alone: "mul(Tensor a, Tensor b) -> Tensor". */
    Library &def(const std::string &schema) & {
        const std::string s = taper::library::trimmed(schema);
        taper::library::add(space_, s.substr(0, s.find('(')), s.substr(s.find('(')), "", nullptr);
        return *this;
    }
    /* A name or a schema, with its function for every device. */
    template <class F> Library &def(const std::string &name, F f) & {
        const std::string s = taper::library::trimmed(name);
        const size_t at = s.find('(');
        std::string schema = at == std::string::npos ? taper::library::signature<F>::schema() : s.substr(at);
        taper::library::add(space_, s.substr(0, at), std::move(schema), "CompositeImplicitAutograd", f);
        return *this;
    }
    template <class F> Library &impl(const std::string &name, F f) & {
        taper::library::add(space_, name, "", key_.empty() ? "CompositeImplicitAutograd" : key_, f);
        return *this;
    }
    template <class F> Library &impl(const std::string &name, const char *key, F f) & {
        taper::library::add(space_, name, "", key, f);
        return *this;
    }
    void set_python_module(const char *, const char * = "") {}
    template <class T> torch::class_<T> class_(const std::string &name) { return torch::class_<T>(space_, name); }

  private:
    std::string space_, key_;
};
/* The older way: RegisterOperators().op("space::name", &function). */
class RegisterOperators {
  public:
    RegisterOperators() = default;
    template <class F> explicit RegisterOperators(const std::string &name, F f) { op(name, f); }
    template <class F> RegisterOperators &op(const std::string &name, F f) {
        const size_t at = name.find('(');
        taper::library::add("", name.substr(0, at),
                            at == std::string::npos ? taper::library::signature<F>::schema() : name.substr(at),
                            "CompositeImplicitAutograd", f);
        return *this;
    }
};
namespace detail {
struct LibraryInit {
    LibraryInit(const char *space, const char *key, void (*fill)(Library &)) {
        Library library(space, key);
        fill(library);
    }
};
} // namespace detail
} // namespace torch
namespace c10 {
using RegisterOperators = torch::RegisterOperators;
}
namespace taper {
namespace jit {
using RegisterOperators = torch::RegisterOperators;
}
} // namespace taper

#define TAPER_LIBRARY_JOIN__(a, b) a##b
#define TAPER_LIBRARY_JOIN_(a, b)  TAPER_LIBRARY_JOIN__(a, b)
#define TAPER_LIBRARY_(ns, key, m, id)                                                             \
    static void TAPER_LIBRARY_JOIN_(TORCH_LIBRARY_fill_##ns##_, id)(::torch::Library &);           \
    static const ::torch::detail::LibraryInit TAPER_LIBRARY_JOIN_(TORCH_LIBRARY_init_##ns##_, id)( \
        #ns, key, &TAPER_LIBRARY_JOIN_(TORCH_LIBRARY_fill_##ns##_, id));                           \
    static void TAPER_LIBRARY_JOIN_(TORCH_LIBRARY_fill_##ns##_, id)(::torch::Library & m)
#define TORCH_LIBRARY(ns, m)           TAPER_LIBRARY_(ns, "", m, __COUNTER__)
#define TORCH_LIBRARY_FRAGMENT(ns, m)  TAPER_LIBRARY_(ns, "", m, __COUNTER__)
#define TORCH_LIBRARY_IMPL(ns, k, m)   TAPER_LIBRARY_(ns, #k, m, __COUNTER__)
#define TORCH_FN(f)                    (&f)
#define TORCH_SELECTIVE_NAME(name)     name
#define TORCH_SELECTIVE_SCHEMA(schema) schema

/* A list of (namespace, name, schema or None, key, callable or None) for Python: what this shared library registered.
 */
extern "C" __attribute__((visibility("default"), weak)) PyObject *taper_cpp_operators(void) {
    using namespace taper;
    return python::list_of(library::entries(), [](const library::Entry &e) {
        using Text = python::value<std::string>;
        return python::tuple_of({Text::to(e.space), Text::to(e.name),
                                 e.schema.empty() ? python::none() : Text::to(e.schema), Text::to(e.key),
                                 python::function(e.call.get())});
    });
}

/* C++ classes that Python makes instances of: torch::class_, called as torch.classes.NAMESPACE.NAME. They are passed
 * to operators and given back by them as c10::intrusive_ptr. */
#pragma once
#include <taper/cpp/intrusive.hpp>
#include <torch/python_values.h>

namespace taper {
namespace library {
/* "NAMESPACE.NAME" of a registered class. */
template <class T> inline std::string &class_name() {
    static std::string name;
    return name;
}
/* An argument's name, and its default. */
struct Argument {
    std::string name;
    std::optional<IValue> value;
};
/* What a class has: kind is "init", "method", "static", "get" or "set". */
struct Member {
    std::string kind, name;
    std::vector<Argument> arguments;
    std::shared_ptr<python::CallableBase> call;
};
struct Class {
    std::string name, doc;
    std::vector<Member> members;
};
/* Of this shared library alone. A class stays where it is: class_ adds to it. */
__attribute__((visibility("hidden"))) inline std::vector<std::unique_ptr<Class>> &classes() {
    static std::vector<std::unique_ptr<Class>> all;
    return all;
}
} // namespace library
namespace python {
template <class T> struct value<intrusive_ptr<T>> {
    static intrusive_ptr<T> from(PyObject *o) {
        const std::string &name = library::class_name<T>();
        void *held = name.empty() ? nullptr : api().object(o, name.c_str());
        if (!held) wrong(name.empty() ? "an instance of a registered class" : name.c_str(), o);
        return intrusive_ptr<T>(static_cast<T *>(static_cast<CustomClassHolder *>(held)));
    }
    static PyObject *to(const intrusive_ptr<T> &p) {
        const std::string &name = library::class_name<T>();
        if (!p) return none();
        if (name.empty()) detail::raise(TP_ERR_TYPE, "an instance of a class that torch::class_ did not register");
        intrusive_ptr<CustomClassHolder> kept = p;
        return api().wrap_object(kept.release(), name.c_str(), [](void *held) {
            intrusive_ptr<CustomClassHolder>::reclaim(static_cast<CustomClassHolder *>(held));
        });
    }
};
} // namespace python
} // namespace taper

namespace torch {
using taper::CustomClassHolder;
namespace detail {
template <class... A> struct types {};
} // namespace detail
/* .def(torch::init<int64_t, std::string>()) or .def(torch::init([](int64_t n) { return c10::make_intrusive<T>(n); }))
 */
template <class... A> inline detail::types<A...> init() { return {}; }
namespace detail {
template <class F> struct factory { F f; };
} // namespace detail
template <class F> inline detail::factory<F> init(F f) { return {std::move(f)}; }

/* torch::arg("n") = 3 */
struct arg {
    explicit arg(std::string name) : name_(std::move(name)) {}
    arg &operator=(const taper::IValue &value) {
        value_ = value;
        return *this;
    }
    static arg none(std::string name) {
        arg a(std::move(name));
        a.value_ = taper::IValue();
        return a;
    }
    std::string name_;
    std::optional<taper::IValue> value_;
};

template <class T> class class_ {
    static_assert(std::is_base_of_v<CustomClassHolder, T>, "torch::class_: T derives from torch::CustomClassHolder");
    template <class U> using pointer = taper::intrusive_ptr<U>;

  public:
    class_(const std::string &space, const std::string &name, std::string doc = "") {
        taper::library::class_name<T>() = space + "." + name;
        auto made = std::make_unique<taper::library::Class>();
        made->name = taper::library::class_name<T>();
        made->doc = std::move(doc);
        class_ref_ = made.get();
        taper::library::classes().push_back(std::move(made));
    }
    template <class... A>
    class_ &def(detail::types<A...>, std::string = "", std::initializer_list<arg> arguments = {}) {
        return add(
            "init", "__init__", [](std::decay_t<A>... a) { return taper::make_intrusive<T>(std::move(a)...); },
            arguments);
    }
    template <class F>
    class_ &def(detail::factory<F> made, std::string = "", std::initializer_list<arg> arguments = {}) {
        return add("init", "__init__", std::move(made.f), arguments);
    }
    /* A method of T, or a function whose first argument is const c10::intrusive_ptr<T> &. */
    template <class F>
    class_ &def(const std::string &name, F f, std::string = "", std::initializer_list<arg> arguments = {}) {
        return add("method", name, of_pointer(f), arguments);
    }
    template <class F> class_ &def_static(const std::string &name, F f, std::string = "") {
        return add("static", name, std::move(f), {});
    }
    template <class G, class S> class_ &def_property(const std::string &name, G get, S set, std::string = "") {
        return add("get", name, of_pointer(get), {}).add("set", name, of_pointer(set), {});
    }
    template <class G> class_ &def_property(const std::string &name, G get, std::string = "") {
        return add("get", name, of_pointer(get), {});
    }
    template <class V> class_ &def_readonly(const std::string &name, V T::*field) {
        return add("get", name, [field](const pointer<T> &self) -> V { return self.get()->*field; }, {});
    }
    template <class V> class_ &def_readwrite(const std::string &name, V T::*field) {
        def_readonly(name, field);
        return add("set", name, [field](const pointer<T> &self, V value) { self.get()->*field = std::move(value); },
                   {});
    }
    /* get(self) gives a state of any type, set(state) an instance. */
    template <class G, class S> class_ &def_pickle(G get, S set) {
        return add("method", "__getstate__", std::move(get), {}).add("static", "__setstate__", std::move(set), {});
    }

  private:
    template <class F> static F of_pointer(F f) { return f; }
    template <class R, class C, class... A> static auto of_pointer(R (C::*method)(A...)) {
        return [method](const pointer<T> &self, A... a) -> R { return (self.get()->*method)(std::forward<A>(a)...); };
    }
    template <class R, class C, class... A> static auto of_pointer(R (C::*method)(A...) const) {
        return [method](const pointer<T> &self, A... a) -> R { return (self.get()->*method)(std::forward<A>(a)...); };
    }
    template <class F>
    class_ &add(const char *kind, const std::string &name, F f, std::initializer_list<arg> arguments) {
        taper::library::Member member{kind, name, {}, std::make_shared<taper::python::Callable<F>>(std::move(f))};
        for (const arg &a : arguments) member.arguments.push_back({a.name_, a.value_});
        class_ref_->members.push_back(std::move(member));
        return *this;
    }
    taper::library::Class *class_ref_;
};
} // namespace torch

namespace taper {
namespace library {
/* (kind, name, callable, names of arguments, defaults of the last of them). */
inline PyObject *member_tuple(const Member &member) {
    std::vector<std::string> names;
    std::vector<IValue> defaults;
    for (const Argument &a : member.arguments) {
        names.push_back(a.name);
        if (a.value) defaults.push_back(*a.value);
    }
    return python::tuple_of({python::value<std::string>::to(member.kind), python::value<std::string>::to(member.name),
                             python::function(member.call.get()), python::value<std::vector<std::string>>::to(names),
                             python::value<std::vector<IValue>>::to(defaults)});
}
} // namespace library
} // namespace taper

/* A list of (name, documentation, list of members) for Python: the classes of this shared library. */
extern "C" __attribute__((visibility("default"), weak)) PyObject *taper_cpp_classes(void) {
    using namespace taper;
    return python::list_of(library::classes(), [](const std::unique_ptr<library::Class> &c) {
        return python::tuple_of({python::value<std::string>::to(c->name), python::value<std::string>::to(c->doc),
                                 python::list_of(c->members, library::member_tuple)});
    });
}

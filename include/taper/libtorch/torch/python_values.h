/* C++ values to and from Python's objects, and functions that Python calls: for operators and classes of TORCH_LIBRARY.
 * Python's headers are not needed: objects are handled by the functions of taper/python.h. */
#pragma once
#include <taper/python.h>
#include <torch/types.h>

#include <array>

/* Weak: a program without Python links, too. */
extern "C" __attribute__((weak)) void *PyCapsule_Import(const char *name, int no_block);

namespace taper {
namespace python {
inline const tp_python_api &api() {
    static const tp_python_api *table =
        PyCapsule_Import ? static_cast<const tp_python_api *>(PyCapsule_Import(TP_PYTHON_API, 0)) : nullptr;
    if (!table) detail::raise(TP_ERR_RUNTIME, "taper._C could not be imported");
    if (table->size < static_cast<int64_t>(sizeof *table))
        detail::raise(TP_ERR_RUNTIME, "this extension was built for a later version of Taper than the one in use");
    return *table;
}
struct Failed {}; /* a Python exception is set */
inline void check(bool good) {
    if (!good) throw Failed();
}
[[noreturn]] inline void wrong(const char *expected, PyObject *got) {
    api().set_error(TP_ERR_TYPE, detail::text("expected ", expected, ", got ", api().type_name(got)).c_str());
    throw Failed();
}
inline bool is_none(PyObject *o) { return api().kind(o) == TP_PYTHON_NONE; }
inline PyObject *none() { return api().retain(api().none); }
/* An object that this scope owns. */
class Owned {
  public:
    explicit Owned(PyObject *o) : object_(o) {}
    Owned(const Owned &) = delete;
    ~Owned() {
        if (object_) api().release(object_);
    }
    PyObject *get() const { return object_; }
    PyObject *give() { return std::exchange(object_, nullptr); }
    explicit operator bool() const { return object_ != nullptr; }

  private:
    PyObject *object_;
};
template <class T, class = void> struct value;
template <> struct value<Tensor> {
    static Tensor from(PyObject *o) {
        if (is_none(o)) return Tensor();
        tp_tensor *t = api().tensor(o);
        if (!t) wrong("a Tensor", o);
        return Tensor::borrow(t);
    }
    static PyObject *to(const Tensor &t) {
        if (!t.defined()) return none();
        return api().wrap(tp_retain(t.get()));
    }
};
template <class T> struct value<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
    static T from(PyObject *o) {
        int64_t v = 0;
        check(api().to_int(o, &v));
        return static_cast<T>(v);
    }
    static PyObject *to(T v) { return api().from_int(static_cast<int64_t>(v)); }
};
template <> struct value<bool> {
    static bool from(PyObject *o) {
        bool v = false;
        check(api().to_bool(o, &v));
        return v;
    }
    static PyObject *to(bool v) { return api().from_bool(v); }
};
template <class T> struct value<T, std::enable_if_t<std::is_floating_point_v<T>>> {
    static T from(PyObject *o) {
        double v = 0;
        check(api().to_double(o, &v));
        return static_cast<T>(v);
    }
    static PyObject *to(T v) { return api().from_double(static_cast<double>(v)); }
};
inline std::string_view text_of(PyObject *o) { /* Python's object keeps the text */
    int64_t length = 0;
    const char *s = api().text(o, &length);
    check(s != nullptr);
    return {s, static_cast<size_t>(length)};
}
template <> struct value<std::string_view> {
    static std::string_view from(PyObject *o) { return text_of(o); }
    static PyObject *to(std::string_view s) { return api().from_text(s.data(), static_cast<int64_t>(s.size())); }
};
template <> struct value<std::string> {
    static std::string from(PyObject *o) { return std::string(text_of(o)); }
    static PyObject *to(const std::string &s) { return value<std::string_view>::to(s); }
};
template <> struct value<Scalar> {
    static Scalar from(PyObject *o) {
        switch (api().kind(o)) {
        case TP_PYTHON_BOOL: return Scalar(value<bool>::from(o));
        case TP_PYTHON_INT: return Scalar(value<int64_t>::from(o));
        case TP_PYTHON_COMPLEX: {
            double real = 0, imaginary = 0;
            check(api().to_complex(o, &real, &imaginary));
            return Scalar(std::complex<double>(real, imaginary));
        }
        default: return Scalar(value<double>::from(o));
        }
    }
    static PyObject *to(const Scalar &s) {
        if (s.isFloatingPoint()) return api().from_double(s.toDouble());
        return s.isBoolean() ? api().from_bool(s.toBool()) : api().from_int(s.toLong());
    }
};
/* PyTorch's number of a dtype, which operators and methods give; -1 for one that has none here. */
constexpr ScalarType numbered_types[] = {ScalarType::Byte,         ScalarType::Char,          ScalarType::Short,
                                         ScalarType::Int,          ScalarType::Long,          ScalarType::Half,
                                         ScalarType::Float,        ScalarType::Double,        ScalarType::ComplexHalf,
                                         ScalarType::ComplexFloat, ScalarType::ComplexDouble, ScalarType::Bool};
constexpr int64_t bfloat16_number = 15;
inline int64_t number_of(ScalarType type) {
    for (size_t i = 0; i < std::size(numbered_types); i++)
        if (numbered_types[i] == type) return static_cast<int64_t>(i);
    return type == ScalarType::BFloat16 ? bfloat16_number : -1;
}
template <> struct value<ScalarType> {
    static ScalarType from(PyObject *o) {
        tp_dtype d;
        if (api().kind(o) == TP_PYTHON_INT) {
            const int64_t number = value<int64_t>::from(o);
            if (number == bfloat16_number) return ScalarType::BFloat16;
            if (number >= 0 && number < static_cast<int64_t>(std::size(numbered_types))) return numbered_types[number];
        }
        if (!api().dtype(o, &d)) wrong("a dtype", o);
        return static_cast<ScalarType>(d);
    }
    static PyObject *to(ScalarType t) { return api().wrap_dtype(static_cast<tp_dtype>(t)); }
};
template <> struct value<Device> {
    static Device from(PyObject *o) {
        tp_device d;
        if (api().device(o, &d)) return Device(d);
        return Device(value<std::string>::from(o));
    }
    static PyObject *to(const Device &d) { return api().wrap_device(d); }
};
template <class T> struct value<std::optional<T>> {
    static std::optional<T> from(PyObject *o) {
        if (is_none(o)) return std::nullopt;
        return value<T>::from(o);
    }
    static PyObject *to(const std::optional<T> &v) { return v ? value<T>::to(*v) : none(); }
};
/* Each item of a list or a tuple: f(item). */
template <class F> inline void each(PyObject *o, F &&f) {
    const int64_t n = api().length(o);
    check(n >= 0);
    for (int64_t i = 0; i < n; i++) {
        Owned item(api().item(o, i));
        check(static_cast<bool>(item));
        f(item.get());
    }
}
/* A list of what f makes of each item; NULL where one of them failed. */
template <class C, class F> inline PyObject *list_of(const C &items, F &&f) {
    Owned list(api().new_list(static_cast<int64_t>(items.size())));
    int64_t i = 0;
    for (const auto &item : items)
        if (!list || !api().set_item(list.get(), i++, f(item))) return nullptr;
    return list.give();
}
/* A tuple that takes the parts over; NULL where one of them is. */
inline PyObject *tuple_of(std::initializer_list<PyObject *> parts) {
    Owned tuple(api().new_tuple(static_cast<int64_t>(parts.size())));
    bool good = static_cast<bool>(tuple);
    int64_t i = 0;
    for (PyObject *part : parts) {
        if (good)
            good = api().set_item(tuple.get(), i++, part);
        else if (part)
            api().release(part);
    }
    return good ? tuple.give() : nullptr;
}
template <class T> struct value<std::vector<T>> {
    static std::vector<T> from(PyObject *o) {
        std::vector<T> v;
        each(o, [&](PyObject *item) { v.push_back(value<T>::from(item)); });
        return v;
    }
    static PyObject *to(const std::vector<T> &v) {
        return list_of(v, [](const T &item) { return value<T>::to(item); });
    }
};
template <class T> struct value<List<T>> : value<std::vector<T>> {};
template <class T, size_t N> struct value<std::array<T, N>> {
    static std::array<T, N> from(PyObject *o) {
        const std::vector<T> list = value<std::vector<T>>::from(o);
        if (list.size() != N) {
            api().set_error(TP_ERR_VALUE, detail::text("expected a list of ", N, " items, got ", list.size()).c_str());
            throw Failed();
        }
        std::array<T, N> v;
        for (size_t i = 0; i < N; i++) v[i] = list[i];
        return v;
    }
    static PyObject *to(const std::array<T, N> &v) {
        return value<std::vector<T>>::to(std::vector<T>(v.begin(), v.end()));
    }
};
/* put(key, value) for each item of a Python dict. */
template <class K, class V, class F> inline void each_item(PyObject *o, F &&put) {
    if (api().kind(o) != TP_PYTHON_DICT) wrong("a dict", o);
    PyObject *key, *item;
    for (int64_t at = 0; api().next_item(o, &at, &key, &item);) put(value<K>::from(key), value<V>::from(item));
}
/* A dict of a map's items; key_of and value_of take an item apart. */
template <class K, class V, class M, class KF, class VF>
inline PyObject *dict_of(const M &map, const KF &key_of, const VF &value_of) {
    Owned dict(api().new_dict());
    for (const auto &item : map) {
        Owned key(value<K>::to(key_of(item))), held(value<V>::to(value_of(item)));
        if (!dict || !key || !held || !api().put_item(dict.get(), key.get(), held.get())) return nullptr;
    }
    return dict.give();
}
template <class K, class V> struct value<Dict<K, V>> {
    static Dict<K, V> from(PyObject *o) {
        Dict<K, V> dict;
        each_item<K, V>(o, [&](K key, V item) { dict.insert_or_assign(std::move(key), std::move(item)); });
        return dict;
    }
    static PyObject *to(const Dict<K, V> &v) {
        return dict_of<K, V>(
            v, [](const auto &item) { return item.key(); }, [](const auto &item) { return item.value(); });
    }
};
template <class M> struct map_value {
    using K = typename M::key_type;
    using V = typename M::mapped_type;
    static M from(PyObject *o) {
        M map;
        each_item<K, V>(o, [&](K key, V item) { map.insert_or_assign(std::move(key), std::move(item)); });
        return map;
    }
    static PyObject *to(const M &v) {
        return dict_of<K, V>(
            v, [](const auto &item) { return item.first; }, [](const auto &item) { return item.second; });
    }
};
template <class K, class V> struct value<std::unordered_map<K, V>> : map_value<std::unordered_map<K, V>> {};
template <class K, class V> struct value<std::map<K, V>> : map_value<std::map<K, V>> {};
template <class... T> struct value<std::tuple<T...>> {
    static std::tuple<T...> from(PyObject *o) {
        if (api().kind(o) != TP_PYTHON_TUPLE || api().length(o) != static_cast<int64_t>(sizeof...(T)))
            wrong("a tuple", o);
        return from_items(o, std::index_sequence_for<T...>());
    }
    static PyObject *to(const std::tuple<T...> &v) {
        return std::apply([](const T &...item) { return tuple_of({value<T>::to(item)...}); }, v);
    }

  private:
    template <class I> static I item(PyObject *o, size_t i) {
        Owned held(api().item(o, static_cast<int64_t>(i)));
        check(static_cast<bool>(held));
        return value<I>::from(held.get());
    }
    template <size_t... I> static std::tuple<T...> from_items(PyObject *o, std::index_sequence<I...>) {
        return std::tuple<T...>{item<T>(o, I)...};
    }
};
/* A value of any kind. */
template <> struct value<IValue> {
    static IValue from(PyObject *o) {
        switch (api().kind(o)) {
        case TP_PYTHON_NONE: return IValue();
        case TP_PYTHON_BOOL: return IValue(value<bool>::from(o));
        case TP_PYTHON_INT: return IValue(value<int64_t>::from(o));
        case TP_PYTHON_FLOAT: return IValue(value<double>::from(o));
        case TP_PYTHON_TEXT: return IValue(value<std::string>::from(o));
        case TP_PYTHON_LIST: return list(o);
        case TP_PYTHON_TUPLE: return IValue(value<std::vector<IValue>>::from(o));
        default: return IValue(value<Tensor>::from(o));
        }
    }
    static PyObject *to(const IValue &v) {
        if (v.isTensor()) return value<Tensor>::to(v.toTensor());
        if (v.isBool()) return value<bool>::to(v.toBool());
        if (v.isInt()) return value<int64_t>::to(v.toInt());
        if (v.isDouble()) return value<double>::to(v.toDouble());
        if (v.isString()) return value<std::string>::to(v.toStringRef());
        if (v.isTensorList()) return value<std::vector<Tensor>>::to(v.toTensorVector());
        if (v.isIntList()) return value<std::vector<int64_t>>::to(v.toIntVector());
        if (v.isDoubleList()) return value<std::vector<double>>::to(v.toDoubleVector());
        if (v.isBoolList()) return value<std::vector<bool>>::to(v.toBoolList());
        return v.isTuple() ? tuple(v.toTuple()->elements()) : none();
    }

  private:
    static IValue list(PyObject *o) { /* of the kind of its first item */
        if (!api().length(o)) return IValue(std::vector<int64_t>());
        Owned first(api().item(o, 0));
        check(static_cast<bool>(first));
        switch (api().kind(first.get())) {
        case TP_PYTHON_BOOL: return IValue(value<std::vector<bool>>::from(o));
        case TP_PYTHON_INT: return IValue(value<std::vector<int64_t>>::from(o));
        case TP_PYTHON_FLOAT: return IValue(value<std::vector<double>>::from(o));
        default: return IValue(value<std::vector<Tensor>>::from(o));
        }
    }
    static PyObject *tuple(const std::vector<IValue> &items) {
        Owned made(api().new_tuple(static_cast<int64_t>(items.size())));
        for (size_t i = 0; i < items.size(); i++)
            if (!made || !api().set_item(made.get(), static_cast<int64_t>(i), to(items[i]))) return nullptr;
        return made.give();
    }
};
/* Where an argument lives during a call: a list that a function only looks at is held as a vector. */
template <class T> struct held { using type = T; };
template <class T> struct held<ArrayRef<T>> { using type = std::vector<T>; };
template <class T> struct held<std::optional<ArrayRef<T>>> { using type = std::optional<std::vector<T>>; };
template <class T> struct held<OptionalArrayRef<T>> { using type = std::optional<std::vector<T>>; };

/* The exception that was thrown, as Python's. */
inline void translate() {
    try {
        throw;
    } catch (const Failed &) {
    } catch (const IndexError &e) {
        api().set_error(TP_ERR_INDEX, e.what());
    } catch (const ValueError &e) {
        api().set_error(TP_ERR_VALUE, e.what());
    } catch (const TypeError &e) {
        api().set_error(TP_ERR_TYPE, e.what());
    } catch (const NotImplementedError &e) {
        api().set_error(TP_ERR_MISSING, e.what());
    } catch (const std::exception &e) {
        api().set_error(TP_ERR_RUNTIME, e.what());
    } catch (...) {
        api().set_error(TP_ERR_RUNTIME, "an exception of an unknown type");
    }
}

class CallableBase {
  public:
    virtual ~CallableBase() = default;
    virtual PyObject *operator()(PyObject *arguments) = 0;
};
/* A Python function; None where there is nothing to call. */
inline PyObject *function(CallableBase *f) {
    if (!f) return none();
    return api().function(
        f, [](void *context, PyObject *arguments) { return (*static_cast<CallableBase *>(context))(arguments); });
}
} // namespace python
namespace library {
template <class F> struct signature;
}
namespace python {
template <class F> class Callable : public CallableBase {
  public:
    explicit Callable(F f) : f_(std::move(f)) {}
    PyObject *operator()(PyObject *arguments) override {
        using A = typename library::signature<F>::arguments;
        try {
            return call(arguments, static_cast<A *>(nullptr), std::make_index_sequence<std::tuple_size_v<A>>());
        } catch (...) {
            translate();
            return nullptr;
        }
    }

  private:
    template <class T> static T argument(PyObject *arguments, size_t i) { /* the tuple keeps it */
        Owned item(api().item(arguments, static_cast<int64_t>(i)));
        check(static_cast<bool>(item));
        return value<T>::from(item.get());
    }
    template <class... A, size_t... I>
    PyObject *call(PyObject *arguments, std::tuple<A...> *, std::index_sequence<I...>) {
        const int64_t given = api().length(arguments);
        if (given != static_cast<int64_t>(sizeof...(A))) {
            api().set_error(TP_ERR_TYPE, detail::text("expected ", sizeof...(A), " arguments, got ", given).c_str());
            return nullptr;
        }
        std::tuple<typename held<A>::type...> values{argument<typename held<A>::type>(arguments, I)...};
        using R = typename library::signature<F>::result;
        if constexpr (std::is_void_v<R>) {
            f_(std::get<I>(values)...);
            return none();
        } else if constexpr (std::is_same_v<std::decay_t<R>, ScalarType>) /* a number, as operators have it */
            return value<int64_t>::to(number_of(f_(std::get<I>(values)...)));
        else
            return value<std::decay_t<R>>::to(f_(std::get<I>(values)...));
    }
    F f_;
};
} // namespace python
} // namespace taper

/* C++ values to and from Python's objects, and functions that Python calls: for operators of TORCH_LIBRARY. */
#pragma once
#include <Python.h>
#include <taper/python.h>
#include <torch/types.h>

namespace taper {
namespace python {
inline const tp_python_api &api() {
    static const tp_python_api *table = static_cast<const tp_python_api *>(PyCapsule_Import(TP_PYTHON_API, 0));
    if (!table) detail::raise(TP_ERR_RUNTIME, "taper._C could not be imported");
    return *table;
}
struct Failed {}; /* a Python exception is set */
[[noreturn]] inline void wrong(const char *expected, PyObject *got) {
    PyErr_Format(PyExc_TypeError, "expected %s, got %s", expected, Py_TYPE(got)->tp_name);
    throw Failed();
}
template <class T, class = void> struct value;
template <> struct value<Tensor> {
    static Tensor from(PyObject *o) {
        if (o == Py_None) return Tensor();
        tp_tensor *t = api().tensor(o);
        if (!t) wrong("a Tensor", o);
        return Tensor::borrow(t);
    }
    static PyObject *to(const Tensor &t) {
        if (!t.defined()) Py_RETURN_NONE;
        return api().wrap(tp_retain(t.get()));
    }
};
template <class T> struct value<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
    static T from(PyObject *o) {
        const long long v = PyLong_AsLongLong(o);
        if (v == -1 && PyErr_Occurred()) throw Failed();
        return static_cast<T>(v);
    }
    static PyObject *to(T v) { return PyLong_FromLongLong(static_cast<long long>(v)); }
};
template <> struct value<bool> {
    static bool from(PyObject *o) {
        const int v = PyObject_IsTrue(o);
        if (v < 0) throw Failed();
        return v != 0;
    }
    static PyObject *to(bool v) { return PyBool_FromLong(v); }
};
template <class T> struct value<T, std::enable_if_t<std::is_floating_point_v<T>>> {
    static T from(PyObject *o) {
        const double v = PyFloat_AsDouble(o);
        if (v == -1 && PyErr_Occurred()) throw Failed();
        return static_cast<T>(v);
    }
    static PyObject *to(T v) { return PyFloat_FromDouble(static_cast<double>(v)); }
};
template <> struct value<std::string> {
    static std::string from(PyObject *o) {
        const char *s = PyUnicode_AsUTF8(o);
        if (!s) throw Failed();
        return s;
    }
    static PyObject *to(const std::string &s) {
        return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
    }
};
template <> struct value<std::string_view> {
    static std::string_view from(PyObject *o) { /* Python's object keeps the text */
        const char *s = PyUnicode_AsUTF8(o);
        if (!s) throw Failed();
        return s;
    }
    static PyObject *to(std::string_view s) { return value<std::string>::to(std::string(s)); }
};
template <> struct value<Scalar> {
    static Scalar from(PyObject *o) {
        if (PyBool_Check(o)) return Scalar(o == Py_True);
        if (PyLong_Check(o)) return Scalar(value<int64_t>::from(o));
        if (PyComplex_Check(o))
            return Scalar(std::complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
        return Scalar(value<double>::from(o));
    }
    static PyObject *to(const Scalar &s) {
        return s.isFloatingPoint() ? PyFloat_FromDouble(s.toDouble())
               : s.isBoolean()     ? PyBool_FromLong(s.toBool())
                                   : PyLong_FromLongLong(s.toLong());
    }
};
template <> struct value<ScalarType> {
    static ScalarType from(PyObject *o) {
        tp_dtype d;
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
        if (o == Py_None) return std::nullopt;
        return value<T>::from(o);
    }
    static PyObject *to(const std::optional<T> &v) {
        if (!v) Py_RETURN_NONE;
        return value<T>::to(*v);
    }
};
template <class T> struct value<std::vector<T>> {
    static std::vector<T> from(PyObject *o) {
        PyObject *list = PySequence_Fast(o, "expected a list");
        if (!list) throw Failed();
        std::vector<T> v;
        try {
            for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++)
                v.push_back(value<T>::from(PySequence_Fast_GET_ITEM(list, i)));
        } catch (...) {
            Py_DECREF(list);
            throw;
        }
        Py_DECREF(list);
        return v;
    }
    static PyObject *to(const std::vector<T> &v) {
        PyObject *list = PyList_New(static_cast<Py_ssize_t>(v.size()));
        for (size_t i = 0; list && i < v.size(); i++) {
            PyObject *item = value<T>::to(v[i]);
            if (!item) {
                Py_DECREF(list);
                return nullptr;
            }
            PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), item);
        }
        return list;
    }
};
template <class T, size_t N> struct value<std::array<T, N>> {
    static std::array<T, N> from(PyObject *o) {
        const std::vector<T> list = value<std::vector<T>>::from(o);
        if (list.size() != N) {
            PyErr_Format(PyExc_ValueError, "expected a list of %d items, got %d", static_cast<int>(N),
                         static_cast<int>(list.size()));
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
    if (!PyDict_Check(o)) wrong("a dict", o);
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &item);) put(value<K>::from(key), value<V>::from(item));
}
inline PyObject *put_item(PyObject *dict, PyObject *key, PyObject *item) { /* takes both; NULL: it failed */
    const bool good = dict && key && item && !PyDict_SetItem(dict, key, item);
    Py_XDECREF(key);
    Py_XDECREF(item);
    if (good) return dict;
    Py_XDECREF(dict);
    return nullptr;
}
template <class K, class V> struct value<Dict<K, V>> {
    static Dict<K, V> from(PyObject *o) {
        Dict<K, V> dict;
        each_item<K, V>(o, [&](K key, V item) { dict.insert_or_assign(std::move(key), std::move(item)); });
        return dict;
    }
    static PyObject *to(const Dict<K, V> &v) {
        PyObject *dict = PyDict_New();
        for (const auto &item : v) {
            if (!dict) break;
            dict = put_item(dict, value<K>::to(item.key()), value<V>::to(item.value()));
        }
        return dict;
    }
};
template <class K, class V> struct value<std::unordered_map<K, V>> {
    static std::unordered_map<K, V> from(PyObject *o) {
        std::unordered_map<K, V> map;
        each_item<K, V>(o, [&](K key, V item) { map.insert_or_assign(std::move(key), std::move(item)); });
        return map;
    }
    static PyObject *to(const std::unordered_map<K, V> &v) {
        PyObject *dict = PyDict_New();
        for (const auto &item : v) {
            if (!dict) break;
            dict = put_item(dict, value<K>::to(item.first), value<V>::to(item.second));
        }
        return dict;
    }
};
template <class... T> struct value<std::tuple<T...>> {
    static std::tuple<T...> from(PyObject *o) {
        if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) != static_cast<Py_ssize_t>(sizeof...(T))) wrong("a tuple", o);
        return from_items(o, std::index_sequence_for<T...>());
    }
    template <size_t... I> static std::tuple<T...> from_items(PyObject *o, std::index_sequence<I...>) {
        return std::tuple<T...>{value<T>::from(PyTuple_GET_ITEM(o, I))...};
    }
    static PyObject *to(const std::tuple<T...> &v) {
        PyObject *tuple = PyTuple_New(sizeof...(T));
        if (!tuple) return nullptr;
        bool good = true;
        Py_ssize_t i = 0;
        std::apply(
            [&](const T &...item) {
                (([&] {
                     PyObject *o = good ? value<T>::to(item) : nullptr;
                     if (!o)
                         good = false;
                     else
                         PyTuple_SET_ITEM(tuple, i, o);
                     i++;
                 }()),
                 ...);
            },
            v);
        if (good) return tuple;
        Py_DECREF(tuple);
        return nullptr;
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
        PyErr_SetString(PyExc_IndexError, e.what());
    } catch (const ValueError &e) {
        PyErr_SetString(PyExc_ValueError, e.what());
    } catch (const TypeError &e) {
        PyErr_SetString(PyExc_TypeError, e.what());
    } catch (const NotImplementedError &e) {
        PyErr_SetString(PyExc_NotImplementedError, e.what());
    } catch (const std::exception &e) {
        PyErr_SetString(PyExc_RuntimeError, e.what());
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError, "an exception of an unknown type");
    }
}

class CallableBase {
  public:
    virtual ~CallableBase() = default;
    virtual PyObject *operator()(PyObject *arguments) = 0;
};
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
    template <class... A, size_t... I>
    PyObject *call(PyObject *arguments, std::tuple<A...> *, std::index_sequence<I...>) {
        if (PyTuple_GET_SIZE(arguments) != static_cast<Py_ssize_t>(sizeof...(A))) {
            PyErr_Format(PyExc_TypeError, "expected %d arguments, got %d", static_cast<int>(sizeof...(A)),
                         static_cast<int>(PyTuple_GET_SIZE(arguments)));
            return nullptr;
        }
        std::tuple<typename held<A>::type...> values{
            value<typename held<A>::type>::from(PyTuple_GET_ITEM(arguments, I))...};
        using R = typename library::signature<F>::result;
        if constexpr (std::is_void_v<R>) {
            f_(std::get<I>(values)...);
            Py_RETURN_NONE;
        } else
            return value<std::decay_t<R>>::to(f_(std::get<I>(values)...));
    }
    F f_;
};
} // namespace python
} // namespace taper

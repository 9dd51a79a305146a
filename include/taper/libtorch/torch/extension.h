/* C++ extensions of Python: tensors as arguments and results of pybind11's functions, and operators (torch/library.h).
 * pybind11 is the user's package. */
#pragma once
#ifndef TORCH_API_INCLUDE_EXTENSION_H
#define TORCH_API_INCLUDE_EXTENSION_H
#endif
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/functional.h>
#include <torch/torch.h>
#include <torch/library.h>

namespace py = pybind11;
namespace pybind11 {
namespace detail {
template <class T> struct taper_caster {
    bool load(handle source, bool) {
        if (!accepts(source)) return false;
        try {
            value = taper::python::value<T>::from(source.ptr());
        } catch (const taper::python::Failed &) {
            PyErr_Clear();
            return false;
        }
        return true;
    }
    static handle cast(const T &v, return_value_policy, handle) { return taper::python::value<T>::to(v); }
    template <class V> using cast_op_type = movable_cast_op_type<V>;
    operator T *() { return &*value; }
    operator T &() { return *value; }
    operator T &&() && { return std::move(*value); }

  private:
    static bool accepts(handle source) {
        if constexpr (std::is_same_v<T, taper::Tensor>)
            return source.is_none() || taper::python::api().tensor(source.ptr());
        else if constexpr (std::is_same_v<T, taper::Scalar>)
            return PyNumber_Check(source.ptr()) && !taper::python::api().tensor(source.ptr());
        else
            return true;
    }
    std::optional<T> value;
};
template <> struct type_caster<taper::Tensor> : taper_caster<taper::Tensor> {
    static constexpr auto name = const_name("torch.Tensor");
};
template <> struct type_caster<taper::Scalar> : taper_caster<taper::Scalar> {
    static constexpr auto name = const_name("Scalar");
};
template <> struct type_caster<taper::ScalarType> : taper_caster<taper::ScalarType> {
    static constexpr auto name = const_name("torch.dtype");
};
template <> struct type_caster<taper::Device> : taper_caster<taper::Device> {
    static constexpr auto name = const_name("torch.device");
};
template <class T> struct type_caster<taper::ArrayRef<T>> {
    bool load(handle source, bool convert) {
        if (!held.load(source, convert)) return false;
        list = static_cast<std::vector<T> &>(held);
        return true;
    }
    static handle cast(taper::ArrayRef<T> v, return_value_policy policy, handle parent) {
        return list_caster<std::vector<T>, T>::cast(v.vec(), policy, parent);
    }
    static constexpr auto name = const_name("List[") + make_caster<T>::name + const_name("]");
    template <class V> using cast_op_type = movable_cast_op_type<V>;
    operator taper::ArrayRef<T> *() { return &list; }
    operator taper::ArrayRef<T> &() { return list; }
    operator taper::ArrayRef<T> &&() && { return std::move(list); }

  private:
    make_caster<std::vector<T>> held;
    taper::ArrayRef<T> list;
};
} // namespace detail
} // namespace pybind11

/* Taper's exceptions as Python's, in every module that includes this header. */
namespace taper {
namespace python {
inline bool register_translator() {
    pybind11::register_local_exception_translator([](std::exception_ptr e) {
        try {
            if (e) std::rethrow_exception(e);
        } catch (const Error &) {
            translate();
        }
    });
    return true;
}
static const bool translator_registered [[maybe_unused]] = register_translator();
} // namespace python
} // namespace taper

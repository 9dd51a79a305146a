/* LibTorch's names for Taper's C++ face: namespaces torch, at, c10 and caffe2 hold what taper holds. */
#pragma once
#include <taper/cpp/checks.hpp>
#include <taper/cpp/intrusive.hpp>
#include <taper/cpp/macros.hpp>
#include <cassert>
#include <climits>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <unordered_set>
#include <taper/taper.hpp>

#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 15
#define TORCH_VERSION_PATCH 0
#define TORCH_VERSION       "2.15.0"
#define TORCH_API
#define TORCH_CUDA_CPP_API
#define C10_API
#define C10_EXPORT
#define AT_API
#define CAFFE2_API

/* LibTorch lets programs print the library's containers of anything. */
namespace std {
template <class First, class Second> ostream &operator<<(ostream &out, const pair<First, Second> &p);
template <class... T> inline ostream &operator<<(ostream &out, const vector<T...> &items) {
    return taper::detail::put_items(out, items);
}
template <class... T> inline ostream &operator<<(ostream &out, const map<T...> &items) {
    return taper::detail::put_items(out, items);
}
template <class... T> inline ostream &operator<<(ostream &out, const set<T...> &items) {
    return taper::detail::put_items(out, items);
}
template <class First, class Second> inline ostream &operator<<(ostream &out, const pair<First, Second> &p) {
    return out << '(' << p.first << ", " << p.second << ')';
}
} // namespace std

namespace c10 {
using namespace taper;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::string_view;
template <class T> using complex = std::complex<T>;
template <class T, unsigned N = 8> using SmallVector = std::vector<T>;
template <class... A> inline std::string str(const A &...parts) { return taper::detail::text(parts...); }
using DeviceType = taper::DeviceType;
using Device = taper::Device;
namespace ivalue {
using Tuple = taper::Tuple;
}
namespace impl {
using GenericDict = taper::Dict<IValue, IValue>;
using GenericList = taper::List<IValue>;
} // namespace impl
} // namespace c10

namespace caffe2 {
using TypeMeta = taper::TypeMeta;
}

namespace taper {
namespace detail {
constexpr uint64_t default_rng_seed_val = 67280421310721;
inline Generator getDefaultCPUGenerator() { return Generator::default_of(tp_device{TP_CPU, 0}); }
inline Generator createCPUGenerator(uint64_t seed = default_rng_seed_val) { return Generator::make(seed); }
} // namespace detail
} // namespace taper

namespace at {
using namespace taper;
struct CPUGeneratorImpl {};
template <class Impl> inline Generator make_generator(uint64_t seed = taper::detail::default_rng_seed_val) {
    static_assert(std::is_same_v<Impl, CPUGeneratorImpl>, "make_generator: a generator of the CPU");
    return Generator::make(seed);
}
struct Context {
    Generator defaultGenerator(Device device) const { return Generator::default_of(taper::detail::c_device(device)); }
};
inline Context globalContext() { return {}; }
using Tensor = taper::Tensor;
using TensorBase = taper::Tensor;
using c10::nullopt;
using c10::optional;
using c10::str;
using c10::string_view;
namespace indexing = taper::indexing;
inline std::tuple<Tensor, Tensor, Tensor> _unique2(const Tensor &self, bool sorted = true, bool return_inverse = false,
                                                   bool return_counts = false) {
    return taper::unique(self, sorted, return_inverse, return_counts);
}
inline int get_thread_num() { return taper::parallel_thread(); }
inline bool hasCUDA() { return tp_device_count(TP_CUDA) > 0; }
} // namespace at

namespace torch {
using namespace taper;
using c10::nullopt;
using c10::nullopt_t;
using c10::optional;
using c10::str;
using c10::string_view;
using Tensor = taper::Tensor;
using Device = taper::Device;
using DeviceType = taper::DeviceType;
using Dtype = taper::ScalarType;
using at::_unique2;
using nn::utils::rnn::pad_sequence;
inline bool can_cast(ScalarType from, ScalarType to) {
    return tp_can_cast(static_cast<tp_dtype>(from), static_cast<tp_dtype>(to));
}
inline ScalarType promote_types(ScalarType a, ScalarType b) {
    return static_cast<ScalarType>(tp_promote_types(static_cast<tp_dtype>(a), static_cast<tp_dtype>(b)));
}
inline bool is_nonzero(const Tensor &t) { return t.is_nonzero(); }
constexpr ScalarType kU8 = ScalarType::Byte, kU16 = ScalarType::UInt16, kU32 = ScalarType::UInt32,
                     kU64 = ScalarType::UInt64, kI8 = ScalarType::Char, kI16 = ScalarType::Short,
                     kI32 = ScalarType::Int, kI64 = ScalarType::Long, kF16 = ScalarType::Half, kF32 = ScalarType::Float,
                     kF64 = ScalarType::Double;
/* Aliases, so that "using namespace torch; nn::Linear" finds one namespace and not two. */
namespace indexing = taper::indexing;
namespace linalg = taper::linalg;
namespace fft = taper::fft;
namespace special = taper::special;
namespace autograd = taper::autograd;
namespace data = taper::data;
namespace nn = taper::nn;
namespace optim = taper::optim;
namespace serialize = taper::serialize;
namespace jit = taper::jit;
namespace cuda {
inline size_t device_count() { return static_cast<size_t>(tp_device_count(TP_CUDA)); }
inline bool is_available() { return device_count() > 0; }
inline bool cudnn_is_available() { return is_available(); }
inline void manual_seed(uint64_t seed) { tp_generator_seed(tp_default_generator_of(tp_device{TP_CUDA, 0}), seed); }
inline void manual_seed_all(uint64_t seed) {
    for (int16_t i = 0; i < tp_device_count(TP_CUDA); i++)
        tp_generator_seed(tp_default_generator_of(tp_device{TP_CUDA, i}), seed);
}
inline void synchronize(int64_t index = -1) {
    taper::detail::check(tp_synchronize(tp_device{TP_CUDA, static_cast<int16_t>(index < 0 ? 0 : index)}));
}
} // namespace cuda
namespace xpu {
inline size_t device_count() { return static_cast<size_t>(tp_device_count(TP_XPU)); }
inline bool is_available() { return device_count() > 0; }
} // namespace xpu
using c10::IntArrayRef;
/* ExpandingArray<2>: one number for all dims, or one for each. */
template <size_t D, class T = int64_t> using ExpandingArray = taper::SizesOf<D>;
} // namespace torch

#define TORCH_MODULE(Name)                TAPER_MODULE(Name)
#define TORCH_MODULE_IMPL(Name, ImplType) TAPER_MODULE_IMPL(Name, ImplType)
#define TORCH_ARG(T, name)                                          \
  public:                                                           \
    inline auto name(const T &new_##name)->decltype(*this) {        \
        this->name##_ = new_##name;                                 \
        return *this;                                               \
    }                                                               \
    inline auto name(T &&new_##name)->decltype(*this) {             \
        this->name##_ = std::move(new_##name);                      \
        return *this;                                               \
    }                                                               \
    inline const T &name() const noexcept { return this->name##_; } \
    inline T &name() noexcept { return this->name##_; }             \
                                                                    \
  private:                                                          \
    T name##_

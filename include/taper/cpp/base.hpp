/* What the C++ face stands on: errors, lists that look at memory, numbers, dtypes, devices, options of new tensors. */
#pragma once
#include <taper/taper.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/* A failure throws taper::Error. Without exceptions (-fno-exceptions, or TAPER_NO_EXCEPTIONS defined before the header)
 * the result is an undefined tensor and the error stays, as in C: taper::error() tells. */
#if !defined(TAPER_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define TAPER_NO_EXCEPTIONS
#endif

namespace taper {
using std::nullopt;
using std::optional;

class Tensor;

// ---- Errors ----
class Error : public std::exception {
  public:
    Error() = default;
    explicit Error(std::string message, tp_code code = TP_ERR_RUNTIME) : message_(std::move(message)), code_(code) {}
    const char *what() const noexcept override { return message_.c_str(); }
    const char *what_without_backtrace() const noexcept { return message_.c_str(); }
    const std::string &msg() const { return message_; }
    tp_code code() const { return code_; }

  private:
    std::string message_;
    tp_code code_ = TP_ERR_RUNTIME;
};
#define TAPER_ERROR_(Name)      \
    class Name : public Error { \
      public:                   \
        using Error::Error;     \
    };
TAPER_ERROR_(IndexError)
TAPER_ERROR_(ValueError)
TAPER_ERROR_(TypeError)
TAPER_ERROR_(NotImplementedError)
TAPER_ERROR_(OutOfMemoryError)
TAPER_ERROR_(LinAlgError)
#undef TAPER_ERROR_

/* The message of the error that stands, or an empty text. */
inline std::string error() {
    const char *message = tp_error();
    return message ? message : "";
}

namespace detail {
#ifndef TAPER_NO_EXCEPTIONS
/* An exception of the program's own that left a callback of the library. It goes on where the library was called. */
inline std::exception_ptr &stashed() {
    thread_local std::exception_ptr exception;
    return exception;
}
[[noreturn]] inline void raise(tp_code code, std::string message) {
    switch (code) {
    case TP_ERR_INDEX: throw IndexError(std::move(message), code);
    case TP_ERR_VALUE: throw ValueError(std::move(message), code);
    case TP_ERR_TYPE: throw TypeError(std::move(message), code);
    case TP_ERR_MISSING: throw NotImplementedError(std::move(message), code);
    case TP_ERR_MEMORY: throw OutOfMemoryError(std::move(message), code);
    case TP_ERR_LINALG: throw LinAlgError(std::move(message), code);
    default: throw Error(std::move(message), code);
    }
}
/* Throws the error that stands, and clears it. */
[[noreturn]] inline void fail() {
    const tp_code code = tp_error_code();
    std::string message = tp_error() ? tp_error() : "taper: a call failed without a message";
    tp_error_clear();
    if (stashed()) std::rethrow_exception(std::exchange(stashed(), nullptr));
    raise(code, std::move(message));
}
#else
inline void raise(tp_code code, const std::string &message) { tp_error_leave(code, message.c_str()); }
inline void fail() {}
#endif

/* Runs a callback's body. What it throws is kept, and stands as an error until the library returns. */
template <class F> inline bool guarded(F &&body) noexcept {
#ifndef TAPER_NO_EXCEPTIONS
    try {
        body();
        return true;
    } catch (const std::exception &e) {
        stashed() = std::current_exception();
        tp_error_leave(TP_ERR_RUNTIME, e.what());
    } catch (...) {
        stashed() = std::current_exception();
        tp_error_leave(TP_ERR_RUNTIME, "an exception left a callback");
    }
    return false;
#else
    body();
    return tp_ok();
#endif
}
inline void check(bool good) {
    if (__builtin_expect(!good, 0)) fail();
}
template <class... A> inline std::string text(const A &...parts) {
    std::ostringstream stream;
    (void)(stream << ... << parts);
    return stream.str();
}
} // namespace detail

// ---- Lists that look at memory ----
template <class T> class ArrayRef {
  public:
    using value_type = T;
    using iterator = const T *;
    using const_iterator = const T *;
    using size_type = size_t;
    constexpr ArrayRef() = default;
    constexpr ArrayRef(const T &one) : data_(&one), size_(1) {}
    constexpr ArrayRef(const T *data, size_t size) : data_(data), size_(size) {}
    constexpr ArrayRef(const T *begin, const T *end) : data_(begin), size_(static_cast<size_t>(end - begin)) {}
    template <class A> ArrayRef(const std::vector<T, A> &v) : data_(v.data()), size_(v.size()) {}
    template <size_t N> constexpr ArrayRef(const std::array<T, N> &v) : data_(v.data()), size_(N) {}
    template <size_t N> constexpr ArrayRef(const T (&v)[N]) : data_(v), size_(N) {}
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 9
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
    /* The list lives until the end of the statement that it stands in, as a call's argument does. */
    constexpr ArrayRef(const std::initializer_list<T> &v)
        : data_(v.begin() == v.end() ? static_cast<const T *>(nullptr) : v.begin()), size_(v.size()) {}
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 9
#pragma GCC diagnostic pop
#endif
    /* Other containers with data() and size(): small vectors, spans. */
    template <class C,
              class = std::enable_if_t<!std::is_same_v<std::decay_t<C>, std::vector<T>> &&
                                       std::is_convertible_v<decltype(std::declval<const C &>().data()), const T *> &&
                                       std::is_convertible_v<decltype(std::declval<const C &>().size()), size_t>>>
    ArrayRef(const C &c) : data_(c.data()), size_(c.size()) {}

    constexpr const T *begin() const { return data_; }
    constexpr const T *end() const { return data_ + size_; }
    constexpr const T *cbegin() const { return begin(); }
    constexpr const T *cend() const { return end(); }
    constexpr const T *data() const { return data_; }
    constexpr size_t size() const { return size_; }
    constexpr bool empty() const { return !size_; }
    constexpr const T &operator[](size_t i) const { return data_[i]; }
    const T &at(size_t i) const {
        if (i >= size_) detail::raise(TP_ERR_INDEX, detail::text("ArrayRef: index ", i, " of a list of ", size_));
        return data_[i];
    }
    constexpr const T &front() const { return data_[0]; }
    constexpr const T &back() const { return data_[size_ - 1]; }
    ArrayRef slice(size_t from, size_t n) const { return ArrayRef(data_ + from, n); }
    ArrayRef slice(size_t from) const { return ArrayRef(data_ + from, size_ - from); }
    std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
    bool equals(ArrayRef other) const {
        if (size_ != other.size_) return false;
        for (size_t i = 0; i < size_; i++)
            if (!(data_[i] == other.data_[i])) return false;
        return true;
    }

  private:
    const T *data_ = nullptr;
    size_t size_ = 0;
};
template <class T> inline bool operator==(ArrayRef<T> a, ArrayRef<T> b) { return a.equals(b); }
template <class T> inline bool operator!=(ArrayRef<T> a, ArrayRef<T> b) { return !a.equals(b); }
template <class T> inline bool operator==(const std::vector<T> &a, ArrayRef<T> b) { return ArrayRef<T>(a).equals(b); }
template <class T> inline bool operator==(ArrayRef<T> a, const std::vector<T> &b) { return a.equals(b); }
template <class T> inline bool operator!=(const std::vector<T> &a, ArrayRef<T> b) { return !ArrayRef<T>(a).equals(b); }
template <class T> inline bool operator!=(ArrayRef<T> a, const std::vector<T> &b) { return !a.equals(b); }
template <class T> inline std::ostream &operator<<(std::ostream &out, ArrayRef<T> list) {
    out << "[";
    for (size_t i = 0; i < list.size(); i++) out << (i ? ", " : "") << list[i];
    return out << "]";
}
using IntArrayRef = ArrayRef<int64_t>;
using TensorList = ArrayRef<Tensor>;

/* A list that may be missing. */
template <class T> class OptionalArrayRef {
  public:
    constexpr OptionalArrayRef() = default;
    constexpr OptionalArrayRef(std::nullopt_t) {}
    OptionalArrayRef(ArrayRef<T> list) : list_(list), given_(true) {}
    OptionalArrayRef(const T &one) : list_(one), given_(true) {}
    OptionalArrayRef(const std::initializer_list<T> &v) : list_(v), given_(true) {}
    OptionalArrayRef(const std::vector<T> &v) : list_(v), given_(true) {}
    template <class U,
              class = std::enable_if_t<std::is_convertible_v<const U &, ArrayRef<T>> && !std::is_convertible_v<U, T>>>
    OptionalArrayRef(const U &v) : list_(v), given_(true) {}
    template <class U, class = std::enable_if_t<std::is_convertible_v<const U &, ArrayRef<T>>>>
    OptionalArrayRef(const std::optional<U> &v) : given_(v.has_value()) {
        if (v) list_ = ArrayRef<T>(*v);
    }
    bool has_value() const { return given_; }
    explicit operator bool() const { return given_; }
    ArrayRef<T> value() const { return list_; }
    const ArrayRef<T> &operator*() const { return list_; }
    const ArrayRef<T> *operator->() const { return &list_; }

  private:
    ArrayRef<T> list_;
    bool given_ = false;
};
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;

/* Sizes that an options struct keeps: one number, or one for each dim. */
class Sizes {
  public:
    Sizes() = default;
    template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
    Sizes(T one) : v_(1, static_cast<int64_t>(one)) {}
    Sizes(std::initializer_list<int64_t> v) : v_(v) {}
    Sizes(std::vector<int64_t> v) : v_(std::move(v)) {}
    Sizes(IntArrayRef v) : v_(v.begin(), v.end()) {}
    template <size_t N> Sizes(const std::array<int64_t, N> &v) : v_(v.begin(), v.end()) {}
    operator IntArrayRef() const { return v_; }
    size_t size() const { return v_.size(); }
    int64_t operator[](size_t i) const { return v_[v_.size() == 1 ? 0 : i]; }
    int64_t &at(size_t i) { return v_.at(i); }
    const std::vector<int64_t> &operator*() const { return v_; }
    const std::vector<int64_t> *operator->() const { return &v_; }
    std::vector<int64_t>::const_iterator begin() const { return v_.begin(); }
    std::vector<int64_t>::const_iterator end() const { return v_.end(); }

  protected:
    std::vector<int64_t> v_;
};
/* Sizes of D dims: one number stands for each of them. They are shown as LibTorch shows them. */
template <size_t D> class SizesOf : public Sizes {
  public:
    SizesOf() = default;
    template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
    SizesOf(T one) : Sizes(std::vector<int64_t>(D, static_cast<int64_t>(one))) {}
    SizesOf(std::initializer_list<int64_t> v) : SizesOf(Sizes(v)) {}
    SizesOf(std::vector<int64_t> v) : SizesOf(Sizes(std::move(v))) {}
    SizesOf(IntArrayRef v) : SizesOf(Sizes(v)) {}
    template <size_t N> SizesOf(const std::array<int64_t, N> &v) : SizesOf(Sizes(v)) {}
    SizesOf(const Sizes &sizes) : Sizes(sizes) {
        if (size() == 1) v_.assign(D, v_[0]);
    }
    friend std::ostream &operator<<(std::ostream &out, const SizesOf &sizes) {
        return D == 1 && sizes.size() == 1 ? out << sizes[0] : out << IntArrayRef(sizes);
    }
};

/* Sizes that may be missing: braces, numbers and vectors are taken as Sizes takes them. */
class OptionalSizes : public std::optional<Sizes> {
  public:
    OptionalSizes() = default;
    OptionalSizes(std::nullopt_t) {}
    OptionalSizes(std::initializer_list<int64_t> v) : std::optional<Sizes>(Sizes(v)) {}
    template <class T, class = std::enable_if_t<std::is_convertible_v<T, Sizes>>>
    OptionalSizes(const T &v) : std::optional<Sizes>(Sizes(v)) {}
    template <class T, class = std::enable_if_t<std::is_convertible_v<T, Sizes>>>
    OptionalSizes(const std::optional<T> &v) {
        if (v) emplace(*v);
    }
};

/* A member of a struct of options, with its setter, which gives the struct back, and its getter. */
#define TAPER_OPTION_(Options, type, name, initial) \
    Options &name(type value) {                     \
        name##_ = std::move(value);                 \
        return *this;                               \
    }                                               \
    const type &name() const { return name##_; }    \
    type name##_ = initial;

// ---- Words that choose: kMean, kSame, kReLU ----
struct Choice {
    const char *text;
    constexpr operator const char *() const { return text; }
};
#define TAPER_CHOICE_(name, text) inline constexpr Choice k##name{text};
TAPER_CHOICE_(None, "none")
TAPER_CHOICE_(Mean, "mean")
TAPER_CHOICE_(Sum, "sum")
TAPER_CHOICE_(BatchMean, "batchmean")
TAPER_CHOICE_(Max, "max")
TAPER_CHOICE_(Same, "same")
TAPER_CHOICE_(Valid, "valid")
TAPER_CHOICE_(Zeros, "zeros")
TAPER_CHOICE_(Constant, "constant")
TAPER_CHOICE_(Reflect, "reflect")
TAPER_CHOICE_(Replicate, "replicate")
TAPER_CHOICE_(Circular, "circular")
TAPER_CHOICE_(Border, "border")
TAPER_CHOICE_(Reflection, "reflection")
TAPER_CHOICE_(Nearest, "nearest")
TAPER_CHOICE_(NearestExact, "nearest-exact")
TAPER_CHOICE_(Linear, "linear")
TAPER_CHOICE_(Bilinear, "bilinear")
TAPER_CHOICE_(Bicubic, "bicubic")
TAPER_CHOICE_(Trilinear, "trilinear")
TAPER_CHOICE_(Area, "area")
TAPER_CHOICE_(ReLU, "relu")
TAPER_CHOICE_(LeakyReLU, "leaky_relu")
TAPER_CHOICE_(GELU, "gelu")
TAPER_CHOICE_(Tanh, "tanh")
TAPER_CHOICE_(Sigmoid, "sigmoid")
TAPER_CHOICE_(SiLU, "silu")
TAPER_CHOICE_(Mish, "mish")
TAPER_CHOICE_(FanIn, "fan_in")
TAPER_CHOICE_(FanOut, "fan_out")
TAPER_CHOICE_(Conv1D, "conv1d")
TAPER_CHOICE_(Conv2D, "conv2d")
TAPER_CHOICE_(Conv3D, "conv3d")
TAPER_CHOICE_(ConvTranspose1D, "conv_transpose1d")
TAPER_CHOICE_(ConvTranspose2D, "conv_transpose2d")
TAPER_CHOICE_(ConvTranspose3D, "conv_transpose3d")
#undef TAPER_CHOICE_
namespace Reduction {
enum Reduction { None, Mean, Sum, END };
}

/* A text argument, or one of the choices; it may be missing. */
class Text {
  public:
    Text() = default;
    Text(std::nullopt_t) {}
    Text(const char *text) : text_(text ? text : ""), given_(text != nullptr) {}
    Text(const Choice &choice) : Text(choice.text) {}
    Text(const std::string &text) : text_(text), given_(true) {}
    Text(std::string_view text) : text_(text), given_(true) {}
    Text(const std::optional<std::string> &text) : text_(text.value_or("")), given_(text.has_value()) {}
    Text(const std::optional<std::string_view> &text) : text_(text.value_or("")), given_(text.has_value()) {}
    Text(Reduction::Reduction r) : Text(r == Reduction::None ? "none" : r == Reduction::Mean ? "mean" : "sum") {}
    bool given() const { return given_; }
    const char *c_str() const { return given_ ? text_.c_str() : nullptr; }
    const std::string &str() const { return text_; }
    bool operator==(const char *other) const { return given_ && text_ == other; }
    bool operator!=(const char *other) const { return !(*this == other); }

  private:
    std::string text_;
    bool given_ = false;
};

// ---- 16-bit numbers: storage that converts to float and back ----
struct Half {
    uint16_t x = 0;
    struct from_bits_t {};
    static constexpr from_bits_t from_bits() { return {}; }
    Half() = default;
    constexpr Half(uint16_t bits, from_bits_t) : x(bits) {}
    Half(float value) {
        uint32_t f;
        __builtin_memcpy(&f, &value, 4);
        const uint32_t sign = (f >> 16) & 0x8000, mantissa = f & 0x7fffff;
        const int exponent = static_cast<int>((f >> 23) & 0xff) - 112;
        if (exponent >= 31) {
            const bool nan = ((f >> 23) & 0xff) == 255 && mantissa;
            x = static_cast<uint16_t>(sign | 0x7c00 | (nan ? 0x200 : 0));
        } else if (exponent <= 0) {
            if (exponent < -10) {
                x = static_cast<uint16_t>(sign);
                return;
            }
            const uint32_t full = mantissa | 0x800000;
            const int shift = 14 - exponent;
            uint32_t half = full >> shift;
            const uint32_t rest = full & ((1u << shift) - 1), middle = 1u << (shift - 1);
            if (rest > middle || (rest == middle && (half & 1))) half++;
            x = static_cast<uint16_t>(sign | half);
        } else {
            uint32_t half = (static_cast<uint32_t>(exponent) << 10) | (mantissa >> 13);
            const uint32_t rest = mantissa & 0x1fff;
            if (rest > 0x1000 || (rest == 0x1000 && (half & 1))) half++;
            x = static_cast<uint16_t>(sign | half);
        }
    }
    operator float() const {
        const uint32_t sign = static_cast<uint32_t>(x & 0x8000) << 16;
        uint32_t exponent = (x >> 10) & 0x1f, mantissa = x & 0x3ff, f;
        if (exponent == 31)
            f = sign | 0x7f800000 | (mantissa << 13);
        else if (exponent)
            f = sign | ((exponent + 112) << 23) | (mantissa << 13);
        else {
            const float small = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
            __builtin_memcpy(&f, &small, 4);
            f |= sign;
        }
        float value;
        __builtin_memcpy(&value, &f, 4);
        return value;
    }
};
struct BFloat16 {
    uint16_t x = 0;
    struct from_bits_t {};
    static constexpr from_bits_t from_bits() { return {}; }
    BFloat16() = default;
    constexpr BFloat16(uint16_t bits, from_bits_t) : x(bits) {}
    BFloat16(float value) {
        uint32_t f;
        __builtin_memcpy(&f, &value, 4);
        x = value != value ? static_cast<uint16_t>(0x7fc0)
                           : static_cast<uint16_t>((f + 0x7fff + ((f >> 16) & 1)) >> 16);
    }
    operator float() const {
        const uint32_t f = static_cast<uint32_t>(x) << 16;
        float value;
        __builtin_memcpy(&value, &f, 4);
        return value;
    }
};
#define TAPER_16_BITS_(T)                                                              \
    inline T operator+(T a, T b) { return T(float(a) + float(b)); }                    \
    inline T operator-(T a, T b) { return T(float(a) - float(b)); }                    \
    inline T operator*(T a, T b) { return T(float(a) * float(b)); }                    \
    inline T operator/(T a, T b) { return T(float(a) / float(b)); }                    \
    inline T operator-(T a) { return T(-float(a)); }                                   \
    inline T &operator+=(T &a, T b) { return a = a + b; }                              \
    inline T &operator-=(T &a, T b) { return a = a - b; }                              \
    inline T &operator*=(T &a, T b) { return a = a * b; }                              \
    inline T &operator/=(T &a, T b) { return a = a / b; }                              \
    inline float operator+(T a, float b) { return float(a) + b; }                      \
    inline float operator+(float a, T b) { return a + float(b); }                      \
    inline float operator-(T a, float b) { return float(a) - b; }                      \
    inline float operator-(float a, T b) { return a - float(b); }                      \
    inline float operator*(T a, float b) { return float(a) * b; }                      \
    inline float operator*(float a, T b) { return a * float(b); }                      \
    inline float operator/(T a, float b) { return float(a) / b; }                      \
    inline float operator/(float a, T b) { return a / float(b); }                      \
    inline float &operator+=(float &a, T b) { return a += float(b); }                  \
    inline T operator+(T a, int b) { return T(float(a) + static_cast<float>(b)); }     \
    inline T operator-(T a, int b) { return T(float(a) - static_cast<float>(b)); }     \
    inline T operator*(T a, int b) { return T(float(a) * static_cast<float>(b)); }     \
    inline T operator/(T a, int b) { return T(float(a) / static_cast<float>(b)); }     \
    inline T operator+(T a, int64_t b) { return T(float(a) + static_cast<float>(b)); } \
    inline T operator-(T a, int64_t b) { return T(float(a) - static_cast<float>(b)); } \
    inline T operator*(T a, int64_t b) { return T(float(a) * static_cast<float>(b)); } \
    inline T operator/(T a, int64_t b) { return T(float(a) / static_cast<float>(b)); } \
    inline double operator+(T a, double b) { return double(float(a)) + b; }            \
    inline double operator+(double a, T b) { return a + double(float(b)); }            \
    inline T operator+(int a, T b) { return T(static_cast<float>(a) + float(b)); }     \
    inline T operator+(int64_t a, T b) { return T(static_cast<float>(a) + float(b)); } \
    inline double operator-(T a, double b) { return double(float(a)) - b; }            \
    inline double operator-(double a, T b) { return a - double(float(b)); }            \
    inline T operator-(int a, T b) { return T(static_cast<float>(a) - float(b)); }     \
    inline T operator-(int64_t a, T b) { return T(static_cast<float>(a) - float(b)); } \
    inline double operator*(T a, double b) { return double(float(a)) * b; }            \
    inline double operator*(double a, T b) { return a * double(float(b)); }            \
    inline T operator*(int a, T b) { return T(static_cast<float>(a) * float(b)); }     \
    inline T operator*(int64_t a, T b) { return T(static_cast<float>(a) * float(b)); } \
    inline double operator/(T a, double b) { return double(float(a)) / b; }            \
    inline double operator/(double a, T b) { return a / double(float(b)); }            \
    inline T operator/(int a, T b) { return T(static_cast<float>(a) / float(b)); }     \
    inline T operator/(int64_t a, T b) { return T(static_cast<float>(a) / float(b)); } \
    inline std::ostream &operator<<(std::ostream &out, T a) { return out << float(a); }
TAPER_16_BITS_(Half)
TAPER_16_BITS_(BFloat16)
#undef TAPER_16_BITS_

// ---- Dtypes ----
enum class ScalarType : int8_t {
    Undefined = TP_NO_DTYPE,
    Bool = TP_BOOL,
    Byte = TP_UINT8,
    Char = TP_INT8,
    Short = TP_INT16,
    Int = TP_INT32,
    Long = TP_INT64,
    Half = TP_FLOAT16,
    BFloat16 = TP_BFLOAT16,
    Float = TP_FLOAT32,
    Double = TP_FLOAT64,
    ComplexHalf = TP_COMPLEX32,
    ComplexFloat = TP_COMPLEX64,
    ComplexDouble = TP_COMPLEX128,
    UInt16 = TP_UINT16,
    UInt32 = TP_UINT32,
    UInt64 = TP_UINT64,
    Float8_e4m3fn = TP_FLOAT8_E4M3FN,
    Float8_e5m2 = TP_FLOAT8_E5M2,
    Float8_e4m3fnuz = TP_FLOAT8_E4M3FNUZ,
    Float8_e5m2fnuz = TP_FLOAT8_E5M2FNUZ,
    QInt8 = TP_QINT8,
    QUInt8 = TP_QUINT8,
    QInt32 = TP_QINT32,
    NumOptions = TP_DTYPE_COUNT
};
using Dtype = ScalarType;
inline constexpr ScalarType kBool = ScalarType::Bool, kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte,
                            kChar = ScalarType::Char, kInt8 = ScalarType::Char, kShort = ScalarType::Short,
                            kInt16 = ScalarType::Short, kInt = ScalarType::Int, kInt32 = ScalarType::Int,
                            kLong = ScalarType::Long, kInt64 = ScalarType::Long, kHalf = ScalarType::Half,
                            kFloat16 = ScalarType::Half, kBFloat16 = ScalarType::BFloat16, kFloat = ScalarType::Float,
                            kFloat32 = ScalarType::Float, kDouble = ScalarType::Double, kFloat64 = ScalarType::Double,
                            kComplexHalf = ScalarType::ComplexHalf, kComplexFloat = ScalarType::ComplexFloat,
                            kComplex64 = ScalarType::ComplexFloat, kComplexDouble = ScalarType::ComplexDouble,
                            kComplex128 = ScalarType::ComplexDouble, kUInt16 = ScalarType::UInt16,
                            kUInt32 = ScalarType::UInt32, kUInt64 = ScalarType::UInt64,
                            kFloat8_e4m3fn = ScalarType::Float8_e4m3fn, kFloat8_e5m2 = ScalarType::Float8_e5m2;
inline const char *toString(ScalarType t) {
    return t == ScalarType::Undefined ? "Undefined" : tp_dtype_word(static_cast<tp_dtype>(t));
}
inline std::ostream &operator<<(std::ostream &out, ScalarType t) { return out << toString(t); }
inline size_t elementSize(ScalarType t) { return static_cast<size_t>(tp_dtype_size(static_cast<tp_dtype>(t))); }
inline bool isFloatingType(ScalarType t) { return tp_dtype_is_floating(static_cast<tp_dtype>(t)); }
inline bool isComplexType(ScalarType t) { return tp_dtype_is_complex(static_cast<tp_dtype>(t)); }
inline bool isIntegralType(ScalarType t, bool include_bool) {
    return tp_dtype_is_integral(static_cast<tp_dtype>(t)) || (include_bool && t == ScalarType::Bool);
}
inline ScalarType promoteTypes(ScalarType a, ScalarType b) {
    const tp_dtype dtype = tp_promote_types(static_cast<tp_dtype>(a), static_cast<tp_dtype>(b));
    detail::check(dtype != TP_NO_DTYPE);
    return static_cast<ScalarType>(dtype);
}
inline ScalarType toComplexType(ScalarType t) {
    return static_cast<ScalarType>(tp_dtype_to_complex(static_cast<tp_dtype>(t)));
}

/* The dtype of a C++ type. */
template <class T> struct CppTypeToScalarType;
#define TAPER_TYPES_(_)                    \
    _(bool, Bool)                          \
    _(uint8_t, Byte)                       \
    _(int8_t, Char)                        \
    _(int16_t, Short)                      \
    _(int, Int)                            \
    _(int64_t, Long)                       \
    _(Half, Half)                          \
    _(BFloat16, BFloat16)                  \
    _(float, Float)                        \
    _(double, Double)                      \
    _(std::complex<float>, ComplexFloat)   \
    _(std::complex<double>, ComplexDouble) \
    _(uint16_t, UInt16)                    \
    _(uint32_t, UInt32)                    \
    _(uint64_t, UInt64)
#define TAPER_TYPE_(T, name)                                    \
    template <> struct CppTypeToScalarType<T> {                 \
        static constexpr ScalarType value = ScalarType::name;   \
        constexpr operator ScalarType() const { return value; } \
    };
TAPER_TYPES_(TAPER_TYPE_)
#undef TAPER_TYPE_
template <> struct CppTypeToScalarType<long long> { static constexpr ScalarType value = ScalarType::Long; };

/* What x.dtype() gives. */
class TypeMeta {
  public:
    constexpr TypeMeta() = default;
    constexpr TypeMeta(ScalarType t) : type_(t) {}
    constexpr operator ScalarType() const { return type_; }
    constexpr ScalarType toScalarType() const { return type_; }
    size_t itemsize() const { return elementSize(type_); }
    std::string_view name() const { return tp_dtype_name(static_cast<tp_dtype>(type_)); }
    template <class T> static constexpr TypeMeta Make() { return TypeMeta(CppTypeToScalarType<T>::value); }
    template <class T> bool Match() const { return type_ == CppTypeToScalarType<T>::value; }
    friend constexpr bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
    friend constexpr bool operator!=(TypeMeta a, TypeMeta b) { return a.type_ != b.type_; }
    friend constexpr bool operator==(TypeMeta a, ScalarType b) { return a.type_ == b; }
    friend constexpr bool operator!=(TypeMeta a, ScalarType b) { return a.type_ != b; }
    friend constexpr bool operator==(ScalarType a, TypeMeta b) { return a == b.type_; }
    friend constexpr bool operator!=(ScalarType a, TypeMeta b) { return a != b.type_; }
    friend std::ostream &operator<<(std::ostream &out, TypeMeta t) {
        switch (t.type_) {
        case ScalarType::Float: return out << "float";
        case ScalarType::Double: return out << "double";
        case ScalarType::Int: return out << "int";
        case ScalarType::Long: return out << "long int";
        case ScalarType::Short: return out << "short int";
        case ScalarType::Byte: return out << "unsigned char";
        case ScalarType::Char: return out << "signed char";
        case ScalarType::Bool: return out << "bool";
        case ScalarType::Half: return out << "c10::Half";
        case ScalarType::BFloat16: return out << "c10::BFloat16";
        case ScalarType::ComplexFloat: return out << "c10::complex<float>";
        case ScalarType::ComplexDouble: return out << "c10::complex<double>";
        default: return out << t.name();
        }
    }

  private:
    ScalarType type_ = ScalarType::Undefined;
};
template <class T> constexpr ScalarType typeOf() { return CppTypeToScalarType<T>::value; }
inline ScalarType typeMetaToScalarType(TypeMeta t) { return t; }
inline TypeMeta scalarTypeToTypeMeta(ScalarType t) { return t; }
inline TypeMeta get_default_dtype() { return static_cast<ScalarType>(tp_default_dtype()); }
inline void set_default_dtype(TypeMeta t) {
    detail::check(tp_set_default_dtype(static_cast<tp_dtype>(t.toScalarType())));
}

// ---- Layouts and memory formats ----
enum class Layout : int8_t { Strided, Sparse, SparseCsr, Mkldnn, SparseCsc, SparseBsr, SparseBsc, Jagged };
inline constexpr Layout kStrided = Layout::Strided, kSparse = Layout::Sparse, kSparseCsr = Layout::SparseCsr;
inline std::ostream &operator<<(std::ostream &out, Layout l) {
    return out << (l == kStrided ? "Strided" : l == kSparse ? "Sparse" : "SparseCsr");
}
enum class MemoryFormat : int8_t {
    Preserve = TP_PRESERVE,
    Contiguous = TP_CONTIGUOUS,
    ChannelsLast = TP_CHANNELS_LAST,
    ChannelsLast3d = TP_CHANNELS_LAST_3D
};
inline std::ostream &operator<<(std::ostream &out, MemoryFormat f) {
    switch (f) {
    case MemoryFormat::Preserve: return out << "Preserve";
    case MemoryFormat::Contiguous: return out << "Contiguous";
    case MemoryFormat::ChannelsLast: return out << "ChannelsLast";
    default: return out << "ChannelsLast3d";
    }
}

// ---- Devices ----
enum class DeviceType : int8_t { CPU = TP_CPU, CUDA = TP_CUDA, XPU = TP_XPU, HIP = TP_HIP, Meta = TP_META };
using DeviceIndex = int8_t;
inline constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kXPU = DeviceType::XPU,
                            kHIP = DeviceType::HIP, kMeta = DeviceType::Meta;
inline std::string DeviceTypeName(DeviceType t, bool lower = false) {
    std::string name = tp_device_type_name(static_cast<tp_device_type>(t));
    if (!lower)
        for (char &c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    return name;
}
inline std::ostream &operator<<(std::ostream &out, DeviceType t) { return out << DeviceTypeName(t, true); }
class Device {
  public:
    using Type = DeviceType;
    Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
    Device(tp_device d)
        : type_(static_cast<DeviceType>(d.type)), index_(static_cast<DeviceIndex>(d.type == TP_CPU ? -1 : d.index)) {}
    Device(const std::string &name) {
        const size_t colon = name.find(':');
        const std::string word = name.substr(0, colon);
        for (int t = TP_CPU; t < TP_DEVICE_TYPES; t++)
            if (word == tp_device_type_name(static_cast<tp_device_type>(t))) type_ = static_cast<DeviceType>(t);
        if (type_ == DeviceType(TP_DEVICE_NONE)) detail::raise(TP_ERR_RUNTIME, "Invalid device string: '" + name + "'");
        if (colon != std::string::npos) index_ = static_cast<DeviceIndex>(std::atoi(name.c_str() + colon + 1));
    }
    Device(const char *name) : Device(std::string(name)) {}
    DeviceType type() const { return type_; }
    DeviceIndex index() const { return index_; }
    bool has_index() const { return index_ >= 0; }
    void set_index(DeviceIndex index) { index_ = index; }
    bool is_cpu() const { return type_ == kCPU; }
    bool is_cuda() const { return type_ == kCUDA; }
    bool is_xpu() const { return type_ == kXPU; }
    bool is_meta() const { return type_ == kMeta; }
    std::string str() const {
        return DeviceTypeName(type_, true) + (has_index() ? ":" + std::to_string(static_cast<int>(index_)) : "");
    }
    bool operator==(const Device &other) const { return type_ == other.type_ && index_ == other.index_; }
    bool operator!=(const Device &other) const { return !(*this == other); }
    operator tp_device() const {
        return tp_device{static_cast<int16_t>(type_), static_cast<int16_t>(index_ < 0 ? 0 : index_)};
    }
    friend std::ostream &operator<<(std::ostream &out, const Device &d) { return out << d.str(); }

  private:
    DeviceType type_ = DeviceType(TP_DEVICE_NONE);
    DeviceIndex index_ = -1;
};

// ---- Numbers that know their kind ----
class Scalar {
  public:
    Scalar() : s_(tp_int(0)) {}
    Scalar(tp_scalar s) : s_(s) {}
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> Scalar(T v) : s_(TP_SCALAR(v)) {}
    Scalar(Half v) : s_(tp_float(static_cast<float>(v))) {}
    Scalar(BFloat16 v) : s_(tp_float(static_cast<float>(v))) {}
    template <class T> Scalar(const std::complex<T> &v) : s_(TP_SCALAR(v)) {}
    operator tp_scalar() const { return s_; }
    tp_scalar c() const { return s_; }
    double toDouble() const { return tp_scalar_to_double(s_); }
    float toFloat() const { return static_cast<float>(toDouble()); }
    int64_t toLong() const { return tp_scalar_to_int(s_); }
    int toInt() const { return static_cast<int>(toLong()); }
    bool toBool() const { return tp_scalar_to_bool(s_); }
    std::complex<double> toComplexDouble() const {
        return s_.kind == TP_SCALAR_COMPLEX ? std::complex<double>(s_.as.d[0], s_.as.d[1])
                                            : std::complex<double>(toDouble(), 0);
    }
    template <class T> T to() const {
        if constexpr (std::is_same_v<T, bool>)
            return toBool();
        else if constexpr (std::is_integral_v<T>)
            return static_cast<T>(toLong());
        else if constexpr (std::is_constructible_v<T, double, double> && !std::is_arithmetic_v<T>) {
            const std::complex<double> c = toComplexDouble();
            return T(static_cast<typename T::value_type>(c.real()), static_cast<typename T::value_type>(c.imag()));
        } else
            return static_cast<T>(toDouble());
    }
    bool isFloatingPoint() const { return s_.kind == TP_SCALAR_FLOAT; }
    bool isIntegral(bool include_bool) const {
        return s_.kind == TP_SCALAR_INT || s_.kind == TP_SCALAR_UINT || (include_bool && isBoolean());
    }
    bool isComplex() const { return s_.kind == TP_SCALAR_COMPLEX; }
    bool isBoolean() const { return s_.kind == TP_SCALAR_BOOL; }
    ScalarType type() const {
        return isFloatingPoint() ? kDouble : isComplex() ? kComplexDouble : isBoolean() ? kBool : kLong;
    }
    Scalar operator-() const {
        return isComplex() ? Scalar(-toComplexDouble()) : isFloatingPoint() ? Scalar(-toDouble()) : Scalar(-toLong());
    }
    friend std::ostream &operator<<(std::ostream &out, const Scalar &s) {
        if (s.isComplex()) return out << s.toComplexDouble();
        if (s.isFloatingPoint()) return out << s.toDouble();
        if (s.isBoolean()) return out << (s.toBool() ? "true" : "false");
        return out << s.toLong();
    }

  private:
    tp_scalar s_;
};
static_assert(sizeof(Scalar) == sizeof(tp_scalar), "a list of scalars is an array of the C library's");

// ---- What a new tensor is like ----
class TensorOptions {
  public:
    TensorOptions() = default;
    TensorOptions(ScalarType t) : dtype_(t) {}
    TensorOptions(TypeMeta t) : dtype_(t.toScalarType()) {}
    TensorOptions(Device d) : device_(d) {}
    TensorOptions(DeviceType t) : device_(Device(t)) {}
    TensorOptions(Layout l) : layout_(l) {}
    TensorOptions(MemoryFormat f) : memory_format_(f) {}
    TensorOptions dtype(ScalarType t) const { return with(&TensorOptions::dtype_, std::optional<ScalarType>(t)); }
    TensorOptions dtype(const std::optional<ScalarType> &t) const { return with(&TensorOptions::dtype_, t); }
    TensorOptions dtype(TypeMeta t) const { return dtype(t.toScalarType()); }
    template <class T> TensorOptions dtype() const { return dtype(CppTypeToScalarType<T>::value); }
    TensorOptions device(std::optional<Device> d) const { return with(&TensorOptions::device_, d); }
    TensorOptions device(DeviceType t, DeviceIndex index = -1) const { return device(Device(t, index)); }
    TensorOptions device_index(DeviceIndex i) const { return device(Device(kCUDA, i)); }
    TensorOptions layout(std::optional<Layout> l) const { return with(&TensorOptions::layout_, l); }
    TensorOptions requires_grad(std::optional<bool> on) const { return with(&TensorOptions::requires_grad_, on); }
    TensorOptions pinned_memory(std::optional<bool> on) const { return with(&TensorOptions::pinned_, on); }
    TensorOptions memory_format(std::optional<MemoryFormat> f) const { return with(&TensorOptions::memory_format_, f); }
    TypeMeta dtype() const { return dtype_ ? TypeMeta(*dtype_) : get_default_dtype(); }
    Device device() const { return device_ ? *device_ : Device(tp_default_device()); }
    Layout layout() const { return layout_.value_or(kStrided); }
    bool requires_grad() const { return requires_grad_.value_or(false); }
    bool pinned_memory() const { return pinned_.value_or(false); }
    bool has_dtype() const { return dtype_.has_value(); }
    bool has_device() const { return device_.has_value(); }
    bool has_layout() const { return layout_.has_value(); }
    bool has_requires_grad() const { return requires_grad_.has_value(); }
    std::optional<TypeMeta> dtype_opt() const { return dtype_ ? std::optional<TypeMeta>(*dtype_) : std::nullopt; }
    std::optional<Device> device_opt() const { return device_; }
    std::optional<Layout> layout_opt() const { return layout_; }
    std::optional<bool> pinned_memory_opt() const { return pinned_; }
    std::optional<MemoryFormat> memory_format_opt() const { return memory_format_; }
    tp_dtype c_dtype() const { return dtype_ ? static_cast<tp_dtype>(*dtype_) : TP_NO_DTYPE; }
    tp_device c_device() const { return device_ ? static_cast<tp_device>(*device_) : tp_no_device(); }

  private:
    template <class M, class V> TensorOptions with(M member, V value) const {
        TensorOptions copy = *this;
        copy.*member = value;
        return copy;
    }
    std::optional<ScalarType> dtype_;
    std::optional<Device> device_;
    std::optional<Layout> layout_;
    std::optional<bool> requires_grad_, pinned_;
    std::optional<MemoryFormat> memory_format_;
};
inline std::ostream &operator<<(std::ostream &out, const TensorOptions &o) {
    const auto unless = [](bool given) { return given ? "" : " (default)"; };
    out << std::boolalpha << "TensorOptions(dtype=" << o.dtype() << unless(o.has_dtype());
    out << ", device=" << o.device() << unless(o.has_device());
    out << ", layout=" << o.layout() << unless(o.has_layout());
    out << ", requires_grad=" << o.requires_grad() << unless(o.has_requires_grad());
    out << ", pinned_memory=" << o.pinned_memory() << unless(o.pinned_memory_opt().has_value());
    out << ", memory_format=";
    if (o.memory_format_opt())
        out << *o.memory_format_opt();
    else
        out << "(nullopt)";
    return out << ")";
}
inline TensorOptions dtype(TypeMeta t) { return TensorOptions().dtype(t); }
inline TensorOptions dtype(ScalarType t) { return TensorOptions().dtype(t); }
template <class T> inline TensorOptions dtype() { return TensorOptions().dtype<T>(); }
inline TensorOptions device(Device d) { return TensorOptions().device(d); }
inline TensorOptions device_index(DeviceIndex i) { return TensorOptions().device_index(i); }
inline TensorOptions layout(Layout l) { return TensorOptions().layout(l); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }

// ---- Random numbers ----
class Generator {
  public:
    Generator() = default;
    /* The thread's default generator, which is nobody's to free. */
    static Generator default_of(tp_device d) {
        tp_generator *g = tp_default_generator_of(d);
        detail::check(g != nullptr);
        return Generator(std::shared_ptr<tp_generator>(g, [](tp_generator *) {}));
    }
    static Generator make(uint64_t seed) {
        tp_generator *g = tp_generator_new(seed);
        detail::check(g != nullptr);
        return Generator(std::shared_ptr<tp_generator>(g, tp_generator_free));
    }
    bool defined() const { return g_ != nullptr; }
    tp_generator *get() const { return g_.get(); }
    void set_current_seed(uint64_t seed) { tp_generator_seed(get(), seed); }
    uint64_t current_seed() const { return tp_generator_initial_seed(get()); }
    uint64_t seed() {
        uint64_t seed = 0;
        detail::check(tp_generator_seed_anew(get(), &seed));
        return seed;
    }
    /* Everything there is to know of it, 5056 bytes of uint8 as PyTorch's. */
    inline Tensor get_state() const;
    inline void set_state(const Tensor &state);
    Device device() const { return Device(kCPU); }
    /* For programs that lock a generator themselves. The library has a lock of its own. */
    std::mutex &mutex() const { return *mutex_; }
    bool operator==(const Generator &other) const { return g_ == other.g_; }
    bool operator!=(const Generator &other) const { return g_ != other.g_; }
    Generator clone() const {
        tp_generator *g = tp_generator_clone(get());
        detail::check(g != nullptr);
        return Generator(std::shared_ptr<tp_generator>(g, tp_generator_free));
    }

  private:
    explicit Generator(std::shared_ptr<tp_generator> g) : g_(std::move(g)) {}
    std::shared_ptr<tp_generator> g_;
    std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
};
inline void manual_seed(uint64_t seed) { tp_manual_seed(seed); }
inline int get_num_threads() { return tp_num_threads(); }
inline void set_num_threads(int n) { tp_set_num_threads(n); }
inline int get_num_interop_threads() { return tp_num_interop_threads(); }
inline void set_num_interop_threads(int n) { tp_set_num_interop_threads(n); }

namespace detail {
/* An argument as the C library takes it. */
inline tp_scalar c_scalar(const std::optional<Scalar> &s) { return s ? s->c() : tp_no_scalar(); }
inline int64_t c_int(const std::optional<int64_t> &v) { return v ? *v : TP_NONE; }
inline double c_float(const std::optional<double> &v) { return v ? *v : TP_NO_FLOAT; }
inline int64_t c_bool(const std::optional<bool> &v) { return v ? static_cast<int64_t>(*v) : TP_NONE; }
inline tp_ints c_ints(IntArrayRef v) { /* an empty list that was given points somewhere */
    static const int64_t nothing = 0;
    return tp_ints_view(v.data() ? v.data() : &nothing, static_cast<int64_t>(v.size()));
}
inline tp_ints c_some_ints(const OptionalIntArrayRef &v) { return v ? c_ints(*v) : tp_no_ints(); }
inline tp_floats c_floats(ArrayRef<double> v) {
    static const double nothing = 0;
    return tp_floats{v.data() ? v.data() : &nothing, static_cast<int64_t>(v.size())};
}
inline tp_floats c_some_floats(const OptionalArrayRef<double> &v) { return v ? c_floats(*v) : tp_no_floats(); }
inline tp_scalars c_scalars(ArrayRef<Scalar> v) {
    return tp_scalars{reinterpret_cast<const tp_scalar *>(v.data()), static_cast<int64_t>(v.size())};
}
inline tp_dtype c_dtype(const std::optional<ScalarType> &t) { return t ? static_cast<tp_dtype>(*t) : TP_NO_DTYPE; }
inline tp_device c_device(const std::optional<Device> &d) { return d ? static_cast<tp_device>(*d) : tp_no_device(); }
inline tp_layout c_layout(const std::optional<MemoryFormat> &f) { return f ? static_cast<tp_layout>(*f) : TP_PRESERVE; }
inline tp_generator *c_generator(const std::optional<Generator> &g) { return g ? g->get() : nullptr; }
} // namespace detail
} // namespace taper

namespace std {
#define TAPER_LIMITS_(T, digits_, digits10_, most_exponent, least_exponent, least, lowest_, most, eps, inf, nan) \
    template <> class numeric_limits<T> {                                                                        \
      public:                                                                                                    \
        static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;     \
        static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true;               \
        static constexpr bool is_iec559 = true, is_bounded = true, is_modulo = false;                            \
        static constexpr int digits = digits_, digits10 = digits10_, radix = 2, max_exponent = most_exponent,    \
                             min_exponent = least_exponent;                                                      \
        static constexpr T min() { return T(least, T::from_bits()); }                                            \
        static constexpr T lowest() { return T(lowest_, T::from_bits()); }                                       \
        static constexpr T max() { return T(most, T::from_bits()); }                                             \
        static constexpr T epsilon() { return T(eps, T::from_bits()); }                                          \
        static constexpr T infinity() { return T(inf, T::from_bits()); }                                         \
        static constexpr T quiet_NaN() { return T(nan, T::from_bits()); }                                        \
    };
TAPER_LIMITS_(taper::Half, 11, 3, 16, -13, 0x0400, 0xFBFF, 0x7BFF, 0x1400, 0x7C00, 0x7E00)
TAPER_LIMITS_(taper::BFloat16, 8, 2, 128, -125, 0x0080, 0xFF7F, 0x7F7F, 0x3C00, 0x7F80, 0x7FC0)
#undef TAPER_LIMITS_
} // namespace std

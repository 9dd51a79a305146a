/* What extensions use beside tensors: checks, a function for each dtype, loops over threads. Names are LibTorch's. */
#pragma once
#include <taper/cpp/tensor.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <numeric>
#include <thread>

// ---- Checks ----
namespace taper {
namespace detail {
template <class... A> inline std::string check_text(const char *condition, const A &...parts) {
    if constexpr (sizeof...(parts) == 0)
        return std::string("Expected ") + condition + " to be true, but got false.";
    else
        return text(parts...);
}
} // namespace detail
} // namespace taper
#define TORCH_CHECK(...)                      TAPER_CHECK_WITH_(TP_ERR_RUNTIME, __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(...)            TAPER_CHECK_WITH_(TP_ERR_RUNTIME, __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) ((void)0)
#define TORCH_CHECK_INDEX(...)                TAPER_CHECK_WITH_(TP_ERR_INDEX, __VA_ARGS__)
#define TORCH_CHECK_VALUE(...)                TAPER_CHECK_WITH_(TP_ERR_VALUE, __VA_ARGS__)
#define TORCH_CHECK_TYPE(...)                 TAPER_CHECK_WITH_(TP_ERR_TYPE, __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(...)      TAPER_CHECK_WITH_(TP_ERR_MISSING, __VA_ARGS__)
#define AT_ASSERTM(...)                       TORCH_CHECK(__VA_ARGS__)
#define AT_ASSERT(...)                        TORCH_CHECK(__VA_ARGS__)
#define AT_CHECK(...)                         TORCH_CHECK(__VA_ARGS__)
#define AT_ERROR(...)                         ::taper::detail::raise(TP_ERR_RUNTIME, ::taper::detail::text(__VA_ARGS__))

#define TORCH_WARN(...) (void)(std::cerr << ::taper::detail::text("Warning: ", __VA_ARGS__) << '\n')
#define TORCH_WARN_ONCE(...)                                      \
    do {                                                          \
        static const bool told = (TORCH_WARN(__VA_ARGS__), true); \
        (void)told;                                               \
    } while (false)
#define AT_WARN(...) TORCH_WARN(__VA_ARGS__)
/* The condition, and the rest as a message, which is made where the condition fails alone. */
#define TAPER_CHECK_WITH_(code, condition, ...)                                               \
    if (__builtin_expect(!static_cast<bool>(condition), 0)) {                                 \
        ::taper::detail::raise(code, ::taper::detail::check_text(#condition, ##__VA_ARGS__)); \
    }

#define C10_UNLIKELY(x)     __builtin_expect(static_cast<bool>(x), 0)
#define C10_LIKELY(x)       __builtin_expect(static_cast<bool>(x), 1)
#define C10_UNUSED          [[maybe_unused]]
#define C10_NODISCARD       [[nodiscard]]
#define C10_ALWAYS_INLINE   inline __attribute__((always_inline))
#define AT_MKL_ENABLED()    0
#define AT_MKLDNN_ENABLED() 0
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#define C10_RESTRICT __restrict

namespace c10 {
template <class T> class IntegerRange {
  public:
    struct iterator {
        T i;
        T operator*() const { return i; }
        iterator &operator++() {
            ++i;
            return *this;
        }
        bool operator!=(const iterator &other) const { return i != other.i; }
        bool operator==(const iterator &other) const { return i == other.i; }
    };
    IntegerRange(T begin, T end) : begin_(begin), end_(end) {}
    iterator begin() const { return {begin_}; }
    iterator end() const { return {end_}; }

  private:
    T begin_, end_;
};
template <class T> inline IntegerRange<T> irange(T end) { return {T(0), std::max(end, T(0))}; }
template <class A, class B> inline IntegerRange<B> irange(A begin, B end) {
    return {static_cast<B>(begin), std::max(static_cast<B>(begin), end)};
}
} // namespace c10

// ---- Threads ----
namespace taper {
inline int &parallel_thread() {
    thread_local int number = 0;
    return number;
}
inline bool in_parallel_region() { return parallel_thread() > 0; }
/* f(begin, end) over pieces of at least grain_size, on as many threads as the library uses. */
template <class F> inline void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F &f) {
    if (begin >= end) return;
    const int64_t n = end - begin, grain = std::max<int64_t>(grain_size, 1);
    const int64_t threads = in_parallel_region() ? 1 : std::min<int64_t>(tp_num_threads(), (n + grain - 1) / grain);
    if (threads <= 1) {
        f(begin, end);
        return;
    }
    const int64_t piece = (n + threads - 1) / threads;
    std::vector<std::thread> team;
    std::vector<std::exception_ptr> failures(static_cast<size_t>(threads));
    auto run = [&](int64_t t) {
        const int64_t from = begin + t * piece, to = std::min(end, from + piece);
#ifndef TAPER_NO_EXCEPTIONS
        try {
            if (from < to) f(from, to);
        } catch (...) {
            failures[static_cast<size_t>(t)] = std::current_exception();
        }
#else
        if (from < to) f(from, to);
#endif
    };
    for (int64_t t = 1; t < threads; t++)
        team.emplace_back([&, t] {
            parallel_thread() = static_cast<int>(t);
            run(t);
        });
    run(0);
    for (std::thread &t : team) t.join();
#ifndef TAPER_NO_EXCEPTIONS
    for (const std::exception_ptr &e : failures)
        if (e) std::rethrow_exception(e);
#endif
}
template <class T, class F, class M>
inline T parallel_reduce(int64_t begin, int64_t end, int64_t grain_size, T identity, const F &f, const M &merge) {
    const int64_t grain = std::max<int64_t>(grain_size, 1),
                  pieces = begin < end ? (end - begin + grain - 1) / grain : 0;
    std::vector<T> parts(static_cast<size_t>(pieces), identity);
    parallel_for(0, pieces, 1, [&](int64_t from, int64_t to) {
        for (int64_t p = from; p < to; p++)
            parts[static_cast<size_t>(p)] = f(begin + p * grain, std::min(end, begin + (p + 1) * grain), identity);
    });
    T result = identity;
    for (const T &p : parts) result = merge(result, p);
    return result;
}
inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }
namespace internal {
constexpr int64_t GRAIN_SIZE = 32768;
}
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
} // namespace taper

// ---- A function for each dtype ----
#define AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, hint, ...)                             \
    case enum_type: {                                                                     \
        using hint [[maybe_unused]] = typename ::taper::ScalarTypeToCpp<enum_type>::type; \
        return __VA_ARGS__();                                                             \
    }
#define AT_DISPATCH_CASE(enum_type, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, scalar_t, __VA_ARGS__)
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                               \
    [&] {                                                                                 \
        const auto &the_type = TYPE;                                                      \
        const ::taper::ScalarType _st = ::taper::scalar_type_of(the_type);                \
        switch (_st) {                                                                    \
            __VA_ARGS__                                                                   \
        default:                                                                          \
            AT_ERROR('"', NAME, "\" not implemented for '", ::taper::toString(_st), "'"); \
            std::abort(); /* not reached: the line above throws */                        \
        }                                                                                 \
    }()
#define TAPER_CASE_(name, ...)               AT_DISPATCH_CASE(::taper::ScalarType::name, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES(...) TAPER_CASE_(Double, __VA_ARGS__) TAPER_CASE_(Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
    AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) TAPER_CASE_(Half, __VA_ARGS__)
#define AT_DISPATCH_CASE_COMPLEX_TYPES(...) \
    TAPER_CASE_(ComplexDouble, __VA_ARGS__) TAPER_CASE_(ComplexFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...) \
    TAPER_CASE_(Byte, __VA_ARGS__)           \
    TAPER_CASE_(Char, __VA_ARGS__)           \
    TAPER_CASE_(Int, __VA_ARGS__) TAPER_CASE_(Long, __VA_ARGS__) TAPER_CASE_(Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
    AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) \
    AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) \
    AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
    AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
    AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) \
    AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T1, T2, TYPE, NAME, ...)                                      \
    AT_DISPATCH_SWITCH(TYPE, NAME,                                                                    \
                       AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                           AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(TYPE, NAME, ...) \
    AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_COMPLEX_TYPES(TYPE, NAME, ...) \
    AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
    AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(T1, TYPE, NAME, ...) \
    AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(T1, TYPE, NAME, ...) \
    AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(T1, T2, TYPE, NAME, ...)                                      \
    AT_DISPATCH_SWITCH(TYPE, NAME,                                                               \
                       AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                           AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...)                                  \
    AT_DISPATCH_SWITCH(TYPE, NAME,                                                               \
                       AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                           AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(TYPE, NAME, ...) \
    AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...)                                                       \
    AT_DISPATCH_SWITCH(TYPE, NAME,                                                                     \
                       AT_PRIVATE_CASE_TYPE_USING_HINT(::taper::ScalarType::Int, index_t, __VA_ARGS__) \
                           AT_PRIVATE_CASE_TYPE_USING_HINT(::taper::ScalarType::Long, index_t, __VA_ARGS__))
namespace taper {
template <ScalarType> struct ScalarTypeToCpp;
#define TAPER_CPP_(T, name) \
    template <> struct ScalarTypeToCpp<ScalarType::name> { using type = T; };
TAPER_TYPES_(TAPER_CPP_)
#undef TAPER_CPP_
inline ScalarType scalar_type_of(ScalarType t) { return t; }
inline ScalarType scalar_type_of(TypeMeta t) { return t; }
inline ScalarType scalar_type_of(const Tensor &t) { return t.scalar_type(); }
} // namespace taper

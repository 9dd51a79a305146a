/* c10::llvm: counts of bits. */
#pragma once
#include <limits>
#include <type_traits>

namespace c10 {
namespace llvm {
/* All bits of 0 are leading and trailing zeros. */
template <class T> inline unsigned countLeadingZeros(T value) {
    static_assert(std::is_unsigned_v<T>, "countLeadingZeros: T is unsigned");
    if (!value) return std::numeric_limits<T>::digits;
    return static_cast<unsigned>(__builtin_clzll(value) - (64 - std::numeric_limits<T>::digits));
}
template <class T> inline unsigned countTrailingZeros(T value) {
    static_assert(std::is_unsigned_v<T>, "countTrailingZeros: T is unsigned");
    return value ? static_cast<unsigned>(__builtin_ctzll(value)) : std::numeric_limits<T>::digits;
}
template <class T> inline unsigned countPopulation(T value) {
    static_assert(std::is_unsigned_v<T>, "countPopulation: T is unsigned");
    return static_cast<unsigned>(__builtin_popcountll(value));
}
} // namespace llvm
} // namespace c10

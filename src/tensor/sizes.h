/* Arithmetic on sizes that a user gives. Sums and products stop at the ends of int64 instead of wrapping around, so a
 * size that is too large stays too large, whatever is computed with it, and one place refuses it: the making of a
 * tensor (tpi_empty, tpi_numel_of), or the allocator. Comparisons with other sizes hold all the same. */
#ifndef TPI_SIZES_H
#define TPI_SIZES_H
#include <taper/base.h>

static inline int64_t tpi_size_plus(int64_t a, int64_t b) {
    int64_t sum;
    return !__builtin_add_overflow(a, b, &sum) ? sum : a < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t tpi_size_minus(int64_t a, int64_t b) {
    int64_t rest;
    return !__builtin_sub_overflow(a, b, &rest) ? rest : a < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t tpi_size_times(int64_t a, int64_t b) {
    int64_t product;
    return !__builtin_mul_overflow(a, b, &product) ? product : (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}
static inline int64_t tpi_size_negated(int64_t a) { return tpi_size_minus(0, a); }
static inline int64_t tpi_size_product(const int64_t *v, int64_t n) {
    int64_t product = 1;
    for (int64_t i = 0; i < n; i++) product = tpi_size_times(product, v[i]);
    return product;
}
/* A size worked out in floating point: NaN is 0. */
static inline int64_t tpi_whole(double v) {
    if (v != v) return 0;
    if (v >= 0x1p63) return INT64_MAX;
    return v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}
/* For allocations: more bytes than there are, where the product is too large. */
static inline size_t tpi_size_bytes(int64_t n, size_t itemsize) {
    size_t bytes;
    return n >= 0 && !__builtin_mul_overflow((size_t)n, itemsize, &bytes) ? bytes : SIZE_MAX;
}
#endif

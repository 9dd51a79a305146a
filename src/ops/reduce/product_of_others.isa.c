/* See product_of_others.h. Level k + 1 of the tree holds the products of pairs of level k, whose partners are half of a
 * level apart: so every loop runs over contiguous memory. A partner that is missing counts as one. On the way down an
 * element's others are its pair's others times its partner. No division, so zeros are no trouble, and an element has a
 * rounding error per level. */
#include "ops/reduce/product_of_others.h"
#include <complex.h>
#include <string.h>

static int64_t upper_half(int64_t n) { return n - n / 2; }

#define OTHERS(T, NAME)                                                                                         \
    static const T *tree_##NAME(int64_t n, int64_t width, const T *x, T *scratch) {                             \
        while (n > 1) {                                                                                         \
            const int64_t h = upper_half(n), pairs = (n - h) * width;                                           \
            const T *right = x + h * width;                                                                     \
            for (int64_t i = 0; i < pairs; i++) scratch[i] = x[i] * right[i];                                   \
            if (pairs < h * width) memcpy(scratch + pairs, x + pairs, (size_t)(h * width - pairs) * sizeof *x); \
            x = scratch;                                                                                        \
            scratch += h * width;                                                                               \
            n = h;                                                                                              \
        }                                                                                                       \
        return x;                                                                                               \
    }                                                                                                           \
    static void down_##NAME(int64_t n, int64_t width, const T *x, const T *above, T *to) {                      \
        const int64_t h = upper_half(n), pairs = (n - h) * width;                                               \
        const T *right = x + h * width;                                                                         \
        T *second = to + h * width;                                                                             \
        for (int64_t i = 0; i < pairs; i++) {                                                                   \
            const T first = x[i], other = right[i], rest = above[i];                                            \
            to[i] = rest * other;                                                                               \
            second[i] = rest * first;                                                                           \
        }                                                                                                       \
        if (pairs < h * width) memcpy(to + pairs, above + pairs, (size_t)(h * width - pairs) * sizeof *x);      \
    }                                                                                                           \
    static void others_##NAME(int64_t n, int64_t width, const T *x, T *scratch, const T *start, T *out) {       \
        T *level[64];                                                                                           \
        int64_t count[64];                                                                                      \
        int last = 0;                                                                                           \
        count[0] = n;                                                                                           \
        for (T *at = scratch; count[last] > 1; last++) {                                                        \
            count[last + 1] = upper_half(count[last]);                                                          \
            level[last + 1] = at;                                                                               \
            at += count[last + 1] * width;                                                                      \
        }                                                                                                       \
        T *root = last ? level[last] : out;                                                                     \
        for (int64_t i = 0; i < width; i++) root[i] = start ? start[i] : 1;                                     \
        for (int k = last - 1; k > 0; k--) down_##NAME(count[k], width, level[k], level[k + 1], level[k]);      \
        if (last) down_##NAME(n, width, x, level[1], out);                                                      \
    }
OTHERS(float, f32)
OTHERS(double, f64)
OTHERS(float complex, c64)
OTHERS(double complex, c128)

const char *TPI_ISA(tpi_product_tree)(tp_dtype dtype, int64_t n, int64_t width, const char *x, char *scratch) {
    const void *from = x;
    void *to = scratch;
    switch (dtype) {
    case TP_FLOAT32: return (const char *)tree_f32(n, width, from, to);
    case TP_FLOAT64: return (const char *)tree_f64(n, width, from, to);
    case TP_COMPLEX64: return (const char *)tree_c64(n, width, from, to);
    default: return (const char *)tree_c128(n, width, from, to);
    }
}

void TPI_ISA(tpi_products_of_others)(tp_dtype dtype, int64_t n, int64_t width, const char *x, char *scratch,
                                     const char *start, char *out) {
    const void *from = x, *first = start;
    void *levels = scratch, *to = out;
    switch (dtype) {
    case TP_FLOAT32: others_f32(n, width, from, levels, first, to); break;
    case TP_FLOAT64: others_f64(n, width, from, levels, first, to); break;
    case TP_COMPLEX64: others_c64(n, width, from, levels, first, to); break;
    default: others_c128(n, width, from, levels, first, to); break;
    }
}

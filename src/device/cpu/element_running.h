/* Running sums and products of contiguous elements, for scans whose step is one of the two. Eight elements at a time:
 * within four lanes by shifting and adding, from four to four by a carry that waits for nothing but the carry before.
 * Included by element.h. */
#ifndef TPI_ELEMENT_RUNNING_H
#define TPI_ELEMENT_RUNNING_H
#include <string.h>

/* T: an element; W: the running state's type; returns how many elements are done, a multiple of eight. */
#define EL_RUNNING(name, T, W, op, identity)                                                             \
    EL int64_t el_running_##name(int64_t n, const T *x, W *state, T *out) {                              \
        typedef T part __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));       \
        typedef W four __attribute__((vector_size(32)));                                                 \
        const four none = {identity, identity, identity, identity};                                      \
        four carry = {*state, *state, *state, *state};                                                   \
        int64_t i = 0;                                                                                   \
        for (; i + 8 <= n; i += 8) {                                                                     \
            four a = {x[i], x[i + 1], x[i + 2], x[i + 3]}, b = {x[i + 4], x[i + 5], x[i + 6], x[i + 7]}; \
            a = a op __builtin_shufflevector(none, a, 0, 4, 2, 6),                                       \
            b = b op __builtin_shufflevector(none, b, 0, 4, 2, 6);                                       \
            a = a op __builtin_shufflevector(none, a, 0, 1, 5, 5),                                       \
            b = b op __builtin_shufflevector(none, b, 0, 1, 5, 5);                                       \
            *(part *)(out + i) = __builtin_convertvector(carry op a, part);                              \
            carry = carry op __builtin_shufflevector(a, a, 3, 3, 3, 3);                                  \
            *(part *)(out + i + 4) = __builtin_convertvector(carry op b, part);                          \
            carry = carry op __builtin_shufflevector(b, b, 3, 3, 3, 3);                                  \
        }                                                                                                \
        *state = carry[0];                                                                               \
        return i;                                                                                        \
    }
EL_RUNNING(sum_f32, float, double, +, 0)
EL_RUNNING(sum_f64, double, double, +, 0)
EL_RUNNING(sum_i64, int64_t, int64_t, +, 0)
EL_RUNNING(product_f32, float, double, *, 1)
EL_RUNNING(product_f64, double, double, *, 1)
EL_RUNNING(product_i64, int64_t, int64_t, *, 1)
#endif

/* Cross products of vectors of three elements that lie `inner` apart. Before this text: X the dtype, A the type to
 * compute in; LARGE: more elements than 32 bits count. */
#include "rounding.h"
#include "each.h"
KERNEL(entry)
(PTR(out), PTR(first), PTR(second), const int64_t n, const int64_t inner) {
    GLOBAL const T_X *a = AT(const T_X, first), *b = AT(const T_X, second);
    EACH(i, n) {
        const int64_t at = i / inner * 3 * inner + i % inner;
        const A a0 = GET_X(a[at]), a1 = GET_X(a[at + inner]), a2 = GET_X(a[at + 2 * inner]);
        const A b0 = GET_X(b[at]), b1 = GET_X(b[at + inner]), b2 = GET_X(b[at + 2 * inner]);
        AT(T_X, out)[at] = SET_X(a1 * b2 - a2 * b1);
        AT(T_X, out)[at + inner] = SET_X(a2 * b0 - a0 * b2);
        AT(T_X, out)[at + 2 * inner] = SET_X(a0 * b1 - a1 * b0);
    }
}

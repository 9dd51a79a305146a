/* y[k] = input[k] + decay[k] * y[k - 1] along a dim, a thread per row: rows are (outer, inner), n steps of `inner`
 * elements each. Before this text: what matrix.h asks for, LARGE, and REVERSE: it goes from the last element to the
 * first. */
#include "each.h"
#include "matrix.gpu.h"

KERNEL(entry)
(PTR(out), PTR(decay), PTR(input), const int64_t rows, const int64_t n, const int64_t inner) {
    EACH(r, rows) {
        const int64_t first = (int64_t)(r / inner) * n * inner + r % inner;
        num y = NOTHING;
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = first + (REVERSE ? n - 1 - k : k) * inner;
            const num x = AT(const num, input)[at];
            y = k ? plus(x, times(AT(const num, decay)[at], y)) : x;
            AT(num, out)[at] = y;
        }
    }
}

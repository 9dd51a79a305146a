/* y[k] = input[k] + decay[k] * y[k - 1] along a dim: rows are (outer, inner), n steps of `inner` elements each. Before
 * this text: what matrix_gpu_kernel.h asks for, LARGE, and REVERSE: it goes from the last element to the first.
 *
 *   recurrence   a thread per row
 *   tiles        for rows that lie one behind the other (inner is 1): a block takes SIDE rows, SIDE columns at a time.
 *                Neighbouring threads read neighbouring elements into shared memory, and one thread a row steps through
 *                it there. The steps, and so the bits, are those of the other kernel. */
#include "each.h"
#include "matrix_gpu_kernel.h"

#ifdef KERNEL_recurrence
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
#endif

#ifdef KERNEL_tiles
#define SIDE 32
#define EACH_OWN(q) \
    UNROLL          \
    for (int q = 0; q < SIDE * SIDE / TEAM; q++)
#define OWN_ROW(q) (THREAD / SIDE + (q) * (TEAM / SIDE)) /* of the elements that a thread reads and writes */

/* The thread's elements of the tile from column `from` on. */
#define READ_OWN(from)                                                           \
    EACH_OWN(q) {                                                                \
        const int64_t row = first + OWN_ROW(q), column = (from) + THREAD % SIDE; \
        const int there = row < rows && column >= 0 && column < n;               \
        own_a[q] = there ? AT(const num, decay)[row * n + column] : NOTHING;     \
        own_x[q] = there ? AT(const num, input)[row * n + column] : NOTHING;     \
    }

KERNEL(entry)
(PTR(out), PTR(decay), PTR(input), const int64_t rows, const int64_t n, const int64_t inner) {
    SHARED num a[SIDE][SIDE + 1], x[SIDE][SIDE + 1];
    const int64_t first = (int64_t)BLOCK * SIDE, tiles = (n + SIDE - 1) / SIDE, step = REVERSE ? -SIDE : SIDE;
    int64_t from = REVERSE ? (tiles - 1) * SIDE : 0;
    num own_a[SIDE * SIDE / TEAM], own_x[SIDE * SIDE / TEAM], y = NOTHING;
    int begun = 0;
    READ_OWN(from)
    for (int64_t t = 0; t < tiles; t++) {
        EACH_OWN(q) {
            a[OWN_ROW(q)][THREAD % SIDE] = own_a[q];
            x[OWN_ROW(q)][THREAD % SIDE] = own_x[q];
        }
        BARRIER();
        READ_OWN(from + step) /* while the steps below are made */
        if (THREAD < SIDE) {
            for (int k = 0; k < SIDE; k++) {
                const int column = REVERSE ? SIDE - 1 - k : k;
                if (from + column >= n) continue;
                y = begun ? plus(x[THREAD][column], times(a[THREAD][column], y)) : x[THREAD][column];
                begun = 1;
                x[THREAD][column] = y;
            }
        }
        BARRIER();
        EACH_OWN(q) {
            const int64_t row = first + OWN_ROW(q), column = from + THREAD % SIDE;
            if (row < rows && column < n) AT(num, out)[row * n + column] = x[OWN_ROW(q)][THREAD % SIDE];
        }
        from += step;
    }
}
#endif

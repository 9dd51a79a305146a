/* Tensors side by side: a row of out has a row of each part, one behind the other. Before this text: PIECE the bytes
 * that are moved at once, PARTS how many parts there are (2, 4 or 8; those behind the last are empty), LARGE. Rows are
 * counted in pieces; this launch writes `width` of a row's `pitch` pieces. */
#include "each.h"
#include "piece.h"
#if PARTS > 2
#define FURTHER , PTR(p2), PTR(p3)
#else
#define FURTHER
#endif
#if PARTS > 4
#define LAST , PTR(p4), PTR(p5), PTR(p6), PTR(p7)
#else
#define LAST
#endif
#define SEVERAL 4 /* pieces of a thread, so that as many loads are on their way at once */

typedef struct ends_t {
    int64_t end[PARTS];   /* where each part's pieces of a row end */
    int64_t pitch[PARTS]; /* pieces from one of its rows to the next */
} ends_t;

/* Part k's piece of row `row`, if column `at` is its. */
#define TRY(k, from)                                        \
    if (at >= (index_t)(from) && at < (index_t)ends.end[k]) \
        v[j] = AT(const piece_t, p##k)[row * (index_t)ends.pitch[k] + at - (index_t)(from)];

KERNEL(entry)
(PTR(out), PTR(p0), PTR(p1) FURTHER LAST, const ends_t ends, const int64_t width, const int64_t pitch,
 const int64_t n) {
    for (index_t first = (index_t)BLOCK * (SEVERAL * THREADS) + THREAD; first < n;
         first += (index_t)BLOCKS * (SEVERAL * THREADS)) {
        piece_t v[SEVERAL];
        index_t to[SEVERAL];
        UNROLL
        for (int j = 0; j < SEVERAL; j++) {
            const index_t i = first + (index_t)j * THREADS;
            if (i >= n) break;
            const index_t row = i / (index_t)width, at = i - row * (index_t)width;
            to[j] = row * (index_t)pitch + at;
            TRY(0, 0)
            TRY(1, ends.end[0])
#if PARTS > 2
            TRY(2, ends.end[1])
            TRY(3, ends.end[2])
#endif
#if PARTS > 4
            TRY(4, ends.end[3])
            TRY(5, ends.end[4])
            TRY(6, ends.end[5])
            TRY(7, ends.end[6])
#endif
        }
        UNROLL
        for (int j = 0; j < SEVERAL; j++)
            if (first + (index_t)j * THREADS < n) AT(piece_t, out)[to[j]] = v[j];
    }
}

/* Sums of the rows of a table that bags of numbers name. Before this text: X the table's dtype, INDEX that of the
 * numbers; WIDTH threads, a power of two, have the columns of a bag, so that a block of 256 has several bags.
 *
 * Bag b has the numbers from offsets[b] on, up to those of the next; the last has the rest. The number `padding` is
 * left out. A number that is no row's, and offsets that do not rise, are faults. */
#include "fault.h"
#ifdef KERNEL_bags
KERNEL(entry)
(FAULT, PTR(out), PTR(table), PTR(index), PTR(offsets), const int64_t n, const int64_t bags, const int64_t rows,
 const int64_t columns, const int64_t padding) {
    const int64_t b = (int64_t)BLOCK * (256 / WIDTH) + THREAD / WIDTH;
    if (b >= bags) return;
    int64_t first = AT(const int64_t, offsets)[b], end = b + 1 < bags ? AT(const int64_t, offsets)[b + 1] : n;
    if (first < 0 || end > n || first > end) {
        NOTE_FAULT(first, n);
        first = end = 0;
    }
    for (int64_t c = THREAD % WIDTH; c < columns; c += WIDTH) {
        A sum = 0;
        int64_t j = first;
        for (; j < end; j += 4) { /* four loads on their way at once, added in order */
            A v[4];
            UNROLL
            for (int q = 0; q < 4; q++) {
                const int64_t k = j + q < end ? (int64_t)AT(const T_INDEX, index)[j + q] : padding;
                const int bad = k != padding && (k < 0 || k >= rows);
                if (bad) NOTE_FAULT(k, rows);
                v[q] = k == padding || bad ? (A)0 : (A)GET_X(AT(const T_X, table)[k * columns + c]);
            }
            sum += v[0];
            sum += v[1];
            sum += v[2];
            sum += v[3];
        }
        AT(T_X, out)[b * columns + c] = SET_X(sum);
    }
}
#endif

/* The bag of each number: how many offsets are not behind its place, less one; -1 for the number `padding`. */
#ifdef KERNEL_bag_of
KERNEL(entry)
(PTR(out), PTR(index), PTR(offsets), const int64_t n, const int64_t bags, const int64_t padding) {
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i < n; i += (int64_t)BLOCKS * THREADS) {
        int64_t low = 0, high = bags;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (AT(const int64_t, offsets)[middle] <= i)
                low = middle + 1;
            else
                high = middle;
        }
        AT(int64_t, out)[i] = (int64_t)AT(const T_INDEX, index)[i] == padding ? -1 : low - 1;
    }
}
#endif

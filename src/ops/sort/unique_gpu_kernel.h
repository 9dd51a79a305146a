/* Rows of a matrix in order, and where a new one begins. Before this text: X the dtype, FLOATING.
 *
 *   merge    one round of a stable merge sort: stretches of `run` row numbers, two by two, become stretches of twice
 *            the length. Each number finds its
 *            own place: how many of the other stretch go before it
 *   heads    is a row other than the one before it? ORDERED: in the order of row numbers. A row with NaN is like no
 *            other. */
#ifdef KERNEL_merge
/* Rows compared element by element; NaN is above all, and like NaN. Below 0: a goes before b. */
INLINE int compared(GLOBAL const T_X *a, GLOBAL const T_X *b, const int64_t width) {
    for (int64_t i = 0; i < width; i++) {
        if (GET_X(a[i]) == GET_X(b[i])) continue;
#if FLOATING
        const int lost_a = GET_X(a[i]) != GET_X(a[i]), lost_b = GET_X(b[i]) != GET_X(b[i]);
        if (lost_a && lost_b) continue;
        if (lost_a || lost_b) return lost_a ? 1 : -1;
#endif
        return GET_X(a[i]) < GET_X(b[i]) ? -1 : 1;
    }
    return 0;
}

KERNEL(entry)
(PTR(to), PTR(from), PTR(in), const int64_t n, const int64_t width, const int64_t run) {
    GLOBAL const int64_t *order = AT(const int64_t, from);
    GLOBAL const T_X *x = AT(const T_X, in);
    for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS) {
        const int64_t start = e / (2 * run) * (2 * run), middle = start + run < n ? start + run : n,
                      end = middle + run < n ? middle + run : n;
        const int first = e < middle; /* equals of the second stretch go behind those of the first */
        int64_t low = first ? middle : start, high = first ? end : middle;
        const int64_t other = low;
        while (low < high) {
            const int64_t at = low + (high - low) / 2;
            const int c = compared(x + order[at] * width, x + order[e] * width, width);
            if (c < 0 || (c == 0 && !first))
                low = at + 1;
            else
                high = at;
        }
        AT(int64_t, to)[start + (e - (first ? start : middle)) + (low - other)] = order[e];
    }
}
#endif

#ifdef KERNEL_heads
KERNEL(entry)
(PTR(out), PTR(order), PTR(in), const int64_t n, const int64_t width) {
    for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS) {
#if ORDERED
        GLOBAL const T_X *a = AT(const T_X, in) + AT(const int64_t, order)[e] * width,
                         *b = AT(const T_X, in) + AT(const int64_t, order)[e ? e - 1 : 0] * width;
#else
        GLOBAL const T_X *a = AT(const T_X, in) + e * width, *b = AT(const T_X, in) + (e ? e - 1 : 0) * width;
#endif
        int other = e == 0;
        for (int64_t i = 0; i < width && !other; i++) other = !(GET_X(a[i]) == GET_X(b[i]));
        AT(uint8_t, out)[e] = (uint8_t)other;
    }
}
#endif

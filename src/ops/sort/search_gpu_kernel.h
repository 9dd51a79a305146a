/* Values looked up in sorted rows, by halving: the first place that is not below the value (RIGHT: that is above it).
 * NaN is above all. Before this text: X the dtype, FLOATING; ONE_ROW (one sorted row for all), SORTER (the order to
 * read a row in), RIGHT; Y the dtype of places, or FOUND: whether the value is there at all, INVERT turned round. */
#if FLOATING
#define BELOW(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))
#else
#define BELOW(a, b) ((a) < (b))
#endif

KERNEL(entry)
(PTR(out), PTR(sorted), PTR(sorter), PTR(values), const int64_t n, const int64_t size, const int64_t per_row) {
    for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS) {
        const int64_t row = ONE_ROW ? 0 : e / per_row * size;
        int64_t low = 0, high = size;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
#if SORTER
            int64_t at = AT(const int64_t, sorter)[row + middle];
            if (at < 0 || at >= size) at = 0;
#else
            const int64_t at = middle;
#endif
#if RIGHT
            const int further = !BELOW(GET_X(AT(const T_X, values)[e]), GET_X(AT(const T_X, sorted)[row + at]));
#else
            const int further = BELOW(GET_X(AT(const T_X, sorted)[row + at]), GET_X(AT(const T_X, values)[e]));
#endif
            if (further)
                low = middle + 1;
            else
                high = middle;
        }
#if FOUND
        const int there =
            low < size && GET_X(AT(const T_X, sorted)[low < size ? low : 0]) == GET_X(AT(const T_X, values)[e]);
        AT(uint8_t, out)[e] = (uint8_t)(there != INVERT);
#else
        AT(T_Y, out)[e] = (T_Y)low;
#endif
    }
}

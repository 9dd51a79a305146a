/* Counting into bins. Numbers of bins are int64; 0 is outside, the first bin is 1.
 *
 *   numbers   the bin of each value (X the dtype, in double precision) along one axis of `bins` bins. WAY: by RANGE
 *             alone, by EVEN edges (what the range
 *             guesses, put right by the edges), by any SORTED edges; MORE: values of a further axis, whose bins count
 *             within those before
 *   count     how often each number occurs. Whole numbers add up the same in any order. PRIVATE: a block counts in
 *             shared memory first
 */
#define RANGE  0
#define EVEN   1
#define SORTED 2
#define EACH   for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS)

#ifdef KERNEL_numbers
KERNEL(entry)
(PTR(numbers), PTR(values), PTR(edges), const int64_t n, const int64_t step, const double from, const double to,
 const int64_t bins) {
    GLOBAL const double *edge = AT(const double, edges);
#if WAY == SORTED
    const double low = edge[0], high = edge[bins];
#else
    const double low = from, high = to;
#endif
    EACH {
        const double v = (double)GET_X(AT(const T_X, values)[e * step]);
        int64_t at = -1;
        if (v >= low && v <= high) {
#if WAY == SORTED
            int64_t below = 0, above = bins;
            while (above - below > 1) {
                const int64_t middle = below + (above - below) / 2;
                if (v >= edge[middle])
                    below = middle;
                else
                    above = middle;
            }
            at = below;
#else
            at = (int64_t)((v - low) * (double)bins / (high - low));
            if (at >= bins) at = bins - 1;
#if WAY == EVEN
            if (at + 1 < bins && v >= edge[at + 1])
                at++;
            else if (at > 0 && v < edge[at])
                at--;
#endif
#endif
        }
        int64_t number = at + 1;
#if MORE
        const int64_t before = AT(const int64_t, numbers)[e];
        number = before && number ? (before - 1) * bins + number : 0;
#endif
        AT(int64_t, numbers)[e] = number;
    }
}
#endif

#ifdef KERNEL_count
#if defined(__OPENCL_VERSION__)
#define COUNT_UP(at, by) atomic_add(at, by)
#else
#define COUNT_UP(at, by) atomicAdd(at, by)
#endif
KERNEL(entry)
(PTR(counts), PTR(numbers), const int64_t n, const int64_t bins) {
    GLOBAL int *all = AT(int, counts);
#if PRIVATE
    SHARED int own[PRIVATE];
    for (int i = THREAD; i < (int)bins; i += THREADS) own[i] = 0;
    BARRIER();
    EACH {
        const int64_t k = AT(const int64_t, numbers)[e];
        if (k >= 0 && k < bins) COUNT_UP(&own[k], 1);
    }
    BARRIER();
    for (int i = THREAD; i < (int)bins; i += THREADS)
        if (own[i]) COUNT_UP(&all[i], own[i]);
#else
    EACH {
        const int64_t k = AT(const int64_t, numbers)[e];
        if (k >= 0 && k < bins) COUNT_UP(&all[k], 1);
    }
#endif
}
#endif

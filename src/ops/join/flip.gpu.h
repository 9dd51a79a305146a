/* out[e] = in[...] by strides, some of them negative: out's elements in their order, whose coordinates have the shape
 * and the strides of where they come from. Before this text: DIMS, X the dtype, LARGE (more elements than 31 bits
 * count). */
#if LARGE
typedef int64_t index_t;
#else
typedef uint32_t index_t;
#endif
typedef struct turned_t {
    int64_t shape[DIMS], stride[DIMS]; /* outermost first */
} turned_t;

KERNEL(entry)
(PTR(out), PTR(in), const turned_t t, const int64_t n) {
    for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS) {
        index_t rest = (index_t)e;
        int64_t at = 0;
        for (int d = DIMS - 1; d > 0; d--) {
            const index_t size = (index_t)t.shape[d], next = rest / size;
            at += (int64_t)(rest - next * size) * t.stride[d];
            rest = next;
        }
        AT(T_X, out)[e] = AT(const T_X, in)[at + (int64_t)rest * t.stride[0]];
    }
}

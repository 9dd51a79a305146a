/* out[e] = in[...] by strides, some of them negative: out's elements in their order, whose coordinates have the shape
 * and the strides of where they come from. ROLL: dims begin `from` elements further, and go on at their start behind
 * their end. Before this text: DIMS, ROLL, X the dtype, LARGE (more elements than 31 bits count). */
#if LARGE
typedef int64_t index_t;
#else
typedef uint32_t index_t;
#endif
typedef struct flip_layout_t {
    int64_t shape[DIMS], stride[DIMS]; /* outermost first */
#if ROLL
    int64_t from[DIMS];
#endif
} flip_layout_t;

#if ROLL
INLINE index_t rolled(index_t at, int64_t from, index_t size) {
    const index_t moved = at + (index_t)from;
    return moved >= size ? moved - size : moved;
}
#define PLACE(d, at) ((int64_t)rolled(at, t.from[d], (index_t)t.shape[d]) * t.stride[d])
#else
#define PLACE(d, at) ((int64_t)(at)*t.stride[d])
#endif

KERNEL(entry)
(PTR(out), PTR(in), const flip_layout_t t, const int64_t n) {
    for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS) {
        index_t rest = (index_t)e;
        int64_t at = 0;
        for (int d = DIMS - 1; d > 0; d--) {
            const index_t size = (index_t)t.shape[d], next = rest / size;
            at += PLACE(d, rest - next * size);
            rest = next;
        }
        AT(T_X, out)[e] = AT(const T_X, in)[at + PLACE(0, rest)];
    }
}

/* Elements by places that a tensor of numbers gives. Before this text: DIMS, T_INDEX; X the dtype, A the type to sum
 * in.
 *
 *   gather     out[e] = x[place of e]
 *   scatter    x[place of e] = src[e], or a value (VALUE)
 *   places     the places themselves, as numbers, for `reduce`; `nowhere` for a number that is out of range
 *   wrap       numbers that count from the end when they are negative, as plain ones
 *   reduce     x[number] joined with the elements of that number, in their order: numbers are sorted, and the first
 *              of each joins them. REDUCE says how;
 *              ALONE: x's own value does not count; WHOLE: whole numbers
 *   compact    the elements where a mask is, one behind the other; COORDINATES: where they stand
 *   triangle   zeros above (LOWER) or below a diagonal; an element is DIMS numbers
 *
 * Element e of the index tensor, which is contiguous, has coordinates; its place in x is theirs by x's strides, but
 * along one dim the number's. */
#include "fault.h"
typedef struct layout_t {
    int64_t shape[DIMS], stride[DIMS];
    int64_t along, size; /* the dim's stride and size */
} layout_t;

INLINE int64_t place_of(int64_t e, int64_t k, const layout_t *l) {
    int64_t at = 0;
    for (int d = DIMS - 1; d >= 0; d--) {
        const int64_t rest = e / l->shape[d];
        at += (e - rest * l->shape[d]) * l->stride[d];
        e = rest;
    }
    return at + k * l->along;
}
#define IS_BAD(k) ((k) < 0 || (k) >= l.size)
#define EACH      for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS)

#ifdef KERNEL_gather
KERNEL(entry)
(FAULT, PTR(out), PTR(in), PTR(index), const layout_t l, const int64_t n) {
    EACH {
        const int64_t k = AT(const T_INDEX, index)[e];
        if (IS_BAD(k)) NOTE_FAULT(k, l.size);
        AT(T_X, out)[e] = AT(const T_X, in)[place_of(e, IS_BAD(k) ? 0 : k, &l)];
    }
}
#endif

#ifdef KERNEL_scatter
KERNEL(entry)
(FAULT, PTR(x), PTR(src), PTR(index), const layout_t l, const int64_t n) {
    EACH {
        const int64_t k = AT(const T_INDEX, index)[e];
        if (IS_BAD(k))
            NOTE_FAULT(k, l.size);
        else
            AT(T_X, x)[place_of(e, k, &l)] = AT(const T_X, src)[VALUE ? 0 : e];
    }
}
#endif

#ifdef KERNEL_places
KERNEL(entry)
(FAULT, PTR(out), PTR(index), const layout_t l, const int64_t n, const int64_t nowhere) {
    EACH {
        const int64_t k = AT(const T_INDEX, index)[e];
        if (IS_BAD(k)) NOTE_FAULT(k, l.size);
        AT(T_X, out)[e] = (T_X)(IS_BAD(k) ? nowhere : place_of(e, k, &l));
    }
}
#endif

#ifdef KERNEL_wrap
KERNEL(entry)
(FAULT, PTR(out), PTR(index), const int64_t n, const int64_t size) {
    EACH {
        const int64_t k = AT(const T_INDEX, index)[e];
        if (k < -size || k >= size) NOTE_FAULT(k, size);
        AT(int64_t, out)[e] = k < 0 && k >= -size ? k + size : k;
    }
}
#endif

#ifdef KERNEL_reduce
#include "scatter_reduce_gpu_kernel.h"
#define FEW     4
#define AT_ONCE 32
KERNEL(entry)
(PTR(x), PTR(src), PTR(numbers), PTR(order), const int64_t n, const int64_t nowhere) {
    GLOBAL const T_INDEX *number = AT(const T_INDEX, numbers);
    EACH {
        const int64_t k = number[e];
        if ((e && number[e - 1] == k) || k < 0 || k >= nowhere) continue;
        int64_t j = e;
#if ALONE
        joined_t v = (joined_t)GET_X(AT(const T_X, src)[AT(const int, order)[j++]]);
#else
        joined_t v = (joined_t)GET_X(AT(const T_X, x)[k]);
#endif
        for (; j < e + FEW && j < n && number[j] == k; j++)
            v = joined(v, (joined_t)GET_X(AT(const T_X, src)[AT(const int, order)[j]]));
        while (j < n && number[j] == k) { /* many of them: so many loads are on their way at once, joined in order */
            joined_t s[AT_ONCE];
            int same[AT_ONCE];
            UNROLL
            for (int q = 0; q < AT_ONCE; q++) same[q] = j + q < n && number[j + q < n ? j + q : j] == k;
            UNROLL
            for (int q = 0; q < AT_ONCE; q++)
                s[q] = same[q] ? (joined_t)GET_X(AT(const T_X, src)[AT(const int, order)[j + q]]) : (joined_t)0;
            int count = 0;
            UNROLL
            for (int q = 0; q < AT_ONCE; q++) {
                if (same[q]) v = joined(v, s[q]); /* numbers are sorted: none is the same behind one that is not */
                count += same[q];
            }
            j += count;
        }
        AT(T_X, x)[k] = SET_X(finished(v, j - e + !ALONE));
    }
}
#endif

#ifdef KERNEL_compact
KERNEL(entry)
(PTR(out), PTR(in), PTR(mask), PTR(counted), const layout_t l, const int64_t n) {
    EACH {
        if (!AT(const uint8_t, mask)[e]) continue;
        const int64_t to = AT(const int64_t, counted)[e] - 1;
#if COORDINATES
        int64_t rest = e;
        for (int d = DIMS - 1; d >= 0; d--) {
            AT(int64_t, out)[to * DIMS + d] = rest % l.shape[d];
            rest /= l.shape[d];
        }
#else
        AT(T_X, out)[to] = AT(const T_X, in)[e];
#endif
    }
}
#endif

#ifdef KERNEL_triangle
KERNEL(entry)
(PTR(out), PTR(in), const int64_t n, const int64_t height, const int64_t width, const int64_t diagonal) {
    EACH {
        const int64_t row = e / width, column = e - row * width, off = column / DIMS - row % height;
        const int stays = LOWER ? off <= diagonal : off >= diagonal;
        T_X zero = SET_X(0);
        AT(T_X, out)[e] = stays ? AT(const T_X, in)[e] : zero;
    }
}
#endif

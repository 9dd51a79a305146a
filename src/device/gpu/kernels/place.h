/* Elements by places that a tensor of numbers gives. Before this text: DIMS, T_INDEX; X the dtype, A the type to sum in.
 *
 *   gather     out[e] = x[place of e]
 *   scatter    x[place of e] = src[e], or a value (VALUE)
 *   places     the places themselves, as numbers, for `sum`; `nowhere` for a number that is out of range
 *   wrap       numbers that count from the end when they are negative, as plain ones
 *   sum        x[number] += the elements with that number, in their order: numbers are sorted, and the first of each sums
 *   compact    the elements where a mask is, one behind the other; COORDINATES: where they stand
 *   triangle   zeros above (LOWER) or below a diagonal
 *
 * Element e of the index tensor, which is contiguous, has coordinates; its place in x is theirs by x's strides, but along one dim the number's. */
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
#define EACH for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS)

#ifdef KERNEL_gather
KERNEL(entry)(FAULT, PTR(out), PTR(in), PTR(index), const layout_t l, const int64_t n) {
    EACH {
        const int64_t k = AT(const T_INDEX, index)[e];
        if (IS_BAD(k)) NOTE_FAULT(k, l.size);
        AT(T_X, out)[e] = AT(const T_X, in)[place_of(e, IS_BAD(k) ? 0 : k, &l)];
    }
}
#endif

#ifdef KERNEL_scatter
KERNEL(entry)(FAULT, PTR(x), PTR(src), PTR(index), const layout_t l, const int64_t n) {
    EACH {
        const int64_t k = AT(const T_INDEX, index)[e];
        if (IS_BAD(k)) NOTE_FAULT(k, l.size);
        else AT(T_X, x)[place_of(e, k, &l)] = AT(const T_X, src)[VALUE ? 0 : e];
    }
}
#endif

#ifdef KERNEL_places
KERNEL(entry)(FAULT, PTR(out), PTR(index), const layout_t l, const int64_t n, const int64_t nowhere) {
    EACH {
        const int64_t k = AT(const T_INDEX, index)[e];
        if (IS_BAD(k)) NOTE_FAULT(k, l.size);
        AT(int64_t, out)[e] = IS_BAD(k) ? nowhere : place_of(e, k, &l);
    }
}
#endif

#ifdef KERNEL_wrap
KERNEL(entry)(FAULT, PTR(out), PTR(index), const int64_t n, const int64_t size) {
    EACH {
        const int64_t k = AT(const T_INDEX, index)[e];
        if (k < -size || k >= size) NOTE_FAULT(k, size);
        AT(int64_t, out)[e] = k < 0 && k >= -size ? k + size : k;
    }
}
#endif

#ifdef KERNEL_sum
KERNEL(entry)(PTR(x), PTR(src), PTR(numbers), PTR(order), const int64_t n, const int64_t nowhere) {
    GLOBAL const int64_t *number = AT(const int64_t, numbers);
    EACH {
        const int64_t k = number[e];
        if ((e && number[e - 1] == k) || k == nowhere) continue;
        A sum = GET_X(AT(const T_X, x)[k]);
        for (int64_t j = e; j < n && number[j] == k; j++) sum += GET_X(AT(const T_X, src)[AT(const int, order)[j]]);
        AT(T_X, x)[k] = SET_X(sum);
    }
}
#endif

#ifdef KERNEL_compact
KERNEL(entry)(PTR(out), PTR(in), PTR(mask), PTR(counted), const layout_t l, const int64_t n) {
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
KERNEL(entry)(PTR(out), PTR(in), const int64_t n, const int64_t height, const int64_t width, const int64_t diagonal) {
    EACH {
        const int64_t row = e / width, column = e - row * width, off = column - row % height;
        const int stays = LOWER ? off <= diagonal : off >= diagonal;
        T_X zero = SET_X(0);
        AT(T_X, out)[e] = stays ? AT(const T_X, in)[e] : zero;
    }
}
#endif

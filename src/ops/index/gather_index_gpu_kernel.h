/* What several tensors of numbers pick out of a tensor. Before this text: DIMS, NUMBERS (how many tensors of numbers),
 * T_INDEX their dtype, WRAP (negative numbers count from the end), LARGE (more elements than 31 bits count).
 *
 *   pick      out[e] = x[place of e], in pieces of PIECE bytes
 *   place     x[place of e] = values[e]; ADD: x[place of e] += values[e], for places that are surely different
 *   number    the place among the indexed dims alone, as one number, for `sum`; `nowhere` for one out of range
 *   sum       x[place] += the values of that place, in their order: numbers are sorted, `order` says where they stood
 *   finish    what `sum` left in parts
 *
 * Element e of what is picked has coordinates: each belongs to a dim that x keeps, or to one of the numbers' own. */
#include "fault.h"
#if NUMBERS > 1
#define MORE_1 , PTR(index1)
#else
#define MORE_1
#endif
#if NUMBERS > 2
#define MORE_2 , PTR(index2)
#else
#define MORE_2
#endif
#if NUMBERS > 3
#define MORE_3 , PTR(index3)
#else
#define MORE_3
#endif
#if NUMBERS > 4
#define MORE_4 , PTR(index4)
#else
#define MORE_4
#endif
#if NUMBERS > 5
#define MORE_5 , PTR(index5)
#else
#define MORE_5
#endif
#define INDEX_PTRS PTR(index0) MORE_1 MORE_2 MORE_3 MORE_4 MORE_5

#if LARGE
typedef int64_t count_t;
#else
typedef uint32_t count_t;
#endif
#define EACH for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS)

typedef struct picked_t {
    int64_t shape[DIMS], x[DIMS], values[DIMS]; /* strides; x's are 0 along the numbers' dims */
    int64_t index[NUMBERS][DIMS];               /* strides of the tensors of numbers, 0 along dims that x keeps */
    int64_t size[NUMBERS], stride[NUMBERS];     /* of the dims of x that the numbers are for */
} picked_t;

#if defined(KERNEL_pick) || defined(KERNEL_place) || defined(KERNEL_number)
/* The numbers of the place, wrapped, by the strides of x's indexed dims; -1: one is out of range. */
#define GIVEN(k)                                                                      \
    {                                                                                 \
        const int64_t given = AT(const T_INDEX, index##k)[from[k]], size = l.size[k]; \
        const int64_t number = WRAP && given < 0 ? given + size : given;              \
        if (number < 0 || number >= size) {                                           \
            NOTE_FAULT(given, size);                                                  \
            bad = 1;                                                                  \
        } else                                                                        \
            at += number * l.stride[k];                                               \
    }
#if NUMBERS > 1
#define GIVEN_1 GIVEN(1)
#else
#define GIVEN_1
#endif
#if NUMBERS > 2
#define GIVEN_2 GIVEN(2)
#else
#define GIVEN_2
#endif
#if NUMBERS > 3
#define GIVEN_3 GIVEN(3)
#else
#define GIVEN_3
#endif
#if NUMBERS > 4
#define GIVEN_4 GIVEN(4)
#else
#define GIVEN_4
#endif
#if NUMBERS > 5
#define GIVEN_5 GIVEN(5)
#else
#define GIVEN_5
#endif
/* `at` the place of e in x, `with` that in values. */
#define FIND_PLACE                                                      \
    int64_t at = 0, with = 0, from[NUMBERS];                            \
    int bad = 0;                                                        \
    UNROLL                                                              \
    for (int k = 0; k < NUMBERS; k++) from[k] = 0;                      \
    count_t left = (count_t)e;                                          \
    UNROLL                                                              \
    for (int d = DIMS - 1; d >= 0; d--) {                               \
        const count_t rest = d ? left / (count_t)l.shape[d] : 0;        \
        const int64_t c = (int64_t)(left - rest * (count_t)l.shape[d]); \
        at += c * l.x[d], with += c * l.values[d];                      \
        UNROLL                                                          \
        for (int k = 0; k < NUMBERS; k++) from[k] += c * l.index[k][d]; \
        left = rest;                                                    \
    }                                                                   \
    GIVEN(0)                                                            \
    GIVEN_1 GIVEN_2 GIVEN_3 GIVEN_4 GIVEN_5
#endif

#if defined(KERNEL_pick) || defined(KERNEL_place)
#include "piece.h"
#endif

#ifdef KERNEL_pick
KERNEL(entry)
(FAULT, PTR(out), PTR(x), const picked_t l, const int64_t n, INDEX_PTRS) {
    EACH {
        FIND_PLACE(void) with;
        AT(piece_t, out)[e] = AT(const piece_t, x)[bad ? 0 : at];
    }
}
#endif

#ifdef KERNEL_place
KERNEL(entry)
(FAULT, PTR(x), PTR(values), const picked_t l, const int64_t n, INDEX_PTRS) {
    EACH {
        FIND_PLACE
        if (bad) continue;
#if ADD
#if WHOLE
        AT(T_X, x)[at] = SET_X((int64_t)GET_X(AT(const T_X, x)[at]) + (int64_t)GET_X(AT(const T_X, values)[with]));
#else
        AT(T_X, x)[at] = SET_X((A)GET_X(AT(const T_X, x)[at]) + (A)GET_X(AT(const T_X, values)[with]));
#endif
#else
        AT(piece_t, x)[at] = AT(const piece_t, values)[with];
#endif
    }
}
#endif

#ifdef KERNEL_number
KERNEL(entry)
(FAULT, PTR(out), const picked_t l, const int64_t n, const int64_t nowhere, INDEX_PTRS) {
    EACH {
        FIND_PLACE(void) with;
        AT(T_X, out)[e] = (T_X)(bad ? nowhere : at);
    }
}
#endif

/* ---- Sums ---- */
#if defined(KERNEL_sum) || defined(KERNEL_finish)
#if WHOLE
typedef int64_t joined_t;
#else
typedef A joined_t;
#endif
/* Numbers and positions have DIMS dims, what x keeps has KEPT. STRETCH sorted numbers in a row are one stretch: a
 * thread sums no further than its end, so that a number which stands everywhere is summed by many. */
typedef struct sums_t {
    int64_t shape[DIMS], values[DIMS]; /* of the positions */
    int64_t kept[KEPT], kept_x[KEPT], kept_values[KEPT];
    int64_t size[NUMBERS], stride[NUMBERS];
    int64_t n, each, nowhere; /* positions, elements kept for each, what no number is */
} sums_t;

INLINE int64_t place_of_number(int64_t number, const sums_t *l) {
    int64_t at = 0;
    UNROLL
    for (int k = NUMBERS - 1; k >= 0; k--) {
        const int64_t rest = k ? number / l->size[k] : 0;
        at += (number - rest * l->size[k]) * l->stride[k];
        number = rest;
    }
    return at;
}
INLINE int64_t place_of_position(count_t p, const sums_t *l) {
    int64_t at = 0;
    UNROLL
    for (int d = DIMS - 1; d >= 0; d--) {
        const count_t rest = d ? p / (count_t)l->shape[d] : 0;
        at += (int64_t)(p - rest * (count_t)l->shape[d]) * l->values[d];
        p = rest;
    }
    return at;
}
/* Entry e is one sorted number and one element that is kept; neighbouring threads have neighbouring numbers
 * (ACROSS), or neighbouring elements. */
#define SPLIT_ENTRY(numbers_there)                                                                          \
    const count_t whole = (count_t)e, of = (count_t)(ACROSS ? (numbers_there) : l.each), over = whole / of; \
    const int64_t i = ACROSS ? (int64_t)(whole - over * of) : (int64_t)over,                                \
                  r = ACROSS ? (int64_t)over : (int64_t)(whole - over * of);                                \
    int64_t in_x = 0, in_values = 0;                                                                        \
    {                                                                                                       \
        count_t left = (count_t)r;                                                                          \
        UNROLL                                                                                              \
        for (int d = KEPT - 1; d >= 0; d--) {                                                               \
            const count_t rest = d ? left / (count_t)l.kept[d] : 0;                                         \
            const int64_t c = (int64_t)(left - rest * (count_t)l.kept[d]);                                  \
            in_x += c * l.kept_x[d], in_values += c * l.kept_values[d];                                     \
            left = rest;                                                                                    \
        }                                                                                                   \
    }
#define ADD_TO_X(number, v)                                                  \
    {                                                                        \
        const int64_t to = in_x + place_of_number(number, &l);               \
        AT(T_X, x)[to] = SET_X((joined_t)GET_X(AT(const T_X, x)[to]) + (v)); \
    }
#endif

#ifdef KERNEL_sum
/* heads[stretch]: the sum of what a stretch begins with, where that began before it; tails[stretch]: of what begins in
 * it and goes on behind it. */
KERNEL(entry)
(PTR(x), PTR(values), PTR(numbers), PTR(order), PTR(heads), PTR(tails), const sums_t l) {
    GLOBAL const T_INDEX *number = AT(const T_INDEX, numbers);
    GLOBAL const int *place = AT(const int, order);
    const int64_t n = l.n * l.each;
    EACH {
        SPLIT_ENTRY(l.n)
        const T_INDEX k = number[i];
        const int begins = !i || number[i - 1] != k;
        if ((!begins && i % STRETCH) || (int64_t)k >= l.nowhere) continue;
        const int64_t limit = i - i % STRETCH + STRETCH < l.n ? i - i % STRETCH + STRETCH : l.n;
        int64_t end = i + 1;
        while (end < limit && number[end] == k) end++;
        joined_t sum = 0;
        int64_t j = i;
        for (; j + 4 <= end; j += 4) { /* four loads on their way at once, added in order */
            joined_t v[4];
            UNROLL
            for (int q = 0; q < 4; q++)
                v[q] = (joined_t)GET_X(AT(const T_X, values)[in_values + place_of_position((count_t)place[j + q], &l)]);
            sum += v[0];
            sum += v[1];
            sum += v[2];
            sum += v[3];
        }
        for (; j < end; j++)
            sum += (joined_t)GET_X(AT(const T_X, values)[in_values + place_of_position((count_t)place[j], &l)]);
        if (!begins)
            AT(joined_t, heads)[i / STRETCH * l.each + r] = sum;
        else if (end == limit && end < l.n && number[end] == k)
            AT(joined_t, tails)[i / STRETCH * l.each + r] = sum;
        else
            ADD_TO_X((int64_t)k, sum)
    }
}
#endif

#ifdef KERNEL_finish
KERNEL(entry)
(PTR(x), PTR(numbers), PTR(heads), PTR(tails), const sums_t l) {
    GLOBAL const T_INDEX *number = AT(const T_INDEX, numbers);
    const int64_t stretches = (l.n + STRETCH - 1) / STRETCH,
                  n = (stretches - 1) * l.each; /* the last goes no further */
    EACH {
        SPLIT_ENTRY(stretches - 1)
        const int64_t first = i * STRETCH, next = first + STRETCH;
        const T_INDEX k = number[next - 1];
        if (number[next] != k || (int64_t)k >= l.nowhere || (first && number[first - 1] == k)) continue;
        joined_t sum = AT(const joined_t, tails)[i * l.each + r];
        for (int64_t s = i + 1; s < stretches && number[s * STRETCH] == k; s++)
            sum += AT(const joined_t, heads)[s * l.each + r];
        (void)in_values;
        ADD_TO_X((int64_t)k, sum)
    }
}
#endif

/* Scattered reductions line by line: an index tensor names places along one dim, so that the lines along it have
 * nothing to do with each other. Each place joins its elements in their order. Before this text: DIMS, the dims but
 * that one; X, T_INDEX; REDUCE, ALONE and WHOLE as scatter_gpu_kernel.h has them.
 *
 *   block   a block has a line of up to TILE elements and sorts its numbers; KEY and ITEMS as in tile_gpu_kernel.h
 *   few     a thread has an element of a line of few, and joins those behind it that name the same place */
#include "fault.h"
#include "scatter_reduce_gpu_kernel.h"
typedef struct scatter_layout_t {
    int64_t shape[DIMS], x[DIMS], index[DIMS]; /* of the dims but the one; strides in x and in the index, as in src */
    int64_t size, along, step;                 /* x's size and stride along the one, the index's stride */
    int64_t lines;
} scatter_layout_t;

#define FIND_LINE(number)                                                         \
    int64_t in_x = 0, in_index = 0;                                               \
    {                                                                             \
        int64_t left = number;                                                    \
        for (int d = DIMS - 1; d >= 0; d--) {                                     \
            const int64_t rest = left / l.shape[d], c = left - rest * l.shape[d]; \
            in_x += c * l.x[d], in_index += c * l.index[d];                       \
            left = rest;                                                          \
        }                                                                         \
    }

#define GET(from, at) ((joined_t)GET_X(AT(const T_X, from)[at]))

#ifdef KERNEL_block
#include "tile_gpu_kernel.h"
#include "radix_pass_gpu_kernel.h"
KERNEL(entry)
(FAULT, PTR(x), PTR(src), PTR(index), const scatter_layout_t l, const int n, const int digits) {
    SHARED key_t tile_keys[TILE];
    SHARED int tile_places[TILE], room[THREADS_OF];
    SHARED counter_t counter[COUNTER_ROOM];
    FIND_LINE((int64_t)BLOCK)
#if defined(__OPENCL_VERSION__)
#define LOADED(i) tile_keys[i]
#define STOOD(i)  tile_places[i]
    for (int at = THREAD; at < TILE; at += THREADS_OF) {
        const int i = at;
#else
    key_t key[ITEMS];
    int place[ITEMS];
#define LOADED(i) key[i]
#define STOOD(i)  place[i]
    UNROLL
    for (int i = 0; i < ITEMS; i++) {
        const int at = ITEM_AT(i);
#endif
        LOADED(i) = ~(key_t)0;
        STOOD(i) = -1;
        if (at < n) {
            const int64_t k = AT(const T_INDEX, index)[in_index + at * l.step];
            if (k < 0 || k >= l.size) NOTE_FAULT(k, l.size);
            LOADED(i) = (key_t)(k < 0 || k >= l.size ? l.size : k);
            STOOD(i) = at;
        }
    }
#if defined(__OPENCL_VERSION__)
    BARRIER();
    for (int digit = 0; digit < digits; digit++) settle(tile_keys, tile_places, counter, room, 8 * digit);
#else
    for (int digit = 0; digit < digits; digit++) {
        settle(key, place, tile_keys, tile_places, counter, room, 8 * digit);
        if (digit + 1 < digits) {
            UNROLL
            for (int i = 0; i < ITEMS; i++)
                if (place[i] >= 0) {
                    key[i] = tile_keys[ITEM_AT(i)];
                    place[i] = tile_places[ITEM_AT(i)];
                }
            BARRIER();
        }
    }
#endif
    for (int i = THREAD; i < n; i += THREADS_OF) {
        const key_t k = tile_keys[i];
        if ((i && tile_keys[i - 1] == k) || k >= (key_t)l.size) continue;
        const int64_t to = in_x + (int64_t)k * l.along;
        int j = i;
#if ALONE
        joined_t v = GET(src, in_index + tile_places[j++] * l.step);
#else
        joined_t v = GET(x, to);
#endif
        for (; j < n && tile_keys[j] == k; j++) v = joined(v, GET(src, in_index + tile_places[j] * l.step));
        AT(T_X, x)[to] = SET_X(finished(v, j - i + !ALONE));
    }
}
#endif

#ifdef KERNEL_few
KERNEL(entry)
(FAULT, PTR(x), PTR(src), PTR(index), const scatter_layout_t l, const int n) {
    for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < l.lines * n; e += (int64_t)BLOCKS * THREADS) {
        const int64_t line = e / n;
        const int own = (int)(e - line * n);
        FIND_LINE(line)
        const int64_t k = AT(const T_INDEX, index)[in_index + own * l.step], to = in_x + k * l.along;
        if (k < 0 || k >= l.size) {
            NOTE_FAULT(k, l.size);
            continue;
        }
        int first = 1;
        for (int i = 0; i < own; i++) first &= AT(const T_INDEX, index)[in_index + i * l.step] != k;
        if (!first) continue;
#if ALONE
        joined_t v = GET(src, in_index + own * l.step);
#else
        joined_t v = joined(GET(x, to), GET(src, in_index + own * l.step));
#endif
        int count = 1 + !ALONE;
        for (int i = own + 1; i < n; i++)
            if (AT(const T_INDEX, index)[in_index + i * l.step] == k) {
                v = joined(v, GET(src, in_index + i * l.step));
                count++;
            }
        AT(T_X, x)[to] = SET_X(finished(v, count));
    }
}
#endif

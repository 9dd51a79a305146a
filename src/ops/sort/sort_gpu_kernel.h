/* A stable radix sort of keys with their places, by digits of 8 bits from the lowest on. Before this text: KEY (4 or 8
 * bytes), and for a pass FIRST (the places are the elements' own numbers, none are read) and LAST.
 *
 *   keys     elements to whole numbers in the order wanted: -0 is 0, NaN the largest; BACKWARDS turns the order round
 *   count    how often each digit occurs in each tile: counts[digit][tile]
 *   prefix   each digit's counts summed along the tiles, and the digit's total
 *   move     every key and place to where it belongs
 *
 *   whole    a block sorts a row that fits in its tile, all digits at once
 *   short    rows of a few elements: each element counts those before it
 *
 * A block has THREADS_OF threads and a tile of TILE keys. Within a tile keys are ranked warp by warp with votes where
 * threads run in step; elsewhere by each thread's own counters, in two steps of 4 bits. */
#ifndef ITEMS
#define ITEMS (KEY == 8 ? 8 : 16) /* as shared memory has room */
#endif
#include "tile_gpu_kernel.h"
#if defined(__OPENCL_VERSION__)
#define COUNT_UP(at) atomic_inc(at)
#else
#define COUNT_UP(at) atomicAdd(at, 1)
#endif

#if defined(KERNEL_keys) || defined(KERNEL_whole) || defined(KERNEL_short)
INLINE key_t key_of(const T_X x) {
    key_t key;
#if FLOATING == 8
    const double v = x;
    union {
        double f;
        uint64_t u;
    } bits;
    bits.f = v == 0 ? 0 : v;
    key = v != v ? ~(key_t)0 : bits.u >> 63 ? ~bits.u : bits.u | (uint64_t)1 << 63;
#elif FLOATING
    const float v = GET_X(x);
    const uint32_t bits = F32_BITS(v == 0 ? 0.0f : v);
    key = v != v ? ~(key_t)0 : bits >> 31 ? (key_t)~bits : (key_t)(bits | 0x80000000u);
#elif NUMBERS
    key = (key_t)x; /* from 0 on */
#elif KEY == 8
    key = (key_t)((uint64_t)GET_X(x) ^ (uint64_t)1 << 63);
#else
    key = (key_t)((uint32_t)(int32_t)GET_X(x) ^ 0x80000000u);
#endif
#if BACKWARDS
    key = ~key;
#endif
    return key;
}
#endif

#ifdef KERNEL_keys
KERNEL(entry)
(PTR(out), PTR(in), const int64_t n) {
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i < n; i += (int64_t)BLOCKS * THREADS)
        AT(key_t, out)[i] = key_of(AT(const T_X, in)[i]);
}
#endif

#ifdef KERNEL_count
KERNEL(entry)
(PTR(counts), PTR(keys), const int64_t n, const int shift, const int tiles) {
    SHARED int bins[256];
    bins[THREAD] = 0;
    BARRIER();
    const int64_t from = (int64_t)BLOCK * TILE;
    for (int i = THREAD; i < TILE; i += THREADS_OF)
        if (from + i < n) COUNT_UP(&bins[DIGIT(AT(const key_t, keys)[from + i])]);
    BARRIER();
    AT(int, counts)[(int64_t)THREAD * tiles + BLOCK] = bins[THREAD];
}
#endif

/* A block per digit. */
#ifdef KERNEL_prefix
KERNEL(entry)
(PTR(counts), PTR(totals), const int tiles) {
    SHARED int room[THREADS_OF];
    GLOBAL int *row = AT(int, counts) + (int64_t)BLOCK * tiles;
    int before = 0;
    for (int from = 0; from < tiles; from += THREADS_OF) {
        const int at = from + THREAD, own = at < tiles ? row[at] : 0;
        int sum = own;
        room[THREAD] = sum;
        BARRIER();
        for (int by = 1; by < THREADS_OF; by *= 2) {
            const int more = THREAD >= by ? room[THREAD - by] : 0;
            BARRIER();
            sum += more;
            room[THREAD] = sum;
            BARRIER();
        }
        if (at < tiles) row[at] = before + sum - own;
        before += room[THREADS_OF - 1];
        BARRIER();
    }
    if (THREAD == 0) AT(int, totals)[BLOCK] = before;
}
#endif

#if defined(KERNEL_move) || defined(KERNEL_whole)
#include "radix_pass_gpu_kernel.h"
#endif

#ifdef KERNEL_move
KERNEL(entry)
(PTR(keys_out), PTR(places_out), PTR(keys), PTR(places), PTR(counts), PTR(totals), const int64_t n, const int shift,
 const int tiles) {
    SHARED key_t tile_keys[TILE];
    SHARED int tile_places[TILE];
    SHARED int room[THREADS_OF], start[256], base[256];
    const int64_t from = (int64_t)BLOCK * TILE, left = n - from;
    const int count = left < TILE ? (int)left : TILE;

    /* Where each digit's stretch begins among all keys: the digits before it, then the tiles before this one. */
    base[THREAD] =
        before_me(AT(const int, totals)[THREAD], room) + AT(const int, counts)[(int64_t)THREAD * tiles + BLOCK];
    BARRIER();

    SHARED counter_t counter[COUNTER_ROOM];
#if defined(__OPENCL_VERSION__)
    for (int i = THREAD; i < TILE; i += THREADS_OF) {
        const int there = i < count;
        tile_keys[i] = there ? AT(const key_t, keys)[from + i] : ~(key_t)0;
        tile_places[i] = there ? (FIRST ? (int)(from + i) : AT(const int, places)[from + i]) : -1;
    }
    BARRIER();
    settle(tile_keys, tile_places, counter, room, shift);
#else
    key_t key[ITEMS];
    int place[ITEMS];
    UNROLL
    for (int i = 0; i < ITEMS; i++) {
        const int at = ITEM_AT(i), there = at < count;
        key[i] = there ? AT(const key_t, keys)[from + at] : ~(key_t)0;
        place[i] = there ? (FIRST ? (int)(from + at) : AT(const int, places)[from + at]) : -1;
    }
    settle(key, place, tile_keys, tile_places, counter, room, shift);
#endif
    /* The tile is sorted: a digit's stretch begins where the digit before it ends. */
    start[THREAD] = 0;
    BARRIER();
    for (int i = THREAD; i < count; i += THREADS_OF) {
        const int d = DIGIT(tile_keys[i]);
        if (i == 0 || DIGIT(tile_keys[i - 1]) != d) start[d] = i;
    }
    BARRIER();
    for (int i = THREAD; i < count; i += THREADS_OF) {
        const int d = DIGIT(tile_keys[i]);
        const int64_t to = (int64_t)base[d] + i - start[d];
        AT(key_t, keys_out)[to] = tile_keys[i];
        AT(int, places_out)[to] = tile_places[i];
    }
}
#endif

#if defined(KERNEL_whole) || defined(KERNEL_short)
/* What a row's order is wanted for: WHAT. */
#define FIRST_OF_ORDER 0 /* the first k elements and their places in the row */
#define AT_RANK        1 /* element k, from 0 on */
#define MEDIAN         2 /* the one in the middle; the first NaN where there is one */
#define MEDIAN_OF_REST 3 /* the one in the middle of those that are not NaN */
#define ORDER          4 /* sorted numbers and their places among all, for sums */

/* have: how many of the row's n are not NaN. */
INLINE int rank_wanted(const int n, const int k, const int have) {
#if WHAT == MEDIAN
    return have < n ? have : (n - 1) / 2;
#elif WHAT == MEDIAN_OF_REST
    return have > 0 ? (have - 1) / 2 : 0;
#else
    return k;
#endif
}
#endif

#ifdef KERNEL_whole
KERNEL(entry)
(PTR(values), PTR(indices), PTR(in), const int n, const int k, const int first, const int last) {
    SHARED key_t tile_keys[TILE];
    SHARED int tile_places[TILE], room[THREADS_OF], have;
    SHARED counter_t counter[COUNTER_ROOM];
    const int64_t from = (int64_t)BLOCK * n;
#if defined(__OPENCL_VERSION__)
    for (int i = THREAD; i < TILE; i += THREADS_OF) {
        tile_keys[i] = i < n ? key_of(AT(const T_X, in)[from + i]) : ~(key_t)0;
        tile_places[i] = i < n ? i : -1;
    }
    if (THREAD == 0) have = n;
    BARRIER();
    for (int digit = first; digit < last; digit++) settle(tile_keys, tile_places, counter, room, 8 * digit);
#else
    key_t key[ITEMS];
    int place[ITEMS];
    UNROLL
    for (int i = 0; i < ITEMS; i++) {
        const int at = ITEM_AT(i);
        key[i] = at < n ? key_of(AT(const T_X, in)[from + at]) : ~(key_t)0;
        place[i] = at < n ? at : -1;
    }
    if (THREAD == 0) have = n;
    for (int digit = first; digit < last; digit++) {
        settle(key, place, tile_keys, tile_places, counter, room, 8 * digit);
        if (digit + 1 < last) {
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
#if WHAT == ORDER
    for (int i = THREAD; i < n; i += THREADS_OF) {
        AT(key_t, values)[i] = tile_keys[i];
        AT(int, indices)[i] = tile_places[i];
    }
#elif WHAT == FIRST_OF_ORDER
    for (int i = THREAD; i < k; i += THREADS_OF) {
        const int at = tile_places[i];
        AT(T_X, values)[(int64_t)BLOCK * k + i] = AT(const T_X, in)[from + at];
        AT(int64_t, indices)[(int64_t)BLOCK * k + i] = at;
    }
#else
#if FLOATING
    for (int i = THREAD; i < n; i += THREADS_OF) /* NaN stand last */
        if (tile_keys[i] == ~(key_t)0 && (!i || tile_keys[i - 1] != ~(key_t)0)) have = i;
    BARRIER();
#endif
    if (THREAD == 0) {
        const int at = tile_places[rank_wanted(n, k, have)];
        AT(T_X, values)[BLOCK] = AT(const T_X, in)[from + at];
        AT(int64_t, indices)[BLOCK] = at;
    }
#endif
}
#endif

#ifdef KERNEL_short
KERNEL(entry)
(PTR(values), PTR(indices), PTR(in), const int n, const int k, const int64_t total) {
    for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < total; e += (int64_t)BLOCKS * THREADS) {
        const int64_t row = e / n, from = row * n;
        const int own = (int)(e - from);
        const T_X x = AT(const T_X, in)[e];
        const key_t key = key_of(x);
        int before = 0, have = 0;
        for (int i = 0; i < n; i++) {
            const key_t other = key_of(AT(const T_X, in)[from + i]);
            before += other < key || (other == key && i < own);
            have += other != ~(key_t)0;
        }
#if !FLOATING
        have = n;
#endif
#if WHAT == FIRST_OF_ORDER
        if (before < k) {
            AT(T_X, values)[row * k + before] = x;
            AT(int64_t, indices)[row * k + before] = own;
        }
#else
        if (before == rank_wanted(n, k, have)) {
            AT(T_X, values)[row] = x;
            AT(int64_t, indices)[row] = own;
        }
#endif
    }
}
#endif

/* What sorted places mean: the element there, and its number within its row. One row's sorted keys (DECODE) say what
 * the element is, which spares a look at its place, but for zeros, whose sign they do not know, and NaN. */
#ifdef KERNEL_pick
KERNEL(entry)
(PTR(values), PTR(indices), PTR(in), PTR(places), PTR(keys), const int64_t rows, const int n, const int k) {
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i < rows * k; i += (int64_t)BLOCKS * THREADS) {
#if DECODE
        const int place = AT(const int, places)[i];
        key_t key = AT(const key_t, keys)[i];
#if BACKWARDS
        key = ~key;
#endif
        AT(int64_t, indices)[i] = place;
#if FLOATING == 8
        union {
            double f;
            uint64_t u;
        } bits;
        bits.u = key >> 63 ? key & ~((uint64_t)1 << 63) : ~key;
        AT(T_X, values)[i] = bits.f == 0 || bits.f != bits.f ? AT(const T_X, in)[place] : bits.f;
#elif FLOATING
        const float v = BITS_F32((uint32_t)(key >> 31 ? key & 0x7fffffffu : ~key));
        AT(T_X, values)[i] = v == 0 || v != v ? AT(const T_X, in)[place] : SET_X(v);
#elif KEY == 8
        AT(T_X, values)[i] = SET_X((int64_t)(key ^ (uint64_t)1 << 63));
#else
        AT(T_X, values)[i] = SET_X((int32_t)(key ^ 0x80000000u));
#endif
#else
        const int place = AT(const int, places)[i / k * n + i % k];
        AT(T_X, values)[i] = AT(const T_X, in)[place];
        AT(int64_t, indices)[i] = place % n;
#endif
    }
}
#endif

/* The row of each sorted place, as the next key. */
#ifdef KERNEL_rows
KERNEL(entry)
(PTR(keys), PTR(places), const int64_t total, const int n) {
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i < total; i += (int64_t)BLOCKS * THREADS)
        AT(key_t, keys)[i] = (key_t)(AT(const int, places)[i] / n);
}
#endif

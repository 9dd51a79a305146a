/* Running results of long columns in one pass over memory. A block takes a tile, in the order in which blocks start, so that the tiles before
 * it are done or at work. It leaves its tile's state for others and takes what stands before it: the state before its window of BLOCK_SIZE
 * tiles, and the states of the tiles of the window that come before it, all merged in their order whoever comes first; the last tile of a
 * window leaves the state before the next. So results are the same bits every time. For devices whose blocks make progress side by side, with
 * VEC > 1. `states` is memory that starts as zeros:
 *   counter, padded to 16 bytes; a flag per tile; a flag per window; the states of tiles; the states before windows. */
#include "axes.h"

#define ROUNDS 4
#define PACKS 2
#define RUN (PACKS * VEC)                  /* elements that follow one another, of a thread in a round */
#define TILE (ROUNDS * BLOCK_SIZE * RUN)
#define WARPS (BLOCK_SIZE / WARP)

typedef union state_words {
    state_t state;
    uint32_t w[sizeof(state_t) / 4];
} state_words;

INLINE state_t state_up(state_t a, int by) { /* of the thread `by` before this one in the warp */
    state_words from, to;
    from.state = a;
    UNROLL for (int i = 0; i < (int)(sizeof(state_t) / 4); i++)
#if defined(__HIP__) || defined(__HIPCC_RTC__)
        to.w[i] = __shfl_up(from.w[i], by);
#else
        to.w[i] = __shfl_up_sync(0xffffffffu, from.w[i], by);
#endif
    return to.state;
}

INLINE state_t scan_warp(state_t a, const int lane, const params_t param) { /* of all threads up to and with this one */
    UNROLL for (int by = 1; by < WARP; by *= 2) {
        state_t before = state_up(a, by);
        if (lane >= by) a = op_merge(before, a, param);
    }
    return a;
}

INLINE void leave(state_t *to, unsigned *flag, state_t a) {
    *to = a;
    __threadfence();
    *(volatile unsigned *)flag = 1;
}

INLINE state_t await(const state_t *from, const unsigned *flag) {
    state_words a;
    while (*(const volatile unsigned *)flag == 0) {}
    __threadfence();
    UNROLL for (int i = 0; i < (int)(sizeof(state_t) / 4); i++) a.w[i] = ((const volatile uint32_t *)from)[i];
    return a.state;
}

/* A wall for the compiler, which otherwise keeps all elements in their compute type from the first time to the second: twice the registers, half the blocks. */
INLINE void forget(pack_t *p) {
#if defined(__HIP__) || defined(__HIPCC_RTC__)
    asm volatile("" : "+v"(p->whole.x), "+v"(p->whole.y), "+v"(p->whole.z), "+v"(p->whole.w));
#else
    asm volatile("" : "+r"(p->whole.x), "+r"(p->whole.y), "+r"(p->whole.z), "+r"(p->whole.w));
#endif
}

EACH_OUT(OUT_PACK)
#define DECLARE_TARGET(k) char *to##k = AT(char, out##k) + column_out(&g, column, k);
#define WRITE_PACK(k)                                                                             \
    UNROLL for (int w = 0; w < (int)(VEC * sizeof(so##k##_t) / 16); w++)                          \
        ((word16 *)(to##k + (base + at) * sizeof(so##k##_t)))[w] = w##k.words[w];
#define WRITE_ELEMENT(k) ((so##k##_t *)to##k)[base + at + v] = w##k.e[v];

KERNEL(__launch_bounds__(BLOCK_SIZE, 3) entry)(PTR(x), OUT_ARGUMENTS, PTR(states), const axes_t g, const params_t param) {
    SHARED unsigned shared_ticket;
    SHARED state_t totals[ROUNDS * WARPS], window[WARPS], shared_before;
    const int lane = THREAD % WARP, warp = THREAD / WARP;
    if (THREAD == 0) shared_ticket = atomicAdd(AT(unsigned, states), 1u);
    BARRIER();
    const int64_t ticket = shared_ticket, tiles = g.pieces, column = ticket / tiles, tile = ticket - column * tiles;
    const int64_t windows = (tiles + BLOCK_SIZE - 1) / BLOCK_SIZE, mine_window = tile / BLOCK_SIZE;
    unsigned *flags = AT(unsigned, states) + 4, *window_flags = flags + g.kept * tiles;
    state_t *left = (state_t *)(AT(char, states) + ((4 + g.kept * (tiles + windows)) * 4 + 15) / 16 * 16), *before_windows = left + g.kept * tiles;

    /* The tile's elements, and what this thread's runs of them come to. */
    const char *row = AT(const char, x) + column_x(&g, column);
    const int64_t base = tile * TILE + THREAD * RUN;
    const int inside = g.total - base < TILE ? (int)(g.total - base) : TILE; /* elements from here to the column's end, no more than a tile's */
    pack_t p[ROUNDS][PACKS];
    state_t sums[ROUNDS];
    UNROLL for (int r = 0; r < ROUNDS; r++)
        UNROLL for (int q = 0; q < PACKS; q++) {
            const int at = r * BLOCK_SIZE * RUN + q * VEC;
            if (at + VEC <= inside) p[r][q] = read_pack(row + (base + at) * sizeof(sx_t));
            else UNROLL for (int v = 0; v < VEC; v++) p[r][q].e[v] = *(const sx_t *)(row + (at + v < inside ? base + at + v : 0) * sizeof(sx_t));
        }
    UNROLL for (int r = 0; r < ROUNDS; r++) {
        sums[r] = op_start(param);
        UNROLL for (int q = 0; q < PACKS; q++)
            UNROLL for (int v = 0; v < VEC; v++) {
                const int at = r * BLOCK_SIZE * RUN + q * VEC + v;
                if (at < inside) sums[r] = op_step(sums[r], READ(p[r][q].e[v]), base + at, param);
            }
        const state_t all = scan_warp(sums[r], lane, param), before = state_up(all, 1);
        if (lane == WARP - 1) totals[r * WARPS + warp] = all;
        sums[r] = lane ? before : op_start(param);
    }
    BARRIER();

    /* What the warps' parts come to, in the order of elements: before each, and all. */
    if (warp == 0) {
        state_t part = op_start(param);
        if (lane < ROUNDS * WARPS) part = totals[lane];
        const state_t all = scan_warp(part, lane, param), before = state_up(all, 1);
        if (lane == ROUNDS * WARPS - 1) leave(left + column * tiles + tile, flags + column * tiles + tile, all), shared_before = all;
        if (lane < ROUNDS * WARPS) totals[lane] = lane ? before : op_start(param);
    }
    BARRIER();
    const state_t whole = shared_before;

    /* What stands before the tile. */
    const int64_t first = mine_window * BLOCK_SIZE;
    state_t other = op_start(param);
    if (first + THREAD < tile) other = await(left + column * tiles + first + THREAD, flags + column * tiles + first + THREAD);
    other = scan_warp(other, lane, param);
    if (lane == WARP - 1) window[warp] = other;
    BARRIER();
    if (THREAD == 0) {
        state_t before = op_start(param);
        if (mine_window > 0) before = await(before_windows + column * windows + mine_window, window_flags + column * windows + mine_window);
        for (int w = 0; w < WARPS; w++) before = op_merge(before, window[w], param);
        if (tile == first + BLOCK_SIZE - 1 && tile + 1 < tiles)
            leave(before_windows + column * windows + mine_window + 1, window_flags + column * windows + mine_window + 1, op_merge(before, whole, param));
        shared_before = before;
    }
    BARRIER();

    const state_t before_tile = shared_before;
    EACH_OUT(DECLARE_TARGET)
    UNROLL for (int r = 0; r < ROUNDS; r++) {
        state_t a = op_merge(op_merge(before_tile, totals[r * WARPS + warp], param), sums[r], param);
        UNROLL for (int q = 0; q < PACKS; q++) {
            const int at = r * BLOCK_SIZE * RUN + q * VEC;
            forget(&p[r][q]);
            EACH_OUT(DECLARE_RESULT)
            EACH_OUT(DECLARE_PACK)
            UNROLL for (int v = 0; v < VEC; v++) { /* behind the column's end, of an element that does not matter */
                a = op_step(a, READ(p[r][q].e[v]), base + at + v, param);
                op_value(a, READ(p[r][q].e[v]), base + at + v, param, OUT_RESULTS);
                EACH_OUT(KEEP_RESULT)
            }
            if (at + VEC <= inside) {
                EACH_OUT(WRITE_PACK)
            } else UNROLL for (int v = 0; v < VEC; v++) {
                if (at + v < inside) {
                    EACH_OUT(WRITE_ELEMENT)
                }
            }
        }
    }
}

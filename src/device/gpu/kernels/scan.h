/* Running results along one dim. A block takes a column, or a piece of it, tile by tile: each of its threads folds
 * ITEMS elements that follow one another, the threads' states are scanned, and every thread goes over its elements
 * again from the state before them.
 *
 *   SCAN_ROWS     a block per piece of a column
 *   SCAN_COLUMNS  a thread per piece of a column, for columns that lie side by side, and for short ones
 *   SCAN_CARRY    a block per column: the states of its pieces (kernels/fold.h made them) become those before each
 *                 piece
 *   SCAN_CHAIN    all in one pass: a block per piece of a column, which waits for the state before the piece
 *
 * States of pieces lie as [piece][column]. All in a fixed order. Without SHARING only SCAN_COLUMNS is used. */
#include "axes.h"
#include "states.h"

#if VEC > 1
#define PACKS 2
#else
#define PACKS 4
#endif
#define ITEMS (PACKS * VEC)

/* The state before this thread's in `before`, which starts as the block's own, from each thread's state in `mine`;
 * `whole` is the block's next. room: SCAN_ROOM states. */
#if !defined(__OPENCL_VERSION__)
#define SCAN_ROOM TEAMS
#define SCAN_BLOCK(room, mine, before)                                   \
    state_t whole = before;                                              \
    {                                                                    \
        state_t upto = mine;                                             \
        UNROLL                                                           \
        for (int s = 1; s < TEAM; s *= 2) {                              \
            const state_t other = state_up(upto, s);                     \
            if (THREAD % TEAM >= s) upto = op_merge(other, upto, param); \
        }                                                                \
        if (THREAD % TEAM == TEAM - 1) room[THREAD / TEAM] = upto;       \
        const state_t left = state_up(upto, 1);                          \
        BARRIER();                                                       \
        UNROLL                                                           \
        for (int w = 0; w < TEAMS; w++) {                                \
            if (w == THREAD / TEAM) before = whole;                      \
            whole = op_merge(whole, room[w], param);                     \
        }                                                                \
        if (THREAD % TEAM) before = op_merge(before, left, param);       \
        BARRIER();                                                       \
    }
#else
#define SCAN_ROOM (2 * BLOCK_SIZE)
#define SCAN_BLOCK(room, mine, before)                                          \
    int side = 0;                                                               \
    room[THREAD] = mine;                                                        \
    for (int s = 1; s < BLOCK_SIZE; s *= 2) {                                   \
        BARRIER();                                                              \
        state_t sum = room[side + THREAD];                                      \
        if (THREAD >= s) sum = op_merge(room[side + THREAD - s], sum, param);   \
        side = BLOCK_SIZE - side;                                               \
        room[side + THREAD] = sum;                                              \
    }                                                                           \
    BARRIER();                                                                  \
    const state_t whole = op_merge(before, room[side + BLOCK_SIZE - 1], param); \
    if (THREAD > 0) before = op_merge(before, room[side + THREAD - 1], param);  \
    BARRIER();
#endif

#if defined(SCAN_ROWS)
#if VEC > 1
EACH_OUT(OUT_PACK)
#define WRITE_PACK(k)                                             \
    UNROLL                                                        \
    for (int w = 0; w < (int)(VEC * sizeof(so##k##_t) / 16); w++) \
        ((GLOBAL word16 *)(to##k + (i + q * VEC) * sizeof(so##k##_t)))[w] = w##k.words[w];
#endif
#define DECLARE_TARGET(k) GLOBAL char *to##k = AT(char, out##k) + column_out(&g, column, k);
#define WRITE_RESULT(k)   *(GLOBAL so##k##_t *)(to##k + (i + q * VEC + v) * g.rout[k]) = WRITE##k(r##k);

KERNEL(entry)
(PTR(x), OUT_ARGUMENTS, PTR(states), const axes_t g, const params_t param) {
    SHARED state_t room[SCAN_ROOM];
#if SPLIT
    const int64_t column = (int64_t)BLOCK / g.pieces, piece = (int64_t)BLOCK - column * g.pieces,
                  from = piece * g.piece;
    const int64_t to = from + g.piece < g.total ? from + g.piece : g.total;
    state_t carry = AT(state_t, states)[piece * g.kept + column];
#else
    const int64_t column = BLOCK, from = 0, to = g.total;
    state_t carry = op_start(param);
#endif
    GLOBAL const char *row = AT(const char, x) + column_x(&g, column);
    EACH_OUT(DECLARE_TARGET)
    for (int64_t base = from; base < to; base += BLOCK_SIZE * ITEMS) {
        const int64_t i = base + THREAD * ITEMS, left = to - i;
        pack_t p[PACKS];
        state_t mine = op_start(param);
        UNROLL
        for (int q = 0; q < PACKS; q++) {
            if (left >= (q + 1) * VEC)
                p[q] = read_pack(row + (i + q * VEC) * g.rx[0]);
            else
                UNROLL
            for (int v = 0; v < VEC; v++)
                p[q].e[v] = *(GLOBAL const sx_t *)(row + (q * VEC + v < left ? i + q * VEC + v : from) * g.rx[0]);
        }
        UNROLL
        for (int q = 0; q < PACKS; q++) UNROLL
        for (int v = 0; v < VEC; v++)
            if (q * VEC + v < left) mine = op_step(mine, READ(p[q].e[v]), i + q * VEC + v, param);
        state_t a = carry;
        SCAN_BLOCK(room, mine, a)
        carry = whole;
        UNROLL
        for (int q = 0; q < PACKS; q++) {
            EACH_OUT(DECLARE_RESULT)
#if VEC > 1
            if (left >= (q + 1) * VEC) {
                EACH_OUT(DECLARE_PACK)
                UNROLL
                for (int v = 0; v < VEC; v++) {
                    a = op_step(a, READ(p[q].e[v]), i + q * VEC + v, param);
                    op_value(a, READ(p[q].e[v]), i + q * VEC + v, param, OUT_RESULTS);
                    EACH_OUT(KEEP_RESULT)
                }
                EACH_OUT(WRITE_PACK)
                continue;
            }
#endif
            UNROLL
            for (int v = 0; v < VEC; v++) {
                if (q * VEC + v >= left) continue;
                a = op_step(a, READ(p[q].e[v]), i + q * VEC + v, param);
                op_value(a, READ(p[q].e[v]), i + q * VEC + v, param, OUT_RESULTS);
                EACH_OUT(WRITE_RESULT)
            }
        }
    }
}
#endif

#if defined(SCAN_COLUMNS)
#define DECLARE_TARGET(k) GLOBAL char *to##k = AT(char, out##k) + column_out(&g, column, k);
#define WRITE_RESULT(k)   *(GLOBAL so##k##_t *)(to##k + i * g.rout[k]) = WRITE##k(r##k);

KERNEL(entry)
(PTR(x), OUT_ARGUMENTS, PTR(states), const axes_t g, const params_t param) {
    const int64_t column = (int64_t)BLOCK * BLOCK_SIZE + THREAD, from = BLOCK_Y * g.piece;
    const int64_t to = from + g.piece < g.total ? from + g.piece : g.total;
    if (column >= g.kept) return;
#if SPLIT
    state_t a = AT(state_t, states)[BLOCK_Y * g.kept + column];
#else
    state_t a = op_start(param);
#endif
    GLOBAL const char *top = AT(const char, x) + column_x(&g, column);
    EACH_OUT(DECLARE_TARGET)
    int64_t i = from;
    for (; i + 8 <= to;) { /* eight reads on their way at a time */
        x_t next[8];
        UNROLL
        for (int v = 0; v < 8; v++) next[v] = read_x(top + (i + v) * g.rx[0]);
        UNROLL
        for (int v = 0; v < 8; v++, i++) {
            EACH_OUT(DECLARE_RESULT)
            a = op_step(a, next[v], i, param);
            op_value(a, next[v], i, param, OUT_RESULTS);
            EACH_OUT(WRITE_RESULT)
        }
    }
    for (; i < to; i++) {
        EACH_OUT(DECLARE_RESULT)
        const x_t next = read_x(top + i * g.rx[0]);
        a = op_step(a, next, i, param);
        op_value(a, next, i, param, OUT_RESULTS);
        EACH_OUT(WRITE_RESULT)
    }
}
#endif

#if defined(SCAN_CARRY)
KERNEL(entry)
(PTR(states), const axes_t g, const params_t param) {
    SHARED state_t room[SCAN_ROOM];
    state_t carry = op_start(param);
    for (int64_t base = 0; base < g.pieces; base += BLOCK_SIZE) {
        const bool inside = base + THREAD < g.pieces;
        GLOBAL state_t *at = AT(state_t, states) + (base + THREAD) * g.kept + BLOCK;
        state_t mine = op_start(param), a = carry;
        if (inside) mine = *at;
        SCAN_BLOCK(room, mine, a)
        carry = whole;
        if (inside) *at = a;
    }
}
#endif

#if defined(SCAN_CHAIN)
/* A block takes the next piece that none has taken, so those before it are done or under way: waiting for them ends.
 * Each piece leaves its total in a cell, and every CHAIN-th piece the running result up to its end, for the next CHAIN
 * pieces. So the state before a piece is a sum in one order, whoever comes first. x and results move in 16 bytes, by
 * neighbouring threads; each thread's CHAIN_PACKS of them that follow one another come by way of shared memory, where
 * one place in so many is left out for the banks' sake, and stay there while the block waits: registers kept for them
 * would leave room for fewer blocks. Memory of `states`: the number of the next piece, as long as a cell; a cell for
 * each piece; one for each CHAIN of a column's. All zero at first. */
EACH_OUT(OUT_PACK)
#define CHAIN          32
#define CHAIN_PACKS    8
#define PLACE(w)       ((w) + (w) / CHAIN_PACKS)
#define CHAIN_PIECE    (BLOCK_SIZE * CHAIN_PACKS * VEC)
#define POSITION(w, v) ((w)*VEC + (v))

typedef struct cell_t {
    uint64_t state, there;
} cell_t;
typedef union cell_state {
    uint64_t word;
    state_t state; /* no larger */
} cell_state;

#if defined(__OPENCL_VERSION__)
#define NEXT_PIECE(at) atomic_inc(at)
#define FENCE()        mem_fence(CLK_GLOBAL_MEM_FENCE)
#else
#define NEXT_PIECE(at) atomicAdd(at, 1u)
#define FENCE()        __threadfence()
#endif

/* Both words travel at once where the language has a way to say so; a fence between them costs a microsecond. */
INLINE void put_cell(GLOBAL cell_t *at, const state_t a) {
    cell_state s;
    s.word = 0;
    s.state = a;
#if !defined(__OPENCL_VERSION__) && !defined(__HIP__)
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(at), "l"(s.word), "l"(1ULL) : "memory");
#else
    *(volatile GLOBAL uint64_t *)&at->state = s.word;
    FENCE();
    *(volatile GLOBAL uint64_t *)&at->there = 1;
#endif
}

INLINE state_t await_cell(GLOBAL cell_t *at) {
    cell_state s;
#if !defined(__OPENCL_VERSION__) && !defined(__HIP__)
    uint64_t there;
    do asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(s.word), "=l"(there) : "l"(at) : "memory");
    while (!there);
#else
    while (!*(volatile GLOBAL uint64_t *)&at->there) continue;
    FENCE();
    s.word = *(volatile GLOBAL uint64_t *)&at->state;
#endif
    return s.state;
}

/* The state of up to CHAIN - 1 pieces before this one, in the first thread. */
#if defined(__OPENCL_VERSION__)
#define LOOK_BACK(seen) \
    for (int c = link; c > 0 && THREAD == 0; c--) seen = op_merge(seen, await_cell(own - c), param);
#else
#define LOOK_BACK(seen)                                                                       \
    if (THREAD < TEAM) {                                                                      \
        if (THREAD < link) seen = await_cell(own - link + THREAD);                            \
        UNROLL                                                                                \
        for (int s = 1; s < CHAIN; s *= 2) seen = op_merge(seen, state_down(seen, s), param); \
    }
#endif

KERNEL_OF(entry, BLOCK_SIZE, 6)(PTR(x), PTR(out0), PTR(states), const axes_t g, const params_t param) {
    SHARED word16 words[BLOCK_SIZE * (CHAIN_PACKS + 1)];
    SHARED state_t room[SCAN_ROOM];
    SHARED state_t first;
    SHARED uint32_t next;
    if (THREAD == 0) next = NEXT_PIECE(AT(uint32_t, states));
    BARRIER();
    const int64_t number = next, column = number / g.pieces, piece = number - column * g.pieces, from = piece * g.piece;
    const int left = g.total - from < CHAIN_PIECE ? (int)(g.total - from) : CHAIN_PIECE;
    GLOBAL const char *source = AT(const char, x) + column_x(&g, column) + from * sizeof(sx_t);
    const bool full = left == CHAIN_PIECE;
    {
        pack_t p[CHAIN_PACKS];
        UNROLL
        for (int q = 0; q < CHAIN_PACKS; q++) {
            const int w = q * BLOCK_SIZE + THREAD;
            if (full || POSITION(w, VEC) <= left)
                p[q] = read_pack(source + w * 16);
            else
                UNROLL
            for (int v = 0; v < VEC; v++)
                p[q].e[v] =
                    *(GLOBAL const sx_t *)(source + (POSITION(w, v) < left ? POSITION(w, v) : 0) * sizeof(sx_t));
        }
        UNROLL
        for (int q = 0; q < CHAIN_PACKS; q++) words[PLACE(q * BLOCK_SIZE + THREAD)] = p[q].whole;
    }
    BARRIER();
    state_t mine = op_start(param), before = op_start(param);
    UNROLL
    for (int q = 0; q < CHAIN_PACKS; q++) {
        pack_t p;
        p.whole = words[PLACE(THREAD * CHAIN_PACKS + q)];
        UNROLL
        for (int v = 0; v < VEC; v++)
            if (full || POSITION(THREAD * CHAIN_PACKS + q, v) < left)
                mine = op_step(mine, READ(p.e[v]), from + POSITION(THREAD * CHAIN_PACKS + q, v), param);
    }
    SCAN_BLOCK(room, mine, before)
    GLOBAL cell_t *cells = AT(cell_t, states) + 1, *own = cells + number;
    const int64_t row = piece / CHAIN, rows = (g.pieces + CHAIN - 1) / CHAIN;
    const int link = (int)(piece - row * CHAIN);
    if (THREAD == 0) put_cell(own, whole);
    state_t seen = op_start(param);
    LOOK_BACK(seen)
    if (THREAD == 0) {
        GLOBAL cell_t *ends = cells + g.kept * g.pieces + column * rows + row;
        if (row > 0) seen = op_merge(await_cell(ends - 1), seen, param);
        if (link == CHAIN - 1) put_cell(ends, op_merge(seen, whole, param));
        first = seen;
    }
    BARRIER();
    state_t a = op_merge(first, before, param);
    UNROLL
    for (int q = 0; q < CHAIN_PACKS; q++) {
        pack_t p;
        pack0_t w0;
        p.whole = words[PLACE(THREAD * CHAIN_PACKS + q)];
        UNROLL
        for (int v = 0; v < VEC; v++) {
            out0_t r0;
            a = op_step(a, READ(p.e[v]), from + POSITION(THREAD * CHAIN_PACKS + q, v), param);
            op_value(a, READ(p.e[v]), from + POSITION(THREAD * CHAIN_PACKS + q, v), param, &r0);
            w0.e[v] = WRITE0(r0);
        }
        words[PLACE(THREAD * CHAIN_PACKS + q)] = w0.words[0];
    }
    BARRIER();
    GLOBAL char *target = AT(char, out0) + column_out(&g, column, 0) + from * sizeof(so0_t);
    UNROLL
    for (int q = 0; q < CHAIN_PACKS; q++) {
        const int w = q * BLOCK_SIZE + THREAD;
        pack0_t w0;
        w0.words[0] = words[PLACE(w)];
        if (full || POSITION(w, VEC) <= left)
            *(GLOBAL word16 *)(target + w * 16) = w0.words[0];
        else
            UNROLL
        for (int v = 0; v < VEC; v++)
            if (POSITION(w, v) < left) *(GLOBAL so0_t *)(target + POSITION(w, v) * sizeof(so0_t)) = w0.e[v];
    }
}
#endif

/* Running results along one dim. A block takes a column, or a piece of it, tile by tile: each of its threads folds ITEMS elements that follow
 * one another, the threads' states are scanned, and every thread goes over its elements again from the state before them. Kernels:
 *   SCAN_ROWS     a block per piece of a column
 *   SCAN_COLUMNS  a thread per piece of a column: columns that lie side by side, and short ones
 *   SCAN_CARRY    a block per column: the states of its pieces (kernels/fold.h made them) become those before each piece
 * States of pieces lie as [piece][column]. All in a fixed order. Without SHARING only SCAN_COLUMNS is used. */
#include "axes.h"

#if VEC > 1
#define PACKS 2
#else
#define PACKS 4
#endif
#define ITEMS (PACKS * VEC)

/* The state before this thread's in `before`, which starts as the block's own, from each thread's state in `mine`; `before` then is the block's next. */
#define SCAN_BLOCK(room, mine, before)                                                            \
    int side = 0;                                                                                 \
    room[THREAD] = mine;                                                                          \
    for (int s = 1; s < BLOCK_SIZE; s *= 2) {                                                     \
        BARRIER();                                                                                \
        state_t sum = room[side + THREAD];                                                        \
        if (THREAD >= s) sum = op_merge(room[side + THREAD - s], sum, param);                     \
        side = BLOCK_SIZE - side;                                                                 \
        room[side + THREAD] = sum;                                                                \
    }                                                                                             \
    BARRIER();                                                                                    \
    const state_t whole = op_merge(before, room[side + BLOCK_SIZE - 1], param);                   \
    if (THREAD > 0) before = op_merge(before, room[side + THREAD - 1], param);                    \
    BARRIER();

#if defined(SCAN_ROWS)
#if VEC > 1
EACH_OUT(OUT_PACK)
#define WRITE_PACK(k)                                                                             \
    UNROLL for (int w = 0; w < (int)(VEC * sizeof(so##k##_t) / 16); w++)                          \
        ((GLOBAL word16 *)(to##k + (i + q * VEC) * sizeof(so##k##_t)))[w] = w##k.words[w];
#endif
#define DECLARE_TARGET(k) GLOBAL char *to##k = AT(char, out##k) + column_out(&g, column, k);
#define WRITE_RESULT(k) *(GLOBAL so##k##_t *)(to##k + (i + q * VEC + v) * g.rout[k]) = WRITE##k(r##k);

KERNEL(entry)(PTR(x), OUT_ARGUMENTS, PTR(states), const axes_t g, const params_t param) {
    SHARED state_t room[2 * BLOCK_SIZE];
#if SPLIT
    const int64_t column = (int64_t)BLOCK / g.pieces, piece = (int64_t)BLOCK - column * g.pieces, from = piece * g.piece;
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
        UNROLL for (int q = 0; q < PACKS; q++) {
            if (left >= (q + 1) * VEC) p[q] = read_pack(row + (i + q * VEC) * g.rx[0]);
            else UNROLL for (int v = 0; v < VEC; v++) p[q].e[v] = *(GLOBAL const sx_t *)(row + (q * VEC + v < left ? i + q * VEC + v : from) * g.rx[0]);
        }
        UNROLL for (int q = 0; q < PACKS; q++)
            UNROLL for (int v = 0; v < VEC; v++)
                if (q * VEC + v < left) mine = op_step(mine, READ(p[q].e[v]), i + q * VEC + v, param);
        state_t a = carry;
        SCAN_BLOCK(room, mine, a)
        carry = whole;
        UNROLL for (int q = 0; q < PACKS; q++) {
            EACH_OUT(DECLARE_RESULT)
#if VEC > 1
            if (left >= (q + 1) * VEC) {
                EACH_OUT(DECLARE_PACK)
                UNROLL for (int v = 0; v < VEC; v++) {
                    a = op_step(a, READ(p[q].e[v]), i + q * VEC + v, param);
                    op_value(a, READ(p[q].e[v]), i + q * VEC + v, param, OUT_RESULTS);
                    EACH_OUT(KEEP_RESULT)
                }
                EACH_OUT(WRITE_PACK)
                continue;
            }
#endif
            UNROLL for (int v = 0; v < VEC; v++) {
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
#define WRITE_RESULT(k) *(GLOBAL so##k##_t *)(to##k + i * g.rout[k]) = WRITE##k(r##k);

KERNEL(entry)(PTR(x), OUT_ARGUMENTS, PTR(states), const axes_t g, const params_t param) {
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
        UNROLL for (int v = 0; v < 8; v++) next[v] = read_x(top + (i + v) * g.rx[0]);
        UNROLL for (int v = 0; v < 8; v++, i++) {
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
KERNEL(entry)(PTR(states), const axes_t g, const params_t param) {
    SHARED state_t room[2 * BLOCK_SIZE];
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

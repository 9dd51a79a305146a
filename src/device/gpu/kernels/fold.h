/* Reductions. Three kernels over the operator's functions, each in a fixed order, so that results are the same bits
 * every time:
 *
 *   FOLD_ROWS     a group of threads per piece of a column, neighbours read neighbouring elements of it
 *   FOLD_COLUMNS  a group of threads side by side, each of which reads VEC neighbouring columns; the block's other
 *                 threads take other rows
 *   FOLD_MERGE    a group of threads per column, over the states that its pieces left
 *
 * With SPLIT a column has several pieces, whose states go to memory as [piece][column]; without, results are written at
 * once. Without SHARING threads do not work together: a group is one thread, or in FOLD_COLUMNS all of the block's. */

#include "axes.h"
#include "states.h"

/* Where FED is 1 a program makes x's elements (gpu/fold_prologue.h): a place is the distance from x's first element, in
 * bytes.
 */
#if FED
#define X_ARGUMENTS FED_ARGUMENTS
typedef int64_t place_t;
#define FIRST_PLACE   0
#define READ_PACK(at) fed_pack((at) / (int64_t)sizeof(sx_t))
#define READ_ONE(at)  READ(fed_one((at) / (int64_t)sizeof(sx_t)))
#else
#define X_ARGUMENTS   PTR(x)
typedef GLOBAL const char *place_t;
#define FIRST_PLACE   AT(const char, x)
#define READ_PACK(at) read_pack(at)
#define READ_ONE(at)  read_x(at)
#endif

/* `a` of a group's threads becomes, in the first of them, that of all. ROOM: states in shared memory that this takes.
 */
#if !defined(__OPENCL_VERSION__)
#define ROOM TEAMS
#define MERGE_GROUP                                                                                          \
    for (int s = (group < TEAM ? group : TEAM) / 2; s > 0; s /= 2) a = op_merge(a, state_down(a, s), param); \
    if (group > TEAM) {                                                                                      \
        if (THREAD % TEAM == 0) room[THREAD / TEAM] = a;                                                     \
        BARRIER();                                                                                           \
        for (int w = 1; w < group / TEAM && lane == 0; w++) a = op_merge(a, room[THREAD / TEAM + w], param); \
    }
#elif SHARING
#define ROOM BLOCK_SIZE
#define MERGE_GROUP                                                            \
    room[THREAD] = a;                                                          \
    for (int s = group / 2; s > 0; s /= 2) {                                   \
        BARRIER();                                                             \
        if (lane < s) room[THREAD] = a = op_merge(a, room[THREAD + s], param); \
    }
#else
#define MERGE_GROUP
#endif

#if !SPLIT
#define WRITE_RESULT(k) *(GLOBAL so##k##_t *)(out##k + column_out(g, column, k)) = WRITE##k(r##k);
INLINE void write_results(const axes_t *g, const params_t param, const state_t a, const int64_t column, OUT_POINTERS) {
    EACH_OUT(DECLARE_RESULT)
    op_finish(a, g->total, param, OUT_RESULTS);
    EACH_OUT(WRITE_RESULT)
}
#endif

/* VEC elements of one column, one after the other. */
INLINE state_t step_pack(state_t a, const pack_t p, const index_t i, const params_t param) {
    UNROLL
    for (int v = 0; v < VEC; v++) a = op_step(a, READ(p.e[v]), i + v, param);
    return a;
}

#if defined(FOLD_ROWS)
KERNEL(entry)
(X_ARGUMENTS, OUT_ARGUMENTS, PTR(states), const axes_t g, const params_t param) {
#if SHARING
    SHARED state_t room[ROOM];
#endif
    const int group = 1 << g.group, lane = THREAD & (group - 1);
    const int64_t unit = (int64_t)BLOCK * (BLOCK_SIZE >> g.group) + (THREAD >> g.group);
#if SPLIT
    const int64_t column = unit / g.pieces, piece = unit - column * g.pieces;
    const index_t from = (index_t)(piece * g.piece),
                  to = (index_t)(from + g.piece < g.total ? from + g.piece : g.total);
#else
    const int64_t column = unit;
    const index_t from = 0, to = (index_t)g.total;
#endif
    state_t a = op_start(param);
    if (column < g.kept) {
        const place_t row = FIRST_PLACE + column_x(&g, column);
#if VEC > 1
        index_t i = from + lane * VEC;
        for (; i + (3 * group + 1) * VEC <= to; i += 4 * group * VEC) { /* four reads on their way at a time */
            pack_t p0 = READ_PACK(row + i * sizeof(sx_t)), p1 = READ_PACK(row + (i + group * VEC) * sizeof(sx_t));
            pack_t p2 = READ_PACK(row + (i + 2 * group * VEC) * sizeof(sx_t)),
                   p3 = READ_PACK(row + (i + 3 * group * VEC) * sizeof(sx_t));
            a = step_pack(a, p0, i, param);
            a = step_pack(a, p1, i + group * VEC, param);
            a = step_pack(a, p2, i + 2 * group * VEC, param);
            a = step_pack(a, p3, i + 3 * group * VEC, param);
        }
        for (; i + VEC <= to; i += group * VEC) a = step_pack(a, READ_PACK(row + i * sizeof(sx_t)), i, param);
        for (i = (index_t)(to - (to - from) % VEC) + lane; i < to; i += group)
            a = op_step(a, READ_ONE(row + i * sizeof(sx_t)), i, param);
#else
        index_t i = from + lane;
        for (; i + 3 * group < to; i += 4 * group) {
            x_t x0 = READ_ONE(row + element_x(&g, i)), x1 = READ_ONE(row + element_x(&g, i + group));
            x_t x2 = READ_ONE(row + element_x(&g, i + 2 * group)), x3 = READ_ONE(row + element_x(&g, i + 3 * group));
            a = op_step(a, x0, i, param);
            a = op_step(a, x1, i + group, param);
            a = op_step(a, x2, i + 2 * group, param);
            a = op_step(a, x3, i + 3 * group, param);
        }
        for (; i < to; i += group) a = op_step(a, READ_ONE(row + element_x(&g, i)), i, param);
#endif
    }
    MERGE_GROUP
    if (lane || column >= g.kept) return;
#if SPLIT
    AT(state_t, states)[piece * g.kept + column] = a;
#else
    write_results(&g, param, a, column, OUT_VALUES);
#endif
}
#endif

#if defined(FOLD_COLUMNS)
KERNEL(entry)
(X_ARGUMENTS, OUT_ARGUMENTS, PTR(states), const axes_t g, const params_t param) {
#if SHARING
    SHARED state_t room[BLOCK_SIZE];
#endif
    const int wide = 1 << g.group, tall = BLOCK_SIZE >> g.group, down = THREAD >> g.group;
    const int64_t first = ((int64_t)BLOCK * wide + (THREAD & (wide - 1))) * VEC, from = BLOCK_Y * g.piece;
    const int64_t to = from + g.piece < g.total ? from + g.piece : g.total;
    const bool inside = first < g.kept;
    state_t a[VEC];
    UNROLL
    for (int v = 0; v < VEC; v++) a[v] = op_start(param);
    if (inside) {
        const place_t top = FIRST_PLACE + column_x(&g, first);
        int64_t i = from + down;
        for (; i + 3 * tall < to; i += 4 * tall) {
            pack_t p0 = READ_PACK(top + element_x(&g, i)), p1 = READ_PACK(top + element_x(&g, i + tall));
            pack_t p2 = READ_PACK(top + element_x(&g, i + 2 * tall)), p3 = READ_PACK(top + element_x(&g, i + 3 * tall));
            UNROLL
            for (int v = 0; v < VEC; v++) {
                a[v] = op_step(a[v], READ(p0.e[v]), i, param);
                a[v] = op_step(a[v], READ(p1.e[v]), i + tall, param);
                a[v] = op_step(a[v], READ(p2.e[v]), i + 2 * tall, param);
                a[v] = op_step(a[v], READ(p3.e[v]), i + 3 * tall, param);
            }
        }
        for (; i < to; i += tall) {
            pack_t p = READ_PACK(top + element_x(&g, i));
            UNROLL
            for (int v = 0; v < VEC; v++) a[v] = op_step(a[v], READ(p.e[v]), i, param);
        }
    }
#if SHARING
    UNROLL
    for (int v = 0; v < VEC; v++) {
        BARRIER();
        room[THREAD] = a[v];
        for (int s = tall / 2; s > 0; s /= 2) {
            BARRIER();
            if (down < s) room[THREAD] = a[v] = op_merge(a[v], room[THREAD + s * wide], param);
        }
    }
#endif
    if (down || !inside) return;
    UNROLL
    for (int v = 0; v < VEC; v++) {
#if SPLIT
        AT(state_t, states)[BLOCK_Y * g.kept + first + v] = a[v];
#else
        write_results(&g, param, a[v], first + v, OUT_VALUES);
#endif
    }
}
#endif

#if defined(FOLD_MERGE)
KERNEL(entry)
(OUT_ARGUMENTS, PTR(states), const axes_t g, const params_t param) {
#if SHARING
    SHARED state_t room[ROOM];
#endif
    const int group = 1 << g.group, lane = THREAD & (group - 1);
    const int64_t column = (int64_t)BLOCK * (BLOCK_SIZE >> g.group) + (THREAD >> g.group);
    state_t a = op_start(param);
    if (column < g.kept)
        for (int64_t p = lane; p < g.pieces; p += group)
            a = op_merge(a, AT(const state_t, states)[p * g.kept + column], param);
    MERGE_GROUP
    if (lane == 0 && column < g.kept) write_results(&g, param, a, column, OUT_VALUES);
}
#endif

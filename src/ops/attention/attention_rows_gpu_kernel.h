/* Rows of attention's scores, one for each query of each head. Before this text: what row.h asks for, with LONG as
 * softmax_gpu_kernel.h has it; A the type to compute in; S the scores' dtype, P that of the probabilities; CAUSAL:
 * query i sees keys up to i; MASK: 0 none, 1 bools, 2 numbers that are added, of dtype M.
 *
 *   forward    probabilities of the scaled and masked scores, and the logarithms of their sums. A query that sees no
 *              key has probabilities of zero.
 *   backward   the probabilities once more, from those logarithms, and the scores' gradients from the probabilities',
 *              `dots`, and from `means`, what each row's gradients are on the average of its probabilities.
 *
 * Results may lie where arguments do, if they are of the same dtype. */
#include "row.h"
#ifdef KERNEL_forward
GROUP_REDUCTION(group_sum, A, JOIN_SUM)
GROUP_REDUCTION(group_most, A, JOIN_MOST)
#endif
ROW_PIECE(S)
ROW_PIECE(P)

typedef struct attention_t {
    A scale; /* what follows stands at the same place behind a float and a double */
    int64_t rows, queries;
    int64_t mask[3]; /* strides: of heads, queries, keys */
    int keys;
} attention_t;

/* What row `row` makes of the product v of its query and key number `key`. */
#if MASK
#define SCORE(v, key) score((A)(v), key, row, &c, AT(const T_M, mask))
INLINE A score(const A v, const int key, const int64_t row, const attention_t *c, GLOBAL const T_M *mask) {
    const int64_t head = row / c->queries;
    const int64_t query = row - head * c->queries;
    const int64_t at = head * c->mask[0] + query * c->mask[1] + key * c->mask[2];
#if CAUSAL
    if (key > query) return (A)-INFINITY;
#endif
#if MASK == 1
    return mask[at] ? v * c->scale : (A)-INFINITY;
#else
    return v * c->scale + (A)GET_M(mask[at]);
#endif
}
#elif CAUSAL
#define SCORE(v, key) ((int64_t)(key) <= row % c.queries ? (A)(v)*c.scale : (A)-INFINITY)
#else
#define SCORE(v, key) ((A)(v)*c.scale)
#endif

#ifdef KERNEL_forward
KERNEL(entry)
(PTR(out), PTR(sums), PTR(scores), PTR(mask), const attention_t c) {
    SHARED A room[GROUP_ROOM];
    GLOBAL const T_S *s = AT(const T_S, scores);
    GLOBAL T_P *p = AT(T_P, out);
    const int n = c.keys;
    const int64_t row = GROUP_ROW < c.rows ? GROUP_ROW : c.rows - 1, from = row * n;
    A most = -INFINITY, sum = 0;
#if LONG
    A v[VEC];
    EACH_PIECE(at) { /* the largest so far, and the sum of exponentials below it */
        LOAD_PIECE(S, s, from + at, v)
        A higher = most;
        UNROLL
        for (int j = 0; j < VEC; j++) {
            v[j] = SCORE(v[j], (int)at + j);
            higher = JOIN_MOST(v[j], higher);
        }
        sum = higher == most ? sum : sum * EXP(most - higher);
        most = higher;
        UNROLL
        for (int j = 0; j < VEC; j++) sum += most == (A)-INFINITY ? (A)0 : EXP(v[j] - most);
    }
    const A own = most;
    most = group_most(most, room);
    sum = group_sum(own == most ? sum : sum * EXP(own - most), room);
#else
    A v[PER];
    LOAD_ROW(S, s, from, n, v, 0)
    UNROLL
    for (int k = 0; k < PER; k++) {
        v[k] = ROW_AT(k) < n ? SCORE(v[k], ROW_AT(k)) : (A)-INFINITY;
        most = JOIN_MOST(v[k], most);
    }
    most = group_most(most, room);
    UNROLL
    for (int k = 0; k < PER; k++) {
        v[k] = most == (A)-INFINITY ? (A)0 : EXP(v[k] - most);
        sum += v[k];
    }
    sum = group_sum(sum, room);
#endif
    if (GROUP_ROW >= c.rows) return;
    const int blind = most == (A)-INFINITY;
    const A share = blind ? (A)0 : 1 / sum;
    if (LANE == 0) AT(A, sums)[row] = blind ? (A)-INFINITY : most + LN(sum);
#if LONG
    EACH_PIECE(at) {
        LOAD_PIECE(S, s, from + at, v)
        STORE_PIECE(P, p, from + at, j, blind ? (A)0 : EXP(SCORE(v[j], (int)at + j) - most) * share)
    }
#else
    STORE_ROW(P, p, from, n, k, v[k] * share)
#endif
}
#endif

#ifdef KERNEL_backward
KERNEL(entry)
(PTR(out), PTR(grads), PTR(sums), PTR(means), PTR(scores), PTR(dots), PTR(mask), const attention_t c) {
    GLOBAL const T_S *s = AT(const T_S, scores), *g = AT(const T_S, dots);
    GLOBAL T_P *p = AT(T_P, out);
    GLOBAL T_S *gs = AT(T_S, grads);
    const int n = c.keys;
    const int64_t row = GROUP_ROW, from = row * n;
    if (row >= c.rows) return;
    const A logarithm = AT(const A, sums)[row], mean = AT(const A, means)[row], scale = c.scale;
    const int blind = logarithm == (A)-INFINITY;
#if LONG
    A v[VEC], d[VEC];
    EACH_PIECE(at) {
        LOAD_PIECE(S, s, from + at, v)
        LOAD_PIECE(S, g, from + at, d)
        UNROLL
        for (int j = 0; j < VEC; j++) v[j] = blind ? (A)0 : EXP(SCORE(v[j], (int)at + j) - logarithm);
        STORE_PIECE(P, p, from + at, j, v[j])
        STORE_PIECE(S, gs, from + at, j, (d[j] - mean) * v[j] * scale)
    }
#else
    A v[PER], d[PER];
    LOAD_ROW(S, s, from, n, v, 0)
    LOAD_ROW(S, g, from, n, d, 0)
    UNROLL
    for (int k = 0; k < PER; k++) v[k] = blind || ROW_AT(k) >= n ? (A)0 : EXP(SCORE(v[k], ROW_AT(k)) - logarithm);
    STORE_ROW(P, p, from, n, k, v[k])
    STORE_ROW(S, gs, from, n, k, (d[k] - mean) * v[k] * scale)
#endif
}
#endif

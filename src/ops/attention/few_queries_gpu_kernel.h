/* Attention of a few queries, as decoding token by token has it: keys and values are read once, by as many blocks as
 * the keys are cut into. Before this text: what group.h asks for: a group of threads has a key, each of them PER
 * elements of its DEPTH (16 bytes); QUERIES, at least as many as there are; AHEAD, keys that a group reads at once; A
 * the type to compute in, X the dtype, M the mask's; MASK and CAUSAL as in attention_rows_gpu_kernel.h; ALONE: keys are
 * one part.
 *
 *   parts  what each part of the keys gives: its sums of values, the largest score, and the sum of exponentials below
 *          it; ALONE: the result
 *   join   the result of all parts, at most MOST_PARTS
 *
 * A query that sees no key gives zeros. */
#include "group.h"
#include "piece.h"
typedef struct ON_BYTES(16) piece_x {
    T_X v[PER];
} piece_x;

typedef struct few_t {
    int64_t q[3], k[3], v[3], o[3], mask[4]; /* strides: of batches, heads and rows; of the mask's keys too */
    int64_t heads, queries, keys, parts, chunk;
    float scale;
} few_t;

#define PART           (DEPTH + 2) /* numbers of one query's part */
#define NONE           ((A)-INFINITY)
#define BELOW(x, most) ((most) == NONE ? (A)0 : EXP((x) - (most)))

INLINE int64_t row_offset(const int64_t *stride, int64_t batch, int64_t head, int64_t row) {
    return batch * stride[0] + head * stride[1] + row * stride[2];
}

/* A query's result and the logarithm of its sum. */
#define PUT(head, query, column, total, sum, most)                                                                \
    *(AT(T_X, out) + row_offset(c.o, (head) / (unsigned)c.heads, (head) % (unsigned)c.heads, query) + (column)) = \
        SET_X((sum) == (A)0 ? (A)0 : (total) / (sum));                                                            \
    if ((column) == 0) *(AT(A, sums) + (head)*c.queries + (query)) = (sum) == (A)0 ? NONE : (most) + LN(sum);

#ifdef KERNEL_parts
GROUP_REDUCTION(group_sum, A, JOIN_SUM)

KERNEL(entry)
(PTR(out), PTR(sums), PTR(parts), PTR(query), PTR(key), PTR(value), PTR(mask), const few_t c) {
    SHARED A room[GROUP_ROOM];
    SHARED A totals[GROUPS][QUERIES][GROUP * PER];
    SHARED A tops[GROUPS][QUERIES], exponentials[GROUPS][QUERIES];
    const unsigned head = BLOCK / (unsigned)c.parts, part = BLOCK - head * (unsigned)c.parts;
    const unsigned batch = head / (unsigned)c.heads, own = head - batch * (unsigned)c.heads;
    const int64_t first = part * c.chunk, end = first + c.chunk < c.keys ? first + c.chunk : c.keys;
    const int group = THREAD / GROUP, column = LANE * PER, inside = column < DEPTH;
    A q[QUERIES][PER], total[QUERIES][PER], most[QUERIES], sum[QUERIES];
    UNROLL
    for (int i = 0; i < QUERIES; i++) {
        const int there = i < c.queries && inside;
        const int64_t from = there ? row_offset(c.q, batch, own, i) + column : 0;
        const piece_x x = *(GLOBAL const piece_x *)(AT(const T_X, query) + from);
        most[i] = NONE;
        sum[i] = 0;
        UNROLL
        for (int j = 0; j < PER; j++) {
            q[i][j] = there ? (A)GET_X(x.v[j]) : (A)0;
            total[i][j] = 0;
        }
    }
    for (int64_t base = first; base < end; base += GROUPS * AHEAD) {
        piece_x k[AHEAD], v[AHEAD];
        A s[AHEAD][QUERIES];
        UNROLL
        for (int a = 0; a < AHEAD; a++) {
            const int64_t at = base + a * GROUPS + group;
            UNROLL
            for (int j = 0; j < PER; j++) k[a].v[j] = v[a].v[j] = 0;
            if (at < end && inside) {
                k[a] = *(GLOBAL const piece_x *)(AT(const T_X, key) + row_offset(c.k, batch, own, at) + column);
                v[a] = *(GLOBAL const piece_x *)(AT(const T_X, value) + row_offset(c.v, batch, own, at) + column);
            }
        }
        UNROLL
        for (int a = 0; a < AHEAD; a++) {
            const int64_t at = base + a * GROUPS + group;
            UNROLL
            for (int i = 0; i < QUERIES; i++) {
                A dot = 0;
                UNROLL
                for (int j = 0; j < PER; j++) dot += q[i][j] * (A)GET_X(k[a].v[j]);
                dot = group_sum(dot, room) * (A)c.scale;
                int seen = at < end;
#if CAUSAL
                seen = seen && at <= i;
#endif
#if MASK
                if (seen && i < c.queries) {
                    GLOBAL const T_M *m = AT(const T_M, mask) + row_offset(c.mask, batch, own, i) + at * c.mask[3];
#if MASK == 1
                    seen = *m != 0;
#else
                    dot += (A)GET_M(*m);
#endif
                }
#endif
                s[a][i] = seen ? dot : NONE;
            }
        }
        UNROLL
        for (int i = 0; i < QUERIES; i++) {
            A higher = most[i];
            UNROLL
            for (int a = 0; a < AHEAD; a++) higher = JOIN_MOST(s[a][i], higher);
            const A less = higher == most[i] ? (A)1 : EXP(most[i] - higher);
            most[i] = higher;
            sum[i] *= less;
            UNROLL
            for (int j = 0; j < PER; j++) total[i][j] *= less;
            UNROLL
            for (int a = 0; a < AHEAD; a++) {
                const A p = BELOW(s[a][i], higher);
                sum[i] += p;
                UNROLL
                for (int j = 0; j < PER; j++) total[i][j] += p * (A)GET_X(v[a].v[j]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < QUERIES; i++) {
        UNROLL
        for (int j = 0; j < PER; j++) totals[group][i][column + j] = total[i][j];
        if (LANE == 0) {
            tops[group][i] = most[i];
            exponentials[group][i] = sum[i];
        }
    }
    BARRIER();
    for (int n = THREAD; n < c.queries * DEPTH; n += THREADS) {
        const int i = n / DEPTH, at = n - i * DEPTH;
        A top = NONE, all = 0, exponents = 0;
        UNROLL
        for (int g = 0; g < GROUPS; g++) top = JOIN_MOST(tops[g][i], top);
        UNROLL
        for (int g = 0; g < GROUPS; g++) {
            const A weight = BELOW(tops[g][i], top);
            all += weight * totals[g][i][at];
            exponents += weight * exponentials[g][i];
        }
#if ALONE
        PUT(head, i, at, all, exponents, top)
#else
        GLOBAL A *to = AT(A, parts) + ((int64_t)BLOCK * c.queries + i) * PART;
        to[at] = all;
        if (at == 0) {
            to[DEPTH] = top;
            to[DEPTH + 1] = exponents;
        }
#endif
    }
}
#endif

/* A block has a query; its group is the whole block. */
#ifdef KERNEL_join
GROUP_REDUCTION(group_sum, A, JOIN_SUM)
GROUP_REDUCTION(group_most, A, JOIN_MOST)

KERNEL(entry)
(PTR(out), PTR(sums), PTR(made), const few_t c) {
    SHARED A room[GROUP_ROOM];
    SHARED A weight[MOST_PARTS];
    const unsigned head = BLOCK / (unsigned)c.queries, i = BLOCK - head * (unsigned)c.queries;
    const int parts = (int)c.parts;
    const int64_t step = c.queries * PART;
    GLOBAL const A *from = AT(const A, made) + ((int64_t)head * parts * c.queries + i) * PART;
    A top = NONE, exponents = 0;
    for (int p = THREAD; p < parts; p += THREADS) top = JOIN_MOST(from[p * step + DEPTH], top);
    top = group_most(top, room);
    for (int p = THREAD; p < parts; p += THREADS) {
        weight[p] = BELOW(from[p * step + DEPTH], top);
        exponents += weight[p] * from[p * step + DEPTH + 1];
    }
    exponents = group_sum(exponents, room);
    BARRIER();
    for (int at = THREAD; at < DEPTH; at += THREADS) {
        A all = 0;
        int p = 0;
        for (; p + 8 <= parts; p += 8) { /* eight loads on their way at once */
            A some[8];
            UNROLL
            for (int j = 0; j < 8; j++) some[j] = from[(p + j) * step + at];
            UNROLL
            for (int j = 0; j < 8; j++) all += weight[p + j] * some[j];
        }
        for (; p < parts; p++) all += weight[p] * from[p * step + at];
        PUT(head, i, at, all, exponents, top)
    }
}
#endif

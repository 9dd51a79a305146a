/* softmax and log_softmax over rows of n contiguous elements, and back. Before this text: LOG (0 or 1), A the type to
 * compute in, X what is read, Y what is written; backward also G, the gradient. Rows of at most GROUP * PER elements
 * stay in registers; longer ones are read again (LONG). */
#include "row.h"
GROUP_REDUCTION(group_sum, A, JOIN_SUM)
GROUP_REDUCTION(group_most, A, JOIN_MOST)
ROW_PIECE(X)
ROW_PIECE(Y)

#ifdef KERNEL_forward
KERNEL(entry)
(PTR(out), PTR(in), const int64_t rows, const int n) {
    SHARED A room[GROUP_ROOM];
    GLOBAL const T_X *x = AT(const T_X, in);
    GLOBAL T_Y *y = AT(T_Y, out);
    const int64_t row = GROUP_ROW < rows ? GROUP_ROW : rows - 1, from = row * n;
    A most = -INFINITY, sum = 0;
#if LONG
    A v[VEC];
    RUNNING_MOST(X, x, from, v, most, sum, room)
    sum = group_sum(sum, room);
    if (GROUP_ROW >= rows) return;
#if LOG
    const A shift = most + LN(sum);
#else
    const A scale = 1 / sum;
#endif
    EACH_PIECE(at) {
        LOAD_PIECE(X, x, from + at, v)
#if LOG
        STORE_PIECE(Y, y, from + at, j, v[j] - shift)
#else
        STORE_PIECE(Y, y, from + at, j, EXP(v[j] - most) * scale)
#endif
    }
#else
    A v[PER];
    LOAD_ROW(X, x, from, n, v, -INFINITY)
    UNROLL
    for (int k = 0; k < PER; k++) most = JOIN_MOST(v[k], most);
    most = group_most(most, room);
    UNROLL
    for (int k = 0; k < PER; k++) {
        const A e = EXP(v[k] - most);
        sum += e;
#if LOG
        v[k] -= most;
#else
        v[k] = e;
#endif
    }
    sum = group_sum(sum, room);
    if (GROUP_ROW >= rows) return;
#if LOG
    const A shift = LN(sum);
    STORE_ROW(Y, y, from, n, k, v[k] - shift)
#else
    const A scale = 1 / sum;
    STORE_ROW(Y, y, from, n, k, v[k] * scale)
#endif
#endif
}
#endif

#ifdef KERNEL_backward
ROW_PIECE(G)
KERNEL(entry)
(PTR(out), PTR(grad), PTR(result), const int64_t rows, const int n) {
    SHARED A room[GROUP_ROOM];
    GLOBAL const T_G *g = AT(const T_G, grad);
    GLOBAL const T_X *y = AT(const T_X, result);
    GLOBAL T_Y *dx = AT(T_Y, out);
    const int64_t row = GROUP_ROW < rows ? GROUP_ROW : rows - 1, from = row * n;
    A sum = 0;
#if LONG
    A v[VEC], dy[VEC];
    EACH_PIECE(at) {
        LOAD_PIECE(G, g, from + at, dy)
#if !LOG
        LOAD_PIECE(X, y, from + at, v)
#endif
        UNROLL
        for (int j = 0; j < VEC; j++) {
#if LOG
            sum += dy[j];
#else
            sum += dy[j] * v[j];
#endif
        }
    }
    sum = group_sum(sum, room);
    if (GROUP_ROW >= rows) return;
    EACH_PIECE(at) {
        LOAD_PIECE(G, g, from + at, dy)
        LOAD_PIECE(X, y, from + at, v)
#if LOG
        STORE_PIECE(Y, dx, from + at, j, dy[j] - EXP(v[j]) * sum)
#else
        STORE_PIECE(Y, dx, from + at, j, (dy[j] - sum) * v[j])
#endif
    }
#else
    A v[PER], dy[PER];
    LOAD_ROW(X, y, from, n, v, 0)
    LOAD_ROW(G, g, from, n, dy, 0)
    UNROLL
    for (int k = 0; k < PER; k++) {
#if LOG
        sum += dy[k];
#else
        sum += dy[k] * v[k];
#endif
    }
    sum = group_sum(sum, room);
    if (GROUP_ROW >= rows) return;
#if LOG
    STORE_ROW(Y, dx, from, n, k, dy[k] - EXP(v[k]) * sum)
#else
    STORE_ROW(Y, dx, from, n, k, (dy[k] - sum) * v[k])
#endif
#endif
}
#endif

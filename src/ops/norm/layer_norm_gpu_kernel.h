/* Layer norm and rms norm over rows of n contiguous elements, and back. Before this text: RMS (0 or 1), WEIGHT, BIAS
 * (whether there are such), A the type to compute in; X, W, Y the dtypes of input, weight and result, S of the
 * statistics, backward also G of the gradient. Rows stay in registers; a row that is too long for them is read again
 * (LONG, forward and the input's gradient). */
#include "epilogue.h"
#include "row.h"
GROUP_REDUCTION(group_sum, A, JOIN_SUM)
GROUP_SUMS(group_sums, A)
ROW_PIECE(X)
ROW_PIECE(Y)
ROW_PIECE(W)

#ifdef KERNEL_forward
KERNEL(entry)
(PTR(out), PTR(in), PTR(weight), PTR(bias), PTR(mean), PTR(rstd), const int64_t rows, const int n,
 const A eps PROLOGUE_ARGUMENTS EPILOGUE_ARGUMENTS) {
    SHARED A room[GROUP_ROOM];
    GLOBAL const T_X *x = AT(const T_X, in);
    GLOBAL T_Y *y = AT(T_Y, out);
    const int64_t row = GROUP_ROW < rows ? GROUP_ROW : rows - 1, from = row * n;
    A m = 0, square = 0;
#if LONG
#if !RMS
    for (int at = LANE; at < n; at += GROUP) m += GET_X(x[from + at]);
    m = group_sum(m, room) / n;
#endif
    for (int at = LANE; at < n; at += GROUP) {
        const A d = GET_X(x[from + at]) - m;
        square += d * d;
    }
#else
    A v[PER];
    FIRST_LOAD_ROW(X, x, from, n, v, 0)
#if !RMS
    UNROLL
    for (int k = 0; k < PER; k++) m += v[k];
    m = group_sum(m, room) / n;
#endif
    UNROLL
    for (int k = 0; k < PER; k++) {
        const A d = ROW_AT(k) < n ? v[k] - m : 0;
        square += d * d;
    }
#endif
    const A r = RSQRT(group_sum(square, room) / n + eps);
    if (GROUP_ROW >= rows) return;
    if (LANE == 0) {
#if !RMS
        AT(T_S, mean)[row] = SET_S(m);
#endif
        AT(T_S, rstd)[row] = SET_S(r);
    }
#if LONG
    for (int at = LANE; at < n; at += GROUP) {
        A h = (GET_X(x[from + at]) - m) * r;
#if WEIGHT
        h *= GET_W(AT(const T_W, weight)[at]);
#endif
#if BIAS
        h += GET_W(AT(const T_W, bias)[at]);
#endif
        y[from + at] = SET_Y(h);
    }
#else
    UNROLL
    for (int k = 0; k < PER; k++) v[k] = (v[k] - m) * r;
#if WEIGHT
    {
        A w[PER];
        LOAD_ROW(W, AT(const T_W, weight), 0, n, w, 0)
        UNROLL
        for (int k = 0; k < PER; k++) v[k] *= w[k];
    }
#endif
#if BIAS
    {
        A b[PER];
        LOAD_ROW(W, AT(const T_W, bias), 0, n, b, 0)
        UNROLL
        for (int k = 0; k < PER; k++) v[k] += b[k];
    }
#endif
    STORE_ROW_THEN(Y, y, from, n, k, v[k])
#endif
}
#endif

/* A group goes through rows in steps of all groups. What it adds up for weight and bias (SUMS) stays in its registers
 * and goes, at the end, to a line of its own in `parts`, [2][groups in all][n] of A; the columns are then summed in
 * order. */
#ifdef KERNEL_backward
ROW_PIECE(G)
KERNEL(entry)
(PTR(out), PTR(grad), PTR(in), PTR(weight), PTR(mean), PTR(rstd), PTR(parts), const int64_t rows,
 const int n EPILOGUE_ARGUMENTS) {
    SHARED A room[2 * GROUP_ROOM];
    GLOBAL const T_X *x = AT(const T_X, in);
    GLOBAL const T_G *g = AT(const T_G, grad);
    GLOBAL T_Y *dx = AT(T_Y, out);
    const int64_t all = (int64_t)BLOCKS * GROUPS;
#if LONG
    for (int64_t step = 0; step * all < rows; step++) {
        const int64_t at_row = step * all + GROUP_ROW, row = at_row < rows ? at_row : rows - 1, from = row * n;
        const A m = RMS ? 0 : GET_S(AT(const T_S, mean)[row]), r = GET_S(AT(const T_S, rstd)[row]);
        A sum = 0, along = 0;
        for (int at = LANE; at < n; at += GROUP) {
            A d = GET_G(g[from + at]);
#if WEIGHT
            d *= GET_W(AT(const T_W, weight)[at]);
#endif
            sum += d;
            along += d * (GET_X(x[from + at]) - m) * r;
        }
        sum = RMS ? 0 : group_sum(sum, room) / n;
        along = group_sum(along, room) / n;
        for (int at = LANE; at < n && at_row < rows; at += GROUP) {
            A d = GET_G(g[from + at]);
#if WEIGHT
            d *= GET_W(AT(const T_W, weight)[at]);
#endif
            dx[from + at] = SET_Y((d - sum - (GET_X(x[from + at]) - m) * r * along) * r);
        }
    }
#else
    A w[PER];
#if WEIGHT
    LOAD_ROW(W, AT(const T_W, weight), 0, n, w, 0)
#endif
#if SUMS
    A dw[PER], db[PER];
    UNROLL
    for (int k = 0; k < PER; k++) dw[k] = db[k] = 0;
#endif
    A next_h[PER], next_d[PER];
    {
        const int64_t first = (GROUP_ROW < rows ? GROUP_ROW : rows - 1) * n;
        LOAD_ROW(X, x, first, n, next_h, 0)
        LOAD_ROW(G, g, first, n, next_d, 0)
    }
    for (int64_t step = 0; step * all < rows; step++) {
        const int64_t at_row = step * all + GROUP_ROW, row = at_row < rows ? at_row : rows - 1, from = row * n;
        const A m = RMS ? 0 : GET_S(AT(const T_S, mean)[row]), r = GET_S(AT(const T_S, rstd)[row]);
        A h[PER], d[PER], sum = 0, along = 0;
        UNROLL
        for (int k = 0; k < PER; k++) {
            h[k] = next_h[k];
            d[k] = next_d[k];
        }
        const int64_t next = (at_row + all < rows ? at_row + all : rows - 1) * n; /* on its way meanwhile */
        LOAD_ROW(X, x, next, n, next_h, 0)
        LOAD_ROW(G, g, next, n, next_d, 0)
        UNROLL
        for (int k = 0; k < PER; k++) {
            h[k] = ROW_AT(k) < n ? (h[k] - m) * r : 0;
#if SUMS
            if (at_row < rows) {
                dw[k] += d[k] * h[k];
                db[k] += d[k];
            }
#endif
#if WEIGHT
            d[k] *= w[k];
#endif
            sum += d[k];
            along += d[k] * h[k];
        }
        group_sums(&sum, &along, room);
        sum = RMS ? 0 : sum / n;
        along /= n;
        if (at_row < rows) {
            STORE_ROW_THEN(Y, dx, from, n, k, (d[k] - sum - h[k] * along) * r)
        }
    }
#if SUMS
    GLOBAL A *part = AT(A, parts);
    UNROLL
    for (int k = 0; k < PER; k++)
        if (ROW_AT(k) < n) {
            part[GROUP_ROW * n + ROW_AT(k)] = dw[k];
            part[(all + GROUP_ROW) * n + ROW_AT(k)] = db[k];
        }
#endif
#endif
}
#endif

/* The lines of `parts` summed: 8 columns and 32 stretches of lines to a block, then the stretches in order. PARTS: 1
 * the weight's, 2 the bias's, 3 both, by BLOCK_Y. */
#ifdef KERNEL_columns
#if PARTS == 3
#define PART (BLOCK_Y)
#else
#define PART (PARTS - 1)
#endif
KERNEL(entry)
(PTR(weight), PTR(bias), PTR(parts), const int64_t lines, const int n) {
    SHARED A room[32][8];
    const int lane = THREAD % 8, slice = THREAD / 8, column = (int)BLOCK * 8 + lane;
    GLOBAL const A *part = AT(const A, parts) + (PART ? lines * n : 0) + column;
    A sum = 0;
    if (column < n)
        for (int64_t i = slice; i < lines; i += 32) sum += part[i * n];
    room[slice][lane] = sum;
    BARRIER();
    if (slice || column >= n) return;
    for (int i = 1; i < 32; i++) sum += room[i][lane];
    if (PART)
        AT(T_W, bias)[column] = SET_W(sum);
    else
        AT(T_W, weight)[column] = SET_W(sum);
}
#endif

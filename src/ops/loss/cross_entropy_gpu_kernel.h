/* Cross entropy of rows of n scores and a class each. Before this text: A the type to compute in, X the scores' dtype,
 * Y the loss's, W the weights', INDEX the targets' (WEIGHT: there are weights). A target that is no class
 * is a fault, and gives NaN.
 *
 *   forward   each row's largest score and logarithm of its sum of exponentials into norms, its loss and weight into
 *             parts
 *   total     the sums of losses and weights, in a fixed order; MEAN: the loss over the weights; EACH: the losses
 *             stay, as the result
 *   backward  (softmax - target) * scale of the row */
#include "fault.h"
#include "row.h"
GROUP_REDUCTION(group_sum, A, JOIN_SUM)
GROUP_REDUCTION(group_most, A, JOIN_MOST)

#ifdef KERNEL_forward
ROW_PIECE(X)
KERNEL(entry)
(FAULT, PTR(norms), PTR(parts), PTR(in), PTR(target), PTR(weight), const int64_t rows, const int n,
 const int64_t ignore) {
    SHARED A room[GROUP_ROOM];
    GLOBAL const T_X *x = AT(const T_X, in);
    const int64_t row = GROUP_ROW < rows ? GROUP_ROW : rows - 1, from = row * n;
    A most = -INFINITY, sum = 0, v[VEC];
    RUNNING_MOST(X, x, from, v, most, sum, room)
    sum = LN(group_sum(sum, room));
    if (GROUP_ROW >= rows || LANE) return;
    const int64_t k = AT(const T_INDEX, target)[row];
    const int skip = k == ignore, none = !skip && (k < 0 || k >= n);
    if (none) NOTE_FAULT(k, n);
    A w = skip ? 0 : 1;
#if WEIGHT
    if (!skip && !none) w = GET_W(AT(const T_W, weight)[k]);
#endif
    AT(A, norms)[2 * row] = most;
    AT(A, norms)[2 * row + 1] = sum;
    AT(A, parts)[row] = skip ? 0 : none ? NAN : w * (sum - (GET_X(x[from + k]) - most));
    AT(A, parts)[rows + row] = none ? NAN : w;
}
#endif

#ifdef KERNEL_total
KERNEL(entry)
(PTR(out), PTR(total), PTR(parts), const int64_t rows) {
    SHARED A room[GROUP_ROOM];
    GLOBAL const A *loss = AT(const A, parts), *w = loss + rows;
    A sum = 0, weights = 0;
    for (int64_t i = THREAD; i < rows; i += GROUP) {
        sum += loss[i];
        weights += w[i];
#if EACH
        AT(T_Y, out)[i] = SET_Y(loss[i]);
#endif
    }
    sum = group_sum(sum, room);
    BARRIER();
    weights = group_sum(weights, room);
    if (THREAD) return;
#if !EACH
    AT(T_Y, out)[0] = SET_Y(MEAN ? sum / weights : sum);
#endif
    AT(T_Y, total)[0] = SET_Y(weights);
}
#endif

#ifdef KERNEL_backward
ROW_PIECE(X)
KERNEL(entry)
(PTR(out), PTR(grad), PTR(in), PTR(target), PTR(weight), PTR(total), PTR(norms), const int64_t rows, const int n,
 const int64_t ignore) {
    if (GROUP_ROW >= rows) return;
    GLOBAL const T_X *x = AT(const T_X, in);
    GLOBAL T_X *dx = AT(T_X, out);
    const int64_t row = GROUP_ROW, from = row * n, k = AT(const T_INDEX, target)[row];
    const int counts = k != ignore && k >= 0 && k < n;
    A scale = counts ? 1 : 0;
#if WEIGHT
    if (counts) scale = GET_W(AT(const T_W, weight)[k]);
#endif
    if (scale != 0) scale *= GET_Y(AT(const T_Y, grad)[EACH ? row : 0]);
#if MEAN
    if (scale != 0) scale /= GET_Y(AT(const T_Y, total)[0]);
#endif
    const A most = AT(const A, norms)[2 * row], sum = AT(const A, norms)[2 * row + 1];
    A v[VEC];
    EACH_PIECE(at) {
        LOAD_PIECE(X, x, from + at, v)
        STORE_PIECE(X, dx, from + at, j, scale == 0 ? 0 : scale * (EXP(v[j] - most - sum) - (at + j == k ? 1 : 0)))
    }
}
#endif

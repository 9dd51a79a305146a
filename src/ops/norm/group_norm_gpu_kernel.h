/* Group norm of (images, channels, plane), contiguous: a row is a group of channels of one image, `each` channels or n
 * elements. Before this text: A the type to compute in, X the input's dtype, W the weight's and bias's (WEIGHT, BIAS:
 * they are there), S that of the statistics; BACK.
 *
 *   sums     of a row's elements less its first one, and of their squares; back: of a plane's gradients, and of their
 *            products with the normalised input.
 *            GROUP threads have a row, BLOCK_Y a part of it of `share` elements
 *   settle   a thread per row: its statistics from the parts. Back: a thread per row for what its elements share,
 *            then one per channel for the gradients
 *            of weight and bias
 *   apply    y = (x - mean) rstd w + b; back: dx = g rstd w + (x - mean) slope + shift */
#include "each.h"
#include "row.h"
GROUP_REDUCTION(group_sum, A, JOIN_SUM)
ROW_PIECE(X)

#if WEIGHT
#define WEIGHT_OF(c) GET_W(AT(const T_W, weight)[c])
#else
#define WEIGHT_OF(c) 1
#endif
#if BIAS
#define BIAS_OF(c) GET_W(AT(const T_W, bias)[c])
#else
#define BIAS_OF(c) 0
#endif

#ifdef KERNEL_sums
KERNEL(entry)
(PTR(parts), PTR(in), PTR(grad), PTR(mean), PTR(rstd), const int64_t rows, const int64_t n, const int64_t share,
 const int each) {
    SHARED A room[GROUP_ROOM];
    GLOBAL const T_X *x = AT(const T_X, in);
    const int64_t row = GROUP_ROW < rows ? GROUP_ROW : rows - 1, first = row * n, from = BLOCK_Y * share,
                  to = from + share < n ? from + share : n;
    A one = 0, two = 0, v[VEC];
#if BACK
    GLOBAL const T_X *g = AT(const T_X, grad);
    const A shift = GET_S(AT(const T_S, mean)[row / each]), scale = GET_S(AT(const T_S, rstd)[row / each]);
    A w[VEC];
#else
    const A shift = GET_X(x[first]);
#endif
    for (int64_t at = from + LANE * VEC; at < to; at += GROUP * VEC) {
        LOAD_PIECE(X, x, first + at, v)
#if BACK
        LOAD_PIECE(X, g, first + at, w)
        UNROLL
        for (int j = 0; j < VEC; j++) {
            one += w[j];
            two += w[j] * ((v[j] - shift) * scale);
        }
#else
        UNROLL
        for (int j = 0; j < VEC; j++) {
            one += v[j] - shift;
            two += (v[j] - shift) * (v[j] - shift);
        }
#endif
    }
    one = group_sum(one, room);
    BARRIER();
    two = group_sum(two, room);
    if (GROUP_ROW >= rows || LANE) return;
    AT(A, parts)[2 * BLOCK_Y * rows + row] = one;
    AT(A, parts)[(2 * BLOCK_Y + 1) * rows + row] = two;
}
#endif

#ifdef KERNEL_settle
#if BACK
KERNEL(entry)
(PTR(coefficients), PTR(dweight), PTR(dbias), PTR(parts), PTR(weight), PTR(rstd), const int64_t images,
 const int channels, const int groups, const int nparts, const A over) {
    const int64_t rows = images * groups, planes = images * channels, i = (int64_t)BLOCK * THREADS + THREAD;
    const int each = channels / groups;
    GLOBAL const A *part = AT(const A, parts);
    A one = 0, two = 0;
    if (i < rows) {
        for (int c = 0; c < each; c++) {
            const A w = WEIGHT_OF(i % groups * each + c);
            for (int p = 0; p < nparts; p++) {
                one += w * part[2 * p * planes + i * each + c];
                two += w * part[(2 * p + 1) * planes + i * each + c];
            }
        }
        const A r = GET_S(AT(const T_S, rstd)[i]);
        AT(A, coefficients)[i] = -r * one * over;
        AT(A, coefficients)[rows + i] = -r * r * two * over;
    } else if (i < rows + channels && (WEIGHT || BIAS)) {
        for (int64_t image = 0; image < images; image++)
            for (int p = 0; p < nparts; p++) {
                one += part[2 * p * planes + image * channels + (i - rows)];
                two += part[(2 * p + 1) * planes + image * channels + (i - rows)];
            }
#if WEIGHT
        AT(T_W, dweight)[i - rows] = SET_W(two);
#endif
#if BIAS
        AT(T_W, dbias)[i - rows] = SET_W(one);
#endif
    }
}
#else
KERNEL(entry)
(PTR(coefficients), PTR(mean), PTR(rstd), PTR(parts), PTR(in), const int64_t rows, const int64_t n, const int nparts,
 const A eps) {
    const int64_t row = (int64_t)BLOCK * THREADS + THREAD;
    if (row >= rows) return;
    A one = 0, two = 0;
    for (int p = 0; p < nparts; p++) {
        one += AT(const A, parts)[2 * p * rows + row];
        two += AT(const A, parts)[(2 * p + 1) * rows + row];
    }
    const A d = one / n, square = two - one * d, m = GET_X(AT(const T_X, in)[row * n]) + d,
            r = RSQRT((square > 0 ? square : 0) / n + eps);
    AT(A, coefficients)[row] = m;
    AT(A, coefficients)[rows + row] = r;
    AT(T_S, mean)[row] = SET_S(m);
    AT(T_S, rstd)[row] = SET_S(r);
}
#endif
#endif

#ifdef KERNEL_apply
KERNEL(entry)
(PTR(out), PTR(in), PTR(grad), PTR(coefficients), PTR(mean), PTR(rstd), PTR(weight), PTR(bias), const int64_t rows,
 const int64_t all, const index_t pieces, const int channels, const int each) {
    EACH(i, all) {
        const index_t plane = i / pieces, row = plane / each, c = plane % channels;
        const int64_t at = (int64_t)i * VEC;
        A v[VEC];
        LOAD_PIECE(X, AT(const T_X, in), at, v)
#if BACK
        A g[VEC];
        LOAD_PIECE(X, AT(const T_X, grad), at, g)
        const A m = GET_S(AT(const T_S, mean)[row]), scale = GET_S(AT(const T_S, rstd)[row]) * WEIGHT_OF(c);
        const A shift = AT(const A, coefficients)[row], slope = AT(const A, coefficients)[rows + row];
        STORE_PIECE(X, AT(T_X, out), at, j, g[j] * scale + (v[j] - m) * slope + shift)
#else
        const A m = AT(const A, coefficients)[row], scale = AT(const A, coefficients)[rows + row] * WEIGHT_OF(c),
                shift = BIAS_OF(c);
        STORE_PIECE(X, AT(T_X, out), at, j, (v[j] - m) * scale + shift)
#endif
    }
}
#endif

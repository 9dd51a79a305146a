/* Fractional max pooling, a thread per result: planes of depth, height and width (those that are not pooled over are
 * 1). Before this text: LARGE, X the dtype of all elements, A the type to compare in, DIMS (2 or 3) how many dims have
 * a sample of where their windows start. ops/pool/index.c has the formula. */
#include "each.h"

typedef struct sizes {
    int64_t in[3], out[3], pool[3];
} sizes;

INLINE int64_t window_start(double sample, int64_t i, int64_t in, int64_t out, int64_t pool) {
    if (i == out - 1) return in - pool;
    const double alpha = (double)(in - pool) / (double)(out - 1);
    const double s = sample > -1048576 && sample < 1048576 ? sample : 0;
    const int64_t start = (int64_t)((i + s) * alpha) - (int64_t)(s * alpha);
    return start < 0 ? 0 : start < in - pool ? start : in - pool;
}

KERNEL(entry)
(PTR(y), PTR(index), PTR(x), PTR(samples), const int64_t n, const sizes z) {
    EACH(e, n) {
        const int64_t each = z.out[0] * z.out[1] * z.out[2], plane = e / each, o = e - plane * each;
        const int64_t at[3] = {o / z.out[2] / z.out[1], o / z.out[2] % z.out[1], o % z.out[2]};
        int64_t start[3] = {0, 0, 0};
        for (int i = 0; i < DIMS; i++) { /* sample 0 belongs to the last dim of two, but to the first of three */
            const int d = DIMS == 2 ? 2 - i : i;
            start[d] =
                window_start(GET_X(AT(const T_X, samples)[plane * DIMS + i]), at[d], z.in[d], z.out[d], z.pool[d]);
        }
        GLOBAL const T_X *from = AT(const T_X, x) + plane * z.in[0] * z.in[1] * z.in[2];
        A best = -(A)INFINITY;
        int64_t place = (start[0] * z.in[1] + start[1]) * z.in[2] + start[2];
        for (int64_t d = start[0]; d < start[0] + z.pool[0]; d++)
            for (int64_t h = start[1]; h < start[1] + z.pool[1]; h++)
                for (int64_t w = start[2]; w < start[2] + z.pool[2]; w++) {
                    const int64_t q = (d * z.in[1] + h) * z.in[2] + w;
                    const A v = GET_X(from[q]);
                    if (v > best || v != v) best = v, place = q;
                }
        AT(T_X, y)[e] = SET_X(best), AT(int64_t, index)[e] = place;
    }
}

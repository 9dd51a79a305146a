/* Fractional max pooling, a thread per result: planes of depth, height and width (those that are not pooled over are
 * 1). Before this text: LARGE, X the dtype of all elements, A the type to compare in, DIMS (2 or 3) how many dims have
 * a sample of where their windows start. */
#include "each.h"
#define EL INLINE
#include "fractional_element.h"

typedef struct sizes {
    int64_t in[3], out[3], pool[3];
} sizes;

KERNEL(entry)
(PTR(y), PTR(index), PTR(x), PTR(samples), const int64_t n, const sizes z) {
    EACH(e, n) {
        const int64_t each = z.out[0] * z.out[1] * z.out[2], plane = e / each, o = e - plane * each;
        const int64_t at[3] = {o / z.out[2] / z.out[1], o / z.out[2] % z.out[1], o % z.out[2]};
        int64_t start[3] = {0, 0, 0};
        for (int i = 0; i < DIMS; i++) {
            const int d = sampled_dim(DIMS, i);
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
                    if (v > best || v != v) {
                        best = v;
                        place = q;
                    }
                }
        AT(T_X, y)[e] = SET_X(best);
        AT(int64_t, index)[e] = place;
    }
}

/* Padding of up to three dims with the tensor's own elements: MODE 0 reflected, 1 replicated, 2 around. Before this
 * text: X the dtype, LARGE; backward A, the type to sum in, and X a real dtype.
 *
 *   forward    a thread per element of the result, which reads its source
 *   backward   a thread per element of the input, which sums what was read from it, in order; an element is `inner`
 *              reals */
#include "each.h"
typedef struct pad_t {
    int in[3], out[3], left[3];
    int cut[3], kept[3]; /* around: the elements that negative amounts leave, from `cut` on */
} pad_t;

#ifdef KERNEL_forward
INLINE int source(const pad_t *g, int d, int o) {
    const int i = o - g->left[d], n = g->in[d];
#if MODE == 0
    return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
#elif MODE == 1
    return i < 0 ? 0 : i >= n ? n - 1 : i;
#else
    const int r = (i - g->cut[d]) % g->kept[d];
    return g->cut[d] + (r < 0 ? r + g->kept[d] : r);
#endif
}

KERNEL(entry)
(PTR(out), PTR(in), const pad_t g, const int64_t n) {
    EACH(e, n) {
        const index_t row = e / g.out[2], deep = row / g.out[1], plane = deep / g.out[0];
        const int x = source(&g, 2, (int)(e - row * g.out[2])), y = source(&g, 1, (int)(row - deep * g.out[1])),
                  z = source(&g, 0, (int)(deep - plane * g.out[0]));
        AT(T_X, out)[e] = AT(const T_X, in)[(((int64_t)plane * g.in[0] + z) * g.in[1] + y) * g.in[2] + x];
    }
}
#endif

#ifdef KERNEL_backward
/* The elements of the result that read element i: `candidates` of them, of which those that are -1 are none. */
INLINE int candidates(const pad_t *g, int d, int i) {
#if MODE == 0
    return 3;
#elif MODE == 1
    return (i == g->in[d] - 1 ? g->out[d] - 1 : i + g->left[d]) - (i == 0 ? 0 : i + g->left[d]) + 1;
#else
    return i < g->cut[d] || i >= g->cut[d] + g->kept[d] ? 0 : g->out[d] / g->kept[d] + 1;
#endif
}

INLINE int candidate(const pad_t *g, int d, int i, int k) {
#if MODE == 0
    const int last = g->in[d] - 1;
    const int o = k == 0   ? i + g->left[d]
                  : k == 1 ? (i > 0 ? g->left[d] - i : -1)
                           : (i < last ? 2 * last - i + g->left[d] : -1);
#elif MODE == 1
    const int o = (i == 0 ? 0 : i + g->left[d]) + k;
#else
    const int r = (i + g->left[d]) % g->kept[d], o = (r < 0 ? r + g->kept[d] : r) + k * g->kept[d];
#endif
    return o < g->out[d] ? o : -1;
}

KERNEL(entry)
(PTR(out), PTR(grad), const pad_t g, const int64_t n, const int inner) {
    EACH(e, n) {
        const index_t column = e / inner, row = column / g.in[2], deep = row / g.in[1], plane = deep / g.in[0];
        const int part = (int)(e - column * inner), i = (int)(column - row * g.in[2]), j = (int)(row - deep * g.in[1]),
                  k = (int)(deep - plane * g.in[0]);
        const int nx = candidates(&g, 2, i), ny = candidates(&g, 1, j), nz = candidates(&g, 0, k);
        A sum = 0;
        for (int c = 0; c < nz; c++) {
            const int z = candidate(&g, 0, k, c);
            for (int b = 0; b < ny && z >= 0; b++) {
                const int y = candidate(&g, 1, j, b);
                for (int a = 0; a < nx && y >= 0; a++) {
                    const int x = candidate(&g, 2, i, a);
                    if (x >= 0)
                        sum += GET_X(
                            AT(const T_X,
                               grad)[((((int64_t)plane * g.out[0] + z) * g.out[1] + y) * g.out[2] + x) * inner + part]);
                }
            }
        }
        AT(T_X, out)[e] = SET_X(sum);
    }
}
#endif

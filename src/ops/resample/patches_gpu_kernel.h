/* Patches of images as columns, and their sums back. Before this text: X the dtype, LARGE; A the type to sum in.
 *
 *   columns   (planes, taps, patches) from (planes, height, width): a thread per element of the columns
 *   images    the sums back: a thread per element of the images, which looks at the patches it is in, tap by tap */
#include "each.h"
typedef struct patches_t {
    int x[2], y[2], k[2], stride[2], pad[2],
        dilation[2]; /* height and width of the images, of the patches' grid, and of a patch */
} patches_t;

#ifdef KERNEL_columns
KERNEL(entry)
(PTR(out), PTR(in), const patches_t g, const int64_t n) {
    EACH(e, n) {
        const index_t row = e / g.y[1], tap = row / g.y[0], down = tap / g.k[1], plane = down / g.k[0];
        const int y = (int)(row - tap * g.y[0]) * g.stride[0] - g.pad[0] + (int)(down - plane * g.k[0]) * g.dilation[0];
        const int x = (int)(e - row * g.y[1]) * g.stride[1] - g.pad[1] + (int)(tap - down * g.k[1]) * g.dilation[1];
        const T_X zero = SET_X(0);
        AT(T_X, out)
        [e] = y >= 0 && y < g.x[0] && x >= 0 && x < g.x[1]
                  ? AT(const T_X, in)[((int64_t)plane * g.x[0] + y) * g.x[1] + x]
                  : zero;
    }
}
#endif

#ifdef KERNEL_images
INLINE int patch_of(const patches_t *g, int d, int at, int tap) { /* the patch whose tap this is, or -1 */
    const int from = at + g->pad[d] - tap * g->dilation[d], patch = from / g->stride[d];
    return from < 0 || patch * g->stride[d] != from || patch >= g->y[d] ? -1 : patch;
}

KERNEL(entry)
(PTR(out), PTR(in), const patches_t g, const int64_t n) {
    EACH(e, n) {
        const index_t row = e / g.x[1], plane = row / g.x[0];
        const int y = (int)(row - plane * g.x[0]), x = (int)(e - row * g.x[1]);
        A sum = 0;
        for (int i = 0; i < g.k[0]; i++) {
            const int down = patch_of(&g, 0, y, i);
            for (int j = 0; j < g.k[1] && down >= 0; j++) {
                const int right = patch_of(&g, 1, x, j);
                if (right >= 0)
                    sum +=
                        GET_X(AT(const T_X,
                                 in)[((((int64_t)plane * g.k[0] + i) * g.k[1] + j) * g.y[0] + down) * g.y[1] + right]);
            }
        }
        AT(T_X, out)[e] = SET_X(sum);
    }
}
#endif

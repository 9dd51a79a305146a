/* grid_sample over two or three spatial dims (DIMS). Before this text: A the type to compute in, X the dtype, LARGE;
 * MODE 0 linear, 1 nearest, 2 cubic; PADDING 0 zeros, 1 border, 2 reflection; ALIGN: corners are aligned. The steps are
 * those of ops/resample/grid_sample.c.
 *
 *   forward   a thread per element of the result
 *   places    for the input's gradient: every position's neighbours as numbers of elements (image, place) and their
 *             weights; `nowhere` is outside
 *   slopes    the grid's gradient: a thread per position, which goes through the channels */
#include "each.h"
#define COUNT   (MODE == 2 ? 4 : MODE == 1 ? 1 : 2)
#define COUNT_Z (DIMS == 3 ? COUNT : 1)
typedef struct grid_t {
    int in[3], channels; /* depth is 1 for two dims */
    int64_t positions;   /* of an image */
} grid_t;
typedef struct tap_t { /* a neighbour along one axis; index -1: outside */
    int index;
    A weight, slope;
} tap_t;

INLINE A brought_inside(A at, int n, A *slope) {
#if PADDING == 2
    const A low = ALIGN ? 0 : (A)-0.5, span = ALIGN ? n - 1 : n, away = at - low, from = away < 0 ? -away : away;
    if (span <= 0) {
        *slope = 0;
        return 0;
    }
    const A turns = floor(from / span), extra = from - turns * span;
    const int even = turns - 2 * floor(turns * (A)0.5) == 0;
    at = even ? extra + low : span - extra + low;
    *slope *= (even ? 1 : -1) * (away < 0 ? -1 : 1);
#endif
#if PADDING != 0
    if (at <= 0 || at >= n - 1) {
        *slope = 0;
        return at <= 0 ? 0 : n - 1;
    }
#endif
    return at;
}

INLINE int index_at(A at, int n) { return at > -1 && at < n ? (int)at : -1; }

INLINE void neighbours(A at, int n, tap_t *t) {
    A slope = (ALIGN ? n - 1 : n) * (A)0.5, pixel = ALIGN ? (at + 1) * slope : (at + 1) * slope - (A)0.5;
#if MODE == 2
    const A low = floor(pixel);
    UNROLL
    for (int i = 0; i < 4; i++) {
        const A a = (A)-0.75, place = low - 1 + i, off = pixel - place, x = off < 0 ? -off : off,
                sign = off < 0 ? -1 : 1;
        A none = 1;
        t[i].weight = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
        t[i].slope = slope * sign * (x <= 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a);
        t[i].index = index_at(brought_inside(place, n, &none), n);
    }
#elif MODE == 1
    t[0].index = index_at(rint(brought_inside(pixel, n, &slope)), n);
    t[0].weight = 1;
    t[0].slope = 0;
#else
    pixel = brought_inside(pixel, n, &slope);
    const A low = floor(pixel);
    t[0].index = index_at(low, n);
    t[0].weight = 1 - (pixel - low);
    t[0].slope = -slope;
    t[1].index = index_at(low + 1, n);
    t[1].weight = pixel - low;
    t[1].slope = slope;
#endif
}

/* The grid names the last dim first. */
INLINE void all_neighbours(GLOBAL const T_X *at, const grid_t *g, tap_t *x, tap_t *y, tap_t *z) {
    neighbours(GET_X(at[0]), g->in[2], x);
    neighbours(GET_X(at[1]), g->in[1], y);
#if DIMS == 3
    neighbours(GET_X(at[2]), g->in[0], z);
#else
    z[0].index = 0;
    z[0].weight = 1;
    z[0].slope = 0;
#endif
}
#define EACH_NEIGHBOUR                  \
    for (int a = 0; a < COUNT_Z; a++)   \
        for (int b = 0; b < COUNT; b++) \
            for (int c = 0; c < COUNT; c++)
#define IS_THERE (z[a].index >= 0 && y[b].index >= 0 && x[c].index >= 0)
#define PLACE_OF (((int64_t)z[a].index * g.in[1] + y[b].index) * g.in[2] + x[c].index)

#ifdef KERNEL_forward
KERNEL(entry)
(PTR(out), PTR(in), PTR(grid), const grid_t g, const int64_t n) {
    EACH(e, n) {
        const int64_t plane = (int64_t)e / g.positions, position = e - plane * g.positions, image = plane / g.channels;
        tap_t x[COUNT], y[COUNT], z[COUNT_Z];
        all_neighbours(AT(const T_X, grid) + (image * g.positions + position) * DIMS, &g, x, y, z);
        GLOBAL const T_X *from = AT(const T_X, in) + plane * g.in[0] * g.in[1] * g.in[2];
        A sum = 0;
        EACH_NEIGHBOUR if (IS_THERE) sum += GET_X(from[PLACE_OF]) * z[a].weight * y[b].weight * x[c].weight;
        AT(T_X, out)[e] = SET_X(sum);
    }
}
#endif

#ifdef KERNEL_places
KERNEL(entry)
(PTR(numbers), PTR(weights), PTR(grid), const grid_t g, const int64_t n, const int64_t nowhere) {
    EACH(e, n) {
        const int64_t image = (int64_t)e / g.positions, size = (int64_t)g.in[0] * g.in[1] * g.in[2];
        tap_t x[COUNT], y[COUNT], z[COUNT_Z];
        all_neighbours(AT(const T_X, grid) + (int64_t)e * DIMS, &g, x, y, z);
        int64_t to = (int64_t)e * (COUNT_Z * COUNT * COUNT);
        EACH_NEIGHBOUR {
            AT(int64_t, numbers)[to] = IS_THERE ? image * size + PLACE_OF : nowhere;
            AT(A, weights)[to++] = z[a].weight * y[b].weight * x[c].weight;
        }
    }
}
#endif

#ifdef KERNEL_slopes
KERNEL(entry)
(PTR(out), PTR(grad), PTR(in), PTR(grid), const grid_t g, const int64_t n) {
    EACH(e, n) {
        const int64_t image = (int64_t)e / g.positions, position = e - image * g.positions,
                      size = (int64_t)g.in[0] * g.in[1] * g.in[2];
        tap_t x[COUNT], y[COUNT], z[COUNT_Z];
        all_neighbours(AT(const T_X, grid) + (int64_t)e * DIMS, &g, x, y, z);
        A dx = 0, dy = 0, dz = 0;
        for (int channel = 0; channel < g.channels; channel++) {
            const int64_t plane = image * g.channels + channel;
            const A up = GET_X(AT(const T_X, grad)[plane * g.positions + position]);
            EACH_NEIGHBOUR {
                if (!IS_THERE) continue;
                const A v = up * GET_X(AT(const T_X, in)[plane * size + PLACE_OF]);
                dx += v * z[a].weight * y[b].weight * x[c].slope;
                dy += v * z[a].weight * y[b].slope * x[c].weight;
                dz += v * z[a].slope * y[b].weight * x[c].weight;
            }
        }
        GLOBAL T_X *to = AT(T_X, out) + (int64_t)e * DIMS;
        to[0] = SET_X(dx);
        to[1] = SET_X(dy);
#if DIMS == 3
        to[2] = SET_X(dz);
#endif
    }
}
#endif

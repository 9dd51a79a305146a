/* Pooling over planes of up to three dims. Before this text: A the compute type, X the dtype; LAST: channels are the
 * fastest dim of memory, and GROUP threads have a position then, each VEC neighbouring channels at a time (1
 * otherwise).
 *
 *   maximum, average, adaptive_average, adaptive_maximum                       a thread per piece of the result
 *   maximum_back, average_back, adaptive_back                                  a thread per piece of the input,
 *                                                                              which looks at the windows it is in
 *
 * Places are numbers within a plane. */
typedef struct geometry_t {
    int x[3], y[3], k[3], stride[3], pad[3], dilation[3];
    int channels, count_pad;
    int64_t divisor; /* 0: the window's elements */
} geometry_t;

#include "piece.h"
typedef struct ALIGNED(T_X) piece_x {
    T_X v[VEC];
} piece_x;
typedef struct ALIGNED(int64_t) piece_place {
    int64_t v[VEC];
} piece_place;
#define EACH_OF_PIECE(j) \
    UNROLL               \
    for (int j = 0; j < VEC; j++)
INLINE piece_x read_piece(GLOBAL const T_X *x, const int64_t at) { return *(GLOBAL const piece_x *)(x + at); }
INLINE piece_place read_places(GLOBAL const int64_t *places, const int64_t at) {
    return *(GLOBAL const piece_place *)(places + at);
}
INLINE void write_piece(GLOBAL T_X *x, const int64_t at, const A *v) {
    piece_x p;
    EACH_OF_PIECE(j) p.v[j] = SET_X(v[j]);
    *(GLOBAL piece_x *)(x + at) = p;
}
INLINE void write_places(GLOBAL int64_t *places, const int64_t at, const int64_t *v) {
    piece_place p;
    EACH_OF_PIECE(j) p.v[j] = v[j];
    *(GLOBAL piece_place *)(places + at) = p;
}

/* EACH_PIECE(planes of size[3]) { ... }: `at` is the place in memory of its first element, `rest` its number within the
 * plane, `image` and `channel` the plane's. With channels last, GROUP threads have a position and go through its
 * channels; otherwise BLOCK is the plane and BLOCK_Y a stretch of it. Numbers of positions and of elements in a plane
 * have 32 bits. */
#if LAST
#define EACH_PIECE(size)                                                                                        \
    const uint32_t plane_size = (uint32_t)size[0] * size[1] * size[2], positions = (uint32_t)(n / g.channels);  \
    for (uint32_t row = BLOCK * (256 / GROUP) + THREAD / GROUP; row < positions; row += BLOCKS * (256 / GROUP)) \
        for (uint32_t image = row / plane_size, rest = row % plane_size, turn = 0; turn < 1; turn++)            \
            for (int64_t channel = THREAD % GROUP * VEC, at = (int64_t)row * g.channels + channel;              \
                 channel < g.channels; channel += GROUP * VEC, at += GROUP * VEC)
#define PLACE(other, place) (((int64_t)image * (other) + (place)) * g.channels + channel)
#else
#define EACH_PIECE(size)                                                                            \
    const uint32_t plane_size = (uint32_t)size[0] * size[1] * size[2];                              \
    const int64_t channel = BLOCK;                                                                  \
    for (uint32_t rest = BLOCK_Y * THREADS + THREAD; rest < plane_size; rest += BLOCKS_Y * THREADS) \
        for (int64_t at = channel * plane_size + rest, turn = 0; turn < 1; turn++)
#define PLACE(other, place) (channel * (other) + (place))
#endif
#define SPLIT(size)                                                                                         \
    const int w = (int)(rest % (uint32_t)size[2]), h = (int)(rest / (uint32_t)size[2] % (uint32_t)size[1]), \
              d = (int)(rest / ((uint32_t)size[1] * size[2]));
#define X_SIZE ((int64_t)g.x[0] * g.x[1] * g.x[2])
#define Y_SIZE ((int64_t)g.y[0] * g.y[1] * g.y[2])

#ifdef KERNEL_maximum
KERNEL(entry)
(PTR(out), PTR(places), PTR(in), const geometry_t g, const int64_t n) {
    EACH_PIECE(g.y) {
        SPLIT(g.y)
        const int d0 = d * g.stride[0] - g.pad[0], h0 = h * g.stride[1] - g.pad[1], w0 = w * g.stride[2] - g.pad[2];
        A most[VEC];
        int64_t found[VEC];
        EACH_OF_PIECE(e) {
            most[e] = -INFINITY;
            found[e] = -1;
        }
        for (int i = 0; i < g.k[0]; i++) {
            const int xd = d0 + i * g.dilation[0];
            if (xd < 0 || xd >= g.x[0]) continue;
            for (int j = 0; j < g.k[1]; j++) {
                const int xh = h0 + j * g.dilation[1];
                if (xh < 0 || xh >= g.x[1]) continue;
                for (int k = 0; k < g.k[2]; k++) {
                    const int xw = w0 + k * g.dilation[2];
                    if (xw < 0 || xw >= g.x[2]) continue;
                    const int64_t place = ((int64_t)xd * g.x[1] + xh) * g.x[2] + xw;
                    const piece_x p = read_piece(AT(const T_X, in), PLACE(X_SIZE, place));
                    EACH_OF_PIECE(e) {
                        const A v = GET_X(p.v[e]);
                        if (found[e] < 0 || v > most[e] || v != v) {
                            most[e] = v;
                            found[e] = place;
                        }
                    }
                }
            }
        }
        write_piece(AT(T_X, out), at, most);
        write_places(AT(int64_t, places), at, found);
    }
}
#endif

/* The windows that x is in, without dilation: from the smallest y with y stride - pad + k > x on. */
INLINE int first_window(const int x, const int pad, const int k, const int stride) {
    return x + pad < k ? 0 : (x + pad - k) / stride + 1;
}
INLINE int past_window(const int x, const int pad, const int stride, const int y) {
    return (x + pad) / stride + 1 < y ? (x + pad) / stride + 1 : y;
}

#ifdef KERNEL_maximum_back
/* With a dilation the windows between first and past need not have x among their elements: the place that each kept
 * tells. */
KERNEL(entry)
(PTR(out), PTR(grad), PTR(places), const geometry_t g, const int64_t n) {
    const int kd = g.dilation[0] * (g.k[0] - 1) + 1, kh = g.dilation[1] * (g.k[1] - 1) + 1,
              kw = g.dilation[2] * (g.k[2] - 1) + 1;
    EACH_PIECE(g.x) {
        SPLIT(g.x)
        const int64_t own = rest;
        const int d1 = past_window(d, g.pad[0], g.stride[0], g.y[0]),
                  h1 = past_window(h, g.pad[1], g.stride[1], g.y[1]),
                  w1 = past_window(w, g.pad[2], g.stride[2], g.y[2]);
        A sum[VEC];
        EACH_OF_PIECE(e) sum[e] = 0;
        for (int yd = first_window(d, g.pad[0], kd, g.stride[0]); yd < d1; yd++)
            for (int yh = first_window(h, g.pad[1], kh, g.stride[1]); yh < h1; yh++)
                for (int yw = first_window(w, g.pad[2], kw, g.stride[2]); yw < w1; yw++) {
                    const int64_t y = PLACE(Y_SIZE, ((int64_t)yd * g.y[1] + yh) * g.y[2] + yw);
                    const piece_place p = read_places(AT(const int64_t, places), y);
                    const piece_x v = read_piece(AT(const T_X, grad), y);
                    EACH_OF_PIECE(e) if (p.v[e] == own) sum[e] += GET_X(v.v[e]);
                }
        write_piece(AT(T_X, out), at, sum);
    }
}
#endif

/* A window's ends in one dim, and what it counts towards the divisor. */
INLINE int pad_count(const geometry_t *g, const int i, const int y) {
    const int first = y * g->stride[i] - g->pad[i],
              last = first + g->k[i] < g->x[i] + g->pad[i] ? first + g->k[i] : g->x[i] + g->pad[i];
    const int from = first > 0 ? first : 0, to = last < g->x[i] ? last : g->x[i];
    return g->count_pad ? last - first : to - from;
}
INLINE A window_size(const geometry_t *g, const int d, const int h, const int w) {
    if (g->divisor) return (A)g->divisor;
    return (A)((int64_t)pad_count(g, 0, d) * pad_count(g, 1, h) * pad_count(g, 2, w));
}

#ifdef KERNEL_average
KERNEL(entry)
(PTR(out), PTR(places), PTR(in), const geometry_t g, const int64_t n) {
    EACH_PIECE(g.y) {
        SPLIT(g.y)
        const int d0 = d * g.stride[0] - g.pad[0], h0 = h * g.stride[1] - g.pad[1], w0 = w * g.stride[2] - g.pad[2];
        A sum[VEC];
        EACH_OF_PIECE(e) sum[e] = 0;
        for (int xd = d0 > 0 ? d0 : 0; xd < d0 + g.k[0] && xd < g.x[0]; xd++)
            for (int xh = h0 > 0 ? h0 : 0; xh < h0 + g.k[1] && xh < g.x[1]; xh++)
                for (int xw = w0 > 0 ? w0 : 0; xw < w0 + g.k[2] && xw < g.x[2]; xw++) {
                    const piece_x p =
                        read_piece(AT(const T_X, in), PLACE(X_SIZE, ((int64_t)xd * g.x[1] + xh) * g.x[2] + xw));
                    EACH_OF_PIECE(e) sum[e] += GET_X(p.v[e]);
                }
        const A size = window_size(&g, d, h, w);
        EACH_OF_PIECE(e) sum[e] /= size;
        write_piece(AT(T_X, out), at, sum);
    }
}
#endif

#ifdef KERNEL_average_back
KERNEL(entry)
(PTR(out), PTR(grad), PTR(places), const geometry_t g, const int64_t n) {
    EACH_PIECE(g.x) {
        SPLIT(g.x)
        A sum[VEC];
        EACH_OF_PIECE(e) sum[e] = 0;
        for (int yd = first_window(d, g.pad[0], g.k[0], g.stride[0]);
             yd < past_window(d, g.pad[0], g.stride[0], g.y[0]); yd++)
            for (int yh = first_window(h, g.pad[1], g.k[1], g.stride[1]);
                 yh < past_window(h, g.pad[1], g.stride[1], g.y[1]); yh++)
                for (int yw = first_window(w, g.pad[2], g.k[2], g.stride[2]);
                     yw < past_window(w, g.pad[2], g.stride[2], g.y[2]); yw++) {
                    const piece_x p =
                        read_piece(AT(const T_X, grad), PLACE(Y_SIZE, ((int64_t)yd * g.y[1] + yh) * g.y[2] + yw));
                    const A size = window_size(&g, yd, yh, yw);
                    EACH_OF_PIECE(e) sum[e] += GET_X(p.v[e]) / size;
                }
        write_piece(AT(T_X, out), at, sum);
    }
}
#endif

/* Adaptive windows: from floor(i x / y) to ceil((i + 1) x / y), in 32 bits: the host has seen to it that x y fits. */
#define FROM(i, x, y) ((int)((uint32_t)((i) * (x)) / (uint32_t)(y)))
#define TO(i, x, y)   ((int)((uint32_t)(((i) + 1) * (x) + (y)-1) / (uint32_t)(y)))

#if defined(KERNEL_adaptive_average) || defined(KERNEL_adaptive_maximum)
KERNEL(entry)
(PTR(out), PTR(places), PTR(in), const geometry_t g, const int64_t n) {
    EACH_PIECE(g.y) {
        SPLIT(g.y)
        const int d0 = FROM(d, g.x[0], g.y[0]), d1 = TO(d, g.x[0], g.y[0]), h0 = FROM(h, g.x[1], g.y[1]),
                  h1 = TO(h, g.x[1], g.y[1]), w0 = FROM(w, g.x[2], g.y[2]), w1 = TO(w, g.x[2], g.y[2]);
        A v[VEC];
        int64_t found[VEC];
        EACH_OF_PIECE(e) {
            v[e] = 0;
            found[e] = -1;
        }
        for (int xd = d0; xd < d1; xd++)
            for (int xh = h0; xh < h1; xh++)
                for (int xw = w0; xw < w1; xw++) {
                    const int64_t place = ((int64_t)xd * g.x[1] + xh) * g.x[2] + xw;
                    const piece_x p = read_piece(AT(const T_X, in), PLACE(X_SIZE, place));
                    EACH_OF_PIECE(e) {
                        const A one = GET_X(p.v[e]);
#ifdef KERNEL_adaptive_average
                        v[e] += one;
#else
                        if (found[e] < 0 || one > v[e] || one != one) {
                            v[e] = one;
                            found[e] = place;
                        }
#endif
                    }
                }
#ifdef KERNEL_adaptive_average
        const A size = (A)((int64_t)(d1 - d0) * (h1 - h0) * (w1 - w0));
        EACH_OF_PIECE(e) v[e] /= size;
        write_piece(AT(T_X, out), at, v);
#else
        write_piece(AT(T_X, out), at, v);
        write_places(AT(int64_t, places), at, found);
#endif
    }
}
#endif

#ifdef KERNEL_adaptive_back
KERNEL(entry)
(PTR(out), PTR(grad), PTR(places), const geometry_t g, const int64_t n) {
    EACH_PIECE(g.x) {
        SPLIT(g.x)
        A sum[VEC];
        EACH_OF_PIECE(e) sum[e] = 0;
        for (int yd = FROM(d, g.y[0], g.x[0]); yd < TO(d, g.y[0], g.x[0]); yd++)
            for (int yh = FROM(h, g.y[1], g.x[1]); yh < TO(h, g.y[1], g.x[1]); yh++)
                for (int yw = FROM(w, g.y[2], g.x[2]); yw < TO(w, g.y[2], g.x[2]); yw++) {
                    const int64_t size = (int64_t)(TO(yd, g.x[0], g.y[0]) - FROM(yd, g.x[0], g.y[0])) *
                                         (TO(yh, g.x[1], g.y[1]) - FROM(yh, g.x[1], g.y[1])) *
                                         (TO(yw, g.x[2], g.y[2]) - FROM(yw, g.x[2], g.y[2]));
                    const piece_x p =
                        read_piece(AT(const T_X, grad), PLACE(Y_SIZE, ((int64_t)yd * g.y[1] + yh) * g.y[2] + yw));
                    EACH_OF_PIECE(e) sum[e] += GET_X(p.v[e]) / (A)size;
                }
        write_piece(AT(T_X, out), at, sum);
    }
}
#endif

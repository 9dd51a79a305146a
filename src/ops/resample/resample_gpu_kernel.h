/* Resampling: every element of the result reads WIDTH elements of the input along each spatial dim, with weights.
 * Before this text: A the type of places and weights, X and Y the dtypes of what is read and written (BYTES: Y is
 * uint8, rounded and kept in range), LARGE; NEAREST with EXACT, CUBIC, or else linear; ALIGN: corners are aligned;
 * ANTIALIAS.
 *
 *   direct   DIMS dims at once, a thread per element of the result; LAST: channels are the fastest dim of memory
 *   back     one dim: a thread per element of the input sums over the elements of the result that may have read it,
 *            in order
 *   table    of an antialiasing filter: the first place and the weights of every element of the result, along one dim
 *   filter   one dim by the table */
#include "each.h"
typedef struct axis_t {
    int in, out;
    A each;    /* elements of the input per element of the result */
    A reach;   /* of an antialiasing filter, in elements of the input */
    int width; /* its weights */
} axis_t;

INLINE int inside(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
INLINE A cubic_near(A x, A a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
INLINE A cubic_far(A x, A a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

#if BYTES
INLINE T_Y written(A v) {
    v = floor(v + (A)0.5);
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}
#else
INLINE T_Y written(A v) { return SET_Y(v); }
#endif

/* The weights of an element's reads; they are at `inside` of the place that is returned and the next ones. */
#if NEAREST
#define WIDTH 1
INLINE int taps(const axis_t *a, int o, A *w) {
    w[0] = 1;
    return (int)floor(((A)o + (EXACT ? (A)0.5 : 0)) * a->each);
}
#else
#define WIDTH (CUBIC ? 4 : 2)
INLINE int taps(const axis_t *a, int o, A *w) {
    A at = ALIGN ? a->each * o : a->each * ((A)o + (A)0.5) - (A)0.5;
#if CUBIC
    const A low = floor(at), part = at - low;
    w[0] = cubic_far(part + 1, (A)-0.75);
    w[1] = cubic_near(part, (A)-0.75);
    w[2] = cubic_near(1 - part, (A)-0.75);
    w[3] = cubic_far(2 - part, (A)-0.75);
    return (int)low - 1;
#else
    if (at < 0) at = 0;
    const int low = inside((int)at, a->in);
    const A past = at - low, part = past > 1 ? 1 : past;
    w[0] = 1 - part;
    w[1] = part;
    return low;
#endif
}
#endif

#ifdef KERNEL_direct
#define WIDTH_Y (DIMS > 1 ? WIDTH : 1)
#define WIDTH_Z (DIMS > 2 ? WIDTH : 1)
typedef struct axes3_t {
    axis_t a[3]; /* depth, height, width; those that are not there have one element */
} axes3_t;

KERNEL(entry)
(PTR(out), PTR(in), const axes3_t g, const int64_t n, const int channels) {
    EACH(e, n) {
        const index_t position = LAST ? e / channels : e, row = position / g.a[2].out, deep = row / g.a[1].out,
                      plane = deep / g.a[0].out;
        const int64_t step = LAST ? channels : 1, from = LAST ? e - position * channels : 0;
        A wx[WIDTH], wy[WIDTH_Y], wz[WIDTH_Z], sum = 0;
        const int x = taps(&g.a[2], (int)(position - row * g.a[2].out), wx);
        int y = 0, z = 0;
        wy[0] = 1;
        wz[0] = 1;
#if DIMS > 1
        y = taps(&g.a[1], (int)(row - deep * g.a[1].out), wy);
#endif
#if DIMS > 2
        z = taps(&g.a[0], (int)(deep - plane * g.a[0].out), wz);
#endif
        UNROLL
        for (int k = 0; k < WIDTH_Z; k++) {
            UNROLL
            for (int j = 0; j < WIDTH_Y; j++) {
                const int64_t line =
                    (((int64_t)plane * g.a[0].in + inside(z + k, g.a[0].in)) * g.a[1].in + inside(y + j, g.a[1].in)) *
                    g.a[2].in;
                UNROLL
                for (int i = 0; i < WIDTH; i++)
                    sum += wz[k] * wy[j] * wx[i] *
                           GET_X(AT(const T_X, in)[(line + inside(x + i, g.a[2].in)) * step + from]);
            }
        }
        AT(T_Y, out)[e] = written(sum);
    }
}
#endif

#ifdef KERNEL_back
#if ANTIALIAS
#define BEFORE (a.reach + (A)0.5)
#define BEHIND (a.reach + (A)0.5)
#else
#define BEFORE (NEAREST ? 0 : CUBIC ? 2 : 1)
#define BEHIND (CUBIC ? 2 : 1)
#endif
#define SHIFT (ANTIALIAS || (!ALIGN && !NEAREST) ? (A)0.5 : 0)
KERNEL(entry)
(PTR(out), PTR(grad), PTR(first), PTR(weights), const axis_t a, const int64_t n, const int inner) {
    EACH(e, n) {
        const index_t row = e / inner, outer = row / a.in;
        const int i = (int)(row - outer * a.in);
        int low = 0, high = a.out - 1;
        /* one more on either side makes up for rounding; the ends were read in the place of what lies beyond them */
        if (a.each > 0 && i > 0) low = inside((int)floor((i - BEFORE + SHIFT) / a.each - SHIFT) - 1, a.out);
        if (a.each > 0 && i < a.in - 1) high = inside((int)ceil((i + BEHIND + SHIFT) / a.each - SHIFT) + 1, a.out);
        A sum = 0;
        for (int o = low; o <= high; o++) {
            A w = 0;
#if ANTIALIAS
            const int k = i - AT(const int, first)[o];
            if (k >= 0 && k < a.width) w = AT(const A, weights)[(int64_t)o * a.width + k];
#else
            A all[WIDTH];
            const int at = taps(&a, o, all);
            UNROLL
            for (int k = 0; k < WIDTH; k++) w += inside(at + k, a.in) == i ? all[k] : 0;
#endif
            if (w != 0) sum += w * GET_X(AT(const T_X, grad)[((int64_t)outer * a.out + o) * inner + (e - row * inner)]);
        }
        AT(T_Y, out)[e] = written(sum);
    }
}
#endif

#ifdef KERNEL_table
INLINE A filter(A x) {
    x = x < 0 ? -x : x;
    if (!CUBIC) return x < 1 ? 1 - x : 0;
    return x < 1 ? cubic_near(x, (A)-0.5) : x < 2 ? cubic_far(x, (A)-0.5) : 0;
}

KERNEL(entry)
(PTR(first), PTR(weights), const axis_t a) {
    const int o = (int)BLOCK * THREADS + THREAD;
    if (o >= a.out) return;
    GLOBAL A *w = AT(A, weights) + (int64_t)o * a.width;
    const A center = a.each * ((A)o + (A)0.5), inverse = a.each >= 1 ? 1 / a.each : 1;
    const A start = center - a.reach + (A)0.5;
    const int from = start > 0 ? (int)start : 0, past = (int)(center + a.reach + (A)0.5),
              end = past < a.in ? past : a.in;
    A total = 0;
    for (int k = 0; k < a.width; k++) {
        w[k] = from + k < end ? filter(((A)(from + k) - center + (A)0.5) * inverse) : 0;
        total += w[k];
    }
    for (int k = 0; k < a.width && total != 0; k++) w[k] /= total;
    AT(int, first)[o] = from;
}
#endif

#ifdef KERNEL_filter
KERNEL(entry)
(PTR(out), PTR(in), PTR(first), PTR(weights), const axis_t a, const int64_t n, const int inner) {
    EACH(e, n) {
        const index_t row = e / inner, outer = row / a.out;
        const int o = (int)(row - outer * a.out), from = AT(const int, first)[o];
        A sum = 0;
        for (int k = 0; k < a.width && from + k < a.in; k++)
            sum += AT(const A, weights)[(int64_t)o * a.width + k] *
                   GET_X(AT(const T_X, in)[((int64_t)outer * a.in + from + k) * inner + (e - row * inner)]);
        AT(T_Y, out)[e] = written(sum);
    }
}
#endif

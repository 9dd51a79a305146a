/* The transforms of Winograd's convolution: see ops/conv/winograd.h. Eight patches, tiles or filters go side by side,
 * one to a lane; they are read and written as rows of four or eight floats that are transposed in registers. */
#include "ops/conv/winograd.h"
#include "linalg/float_vectors.h"

enum { E = TPI_WINOGRAD_LANES, TAPS = 9 };
typedef float four __attribute__((vector_size(16)));
typedef float eight __attribute__((vector_size(32)));

static const float NEAR = 0.70710678118654752f,
                   FAR = 1.41421356237309505f; /* the points; their squares are 1/2 and 2 */

/* Macros, since vectors of this size have no calling convention on the smallest instruction set. */
typedef float loose __attribute__((vector_size(32), aligned(sizeof(float)), may_alias));
#define load8(p)     ((eight) * (const loose *)(p))
#define store8(p, v) (*(loose *)(p) = (v))
#ifdef __AVX2__
#define fma8(a, x, y) ((eight)_mm256_fmadd_ps((__m256)((a) - (eight){0}), (__m256)(x), (__m256)(y))) /* a x + y */
#else
#define fma8(a, x, y) ((a) * (x) + (y))
#endif

/* ---- Rows of lanes, transposed ---- */
/* In each half: four rows of four become four columns. */
INLINE void transpose_halves(eight v[4]) {
    eight a = __builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 4, 12, 5, 13),
          b = __builtin_shufflevector(v[2], v[3], 0, 8, 1, 9, 4, 12, 5, 13);
    eight c = __builtin_shufflevector(v[0], v[1], 2, 10, 3, 11, 6, 14, 7, 15),
          d = __builtin_shufflevector(v[2], v[3], 2, 10, 3, 11, 6, 14, 7, 15);
    v[0] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    v[1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    v[2] = __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13);
    v[3] = __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15);
}

/* Floats 0 to 3 of the eight lanes. */
INLINE void load_four(const float *from, const int64_t *offsets, eight v[4]) {
    UNROLL
    for (int i = 0; i < 4; i++) {
        four low, high;
        memcpy(&low, from + offsets[i], sizeof low);
        memcpy(&high, from + offsets[i + 4], sizeof high);
        v[i] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
    }
    transpose_halves(v);
}

/* Floats 0 and 1. */
INLINE void load_two(const float *from, const int64_t *offsets, eight v[2]) {
    double d[E];
    UNROLL
    for (int i = 0; i < E; i++) memcpy(&d[i], from + offsets[i], sizeof d[i]);
    typedef double doubles __attribute__((vector_size(32)));
    doubles a = {d[0], d[1], d[4], d[5]}, b = {d[2], d[3], d[6], d[7]};
    v[0] = __builtin_shufflevector((eight)a, (eight)b, 0, 2, 8, 10, 4, 6, 12, 14);
    v[1] = __builtin_shufflevector((eight)a, (eight)b, 1, 3, 9, 11, 5, 7, 13, 15);
}

/* ---- The matrices of results, along one axis ---- */
INLINE void small_b(const eight *d, eight *out, int t) {
    out[0] = d[0] - d[2];
    out[t] = d[1] + d[2];
    out[2 * t] = d[2] - d[1];
    out[3 * t] = d[1] - d[3];
}

INLINE void small_a_back(const eight *m, eight *out, int t) { /* four to two */
    out[0] = m[0] + m[1] + m[2];
    out[t] = m[1] - m[2] - m[3];
}

INLINE void small_g(const eight *g, eight *out, int t) { /* three to four */
    eight ends = 0.5f * (g[0] + g[2]);
    out[0] = g[0];
    out[t] = fma8(0.5f, g[1], ends);
    out[2 * t] = fma8(-0.5f, g[1], ends);
    out[3 * t] = g[2];
}

/* ---- The matrices of the weight's gradient; elements are `s` apart ---- */
INLINE void times_b(const eight *d, int s, eight *out, int t) {
    eight e = fma8(-2, d[2 * s], d[4 * s]), o = fma8(-2, d[s], d[3 * s]);
    eight f = fma8(-0.5f, d[2 * s], d[4 * s]), p = fma8(-0.5f, d[s], d[3 * s]);
    out[0] = fma8(-2.5f, d[2 * s], d[0] + d[4 * s]);
    out[t] = fma8(NEAR, o, e);
    out[2 * t] = fma8(-NEAR, o, e);
    out[3 * t] = fma8(FAR, p, f);
    out[4 * t] = fma8(-FAR, p, f);
    out[5 * t] = fma8(-2.5f, d[3 * s], d[s] + d[5 * s]);
}

INLINE void times_a(const eight *y, int s, eight *out, int t) { /* four to six */
    eight e = fma8(0.5f, y[2 * s], y[0]), o = fma8(0.5f, y[3 * s], y[s]), f = fma8(2, y[2 * s], y[0]),
          p = fma8(2, y[3 * s], y[s]);
    out[0] = y[0];
    out[t] = fma8(NEAR, o, e);
    out[2 * t] = fma8(-NEAR, o, e);
    out[3 * t] = fma8(FAR, p, f);
    out[4 * t] = fma8(-FAR, p, f);
    out[5 * t] = y[3 * s];
}

INLINE void times_g_back(const eight *u, int s, eight *out, int t) { /* six to three */
    const float n = -2.0f / 3, f = 1.0f / 6;
    eight e = n * (u[s] + u[2 * s]), o = u[s] - u[2 * s], h = f * (u[3 * s] + u[4 * s]), p = u[3 * s] - u[4 * s];
    out[0] = u[0] + e + h;
    out[t] = fma8(n * NEAR, o, f * FAR * p);
    out[2 * t] = fma8(0.5f, e, fma8(2, h, u[5 * s]));
}

/* ---- Patches ---- */
void TPI_ISA(tpi_winograd_copy)(int64_t strips, const tpi_winograd_strip *s, const float *from, int64_t from_row,
                                float *to, int64_t to_row) {
    for (int64_t i = 0; i < strips; i++)
        for (int64_t r = 0; r < s[i].rows; r++) {
            const float *a = from + s[i].from + r * from_row;
            float *b = to + s[i].to + r * to_row;
            int64_t c = 0, width = s[i].width;
            for (; c + E <= width; c += E) store8(b + c, load8(a + c));
            for (; c + 4 <= width; c += 4) memcpy(b + c, a + c, 4 * sizeof *b);
            for (; c < width; c++) b[c] = a[c];
        }
}

void TPI_ISA(tpi_winograd_patches)(int64_t groups, const int64_t *offsets, const float *from, int64_t row, float *to,
                                   int64_t step, int64_t panel_step) {
    for (int64_t g = 0; g < groups; g++, offsets += E) {
        float *out = to + g * E / PANEL * panel_step + g * E % PANEL;
        eight half[4 * 4];
        UNROLL
        for (int r = 0; r < 4; r++) { /* rows of the patch; B along each, to columns of `half` */
            eight d[4];
            load_four(from + r * row, offsets, d);
            small_b(d, half + r, 4);
        }
        UNROLL
        for (int c = 0; c < 4; c++) {
            eight d[4];
            small_b(half + 4 * c, d, 1);
            UNROLL
            for (int r = 0; r < 4; r++) store8(out + (r * 4 + c) * step, d[r]);
        }
    }
}

void TPI_ISA(tpi_winograd_w_patches)(int64_t groups, const int64_t *offsets, const float *from, int64_t row, float *to,
                                     int64_t step, int64_t panel_step) {
    for (int64_t g = 0; g < groups; g++, offsets += E) {
        float *out = to + g * E / PANEL * panel_step + g * E % PANEL;
        eight half[6 * 6];
        UNROLL
        for (int r = 0; r < 6; r++) { /* rows of the patch; B along each, to columns of `half` */
            eight d[6];
            load_four(from + r * row, offsets, d);
            load_two(from + r * row + 4, offsets, d + 4);
            times_b(d, 1, half + r, 6);
        }
        UNROLL
        for (int c = 0; c < 6; c++) {
            eight d[6];
            times_b(half + 6 * c, 1, d, 1);
            UNROLL
            for (int r = 0; r < 6; r++) store8(out + (r * 6 + c) * step, d[r]);
        }
    }
}

void TPI_ISA(tpi_winograd_spread)(int64_t groups, const int64_t *offsets, const float *from, int64_t row, float *to,
                                  int64_t step) {
    for (int64_t g = 0; g < groups; g++, offsets += E, to += E) {
        eight half[6 * 4];
        UNROLL
        for (int r = 0; r < 4; r++) {
            eight d[4];
            load_four(from + r * row, offsets, d);
            times_a(d, 1, half + r, 4);
        }
        UNROLL
        for (int c = 0; c < 6; c++) {
            eight d[6];
            times_a(half + 4 * c, 1, d, 1);
            UNROLL
            for (int r = 0; r < 6; r++) store8(to + (r * 6 + c) * step, d[r]);
        }
    }
}

/* ---- Tiles ---- */
/* Row r of eight tiles: columns 0 and 1. */
INLINE void put_row(const tpi_winograd_tile *tiles, int r, const eight v[2], float *y, bool in_line) {
    eight pairs[2] = {__builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 2, 10, 3, 11),
                      __builtin_shufflevector(v[0], v[1], 4, 12, 5, 13, 6, 14, 7, 15)};
    if (in_line) {
        store8(y + tiles[0].offset, pairs[0]);
        store8(y + tiles[0].offset + E, pairs[1]);
        return;
    }
    for (int i = 0; i < E; i++) {
        const tpi_winograd_tile *t = tiles + i;
        if (r < t->rows)
            memcpy(y + t->offset, (const float *)(const void *)pairs + 2 * i, (size_t)t->columns * sizeof *y);
    }
}

/* Do eight whole tiles stand side by side? */
INLINE bool are_in_line(const tpi_winograd_tile *tiles) {
    bool so = true;
    for (int i = 0; i < E; i++)
        so = so && tiles[i].rows == 2 && tiles[i].columns == 2 && tiles[i].offset == tiles[0].offset + 2 * i;
    return so;
}

void TPI_ISA(tpi_winograd_tiles)(int64_t groups, const tpi_winograd_tile *tiles, const float *m, int64_t step,
                                 float bias, float *y, int64_t row) {
    for (int64_t g = 0; g < groups; g++, tiles += E, m += E) {
        eight half[2 * 4];
        UNROLL
        for (int c = 0; c < 4; c++) { /* A' down each column */
            eight d[4];
            UNROLL
            for (int r = 0; r < 4; r++) d[r] = load8(m + (r * 4 + c) * step);
            small_a_back(d, half + c, 4);
        }
        bool in_line = are_in_line(tiles);
        UNROLL
        for (int r = 0; r < 2; r++) {
            eight v[2];
            small_a_back(half + 4 * r, v, 1);
            UNROLL
            for (int i = 0; i < 2; i++) v[i] += bias;
            if (in_line)
                put_row(tiles, r, v, y + r * row, true);
            else
                put_row(tiles, r, v, y + r * row, false);
        }
    }
}

/* ---- Filters ---- */
/* Eight rows of eight become eight columns. */
INLINE void turn8(eight v[8]) {
    eight low[4], high[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        low[i] = __builtin_shufflevector(v[i], v[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        high[i] = __builtin_shufflevector(v[i], v[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    transpose_halves(low);
    transpose_halves(high);
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = low[i];
        v[i + 4] = high[i];
    }
}

/* Eight filters, apart as said, to `to`: element e at e * step. `count` of them are stored. */
INLINE void filters(const float *w, int64_t apart, bool rotated, float *to, int64_t step, int64_t count) {
    eight g[TAPS], half[4 * 3];
    UNROLL
    for (int i = 0; i < E; i++) g[i] = load8(w + i * apart);
    turn8(g);
    g[8] = (eight){w[8],
                   w[apart + 8],
                   w[2 * apart + 8],
                   w[3 * apart + 8],
                   w[4 * apart + 8],
                   w[5 * apart + 8],
                   w[6 * apart + 8],
                   w[7 * apart + 8]};
    if (rotated) UNROLL
    for (int i = 0; i < 4; i++) {
        eight v = g[i];
        g[i] = g[8 - i];
        g[8 - i] = v;
    }
    UNROLL
    for (int r = 0; r < 3; r++) small_g(g + 3 * r, half + r, 3);
    UNROLL
    for (int c = 0; c < 4; c++) {
        eight d[4];
        small_g(half + 3 * c, d, 1);
        UNROLL
        for (int r = 0; r < 4; r++) {
            if (count == E)
                store8(to + (r * 4 + c) * step, d[r]);
            else
                memcpy(to + (r * 4 + c) * step, &d[r], (size_t)count * sizeof *to);
        }
    }
}

void TPI_ISA(tpi_winograd_filters)(int64_t rows, int64_t columns, const float *w, int64_t row_step, int64_t column_step,
                                   bool rotated, float *to, int64_t step) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += E) {
            const float *from = w + i * row_step + j * column_step;
            float *out = to + i * columns + j;
            if (columns - j >= E) { /* constants make two loops without choices */
                UNROLL
                for (int k = 0; k < E; k++) __builtin_prefetch(from + (rotated ? 2 : 1) * row_step + k * column_step);
                if (rotated)
                    filters(from, column_step, true, out, step, E);
                else
                    filters(from, column_step, false, out, step, E);
                continue;
            }
            float scratch[E * TAPS] = {0};
            for (int64_t k = 0; k < columns - j; k++)
                memcpy(scratch + k * TAPS, from + k * column_step, TAPS * sizeof *scratch);
            filters(scratch, TAPS, rotated, out, step, columns - j);
        }
}

/* Elements of eight filters from `u` on; `count` of them are there. add: to what is in w. */
INLINE void filter_grads(const float *u, int64_t step, int64_t count, bool add, float *w) {
    eight half[3 * 6], g[TAPS];
    UNROLL
    for (int c = 0; c < 6; c++) {
        eight d[6];
        UNROLL
        for (int r = 0; r < 6; r++) {
            if (count == E)
                d[r] = load8(u + (r * 6 + c) * step);
            else {
                d[r] = (eight){0};
                memcpy(&d[r], u + (r * 6 + c) * step, (size_t)count * sizeof *u);
            }
        }
        times_g_back(d, 1, half + c, 6);
    }
    UNROLL
    for (int r = 0; r < 3; r++) times_g_back(half + 6 * r, 1, g + 3 * r, 1);
    turn8(g);
    float last[E];
    store8(last, g[8]);
    for (int64_t i = 0; i < count; i++, w += TAPS) {
        store8(w, add ? load8(w) + g[i] : g[i]);
        w[8] = add ? w[8] + last[i] : last[i];
    }
}

void TPI_ISA(tpi_winograd_filter_grads)(int64_t columns, const float *u, int64_t step, bool add, float *w) {
    int64_t whole = columns / E * E;
    for (int64_t j = 0; j < whole; j += E) filter_grads(u + j, step, E, add, w + j * TAPS);
    if (whole < columns) filter_grads(u + whole, step, columns - whole, add, w + whole * TAPS);
}

/* The kernels of direct convolutions: see ops/conv/direct.h. A tile of results stays in registers while the patch runs;
 * an element is the sum over its patch in order, wherever it stands. */
#include "ops/conv/direct.h"
#include "linalg/float_vectors.h"

int64_t TPI_ISA(tpi_direct_height)(void) { return HEIGHT; }

/* ---- Copies ---- */

INLINE void copy_row(int64_t n, const float *from, float *to) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, load(from + i));
#if defined(__AVX512F__)
    __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
    _mm512_mask_storeu_ps(to + i, rest, _mm512_maskz_loadu_ps(rest, from + i));
#else
    if (i < n && n >= LANES) {
        store(to + n - LANES, load(from + n - LANES));
        return;
    }
    for (; i < n; i++) to[i] = from[i];
#endif
}

typedef int32_t lanes __attribute__((vector_size(VECTOR_BYTES)));
#ifdef __clang__
#define PICK(a, b, i) pick_lanes(a, b, i)
INLINE vector pick_lanes(vector a, vector b, lanes i) {
    vector out;
    for (int l = 0; l < LANES; l++) out[l] = i[l] < LANES ? a[i[l]] : b[i[l] - LANES];
    return out;
}
#else
#define PICK(a, b, i) __builtin_shuffle(a, b, i)
#endif

/* to[i] = from[i * step]. It may write zeros up to a vector past the end. */
INLINE void load_row(int64_t n, const float *from, int64_t step, float *to) {
    int64_t i = 0;
    if (step == 2) {
        lanes even;
        for (int l = 0; l < LANES; l++) even[l] = 2 * l;
        for (; i + LANES < n; i += LANES) store(to + i, PICK(load(from + 2 * i), load(from + 2 * i + LANES), even));
#if defined(__AVX512F__)
        uint32_t rest = i < n ? 0xffffffffu >> (33 - 2 * (n - i)) : 0;
        vector a = (vector)_mm512_maskz_loadu_ps((__mmask16)rest, from + 2 * i),
               b = (vector)_mm512_maskz_loadu_ps((__mmask16)(rest >> LANES), from + 2 * i + LANES);
        store(to + i, PICK(a, b, even));
        return;
#endif
    }
    for (; i < n; i++) to[i] = from[i * step];
}

/* Rows without anything between them, to rows of a copy, and back. `n` elements in all, or that the copy spans. */
#if defined(__AVX512F__)
static void spread_rows(const uint16_t *valid, int64_t n, const float *from, float *to) {
    for (; n > 0; valid++, to += LANES) {
        int count = __builtin_popcount(*valid);
        __mmask16 there = (__mmask16)(n < LANES ? (1u << n) - 1 : 0xffffu);
        _mm512_storeu_ps(to, _mm512_maskz_expand_ps(*valid, _mm512_maskz_loadu_ps(there, from)));
        from += count;
        n -= count;
    }
}
static void gather_rows(const uint16_t *valid, int64_t n, const float *from, float *to) {
    for (; n > 0; valid++, from += LANES) {
        int count = __builtin_popcount(*valid);
        __m512 v = _mm512_maskz_compress_ps(*valid, _mm512_loadu_ps(from));
        __mmask16 there = (__mmask16)(n < count ? (1u << n) - 1 : (1u << count) - 1);
        _mm512_mask_storeu_ps(to, there, v);
        to += count;
        n -= count;
    }
}
#endif

/* The indices of part r, in dim `dim`, whose element is inside of the image. */
static void inside(const tpi_direct_copy *c, int dim, int64_t r, int64_t *lo, int64_t *hi) {
    int64_t first = r + c->origin[dim], step = c->step[dim], size = c->size[dim];
    *lo = first >= 0 ? 0 : (-first + step - 1) / step;
    *hi = first >= size ? 0 : (size - first + step - 1) / step;
    if (*hi > c->count[dim]) *hi = c->count[dim];
    if (*lo > *hi) *lo = *hi;
}

static void copy_plane(const tpi_direct_copy *c, int64_t r1, int64_t r2, const float *plane, float *to) {
    int64_t lo, hi, top, bottom;
    inside(c, 2, r2, &lo, &hi);
    inside(c, 1, r1, &top, &bottom);
#if defined(__AVX512F__)
    if (c->lanes && hi - lo == c->size[2]) {
        int64_t row = c->extent[2];
        memset(to, 0, (size_t)(top * row + lo) * sizeof *to);
        spread_rows(c->lanes, (bottom - top) * c->size[2], plane + (top + c->origin[1]) * c->size[2],
                    to + top * row + lo);
        int64_t end = top < bottom ? (bottom - 1) * row + hi : top * row + lo;
        memset(to + end, 0, (size_t)(c->extent[1] * row - end) * sizeof *to);
        return;
    }
#endif
    for (int64_t h = 0; h < c->extent[1]; h++, to += c->extent[2]) {
        if (h < top || h >= bottom || lo == hi) {
            memset(to, 0, (size_t)c->extent[2] * sizeof *to);
            continue;
        }
        const float *from = plane + (h * c->step[1] + r1 + c->origin[1]) * c->size[2];
        from += lo * c->step[2] + r2 + c->origin[2];
        for (int64_t w = 0; w < lo; w++) to[w] = 0;
        if (c->step[2] == 1)
            copy_row(hi - lo, from, to + lo);
        else
            load_row(hi - lo, from, c->step[2], to + lo);
        for (int64_t w = hi; w < c->extent[2]; w++) to[w] = 0;
    }
}

void TPI_ISA(tpi_direct_copy_in)(const tpi_direct_copy *c, const float *image, float *to) {
    int64_t part_plane = c->extent[1] * c->extent[2], plane = c->size[1] * c->size[2], lo, hi;
    for (int64_t r0 = 0; r0 < c->parts[0]; r0++) {
        inside(c, 0, r0, &lo, &hi);
        for (int64_t r1 = 0; r1 < c->parts[1]; r1++)
            for (int64_t r2 = 0; r2 < c->parts[2]; r2++)
                for (int64_t d = 0; d < c->extent[0]; d++, to += part_plane) {
                    if (d < lo || d >= hi)
                        memset(to, 0, (size_t)part_plane * sizeof *to);
                    else
                        copy_plane(c, r1, r2, image + (d * c->step[0] + r0 + c->origin[0]) * plane, to);
                }
    }
    for (int64_t i = 0; i < c->tail; i++) to[i] = 0;
}

/* Writes a row of n elements from `step` parts. */
INLINE void join_row(int64_t n, const float *from, int64_t apart, int64_t step, float *to) {
    int64_t i = 0;
    if (step == 2) {
        lanes low, high;
        for (int l = 0; l < LANES; l++) {
            low[l] = l / 2 + l % 2 * LANES;
            high[l] = low[l] + LANES / 2;
        }
        for (; i + 2 * LANES <= n; i += 2 * LANES) {
            vector a = load(from + i / 2), b = load(from + apart + i / 2);
            store(to + i, PICK(a, b, low));
            store(to + i + LANES, PICK(a, b, high));
        }
#if defined(__AVX512F__)
        uint32_t rest = (1u << (n - i)) - 1;
        vector a = load(from + i / 2), b = load(from + apart + i / 2);
        _mm512_mask_storeu_ps(to + i, (__mmask16)rest, (__m512)PICK(a, b, low));
        _mm512_mask_storeu_ps(to + i + LANES, (__mmask16)(rest >> LANES), (__m512)PICK(a, b, high));
        return;
#endif
    }
    for (int64_t r = 0; r < step; r++) {
        const float *part = from + r * apart + i / step;
        for (int64_t at = i + r; at < n; at += step) to[at] = *part++;
    }
}

void TPI_ISA(tpi_direct_copy_out)(const tpi_direct_copy *c, const int64_t part[2], const float *from, int64_t apart,
                                  float *image) {
    int64_t lo[2], hi[2];
    for (int i = 0; i < 2; i++) inside(c, i, part[i], &lo[i], &hi[i]);
    int64_t width = c->size[2] - c->origin[2], most = c->count[2] * c->step[2];
    if (width > most) width = most;
#if defined(__AVX512F__)
    if (c->lanes && width == c->size[2]) {
        for (int64_t d = lo[0]; d < hi[0]; d++) {
            float *to = image + ((d + c->origin[0]) * c->size[1] + c->origin[1]) * width;
            gather_rows(c->lanes, (hi[1] - lo[1]) * width, from + d * c->extent[1] * c->extent[2], to);
        }
        return;
    }
#endif
    for (int64_t d = lo[0]; d < hi[0]; d++)
        for (int64_t h = lo[1]; h < hi[1]; h++) {
            const float *row = from + (d * c->extent[1] + h) * c->extent[2];
            int64_t z = d * c->step[0] + part[0] + c->origin[0], y = h * c->step[1] + part[1] + c->origin[1];
            float *to = image + (z * c->size[1] + y) * c->size[2] + c->origin[2];
            if (c->step[2] == 1)
                copy_row(width, row, to);
            else
                join_row(width, row, apart, c->step[2], to);
        }
}

/* ---- Results ---- */

enum { MOST_SIDE_BY_SIDE = 8 };

/* A few rows of `side` vectors of results: adds elements [from, to) of the patch, the first ones to the bias. */
INLINE void tile(int rows, int side, const tpi_direct_strip *s, int64_t from, int64_t to, const float *in, float *out) {
    vector sum[HEIGHT][MOST_SIDE_BY_SIDE];
    const float *f = s->filters + from * rows;
    UNROLL
    for (int i = 0; i < rows; i++) {
        float start = s->bias ? s->bias[i] : 0;
        UNROLL
        for (int j = 0; j < side; j++) sum[i][j] = from ? load(out + i * s->out_row + j * LANES) : broadcast(start);
    }
    for (int64_t p = from; p < to; p++, f += rows) {
        vector v[MOST_SIDE_BY_SIDE];
        UNROLL
        for (int j = 0; j < side; j++) v[j] = load(in + s->offsets[p] + j * LANES);
        UNROLL
        for (int i = 0; i < rows; i++) {
            vector by = broadcast(f[i]);
            UNROLL
            for (int j = 0; j < side; j++) sum[i][j] = multiply_add(by, v[j], sum[i][j]);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) UNROLL
    for (int j = 0; j < side; j++) store(out + i * s->out_row + j * LANES, sum[i][j]);
}

/* One run. Few rows take more vectors side by side: sums must be many enough to hide how long an addition takes. */
INLINE void run_of(int rows, int side, const tpi_direct_strip *s, int64_t from, int64_t to, const float *in,
                   float *out) {
    int64_t i = 0, length = s->runs.length;
    if (side > 4)
        for (; i + 4 * LANES < length; i += side * LANES) tile(rows, side, s, from, to, in + i, out + i);
    if (side > 2)
        for (; i + 2 * LANES < length; i += 4 * LANES) tile(rows, 4, s, from, to, in + i, out + i);
    for (; i < length; i += PANEL) tile(rows, 2, s, from, to, in + i, out + i);
}

#define ROWS(N, SIDE) \
    case N: run_of(N, SIDE, s, from, to, in, out); break;
static void run_block(const tpi_direct_strip *s, int64_t from, int64_t to, const float *in, float *out) {
    switch (s->rows) {
        ROWS(1, 8)
        ROWS(2, 4)
#if defined(__AVX512F__)
        ROWS(3, 4)
        ROWS(4, 4)
        ROWS(5, 2)
        ROWS(6, 2)
        ROWS(7, 2)
        ROWS(8, 2)
        ROWS(9, 2)
        ROWS(10, 2)
        ROWS(11, 2)
        ROWS(12, 2)
#else
        ROWS(3, 2)
        ROWS(4, 2)
        ROWS(5, 2)
        ROWS(6, 2)
#endif
    }
}

/* A run is finished before the next one begins, over whose start it may have written. */
void TPI_ISA(tpi_direct_strip_run)(const tpi_direct_strip *s, const float *in, float *out) {
    for (int64_t i = 0; i < s->runs.count[0]; i++)
        for (int64_t j = 0; j < s->runs.count[1]; j++) {
            int64_t at = i * s->runs.pitch[0] + j * s->runs.pitch[1], from = 0;
            do {
                int64_t to = from + s->block < s->patch ? from + s->block : s->patch;
                run_block(s, from, to, in + at, out + at);
                from = to;
            } while (from < s->patch);
        }
}

/* ---- The filters' gradient ---- */

#if defined(__AVX512F__)
enum { DOWN = 4, ACROSS = 6 }; /* filters by elements of the patch, one vector of sums each */
#else
enum { DOWN = 3, ACROSS = 4 };
#endif
enum { ALONG = 9 }; /* elements of the patch beside a single filter */

static float sum_of(vector v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#elif defined(__AVX2__)
    __m128 four = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
    float lane[LANES];
    store(lane, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
#endif
}

/* `down` filters by `across` elements from p on. */
INLINE void filter_tile(int down, int across, const tpi_direct_grads *g, int64_t p, const float *in, const float *out,
                        float *grads) {
    vector sum[DOWN][ALONG];
    UNROLL
    for (int i = 0; i < down; i++) UNROLL
    for (int j = 0; j < across; j++) sum[i][j] = (vector){0};
    const tpi_direct_runs *r = &g->runs;
    for (int64_t image = 0; image < g->images; image++)
        for (int64_t d = 0; d < r->count[0]; d++)
            for (int64_t h = 0; h < r->count[1]; h++) {
                int64_t start = d * r->pitch[0] + h * r->pitch[1];
                const float *from = in + image * g->in_image + start, *grad = out + image * g->out_image + start;
                for (int64_t w = 0; w < r->length; w += LANES) {
                    vector y[DOWN];
                    UNROLL
                    for (int i = 0; i < down; i++) y[i] = load(grad + i * g->out_row + w);
                    UNROLL
                    for (int j = 0; j < across; j++) {
                        vector v = load(from + g->offsets[p + j] + w);
                        UNROLL
                        for (int i = 0; i < down; i++) sum[i][j] = multiply_add(y[i], v, sum[i][j]);
                    }
                }
            }
    UNROLL
    for (int i = 0; i < down; i++) UNROLL
    for (int j = 0; j < across; j++) grads[i * g->patch + p + j] += sum_of(sum[i][j]);
}

INLINE void filter_row(int down, int across, const tpi_direct_grads *g, const float *in, const float *out,
                       float *grads) {
    int64_t p = 0;
    for (; p + across <= g->patch; p += across) filter_tile(down, across, g, p, in, out, grads);
    for (; p + 3 <= g->patch; p += 3) filter_tile(down, 3, g, p, in, out, grads);
    for (; p < g->patch; p++) filter_tile(down, 1, g, p, in, out, grads);
}

static void filter_rows(int64_t down, const tpi_direct_grads *g, const float *in, const float *out, float *grads) {
    if (down == 1) {
        filter_row(1, ALONG, g, in, out, grads);
        return;
    }
    if (down == 2) {
        filter_row(2, ACROSS, g, in, out, grads);
        return;
    }
    filter_row(DOWN, ACROSS, g, in, out, grads);
}

void TPI_ISA(tpi_direct_grads_run)(const tpi_direct_grads *g, const float *in, const float *out, float *grads) {
    for (int64_t row = 0, down; row < g->rows; row += down) {
        down = g->rows - row;
        down = down >= DOWN ? DOWN : down >= 2 ? 2 : 1;
        filter_rows(down, g, in, out + row * g->out_row, grads + row * g->patch);
    }
}

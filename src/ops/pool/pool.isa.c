/* Pooling over one plane, for each element type. */
#ifndef REAL
#include <math.h>
#include "base/wrap.h"
#include "base/min_max.h"
#include "ops/pool/pool.h"

static inline bool in_quarters(const tpi_conv *c) {
    return c->x[0] == 1 && c->k[0] == 1 && c->k[1] == 2 && c->k[2] == 2 && c->stride[1] == 2 && c->stride[2] == 2 &&
           !c->pad[0] && !c->pad[1] && !c->pad[2] && c->dilation[1] == 1 && c->dilation[2] == 1 &&
           2 * c->y[1] <= c->x[1] && 2 * c->y[2] <= c->x[2];
}

/* Windows of two elements of a row that do not overlap? */
static inline bool in_pairs(const tpi_conv *c) {
    for (int i = 0; i < 2; i++)
        if (c->k[i] != 1 || c->stride[i] != 1 || c->pad[i]) return false;
    return c->k[2] == 2 && c->stride[2] == 2 && !c->pad[2] && c->dilation[2] == 1 && 2 * c->y[2] <= c->x[2];
}

enum { PIECE = 512 };

/* What the sums of a row's windows are divided by: the count of depth and height, and of column w. */
static inline int64_t divisor_of(const tpi_pool_spans *s, int64_t over, int64_t rows, int64_t w) {
    const int64_t count = over ? over : tpi_size_times(rows, s->count[2][w]);
    return count == 0 ? 1 : count;
}

#define REAL      float
#define INDEX     uint32_t /* a window spans fewer elements than that */
#define LOWEST    (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#define K(name)   name##_f32
#include "ops/pool/pool.isa.c"
#undef REAL
#undef INDEX
#undef K
#define REAL    double
#define INDEX   int64_t
#define K(name) name##_f64
#include "ops/pool/pool.isa.c"
#undef REAL
#undef K
#undef LOWEST
#undef IS_NAN
#define REAL      int64_t
#define LOWEST    INT64_MIN
#define IS_NAN(v) false
#define K(name)   name##_i64
#include "ops/pool/pool.isa.c"
#else /* the bodies, once per element type: PLACE is an integer for places in a plane */

/* One tap over n windows `step` apart: x is the first window's element, `at` its place. A constant step lets the loop
 * vectorise. */
static inline __attribute__((always_inline)) void K(max_tap)(int64_t n, int64_t step, const REAL *x, INDEX at,
                                                             REAL *restrict best, INDEX *restrict max_index) {
#pragma omp simd
    for (int64_t w = 0; w < n; w++) {
        REAL v = x[w * step];
        bool larger = v > best[w] || IS_NAN(v);
        best[w] = larger ? v : best[w];
        max_index[w] = larger ? at + (INDEX)(w * step) : max_index[w];
    }
}

/* The columns of a row of x, which is at `at` from the place that counts as 0, tap by tap for outputs from .. end - 1.
 */
static inline void K(max_taps)(const tpi_pool_spans *s, int64_t from, int64_t end, const REAL *x, int64_t at,
                               REAL *restrict best, INDEX *restrict max_index) {
    for (int64_t t = 0; t < s->taps; t++) {
        const int64_t lo = tpi_max64(s->lo[t], from), n = tpi_min64(s->hi[t], end) - lo;
        const int64_t column = s->first[t] + lo * s->stride;
        if (n <= 0) continue;
        if (s->stride == 1)
            K(max_tap)(n, 1, x + column, (INDEX)(at + column), best + lo - from, max_index + lo - from);
        else if (s->stride == 2)
            K(max_tap)(n, 2, x + column, (INDEX)(at + column), best + lo - from, max_index + lo - from);
        else
            K(max_tap)(n, s->stride, x + column, (INDEX)(at + column), best + lo - from, max_index + lo - from);
    }
}

/* The same where windows differ in size. */
static inline void K(max_columns)(const tpi_pool_spans *s, int64_t from, int64_t end, const REAL *x, int64_t at,
                                  REAL *restrict best, INDEX *restrict max_index) {
    for (int64_t w = from; w < end; w++) {
        REAL most = best[w - from];
        INDEX where = max_index[w - from];
        for (int64_t i = s->from[2][w]; i < s->to[2][w]; i++) {
            const bool larger = x[i] > most || IS_NAN(x[i]);
            most = larger ? x[i] : most;
            where = larger ? (INDEX)(at + i) : where;
        }
        best[w - from] = most;
        max_index[w - from] = where;
    }
}

/* Windows from .. end - 1, at most PIECE, of output row (od, oh). Places count from the start of the row's first row of
 * x, as integers of the elements' size. */
static void K(max_piece)(const tpi_conv *c, const tpi_pool_spans *s, int64_t od, int64_t oh, int64_t from, int64_t end,
                         const REAL *x, REAL *y, int64_t *index) {
    const int64_t start = (s->from[0][od] * c->x[1] + s->from[1][oh]) * c->x[2];
    REAL best[PIECE];
    INDEX max_index[PIECE];
    for (int64_t w = from; w < end; w++) {
        best[w - from] = LOWEST;
        max_index[w - from] = (INDEX)s->from[2][w];
    }
    for (int64_t d = s->from[0][od]; d < s->to[0][od]; d += s->step[0])
        for (int64_t h = s->from[1][oh]; h < s->to[1][oh]; h += s->step[1]) {
            const int64_t at = (d * c->x[1] + h) * c->x[2];
            if (s->taps)
                K(max_taps)(s, from, end, x + at, at - start, best, max_index);
            else
                K(max_columns)(s, from, end, x + at, at - start, best, max_index);
        }
    for (int64_t w = 0; w < end - from; w++) {
        y[w] = best[w];
        index[w] = start + (int64_t)max_index[w];
    }
}

#define LARGER(v, at)                          \
    do {                                       \
        bool larger = (v) > best || IS_NAN(v); \
        best = larger ? (v) : best;            \
        max_index = larger ? (at) : max_index; \
    } while (0)
/* Windows of two by two that do not overlap: what most networks have. Columns are counted by small integers. */
static void K(max_quarters)(const tpi_conv *c, const REAL *x, REAL *restrict y, int64_t *restrict index) {
    int64_t wide = c->x[2], n = c->y[2];
    for (int64_t r = 0; r < c->y[1]; r++, y += n, index += n) {
        const REAL *upper = x + 2 * r * wide, *lower = upper + wide;
        INDEX next = (INDEX)wide;
#pragma omp simd
        for (int64_t w = 0; w < n; w++) {
            INDEX at = (INDEX)(2 * w), max_index = at;
            REAL best = LOWEST, a = upper[2 * w], b = upper[2 * w + 1], d = lower[2 * w], e = lower[2 * w + 1];
            LARGER(a, at);
            LARGER(b, at + 1);
            LARGER(d, at + next);
            LARGER(e, at + next + 1);
            y[w] = best;
            index[w] = 2 * r * wide + (int64_t)max_index;
        }
    }
}
/* The same for windows of two elements of a row. */
static void K(max_pairs)(const tpi_conv *c, const REAL *x, REAL *restrict y, int64_t *restrict index) {
    const int64_t wide = c->x[2], n = c->y[2];
    for (int64_t r = 0; r < c->y[0] * c->y[1]; r++, x += wide, y += n, index += n) {
#pragma omp simd
        for (int64_t w = 0; w < n; w++) {
            INDEX at = (INDEX)(2 * w), max_index = at;
            REAL best = LOWEST, a = x[2 * w], b = x[2 * w + 1];
            LARGER(a, at);
            LARGER(b, at + 1);
            y[w] = best;
            index[w] = r * wide + (int64_t)max_index;
        }
    }
}
#undef LARGER

void TPI_ISA(K(tpi_max_plane))(const tpi_conv *c, const tpi_pool_spans *s, const REAL *x, REAL *y, int64_t *index) {
    if (s->taps && in_pairs(c)) {
        K(max_pairs)(c, x, y, index);
        return;
    }
    if (s->taps && in_quarters(c)) {
        K(max_quarters)(c, x, y, index);
        return;
    }
    for (int64_t od = 0; od < c->y[0]; od++)
        for (int64_t oh = 0; oh < c->y[1]; oh++, y += c->y[2], index += c->y[2])
            for (int64_t w = 0; w < c->y[2]; w += PIECE)
                K(max_piece)(c, s, od, oh, w, tpi_min64(w + PIECE, c->y[2]), x, y + w, index + w);
}

/* ---- Averages ---- */

/* One tap over n windows `step` apart; a constant step lets the loop vectorise. */
static inline __attribute__((always_inline)) void K(add_tap)(int64_t n, int64_t step, const REAL *restrict x,
                                                             REAL *restrict sum) {
#pragma omp simd
    for (int64_t w = 0; w < n; w++) sum[w] = TPI_WRAPPING_SUM(sum[w], x[w * step]);
}
static inline __attribute__((always_inline)) void K(spread_tap)(int64_t n, int64_t step, const REAL *restrict share,
                                                                REAL *restrict x) {
#pragma omp simd
    for (int64_t w = 0; w < n; w++) x[w * step] = TPI_WRAPPING_SUM(x[w * step], share[w]);
}

/* The rows of x under output row (od, oh), added up: one that is there already, or `row`. */
static const REAL *K(sum_of_rows)(const tpi_conv *c, const tpi_pool_spans *s, int64_t od, int64_t oh, const REAL *x,
                                  REAL *restrict row) {
    const int64_t n = c->x[2], d0 = s->from[0][od], d1 = s->to[0][od], h0 = s->from[1][oh], h1 = s->to[1][oh];
    const int64_t rows = d0 < d1 && h0 < h1 ? (d1 - d0) * (h1 - h0) : 0;
    const REAL *first = x + (d0 * c->x[1] + h0) * n;
    if (rows == 1) return first;
    if (rows == 0) {
        memset(row, 0, (size_t)n * sizeof *row);
        return row;
    }
    const REAL *second = h1 - h0 > 1 ? first + n : first + c->x[1] * n;
    for (int64_t w = 0; w < n; w++) row[w] = TPI_WRAPPING_SUM(first[w], second[w]);
    int64_t seen = 0;
    for (int64_t d = d0; d < d1 && rows > 2; d++)
        for (int64_t h = h0; h < h1; h++, seen++)
            if (seen > 1) K(add_tap)(n, 1, x + (d * c->x[1] + h) * n, row);
    return row;
}

void TPI_ISA(K(tpi_avg_plane))(const tpi_conv *c, const tpi_pool_spans *s, int64_t divisor, const REAL *x, REAL *y,
                               REAL *row) {
    const int64_t n = c->y[2];
    for (int64_t od = 0; od < c->y[0]; od++)
        for (int64_t oh = 0; oh < c->y[1]; oh++, y += n) {
            const REAL *from = K(sum_of_rows)(c, s, od, oh, x, row);
            const int64_t rows = tpi_size_times(s->count[0][od], s->count[1][oh]);
            for (int64_t w = 0; s->taps && w < n; w++) y[w] = 0;
            for (int64_t t = 0; t < s->taps; t++) {
                const REAL *first = from + s->first[t] + s->lo[t] * s->stride;
                const int64_t outputs = s->hi[t] - s->lo[t];
                if (s->stride == 1)
                    K(add_tap)(outputs, 1, first, y + s->lo[t]);
                else if (s->stride == 2)
                    K(add_tap)(outputs, 2, first, y + s->lo[t]);
                else
                    K(add_tap)(outputs, s->stride, first, y + s->lo[t]);
            }
            for (int64_t w = 0; !s->taps && w < n; w++) {
                REAL sum = 0;
                for (int64_t i = s->from[2][w]; i < s->to[2][w]; i++) sum = TPI_WRAPPING_SUM(sum, from[i]);
                y[w] = sum;
            }
            for (int64_t w = 0; w < n; w++) y[w] /= (REAL)divisor_of(s, divisor, rows, w);
        }
}

/* What the windows of output row y give to the columns of a row of x. */
static void K(spread_columns)(const tpi_conv *c, const tpi_pool_spans *s, int64_t over, int64_t rows, const REAL *y,
                              REAL *restrict row) {
    REAL share[PIECE];
    for (int64_t from = 0; from < c->y[2]; from += PIECE) {
        const int64_t end = tpi_min64(from + PIECE, c->y[2]);
        for (int64_t w = from; w < end; w++) share[w - from] = y[w] / (REAL)divisor_of(s, over, rows, w);
        for (int64_t t = 0; t < s->taps; t++) {
            const int64_t lo = tpi_max64(s->lo[t], from), n = tpi_min64(s->hi[t], end) - lo;
            REAL *first = row + s->first[t] + lo * s->stride;
            if (s->stride == 1)
                K(spread_tap)(n, 1, share + lo - from, first);
            else if (s->stride == 2)
                K(spread_tap)(n, 2, share + lo - from, first);
            else
                K(spread_tap)(n, s->stride, share + lo - from, first);
        }
        for (int64_t w = from; !s->taps && w < end; w++)
            for (int64_t i = s->from[2][w]; i < s->to[2][w]; i++) row[i] = TPI_WRAPPING_SUM(row[i], share[w - from]);
    }
}

void TPI_ISA(K(tpi_avg_plane_back))(const tpi_conv *c, const tpi_pool_spans *s, int64_t divisor, const REAL *y, REAL *x,
                                    REAL *row) {
    for (int64_t od = 0; od < c->y[0]; od++)
        for (int64_t oh = 0; oh < c->y[1]; oh++, y += c->y[2]) {
            const int64_t rows = tpi_size_times(s->count[0][od], s->count[1][oh]);
            memset(row, 0, (size_t)c->x[2] * sizeof *row);
            K(spread_columns)(c, s, divisor, rows, y, row);
            for (int64_t d = s->from[0][od]; d < s->to[0][od]; d++)
                for (int64_t h = s->from[1][oh]; h < s->to[1][oh]; h++)
                    K(add_tap)(c->x[2], 1, row, x + (d * c->x[1] + h) * c->x[2]);
        }
}
#endif

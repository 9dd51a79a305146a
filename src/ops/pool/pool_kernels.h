/* The bodies of pool.isa.c, included once per element type with REAL, PLACE (an integer for places in a plane), LOWEST,
 * IS_NAN(v) and K(name) defined. */

/* One tap over n windows `step` apart: x is the first window's element, `at` its place. A constant step lets the loop
 * vectorise. */
static inline __attribute__((always_inline)) void K(max_tap)(int64_t n, int64_t step, const REAL *x, PLACE at,
                                                             REAL *restrict best, PLACE *restrict place) {
#pragma omp simd
    for (int64_t w = 0; w < n; w++) {
        REAL v = x[w * step];
        bool take = v > best[w] || IS_NAN(v);
        best[w] = take ? v : best[w];
        place[w] = take ? at + (PLACE)(w * step) : place[w];
    }
}

/* The columns of a row of x, which is at `at` from the place that counts as 0, tap by tap for outputs from .. end - 1.
 */
static inline void K(max_taps)(const tpi_pool_spans *s, int64_t from, int64_t end, const REAL *x, int64_t at,
                               REAL *restrict best, PLACE *restrict place) {
    for (int64_t t = 0; t < s->taps; t++) {
        const int64_t lo = tpi_max64(s->lo[t], from), n = tpi_min64(s->hi[t], end) - lo;
        const int64_t column = s->first[t] + lo * s->stride;
        if (n <= 0) continue;
        if (s->stride == 1)
            K(max_tap)(n, 1, x + column, (PLACE)(at + column), best + lo - from, place + lo - from);
        else if (s->stride == 2)
            K(max_tap)(n, 2, x + column, (PLACE)(at + column), best + lo - from, place + lo - from);
        else
            K(max_tap)(n, s->stride, x + column, (PLACE)(at + column), best + lo - from, place + lo - from);
    }
}

/* The same where windows differ in size. */
static inline void K(max_columns)(const tpi_pool_spans *s, int64_t from, int64_t end, const REAL *x, int64_t at,
                                  REAL *restrict best, PLACE *restrict place) {
    for (int64_t w = from; w < end; w++) {
        REAL most = best[w - from];
        PLACE where = place[w - from];
        for (int64_t i = s->from[2][w]; i < s->to[2][w]; i++) {
            const bool take = x[i] > most || IS_NAN(x[i]);
            most = take ? x[i] : most;
            where = take ? (PLACE)(at + i) : where;
        }
        best[w - from] = most;
        place[w - from] = where;
    }
}

/* Windows from .. end - 1, at most PIECE, of output row (od, oh). Places count from the start of the row's first row of
 * x, as integers of the elements' size. */
static void K(max_piece)(const tpi_conv *c, const tpi_pool_spans *s, int64_t od, int64_t oh, int64_t from, int64_t end,
                         const REAL *x, REAL *y, int64_t *index) {
    const int64_t start = (s->from[0][od] * c->x[1] + s->from[1][oh]) * c->x[2];
    REAL best[PIECE];
    PLACE place[PIECE];
    for (int64_t w = from; w < end; w++) {
        best[w - from] = LOWEST;
        place[w - from] = (PLACE)s->from[2][w];
    }
    for (int64_t d = s->from[0][od]; d < s->to[0][od]; d += s->step[0])
        for (int64_t h = s->from[1][oh]; h < s->to[1][oh]; h += s->step[1]) {
            const int64_t at = (d * c->x[1] + h) * c->x[2];
            if (s->taps)
                K(max_taps)(s, from, end, x + at, at - start, best, place);
            else
                K(max_columns)(s, from, end, x + at, at - start, best, place);
        }
    for (int64_t w = 0; w < end - from; w++) {
        y[w] = best[w];
        index[w] = start + (int64_t)place[w];
    }
}

#define LARGER(v, at)                        \
    do {                                     \
        bool take = (v) > best || IS_NAN(v); \
        best = take ? (v) : best;            \
        place = take ? (at) : place;         \
    } while (0)
/* Windows of two by two that do not overlap: what most networks have. Columns are counted by small integers. */
static void K(max_quarters)(const tpi_conv *c, const REAL *x, REAL *restrict y, int64_t *restrict index) {
    int64_t wide = c->x[2], n = c->y[2];
    for (int64_t r = 0; r < c->y[1]; r++, y += n, index += n) {
        const REAL *upper = x + 2 * r * wide, *lower = upper + wide;
        PLACE next = (PLACE)wide;
#pragma omp simd
        for (int64_t w = 0; w < n; w++) {
            PLACE at = (PLACE)(2 * w), place = at;
            REAL best = LOWEST, a = upper[2 * w], b = upper[2 * w + 1], d = lower[2 * w], e = lower[2 * w + 1];
            LARGER(a, at);
            LARGER(b, at + 1);
            LARGER(d, at + next);
            LARGER(e, at + next + 1);
            y[w] = best, index[w] = 2 * r * wide + (int64_t)place;
        }
    }
}
/* The same for windows of two elements of a row. */
static void K(max_pairs)(const tpi_conv *c, const REAL *x, REAL *restrict y, int64_t *restrict index) {
    const int64_t wide = c->x[2], n = c->y[2];
    for (int64_t r = 0; r < c->y[0] * c->y[1]; r++, x += wide, y += n, index += n) {
#pragma omp simd
        for (int64_t w = 0; w < n; w++) {
            PLACE at = (PLACE)(2 * w), place = at;
            REAL best = LOWEST, a = x[2 * w], b = x[2 * w + 1];
            LARGER(a, at);
            LARGER(b, at + 1);
            y[w] = best, index[w] = r * wide + (int64_t)place;
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
static inline __attribute__((always_inline)) void K(give_tap)(int64_t n, int64_t step, const REAL *restrict share,
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
static void K(give_columns)(const tpi_conv *c, const tpi_pool_spans *s, int64_t over, int64_t rows, const REAL *y,
                            REAL *restrict row) {
    REAL share[PIECE];
    for (int64_t from = 0; from < c->y[2]; from += PIECE) {
        const int64_t end = tpi_min64(from + PIECE, c->y[2]);
        for (int64_t w = from; w < end; w++) share[w - from] = y[w] / (REAL)divisor_of(s, over, rows, w);
        for (int64_t t = 0; t < s->taps; t++) {
            const int64_t lo = tpi_max64(s->lo[t], from), n = tpi_min64(s->hi[t], end) - lo;
            REAL *first = row + s->first[t] + lo * s->stride;
            if (s->stride == 1)
                K(give_tap)(n, 1, share + lo - from, first);
            else if (s->stride == 2)
                K(give_tap)(n, 2, share + lo - from, first);
            else
                K(give_tap)(n, s->stride, share + lo - from, first);
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
            K(give_columns)(c, s, divisor, rows, y, row);
            for (int64_t d = s->from[0][od]; d < s->to[0][od]; d++)
                for (int64_t h = s->from[1][oh]; h < s->to[1][oh]; h++)
                    K(add_tap)(c->x[2], 1, row, x + (d * c->x[1] + h) * c->x[2]);
        }
}

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

/* Windows [from, from + n) of output row r, n at most PIECE. Places count from the row's first, as integers of the
 * elements' size. */
static void K(max_piece)(const tpi_conv *c, int64_t r, int64_t from, int64_t n, const REAL *x, REAL *y,
                         int64_t *index) {
    int64_t s = c->stride[2], lo, hi, xrow, row = first_inside(c, r, 0) - first_column(c, 0);
    REAL best[PIECE];
    PLACE place[PIECE];
    for (int64_t w = 0; w < n; w++) best[w] = LOWEST, place[w] = (PLACE)first_column(c, from + w);
    FOR_EACH_TAP(c, r, from, n, xrow, lo, hi) {
        int64_t at = xrow + lo * s, place_at = at - row;
        if (s == 1)
            K(max_tap)(hi - lo, 1, x + at, (PLACE)place_at, best + lo - from, place + lo - from);
        else if (s == 2)
            K(max_tap)(hi - lo, 2, x + at, (PLACE)place_at, best + lo - from, place + lo - from);
        else
            K(max_tap)(hi - lo, s, x + at, (PLACE)place_at, best + lo - from, place + lo - from);
    }
    for (int64_t w = 0; w < n; w++) y[w] = best[w], index[w] = row + (int64_t)place[w];
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

void TPI_ISA(K(tpi_max_plane))(const tpi_conv *c, const REAL *x, REAL *y, int64_t *index) {
    if (in_pairs(c)) {
        K(max_pairs)(c, x, y, index);
        return;
    }
    if (in_quarters(c)) {
        K(max_quarters)(c, x, y, index);
        return;
    }
    for (int64_t r = 0; r < c->y[0] * c->y[1]; r++)
        for (int64_t w = 0; w < c->y[2]; w += PIECE)
            K(max_piece)(c, r, w, tpi_min64(PIECE, c->y[2] - w), x, y + r * c->y[2] + w, index + r * c->y[2] + w);
}

void TPI_ISA(K(tpi_avg_plane))(const tpi_conv *c, tpi_average how, const REAL *x, REAL *y) {
    int64_t s = c->stride[2], lo, hi, xrow;
    for (int64_t r = 0; r < c->y[0] * c->y[1]; r++) {
        REAL *sum = y + r * c->y[2];
        for (int64_t w = 0; w < c->y[2]; w++) sum[w] = 0;
        FOR_EACH_TAP(c, r, 0, c->y[2], xrow, lo, hi) {
            if (s == 1)
                for (int64_t w = lo; w < hi; w++) sum[w] = TPI_WRAPPING_SUM(sum[w], x[xrow + w]);
            else
                for (int64_t w = lo; w < hi; w++) sum[w] = TPI_WRAPPING_SUM(sum[w], x[xrow + w * s]);
        }
        for (int64_t w = 0; w < c->y[2]; w++) sum[w] /= (REAL)divisor(c, how, r, w);
    }
}

/* What each of n windows gives to its elements, one tap after the other; a constant step lets the loop vectorise. */
static inline __attribute__((always_inline)) void K(give_tap)(int64_t n, int64_t step, const REAL *restrict share,
                                                              REAL *restrict x) {
#pragma omp simd
    for (int64_t w = 0; w < n; w++) x[w * step] += share[w];
}

void TPI_ISA(K(tpi_avg_plane_back))(const tpi_conv *c, tpi_average how, const REAL *y, REAL *x) {
    int64_t s = c->stride[2], lo, hi, xrow;
    REAL share[PIECE];
    for (int64_t r = 0; r < c->y[0] * c->y[1]; r++)
        for (int64_t from = 0; from < c->y[2]; from += PIECE) {
            const int64_t n = tpi_min64(PIECE, c->y[2] - from);
            for (int64_t w = 0; w < n; w++) share[w] = y[r * c->y[2] + from + w] / (REAL)divisor(c, how, r, from + w);
            FOR_EACH_TAP(c, r, from, n, xrow, lo, hi) {
                if (s == 1)
                    K(give_tap)(hi - lo, 1, share + lo - from, x + xrow + lo);
                else if (s == 2)
                    K(give_tap)(hi - lo, 2, share + lo - from, x + xrow + lo * 2);
                else
                    K(give_tap)(hi - lo, s, share + lo - from, x + xrow + lo * s);
            }
        }
}

/* Runs BODY over the plane's outputs `o` with their adaptive window in lo[3], hi[3]. */
#define FOR_EACH_WINDOW(c, o, lo, hi) \
    for (int64_t o = 0, lo[3], hi[3]; o < tpi_conv_ysize(c) && adaptive_window(c, o, lo, hi); o++)
#define FOR_EACH_INSIDE(c, at, lo, hi)          \
    for (int64_t d = lo[0]; d < hi[0]; d++)     \
        for (int64_t h = lo[1]; h < hi[1]; h++) \
            for (int64_t at = (d * c->x[1] + h) * c->x[2] + lo[2], end = at + hi[2] - lo[2]; at < end; at++)

void TPI_ISA(K(tpi_adaptive_avg_plane))(const tpi_conv *c, const REAL *x, REAL *y) {
    FOR_EACH_WINDOW(c, o, lo, hi) {
        REAL sum = 0;
        FOR_EACH_INSIDE(c, at, lo, hi) sum += x[at];
        y[o] = sum / (REAL)((hi[0] - lo[0]) * (hi[1] - lo[1]) * (hi[2] - lo[2]));
    }
}

void TPI_ISA(K(tpi_adaptive_avg_plane_back))(const tpi_conv *c, const REAL *y, REAL *x) {
    FOR_EACH_WINDOW(c, o, lo, hi) {
        REAL share = y[o] / (REAL)((hi[0] - lo[0]) * (hi[1] - lo[1]) * (hi[2] - lo[2]));
        FOR_EACH_INSIDE(c, at, lo, hi) x[at] += share;
    }
}

void TPI_ISA(K(tpi_adaptive_max_plane))(const tpi_conv *c, const REAL *x, REAL *y, int64_t *index) {
    FOR_EACH_WINDOW(c, o, lo, hi) {
        int64_t place = (lo[0] * c->x[1] + lo[1]) * c->x[2] + lo[2];
        REAL best = LOWEST;
        FOR_EACH_INSIDE(c, at, lo, hi) {
            REAL v = x[at];
            if (v > best || IS_NAN(v)) best = v, place = at;
        }
        y[o] = best;
        index[o] = place;
    }
}
#undef FOR_EACH_WINDOW
#undef FOR_EACH_INSIDE

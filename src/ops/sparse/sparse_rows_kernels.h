/* The loops of sparse_rows.isa.c for one type. Before including: REAL is the type, K(name) tells its names apart,
 * MULADD and ADD add to a sum; ORDERED, the type to compare in, and IS_NAN are only there for types that have an order.
 * No guard. */

enum {
    K(AHEAD) = 8,
    K(MOST_AHEAD) = 512
}; /* rows of dense that are fetched ahead, which no hardware guesses; bytes of
      one */

/* `columns` (a constant) of one row of the product. */
static inline __attribute__((always_inline)) void K(block)(const int columns, int64_t n, const int64_t *restrict col,
                                                           const REAL *restrict values, int64_t width,
                                                           const REAL *restrict dense, REAL *restrict to) {
    REAL sum[16];
    for (int c = 0; c < columns; c++) sum[c] = 0;
    for (int64_t k = 0; k < n; k++) {
        const REAL *restrict row = dense + col[k] * width;
        if (values) {
            const REAL v = values[k];
            TPI_UNROLL
            for (int c = 0; c < columns; c++) MULADD(sum[c], v, row[c]);
        } else {
            TPI_UNROLL
            for (int c = 0; c < columns; c++) ADD(sum[c], row[c]);
        }
    }
    for (int c = 0; c < columns; c++) to[c] = sum[c];
}

#ifdef ORDERED
/* The same for `count` (a constant) vectors of 64 bytes, which stay in registers. */
typedef REAL K(vector) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
static inline __attribute__((always_inline)) void K(vectors)(const int count, int64_t n, const int64_t *restrict col,
                                                             const REAL *restrict values, int64_t width,
                                                             const REAL *restrict dense, REAL *restrict to) {
    K(vector) sum[4] = {0};
    for (int64_t k = 0; k < n; k++) {
        const K(vector) *row = (const K(vector) *)(dense + col[k] * width);
        if (values) {
            const REAL v = values[k];
            TPI_UNROLL
            for (int c = 0; c < count; c++) sum[c] += row[c] * v;
        } else {
            TPI_UNROLL
            for (int c = 0; c < count; c++) sum[c] += row[c];
        }
    }
    TPI_UNROLL
    for (int c = 0; c < count; c++) ((K(vector) *)to)[c] = sum[c];
}
#endif

static void K(fetch_ahead)(int64_t n, const int64_t *col, int64_t width, const REAL *dense) {
    int64_t bytes = width * (int64_t)sizeof(REAL);
    bytes = bytes < K(MOST_AHEAD) ? bytes : K(MOST_AHEAD);
    for (int64_t k = 0; k < n; k++)
        for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)(dense + col[k] * width) + at);
}

#define BLOCK(sum, times, columns)                                     \
    for (; width - c >= (columns); c += (columns)) {                   \
        if (values)                                                    \
            K(sum)((times), n, col, values, width, dense + c, to + c); \
        else                                                           \
            K(sum)((times), n, col, NULL, width, dense + c, to + c);   \
    }
/* One row, in blocks of columns that become smaller towards its end. */
static void K(row)(int64_t n, const int64_t *restrict col, const REAL *restrict values, int64_t width,
                   const REAL *restrict dense, REAL *restrict to) {
    enum { LANES = 64 / sizeof(REAL) };
    int64_t c = 0;
#ifdef ORDERED
    BLOCK(vectors, 4, 4 * LANES)
    BLOCK(vectors, 2, 2 * LANES)
    BLOCK(vectors, 1, LANES)
    BLOCK(block, LANES / 2, LANES / 2)
#endif
    BLOCK(block, 4, 4)
    BLOCK(block, 2, 2)
    BLOCK(block, 1, 1)
}
#undef BLOCK

/* A vector instead of a matrix: two sums at a time, since one waits for its last step. */
static REAL K(vector_row)(int64_t n, const int64_t *restrict col, const REAL *restrict values,
                          const REAL *restrict dense) {
    REAL even = 0, odd = 0;
    int64_t k = 0;
    for (; k + 1 < n; k += 2) {
        MULADD(even, values[k], dense[col[k]]);
        MULADD(odd, values[k + 1], dense[col[k + 1]]);
    }
    if (k < n) MULADD(even, values[k], dense[col[k]]);
    return even + odd;
}

static void K(mm_rows)(const tpi_sparse_rows *a, int64_t first, int64_t last, int64_t width, const void *dense,
                       void *out) {
    const REAL *values = a->values;
    for (int64_t i = first; i < last && width == 1 && values; i++)
        ((REAL *)out)[i] = K(vector_row)(a->crow[i + 1] - a->crow[i], a->col + a->crow[i], values + a->crow[i], dense);
    if (width == 1 && values) return;
    for (int64_t i = first; i < last; i++) {
        int64_t begin = a->crow[i], end = a->crow[i + 1], limit = a->crow[last];
        if (width > 1) {
            int64_t from = begin + K(AHEAD) < limit ? begin + K(AHEAD) : limit,
                    to = end + K(AHEAD) < limit ? end + K(AHEAD) : limit;
            K(fetch_ahead)(to - from, a->col + from, width, dense);
        }
        K(row)(end - begin, a->col + begin, values ? values + begin : NULL, width, dense, (REAL *)out + i * width);
    }
}

static void K(mm_list)(int64_t n, const int64_t *list, const int64_t *to, const int64_t *from, const void *values,
                       int64_t width, const void *dense, void *out) {
    const REAL *weights = values;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = list ? list[i] : i;
        const REAL *restrict row = (const REAL *)dense + from[k] * width;
        REAL *restrict sum = (REAL *)out + to[k] * width;
        if (weights) {
            const REAL v = weights[k];
            for (int64_t c = 0; c < width; c++) MULADD(sum[c], v, row[c]);
        } else
            for (int64_t c = 0; c < width; c++) ADD(sum[c], row[c]);
    }
}

static REAL K(dot)(int64_t n, const REAL *restrict x, const REAL *restrict y) {
    enum { LANES = 128 / sizeof(REAL) };
    REAL sum[LANES] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        TPI_UNROLL
        for (int l = 0; l < LANES; l++) MULADD(sum[l], x[i + l], y[i + l]);
    }
    for (; i < n; i++) MULADD(rest, x[i], y[i]);
    if (n < LANES) return rest;
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) ADD(sum[l], sum[l + half]);
    return sum[0] + rest;
}

static void K(dots)(int64_t n, const int64_t *row, const int64_t *column, int64_t width, const void *left,
                    const void *right, void *out) {
    K(fetch_ahead)(n < K(AHEAD) ? n : K(AHEAD), column, width, right);
    for (int64_t k = 0; k < n; k++) {
        if (k + K(AHEAD) < n) K(fetch_ahead)(1, column + k + K(AHEAD), width, right);
        ((REAL *)out)[k] = K(dot)(width, (const REAL *)left + row[k] * width, (const REAL *)right + column[k] * width);
    }
}

#ifdef ORDERED
static void K(extreme_rows)(const tpi_sparse_rows *a, int64_t first, int64_t last, int64_t width, bool largest,
                            const void *dense, void *out, int64_t *place) {
    for (int64_t i = first; i < last; i++) {
        ORDERED *best = (ORDERED *)out + i * width;
        int64_t *at = place + i * width;
        for (int64_t c = 0; c < width; c++) {
            best[c] = 0;
            at[c] = -1;
        }
        for (int64_t k = a->crow[i]; k < a->crow[i + 1]; k++) {
            const REAL *row = (const REAL *)dense + a->col[k] * width, v = ((const REAL *)a->values)[k];
            for (int64_t c = 0; c < width; c++) {
                ORDERED x = (ORDERED)(v * row[c]);
                bool better = largest ? x > best[c] : x < best[c];
                bool nan = IS_NAN(x) && !IS_NAN(best[c]); /* the first NaN stays */
                if (!better && !nan && at[c] >= 0) continue;
                best[c] = x;
                at[c] = k;
            }
        }
    }
}
#endif

static void K(mm_sampled)(const tpi_sparse_rows *at, const tpi_sparse_rows *a, const tpi_sparse_rows *b, int64_t first,
                          int64_t last, int32_t *slot, void *out) {
    const REAL *left = a->values, *right = b->values;
    for (int64_t i = first; i < last; i++) {
        int64_t n = at->crow[i + 1] - at->crow[i];
        const int64_t *columns = at->col + at->crow[i];
        REAL *sum = (REAL *)out + at->crow[i];
        for (int64_t m = 0; m < n; m++) {
            sum[m] = 0;
            slot[columns[m]] = (int32_t)(m + 1);
        }
        for (int64_t k = a->crow[i]; k < a->crow[i + 1]; k++) {
            const REAL v = left[k];
            for (int64_t j = b->crow[a->col[k]], end = b->crow[a->col[k] + 1]; j < end; j++) {
                int32_t found = slot[b->col[j]];
                if (found) MULADD(sum[found - 1], v, right[j]);
            }
        }
        for (int64_t m = 0; m < n; m++) sum[m] = sum[slot[columns[m]] - 1]; /* a column may stand twice */
        for (int64_t m = 0; m < n; m++) slot[columns[m]] = 0;
    }
}

static const tpi_sparse_kernels K(kernels) = {
    .mm_rows = K(mm_rows),
    .mm_list = K(mm_list),
    .dots = K(dots),
#ifdef ORDERED
    .extreme_rows = K(extreme_rows),
#endif
    .mm_sampled = K(mm_sampled),
};
#undef REAL
#undef ORDERED
#undef IS_NAN
#undef K

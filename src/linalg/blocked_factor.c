/* Factorisations and triangular systems by halves: see blocked_factor.h. */
#include "linalg/blocked_factor.h"
#include "base/min_max.h"
#include "base/threads.h"
#include "device/device.h"

enum {
    LANES_AT_ONCE = 128,    /* right-hand sides that a task solves */
    WORTH_THREADS = 1 << 18 /* multiply-adds from which on tasks are worth waking threads */
};

static tpi_grid at(tp_dtype dtype, tpi_grid g, int64_t i, int64_t j) {
    return (tpi_grid){g.data + (i * g.row + j * g.col) * tpi_dtype_bytes[dtype], g.row, g.col};
}

/* Half of n, in whole blocks. */
static int64_t half(int64_t n, int64_t block) { return tpi_ceil_div(tpi_ceil_div(n, 2), block) * block; }

static tpi_operand_matrix operand(tpi_grid g, bool transposed) {
    return (tpi_operand_matrix){g.data, 0, transposed ? g.col : g.row, transposed ? g.row : g.col};
}

/* c (m, n) = beta * c - a b. A c whose columns have unit stride is the transposed product. */
static void subtract_product(tp_dtype dtype, int64_t m, int64_t n, int64_t k, tpi_grid a, tpi_grid b, tpi_grid c,
                             int beta) {
    const bool transposed = c.col != 1;
    tpi_product p = {.dtype = dtype,
                     .batches = 1,
                     .m = transposed ? n : m,
                     .n = transposed ? m : n,
                     .k = k,
                     .a = operand(transposed ? b : a, transposed),
                     .b = operand(transposed ? a : b, transposed),
                     .c = c.data,
                     .c_row = transposed ? c.col : c.row,
                     .alpha = tp_int(-1),
                     .beta = tp_int(beta)};
    tpi_multiply(&p);
}

/* ---- Triangular systems ---- */

/* The triangle that is left of t's without the first n rows and columns. */
static tpi_triangle without(tp_dtype dtype, tpi_triangle t, int64_t n) {
    return (tpi_triangle){at(dtype, t.at, n, n), t.upper, t.unit};
}

static void solve(tp_dtype dtype, tpi_triangle t, int64_t n, tpi_grid b, int64_t lanes) {
    if (n <= TPI_BLOCK) {
        (dtype == TP_FLOAT32 ? TPI_ISA_PICK(tpi_block_solve) : TPI_ISA_PICK(tpi_block_f64_solve))(&t, n, &b, lanes);
        return;
    }
    const int64_t h = half(n, TPI_BLOCK);
    const tpi_grid below = at(dtype, b, h, 0);
    if (t.upper) {
        solve(dtype, without(dtype, t, h), n - h, below, lanes);
        subtract_product(dtype, h, lanes, n - h, at(dtype, t.at, 0, h), below, b, 1);
        solve(dtype, t, h, b, lanes);
    } else {
        solve(dtype, t, h, b, lanes);
        subtract_product(dtype, n - h, lanes, h, at(dtype, t.at, h, 0), b, below, 1);
        solve(dtype, without(dtype, t, h), n - h, below, lanes);
    }
}

typedef struct systems {
    tp_dtype dtype;
    tpi_triangle t;
    int64_t n, lanes;
    tpi_grid b;
} systems;

static void solve_some(int64_t task, void *context) {
    const systems *s = context;
    const int64_t first = task * LANES_AT_ONCE;
    solve(s->dtype, s->t, s->n, at(s->dtype, s->b, 0, first), tpi_min64(LANES_AT_ONCE, s->lanes - first));
}

void tpi_blocked_solve(tp_dtype dtype, tpi_triangle t, int64_t n, tpi_grid b, int64_t lanes) {
    if (n == 0) return;
    if (lanes <= LANES_AT_ONCE) {
        solve(dtype, t, n, b, lanes);
        return;
    }
    systems s = {dtype, t, n, lanes, b};
    tpi_parallel_for(tpi_ceil_div(lanes, LANES_AT_ONCE), n * n * lanes >= WORTH_THREADS, solve_some, &s);
}

void tpi_blocked_invert(tp_dtype dtype, tpi_triangle t, int64_t n, tpi_grid b) {
    if (n <= TPI_BLOCK) {
        tpi_blocked_solve(dtype, t, n, b, n);
        return;
    }
    const int64_t h = half(n, TPI_BLOCK), rest = n - h;
    const tpi_triangle second = without(dtype, t, h);
    const tpi_grid last = at(dtype, b, h, h);
    tpi_blocked_invert(dtype, t, h, b);
    if (t.upper) {
        const tpi_grid corner = at(dtype, b, 0, h);
        tpi_blocked_invert(dtype, second, rest, last);
        subtract_product(dtype, h, rest, rest, at(dtype, t.at, 0, h), last, corner, 0);
        tpi_blocked_solve(dtype, t, h, corner, rest);
    } else {
        const tpi_grid corner = at(dtype, b, h, 0);
        subtract_product(dtype, rest, h, h, at(dtype, t.at, h, 0), b, corner, 0);
        tpi_blocked_solve(dtype, second, rest, corner, h);
        tpi_blocked_invert(dtype, second, rest, last);
    }
}

/* ---- Cholesky ---- */

static tpi_grid transpose_of(tpi_grid g) { return (tpi_grid){g.data, g.col, g.row}; }

/* The lower triangle of c (n, n) less that of a a^T, a (n, k). Of blocks on the diagonal the upper one is made too. */
static void subtract_square(tp_dtype dtype, int64_t n, int64_t k, tpi_grid a, tpi_grid c) {
    if (n <= 2 * TPI_BLOCK) {
        subtract_product(dtype, n, n, k, a, transpose_of(a), c, 1);
        return;
    }
    const int64_t h = half(n, TPI_BLOCK);
    const tpi_grid below = at(dtype, a, h, 0);
    subtract_square(dtype, h, k, a, c);
    subtract_product(dtype, n - h, h, k, below, transpose_of(a), at(dtype, c, h, 0), 1);
    subtract_square(dtype, n - h, k, below, at(dtype, c, h, h));
}

int tpi_blocked_cholesky(tp_dtype dtype, int64_t n, tpi_grid a) {
    if (n <= TPI_BLOCK)
        return (dtype == TP_FLOAT32 ? TPI_ISA_PICK(tpi_block_cholesky) : TPI_ISA_PICK(tpi_block_f64_cholesky))(n, &a);
    const int64_t h = half(n, TPI_BLOCK);
    const tpi_grid below = at(dtype, a, h, 0), last = at(dtype, a, h, h);
    int info = tpi_blocked_cholesky(dtype, h, a);
    if (info) return info;
    /* below becomes below L^-T: L X^T = below^T */
    tpi_blocked_solve(dtype, (tpi_triangle){a, false, false}, h, transpose_of(below), n - h);
    subtract_square(dtype, n - h, h, below, last);
    info = tpi_blocked_cholesky(dtype, n - h, last);
    return info ? info + (int)h : 0;
}

/* ---- LU ---- */

#define EXCHANGE(T)                                                                                                   \
    static void exchange_##T(tpi_grid a, int64_t columns, const int *pivots, int64_t first, int64_t end, bool back) { \
        for (int64_t c = 0; c < columns; c++) {                                                                       \
            T *column = (T *)(void *)a.data + c * a.col;                                                              \
            for (int64_t k = first; k < end; k++) {                                                                   \
                const int64_t i = back ? end - 1 - (k - first) : k, other = pivots[i] - 1;                            \
                const T held = column[i];                                                                             \
                column[i] = column[other];                                                                            \
                column[other] = held;                                                                                 \
            }                                                                                                         \
        }                                                                                                             \
    }
EXCHANGE(float)
EXCHANGE(double)

void tpi_blocked_exchange(tp_dtype dtype, tpi_grid a, int64_t columns, const int *pivots, int64_t first, int64_t end,
                          bool back) {
    (dtype == TP_FLOAT32 ? exchange_float : exchange_double)(a, columns, pivots, first, end, back);
}

int tpi_blocked_lu(tp_dtype dtype, int64_t m, int64_t n, tpi_grid a, int *pivots) {
    if (n <= TPI_BLOCK_COLUMNS)
        return (dtype == TP_FLOAT32 ? TPI_ISA_PICK(tpi_block_lu) : TPI_ISA_PICK(tpi_block_f64_lu))(m, n, &a, pivots);
    const int64_t h = n > m ? m : half(n, TPI_BLOCK_COLUMNS); /* columns behind the square part follow it */
    const tpi_grid right = at(dtype, a, 0, h), below = at(dtype, a, h, 0), last = at(dtype, a, h, h);
    const int first = tpi_blocked_lu(dtype, m, h, a, pivots);
    tpi_blocked_exchange(dtype, right, n - h, pivots, 0, h, false);
    tpi_blocked_solve(dtype, (tpi_triangle){a, false, true}, h, right, n - h);
    if (h == m) return first;
    subtract_product(dtype, m - h, n - h, h, below, right, last, 1);
    const int second = tpi_blocked_lu(dtype, m - h, n - h, last, pivots + h);
    for (int64_t i = h; i < n; i++) pivots[i] += (int)h;
    tpi_blocked_exchange(dtype, a, h, pivots, h, n, false);
    return first ? first : second ? second + (int)h : 0;
}

/* Pooling over one plane, for each element type. */
#include <math.h>
#include "base/wrap.h"
#include "base/min_max.h"
#include "ops/pool/pool.h"

/* Where the window of output `at` of a dim meets its first element. */
static inline int64_t first_place(const tpi_conv *c, int i, int64_t at) {
    int64_t start = at * c->stride[i] - c->pad[i];
    return start >= 0 ? start : start + (-start + c->dilation[i] - 1) / c->dilation[i] * c->dilation[i];
}

/* The first element of x under the window of output (row, w), what a window of lowest values answers with. */
static inline int64_t first_inside(const tpi_conv *c, int64_t row, int64_t w) {
    int64_t at[3] = {row / c->y[1], row % c->y[1], w}, place = 0;
    for (int i = 0; i < 3; i++) {
        place = place * c->x[i] + first_place(c, i, at[i]);
    }
    return place;
}

static inline int64_t first_column(const tpi_conv *c, int64_t w) { return first_place(c, 2, w); }

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

/* What the sum over the window of output (row, w) is divided by. Windows reach into the padding, never beyond it. */
static inline int64_t divisor(const tpi_conv *c, tpi_average how, int64_t row, int64_t w) {
    if (how.divisor) return how.divisor;
    int64_t at[3] = {row / c->y[1], row % c->y[1], w}, count = 1;
    for (int i = 0; i < 3; i++) {
        int64_t start = at[i] * c->stride[i] - c->pad[i], end = tpi_min64(start + c->k[i], c->x[i] + c->pad[i]);
        count = tpi_size_times(count, how.count_pad ? end - start : tpi_min64(end, c->x[i]) - tpi_max64(start, 0));
    }
    return count == 0 ? 1 : count;
}

/* The part of a tap's outputs, [*lo, *hi), that is among the n windows of the row from `from` on. */
static inline bool tap_of_piece(const tpi_conv *c, int64_t r, int64_t kd, int64_t kh, int64_t kw, int64_t from,
                                int64_t n, int64_t *xrow, int64_t *lo, int64_t *hi) {
    int64_t yrow;
    if (!tpi_conv_tap_row(c, r, kd, kh, kw, xrow, &yrow, lo, hi)) return false;
    *lo = tpi_max64(*lo, from);
    *hi = tpi_min64(*hi, from + n);
    return *lo < *hi;
}
/* The taps from[i] to to[i] - 1 of each dim that meet x in one of the windows: a kernel may be far larger than x. */
typedef struct taps {
    int64_t from[3], to[3];
} taps;
static inline taps taps_inside(const tpi_conv *c, int64_t r, int64_t from, int64_t n) {
    const int64_t first[3] = {r / c->y[1], r % c->y[1], from}, last[3] = {first[0], first[1], from + n - 1};
    taps t;
    for (int i = 0; i < 3; i++) {
        const int64_t before = c->pad[i] - last[i] * c->stride[i],
                      behind = c->x[i] + c->pad[i] - first[i] * c->stride[i];
        t.from[i] = before <= 0 ? 0 : (before + c->dilation[i] - 1) / c->dilation[i];
        t.to[i] = behind <= 0 ? 0 : tpi_min64(c->k[i], (behind + c->dilation[i] - 1) / c->dilation[i]);
    }
    return t;
}
#define FOR_EACH_TAP(c, r, from_, n, xrow, lo, hi)                     \
    const taps inside = taps_inside(c, r, from_, n);                   \
    for (int64_t kd = inside.from[0]; kd < inside.to[0]; kd++)         \
        for (int64_t kh = inside.from[1]; kh < inside.to[1]; kh++)     \
            for (int64_t kw = inside.from[2]; kw < inside.to[2]; kw++) \
                if (tap_of_piece(c, r, kd, kh, kw, from_, n, &(xrow), &(lo), &(hi)))

static inline bool adaptive_window(const tpi_conv *c, int64_t o, int64_t *lo, int64_t *hi) {
    for (int i = 2; i >= 0; i--) {
        int64_t at = o % c->y[i];
        o /= c->y[i];
        lo[i] = at * c->x[i] / c->y[i];
        hi[i] = ((at + 1) * c->x[i] + c->y[i] - 1) / c->y[i];
    }
    return true;
}

enum { PIECE = 512 };

#define REAL      float
#define PLACE     uint32_t /* a window spans fewer elements than that */
#define LOWEST    (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#define K(name)   name##_f32
#include "ops/pool/pool_kernels.h"
#undef REAL
#undef PLACE
#undef K
#define REAL    double
#define PLACE   int64_t
#define K(name) name##_f64
#include "ops/pool/pool_kernels.h"
#undef REAL
#undef K
#undef LOWEST
#undef IS_NAN
#define REAL      int64_t
#define LOWEST    INT64_MIN
#define IS_NAN(v) false
#define K(name)   name##_i64
#include "ops/pool/pool_kernels.h"

/* Pooling over one plane, for each element type. */
#include <math.h>
#include "ops/pool.h"

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* The first element of x under the window of output (row, w), what a window of lowest values answers with. */
static inline int64_t first_inside(const tpi_conv *c, int64_t row, int64_t w) {
    int64_t at[3] = {row / c->y[1], row % c->y[1], w}, place = 0;
    for (int i = 0; i < 3; i++) {
        int64_t start = at[i] * c->stride[i] - c->pad[i];
        while (start < 0) start += c->dilation[i];
        place = place * c->x[i] + start;
    }
    return place;
}

static inline int64_t first_column(const tpi_conv *c, int64_t w) {
    int64_t start = w * c->stride[2] - c->pad[2];
    while (start < 0) start += c->dilation[2];
    return start;
}

static inline bool in_quarters(const tpi_conv *c) {
    return c->x[0] == 1 && c->k[0] == 1 && c->k[1] == 2 && c->k[2] == 2 && c->stride[1] == 2 && c->stride[2] == 2 && !c->pad[0] && !c->pad[1] && !c->pad[2] &&
           c->dilation[1] == 1 && c->dilation[2] == 1 && 2 * c->y[1] <= c->x[1] && 2 * c->y[2] <= c->x[2];
}

/* What the sum over the window of output (row, w) is divided by. Windows reach into the padding, never beyond it. */
static inline int64_t divisor(const tpi_conv *c, tpi_average how, int64_t row, int64_t w) {
    if (how.divisor) return how.divisor;
    int64_t at[3] = {row / c->y[1], row % c->y[1], w}, count = 1;
    for (int i = 0; i < 3; i++) {
        int64_t start = at[i] * c->stride[i] - c->pad[i], end = min64(start + c->k[i], c->x[i] + c->pad[i]);
        count *= how.count_pad ? end - start : min64(end, c->x[i]) - max64(start, 0);
    }
    return count == 0 ? 1 : count;
}

/* The part of a tap's outputs, [*lo, *hi), that is among the n windows of the row from `from` on. */
static inline bool tap_of_piece(const tpi_conv *c, int64_t r, int64_t kd, int64_t kh, int64_t kw, int64_t from, int64_t n, int64_t *xrow, int64_t *lo, int64_t *hi) {
    int64_t yrow;
    if (!tpi_conv_tap_row(c, r, kd, kh, kw, xrow, &yrow, lo, hi)) return false;
    *lo = max64(*lo, from), *hi = min64(*hi, from + n);
    return *lo < *hi;
}
#define FOR_EACH_TAP(c, r, from, n, xrow, lo, hi)         \
    for (int64_t kd = 0; kd < (c)->k[0]; kd++)            \
        for (int64_t kh = 0; kh < (c)->k[1]; kh++)        \
            for (int64_t kw = 0; kw < (c)->k[2]; kw++)    \
                if (tap_of_piece(c, r, kd, kh, kw, from, n, &(xrow), &(lo), &(hi)))

static inline bool adaptive_window(const tpi_conv *c, int64_t o, int64_t *lo, int64_t *hi) {
    for (int i = 2; i >= 0; i--) {
        int64_t at = o % c->y[i];
        o /= c->y[i];
        lo[i] = at * c->x[i] / c->y[i];
        hi[i] = ((at + 1) * c->x[i] + c->y[i] - 1) / c->y[i];
    }
    return true;
}

enum { PIECE = 64 };

#define REAL float
#define PLACE uint32_t /* a window spans fewer elements than that */
#define LOWEST (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#define K(name) name##_f32
#include "ops/pool_kernels.h"
#undef REAL
#undef PLACE
#undef K
#define REAL double
#define PLACE int64_t
#define K(name) name##_f64
#include "ops/pool_kernels.h"
#undef REAL
#undef K
#undef LOWEST
#undef IS_NAN
#define REAL int64_t
#define LOWEST INT64_MIN
#define IS_NAN(v) false
#define K(name) name##_i64
#include "ops/pool_kernels.h"

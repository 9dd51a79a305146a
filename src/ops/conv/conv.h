/* What the ways to compute a convolution on CPUs share: its geometry, the three products, and the table of ways.
 *
 * A convolution ties together x (its input), w (the weight) and y (its output):
 *
 *     y = x * w,   dx = y *' w,   dw = x *" y
 *
 * A transposed convolution is the second with the names of x and y exchanged. So three roles serve both, and all of
 * their derivatives. There are one to three spatial dims; missing leading ones have size 1.
 *
 * Every way promises the same: the result does not depend on the number of threads, and a failure (no memory) leaves an
 * error. A way may call src/linalg and what is below it, and no operator. conv.c, which has the operators, calls the
 * first way that fits. */
#ifndef TPI_CONV_H
#define TPI_CONV_H
#include "tensor/sizes.h"
#include "tensor/tensor.h"

typedef struct tpi_conv {
    int64_t batch, groups;
    int64_t cx, cy;           /* channels per group of x and of y */
    int64_t x[3], y[3], k[3]; /* depth, height, width */
    int64_t stride[3], pad[3], dilation[3];
} tpi_conv;

typedef struct tpi_conv_setting { /* the arguments that the three operators share */
    tp_ints stride, padding, dilation, output_padding;
    bool transposed;
    int64_t groups;
} tpi_conv_setting;
/* Works out the convolution from the shapes of its input and weight; both may come from a gradient's shape arguments.
 */
bool tpi_conv_geometry(tpi_conv *c, tp_ints input, tp_ints weight, const tpi_conv_setting *s);

/* Which of x, w and y is computed from the other two. */
typedef enum tpi_conv_role { TPI_CONV_Y, TPI_CONV_X, TPI_CONV_W } tpi_conv_role;

/* One product. x is (batch, groups * cx, x[0], x[1], x[2]), w (groups * cy, cx, k...), y (batch, groups * cy, y...), of
 * the dtype float32, float64 or int64, contiguous or, if `last`, x and y channels last. The role's own is written
 * through `out`, and its pointer among the three is not read. */
typedef struct tpi_conv_call {
    const tpi_conv *c;
    tpi_conv_role role;
    tp_dtype dtype;
    bool last;
    const void *x, *w, *y;
    const void *bias; /* a value per channel of the result, or NULL */
    void *out;
} tpi_conv_call;

/* A way to compute a product. `fits` looks at the shape, the dtype and the layout, never at elements: is this way for
 * it? run: false and an error without memory. conv.c has them in order of preference. */
typedef struct tpi_conv_way {
    bool (*fits)(const tpi_conv_call *call);
    bool (*run)(const tpi_conv_call *call);
} tpi_conv_way;
extern const tpi_conv_way tpi_conv_narrow, /* directly from padded images, where nothing is quicker for few channels */
    tpi_conv_winograd,                     /* 3x3 kernels by tiles */
    tpi_conv_onednn,                       /* the library's kernels, where they were measured to be faster */
    tpi_conv_direct,                       /* directly from padded images */
    tpi_conv_depthwise,                    /* one channel on either side of a group: plane by plane */
    tpi_conv_products,                     /* everything: matrix products over patches */
    tpi_conv_bfloat16;                     /* bfloat16s as they are, which no other way takes, and a float32 result */

/* Partial weight gradients, `count` arrays of n elements one after the other, added in their order. out may be the
 * first of them. */
void tpi_conv_merge(tp_dtype dtype, const void *parts, int64_t n, int64_t count, void *out);

/* The tap (kd, kh, kw) over output row `row` (depth and height counted together): outputs lo .. hi - 1 of the row that
 * starts at yrow read inside of x, at xrow + stride * w. xrow may lie before the row's start. False when no output of
 * the row does. */
static inline bool tpi_conv_tap_row(const tpi_conv *c, int64_t row, int64_t kd, int64_t kh, int64_t kw, int64_t *xrow,
                                    int64_t *yrow, int64_t *lo, int64_t *hi) {
    int64_t above = c->y[0] == 1 ? 0 : row / c->y[1]; /* a division is dear next to a short row */
    int64_t d = above * c->stride[0] - c->pad[0] + kd * c->dilation[0];
    int64_t h = (row - above * c->y[1]) * c->stride[1] - c->pad[1] + kh * c->dilation[1];
    if (d < 0 || d >= c->x[0] || h < 0 || h >= c->x[1]) return false;
    int64_t s = c->stride[2], at = kw * c->dilation[2] - c->pad[2], left = c->x[2] - at;
    *lo = at >= 0 ? 0 : s == 1 ? -at : (-at + s - 1) / s;
    *hi = left <= 0 ? 0 : s == 1 ? left : (left + s - 1) / s;
    if (*hi > c->y[2]) *hi = c->y[2];
    *xrow = (d * c->x[1] + h) * c->x[2] + at;
    *yrow = row * c->y[2];
    return *lo < *hi;
}

static inline int64_t tpi_conv_taps(const tpi_conv *c) { return tpi_size_product(c->k, 3); }
static inline int64_t tpi_conv_xsize(const tpi_conv *c) { return tpi_size_product(c->x, 3); }
static inline int64_t tpi_conv_ysize(const tpi_conv *c) { return tpi_size_product(c->y, 3); }
#endif

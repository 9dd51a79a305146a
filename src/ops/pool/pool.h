/* Pooling windows: kernels over one plane (depth, height, width), with convolution's geometry. */
#ifndef TPI_POOL_H
#define TPI_POOL_H
#include "device/cpu/isa.h"
#include "device/device.h"
#include "ops/conv/conv.h"

typedef struct tpi_windows { /* a pooling call's arguments as they came */
    tp_ints kernel, stride, padding, dilation;
    bool ceil_mode;
} tpi_windows;
/* The windows over the last n dims of a shape, in convolution's words; c->batch counts planes. False and an error that
 * begins with the name. */
bool tpi_pool_geometry(tpi_conv *c, tp_ints shape, int n, const tpi_windows *w, const char *name);
/* output_size: n sizes, one for all, or a whole shape, of which the last n count. */
bool tpi_adaptive_geometry(tpi_conv *c, tp_ints shape, int n, tp_ints output_size, const char *name);

/* How an average divides: by the window's elements, those in the padding counted or not, or by a given number. */
typedef struct tpi_average {
    bool count_pad;
    int64_t divisor; /* 0: not given */
} tpi_average;

/* Where the windows are, worked out once for all planes. Output o of dim i has the elements from[i][o] to to[i][o] - 1,
 * `step[i]` apart, and counts for count[i][o] of them in an average. Columns also tap by tap, where all windows are
 * alike: tap t of output w is column first[t] + w * stride, for the outputs lo[t] to hi[t] - 1. */
typedef struct tpi_pool_spans {
    int64_t *from[3], *to[3], *count[3], step[3];
    int64_t taps, stride; /* taps 0: windows differ in size */
    int64_t *first, *lo, *hi;
} tpi_pool_spans;

/* tpi_max_plane: the largest element under each window and its place in the plane; the first of equals, and any NaN
 * wins. tpi_avg_plane_back adds each y over its divisor to all elements of its window. Averages go by rows, then by
 * columns: `row` has a row of x; a divisor of 0 stands for the windows' own counts. */
#define TPI_POOL_KERNELS(REAL, suffix)                                                                                 \
    TPI_ISA_DECLARE(void, tpi_max_plane_##suffix,                                                                      \
                    (const tpi_conv *c, const tpi_pool_spans *s, const REAL *x, REAL *y, int64_t *index));             \
    TPI_ISA_DECLARE(void, tpi_avg_plane_##suffix,                                                                      \
                    (const tpi_conv *c, const tpi_pool_spans *s, int64_t divisor, const REAL *x, REAL *y, REAL *row)); \
    TPI_ISA_DECLARE(void, tpi_avg_plane_back_##suffix,                                                                 \
                    (const tpi_conv *c, const tpi_pool_spans *s, int64_t divisor, const REAL *y, REAL *x, REAL *row));
TPI_POOL_KERNELS(float, f32)
TPI_POOL_KERNELS(double, f64)
TPI_POOL_KERNELS(int64_t, i64)
/* tpi_max_plane for eight planes, one after the other, of float numbers whose rows are short; `scratch` has eight times
 * the elements of a plane of x and one of y. */
TPI_ISA_DECLARE(void, tpi_max_lanes_f32,
                (const tpi_conv *c, const tpi_pool_spans *s, const float *x, float *y, int64_t *index, float *scratch));
TPI_ISA_DECLARE(void, tpi_max_lanes_f64,
                (const tpi_conv *c, const tpi_pool_spans *s, const double *x, double *y, int64_t *index,
                 double *scratch));
/* A pool that gave nothing has no gradient: PyTorch refuses what comes back to it. */
bool tpi_check_pooled_grad(const tp_tensor *grad, int64_t dims);
#endif

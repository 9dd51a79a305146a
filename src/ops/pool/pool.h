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

/* The largest element under each window and its place in the plane; the first of equals, and any NaN wins. */
#define TPI_POOL_KERNELS(REAL, suffix)                                                                                \
    TPI_ISA_DECLARE(void, tpi_max_plane_##suffix, (const tpi_conv *c, const REAL *x, REAL *y, int64_t *index));       \
    TPI_ISA_DECLARE(void, tpi_avg_plane_##suffix, (const tpi_conv *c, tpi_average how, const REAL *x, REAL *y));      \
    /* Adds each y over its divisor to all elements of its window. */                                                 \
    TPI_ISA_DECLARE(void, tpi_avg_plane_back_##suffix, (const tpi_conv *c, tpi_average how, const REAL *y, REAL *x)); \
    /* Adaptive windows: from floor(i x / y) to ceil((i + 1) x / y) in each dim. */                                   \
    TPI_ISA_DECLARE(void, tpi_adaptive_avg_plane_##suffix, (const tpi_conv *c, const REAL *x, REAL *y));              \
    TPI_ISA_DECLARE(void, tpi_adaptive_avg_plane_back_##suffix, (const tpi_conv *c, const REAL *y, REAL *x));         \
    TPI_ISA_DECLARE(void, tpi_adaptive_max_plane_##suffix, (const tpi_conv *c, const REAL *x, REAL *y, int64_t *index));
TPI_POOL_KERNELS(float, f32)
TPI_POOL_KERNELS(double, f64)
TPI_POOL_KERNELS(int64_t, i64)
/* A pool that gave nothing has no gradient: PyTorch refuses what comes back to it. */
bool tpi_check_pooled_grad(const tp_tensor *grad, int64_t dims);
#endif

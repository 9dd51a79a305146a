/* Resampling along one axis at a time: every output index reads a few input indices with weights. */
#ifndef TPI_RESAMPLE_H
#define TPI_RESAMPLE_H
#include "device/cpu/isa.h"
#include "device/device.h"

typedef struct tpi_taps {
    int64_t in, out, width; /* sizes along the axis; taps per output index */
    int64_t *index;         /* (out, width) */
    double *weight;         /* (out, width); unused taps have weight 0 and index 0 */
} tpi_taps;

typedef struct tpi_resample_kind {
    bool nearest, exact, cubic, lanczos, antialias, align_corners;
    bool narrow; /* places in float */
} tpi_resample_kind;
bool tpi_resample_read(tpi_resample_kind *k, const char *mode, bool align_corners, bool antialias,
                       bool narrow); /* false and an error for an unknown mode */
double tpi_resample_step(const tpi_resample_kind *k, int64_t in, int64_t out,
                         double scale); /* input elements per output element; scale: NaN if not given */
double tpi_resample_reach(const tpi_resample_kind *k, double each);  /* of an antialiasing filter, in input elements */
int64_t tpi_resample_width(const tpi_resample_kind *k, double each); /* taps per output index */

/* x (rows of in * inner) to y (rows of out * inner), and back: x is added to. */
#define TPI_RESAMPLE_KERNELS(REAL, suffix)                                                                    \
    TPI_ISA_DECLARE(void, tpi_resample_##suffix, (const tpi_taps *t, int64_t inner, const REAL *x, REAL *y)); \
    TPI_ISA_DECLARE(void, tpi_resample_back_##suffix, (const tpi_taps *t, int64_t inner, const REAL *y, REAL *x));
TPI_RESAMPLE_KERNELS(float, f32)
TPI_RESAMPLE_KERNELS(double, f64)
#endif

/* The kernels of clip.c: one chunk of a tensor that lies densely in memory. */
#ifndef TPI_CLIP_H
#define TPI_CLIP_H
#include <stdint.h>
#include "device/cpu/isa.h"

enum { TPI_CLIP_SQUARES, TPI_CLIP_SUM, TPI_CLIP_LARGEST };
/* The sum of the squares, the sum of the absolute values, or the largest absolute value (NaN if there is one). */
TPI_ISA_DECLARE(double, tpi_clip_measure_f32, (int kind, int64_t n, const float *x));
TPI_ISA_DECLARE(double, tpi_clip_measure_f64, (int kind, int64_t n, const double *x));
TPI_ISA_DECLARE(void, tpi_clip_scale_f32, (int64_t n, float *x, float by));
TPI_ISA_DECLARE(void, tpi_clip_scale_f64, (int64_t n, double *x, double by));
#endif

/* What a window function is, for the CPU and for GPUs. */
#ifndef TPI_WINDOW_H
#define TPI_WINDOW_H
#include "ops/native.h"

typedef struct tpi_window {
    double a, b, c; /* cosine windows: a - b cos(x) + c cos(2x) */
    double beta;    /* Kaiser; the Gaussian's deviation; the exponential's tau */
    double center;  /* of the exponential; NaN: the middle */
    tp_floats sum;  /* SUM: sum[0] - sum[1] cos(x) + sum[2] cos(2x) - ... */
    enum {
        TPI_WINDOW_COSINES,
        TPI_WINDOW_TRIANGLE,
        TPI_WINDOW_KAISER,
        TPI_WINDOW_SINE,
        TPI_WINDOW_GAUSSIAN,
        TPI_WINDOW_EXPONENTIAL,
        TPI_WINDOW_SUM
    } kind; /* as in window_gpu_kernel.h */
} tpi_window;

/* Written by a kernel: element i is the window's at i of `last`. NULL without an error: not served. */
tp_tensor *tpi_gpu_window(int64_t length, int64_t last, const tpi_window *w, tp_dtype dtype, tp_device device);
#endif

/* The FFT's kernels, compiled per instruction set and for both real types. */
#include "ops/fft.h"
#include <string.h>

#define T float
#define NAME _f32
#include "ops/fft_kernels.h"
#undef T
#undef NAME
#define T double
#define NAME _f64
#include "ops/fft_kernels.h"

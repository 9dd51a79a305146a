/* What unscale.c hands to GPUs. */
#ifndef TPI_UNSCALE_H
#define TPI_UNSCALE_H
#include "tensor/tensor.h"

/* The gradients of one device that runs kernels, which are dense, times the number. found: set if one was infinite or
 * NaN; the host waits once, at the end. */
bool tpi_unscale_on_gpu(tp_device device, int64_t n, tp_tensor *const *grads, double scale, bool *found);
#endif

/* Questions about devices: are two the same one, and is one a GPU? */
#ifndef TPI_SAME_DEVICE_H
#define TPI_SAME_DEVICE_H
#include <taper/base.h>

static inline bool tpi_same_device(tp_device a, tp_device b) { return a.type == b.type && a.index == b.index; }
static inline bool tpi_is_gpu(tp_device d) { return d.type == TP_CUDA || d.type == TP_XPU; }
#endif

/* Are two devices the same one? */
#ifndef TPI_SAME_DEVICE_H
#define TPI_SAME_DEVICE_H
#include <taper/base.h>

static inline bool tpi_same_device(tp_device a, tp_device b) { return a.type == b.type && a.index == b.index; }
#endif

/* The meta device: tensors with a shape, a dtype and strides, and no elements. */
#ifndef TPI_META_H
#define TPI_META_H
#include "device/gpu/driver.h"

extern const tpi_device_ops tpi_meta_ops;
extern const tpi_gpu_driver tpi_meta_driver;
#endif

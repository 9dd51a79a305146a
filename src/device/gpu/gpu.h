/* The members of the device table (device.h) that every GPU shares, whatever its driver; gpu.c puts them together. */
#ifndef TPI_GPU_H
#define TPI_GPU_H
#include "device/gpu/driver.h"

/* The table behind TP_CUDA or TP_XPU; NULL, and no error, where there is no such device (tp_gpu_missing says why). */
const tpi_device_ops *tpi_gpu_open(tp_device_type type);

bool tpi_gpu_map(tp_device device, const tpi_map_op *op, tpi_plan *plan, tpi_ctype compute, const tpi_param *params);  /* map.c */
bool tpi_gpu_copy(tp_device device, tpi_plan *plan);                                                                   /* copy.c */
bool tpi_gpu_fill(tp_device device, tpi_plan *plan, const tp_scalar *value);
bool tpi_gpu_fold(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced, tpi_ctype compute, const tpi_param *params); /* fold.c */
bool tpi_gpu_scan(const tpi_scan_op *op, tp_tensor *const *outs, tp_tensor *x, int dim, tpi_ctype compute, const tpi_param *params);             /* scan.c */
#endif

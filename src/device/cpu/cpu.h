/* The CPU's side of the device table: drivers that feed kernels from the tables with contiguous blocks. */
#ifndef TPI_CPU_H
#define TPI_CPU_H
#include "device/device.h"

#define TPI_CHUNK                                                                                      \
    32768 /* elements that one thread takes at a time; fixed, so that results do not depend on threads \
           */
#define TPI_WORTH_THREADS 65536 /* elements from which on waking the team pays */

extern const tpi_device_ops tpi_cpu_ops;

/* The dtype among those that narrow kernels read (device/device.h); TPI_NARROWS: it is none of them. */
static inline int tpi_narrow_of(int dtype) {
    switch (dtype) {
    case TP_BOOL: return TPI_NARROW_B8;
    case TP_UINT8: return TPI_NARROW_U8;
    case TP_INT8: return TPI_NARROW_I8;
    case TP_INT16: return TPI_NARROW_I16;
    case TP_FLOAT16: return TPI_NARROW_F16;
    case TP_BFLOAT16: return TPI_NARROW_BF16;
    default: return TPI_NARROWS;
    }
}

bool tpi_cpu_map(tp_device device, const tpi_map_op *op, tpi_plan *plan, tpi_ctype compute, const tpi_param *params);
bool tpi_cpu_fold(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced, tpi_ctype compute,
                  const tpi_param *params);
bool tpi_cpu_scan(const tpi_scan_op *op, tp_tensor *const *outs, tp_tensor *x, int dim, tpi_ctype compute,
                  const tpi_param *params);
bool tpi_cpu_copy(tp_device device, tpi_plan *plan);
bool tpi_cpu_fill(tp_device device, tpi_plan *plan, const tp_scalar *value);
#endif

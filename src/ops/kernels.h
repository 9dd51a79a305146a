/* The kernels that opgen wrote, one list per kind, sorted by their operators' names and ended by NULL. A derivative's
 * kernels are not in them. */
#ifndef TPI_KERNELS_H
#define TPI_KERNELS_H
#include "device/device.h"

extern const tpi_map_op *const tpi_maps[];
extern const tpi_fold_op *const tpi_folds[];
extern const tpi_scan_op *const tpi_scans[];
#endif

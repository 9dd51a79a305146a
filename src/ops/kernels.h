/* What opgen and the build wrote. Lists of kernels, one per kind, are sorted by their operators' names and ended by
 * NULL; a derivative's kernels are not in them. */
#ifndef TPI_KERNELS_H
#define TPI_KERNELS_H
#include "device/device.h"
#include "device/gpu/program.h"
#include <taper/call.h>

extern const tpi_map_op *const tpi_maps[];
extern const tpi_fold_op *const tpi_folds[];
extern const tpi_scan_op *const tpi_scans[];
extern const tpi_family tpi_families[];
extern const tp_operator *const tpi_operators[]; /* sorted by name */
extern const int64_t tpi_operator_total;
extern const tpi_kernel_text tpi_kernel_texts[]; /* ends with one that has no name */
#endif

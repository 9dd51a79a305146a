/* The members of the device table (device.h) that every GPU shares, whatever its driver; gpu.c puts them together. */
#ifndef TPI_GPU_H
#define TPI_GPU_H
#include "device/gpu/driver.h"

/* Whose memory is it that this thread takes, where no operator was entered (base/error.h)? The outermost native's,
 * map's, fold's or scan's; NULL: nobody's. bool mine = tpi_gpu_owner_begin(device, "add"); ... tpi_empty ...;
 * tpi_gpu_owner_end(mine); */
extern TPI_THREAD_LOCAL const char *tpi_gpu_owner;
static inline bool tpi_gpu_owner_begin(tp_device device, const char *op) {
    if (device.type <= TP_CPU || tpi_gpu_owner) return false;
    tpi_gpu_owner = op;
    return true;
}
static inline void tpi_gpu_owner_end(bool mine) {
    if (mine) tpi_gpu_owner = NULL;
}

/* The table behind TP_CUDA or TP_XPU; NULL, and no error, where there is no such device (tp_gpu_missing says why). */
const tpi_device_ops *tpi_gpu_open(tp_device_type type);

bool tpi_gpu_map(tp_device device, const tpi_map_op *op, tpi_plan *plan, tpi_ctype compute,
                 const tpi_param *params);           /* map.c */
bool tpi_gpu_copy(tp_device device, tpi_plan *plan); /* copy.c */
bool tpi_gpu_fill(tp_device device, tpi_plan *plan, const tp_scalar *value);
bool tpi_gpu_fold(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced, tpi_ctype compute,
                  const tpi_param *params); /* fold.c */
struct tpi_fold_prologue;
bool tpi_gpu_fold_of_program(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced,
                             tpi_ctype compute, const tpi_param *params, const struct tpi_fold_prologue *feed);
bool tpi_gpu_scan(const tpi_scan_op *op, tp_tensor *const *outs, tp_tensor *x, int dim, tpi_ctype compute,
                  const tpi_param *params); /* scan.c */
void *tpi_gpu_alloc_told(tp_device device,
                         size_t bytes); /* memory_history.c: of tensors, told to a watcher of memory */
void tpi_gpu_free_told(tp_device device, void *block, size_t bytes);
#endif

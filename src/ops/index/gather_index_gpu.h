/* Sums into places that tensors of numbers name, on GPUs: one piece behind index_put, index_add and scattered sums. The
 * order of each sum is fixed. */
#ifndef TPI_GATHER_INDEX_GPU_H
#define TPI_GATHER_INDEX_GPU_H
#include "ops/native_gpu.h"

/* index, by any tensors of numbers and masks; NULL without an error: declined. */
tp_tensor *tpi_gpu_index_many(tp_tensor *self, tp_tensors indices);
/* self's slices along dim d that index (one dim, numbers from 0 on) names, with source's added. False without an error:
 * declined. */
bool tpi_gpu_add_slices(tp_tensor *self, int d, tp_tensor *index, tp_tensor *source);
#endif

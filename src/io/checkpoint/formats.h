/* Writing named tensors: one function per format. Names are different, UTF-8 and not empty; tensors are there. */
#ifndef TPI_FORMATS_H
#define TPI_FORMATS_H
#include "tensor/tensor.h"
#include <taper/io.h>

bool tpi_npz_save(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors);
bool tpi_safetensors_save(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors);
bool tpi_pt_save(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors);
#endif

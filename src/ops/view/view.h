/* The geometry of views, for natives that look at or write into one. */
#ifndef TPI_VIEW_H
#define TPI_VIEW_H
#include "tensor/tensor.h"

bool tpi_geometry_select(tp_tensor *self, int64_t dim, int64_t index, tpi_geometry *out);
bool tpi_geometry_slice(tp_tensor *self, int64_t dim, int64_t start, int64_t end, int64_t step, tpi_geometry *out);
bool tpi_geometry_diagonal(tp_tensor *self, int64_t offset, int64_t dim1, int64_t dim2, tpi_geometry *out);
bool tpi_geometry_unfold(tp_tensor *self, int64_t dimension, int64_t size, int64_t step, tpi_geometry *out);
bool tpi_geometry_as_strided(tp_tensor *self, tp_ints size, tp_ints stride, int64_t storage_offset, tpi_geometry *out);
#endif

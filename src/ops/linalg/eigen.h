/* Decompositions that other natives build on: values only, results are owned by the caller. */
#ifndef TPI_LINALG_EIGEN_H
#define TPI_LINALG_EIGEN_H
#include "tensor/tensor.h"

bool tpi_native_eigh(tp_tensor *self, const char *UPLO, tp_tensor **out); /* eigenvalues, eigenvectors */
tp_tensor *tpi_native_eigvalsh(tp_tensor *self, const char *UPLO);
bool tpi_native_svd(tp_tensor *A, bool full_matrices, tp_tensor **out); /* U, S, Vh, all column-major */
tp_tensor *tpi_native_svdvals(tp_tensor *A);
#endif

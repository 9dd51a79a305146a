/* Our own product kernels, beside the BLAS: integers (which it does not know) and matrices too small to be worth a
 * library call. */
#ifndef TPI_PRODUCT_H
#define TPI_PRODUCT_H
#include "device/cpu/isa.h"
#include "linalg/blas.h"

/* One product of a batch, rows [first, first + rows) of it; integers wrap. */
TPI_ISA_DECLARE(void, tpi_integer_rows, (const tpi_product *p, int64_t batch, int64_t first, int64_t rows));
/* A whole product of a batch of float32 or float64 matrices, in the plain order of k. */
TPI_ISA_DECLARE(void, tpi_small_product, (const tpi_product *p, int64_t batch));
#endif

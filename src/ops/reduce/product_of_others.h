/* Products of all elements but one, by a tree: the kernels of prod_of_others. */
#ifndef TPI_OTHERS_H
#define TPI_OTHERS_H
#include "base/dtype.h"
#include "device/cpu/isa.h"
#include "device/device.h"

/* The scratch that both need beside x, in elements. */
#define TPI_OTHERS_SCRATCH(n, width) (((n) + 64) * (width))
/* The products of n elements for `width` columns side by side: x is (n, width), contiguous, of float32, float64,
 * complex64 or complex128. Returns where they are, in `scratch` or in x. */
TPI_ISA_DECLARE(const char *, tpi_product_tree,
                (tp_dtype dtype, int64_t n, int64_t width, const char *x, char *scratch));
/* out (n, width): for each element the product of the n - 1 others, times `start` (width; NULL: ones). `scratch` has
 * what tpi_product_tree left there. */
TPI_ISA_DECLARE(void, tpi_products_of_others,
                (tp_dtype dtype, int64_t n, int64_t width, const char *x, char *scratch, const char *start, char *out));
#endif

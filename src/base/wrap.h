/* Integers wrap around, as PyTorch's do; in C only unsigned ones may. For kernels that are written once for all element
 * types. */
#ifndef TPI_WRAP_H
#define TPI_WRAP_H
#include <stdint.h>
#define TPI_WRAPPING_SUM(a, b) _Generic((a), int64_t : (int64_t)((uint64_t)(a) + (uint64_t)(b)), default : (a) + (b))
#endif

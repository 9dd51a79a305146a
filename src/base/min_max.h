/* The smaller and the larger of two sizes. */
#ifndef TPI_MIN_MAX_H
#define TPI_MIN_MAX_H
#include <stdint.h>

static inline int64_t tpi_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tpi_max64(int64_t a, int64_t b) { return a > b ? a : b; }
#endif

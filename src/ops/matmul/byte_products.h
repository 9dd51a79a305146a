/* Products of floating-point numbers with weights of eight bits, on the CPU. */
#ifndef TPI_BYTE_PRODUCTS_H
#define TPI_BYTE_PRODUCTS_H
#include <stdint.h>
#include "device/cpu/isa.h"
#include "device/device.h"

/* out (m, n) = x (m, k) times the transpose of weight (n, k), whose rows have a scale each; all contiguous. An element
 * is the sum of eight or sixteen, each over every eighth or sixteenth of k: its bits depend on its row and its column
 * alone. */
typedef struct tpi_weight_only {
    int64_t m, n, k;
    const float *x, *scales;
    const int8_t *weight;
    float *out;
} tpi_weight_only;
TPI_ISA_DECLARE(void, tpi_weight_only_columns, (const tpi_weight_only *p, int64_t first, int64_t columns));
#endif

/* The vectorised part of normal_: see normal.isa.c. */
#ifndef TPI_NORMAL_H
#define TPI_NORMAL_H
#include <stdint.h>
#include "device/cpu/isa.h"

/* v: blocks of 16 uniforms in [0, 1), which become normals; n is a multiple of 16. */
TPI_ISA_DECLARE(void, tpi_normal_blocks, (int64_t n, float *v, float mean, float std));
#endif

/* The kernels of ctc_loss: logarithms of sums over the states of a target. */
#ifndef TPI_CTC_ROWS_H
#define TPI_CTC_ROWS_H
#include "device/cpu/isa.h"
#include "device/device.h"
#include <stdint.h>

/* out = log(exp(a) + exp(b) + exp(c + skip)) + emit for n states; -inf stands for what cannot be. */
TPI_ISA_DECLARE(void, tpi_ctc_step,
                (int64_t n, const double *a, const double *b, const double *c, const double *skip, const double *emit,
                 double *out));
/* out = exp(x). */
TPI_ISA_DECLARE(void, tpi_ctc_exp, (int64_t n, const double *x, double *out));
#endif

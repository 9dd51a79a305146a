/* What one step of an LSTM does to rows of its gates, in the order i, f, g, o: see lstm_rows.isa.c. */
#ifndef TPI_LSTM_ROWS_H
#define TPI_LSTM_ROWS_H
#include "device/cpu/isa.h"
#include "tensor/tensor.h"
#include "device/device.h"

/* step: gates (rows, 4 width) become their activations in place; before (the cells), cells and out have rows of width.
 * back: from the gradient of the output, of h and c after the step (dh, dc; dc becomes that of before), the gradient of
 * the gates. */
#define TPI_LSTM_KERNELS(REAL, suffix)                                                                        \
    TPI_ISA_DECLARE(void, tpi_lstm_step_##suffix,                                                             \
                    (int64_t rows, int64_t width, REAL * gates, const REAL *before, REAL *cells, REAL *out)); \
    TPI_ISA_DECLARE(void, tpi_lstm_back_##suffix,                                                             \
                    (int64_t rows, int64_t width, const REAL *acts, const REAL *before, const REAL *cells,    \
                     const REAL *grad, const REAL *dh, REAL *dc, REAL *dgates));
TPI_LSTM_KERNELS(float, f32)
TPI_LSTM_KERNELS(double, f64)
/* Do the shapes and dtypes of a layer's arguments fit each other? False and an error if not. */
bool tpi_lstm_layer_fits(const tp_tensor *gates, const tp_tensor *h0, const tp_tensor *c0, const tp_tensor *w_hh,
                         int64_t steps);
#endif

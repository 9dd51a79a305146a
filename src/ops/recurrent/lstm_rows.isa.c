/* One step of an LSTM, forward and backward, for float and double. */
#include "ops/recurrent/lstm_rows.h"
#include "device/cpu/element.h"

#define KERNELS "ops/recurrent/lstm_rows_kernels.h"
#include "ops/float_and_double.h"

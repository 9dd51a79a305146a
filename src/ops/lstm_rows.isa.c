/* One step of an LSTM, forward and backward, for float and double. */
#include "ops/lstm_rows.h"
#include "device/cpu/element.h"

#define KERNELS "ops/lstm_kernels.h"
#include "ops/both_reals.h"

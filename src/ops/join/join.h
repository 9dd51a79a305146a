/* What the files of ops/join share. */
#ifndef TPI_OPS_JOIN_H
#define TPI_OPS_JOIN_H
#include "ops/native.h"

/* By how many elements each dim of self (TP_MAX_DIMS numbers) is rolled, from 0 to its size; back: the other way round.
 * False and an error: shifts and dims do not fit. */
bool tpi_roll_shifts(const tp_tensor *self, tp_ints shifts, tp_ints dims, bool back, int64_t *shift);

/* On any device, by copies of blocks. */
tp_tensor *tpi_native_roll_dims(tp_tensor *self, tp_ints shifts, tp_ints dims);
tp_tensor *tpi_native_roll_back(tp_tensor *self, tp_ints shifts, tp_ints dims);
#endif

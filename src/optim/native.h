/* For updates that are made of operators: new values are computed for every parameter first, then written. */
#ifndef TPI_OPTIM_NATIVE_H
#define TPI_OPTIM_NATIVE_H
#include "optim/update.h"

/* Computes one parameter's new values into fresh tensors (owned): out[0] the parameter's, out[1 + k] its state k's,
 * NULL: as it was. It runs without a tape, in a scope of its own. */
typedef bool (*tpi_new_values_fn)(const double *option, tp_tensor *param, tp_tensor *grad, tp_tensor *const *state,
                                  tp_tensor **out);
bool tpi_update_by_values(int64_t n, const tpi_update_entry *entries, int64_t nstates, tpi_new_values_fn fn);
#endif

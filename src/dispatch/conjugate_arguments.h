/* Lazy conjugates and negatives (tensors with a mark: tensor/tensor.h) as arguments of a call that takes the detour:
 * operators that do not know marks get resolved copies. */
#ifndef TPI_CONJUGATE_ARGUMENTS_H
#define TPI_CONJUGATE_ARGUMENTS_H
#include "dispatch/detour.h"

/* Replaces marked arguments as the entry's rule says. False: an error is pending. */
bool tpi_marks_resolve(tpi_detour *detour, const tpi_operator_entry *entry, void *const *args, tp_tensor **written);
void tpi_marks_release(tpi_detour *detour);
#endif

/* Marked arguments (lazy conjugates and negatives) of a call that takes the detour: operators get resolved copies. */
#ifndef TPI_MARKS_H
#define TPI_MARKS_H
#include "dispatch/detour.h"

/* Replaces marked arguments as the entry's rule says. False: an error is pending. */
bool tpi_marks_resolve(tpi_detour *detour, const tpi_operator_entry *entry, void *const *args, tp_tensor **written);
void tpi_marks_release(tpi_detour *detour);
#endif

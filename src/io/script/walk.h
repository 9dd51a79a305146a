/* Going through everything that a value holds. */
#ifndef TPI_SCRIPT_WALK_H
#define TPI_SCRIPT_WALK_H
#include "io/script/value.h"

/* Calls visit for the value and all that is in it, each box once; false stops. */
bool tpi_script_walk(tpi_item *root, bool (*visit)(tpi_item *v, void *context), void *context);
#endif

/* For files of public functions that are written by hand, included after everything else: a message about an argument
 * or an option that such a function leaves, outside of any operator, begins with the function's name. Elsewhere
 * tpi_fail names the operator alone. */
#ifndef TPI_NAMED_ERRORS_H
#define TPI_NAMED_ERRORS_H
#include "base/error.h"

void *tpi_fail_in(const char *function, tp_code code, const char *format, ...) TP_PRINTF(3, 4);
#define tpi_fail(...) tpi_fail_in(__func__, __VA_ARGS__)
#endif

/* What looking values up in sorted ones shares among devices. */
#ifndef TPI_SEARCH_H
#define TPI_SEARCH_H
#include "tensor/tensor.h"

tp_dtype tpi_search_dtype(const tp_tensor *a, const tp_tensor *b); /* in which the values of both are compared */
bool tpi_search_fits(const tp_tensor *sequence,
                     const tp_tensor *values); /* one row, or a row for each of the values' rows? No error. */
#endif

/* What histograms share among devices. */
#ifndef TPI_HISTOGRAM_H
#define TPI_HISTOGRAM_H
#include "tensor/tensor.h"

/* The range asked for, or that of the elements when low == high; a single point widens on each side. v: n elements,
 * `step` apart. False: an error that names the argument. */
bool tpi_find_range(const double *v, int64_t n, int64_t step, double widen, double *low, double *high,
                    const char *argument);
/* bins + 1 edges from low to high, exact at both ends, in float64, on the host: owned. */
tp_tensor *tpi_even_edges(int64_t bins, double low, double high);
#endif

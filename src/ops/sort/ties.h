/* Which of several equal elements topk and kthvalue give. PyTorch's answer on the CPU is whatever its selection
 * leaves behind, so the same selections run here: those of the C++ standard library (GNU's: quickselect and quicksort
 * with the median of three, heaps) and the quickselect of kthvalue. They cost more than a selection by radix, and the
 * caller runs them only for a row in which equal elements make a difference. */
#ifndef TPI_TIES_H
#define TPI_TIES_H
#include "ops/sort/order.h"

/* The k smallest of n items in order, as topk has them: std::partial_sort where k is small beside n, otherwise
 * std::nth_element and std::sort. */
void tpi_ties_smallest(tpi_pair *x, int64_t n, int64_t k);
/* The item that kthvalue's quickselect puts at k. */
tpi_pair tpi_ties_kth(tpi_pair *x, int64_t n, int64_t k);
#endif

/* Which of several equal elements topk and kthvalue give. PyTorch's answer on the CPU is whatever its selection
 * leaves behind, so the same selections run here: those of the C++ standard library (GNU's: quickselect and quicksort
 * with the median of three, heaps) and the quickselect of kthvalue. Where no elements are equal, a selection by radix
 * gives the same, and may be quicker. */
#ifndef TPI_TIES_H
#define TPI_TIES_H
#include "ops/sort/order.h"

/* The k smallest elements of the row in order to the front of o, as topk has them: std::partial_sort where k is small
 * beside the row, otherwise std::nth_element and std::sort. */
void tpi_ties_smallest(tpi_row_order *o, int64_t k, const tpi_row *row);
/* Is k so small beside a row of n? Then one look at each element is enough, and nothing is quicker. */
bool tpi_ties_are_few(int64_t n, int64_t k);
/* Where the element stands that kthvalue's quickselect puts at k. */
int64_t tpi_ties_kth(tpi_row_order *o, int64_t k, const tpi_row *row);
#endif

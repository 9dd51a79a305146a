/* Which elements of two tensors lie in the same memory, and what may be written where they do. */
#ifndef TPI_OVERLAP_H
#define TPI_OVERLAP_H
#include "tensor/tensor.h"

/* What an input may have in common with what is written. */
typedef enum tpi_overlap_rule {
    TPI_OVERLAP_SAME, /* nothing, or every element in the same place: x.mul_(x) */
    TPI_OVERLAP_NONE  /* nothing: an operator that reads elsewhere than it writes */
} tpi_overlap_rule;

/* Whether the two may share memory without being the very same elements in the same places. */
bool tpi_shares_memory(const tp_tensor *a, const tp_tensor *b);
/* False and PyTorch's error if two elements of t are certain to be one: an expanded tensor cannot be written. */
bool tpi_check_no_shared_elements(const tp_tensor *t);
/* False and PyTorch's error if `input` is certain to break the rule. As in PyTorch, tensors with gaps are not looked
 * at, so an operator still has to cope with them. */
bool tpi_check_overlap(const tp_tensor *written, const tp_tensor *input, tpi_overlap_rule rule);
#endif

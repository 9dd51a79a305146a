/* Images and volumes whose channels are the fastest dim of memory. */
#ifndef TPI_CHANNELS_LAST_H
#define TPI_CHANNELS_LAST_H
#include "tensor/tensor.h"

/* The layout that results of t have: channels_last where its strides are in that order, even with gaps between
 * elements, else contiguous. Where sizes of one leave the order open it is contiguous, unless the channels' stride says
 * otherwise. */
tp_layout tpi_suggested_layout(const tp_tensor *t);
/* The layout of images or volumes of ndim dims: contiguous, or channels_last; of others contiguous. */
tp_layout tpi_layout_of(bool channels_last, int64_t ndim);
/* Images or volumes without gaps whose channels are the fastest dim of memory; a tensor may be so and contiguous at
 * once. The second is true where it is not contiguous too. */
bool tpi_is_channels_last(const tp_tensor *t);
bool tpi_is_only_channels_last(const tp_tensor *t);
#endif

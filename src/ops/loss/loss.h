/* What losses share: how a reduction is named, and the class dim of inputs laid out as PyTorch's losses want them. */
#ifndef TPI_LOSS_H
#define TPI_LOSS_H
#include "tensor/tensor.h"

typedef enum tpi_reduction { TPI_REDUCE_NONE, TPI_REDUCE_MEAN, TPI_REDUCE_SUM, TPI_REDUCE_BAD } tpi_reduction;
/* TPI_REDUCE_BAD and an error for anything but "none", "mean" and "sum". */
tpi_reduction tpi_reduction_of(const char *name);

/* An input of shape (C), (N, C) or (N, C, d1, ...) as (outer, classes, inner), with targets (), (N) or (N, d1, ...). */
typedef struct tpi_class_shape {
    int64_t outer, classes, inner;
    int ndim;                   /* of the target */
    int64_t shape[TP_MAX_DIMS]; /* of the target */
} tpi_class_shape;
/* False and an error that names the shapes if they do not go together. */
bool tpi_class_shape_of(tp_ints input, const tp_tensor *target, const tp_tensor *weight, tpi_class_shape *out);
/* The target as contiguous int64, every entry in [0, classes) or ignore_index: owned; NULL and an error otherwise. */
tp_tensor *tpi_class_targets(tp_tensor *target, int64_t classes, int64_t ignore_index);

#endif

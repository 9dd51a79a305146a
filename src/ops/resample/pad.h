/* What is asked of a padding by index, read and checked once for all devices. */
#ifndef TPI_PAD_H
#define TPI_PAD_H
#include "tensor/tensor.h"

typedef enum tpi_pad_mode { TPI_PAD_REFLECT, TPI_PAD_REPLICATE, TPI_PAD_CIRCULAR } tpi_pad_mode;
bool tpi_pad_mode_of(const char *text, tpi_pad_mode *mode);
/* The mode, and the shape of the result; false and an error for amounts that do not go with the input. */
bool tpi_pad_read(const tp_tensor *self, tp_ints pad, const char *mode_text, tpi_pad_mode *mode, int64_t *shape);
#endif

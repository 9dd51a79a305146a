/* Memory that a program gets without values. With deterministic algorithms it holds the same values each time, those
 * that show a mistake best. */
#ifndef TPI_UNINITIALIZED_H
#define TPI_UNINITIALIZED_H
#include "tensor/tensor.h"

/* t, filled if that was asked for; NULL (t released) if it cannot be. t may be NULL. */
tp_tensor *tpi_uninitialized(tp_tensor *t);
/* The same for what lies behind the first `bytes` of t's storage: it has grown. */
bool tpi_uninitialized_from(tp_tensor *t, size_t bytes);
#endif

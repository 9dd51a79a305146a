/* base/named_errors.h, for tensors too: "tp_set_grad: argument 't': expected a tensor, got NULL". */
#ifndef TPI_NAMED_TENSOR_ERRORS_H
#define TPI_NAMED_TENSOR_ERRORS_H
#include "base/named_errors.h"
#include "tensor/tensor.h"
#include <string.h>

static inline bool tpi_is_tensor_of(const tp_tensor *t, const char *argument, const char *function) {
    if (__builtin_expect(t && t->alive == TPI_ALIVE, 1)) return true;
    const char *before = strncmp(function, "tp_", 3) ? tpi_op_now : tpi_op_enter(function);
    const bool there = tpi_is_tensor(t, argument);
    tpi_op_leave(before);
    return there;
}
#define tpi_is_tensor(t, argument) tpi_is_tensor_of(t, argument, __func__)
#endif

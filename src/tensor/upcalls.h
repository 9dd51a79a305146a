/* The one table by which lower levels call higher ones. Everything else in the library calls downwards:
 *
 *   base <- tensor <- device <- linalg <- dispatch <- {autograd, ops} <- {nn, optim, graph} <- {dist, data, io}
 *
 * A tensor's memory and copies are a device's; its history is the tape's; a cast under mixed precision is a recorded
 * operator; operators and kernel texts are what opgen wrote. src/ops/upcalls.c fills the table in.
 * tests/include_directions_test.sh finds calls upwards that do not go through it. */
#ifndef TPI_UPCALLS_H
#define TPI_UPCALLS_H
#include <taper/call.h>
#include "tensor/tensor.h"

typedef struct tpi_upcalls {
    /* device: memory of a storage's own, and plain copies without a tape */
    void *(*alloc)(tp_device device, size_t bytes);
    void (*free)(tp_device device, void *block, size_t bytes);
    bool (*copy)(tp_tensor *dst, const tp_tensor *src);
    bool (*fill)(tp_tensor *dst, tp_scalar value);
    /* autograd */
    void (*free_history)(tp_tensor *t); /* the last reference to a tensor with `autograd` goes */
    void (*new_view)(tp_tensor *view, tp_tensor *of);
    bool (*requires_grad)(const tp_tensor *t);       /* for printing */
    const char *(*grad_fn_name)(const tp_tensor *t); /* for printing: "MulBackward0", NULL for leaves */
    bool (*is_leaf)(const tp_tensor *t);
    tp_tensor *(*cast)(tp_tensor *t, tp_dtype dtype); /* recorded like any call */
    /* marked tensors (tensor/tensor.h) */
    tp_tensor *(*resolve)(tp_tensor *t); /* a copy with the elements in memory */
    tp_tensor *(*conj_or_neg)(tp_tensor *t,
                              tp_dtype dtype);          /* the conjugate, or negative where it is real, in the dtype */
    tp_tensor *(*marked_view)(tp_tensor *t);            /* t's memory with the mark turned */
    bool (*write_back)(tp_tensor *to, tp_tensor *from); /* copy_ */
    /* What opgen wrote */
    const tp_operator *const *operators; /* sorted by name */
    const int64_t *noperators;
    const struct tpi_kernel_text *kernel_texts; /* device/gpu/program.h */
} tpi_upcalls;
extern const tpi_upcalls tpi_above;
#endif

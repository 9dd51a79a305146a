/* Storage: the memory under tensors. For src/tensor, and for layers above that bring memory of their own. */
#ifndef TPI_STORAGE_H
#define TPI_STORAGE_H
#include "tensor/tensor.h"

/* Bytes of storages that this thread made, less those of storages it freed: of all, and of those on other devices than
 * the CPU. Profiles read them. */
extern TPI_THREAD_LOCAL int64_t tpi_storage_balance, tpi_device_balance;

/* Uninitialised memory of the device, one reference. NULL and an error on failure. */
tpi_storage *tpi_storage_new(tp_device device, size_t bytes);
/* Somebody else's memory; release(context), if given, is called once when the last reference goes. On failure it is not
 * called. */
tpi_storage *tpi_storage_over(void *data, size_t bytes, tp_device device, void (*release)(void *context),
                              void *context);
/* A storage over the memory of `owner`, which it keeps. Who has it alone may write it as if it were his own block; the
 * owner's references tell whether anybody has it. NULL and an error on failure. */
tpi_storage *tpi_storage_lend(tpi_storage *owner);
/* Makes it `bytes` large, keeping its contents. If it has to move, whoever remembers the address must look again. */
bool tpi_storage_resize(tpi_storage *s, size_t bytes);
void tpi_storage_free(tpi_storage *s); /* the last reference is gone */
/* Gives the memory back and leaves the header, whose address still stands for what was there. Nobody may look at the
 * elements any more. */
void tpi_storage_empty(tpi_storage *s);

static inline tpi_storage *tpi_storage_retain(tpi_storage *s) {
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}
static inline void tpi_storage_release(tpi_storage *s) {
    /* Whoever holds the only reference can skip the locked instruction: nobody else can add one. */
    if (atomic_load_explicit(&s->refs, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        tpi_storage_free(s);
}

/* A tensor over `s` (its reference is handed over, also on failure) at the byte offset, with the given geometry
 * (checked to lie within the storage). Strides not given: contiguous. */
tp_tensor *tpi_tensor_over(tpi_storage *s, tp_dtype dtype, tp_ints shape, tp_ints strides, int64_t byte_offset);
/* The bytes that a tensor of this geometry spans from its first element on; -1 and an error if they overflow. */
int64_t tpi_span_bytes(tp_ints shape, tp_ints strides, tp_dtype dtype);
#endif

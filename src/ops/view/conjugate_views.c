/* Lazy conjugates and negatives: views with a mark (tensor/tensor.h) that share memory with what they were made of. */
#include "ops/native.h"
#include "tpi_ops.h"

tp_tensor *tpi_native_marked_view(tp_tensor *self) {
    tp_tensor *t = tpi_alias(self, self->ndim, self->shape, self->strides, tpi_offset(self));
    if (t) tpi_flip_mark(t);
    return t;
}

/* The elements of a marked tensor, in memory of their own. */
tp_tensor *tpi_native_resolved(tp_tensor *self) {
    tp_tensor *memory = tpi_detached(self);
    if (!memory) return NULL;
    if (!tpi_marked(memory)) return tpi_release_then(memory, tpo_clone(memory, TP_PRESERVE));
    tpi_flip_mark(memory);
    const bool complex = tp_dtype_is_complex((tp_dtype)memory->dtype);
    return tpi_release_then(memory, complex ? tpo_conj_physical(memory) : tpo_neg(memory));
}

tp_tensor *tpi_compose_conj(tp_tensor *self) {
    return tp_dtype_is_complex((tp_dtype)self->dtype) ? tpo_conj_view(self) : tpi_retain(self);
}

tp_tensor *tpi_compose_resolve_conj(tp_tensor *self) {
    return tp_dtype_is_complex((tp_dtype)self->dtype) ? tpi_resolved(self) : tpi_retain(self);
}

tp_tensor *tpi_compose_resolve_neg(tp_tensor *self) {
    return tp_dtype_is_complex((tp_dtype)self->dtype) ? tpi_retain(self) : tpi_resolved(self);
}

bool tp_is_conj(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    return tpi_marked(t) && tp_dtype_is_complex((tp_dtype)t->dtype);
}
bool tp_is_neg(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    return tpi_marked(t) && !tp_dtype_is_complex((tp_dtype)t->dtype);
}

/* ---- For the way into an operator (dispatch/conjugate_arguments.c) ---- */
tp_tensor *tpi_conj_or_neg(tp_tensor *t, tp_dtype dtype) {
    tp_tensor *plain = tpi_resolved(t), *same = plain ? tpo_to_dtype(plain, dtype) : NULL;
    tp_tensor *resolved = same ? (tp_dtype_is_complex(dtype) ? tpo_conj_physical(same) : tpo_neg(same)) : NULL;
    tp_release(plain);
    tp_release(same);
    return resolved;
}

bool tpi_write_back(tp_tensor *to, tp_tensor *from) { return tpo_copy_(to, from, false) != NULL; }

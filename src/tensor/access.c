/* What a tensor is, and its elements as plain C values. Every function takes NULL for a tensor: it leaves an error
 * (unless one is pending) and answers -1, NULL, false or NaN, so that these too can stand at the end of a chain of
 * calls. */
#include "tensor/same_device.h"
#include "tensor/recorder.h"
#include <math.h>
#include <string.h>

#define given(t) tpi_is_tensor(t, "t")

int tp_ndim(const tp_tensor *t) { return given(t) ? t->ndim : -1; }
int64_t tp_numel(const tp_tensor *t) { return given(t) ? t->numel : -1; }
tp_ints tp_shape(const tp_tensor *t) { return given(t) ? tpi_shape(t) : tp_no_ints(); }
tp_ints tp_strides(const tp_tensor *t) { return given(t) ? tpi_strides(t) : tp_no_ints(); }
tp_dtype tp_dtype_of(const tp_tensor *t) { return given(t) ? (tp_dtype)t->dtype : TP_NO_DTYPE; }
tp_device tp_device_of(const tp_tensor *t) { return given(t) ? tpi_device(t) : (tp_device){0, 0}; }
int64_t tp_storage_offset(const tp_tensor *t) { return given(t) ? tpi_offset(t) : -1; }
int64_t tp_storage_bytes(const tp_tensor *t) { return given(t) ? (int64_t)t->storage->bytes : -1; }
void *tp_data(const tp_tensor *t) {
    if (!given(t) || tpi_device(t).type == TP_META) return NULL;
    tpi_looked(t);
    return t->data;
}
bool tp_is_view(const tp_tensor *t) { return given(t) && t->base; }
bool tp_shares_storage(const tp_tensor *a, const tp_tensor *b) {
    return given(a) && given(b) && a->storage == b->storage;
}
int64_t tp_tensor_version(const tp_tensor *t) { return given(t) ? (int64_t)tpi_version(t) : -1; }
tp_tensor *tp_base(const tp_tensor *t) { return given(t) ? t->base : NULL; }
int64_t tp_item_bytes(const tp_tensor *t) { return given(t) ? (int64_t)tpi_itemsize(t) : -1; }
bool tp_overlaps_itself(const tp_tensor *t) { return given(t) && tpi_overlaps_itself(t); }

static const char *end_of(const tp_tensor *t) {
    int64_t last = 0;
    for (int d = 0; d < t->ndim; d++) last += (t->shape[d] - 1) * t->strides[d];
    return t->data + (last + 1) * (int64_t)tpi_itemsize(t);
}

bool tp_overlaps(const tp_tensor *a, const tp_tensor *b) {
    if (!given(a) || !given(b) || !a->numel || !b->numel || !tpi_same_device(tpi_device(a), tpi_device(b)))
        return false;
    return a->data < end_of(b) && b->data < end_of(a);
}

void *tp_binding(const tp_tensor *t) { return given(t) ? t->binding : NULL; }
int64_t tp_references(const tp_tensor *t) {
    return given(t) ? atomic_load_explicit(&t->refs, memory_order_acquire) : -1;
}

bool tp_set_binding(tp_tensor *t, void *object, void (*gone)(void *object)) {
    if (!given(t)) return false;
    t->binding = object;
    t->binding_gone = object ? gone : NULL;
    return true;
}

/* A zero-dimensional tensor has no sizes to ask for, though operators take its dim 0 and -1. */
static int dim_of(const tp_tensor *t, int64_t dim, const char *function) {
    if (!tpi_given(t, function, "t", "a tensor") || !tpi_is_tensor(t, "t")) return -1;
    const char *before = tpi_op_enter(function);
    int d = -1;
    if (t->ndim)
        d = TPI_DIM(t, dim);
    else
        tpi_fail(TP_ERR_INDEX, "argument 'dim': dimension %lld specified but the tensor has no dimensions",
                 (long long)dim);
    tpi_op_leave(before);
    return d;
}

int64_t tp_size(const tp_tensor *t, int64_t dim) {
    int d = dim_of(t, dim, __func__);
    return d < 0 ? -1 : t->shape[d];
}

int64_t tp_stride(const tp_tensor *t, int64_t dim) {
    int d = dim_of(t, dim, __func__);
    return d < 0 ? -1 : t->strides[d];
}

tp_scalar tp_item_scalar(const tp_tensor *t) {
    if (!given(t)) return tp_no_scalar();
    if (t->numel != 1) {
        tpi_fail(TP_ERR_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar", (long long)t->numel);
        return tp_no_scalar();
    }
    if (!tp_dtype_has_values((tp_dtype)t->dtype)) {
        tpi_fail(TP_ERR_MISSING, "\"_local_scalar_dense_cpu\" not implemented for '%s'",
                 tp_dtype_word((tp_dtype)t->dtype));
        return tp_no_scalar();
    }
    tpi_looked(t);
    if (tpi_marked(t)) {
        tp_tensor *plain = tpi_resolve((tp_tensor *)(uintptr_t)t);
        tp_scalar s = plain ? tp_item_scalar(plain) : tp_no_scalar();
        tp_release(plain);
        return s;
    }
    if (tpi_device(t).type == TP_CPU) return tpi_load_scalar(t->data, (tp_dtype)t->dtype);
    if (tpi_device(t).type == TP_META) {
        tpi_fail(TP_ERR_RUNTIME, "Tensor.item() cannot be called on meta tensors");
        return tp_no_scalar();
    }
    tp_tensor *here = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0});
    tp_scalar s = here && tpi_copy_data(here, t) ? tpi_load_scalar(here->data, (tp_dtype)t->dtype) : tp_no_scalar();
    tp_release(here);
    return s;
}

/* The item as a real number: a complex one is only taken if its imaginary part is zero. */
static bool real_item(const tp_tensor *t, tp_scalar *s, const char *kind, const char *function) {
    const char *before = tpi_op_enter(function);
    *s = tp_item_scalar(t);
    tpi_op_leave(before);
    if (s->kind == TP_SCALAR_NONE) return false;
    if (s->kind == TP_SCALAR_COMPLEX && s->as.d[1] != 0)
        return tpi_refuse(TP_ERR_RUNTIME, "value (%g%+gj) cannot be converted to %s: its imaginary part is not zero",
                          s->as.d[0], s->as.d[1], kind);
    return true;
}

double tp_item(const tp_tensor *t) {
    tp_scalar s;
    return real_item(t, &s, "a double", __func__) ? tp_scalar_to_double(s) : (double)NAN;
}

int64_t tp_item_int(const tp_tensor *t) {
    tp_scalar s;
    if (!real_item(t, &s, "an integer", __func__)) return -1;
    if (s.kind == TP_SCALAR_FLOAT && !(s.as.d[0] >= -9223372036854775808.0 && s.as.d[0] < 9223372036854775808.0)) {
        tpi_fail(TP_ERR_VALUE, "cannot convert float %g to an integer", s.as.d[0]);
        return -1;
    }
    return tp_scalar_to_int(s);
}

bool tp_copy_out(const tp_tensor *t, void *out, size_t bytes) {
    if (!given(t)) return false;
    size_t need = (size_t)t->numel * tpi_itemsize(t);
    if (bytes < need)
        return tpi_refuse(TP_ERR_VALUE, "argument 'bytes': expected room for %zu bytes (%lld elements of %s), got %zu",
                          need, (long long)t->numel, tp_dtype_name((tp_dtype)t->dtype), bytes);
    if (need && !out) return tpi_refuse(TP_ERR_VALUE, "argument 'out': expected room for %zu bytes, got NULL", need);
    if (!need) return true;
    if (tpi_marked(t)) {
        tp_tensor *plain = tpi_resolve((tp_tensor *)(uintptr_t)t);
        bool ok = plain && tp_copy_out(plain, out, bytes);
        tp_release(plain);
        return ok;
    }
    tpi_looked(t);
    if (tpi_device(t).type == TP_CPU && tp_is_contiguous(t)) {
        memcpy(out, t->data, need);
        return true;
    }
    tp_tensor *here = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0});
    bool ok = here && tpi_copy_data(here, t);
    if (ok) memcpy(out, here->data, need);
    tp_release(here);
    return ok;
}

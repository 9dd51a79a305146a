/* A tensor gets other memory (.data =, set_, resize_), or others write to its memory. Whoever holds the tensor sees the
 * new data; its gradient, its hooks and its version count stay. A leaf that the tape has saved is seen with its new
 * data, as in PyTorch. */
#include <string.h>
#include "tensor/same_device.h"
#include "tensor/check_arguments.h"
#include "autograd/tape.h"
#include "device/uninitialized.h"

static bool given(const tp_tensor *t, const char *name) { return tpi_is_tensor(t, name); }

tp_tensor *tp_data_alias(tp_tensor *t) {
    if (!given(t, "t")) return NULL;
    tp_tensor *alias = tpi_detached(t);
    if (alias && !tpi_count_versions(alias, 0)) {
        tpi_release(alias);
        return NULL;
    }
    return tpi_to_scope(alias);
}

/* A leaf's accumulation node asks for gradients of the shape, dtype and device that the leaf had: graphs from now on
 * get another. */
static void forget_accumulator(tp_tensor *t) {
    tpi_autograd *ag = tpi_autograd_of(t);
    if (!ag) return;
    tpi_weak_lock(t);
    ag->accumulator = NULL;
    tpi_weak_unlock(t);
}

static bool looks_alike(const tp_tensor *a, const tp_tensor *b) {
    return a->dtype == b->dtype && tpi_same_shape(a, b) && tpi_same_device(tpi_device(a), tpi_device(b));
}

/* A view's history comes from its base, which it is about to leave: it is brought up to date first. */
static bool refresh(tp_tensor *t) { return !t->base || !tpi_view_is_stale(t) || tpi_view_refresh(t); }

bool tp_set_data(tp_tensor *t, const tp_tensor *other) {
    TPI_STOP_ON_ERROR(false);
    if (!given(t, "t") || !given(other, "other") || t == other) return t && other;
    if (t->requires_grad && !tpi_differentiable(other))
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "data set to a tensor that requires gradients must be floating point or complex dtype, got %s",
            tp_dtype_name((tp_dtype)other->dtype));
    if (!refresh(t)) return false;
    tpi_geometry g = {.ndim = other->ndim, .offset = tpi_offset(other), .dtype = (tp_dtype)other->dtype};
    if (other->ndim) {
        memcpy(g.shape, other->shape, (size_t)other->ndim * sizeof *g.shape);
        memcpy(g.strides, other->strides, (size_t)other->ndim * sizeof *g.strides);
    }
    bool alike = looks_alike(t, other);
    if (!tpi_set_storage(t, other->storage, &g)) return false;
    t->flags = (other->flags & (TPI_INFERENCE | TPI_UNTRACKED)) | (t->flags & TPI_MARKED);
    if (tpi_marked(t) != tpi_marked(other)) tpi_flip_mark(t);
    if (!alike) forget_accumulator(t);
    return true;
}

/* The shape and strides as the user gave them. */
static bool geometry_of(int64_t offset, tp_ints shape, tp_ints strides, tpi_geometry *g) {
    if (!tpi_sound_list(shape.v, shape.n, "shape") || !tpi_sound_list(strides.v, strides.n, "strides")) return false;
    if (shape.n > TP_MAX_DIMS)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'shape': expected at most %d dimensions, got %lld", TP_MAX_DIMS,
                          (long long)shape.n);
    if (strides.v && strides.n != shape.n)
        return tpi_refuse(TP_ERR_VALUE, "argument 'strides': expected %lld strides for shape %s, got %lld",
                          (long long)shape.n, tpi_shape_text(shape), (long long)strides.n);
    if (offset < 0)
        return tpi_refuse(TP_ERR_VALUE, "argument 'offset': expected 0 or more, got %lld", (long long)offset);
    if (tpi_numel_of(shape) < 0) return false;
    *g = (tpi_geometry){.ndim = (int)shape.n, .offset = offset};
    for (int64_t i = 0; i < shape.n; i++) g->shape[i] = shape.v[i];
    tpi_contiguous_strides(shape, g->strides);
    for (int64_t i = 0; strides.v && i < shape.n; i++) g->strides[i] = strides.v[i];
    return true;
}

bool tp_set_storage(tp_tensor *t, tp_storage *storage, int64_t offset, tp_ints shape, tp_ints strides) {
    if (TPI_ENDED(storage, "a storage")) return false;
    TPI_STOP_ON_ERROR(false);
    tpi_geometry g;
    if (!given(t, "t")) return false;
    if (!storage) return tpi_refuse(TP_ERR_TYPE, "argument 'storage': expected a storage, got NULL");
    if (!tpi_grad_off && !tpi_check_recorded_write(t)) return false;
    if (!tpi_grad_off && tpi_has_history(t))
        return tpi_refuse(TP_ERR_RUNTIME, "set_ cannot be recorded: the tensor is a result of %s", tp_grad_fn_name(t));
    if (!tpi_same_device(storage->device, tpi_device(t)))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'storage': expected one on the tensor's device");
    if (!geometry_of(offset, shape, strides, &g) || !refresh(t) || !tpi_set_storage(t, storage, &g)) return false;
    forget_accumulator(t);
    tpi_touch(t);
    return true;
}

bool tp_resize(tp_tensor *t, tp_ints shape) {
    TPI_STOP_ON_ERROR(false);
    if (!given(t, "t")) return false;
    if (!tpi_sound_list(shape.v, shape.n, "shape")) return false;
    if (tp_requires_grad(t)) return tpi_refuse(TP_ERR_RUNTIME, "cannot resize variables that require grad");
    size_t before = t->storage->bytes;
    if (!tpi_resize(t, shape) || !tpi_uninitialized_from(t, before)) return false;
    tpi_touch(t);
    return true;
}

bool tp_mark_written(tp_tensor *t) {
    if (!given(t, "t")) return false;
    tpi_touch(t);
    return true;
}

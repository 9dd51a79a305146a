/* Tensors: making, aliasing, resizing and releasing them, and telling what they are.
 *
 * A header comes from the free lists and holds up to TPI_INLINE_DIMS dims inside; more live in a block of their own.
 * The invariants every function here keeps: data lies within the storage for all indices, strides are never negative,
 * `base` is never a view itself. Releasing never recurses: a base has no base, and the tape frees its graphs in a loop
 * of its own. */
#include "base/handle.h"
#include "tensor/recorder.h"
#include "tensor/upcalls.h"
#include "tensor/storage.h"
#include "tensor/sizes.h"
#include <stdlib.h>
#include <string.h>

TPI_THREAD_LOCAL tp_device tpi_device_default = {TP_CPU, 0};

/* ---- Headers ---- */

static size_t dims_bytes(int ndim) { return 2 * (size_t)ndim * sizeof(int64_t); }

static bool has_dims(int64_t ndim) {
    if (ndim <= TP_MAX_DIMS) return true;
    return tpi_refuse(TP_ERR_RUNTIME, "argument 'shape': expected at most %d dimensions, got %lld", TP_MAX_DIMS,
                      (long long)ndim);
}

static bool is_dtype(tp_dtype dtype) {
    if ((unsigned)dtype - 1u < TP_DTYPE_COUNT - 1u) return true;
    return tpi_refuse(TP_ERR_TYPE, "argument 'dtype': expected a dtype, got number %d", (int)dtype);
}

/* Everything but numel, sizes, strides, storage and data is set. */
static tp_tensor *header_new(int64_t ndim, tp_dtype dtype) {
    if (!is_dtype(dtype) || !has_dims(ndim)) return NULL;
    tp_tensor *t = tpi_new(sizeof *t);
    if (!t) return NULL;
    t->shape = t->inline_dims;
    if (ndim > TPI_INLINE_DIMS && !(t->shape = tpi_new(dims_bytes((int)ndim)))) {
        tpi_delete(t, sizeof *t);
        return NULL;
    }
    t->strides = t->shape + ndim;
    atomic_init(&t->refs, 1);
    atomic_init(&t->scoped, 0);
    t->alive = TPI_ALIVE;
    t->dtype = (uint8_t)dtype;
    t->ndim = (uint8_t)ndim;
    t->flags = 0;
    t->requires_grad = false;
    t->autograd = NULL;
    t->base = NULL;
    t->binding = NULL;
    t->binding_gone = NULL;
    t->counter = NULL;
    tpi_handle_made(t, "tensor");
    return t;
}

static void header_free(tp_tensor *t) {
    if (t->shape != t->inline_dims) tpi_delete(t->shape, dims_bytes(t->ndim));
    t->alive = 0;
    tpi_handle_delete(t, sizeof *t);
}

bool tpi_tensor_given(const tp_tensor *t, const char *argument, const char *function) {
    if (t && t->alive == TPI_ALIVE) return true;
    if (!t)
        tpi_fail_in(function, TP_ERR_TYPE, "argument '%s': expected a tensor, got NULL", argument);
    else
        tpi_fail_in(function, TP_ERR_VALUE,
                    "argument '%s': expected a tensor, got one that was released before, or whose scope has ended",
                    argument);
    return false;
}

/* ---- Version counters of their own ---- */

static tpi_counter *share_counter(const tp_tensor *t) {
    if (t->counter) atomic_fetch_add_explicit(&t->counter->refs, 1, memory_order_relaxed);
    return t->counter;
}

static void drop_counter(tpi_counter *counter) {
    if (counter && atomic_fetch_sub_explicit(&counter->refs, 1, memory_order_acq_rel) == 1)
        tpi_delete(counter, sizeof *counter);
}

bool tpi_count_versions(tp_tensor *t, uint32_t from) {
    tpi_counter *counter = tpi_new(sizeof *counter);
    if (!counter) return false;
    atomic_init(&counter->refs, 1);
    atomic_init(&counter->version, from);
    drop_counter(t->counter);
    t->counter = counter;
    return true;
}

atomic_int tpi_marks;
tp_tensor *tpi_resolve(tp_tensor *t) { return tpi_above.resolve(t); }

void tpi_flip_mark(tp_tensor *t) {
    t->flags ^= TPI_MARKED;
    atomic_fetch_add_explicit(&tpi_marks, tpi_marked(t) ? 1 : -1, memory_order_relaxed);
    if (tpi_marked(t)) tpi_met_mark();
}

static void tensor_free(tp_tensor *t) {
    if (t->binding_gone) { /* the last reference is its */
        void (*gone)(void *) = t->binding_gone;
        t->binding_gone = NULL;
        atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
        gone(t->binding);
        return;
    }
    if (t->autograd) tpi_above.free_history(t);
    if (tpi_marked(t)) tpi_flip_mark(t);
    tp_tensor *base = t->base;
    tpi_storage_release(t->storage);
    if (t->counter) drop_counter(t->counter);
    header_free(t);
    if (base) tp_release(base);
}

tp_tensor *tp_retain(tp_tensor *t) { return !t || tpi_is_tensor(t, "t") ? tpi_retain(t) : NULL; }

/* The last reference is given back while scopes count on theirs: the caller gave back one that a scope owns. */
static void free_scoped(tp_tensor *t) {
    atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
    if (tpi_scopes_forget(t)) tensor_free(t);
}

void tp_release(tp_tensor *t) {
    if (!t || !tpi_is_tensor(t, "t")) return;
    /* The holder of the only reference can skip the locked instruction: nobody else can add one. */
    if (atomic_load_explicit(&t->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (__builtin_expect(atomic_load_explicit(&t->scoped, memory_order_relaxed) != 0, 0))
        free_scoped(t);
    else
        tensor_free(t);
}

void tpi_release_list(tp_tensors list) {
    if (!list.v) return;
    for (int64_t i = 0; i < list.n; i++) tp_release(list.v[i]);
    tpi_handle_mfree(list.v);
}

void tp_release_all(tp_tensors list) {
    if (TPI_ENDED(list.v, "a list of tensors")) return;
    tpi_scope_remove_list(list);
    tpi_release_list(list);
}
tp_tensors tp_list(int64_t n, tp_tensor *const *tensors) { return (tp_tensors){(tp_tensor **)(uintptr_t)tensors, n}; }

/* ---- Making ---- */

static tp_device or_cpu(tp_device device) { return device.type ? device : (tp_device){TP_CPU, 0}; }
static tp_dtype or_default(tp_dtype dtype) { return dtype ? dtype : tp_default_dtype(); }

static tp_tensor *bad_shape(tp_tensor *t, tp_ints shape) {
    header_free(t);
    int64_t numel =
        tpi_numel_of(shape); /* leaves the error, unless the elements can be counted and only their bytes cannot */
    if (numel >= 0)
        tpi_fail(TP_ERR_RUNTIME, "argument 'shape': Storage size calculation overflowed with sizes=%s",
                 tpi_shape_text(shape));
    return NULL;
}

tp_tensor *tpi_empty(tp_ints shape, tp_dtype dtype, tp_device device) {
    dtype = or_default(dtype);
    tp_tensor *t = header_new(shape.n, dtype);
    if (!t) return NULL;
    int64_t step = 1, bytes;
    bool empty = false;
    for (int i = (int)shape.n - 1; i >= 0; i--) {
        int64_t size = shape.v[i];
        t->shape[i] = size;
        t->strides[i] = step;
        if (size > 1) {
            if (__builtin_mul_overflow(step, size, &step)) return bad_shape(t, shape);
        } else if (size < 1) {
            if (size < 0) return bad_shape(t, shape);
            empty = true;
        }
    }
    t->numel = empty ? 0 : step;
    if (__builtin_mul_overflow(t->numel, (int64_t)tpi_dtype_bytes[dtype], &bytes)) return bad_shape(t, shape);
    t->storage = tpi_storage_new(or_cpu(device), (size_t)bytes);
    if (!t->storage) {
        header_free(t);
        return NULL;
    }
    t->data = t->storage->data;
    return t;
}

int64_t tpi_span_bytes(tp_ints shape, tp_ints strides, tp_dtype dtype) {
    int64_t numel = tpi_numel_of(shape);
    if (numel < 0) return -1;
    int64_t last = 0, step, bytes;
    bool fits = true;
    for (int64_t i = 0; i < shape.n; i++) {
        if (strides.v[i] < 0) {
            tpi_fail(TP_ERR_VALUE, "argument 'strides': expected strides of 0 or more, got %s",
                     tpi_shape_text(strides));
            return -1;
        }
        if (shape.v[i] == 0) continue;
        fits = fits && !__builtin_mul_overflow(shape.v[i] - 1, strides.v[i], &step) &&
               !__builtin_add_overflow(last, step, &last);
    }
    fits = fits && !__builtin_add_overflow(last, 1, &last) &&
           !__builtin_mul_overflow(last, (int64_t)tpi_dtype_bytes[dtype], &bytes);
    if (!fits) {
        tpi_fail(TP_ERR_RUNTIME, "argument 'strides': shape %s with strides %s overflows a 64-bit integer",
                 tpi_shape_text(shape), tpi_shape_text(strides));
        return -1;
    }
    return numel ? bytes : 0;
}

/* Why a geometry was refused; the checks of tensor_over again, one after the other. */
static void explain(const tpi_storage *s, tp_dtype dtype, tp_ints shape, tp_ints strides, int64_t byte_offset) {
    if (tpi_numel_of(shape) < 0 || (strides.v && tpi_span_bytes(shape, strides, dtype) < 0)) return;
    tpi_fail(TP_ERR_RUNTIME,
             "setStorage: sizes %s, strides %s, storage offset %lld and itemsize %d are out of bounds for storage of "
             "size %zu",
             tpi_shape_text(shape), tpi_shape_text(strides), (long long)(byte_offset / tpi_dtype_bytes[dtype]),
             (int)tpi_dtype_bytes[dtype], s->bytes);
}

/* Nobody steps along a dim of one element; in bytes its stride must fit into an int64 all the same. */
#define MOST_STRIDE (INT64_MAX / 64)

/* In one pass: sizes and strides, their limits, and that the last element lies within the storage. Takes no reference
 * of s. */
static tp_tensor *tensor_over(tpi_storage *s, tp_dtype dtype, tp_ints shape, tp_ints strides, int64_t byte_offset) {
    tp_tensor *t = header_new(shape.n, dtype);
    if (!t) return NULL;
    int64_t product = 1, last = 0, reach;
    bool empty = false, bad = byte_offset < 0;
    for (int i = (int)shape.n - 1; i >= 0; i--) {
        int64_t size = shape.v[i], stride = strides.v ? strides.v[i] : product;
        t->shape[i] = size;
        t->strides[i] = stride;
        bad |= size < 0 || stride < 0;
        empty |= size == 0;
        if (size < 2) {
            if (stride > MOST_STRIDE) t->strides[i] = MOST_STRIDE;
            continue;
        }
        bad |= __builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last);
        bad |= __builtin_mul_overflow(product, size, &product);
    }
    bad |=
        __builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, (int64_t)tpi_dtype_bytes[dtype], &last);
    /* Nothing of an empty tensor is ever read: it may point anywhere, as slices of empty tensors do. */
    if (bad || (!empty && (uint64_t)last + (uint64_t)byte_offset > s->bytes)) {
        explain(s, dtype, shape, strides, byte_offset);
        header_free(t);
        return NULL;
    }
    t->numel = empty ? 0 : product;
    t->storage = s;
    t->data = s->data + byte_offset;
    return t;
}

tp_tensor *tpi_tensor_over(tpi_storage *s, tp_dtype dtype, tp_ints shape, tp_ints strides, int64_t byte_offset) {
    tp_tensor *t = tensor_over(s, dtype, shape, strides, byte_offset);
    if (!t) tpi_storage_release(s);
    return t;
}

tp_tensor *tpi_empty_strided(tp_ints shape, tp_ints strides, tp_dtype dtype, tp_device device) {
    if (!is_dtype(dtype = or_default(dtype))) return NULL;
    if (strides.n != shape.n)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'strides': expected %lld strides for shape %s, got %lld",
                        (long long)shape.n, tpi_shape_text(shape), (long long)strides.n);
    int64_t bytes = tpi_span_bytes(shape, strides, dtype);
    tpi_storage *s = bytes < 0 ? NULL : tpi_storage_new(or_cpu(device), (size_t)bytes);
    return s ? tpi_tensor_over(s, dtype, shape, shape.n ? strides : tp_no_ints(), 0) : NULL;
}

tp_tensor *tpi_empty_layout(tp_ints shape, tp_dtype dtype, tp_device device, tp_layout layout) {
    if (layout != TP_CHANNELS_LAST && layout != TP_CHANNELS_LAST_3D) return tpi_empty(shape, dtype, device);
    int64_t want = layout == TP_CHANNELS_LAST ? 4 : 5;
    if (shape.n != want)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'memory_format': required rank %lld tensor to use %s format, got shape %s",
                        (long long)want, want == 4 ? "channels_last" : "channels_last_3d", tpi_shape_text(shape));
    if (tpi_numel_of(shape) < 0) return NULL;
    /* Channels first, then the spatial dims from the last on, then the batch. Like PyTorch's, a size of 0 makes strides
     * 0 here. */
    int64_t strides[5], step = shape.v[1];
    strides[1] = 1;
    for (int64_t i = want - 1; i >= 2; i--) {
        strides[i] = step;
        step *= shape.v[i];
    }
    strides[0] = step;
    return tpi_empty_strided(shape, tp_ints_view(strides, want), dtype, device);
}

tp_tensor *tpi_empty_like(const tp_tensor *like, tp_dtype dtype) {
    if (!dtype) dtype = (tp_dtype)like->dtype;
    if (tp_is_contiguous(like)) {
        tp_tensor *t = tpi_empty(tpi_shape(like), dtype, tpi_device(like));
        if (t && like->ndim)
            memcpy(t->strides, like->strides,
                   (size_t)like->ndim * sizeof *t->strides); /* dims of size one may have any stride */
        return t;
    }
    if (tpi_is_dense(like)) return tpi_empty_strided(tpi_shape(like), tpi_strides(like), dtype, tpi_device(like));
    int64_t strides[TP_MAX_DIMS];
    const int64_t *theirs = like->strides;
    tpi_dense_strides(like->ndim, like->shape, 1, &theirs, strides);
    return tpi_empty_strided(tpi_shape(like), tp_ints_view(strides, like->ndim), dtype, tpi_device(like));
}

static tp_dtype dtype_of_scalar(tp_scalar s) {
    switch (s.kind) {
    case TP_SCALAR_BOOL: return TP_BOOL;
    case TP_SCALAR_INT:
    case TP_SCALAR_UINT: return TP_INT64;
    case TP_SCALAR_COMPLEX: return tpi_dtype_to_complex(tp_default_dtype());
    default: return tp_default_dtype();
    }
}

static tp_tensor *of_scalar(tp_scalar s, tp_dtype dtype, tp_device device) {
    if (s.kind == TP_SCALAR_NONE) return tpi_fail(TP_ERR_TYPE, "argument 'value': expected a number, got none");
    tp_tensor *t = tpi_empty(tp_no_ints(), dtype ? dtype : dtype_of_scalar(s), device);
    if (!t) return NULL;
    if (tpi_device(t).type == TP_CPU) {
        tpi_store_scalar(t->data, (tp_dtype)t->dtype, s);
    } else if (!tpi_fill_data(t, s)) {
        tp_release(t);
        return NULL;
    }
    return t;
}

tp_tensor *tpi_of_scalar(tp_scalar s, tp_dtype dtype, tp_device device) {
    tp_tensor *t = of_scalar(s, dtype, device);
    if (t) t->flags |= TPI_WRAPPED;
    return t;
}

/* ---- Views and changes of geometry ---- */

/* Makes the new header `t` a view of `of`: the storage is shared, the root base remembered. */
static tp_tensor *as_view(tp_tensor *t, tp_tensor *of) {
    tpi_storage_retain(t->storage);
    t->flags = of->flags & (TPI_UNTRACKED | TPI_INFERENCE);
    if (tpi_marked(of)) tpi_flip_mark(t);
    t->counter = share_counter(of);
    t->base = tpi_retain(of->base ? of->base : of);
    tpi_above.new_view(t, of);
    return t;
}

tp_tensor *tpi_alias(tp_tensor *of, int ndim, const int64_t *shape, const int64_t *strides, int64_t offset) {
    tp_ints sizes = tp_ints_view(shape, ndim), steps = tp_ints_view(ndim ? strides : NULL, ndim);
    tp_tensor *t =
        tensor_over(of->storage, (tp_dtype)of->dtype, sizes, steps, tpi_size_times(offset, (int64_t)tpi_itemsize(of)));
    return t ? as_view(t, of) : NULL;
}

tp_tensor *tpi_alias_as(tp_tensor *of, const tpi_geometry *g) {
    tp_ints sizes = tp_ints_view(g->shape, g->ndim), steps = tp_ints_view(g->ndim ? g->strides : NULL, g->ndim);
    tp_tensor *t =
        tensor_over(of->storage, g->dtype, sizes, steps, tpi_size_times(g->offset, (int64_t)tpi_dtype_bytes[g->dtype]));
    return t ? as_view(t, of) : NULL;
}

tp_tensor *tpi_detached(tp_tensor *of) {
    tp_tensor *t = header_new(of->ndim, (tp_dtype)of->dtype);
    if (!t) return NULL;
    if (of->ndim) memcpy(t->shape, of->shape, dims_bytes(of->ndim));
    t->numel = of->numel;
    t->storage = tpi_storage_retain(of->storage);
    t->counter = share_counter(of);
    t->data = of->data;
    t->flags = of->flags & (TPI_WRAPPED | TPI_UNTRACKED | TPI_INFERENCE);
    if (tpi_marked(of)) tpi_flip_mark(t);
    return t;
}

/* t gets the geometry of the new header `made`, which brings the memory for the dims and ends here. */
static void replace_geometry(tp_tensor *t, tp_tensor *made) {
    if (t->shape != t->inline_dims) tpi_delete(t->shape, dims_bytes(t->ndim));
    if (made->shape == made->inline_dims) {
        memcpy(t->inline_dims, made->inline_dims, sizeof t->inline_dims);
        t->shape = t->inline_dims;
    } else {
        t->shape = made->shape;
        made->shape = made->inline_dims;
    }
    t->ndim = made->ndim;
    t->strides = t->shape + t->ndim;
    t->dtype = made->dtype;
    t->numel = made->numel;
    t->data = made->data;
    header_free(made);
}

/* A second header on the storage, which does all checks. */
static tp_tensor *header_for(tpi_storage *s, tp_dtype dtype, const tpi_geometry *g) {
    tp_ints sizes = tp_ints_view(g->shape, g->ndim), steps = tp_ints_view(g->ndim ? g->strides : NULL, g->ndim);
    int64_t byte_offset;
    if (!is_dtype(dtype)) return NULL;
    if (__builtin_mul_overflow(g->offset, (int64_t)tpi_dtype_bytes[dtype], &byte_offset)) byte_offset = INT64_MAX;
    return tensor_over(s, dtype, sizes, steps, byte_offset);
}

bool tpi_set_geometry(tp_tensor *t, const tpi_geometry *g) {
    tp_tensor *made = header_for(t->storage, (tp_dtype)t->dtype, g);
    if (made) replace_geometry(t, made);
    return made != NULL;
}

bool tpi_set_storage(tp_tensor *t, tpi_storage *storage, const tpi_geometry *g) {
    tp_tensor *made = header_for(storage, g->dtype ? g->dtype : (tp_dtype)t->dtype, g), *base = t->base;
    if (!made) return false;
    if (!t->counter && !tpi_count_versions(t, tpi_version(t))) {
        header_free(made);
        return false;
    }
    tpi_storage *before = t->storage;
    t->storage = tpi_storage_retain(storage);
    t->base = NULL;
    replace_geometry(t, made);
    tpi_storage_release(before);
    tp_release(base);
    return true;
}

/* Other tensors remember where their data is: memory that they share cannot move. */
static bool grow_storage(tp_tensor *t, size_t bytes) {
    tpi_storage *s = t->storage;
    if (bytes <= s->bytes) return true;
    if (bytes > s->capacity && !s->foreign && atomic_load_explicit(&s->refs, memory_order_acquire) != 1)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "cannot grow memory that other tensors share (it has %zu bytes, %zu are needed)", s->bytes,
                          bytes);
    ptrdiff_t at = t->data - s->data;
    if (!tpi_storage_resize(s, bytes)) return false;
    t->data = s->data + at;
    return true;
}

bool tpi_resize(tp_tensor *t, tp_ints shape) {
    if (shape.n == t->ndim && (shape.n == 0 || memcmp(shape.v, t->shape, (size_t)shape.n * sizeof *shape.v) == 0))
        return true;
    if (!has_dims(shape.n)) return false;
    int64_t numel = tpi_numel_of(shape), bytes;
    if (numel < 0) return false;
    tpi_geometry g = {.ndim = (int)shape.n, .offset = tpi_offset(t)};
    if (__builtin_mul_overflow(numel, (int64_t)tpi_itemsize(t), &bytes) ||
        __builtin_add_overflow(bytes, t->data - t->storage->data, &bytes))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'shape': Storage size calculation overflowed with sizes=%s",
                          tpi_shape_text(shape));
    for (int64_t i = 0; i < shape.n; i++) g.shape[i] = shape.v[i];
    tpi_contiguous_strides(shape, g.strides);
    if (numel && !grow_storage(t, (size_t)bytes)) return false;
    return tpi_set_geometry(t, &g);
}

/* ---- From the caller's memory ---- */

tp_tensor *tp_new(tp_ints shape, tp_dtype dtype) {
    return tpi_to_scope(tpi_empty(shape, dtype, (tp_device){TP_CPU, 0}));
}

tp_tensor *tp_from_data(const void *data, tp_dtype dtype, tp_ints shape) {
    tp_tensor *t = tpi_empty(shape, dtype, (tp_device){TP_CPU, 0});
    if (!t) return NULL;
    if (t->numel && !data) {
        tp_release(t);
        return tpi_fail(TP_ERR_VALUE, "argument 'data': expected elements for shape %s, got NULL",
                        tpi_shape_text(shape));
    }
    if (t->numel) memcpy(t->data, data, t->storage->bytes);
    return tpi_to_scope(t);
}

tp_tensor *tp_over_data(void *data, tp_dtype dtype, tp_ints shape, tp_ints strides, void (*release)(void *context),
                        void *context) {
    int64_t own[TP_MAX_DIMS];
    if (!is_dtype(dtype) || !has_dims(shape.n)) return NULL;
    if (strides.v && strides.n != shape.n)
        return tpi_fail(TP_ERR_VALUE, "argument 'strides': expected %lld strides for shape %s, got %lld",
                        (long long)shape.n, tpi_shape_text(shape), (long long)strides.n);
    int64_t numel = tpi_numel_of(shape);
    if (numel < 0) return NULL;
    if (numel && !data)
        return tpi_fail(TP_ERR_VALUE, "argument 'data': expected elements for shape %s, got NULL",
                        tpi_shape_text(shape));
    size_t align = tpi_dtype_bytes[dtype] < 8 ? tpi_dtype_bytes[dtype] : 8;
    if ((uintptr_t)data % align)
        return tpi_fail(TP_ERR_VALUE, "argument 'data': expected an address that is a multiple of %zu for %s, got %p",
                        align, tp_dtype_name(dtype), data);
    if (!strides.v) {
        tpi_contiguous_strides(shape, own);
        strides = tp_ints_view(own, shape.n);
    }
    int64_t bytes = tpi_span_bytes(shape, strides, dtype);
    if (bytes < 0) return NULL;
    /* The callback is put in at the end: on failure the memory stays the caller's. */
    tpi_storage *s = tpi_storage_over(data, (size_t)bytes, (tp_device){TP_CPU, 0}, NULL, NULL);
    tp_tensor *t = s ? tpi_to_scope(tpi_tensor_over(s, dtype, shape, strides, 0)) : NULL;
    if (!t) return NULL;
    s->release = release;
    s->context = context;
    return t;
}

tp_tensor *tp_scalar_tensor_of(tp_scalar value, tp_dtype dtype) {
    return tpi_to_scope(of_scalar(value, dtype, (tp_device){TP_CPU, 0}));
}

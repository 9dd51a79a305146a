/* The tensor's insides. Storage holds the memory and the version counter; a tensor is a strided view on it, which may
 * count versions of its own.
 *
 * Internal functions (tpi_*) return owned references and never touch the user's scopes; only the public wrappers
 * (tp_*) hand their results to the innermost scope. */
#ifndef TPI_TENSOR_H
#define TPI_TENSOR_H
#include <stdatomic.h>
#include <taper/tensor.h>
#include "base/dtype.h"
#include "base/error.h"
#include "base/memory.h"

typedef struct tp_storage {
    atomic_int refs;
    tp_device device;
    atomic_uint version;   /* raised by every in-place write through a tracked tensor */
    uint32_t inline_bytes; /* bytes behind the header in its own block, where small data lives; 0 if there are none */
    char *data;
    size_t bytes;
    size_t capacity;                /* bytes of the block: more than `bytes` after it shrank */
    void (*release)(void *context); /* foreign memory: called once at the end; NULL for our own blocks */
    void *context; /* what release is given; of our own blocks: a storage that it keeps, or NULL: its shared copy, or
                      the one that lent it its memory */
    bool foreign;
    bool keeps_data; /* data is not freed: it is behind the header, lent, or was given back before */
    bool watched;    /* the last reference goes to the watcher (include/taper/binding.h) instead of freeing it */
    bool made_up; /* stands for a meta tensor's memory: the values mean nothing, nor do those of what is made of them */
} tpi_storage;

/* A version counter of their own, for tensors that look at memory of others unseen (.data), and those whose storage was
 * exchanged. */
typedef struct tpi_counter {
    atomic_int refs;
    atomic_uint version;
} tpi_counter;

enum {                    /* tensor flags */
       TPI_WRAPPED = 1,   /* a number in a tensor's clothes: weak in promotion */
       TPI_UNTRACKED = 2, /* made in an inference scope: writes do not raise the version */
       TPI_INFERENCE = 4, /* made in an inference scope: may not be recorded later */
       TPI_MARKED = 16    /* the elements are the conjugates of what is in memory; of a real dtype, the negatives */
};
#define TPI_INLINE_DIMS 5
#define TPI_ALIVE       0x7e503a1eu

struct tpi_autograd; /* src/autograd/node.h */

struct tp_tensor {
    atomic_int refs;
    uint8_t dtype; /* tp_dtype */
    uint8_t ndim;
    uint8_t flags;
    bool requires_grad; /* for a leaf: the user's wish; otherwise: it has a grad_fn */
    atomic_int scoped;  /* how many entries of open scopes hold it; each of them holds a reference */
    uint32_t alive;     /* TPI_ALIVE until the header is freed: tells a tensor from what was one */
    tpi_storage *storage;
    char *data; /* storage->data + offset * element size */
    int64_t numel;
    int64_t *shape;                /* ndim sizes; points at `inline_dims` or a block */
    int64_t *strides;              /* ndim strides in elements; right behind the sizes */
    struct tpi_autograd *autograd; /* NULL until the tape needs it */
    struct tp_tensor *base;        /* a view's base (never itself a view), owned; NULL if not a view */
    void *binding;                 /* a language binding's object for this tensor, borrowed */
    void (*binding_gone)(void *binding);
    tpi_counter *counter; /* shared with views and detached tensors; NULL: the storage's version counts */
    int64_t inline_dims[2 * TPI_INLINE_DIMS];
};

extern TPI_THREAD_LOCAL tp_device tpi_device_default; /* of what creation operators make */

static inline tp_ints tpi_shape(const tp_tensor *t) { return (tp_ints){t->shape, t->ndim}; }
static inline tp_ints tpi_strides(const tp_tensor *t) { return (tp_ints){t->strides, t->ndim}; }
static inline size_t tpi_itemsize(const tp_tensor *t) { return tpi_dtype_bytes[t->dtype]; }
static inline tp_device tpi_device(const tp_tensor *t) { return t->storage->device; }
/* The tensor stands for one of the meta device, and nobody will look at an element of what is made of it: a native may
 * leave out what takes long. */
static inline bool tpi_is_made_up(const tp_tensor *t) { return t->storage->made_up; }
static inline tp_tensor *tpi_retain(tp_tensor *t) {
    if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}
/* Marked tensors, PyTorch's lazy conjugates and negatives. Views keep the mark. An operator whose stanza says nothing
 * of marks gets resolved copies (src/dispatch/conjugate_arguments.c), which costs one test of this number where no
 * marked tensor is alive. What reads memory itself asks tpi_marked, or reads a resolved tensor. */
extern atomic_int tpi_marks;
static inline bool tpi_marks_alive(void) {
    return __builtin_expect(atomic_load_explicit(&tpi_marks, memory_order_relaxed) != 0, 0);
}
static inline bool tpi_marked(const tp_tensor *t) { return t && (t->flags & TPI_MARKED); }
void tpi_flip_mark(tp_tensor *t); /* of a tensor that nobody else has yet */
/* A copy of a marked tensor with its elements in memory; owned, recorded on the tape. */
tp_tensor *tpi_resolve(tp_tensor *t);
static inline tp_tensor *tpi_resolved(tp_tensor *t) { return tpi_marked(t) ? tpi_resolve(t) : tpi_retain(t); }

static inline atomic_uint *tpi_version_of(const tp_tensor *t) {
    return t->counter ? &t->counter->version : &t->storage->version;
}
static inline void tpi_touch(tp_tensor *t) { /* after an in-place write */
    if (!(t->flags & TPI_UNTRACKED)) atomic_fetch_add_explicit(tpi_version_of(t), 1, memory_order_relaxed);
}
static inline uint32_t tpi_version(const tp_tensor *t) {
    return atomic_load_explicit(tpi_version_of(t), memory_order_relaxed);
}
/* For functions of the API: is it a tensor? NULL, and one that was freed, are an error that names the argument, behind
 * the name of the operator or of the public function: "tp_set_grad: argument 't': expected a tensor, got NULL". */
bool tpi_tensor_given(const tp_tensor *t, const char *argument, const char *function);
#define tpi_is_tensor(t, argument) tpi_is_tensor_of(t, argument, __func__)
static inline bool tpi_is_tensor_of(const tp_tensor *t, const char *argument, const char *function) {
    return __builtin_expect(t && t->alive == TPI_ALIVE, 1) || tpi_tensor_given(t, argument, function);
}
#define tpi_release tp_release
/* For chains of calls: gives back a temporary and passes the result on. */
static inline tp_tensor *tpi_release_then(tp_tensor *temporary, tp_tensor *result) {
    tpi_release(temporary);
    return result;
}
void tpi_release_list(tp_tensors list); /* releases each tensor, then the array (from tpi_malloc) */

/* ---- Making tensors: uninitialised unless it says otherwise ---- */
tp_tensor *tpi_empty(tp_ints shape, tp_dtype dtype, tp_device device);
tp_tensor *tpi_empty_strided(tp_ints shape, tp_ints strides, tp_dtype dtype, tp_device device);
tp_tensor *tpi_empty_layout(tp_ints shape, tp_dtype dtype, tp_device device, tp_layout layout);
/* Same shape, and the stride order of `like` where it is dense and does not overlap (channels_last survives). */
tp_tensor *tpi_empty_like(const tp_tensor *like, tp_dtype dtype);
tp_tensor *tpi_of_scalar(tp_scalar s, tp_dtype dtype,
                         tp_device device); /* zero-dimensional, TP_NO_DTYPE: from the value; flagged TPI_WRAPPED */
/* A view: same storage, new geometry (offset in elements from the start of the storage). Records the base. */
tp_tensor *tpi_alias(tp_tensor *of, int ndim, const int64_t *shape, const int64_t *strides, int64_t offset);
struct tpi_geometry;
tp_tensor *
tpi_alias_as(tp_tensor *of,
             const struct tpi_geometry *geometry); /* the same in geometry->dtype, which its offset counts in */
/* The same data with no history and no base (detach); shares the version counter. */
tp_tensor *tpi_detached(tp_tensor *of);
bool tpi_resize(tp_tensor *t, tp_ints shape); /* contiguous, grows the storage when needed; for out= */
static inline int64_t tpi_offset(const tp_tensor *t) { return (t->data - t->storage->data) / (int64_t)tpi_itemsize(t); }

/* What a view operator works out: the offset counts elements from the start of the storage. */
typedef struct tpi_geometry {
    int ndim;
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    int64_t offset;
    tp_dtype dtype; /* TP_NO_DTYPE: as before; views that change it (view_as_real) set it */
} tpi_geometry;

/* Gives t a new geometry on its own storage (t_(), squeeze_()); the data must lie within it. Nothing is changed on
 * failure. */
bool tpi_set_geometry(tp_tensor *t, const tpi_geometry *g);
/* The same on another storage, of which it takes a reference: t is no view any more, and counts its versions itself. */
bool tpi_set_storage(tp_tensor *t, tpi_storage *storage, const tpi_geometry *g);
bool tpi_count_versions(tp_tensor *t, uint32_t from); /* gives t a counter of its own */

/* ---- Geometry: answers that fail leave an error that names the argument ---- */
#define TPI_DIM(t, dim) tpi_wrap_dim((dim), (t)->ndim)
int tpi_wrap_dim(int64_t dim, int ndim); /* -1 and an IndexError if out of range; ndim 0 counts as 1 */
bool tpi_wrap_dims(tp_ints dims, int ndim, bool mask[TP_MAX_DIMS]);    /* not given or empty: all; repeated: error */
bool tpi_broadcast(tp_ints a, tp_ints b, int64_t *out, int *out_ndim); /* false and an error if they do not fit */
bool tpi_is_dense(const tp_tensor *t);        /* some permutation of it is contiguous: no holes, no overlap */
bool tpi_overlaps_itself(const tp_tensor *t); /* two indices may share an element (expanded) */
void tpi_contiguous_strides(tp_ints shape, int64_t *strides);
int64_t tpi_numel_of(tp_ints shape); /* -1 and an error on a negative size or overflow */
bool tpi_same_shape(const tp_tensor *a, const tp_tensor *b);
bool tpi_infer_size(tp_ints shape, int64_t numel, int64_t *out); /* resolves one -1 */
/* Strides under which `t` can be seen with the new shape without a copy; false (no error) if it cannot. */
bool tpi_view_strides(const tp_tensor *t, tp_ints shape, int64_t *strides);

/* The order in which PyTorch's iterator walks dims, fastest first: the first operand whose strides tell two dims apart
 * decides; with no verdict the later dim is the faster one. strides[k] holds ndim strides, 0 where broadcast. */
void tpi_order_dims(int ndim, const int64_t *shape, int nargs, const int64_t *const *strides, int *perm);
/* Dense strides whose order is the one tpi_order_dims gives: what a new result of such operands gets. */
void tpi_dense_strides(int ndim, const int64_t *shape, int nargs, const int64_t *const *strides, int64_t *out);

/* ---- Plain data movement, no tape: the device's convert-and-copy, any strides and dtypes, broadcasting src ---- */
bool tpi_copy_data(tp_tensor *dst, const tp_tensor *src);
bool tpi_fill_data(tp_tensor *dst, tp_scalar value);
tp_tensor *tpi_contiguous_data(tp_tensor *t);           /* owned: itself when contiguous already */
tp_tensor *tpi_as_dtype_data(tp_tensor *t, tp_dtype d); /* owned: itself when it has the dtype already */
/* owned: its elements in row-major order on the CPU, itself when it is so already */
tp_tensor *tpi_on_host(tp_tensor *t);
tp_tensor *
tpi_moved_data(tp_tensor *t,
               tp_device to); /* takes t over (NULL stays NULL) and gives what has its elements at that place */

/* ---- Scopes: the public wrappers' last step. Returns t; without a scope the caller owns it. ---- */
tp_tensor *tpi_to_scope(tp_tensor *t);
tp_tensors tpi_list_to_scope(tp_tensors list);
/* Takes t out of the innermost scope, if it is there, for the caller to own, whatever scopes enclose that one: what a
 * callback of the user's returns, made in a scope or not, becomes the caller's. */
void tpi_scope_remove(tp_tensor *t);
void tpi_scope_remove_list(tp_tensors list); /* the list, and each tensor of it */
/* t dies while scopes hold it: takes it out of this thread's. False and an error if another thread's scope has it. */
bool tpi_scopes_forget(tp_tensor *t);
#endif

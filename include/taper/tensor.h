/* Tensors: strided views on shared, reference-counted storage; scopes; making, reading and printing them. */
#ifndef TAPER_TENSOR_H
#define TAPER_TENSOR_H

#include <stdio.h>
#include <taper/base.h>

TP_BEGIN

typedef struct tp_tensor tp_tensor;
typedef struct tp_storage tp_storage;
typedef struct tp_tensors { /* a list of tensors: the array and each tensor belong to whoever owns the list */
    TP_LIST_GUARD_(write_TP_LIST_and_the_tensors)
    tp_tensor **v;
    int64_t n;
} tp_tensors;

/* ---- Ownership ----
 * A function that returns a tensor hands the caller one reference. Inside a scope the scope owns that reference
 * instead, and releases it at the scope's end unless the tensor was kept:
 *
 *     TP_SCOPE {
 *         tp_tensor *y = tp_mul(tp_add(a, b), 2);     // nothing to release
 *         result = tp_keep(y);                        // lives on: the caller's, or the enclosing scope's
 *     }
 * base.h says how such blocks are left; TP_SCOPE_HERE; is a scope until the end of the braces that it stands in.
 * In-place and out forms (tp_add_, tp_add_out) give back the tensor that they were given, without another reference:
 * there is nothing to release or to keep. tp_release inside a scope takes what it frees out of the scope. A tensor that
 * was released already, or used after its scope, is an error as long as its memory was not given to another one; with
 * TAPER_DEBUG=1 in the environment memory of tensors is given to no other. */
typedef struct tp_scope {
    int64_t mark;
    int64_t depth;
} tp_scope;
TP_API tp_scope tp_scope_open(void);
TP_API void tp_scope_close(tp_scope *scope);
#define TP_SCOPE      TP_BLOCK_("TP_SCOPE", tp_scope, tp_scope_close, tp_scope_open())
#define TP_SCOPE_HERE TP_BLOCK_HERE_(tp_scope, tp_scope_close, tp_scope_open())
TP_API tp_tensor *tp_keep(tp_tensor *t);   /* takes t out of the innermost scope; returns t (NULL stays NULL) */
TP_API tp_tensor *tp_retain(tp_tensor *t); /* one more reference, the caller's, whatever scopes are open */
/* what a call has just handed out becomes the caller's, scope or not; returns t */
TP_API tp_tensor *tp_own(tp_tensor *t);
TP_API void tp_release(tp_tensor *t);        /* gives back a reference that the caller owns; NULL is fine */
TP_API void tp_release_all(tp_tensors list); /* releases each tensor and the array; the scope has them no more */
TP_API tp_tensors tp_list(int64_t n,
                          tp_tensor *const *tensors); /* a borrowed list for calls like tp_cat: takes no references */
/* TP_LIST(a, b): a list for a call, made from left to right. */
#ifdef __cplusplus
TP_END
static inline tp_tensors tp_list_of_(std::initializer_list<tp_tensor *> l) {
    return tp_list((int64_t)l.size(), l.begin());
}
#define TP_LIST(...) tp_list_of_({__VA_ARGS__})
TP_BEGIN
#else
#define TP_LIST(...) TP_LIST_(tp_tensors, tp_tensor *, __VA_ARGS__)
#endif

/* ---- What a tensor is ---- */
/* The number of dims. */
TP_API int tp_ndim(const tp_tensor *t);
TP_API int64_t tp_size(const tp_tensor *t, int64_t dim);   /* dim may be negative; -1 and an error if out of range */
TP_API int64_t tp_stride(const tp_tensor *t, int64_t dim); /* in elements */
TP_API tp_ints tp_shape(const tp_tensor *t);               /* lives as long as the tensor */
/* In elements; lives as long as the tensor. */
TP_API tp_ints tp_strides(const tp_tensor *t);
/* The number of elements. */
TP_API int64_t tp_numel(const tp_tensor *t);
/* The type of the elements. */
TP_API tp_dtype tp_dtype_of(const tp_tensor *t);
/* The device that holds the elements. */
TP_API tp_device tp_device_of(const tp_tensor *t);
TP_API int64_t tp_storage_offset(const tp_tensor *t); /* in elements */
/* The size of the memory that the tensor is a view of. */
TP_API int64_t tp_storage_bytes(const tp_tensor *t);
TP_API void *tp_data(const tp_tensor *t); /* the first element; writing through it is not seen by the tape */
/* Do the elements follow each other in memory, the last dim the fastest? */
TP_API bool tp_is_contiguous(const tp_tensor *t);
/* The same for another order of the dims, as channels_last. */
TP_API bool tp_is_contiguous_as(const tp_tensor *t, tp_layout layout);
/* tp_conj gives a view: a tensor whose memory holds the conjugates of its elements, and so do its own views. The
 * imaginary part of such a one is a view of negatives. Operators see the elements; tp_data is the memory as it is, and
 * tp_resolve_conj or tp_resolve_neg gives a tensor whose memory holds its elements. */
TP_API bool tp_is_conj(const tp_tensor *t);
TP_API bool tp_is_neg(const tp_tensor *t);
TP_API bool tp_is_view(const tp_tensor *t);
TP_API bool tp_shares_storage(const tp_tensor *a, const tp_tensor *b);
/* of a view: the tensor it is a view of, never a view itself; borrowed, NULL if none */
TP_API tp_tensor *tp_base(const tp_tensor *t);
TP_API int64_t tp_item_bytes(const tp_tensor *t); /* of one element */
TP_API bool tp_overlaps(const tp_tensor *a,
                        const tp_tensor *b);        /* may they share a byte? Answers for the ranges they span */
TP_API bool tp_overlaps_itself(const tp_tensor *t); /* do two indices share an element, as in expanded tensors? */
/* How often it was written in place. Views and detached tensors count together with what they came from. */
TP_API int64_t tp_tensor_version(const tp_tensor *t);

/* ---- Storage: the memory under tensors, shared and counted ---- */
TP_API tp_storage *tp_storage_of(const tp_tensor *t); /* a reference for the caller: tp_storage_release it */
TP_API tp_storage *tp_storage_new(int64_t bytes, tp_device device); /* uninitialised */
/* The caller's memory, no copy: release(context) is called when the last tensor and the last reference are gone; not on
 * failure. */
TP_API tp_storage *tp_storage_over(void *data, int64_t bytes, void (*release)(void *context), void *context);
TP_API tp_storage *tp_storage_retain(tp_storage *storage);
TP_API void tp_storage_release(tp_storage *storage); /* NULL is fine */
TP_API void *tp_storage_data(const tp_storage *storage);
TP_API int64_t tp_storage_size(const tp_storage *storage); /* in bytes */
TP_API tp_device tp_storage_device(const tp_storage *storage);
TP_API int64_t tp_storage_references(const tp_storage *storage); /* tensors and holders of references */
/* Makes the storage that many bytes large, keeping what is in them. Memory that tensors look at does not move: growing
 * it beyond the largest size it ever had takes a storage that no tensor uses (or tp_resize, for one that a single
 * tensor uses). */
TP_API bool tp_storage_resize(tp_storage *storage, int64_t bytes);

/* ---- Changing what a tensor is, in place ----
 * The tensor keeps its identity, its gradient and its version. On failure it stays as it was. */
/* The same data without history and with a version of its own (PyTorch's x.data): what is written to it goes unseen. */
TP_API tp_tensor *tp_data_alias(tp_tensor *t);
/* x.data = other: t takes over other's storage, geometry, dtype and device, and shares the memory from then on. */
TP_API bool tp_set_data(tp_tensor *t, const tp_tensor *other);
/* x.set_(storage, offset, shape, strides): looks at another storage; offset and strides count elements, strides may be
 * tp_no_ints(). */
TP_API bool tp_set_storage(tp_tensor *t, tp_storage *storage, int64_t offset, tp_ints shape, tp_ints strides);
/* x.resize_(shape): contiguous; grows the storage where needed, new elements are not initialised. */
TP_API bool tp_resize(tp_tensor *t, tp_ints shape);

/* ---- For language bindings ----
 * A tensor can remember the object that stands for it elsewhere. The object is borrowed; gone(object), if given, is
 * called once when the last reference to the tensor goes, on whatever thread that happens: that reference is then
 * gone's, to release. Setting another one forgets the first without calling anything. */
TP_API void *tp_binding(const tp_tensor *t);
TP_API bool tp_set_binding(tp_tensor *t, void *object, void (*gone)(void *object));
TP_API int64_t tp_references(const tp_tensor *t); /* references to the tensor: 1 means the caller's is the last */

/* ---- Making tensors from the caller's memory ---- */
/* Copies count elements of the given dtype. shape's product must be count. */
TP_API tp_tensor *tp_from_data(const void *data, tp_dtype dtype, tp_ints shape);
/* A tensor over the caller's memory, no copy: release(context) is called when the last view is gone.
 * strides (in elements) may be tp_no_ints() for contiguous memory. release may be NULL. On failure the
 * memory stays the caller's and release is not called. */
TP_API tp_tensor *tp_over_data(void *data, tp_dtype dtype, tp_ints shape, tp_ints strides,
                               void (*release)(void *context), void *context);
TP_API tp_tensor *tp_scalar_tensor_of(tp_scalar value,
                                      tp_dtype dtype);   /* zero-dimensional; TP_NO_DTYPE takes it from the value */
TP_API tp_tensor *tp_new(tp_ints shape, tp_dtype dtype); /* uninitialised, contiguous, on the CPU */

/* ---- Reading ---- */
TP_API double tp_item(const tp_tensor *t);      /* the one element as a double; NaN and an error otherwise */
TP_API int64_t tp_item_int(const tp_tensor *t); /* -1 and an error otherwise */
/* The one element with its kind. */
TP_API tp_scalar tp_item_scalar(const tp_tensor *t);
TP_API bool tp_copy_out(const tp_tensor *t, void *out,
                        size_t bytes); /* the elements in row-major order, in the tensor's dtype */

/* ---- Printing, in PyTorch's format ---- */
TP_API bool tp_print(const tp_tensor *t);              /* to stdout, with a newline */
TP_API bool tp_fprint(FILE *file, const tp_tensor *t); /* the same to a file */
TP_API int64_t tp_format(const tp_tensor *t, char *out,
                         size_t room); /* like snprintf: the length it needs; -1 and an error on failure */
typedef struct tp_print_options {
    int64_t size;   /* sizeof(tp_print_options), set by the caller: fields are only ever added */
    int precision;  /* 4 */
    int threshold;  /* 1000: larger tensors are summarised */
    int edge_items; /* 3 */
    int line_width; /* 80 */
    int sci_mode;   /* -1: decided by the values; 0: never; 1: always */
} tp_print_options;
/* The settings that tensors are printed by. */
TP_API bool tp_get_print_options(tp_print_options *options);
TP_API bool tp_set_print_options(
    const tp_print_options *options); /* for this process; fields behind options->size stay as they are */

/* ---- DLPack: tensors from and to other libraries without a copy ---- */
struct DLManagedTensor;
TP_API struct DLManagedTensor *tp_to_dlpack(tp_tensor *t); /* its deleter gives the tensor back */
/* takes it over (not on failure); its deleter is called at the end */
TP_API tp_tensor *tp_from_dlpack(struct DLManagedTensor *managed);

/* ---- An argument that may be a tensor or a number ----
 * Operators written with `Operand` in the table take either: tp_mul(x, 2), tp_sub(1.0, x), tp_add(x, y). A number is
 * weak in type promotion, as Python's numbers are in PyTorch. */
typedef struct tp_operand {
    tp_tensor *tensor; /* NULL: the scalar counts */
    tp_scalar scalar;  /* kind TP_SCALAR_NONE with tensor NULL: the argument was a NULL tensor */
} tp_operand;
static inline tp_operand tp_operand_tensor(tp_tensor *t) {
    tp_operand a;
    a.tensor = t;
    a.scalar = tp_no_scalar();
    return a;
}
static inline tp_operand tp_operand_scalar(tp_scalar s) {
    tp_operand a;
    a.tensor = NULL;
    a.scalar = s;
    return a;
}
static inline tp_operand tp_operand_self(tp_operand a) { return a; }
static inline tp_operand tp_operand_int(int64_t v) { return tp_operand_scalar(tp_int(v)); }
static inline tp_operand tp_operand_double(double v) { return tp_operand_scalar(tp_float(v)); }
static inline tp_operand tp_operand_bool(bool v) { return tp_operand_scalar(tp_truth(v)); }

TP_END

/* TP_OPERAND(x): a tensor, a scalar or a number of any arithmetic type; anything else does not compile. */
#ifdef __cplusplus
static inline tp_operand TP_OPERAND(tp_tensor *t) { return tp_operand_tensor(t); }
static inline tp_operand TP_OPERAND(const tp_tensor *t) { return tp_operand_tensor(const_cast<tp_tensor *>(t)); }
static inline tp_operand TP_OPERAND(tp_operand a) { return a; }
template <class T> static inline auto TP_OPERAND(T v) -> decltype(tp_operand_scalar(TP_SCALAR(v))) {
    return tp_operand_scalar(TP_SCALAR(v));
}
#else
static inline tp_operand tp_operand_const_(const tp_tensor *t) { return tp_operand_tensor((tp_tensor *)(uintptr_t)t); }
static inline tp_operand tp_operand_uint_(uint64_t v) { return tp_operand_scalar(tp_uint(v)); }
static inline tp_operand tp_operand_long_(long double v) { return tp_operand_scalar(tp_float_of_long_(v)); }
static inline tp_operand tp_operand_cplx_(double _Complex v) { return tp_operand_scalar(tp_cplx_of_(v)); }
static inline tp_operand tp_operand_long_cplx_(long double _Complex v) {
    return tp_operand_scalar(tp_cplx_of_long_(v));
}
/* clang-format off */
#define TP_OPERAND(x)                                                                                                 \
    __extension__ _Generic((x), tp_tensor * : tp_operand_tensor, const tp_tensor * : tp_operand_const_,               \
        tp_scalar : tp_operand_scalar, tp_operand : tp_operand_self,                                                  \
        TP_NUMBER_CASES_(tp_operand_bool, tp_operand_int, tp_operand_uint_, tp_operand_double, tp_operand_long_,      \
                         tp_operand_cplx_, tp_operand_long_cplx_))(x)
/* clang-format on */
#endif

/* What TP_DEFAULTS gives. */
#define TP_PRINT_DEFAULTS_                                                                                           \
    .size = (int64_t)sizeof(tp_print_options), .precision = 4, .threshold = 1000, .edge_items = 3, .line_width = 80, \
    .sci_mode = -1
#endif

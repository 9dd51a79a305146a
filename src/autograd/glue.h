/* What the operators written by opgen call besides kernels and the tape: small checks, lists, boxed values, in-place
 * and out forms. */
#ifndef TPI_GLUE_H
#define TPI_GLUE_H
#include "autograd/node.h"
#include "base/scalar_math.h"
#include "device/device.h"
#include "dispatch/call.h"
#include "device/launch.h"
#include "dispatch/fallback.h"
#include "tensor/fits.h"
#include "tensor/sizes.h"
#include <string.h>

/* ---- references ---- */
static inline void tpi_drop(tp_tensor **t) {
    tp_release(*t);
    *t = NULL;
}
static inline tp_tensor *tpi_move_out(tp_tensor **t) {
    tp_tensor *r = *t;
    *t = NULL;
    return r;
}
static inline void tpi_drop_all(tp_tensor **t, int n) {
    for (int i = 0; i < n; i++)
        if (t[i]) tpi_drop(&t[i]);
}
/* What a function with several results has left in them when it failed is not to be looked at. */
static inline bool tpi_no_results(tp_tensor **t, int n) {
    for (int i = 0; i < n; i++) t[i] = NULL;
    return false;
}
/* Hands n fresh results to the innermost scope; releases all of them if one cannot be. */
bool tpi_all_to_scope(tp_tensor **t, int n);

/* ---- arguments ---- */
/* An argument that may not be NULL was: keeps the pending error, or says which argument of which operator. Returns
 * NULL. */
void *tpi_no_tensor(const char *op, const char *argument);
/* Is the dtype, or the tensor's, of one of the groups (TPI_CAT_*) that a native operator takes? None is fine. */
static inline bool tpi_accepts_dtype(tp_dtype d, int groups) { return d == TP_NO_DTYPE || tpi_dtype_group[d] & groups; }
static inline bool tpi_accepts_tensor(const tp_tensor *t, int groups) {
    return !t || tpi_accepts_dtype((tp_dtype)t->dtype, groups);
}
static inline bool tpi_operand_given(const tp_operand *a) { return a->tensor || a->scalar.kind != TP_SCALAR_NONE; }
bool tpi_list_given(tp_tensors list); /* no entry is NULL */
/* The operand's tensor; for a number a zero-dimensional stand-in that answers shape, dtype and device, and has no data.
 */
const tp_tensor *tpi_operand_peek(const tp_operand *a);
tp_tensor *tpi_operand_tensor_owned(tp_operand a);
static inline bool tpi_tracks_any(tp_tensors list) {
    for (int64_t i = 0; i < list.n; i++)
        if (tpi_tracks(list.v[i])) return true;
    return false;
}
static inline tp_tensor *tpi_first(tp_tensors list) {
    for (int64_t i = 0; i < list.n; i++)
        if (list.v[i]) return list.v[i];
    return NULL;
}
static inline bool tpi_same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }
/* Copies what the caller's options cover: a program built against an older version passes a smaller struct. */
bool tpi_copy_options(void *all, size_t size, const void *given, int64_t given_size);

/* False only where both are integers (or bools) and the divisor has a zero in it that an element would be divided by.
 */
bool tpi_can_divide(tp_operand dividend, tp_operand divisor);
/* A number beside a tensor that settles the dtype must fit into it where those are integers; others become infinite. */
bool tpi_check_operands_fit(tp_operand a, tp_operand b);
/* How many of the two are bools, as tensors or numbers. */
int tpi_count_bools(tp_operand a, tp_operand b);
/* What is wrong with a factor of one of two summands: it changes no dtype, so its kind must not be above theirs. */
typedef enum { TPI_FACTOR_FITS, TPI_FACTOR_BOOL, TPI_FACTOR_FLOAT, TPI_FACTOR_COMPLEX } tpi_factor_fault;
tpi_factor_fault tpi_judge_factor(tp_operand a, tp_operand b, tp_scalar factor);
static inline tpi_factor_fault tpi_find_factor_fault(tp_operand a, tp_operand b, tp_scalar factor) {
    return factor.kind == TP_SCALAR_INT ? TPI_FACTOR_FITS : tpi_judge_factor(a, b, factor);
}

/* ---- plain facts that derivatives use ---- */
int64_t tpi_size_at(const tp_tensor *t, int64_t dim);
tp_ints tpi_sizes_along(tp_tensors list, int64_t dim); /* owned array; v NULL and an error on failure */
int64_t tpi_count_along(tp_ints shape, tp_ints dims);  /* elements along the dims; not given or empty: all */
int64_t tpi_product_of(tp_ints v);

/* ---- lists of ints in expressions; `buffer` is the caller's, for as many as the result has ---- */
static inline tp_ints
tpi_ints_expanded(int64_t *buffer, tp_ints v,
                  int64_t n) { /* one number serves for all; a list of another length stays as it is */
    if (v.n != 1) return v;
    for (int64_t i = 0; i < n; i++) buffer[i] = v.v[0];
    return tp_ints_view(buffer, n);
}
static inline tp_ints tpi_ints_joined(int64_t *buffer, tp_ints a, tp_ints b) { /* at most TP_MAX_DIMS in all */
    int64_t n = 0;
    for (int64_t i = 0; i < a.n && n < TP_MAX_DIMS; i++) buffer[n++] = a.v[i];
    for (int64_t i = 0; i < b.n && n < TP_MAX_DIMS; i++) buffer[n++] = b.v[i];
    return tp_ints_view(buffer, n);
}
static inline bool tpi_ints_all_are(tp_ints v, int64_t x) {
    for (int64_t i = 0; i < v.n; i++)
        if (v.v[i] != x) return false;
    return true;
}
static inline bool tpi_ints_any(tp_ints v) { return !tpi_ints_all_are(v, 0); }
static inline bool tpi_ints_positive(tp_ints v) {
    for (int64_t i = 0; i < v.n; i++)
        if (v.v[i] <= 0) return false;
    return true;
}

/* ---- recording ---- */
/* For an operator whose derivative is still to be written: gives its results a history that refuses to be walked, so
 * that a gradient is missed by an error and not in silence. */
bool tpi_record_missing(const tpi_node_class *cls, int n, tp_tensor *const *inputs, int nresults,
                        tp_tensor *const *results);
bool tpi_missing_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs);
/* After an operator without a derivative wrote into self: what self depended on, it depends on no more. */
bool tpi_record_constant(const tpi_node_class *cls, tp_tensor *self);
bool tpi_constant_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs);
bool tpi_copy_ints(tp_ints *to, tp_ints from); /* into an owned array; not given stays not given */
bool tpi_copy_floats(tp_floats *to, tp_floats from);
bool tpi_copy_scalars(tp_scalars *to, tp_scalars from);
bool tpi_move_ints(tp_ints *to, tp_ints owned);          /* false if it is not there */
const char *tpi_intern(const char *text);                /* a copy that lives forever, the same for equal texts */
bool tpi_unpack(tpi_node *node, int i, tp_tensor **out); /* a saved tensor; false: an error is pending */
bool tpi_unpack_list(tpi_node *node, int first, int64_t n, tp_tensors *out);
bool tpi_node_needs_any(const tpi_node *node, int first, int64_t n);
/* Moves the list's tensors into the gradient slots first ... first + n. */
bool tpi_put_list_gradients(tpi_node *node, tp_tensors list, int first, int64_t n, tp_tensor **grad_inputs);
static inline void tpi_mark_inference_all(tp_tensor **t, int n) {
    for (int i = 0; i < n; i++) tpi_mark_inference(t[i]);
}

/* ---- forward ---- */
tp_tensor *tpi_view_of(tp_tensor *t, const tpi_geometry *g);
tp_tensor *tpi_clone_data(tp_tensor *t); /* a copy that keeps the layout; no history */
/* self.copy_(result), same shape, recorded by the name of what made the result; returns self. */
tp_tensor *tpi_store_inplace(tp_tensor *self, tp_tensor *result);
tp_tensor *tpi_store_out(tp_tensor *out, tp_tensor *result); /* out takes result's shape and values; returns out */
tp_tensor *tpi_store_elements(tp_tensor *out,
                              tp_tensor *result); /* the same, but out keeps its shape where it has as many elements */
bool tpi_check_overlaps(const tp_tensor *written, int n, tp_tensor *const *inputs,
                        tpi_overlap_rule rule); /* inputs may be NULL */
bool tpi_check_list_overlaps(const tp_tensor *written, tp_tensors list, tpi_overlap_rule rule);
/* A creation operator writes into `out`: its dtype and device are out's; another one that was asked for is an error. */
bool tpi_settle_out(tp_tensor *out, tp_dtype *dtype, tp_device *device);
/* A number that goes among like's elements: among truth values every number but zero is true. */
static inline tp_scalar tpi_number_among(const tp_tensor *like, tp_scalar number) {
    return like->dtype == TP_BOOL && number.kind > TP_SCALAR_BOOL ? tp_truth(tp_scalar_to_bool(number)) : number;
}
#endif

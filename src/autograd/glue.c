/* See glue.h. */
#include "tensor/check_arguments.h"
#include "tensor/same_device.h"
#include "autograd/glue.h"
#include "tensor/recorder.h"
#include "autograd/tape.h"
#include "base/memory.h"
#include "base/handle.h"
#include "dispatch/call.h"
#include "tpi_ops.h"
#include <pthread.h>

bool tpi_all_to_scope(tp_tensor **t, int n) {
    for (int i = 0; i < n; i++) {
        if (!t[i] || (t[i] = tpi_to_scope(t[i]))) continue;
        for (int k = i + 1; k < n; k++) tpi_drop(&t[k]);
        return false; /* those before i belong to the scope */
    }
    return true;
}

void *tpi_no_tensor(const char *op, const char *argument) {
    if (tp_ok())
        tpi_fail(TP_ERR_VALUE, "%s%sargument '%s': expected a tensor, got NULL", tpi_op_now ? "" : op,
                 tpi_op_now ? "" : ": ", argument);
    return NULL;
}

bool tpi_list_given(tp_tensors list) {
    if (!list.v) return list.n == 0 && tp_ok();
    for (int64_t i = 0; i < list.n; i++)
        if (!list.v[i]) return false;
    return true;
}

const tp_tensor *tpi_operand_peek(const tp_operand *a) {
    static tpi_storage nowhere = {.device = {TP_CPU, 0}};
    static int64_t no_dims[1];
#define LIKE(d) \
    [d] = {.alive = TPI_ALIVE, .dtype = d, .numel = 1, .storage = &nowhere, .shape = no_dims, .strides = no_dims }
    static const tp_tensor stand_in[TP_DTYPE_COUNT] = {
        LIKE(TP_BOOL),    LIKE(TP_INT64),     LIKE(TP_FLOAT16),    LIKE(TP_BFLOAT16),  LIKE(TP_FLOAT32),
        LIKE(TP_FLOAT64), LIKE(TP_COMPLEX32), LIKE(TP_BCOMPLEX32), LIKE(TP_COMPLEX64), LIKE(TP_COMPLEX128)};
#undef LIKE
    if (a->tensor) return a->tensor;
    tpi_promotion p = {0};
    tpi_promote_scalar(&p, a->scalar);
    return &stand_in[tpi_promoted(&p)];
}

static bool is_whole(tp_operand a) {
    if (!a.tensor) return a.scalar.kind <= TP_SCALAR_INT || a.scalar.kind == TP_SCALAR_UINT;
    return !tp_dtype_is_floating((tp_dtype)a.tensor->dtype) && !tp_dtype_is_complex((tp_dtype)a.tensor->dtype);
}

static bool is_bool(tp_operand a) { return a.tensor ? a.tensor->dtype == TP_BOOL : a.scalar.kind == TP_SCALAR_BOOL; }

int tpi_count_bools(tp_operand a, tp_operand b) { return is_bool(a) + is_bool(b); }

static bool is_complex(tp_operand a) {
    return a.tensor ? tp_dtype_is_complex((tp_dtype)a.tensor->dtype) : a.scalar.kind == TP_SCALAR_COMPLEX;
}

tpi_factor_fault tpi_judge_factor(tp_operand a, tp_operand b, tp_scalar factor) {
    switch (factor.kind) {
    case TP_SCALAR_BOOL: return is_bool(a) && is_bool(b) ? TPI_FACTOR_FITS : TPI_FACTOR_BOOL;
    case TP_SCALAR_FLOAT: return is_whole(a) && is_whole(b) ? TPI_FACTOR_FLOAT : TPI_FACTOR_FITS;
    case TP_SCALAR_COMPLEX:
        if (is_whole(a) && is_whole(b)) return TPI_FACTOR_FLOAT;
        return is_complex(a) || is_complex(b) ? TPI_FACTOR_FITS : TPI_FACTOR_COMPLEX;
    default: return TPI_FACTOR_FITS;
    }
}

bool tpi_check_operands_fit(tp_operand a, tp_operand b) {
    if (!a.tensor == !b.tensor) return true;
    const tp_tensor *t = a.tensor ? a.tensor : b.tensor;
    tp_scalar number = a.tensor ? b.scalar : a.scalar;
    if (!tp_dtype_is_integral((tp_dtype)t->dtype)) return true;
    tpi_promotion p = {0};
    tpi_promote_tensor(&p, (tp_dtype)t->dtype, t->ndim);
    tpi_promote_scalar(&p, number);
    return tpi_promoted(&p) != (tp_dtype)t->dtype || tpi_check_fits(number, (tp_dtype)t->dtype);
}

bool tpi_can_divide(tp_operand dividend, tp_operand divisor) {
    if (!is_whole(dividend) || !is_whole(divisor) || (dividend.tensor && dividend.tensor->numel == 0)) return true;
    if (!divisor.tensor) return divisor.scalar.kind == TP_SCALAR_NONE || divisor.scalar.as.i != 0;
    if (!tpi_on_cpu(divisor.tensor)) return true; /* another device's kernel has its own answer */
    tpi_looked(divisor.tensor);
    tp_tensor *plain = tpi_contiguous_data(divisor.tensor);
    if (!plain) return false;
    size_t item = tpi_itemsize(plain);
    bool fine = true;
    for (int64_t i = 0; fine && i < plain->numel; i++) {
        const char *p = plain->data + (size_t)i * item;
        fine = item == 8   ? *(const int64_t *)p != 0
               : item == 4 ? *(const int32_t *)p != 0
               : item == 2 ? *(const int16_t *)p != 0
                           : *p != 0;
    }
    tpi_release(plain);
    return fine;
}

tp_tensor *tpi_operand_tensor_owned(tp_operand a) {
    if (a.tensor) return tpi_retain(a.tensor);
    /* As exact as the number itself: a wrapped number is weak in promotion whatever its width. */
    tp_dtype dtype = a.scalar.kind == TP_SCALAR_FLOAT     ? TP_FLOAT64
                     : a.scalar.kind == TP_SCALAR_COMPLEX ? TP_COMPLEX128
                     : a.scalar.kind == TP_SCALAR_UINT    ? TP_UINT64
                                                          : TP_NO_DTYPE;
    return tpi_of_scalar(a.scalar, dtype, (tp_device){TP_CPU, 0});
}

/* A size that is not positive is an error, and nothing is copied. */
bool tpi_copy_options(void *all, size_t size, const void *given, int64_t given_size) {
    if (!tpi_sound_size(given_size, "options")) return false;
    memcpy(all, given, (size_t)given_size < size ? (size_t)given_size : size);
    return true;
}

bool tpi_missing_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    (void)grads;
    (void)grad_inputs;
    return tpi_refuse(TP_ERR_MISSING, "the derivative of %s is not implemented", node->cls->op);
}

bool tpi_record_missing(const tpi_node_class *cls, int n, tp_tensor *const *inputs, int nresults,
                        tp_tensor *const *results) {
    bool tracked = false;
    for (int i = 0; i < n; i++) tracked |= tpi_tracks(inputs[i]);
    if (tpi_grad_off || !tracked) return true;
    tpi_node *node = tpi_node_new(cls, n, 0, 0, nresults);
    if (!node) return false;
    for (int i = 0; i < n; i++) tpi_node_edge(node, i, inputs[i]);
    bool ok = true;
    for (int i = 0; ok && i < nresults; i++) ok = tpi_node_attach(node, i, results[i]);
    tpi_node_release(node);
    return ok;
}

bool tpi_constant_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    (void)grads;
    return !tpi_node_needs(node, 0) || (grad_inputs[0] = tpi_node_zeros(node, 0)) != NULL;
}

bool tpi_record_constant(const tpi_node_class *cls, tp_tensor *self) {
    if (tpi_grad_off || !tpi_tracks(self)) return true;
    tpi_node *node = tpi_node_new(cls, 1, 0, 0, 1);
    if (!node) return false;
    tpi_node_edge(node, 0, self);
    bool ok = tpi_node_attach_inplace(node, 0, self);
    tpi_node_release(node);
    return ok;
}

int64_t tpi_size_at(const tp_tensor *t, int64_t dim) {
    int d = tpi_wrap_dim(dim, t->ndim);
    return d < 0 || t->ndim == 0 ? 1 : t->shape[d];
}

tp_ints tpi_sizes_along(tp_tensors list, int64_t dim) {
    int64_t *v = tpi_malloc(sizeof(int64_t) * (size_t)(list.n ? list.n : 1));
    for (int64_t i = 0; v && i < list.n; i++) {
        bool nothing = list.v[i]->ndim == 1 && list.v[i]->numel == 0; /* cat takes it beside tensors of any shape */
        v[i] = nothing ? 0 : tpi_size_at(list.v[i], dim);
    }
    return (tp_ints){v, list.n};
}

int64_t tpi_count_along(tp_ints shape, tp_ints dims) {
    if (!dims.v || !dims.n) return tpi_product_of(shape);
    int64_t n = 1;
    for (int64_t i = 0; i < dims.n; i++) {
        int d = tpi_wrap_dim(dims.v[i], (int)shape.n);
        if (d >= 0 && shape.n) n *= shape.v[d];
    }
    return n;
}

int64_t tpi_product_of(tp_ints v) {
    int64_t n = 1;
    for (int64_t i = 0; i < v.n; i++) n *= v.v[i];
    return n;
}

static void *copy_list(const void *from, int64_t n, size_t item) {
    void *v = tpi_malloc(item * (size_t)(n ? n : 1));
    if (v) memcpy(v, from, item * (size_t)n);
    return v;
}
bool tpi_copy_ints(tp_ints *to, tp_ints from) {
    *to = (tp_ints){from.v ? copy_list(from.v, from.n, sizeof *from.v) : NULL, from.n};
    return to->v || !from.v;
}
bool tpi_copy_floats(tp_floats *to, tp_floats from) {
    *to = (tp_floats){from.v ? copy_list(from.v, from.n, sizeof *from.v) : NULL, from.n};
    return to->v || !from.v;
}
bool tpi_copy_scalars(tp_scalars *to, tp_scalars from) {
    *to = (tp_scalars){from.v ? copy_list(from.v, from.n, sizeof *from.v) : NULL, from.n};
    return to->v || !from.v;
}

bool tpi_move_ints(tp_ints *to, tp_ints owned) {
    *to = owned;
    return owned.v != NULL;
}

/* The texts that operators take are few ("mean", "reflect"), so a list serves. */
const char *tpi_intern(const char *text) {
    typedef struct entry {
        struct entry *next;
        char text[];
    } entry;
    static entry *all;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    entry *e = all;
    while (e && strcmp(e->text, text)) e = e->next;
    if (!e && (e = tpi_malloc(sizeof *e + strlen(text) + 1))) {
        strcpy(e->text, text);
        e->next = all;
        all = e;
    }
    pthread_mutex_unlock(&lock);
    return e ? e->text : NULL;
}

bool tpi_unpack(tpi_node *node, int i, tp_tensor **out) {
    *out = tpi_node_saved(node, i);
    return *out || tp_ok();
}

bool tpi_unpack_list(tpi_node *node, int first, int64_t n, tp_tensors *out) {
    *out = (tp_tensors){tpi_malloc(sizeof(tp_tensor *) * (size_t)(n ? n : 1)), 0};
    if (!out->v) return false;
    for (int64_t i = 0; i < n; i++) {
        if (!tpi_unpack(node, first + (int)i, &out->v[i])) return false;
        out->n++;
    }
    return true;
}

bool tpi_node_needs_any(const tpi_node *node, int first, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (tpi_node_needs(node, first + (int)i)) return true;
    return false;
}

bool tpi_put_list_gradients(tpi_node *node, tp_tensors list, int first, int64_t n, tp_tensor **grad_inputs) {
    if (list.n != n)
        return tpi_refuse(TP_ERR_RUNTIME, "a derivative gave %lld gradients for %lld inputs", (long long)list.n,
                          (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (tpi_node_needs(node, first + (int)i)) grad_inputs[first + i] = tpi_move_out(&list.v[i]);
    return true;
}

tp_tensor *tpi_view_of(tp_tensor *t, const tpi_geometry *g) {
    if (g->dtype == TP_NO_DTYPE || g->dtype == (tp_dtype)t->dtype)
        return tpi_alias(t, g->ndim, g->shape, g->strides, g->offset);
    return tpi_alias_as(t, g);
}

tp_tensor *tpi_clone_data(tp_tensor *t) {
    tp_tensor *r = tpi_empty_like(t, (tp_dtype)t->dtype);
    if (r && !tpi_copy_data(r, t)) tpi_drop(&r);
    return r;
}

tp_tensor *tpi_store_inplace(tp_tensor *self, tp_tensor *result) {
    if (!tp_can_cast((tp_dtype)result->dtype, (tp_dtype)self->dtype)) {
        tpi_refuse_cast((tp_dtype)result->dtype, (tp_dtype)self->dtype);
        return NULL;
    }
    if (!tpi_same_shape(self, result))
        return tpi_fail(TP_ERR_RUNTIME, "the result's shape %s does not fit the tensor's shape %s in place",
                        tpi_shape_text(tpi_shape(result)), tpi_shape_text(tpi_shape(self)));
    const tpi_autograd *made = result->requires_grad ? tpi_autograd_of(result) : NULL;
    const char *name = made && made->grad_fn ? made->grad_fn->name : NULL;
    tp_tensor *stored = tpo_copy_(self, result, false);
    if (stored && name && !self->base) tpi_node_rename(self, NULL, name);
    return stored;
}

tp_tensor *tpi_store_out(tp_tensor *out, tp_tensor *result) {
    if (!tp_can_cast((tp_dtype)result->dtype, (tp_dtype)out->dtype)) {
        tpi_refuse_cast((tp_dtype)result->dtype, (tp_dtype)out->dtype);
        return NULL;
    }
    if (!tpi_same_shape(out, result) && !tpi_resize(out, tpi_shape(result))) return NULL;
    if (!tpi_check_no_shared_elements(out) || !tpi_copy_data(out, result)) return NULL;
    tpi_touch(out);
    return out;
}

tp_tensor *tpi_store_elements(tp_tensor *out, tp_tensor *result) {
    if (out->numel != result->numel) return tpi_store_out(out, result);
    tp_tensor *shaped = tpo_view(result, tpi_shape(out));
    tp_tensor *stored = shaped ? tpi_store_out(out, shaped) : NULL;
    tpi_release(shaped);
    return stored;
}

bool tpi_check_overlaps(const tp_tensor *written, int n, tp_tensor *const *inputs, tpi_overlap_rule rule) {
    for (int i = 0; i < n; i++)
        if (!tpi_check_overlap(written, inputs[i], rule)) return false;
    return true;
}

bool tpi_check_list_overlaps(const tp_tensor *written, tp_tensors list, tpi_overlap_rule rule) {
    return tpi_check_overlaps(written, (int)list.n, list.v, rule);
}

bool tpi_settle_out(tp_tensor *out, tp_dtype *dtype, tp_device *device) {
    if (*dtype && *dtype != (tp_dtype)out->dtype)
        return tpi_refuse(TP_ERR_RUNTIME, "dtype %s does not match dtype of out parameter (%s)", tp_dtype_name(*dtype),
                          tp_dtype_name((tp_dtype)out->dtype));
    tp_device own = tpi_device(out);
    if (device->type && !tpi_same_device(*device, own)) return tpi_refuse_device(own, *device, "");
    *dtype = (tp_dtype)out->dtype;
    *device = own;
    return true;
}

/* ---- what the tape asks of the operators (node.h) ---- */
tp_tensor *tpi_sum_to(tp_tensor *t, tp_ints shape) { return tpo_sum_to(t, shape); }
tp_tensor *tpi_to_dtype(tp_tensor *t, tp_dtype dtype) { return tpo_to_dtype(t, dtype); }
tp_tensor *tpi_real_part(tp_tensor *t) { return tpo_real(t); }
tp_tensor *tpi_add_grads(tp_tensor *a, tp_tensor *b) {
    if (__builtin_expect(tpi_asks(a) || tpi_asks(b), 0)) return tpi_ask_opaque(TPI_OPERATOR(add)->name, a, b);
    return tpo_add(tp_operand_tensor(a), tp_operand_tensor(b), tp_int(1));
}
tp_tensor *tpi_as_strided(tp_tensor *t, tp_ints shape, tp_ints strides, int64_t offset) {
    return tpo_as_strided(t, shape, strides, offset);
}

/* The real elements between the first and the last that the complex geometry g reaches, in pairs. */
static tp_tensor *pairs_under(tp_tensor *t, const tpi_geometry *g) {
    int64_t last = 0;
    bool empty = false;
    for (int d = 0; d < g->ndim; d++) {
        empty |= !g->shape[d];
        last += (g->shape[d] - 1) * g->strides[d];
    }
    return tpo_as_strided(t, TP_INTS(empty ? 0 : last + 1, 2), TP_INTS(2, 1), 2 * g->offset);
}

/* The complex numbers that the pairs are; takes them over. */
static tp_tensor *complex_of(tp_tensor *pairs) {
    tp_tensor *numbers = pairs ? tpo_view_as_complex(pairs) : NULL;
    tpi_release(pairs);
    return numbers;
}

tp_tensor *tpi_as_strided_as(tp_tensor *t, const tpi_geometry *g) {
    tp_ints shape = tp_ints_view(g->shape, g->ndim), strides = tp_ints_view(g->strides, g->ndim);
    if (g->dtype == (tp_dtype)t->dtype) return tpo_as_strided(t, shape, strides, g->offset);
    bool reals = tp_dtype_is_complex((tp_dtype)t->dtype);
    tp_tensor *flat = reals ? tpo_view_as_real(t) : complex_of(pairs_under(t, g));
    tp_tensor *view = flat ? tpo_as_strided(flat, shape, strides, g->offset) : NULL;
    tpi_release(flat);
    return view;
}

tp_tensor *tpi_marked_view(tp_tensor *t) {
    return tp_dtype_is_complex((tp_dtype)t->dtype) ? tpo_conj_view(t) : tpo_neg_view(t);
}

bool tpi_add_to_part(tp_tensor *sum, const tpi_geometry *part, tp_tensor *grad) {
    tp_tensor *there = tpi_view_of(sum, part);
    bool ok = there && tpi_add_grads_into(there, grad);
    tpi_release(there);
    return ok;
}

static bool add_into(tp_tensor *a, tp_operand b) {
    bool off = tpi_grad_off;
    tpi_grad_off = true;
    tp_tensor *sum = tpo_add_out(a, tp_operand_tensor(a), b, tp_int(1));
    tpi_grad_off = off;
    return sum != NULL;
}

bool tpi_add_grads_into(tp_tensor *a, tp_tensor *b) { return add_into(a, tp_operand_tensor(b)); }
bool tpi_clear_minus_zeros(tp_tensor *sum) { return add_into(sum, TP_OPERAND(0)); }

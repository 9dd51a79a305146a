/* In-place writes: what may be written, and what becomes of the history.
 *
 * A plain tensor's history just goes on through the node of the call. A write to a view changes its base: the base's
 * new history is a CopySlices node, whose gradient is the one that comes in with the view's part replaced by what the
 * call's own backward makes of it. The base's views, the written one included, get their history anew from the base, as
 * a strided view of it, when somebody asks (tpi_view_refresh). */
#include <string.h>
#include <taper/binding.h>
#include "autograd/tape.h"
#include "tensor/overlap.h"

/* ---- Checks ---- */

static bool refuse_no_grad_view(void) {
    return tpi_refuse(TP_ERR_RUNTIME,
                      "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given "
                      "that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
                      "moving both the view and the inplace either both inside the no_grad block (if you don't want "
                      "the inplace to be tracked) or both outside (if you want the inplace to be tracked).");
}

static bool refuse_custom_view(const tp_tensor *t, const char *what) {
    const tpi_autograd *ag = tpi_autograd_of(t);
    const tpi_node *fn = ag->grad_fn;
    const char *name = !fn ? "a custom function" : tp_node_function(fn) ? fn->cls->op : fn->name;
    return tpi_refuse(
        TP_ERR_RUNTIME,
        "Output %lld of %s is a view and %s modified inplace. This view was created inside a custom Function (or "
        "because an input was returned as-is) and the autograd logic to handle view+inplace would override the custom "
        "backward associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You "
        "can fix this by cloning the output of the custom Function.",
        (long long)ag->output, name, what);
}

static bool refuse_multi_view(const tp_tensor *t) {
    const tpi_node *fn = tpi_autograd_of(t) ? tpi_autograd_of(t)->grad_fn : NULL;
    char name[96];
    return tpi_refuse(TP_ERR_RUNTIME,
                      "Output %lld of %s is a view and is being modified inplace. This view is the output of a "
                      "function that returns multiple views. Such "
                      "functions do not allow the output views to be modified inplace. You should replace the inplace "
                      "operation by an out-of-place one.",
                      fn ? (long long)tp_output_nr(t) : 0, fn ? tpi_node_forward_name(fn, name) : "a function");
}

bool tpi_check_tracked_write(const tp_tensor *t) {
    if (!t->base) return true;
    if (t->flags & TPI_NO_GRAD_VIEW) return refuse_no_grad_view();
    return !(t->flags & TPI_MULTI_VIEW) || refuse_multi_view(t);
}

static bool refuse_view_of_leaf(void) {
    return tpi_refuse(TP_ERR_RUNTIME,
                      "a view of a leaf Variable that requires grad is being used in an in-place operation.");
}

/* Also where only the view was made to require grad: what it was before the write would have no way to its gradient. */
static bool is_tracked_view_of_leaf(const tp_tensor *t) {
    const tpi_autograd *of_base = tpi_autograd_of(t->base);
    return tpi_tracks(t) && !(of_base && of_base->grad_fn);
}

/* With the grad mode on: is t something whose history a write could go into? */
bool tpi_check_recorded_write(tp_tensor *t) {
    tp_tensor *base = t->base;
    if (base && (t->flags & TPI_CUSTOM_VIEW) && t->requires_grad) return refuse_custom_view(t, "is being");
    if (base && (t->flags & TPI_NO_GRAD_VIEW) && base->requires_grad) return refuse_no_grad_view();
    if (base && (t->flags & TPI_MULTI_VIEW) && tpi_tracks(t)) return refuse_multi_view(t);
    if (base && is_tracked_view_of_leaf(t)) return refuse_view_of_leaf();
    if (tpi_is_tracked_leaf(t))
        return tpi_refuse(TP_ERR_RUNTIME, "a leaf Variable that requires grad is being used in an in-place operation.");
    return true;
}

bool tpi_check_inplace_expanded(tp_tensor *t) {
    if (!tpi_is_tensor(t, "self")) return false;
    if ((t->flags & TPI_INFERENCE) && !tpi_inference)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
            "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.");
    return tpi_grad_off || tpi_check_recorded_write(t);
}

bool tpi_check_inplace(tp_tensor *t) { return tpi_check_inplace_expanded(t) && tpi_check_no_shared_elements(t); }

bool tpi_check_out(int n, tp_tensor *const *inputs, tp_tensor *out) {
    if (tpi_grad_off) return true;
    bool tracked = tpi_tracks(out);
    for (int i = 0; i < n; i++) tracked |= tpi_tracks(inputs[i]);
    if (!tracked) return true;
    return tpi_refuse(TP_ERR_RUNTIME, "functions with out=... arguments don't support automatic differentiation, but "
                                      "one of the arguments requires grad.");
}

/* ---- Views of a base that was written ---- */

/* What a Function gave has the Function's history, whose backward knows nothing of a later write to the base. */
static bool is_stale_custom_view(const tp_tensor *t) {
    const tpi_autograd *ag = tpi_autograd_of(t);
    return ag && ag->grad_fn && t->base->requires_grad && ag->view_version != tpi_version(t);
}

bool tpi_view_is_stale(const tp_tensor *t) {
    const tp_tensor *base = t->base;
    if (t->flags & TPI_CUSTOM_VIEW) return is_stale_custom_view(t);
    if (!base->requires_grad || (t->flags & TPI_NO_GRAD_VIEW)) return false;
    tpi_autograd *ag = tpi_autograd_of(t), *of_base = tpi_autograd_of(base);
    if (!ag || !ag->grad_fn)
        return of_base && of_base->grad_fn; /* the base got its history after the view was made, by a write */
    return ag->view_version != tpi_version(t);
}

/* A view has its base's dtype, or sees complex numbers as pairs of real ones, or pairs as complex numbers. A pair that
 * begins at an odd element of the storage would lie elsewhere in a copy of the base. */
static bool dtype_fits_base(const tp_tensor *t) {
    tp_dtype dtype = (tp_dtype)t->dtype, of_base = (tp_dtype)t->base->dtype;
    if (dtype == of_base || dtype == tpi_dtype_to_real(of_base)) return true;
    if (dtype == tpi_dtype_to_complex(of_base) && tpi_offset(t->base) % 2 == 0) return true;
    return tpi_refuse(TP_ERR_MISSING,
                      "a %s view of a %s tensor cannot be followed through an in-place write; clone it first",
                      tp_dtype_name(dtype), tp_dtype_name(of_base));
}

/* As tpi_as_strided_as, recorded whatever the grad mode. */
static tp_tensor *recorded_view(tp_tensor *of, const tpi_geometry *g, bool marked) {
    bool off = tpi_grad_off;
    tpi_grad_off = false;
    tp_tensor *t = tpi_as_strided_as(of, g);
    if (t && tpi_marked(t) != marked) {
        tp_tensor *marked_view = tpi_marked_view(t);
        tpi_release(t);
        t = marked_view;
    }
    tpi_grad_off = off;
    return t;
}

static tpi_geometry geometry_of(const tp_tensor *t) {
    tpi_geometry g = {.ndim = t->ndim, .offset = tpi_offset(t), .dtype = (tp_dtype)t->dtype};
    for (int d = 0; d < t->ndim; d++) {
        g.shape[d] = t->shape[d];
        g.strides[d] = t->strides[d];
    }
    return g;
}

bool tpi_view_refresh(tp_tensor *view) {
    if (view->flags & TPI_CUSTOM_VIEW) return refuse_custom_view(view, "its base or another view of its base has been");
    if (!dtype_fits_base(view)) return false;
    tpi_autograd *ag = tpi_autograd_make(view);
    tpi_geometry g = geometry_of(view);
    tp_tensor *again = ag ? recorded_view(view->base, &g, tpi_marked(view)) : NULL;
    if (!again) return false;
    tpi_autograd *made = tpi_autograd_of(again);
    if (made && made->grad_fn) tpi_set_history(view, ag, tpi_node_retain(made->grad_fn), made->output);
    tpi_release(again);
    return true;
}

/* ---- Copies, recorded ---- */

static bool copy_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    if (tpi_node_needs(node, 1))
        grad_inputs[1] = tpi_retain(grads[0]); /* what was there before counts no more: edge 0 gets none */
    return true;
}
static const tpi_node_class copy_class = {"CopyBackwards", "copy_", copy_backward, NULL, NULL, NULL};

bool tpi_record_copy(tp_tensor *dst, tp_tensor *src) {
    bool recorded = !tpi_grad_off && (tpi_tracks(dst) || tpi_tracks(src));
    tpi_node *node = NULL;
    if (recorded && !(node = tpi_node_new(&copy_class, 2, 0, 0, 1))) return false;
    if (node) {
        tpi_node_edge(node, 0, dst);
        tpi_node_edge(node, 1, src);
    }
    bool ok = tpi_copy_data(dst, src);
    if (ok) tpi_touch(dst);
    if (ok && node) ok = tpi_attach_inplace(node, 0, dst, 0);
    tpi_node_release(node);
    return ok;
}

/* ---- CopySlices: the history of a base after a write to one of its views ---- */

typedef struct slice {
    int base_ndim, view_ndim;
    int self_edge, output; /* of the call's own node: the edge and the output that the view is */
    tp_dtype base_dtype, view_dtype;
    int64_t base_offset, view_offset; /* each in elements of its own dtype */
    int64_t dims[];                   /* the base's sizes and strides, the view's sizes and strides */
} slice;

static size_t slice_bytes(const tp_tensor *base, const tp_tensor *view) {
    return sizeof(slice) + 2 * (size_t)(base->ndim + view->ndim) * sizeof(int64_t);
}

static void slice_fill(slice *s, const tp_tensor *base, const tp_tensor *view, int self_edge, int output) {
    int nb = base->ndim, nv = view->ndim;
    tp_dtype base_dtype = (tp_dtype)base->dtype, view_dtype = (tp_dtype)view->dtype;
    *s = (slice){nb, nv, self_edge, output, base_dtype, view_dtype, tpi_offset(base), tpi_offset(view)};
    if (nb) {
        memcpy(s->dims, base->shape, (size_t)nb * sizeof(int64_t));
        memcpy(s->dims + nb, base->strides, (size_t)nb * sizeof(int64_t));
    }
    int64_t *at = s->dims + 2 * nb;
    if (nv) {
        memcpy(at, view->shape, (size_t)nv * sizeof(int64_t));
        memcpy(at + nv, view->strides, (size_t)nv * sizeof(int64_t));
    }
}

static tp_ints base_shape(const slice *s) { return (tp_ints){s->dims, s->base_ndim}; }
static tp_ints base_strides(const slice *s) { return (tp_ints){s->dims + s->base_ndim, s->base_ndim}; }

static tpi_geometry base_geometry(const slice *s) {
    tpi_geometry g = {.ndim = s->base_ndim, .offset = s->base_offset, .dtype = s->base_dtype};
    memcpy(g.shape, s->dims, (size_t)s->base_ndim * sizeof(int64_t));
    memcpy(g.strides, s->dims + s->base_ndim, (size_t)s->base_ndim * sizeof(int64_t));
    return g;
}

static tpi_geometry view_geometry(const slice *s, int64_t offset) {
    const int64_t *dims = s->dims + 2 * s->base_ndim;
    tpi_geometry g = {.ndim = s->view_ndim, .offset = offset, .dtype = s->view_dtype};
    memcpy(g.shape, dims, (size_t)s->view_ndim * sizeof(int64_t));
    memcpy(g.strides, dims + s->view_ndim, (size_t)s->view_ndim * sizeof(int64_t));
    return g;
}

/* The view's place where the base begins at the start of a storage: its own offset less the base's, in the view's
 * elements. */
static tpi_geometry view_of_whole(const slice *s) {
    int64_t from = (int64_t)tpi_dtype_bytes[s->base_dtype], to = (int64_t)tpi_dtype_bytes[s->view_dtype];
    return view_geometry(s, s->view_offset - s->base_offset * from / to);
}

static tp_tensor *copied(tp_tensor *t, tp_tensor *into) { /* takes `into` over */
    if (into && tpi_record_copy(into, t)) return into;
    tpi_release(into);
    return NULL;
}

/* The view's part of `whole`, a tensor with the base's strides in storage of its own. */
static tp_tensor *part_of(const slice *s, tp_tensor *whole) {
    tpi_geometry g = view_of_whole(s);
    return tpi_grad_off ? tpi_alias_as(whole, &g) : tpi_as_strided_as(whole, &g);
}

/* The call's own backward, for the gradient of its result alone. */
static bool apply_inner(tpi_node *fn, int output, tp_tensor *grad, tp_tensor **grad_inputs) {
    tp_tensor *few[8] = {NULL}, **grads = few;
    size_t bytes = fn->noutputs * sizeof *grads;
    if (fn->noutputs > 8 && !(grads = tpi_new0(bytes))) return false;
    grads[output] = grad;
    bool ok = tpi_node_apply(fn, grads, grad_inputs);
    if (grads != few) tpi_delete(grads, bytes);
    return ok;
}

/* part = grad, or zeros where the call's result does not depend on what was there before. */
static bool put_part(tp_tensor *part, tp_tensor *grad) {
    if (grad) return tpi_record_copy(part, grad);
    tp_tensor *zero = tpi_of_scalar(tp_float(0), (tp_dtype)part->dtype, tpi_device(part));
    bool ok = zero && tpi_record_copy(part, zero);
    tpi_release(zero);
    return ok;
}

static bool slices_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    const slice *s = node->attrs;
    tp_tensor *g = grads[0], **self = &grad_inputs[s->self_edge];
    tp_tensor *whole = copied(g, tpi_empty_strided(base_shape(s), base_strides(s), (tp_dtype)g->dtype, tpi_device(g)));
    tp_tensor *part = whole ? part_of(s, whole) : NULL;
    tp_tensor *incoming = part ? copied(part, tpi_empty_like(part, (tp_dtype)part->dtype)) : NULL;
    bool ok = incoming && apply_inner(node->inner, s->output, incoming, grad_inputs);
    if (ok && tpi_node_needs(node, s->self_edge)) {
        ok = put_part(part, *self);
        tpi_release(*self);
        *self = ok ? tpi_retain(whole) : NULL;
    }
    tpi_release(incoming);
    tpi_release(part);
    tpi_release(whole);
    return ok;
}

static const tpi_node_class slices_class = {"CopySlices", "copy_slices", slices_backward, NULL, NULL, NULL};

/* A new base whose part is t. */
static tp_tensor *base_around(const slice *s, tp_tensor *t) {
    tp_tensor *whole = tpi_empty_strided(base_shape(s), base_strides(s), s->base_dtype, tpi_device(t));
    tpi_geometry g = view_of_whole(s);
    tp_tensor *part = whole ? tpi_alias_as(whole, &g) : NULL;
    if (!part || !tpi_copy_data(part, t)) {
        tpi_release(whole);
        whole = NULL;
    }
    tpi_release(part);
    return whole;
}

tp_tensor *tpi_unpack_slice(tpi_node *inner, tp_tensor *saved, bool elsewhere) {
    tpi_node *node = inner->outer;
    const slice *s = node->attrs;
    tpi_geometry of_base = base_geometry(s), of_view = elsewhere ? view_of_whole(s) : view_geometry(s, s->view_offset);
    tp_tensor *base = elsewhere ? base_around(s, saved) /* stands in for the written base */
                                : tpi_alias_as(saved, &of_base);
    tpi_autograd *ag = base ? tpi_autograd_make(base) : NULL;
    tp_tensor *t = NULL;
    if (ag) {
        tpi_set_history(base, ag, tpi_node_retain(node), 0);
        t = recorded_view(base, &of_view, tpi_marked(base));
    }
    tpi_release(base);
    return t;
}

static tpi_node *slices_node(tpi_node *fn, int output, tp_tensor *view, int self_edge) {
    tp_tensor *base = view->base;
    tpi_node *node = tpi_node_new(&slices_class, (int)fn->nedges, 0, slice_bytes(base, view), 1);
    if (!node) return NULL;
    slice_fill(node->attrs, base, view, self_edge, output);
    for (uint32_t i = 0; i < fn->nedges; i++)
        if ((int)i != self_edge) node->edges[i] = (tpi_edge){tpi_node_retain(fn->edges[i].node), fn->edges[i].output};
    tpi_node_edge(node, self_edge, base);
    if (node->failed || !tpi_meta_set(&node->metas[0], base)) {
        tpi_node_release(node);
        return NULL;
    }
    node->live = true;
    node->inner = tpi_node_retain(fn);
    fn->outer = node;
    return node;
}

bool tpi_attach_inplace(tpi_node *node, int output, tp_tensor *t, int self_edge) {
    if (!t || node->failed) return false;
    if (!node->live || !tpi_differentiable(t)) return true;
    if (!tpi_check_recorded_write(t)) return false;
    if (!t->base) return tpi_node_attach(node, output, t);
    if (!tpi_check_tracked_write(t)) return false;
    tpi_autograd *of_base = tpi_autograd_make(t->base), *ag = tpi_autograd_make(t);
    if (!of_base || !ag || !dtype_fits_base(t) || !tpi_meta_set(&node->metas[output], t)) return false;
    tpi_node *slices = slices_node(node, output, t, self_edge);
    if (!slices) return false;
    tpi_set_history(t->base, of_base, slices, 0);
    tpi_set_history(t, ag, NULL, 0); /* made anew from the base's when asked for */
    return true;
}

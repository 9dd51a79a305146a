/* Nodes and the tensors' ends of the tape: allocation in one block, edges, attaching, and freeing without recursion.
 *
 * Who holds whom: a tensor holds its autograd part, that the node of the tensor's history, a node the nodes of its
 * inputs and what it saved. A leaf's accumulation node holds the leaf, which knows the node only weakly. So everything
 * points from newer to older, nothing in circles, and dropping the last result frees its graph. */
#include <string.h>
#include <taper/autograd.h>
#include "tensor/same_device.h"
#include "dispatch/profile.h"
#include "autograd/tape.h"
#include "base/handle.h"
#include "device/gpu/driver.h"

/* ---- Nodes ---- */

static void extra_free(tpi_extra *extra) {
    tpi_hooks_free(extra->before);
    tpi_hooks_free(extra->after);
    tpi_note_drop(extra);
    tpi_delete(extra, sizeof *extra);
}

tpi_node *tpi_node_new(const tpi_node_class *cls, int nedges, int nsaved, size_t attr_bytes, int noutputs) {
    size_t at_edges = sizeof(tpi_node);
    size_t at_saved = at_edges + (size_t)nedges * sizeof(tpi_edge);
    size_t at_metas = at_saved + (size_t)nsaved * sizeof(tpi_saved);
    size_t at_attrs = (at_metas + (size_t)noutputs * sizeof(tpi_meta) + 15) & ~(size_t)15;
    size_t bytes = at_attrs + attr_bytes;
    char *block = tpi_new0(bytes);
    if (!block) return NULL;
    tpi_node *node = (tpi_node *)block;
    atomic_init(&node->refs, 1);
    node->cls = cls;
    node->name = cls->name;
    node->nedges = (uint32_t)nedges;
    node->nsaved = (uint32_t)nsaved;
    node->noutputs = (uint32_t)noutputs;
    node->sequence = ++tpi_nodes_made;
    node->bytes = bytes;
    node->edges = (tpi_edge *)(block + at_edges);
    node->saved = (tpi_saved *)(block + at_saved);
    node->metas = (tpi_meta *)(block + at_metas);
    node->attrs = block + at_attrs;
    if (atomic_load_explicit(&tpi_anomaly, memory_order_relaxed) && !tpi_note_begin(node)) {
        if (node->extra) extra_free(node->extra);
        tpi_delete(block, bytes);
        return NULL;
    }
    return node;
}

const char *tpi_node_forward_name(const tpi_node *node, char buffer[static 96]) {
    size_t n = strnlen(node->name, 95), end = n;
    while (end && node->name[end - 1] >= '0' && node->name[end - 1] <= '9') end--;
    bool backward = end > 8 && !memcmp(node->name + end - 8, "Backward", 8);
    const char *number =
        backward && strcmp(node->name + end, "0") ? node->name + end : ""; /* "Sum1" for SumBackward1 */
    if (backward) n = end - 8;
    memcpy(buffer, node->name, n);
    memcpy(buffer + n, number, strlen(number) + 1);
    return buffer;
}

tpi_extra *tpi_node_extra(tpi_node *node) {
    tpi_extra *extra = __atomic_load_n(&node->extra, __ATOMIC_ACQUIRE);
    if (extra) return extra;
    tpi_extra *made = tpi_new0(sizeof *made);
    if (!made) return NULL;
    if (__atomic_compare_exchange_n(&node->extra, &extra, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return made;
    tpi_delete(made, sizeof *made); /* another thread was faster */
    return extra;
}

static void meta_free(tpi_meta *meta) {
    if (meta->shape && meta->shape != meta->inside) tpi_delete(meta->shape, meta->ndim * sizeof(int64_t));
    if (meta->hooks) tpi_hooks_free(meta->hooks);
    if (meta->retainer) tpi_autograd_release(meta->retainer);
}

/* Frees one node whose last reference is gone. What it held may lose its last reference too: those nodes only join the
 * list. */
static void node_free(tpi_node *node) {
    if (node->extra && node->extra->binding_gone) node->extra->binding_gone(node->extra->binding);
    if (node->cls->release) node->cls->release(node);
    for (uint32_t i = 0; i < node->nsaved; i++) tpi_saved_drop(&node->saved[i]);
    for (uint32_t i = 0; i < node->noutputs; i++) meta_free(&node->metas[i]);
    for (uint32_t i = 0; i < node->nedges; i++) tpi_node_release(node->edges[i].node);
    if (node->inner) {
        node->inner->outer = NULL;
        tpi_node_release(node->inner);
    }
    if (node->extra) extra_free(node->extra);
    tpi_handle_delete(node, node->bytes);
}

void tpi_node_release(tpi_node *node) {
    static TPI_THREAD_LOCAL tpi_node *waiting;
    static TPI_THREAD_LOCAL bool freeing;
    if (!node || atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) != 1) return;
    node->next = waiting;
    waiting = node;
    if (freeing) return; /* the call further up the stack goes through the list */
    freeing = true;
    while (waiting) {
        tpi_node *now = waiting;
        waiting = now->next;
        node_free(now);
    }
    freeing = false;
}

void *tpi_node_attrs(tpi_node *node) { return node->attrs; }

bool tpi_node_needs(const tpi_node *node, int i) { return node->edges[i].node && tpi_run_needs(node, i); }

void tpi_node_edge(tpi_node *node, int i, tp_tensor *input) {
    if (node->extra && node->extra->note) tpi_note_input(node, input);
    if (!tpi_tracks(input) || !tpi_differentiable(input)) return;
    if (!tpi_history(input, &node->edges[i])) node->failed = true;
    if (node->edges[i].node) node->live = true;
}

/* ---- Results ---- */

bool tpi_meta_set(tpi_meta *meta, const tp_tensor *t) {
    if (meta->shape && meta->shape != meta->inside) tpi_delete(meta->shape, meta->ndim * sizeof(int64_t));
    meta->shape = t->ndim <= TPI_META_DIMS ? meta->inside : tpi_new(t->ndim * sizeof(int64_t));
    if (!meta->shape) return false;
    for (int d = 0; d < t->ndim; d++) meta->shape[d] = t->shape[d];
    meta->ndim = t->ndim;
    meta->dtype = t->dtype;
    meta->device = tpi_device(t);
    meta->stream = tpi_gpu_side_streams && tpi_is_gpu(meta->device) ? tpi_gpu_stream_of(meta->device) : NULL;
    return true;
}

bool tpi_node_attach(tpi_node *node, int output, tp_tensor *t) {
    if (!t || node->failed) return false;
    if (!node->live || !tpi_differentiable(t)) return true;
    tpi_autograd *ag = tpi_autograd_make(t);
    if (!ag || !tpi_meta_set(&node->metas[output], t)) return false;
    tpi_set_history(t, ag, tpi_node_retain(node), (uint32_t)output);
    return true;
}

bool tpi_node_attach_inplace(tpi_node *node, int output, tp_tensor *t) {
    return tpi_attach_inplace(node, output, t, 0);
}

/* ---- The tensor's part ---- */

tpi_autograd *tpi_autograd_of(const tp_tensor *t) { return __atomic_load_n(&t->autograd, __ATOMIC_ACQUIRE); }

tpi_autograd *tpi_autograd_make(tp_tensor *t) {
    tpi_autograd *ag = tpi_autograd_of(t);
    if (ag) return ag;
    tpi_autograd *made = tpi_new0(sizeof *made);
    if (!made) return NULL;
    atomic_init(&made->refs, 1);
    if (__atomic_compare_exchange_n(&t->autograd, &ag, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return made;
    tpi_delete(made, sizeof *made); /* another thread was faster */
    return ag;
}

void tpi_autograd_release(tpi_autograd *ag) {
    if (atomic_fetch_sub_explicit(&ag->refs, 1, memory_order_acq_rel) != 1) return;
    tpi_release(ag->grad);
    if (ag->hooks) tpi_hooks_free(ag->hooks);
    if (ag->after) tpi_hooks_free(ag->after);
    tpi_delete(ag, sizeof *ag);
}

/* The node's output no longer is this tensor: its gradients are not for ag. */
static void unwatch(tpi_autograd *ag) {
    if (!ag->retains_grad || !ag->grad_fn) return;
    tpi_meta *meta = &ag->grad_fn->metas[ag->output];
    tpi_weak_lock(meta);
    bool mine = meta->retainer == ag;
    if (mine) meta->retainer = NULL;
    tpi_weak_unlock(meta);
    if (mine) tpi_autograd_release(ag);
}

void tpi_set_history(tp_tensor *t, tpi_autograd *ag, tpi_node *node, uint32_t output) {
    tpi_node *before = ag->grad_fn;
    unwatch(ag);
    ag->grad_fn = node;
    ag->output = output;
    ag->view_version = tpi_version(t);
    t->requires_grad = node != NULL;
    /* Without the lock, and with none before: a node's outputs are attached once, by the thread that recorded it. A
     * node that is shared by then comes with an `ag` that was just made, which retains nothing. */
    if (node && ag->retains_grad) {
        atomic_fetch_add_explicit(&ag->refs, 1, memory_order_relaxed);
        node->metas[output].retainer = ag;
    }
    tpi_node_release(before);
}

void tpi_history_free(tp_tensor *t) {
    tpi_autograd *ag = t->autograd;
    tpi_node *fn = ag->grad_fn;
    unwatch(ag);
    ag->grad_fn = NULL;
    tpi_autograd_release(ag);
    tpi_node_release(fn);
}

bool tpi_history(tp_tensor *t, tpi_edge *edge) {
    *edge = (tpi_edge){NULL, 0};
    if (t->base && tpi_view_is_stale(t) && !tpi_view_refresh(t)) return false;
    tpi_autograd *ag = tpi_autograd_of(t);
    if (ag && ag->grad_fn) {
        *edge = (tpi_edge){tpi_node_retain(ag->grad_fn), ag->output};
        return true;
    }
    return t->requires_grad ? tpi_accumulator(t, edge) : true;
}

tpi_node *tpi_grad_fn(tp_tensor *t, uint32_t *output) {
    tpi_edge edge;
    if (!t || !tpi_history(t, &edge)) return NULL;
    if (output) *output = edge.output;
    return edge.node;
}

void tpi_node_rename(tp_tensor *result, tp_tensor *input, const char *name) {
    tpi_autograd *ag = result->requires_grad && result != input ? tpi_autograd_of(result) : NULL;
    tpi_autograd *of = ag && input ? tpi_autograd_of(input) : NULL;
    if (ag && ag->grad_fn && (!of || of->grad_fn != ag->grad_fn)) ag->grad_fn->name = name;
}

void tpi_mark_pieces(tp_tensors views, tp_tensor *of, const char *node) {
    for (int64_t i = 0; i < views.n; i++) {
        views.v[i]->flags |= TPI_MULTI_VIEW;
        tpi_node_rename(views.v[i], of, node);
    }
}

/* ---- What the tensor layer calls ---- */

void tpi_history_of_view(tp_tensor *view, tp_tensor *of) {
    if (tpi_grad_off || (of->flags & TPI_NO_GRAD_VIEW)) view->flags |= TPI_NO_GRAD_VIEW;
    view->flags |= of->flags & (TPI_CUSTOM_VIEW | TPI_MULTI_VIEW);
}

const char *tp_grad_fn_name(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return NULL;
    if (!t || !tpi_tracks(t)) return NULL;
    if (t->base && tpi_view_is_stale(t) && !tpi_view_refresh((tp_tensor *)t)) return NULL;
    tpi_autograd *ag = tpi_autograd_of(t);
    return ag && ag->grad_fn ? ag->grad_fn->name : NULL;
}

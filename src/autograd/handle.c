/* Nodes for callers (grad_fn): walking the tape from a result, running one node, and keeping the object by which a
 * language binding stands for it. */
#include <string.h>
#include "tensor/check_arguments.h"
#include "autograd/tape.h"

#define given(node) TPI_GIVEN(node, "a node")

/* The autograd part of t, with a view's history up to date; NULL if it has none, or an error is pending. */
static tpi_autograd *history_of(const tp_tensor *t) {
    if (t->base && tpi_view_is_stale(t) && !tpi_view_refresh((tp_tensor *)t)) return NULL;
    tpi_autograd *ag = tpi_autograd_of(t);
    return ag && ag->grad_fn ? ag : NULL;
}

tp_node *tp_grad_fn(const tp_tensor *t) {
    if (!tpi_is_tensor(t, "t")) return NULL;
    tpi_autograd *ag = history_of(t);
    return ag ? tpi_node_retain(ag->grad_fn) : NULL;
}

int64_t tp_output_nr(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return -1;
    tpi_autograd *ag = t ? history_of(t) : NULL;
    return ag ? ag->output : 0;
}

tp_node *tp_grad_accumulator(tp_tensor *leaf) {
    if (!tpi_is_tensor(leaf, "leaf")) return NULL;
    if (!tp_is_leaf(leaf) || !tp_requires_grad(leaf))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'leaf': expected a leaf that requires grad, got %s",
                        tp_is_leaf(leaf) ? "one that does not require it" : tp_grad_fn_name(leaf));
    if (!leaf->requires_grad) return NULL; /* only its base does: gradients end at the view */
    tpi_edge edge = {NULL, 0};
    return tpi_accumulator(leaf, &edge) ? edge.node : NULL;
}

tp_node *tp_node_retain(tp_node *node) {
    if (TPI_ENDED(node, "a node")) return NULL;
    return given(node) ? tpi_node_retain(node) : NULL;
}
void tp_node_release(tp_node *node) {
    if (TPI_ENDED(node, "a node")) return;
    tpi_node_release(node);
}
const char *tp_node_name(const tp_node *node) {
    if (TPI_ENDED(node, "a node")) return NULL;
    return given(node) ? node->name : NULL;
}
uint64_t tp_node_sequence(const tp_node *node) {
    if (TPI_ENDED(node, "a node")) return 0;
    return given(node) ? node->sequence : 0;
}
int64_t tp_node_inputs(const tp_node *node) {
    if (TPI_ENDED(node, "a node")) return -1;
    return given(node) ? (int64_t)node->noutputs : -1;
}
int64_t tp_node_edges(const tp_node *node) {
    if (TPI_ENDED(node, "a node")) return -1;
    return given(node) ? (int64_t)node->nedges : -1;
}
tp_tensor *tp_node_variable(const tp_node *node) {
    if (TPI_ENDED(node, "a node")) return NULL;
    return given(node) ? tpi_accumulator_leaf(node) : NULL;
}

tp_node *tp_node_next(const tp_node *node, int64_t i, int64_t *input_nr) {
    if (TPI_ENDED(node, "a node")) return NULL;
    if (input_nr) *input_nr = 0;
    if (!given(node)) return NULL;
    if (i < 0 || i >= node->nedges)
        return tpi_fail(TP_ERR_INDEX, "argument 'i': %s has %u edges, got index %lld", node->name, node->nedges,
                        (long long)i);
    const tpi_edge *edge = &node->edges[i];
    if (edge->node && input_nr) *input_nr = edge->output;
    return tpi_node_retain(edge->node);
}

tp_tensor *tp_node_output(tp_node *node, int64_t output) {
    if (TPI_ENDED(node, "a node")) return NULL;
    if (!given(node)) return NULL;
    tp_tensor *leaf = tpi_accumulator_leaf(node);
    if (leaf) return tpi_to_scope(tpi_retain(leaf));
    if (output < 0 || output >= node->noutputs || !node->metas[output].shape)
        return tpi_fail(TP_ERR_INDEX, "argument 'output': %s has no output %lld with a gradient", node->name,
                        (long long)output);
    const tpi_meta *meta = &node->metas[output];
    int64_t strides[TP_MAX_DIMS] = {0};
    tp_tensor *one = tpi_empty(TP_INTS(1), (tp_dtype)meta->dtype, meta->device);
    tp_tensor *wide =
        one ? tpi_as_strided(one, (tp_ints){meta->shape, meta->ndim}, (tp_ints){strides, meta->ndim}, 0) : NULL;
    tp_tensor *t = wide ? tpi_detached(wide) : NULL;
    tpi_autograd *ag = t ? tpi_autograd_make(t) : NULL;
    tpi_release(wide);
    tpi_release(one);
    if (!ag) {
        tpi_release(t);
        return NULL;
    }
    tpi_set_history(t, ag, tpi_node_retain(node), (uint32_t)output);
    ag->retains_grad = true; /* nobody reads its .grad: it takes no other tensor's place as the one that does */
    return tpi_to_scope(t);
}

/* ---- What a node saved ---- */
int64_t tp_node_find_saved(const tp_node *node, const char *name) {
    if (TPI_ENDED(node, "a node")) return -1;
    if (!given(node) || !name || !node->cls->saved) return -1;
    int64_t slot = 0;
    size_t length = strlen(name);
    for (const char *at = node->cls->saved; *at; slot++) {
        size_t n = strcspn(at, " ");
        if (n == length && !memcmp(at, name, n)) return slot;
        at += n + (at[n] == ' ');
    }
    return -1;
}

const char *tp_node_saved_names(const tp_node *node) {
    if (TPI_ENDED(node, "a node")) return NULL;
    return given(node) && node->cls->saved ? node->cls->saved : "";
}

static tpi_saved *slot_of(const tp_node *node, int64_t slot) {
    if (!given(node)) return NULL;
    if (slot >= 0 && slot < node->nsaved) return &node->saved[slot];
    return tpi_fail(TP_ERR_INDEX, "argument 'slot': %s saved %u tensors, got %lld", node->name, node->nsaved,
                    (long long)slot);
}

tp_tensor *tp_node_saved(tp_node *node, int64_t slot) {
    if (TPI_ENDED(node, "a node")) return NULL;
    const tpi_saved *saved = slot_of(node, slot);
    tp_tensor *t = saved ? tpi_saved_get(node, saved) : NULL;
    return t ? tpi_to_scope(t) : NULL;
}

bool tp_node_pack_saved(tp_node *node, int64_t slot, const tp_saved_hooks *hooks) {
    if (TPI_ENDED(node, "a node")) return false;
    tpi_saved *saved = slot_of(node, slot);
    if (!saved) return false;
    if (saved->kind == TPI_SAVED_NONE)
        return tpi_refuse(TP_ERR_RUNTIME, "Calling register_hooks on a saved tensor with value None is forbidden");
    if (!saved->t)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph "
            "are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
            "through the graph a second time or if you need to access saved tensors after calling backward.");
    if (saved->is_packed)
        return tpi_refuse(TP_ERR_RUNTIME, "Calling register_hooks on a saved tensor whose hooks have already been set. "
                                          "Hint: only one pair of hooks is allowed at a time.");
    tpi_edge history = {NULL, 0};
    bool leaf = saved->kind == TPI_SAVED_LEAF;
    if (leaf && !tpi_history(saved->t, &history)) return false;
    bool pushed = tp_push_saved_hooks(hooks);
    struct tpi_packed *packed = pushed ? tpi_pack(saved->t) : NULL;
    if (pushed) tp_pop_saved_hooks();
    if (!packed) {
        tpi_node_release(history.node);
        return false;
    }
    tpi_release(saved->t);
    if (leaf) { /* what the hooks give back is another tensor with the leaf's history */
        saved->kind = TPI_SAVED_ALIAS;
        saved->fn = history.node;
        saved->output = history.output;
    }
    saved->packed = packed;
    saved->is_packed = true;
    return true;
}

bool tp_node_run(tp_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    if (TPI_ENDED(node, "a node")) return false;
    if (!given(node) || !TPI_LIST_GIVEN(grads, node->noutputs) || !TPI_LIST_GIVEN(grad_inputs, node->nedges))
        return false;
    bool any = false;
    for (uint32_t i = 0; i < node->noutputs; i++) any |= grads[i] != NULL;
    for (uint32_t i = 0; i < node->nedges; i++) grad_inputs[i] = NULL;
    if (!any) return true;
    if (!tpi_node_apply(node, grads, grad_inputs)) return false;
    bool ok = true;
    for (uint32_t i = 0; i < node->nedges; i++) {
        if (!grad_inputs[i]) continue;
        if (ok)
            ok = (grad_inputs[i] = tpi_to_scope(grad_inputs[i])) != NULL;
        else {
            tpi_release(grad_inputs[i]);
            grad_inputs[i] = NULL;
        }
    }
    return ok;
}

void *tp_node_binding(const tp_node *node) {
    if (TPI_ENDED(node, "a node")) return NULL;
    return given(node) && node->extra ? node->extra->binding : NULL;
}

bool tp_node_set_binding(tp_node *node, void *object, void (*gone)(void *object)) {
    if (TPI_ENDED(node, "a node")) return false;
    if (!given(node)) return false;
    if (!object && !node->extra) return true;
    tpi_extra *extra = tpi_node_extra(node);
    if (!extra) return false;
    extra->binding = object;
    extra->binding_gone = object ? gone : NULL;
    return true;
}

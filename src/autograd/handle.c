/* Nodes in the user's hands: walking the tape from a result, running one node, and remembering what stands for it elsewhere. */
#include <string.h>
#include "tensor/given.h"
#include "autograd/tape.h"

static bool given(const tp_node *node) { return node || tpi_refuse(TP_ERR_TYPE, "argument 'node': expected a node, got NULL"); }

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
    tpi_autograd *ag = t ? history_of(t) : NULL;
    return ag ? ag->output : 0;
}

tp_node *tp_grad_accumulator(tp_tensor *leaf) {
    if (!tpi_is_tensor(leaf, "leaf")) return NULL;
    if (!tp_is_leaf(leaf) || !leaf->requires_grad)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'leaf': expected a leaf that requires grad, got %s",
                        tp_is_leaf(leaf) ? "one that does not require it" : tp_grad_fn_name(leaf));
    tpi_edge edge = {NULL, 0};
    return tpi_accumulator(leaf, &edge) ? edge.node : NULL;
}

tp_node *tp_node_retain(tp_node *node) { return given(node) ? tpi_node_retain(node) : NULL; }
void tp_node_release(tp_node *node) { tpi_node_release(node); }
const char *tp_node_name(const tp_node *node) { return given(node) ? node->name : NULL; }
uint64_t tp_node_sequence(const tp_node *node) { return given(node) ? node->sequence : 0; }
int64_t tp_node_inputs(const tp_node *node) { return given(node) ? (int64_t)node->noutputs : -1; }
int64_t tp_node_edges(const tp_node *node) { return given(node) ? (int64_t)node->nedges : -1; }
tp_tensor *tp_node_variable(const tp_node *node) { return given(node) ? tpi_accumulator_leaf(node) : NULL; }

tp_node *tp_node_next(const tp_node *node, int64_t i, int64_t *input_nr) {
    if (input_nr) *input_nr = 0;
    if (!given(node)) return NULL;
    if (i < 0 || i >= node->nedges)
        return tpi_fail(TP_ERR_INDEX, "argument 'i': %s has %u edges, got index %lld", node->name, node->nedges, (long long)i);
    const tpi_edge *edge = &node->edges[i];
    if (edge->node && input_nr) *input_nr = edge->output;
    return tpi_node_retain(edge->node);
}

bool tp_node_run(tp_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    if (!given(node) || !TPI_LIST_GIVEN(grads, node->noutputs) || !TPI_LIST_GIVEN(grad_inputs, node->nedges)) return false;
    bool any = false;
    for (uint32_t i = 0; i < node->noutputs; i++) any |= grads[i] != NULL;
    for (uint32_t i = 0; i < node->nedges; i++) grad_inputs[i] = NULL;
    if (!any) return true;
    if (!tpi_node_apply(node, grads, grad_inputs)) return false;
    bool ok = true;
    for (uint32_t i = 0; i < node->nedges; i++) {
        if (!grad_inputs[i]) continue;
        if (ok) ok = (grad_inputs[i] = tpi_to_scope(grad_inputs[i])) != NULL;
        else tpi_release(grad_inputs[i]), grad_inputs[i] = NULL;
    }
    return ok;
}

void *tp_node_binding(const tp_node *node) { return given(node) && node->extra ? node->extra->binding : NULL; }

bool tp_node_set_binding(tp_node *node, void *object, void (*gone)(void *object)) {
    if (!given(node)) return false;
    if (!object && !node->extra) return true;
    tpi_extra *extra = tpi_node_extra(node);
    if (!extra) return false;
    extra->binding = object;
    extra->binding_gone = object ? gone : NULL;
    return true;
}

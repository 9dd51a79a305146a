/* Gradients during a capture: what a backward inside of it does to leaves, what the program does to .grad, and, at the
 * end, the backward of the results. A leaf's gradient is a value that each run looks up in the leaf when a step reads
 * it, for it may be another tensor every time; whether there was one when the program looked is checked before each
 * run. */
#include "autograd/tape.h"
#include "graph/capture.h"

/* ---- .grad ---- */

/* The newest value that is this leaf's gradient, -1: none. */
static int32_t find_leaf_grad(const tp_compiled *g, int32_t leaf) {
    for (int32_t i = g->nvalues - 1; i >= 0; i--)
        if (g->values[i].kind == TPI_VALUE_LEAF_GRAD && g->values[i].of == leaf) return i;
    return -1;
}

static tp_tensor *grad_of(const tp_tensor *t) {
    const tpi_autograd *ag = tpi_autograd_of(t);
    return ag ? ag->grad : NULL;
}

bool tpi_capture_is_current(tp_capture *c, int32_t leaf_grad) {
    const tpi_graph_value *v = &c->g->values[leaf_grad];
    return grad_of(c->g->values[v->of].tensor) == v->tensor;
}

/* The value that stands for the leaf's gradient as it is now. */
static int32_t leaf_grad(tp_capture *c, int32_t leaf, tp_tensor *grad) {
    int32_t id = find_leaf_grad(c->g, leaf);
    return id >= 0 && c->g->values[id].tensor == grad ? id : tpi_capture_add(c, TPI_VALUE_LEAF_GRAD, grad, leaf, 0);
}

/* A tensor whose gradient counts: it was there before the call. */
static int32_t leaf_of(tp_capture *c, tp_tensor *t) {
    int32_t id = tpi_capture_value(c, t);
    if (id < 0) return -1;
    uint8_t kind = c->g->values[id].kind;
    if (kind == TPI_VALUE_INPUT || kind == TPI_VALUE_OUTSIDE) return id;
    tpi_capture_abandon(c, "%s", "a tensor that is made inside has a gradient of its own");
    return -1;
}

static bool is_set(const tp_compiled *g, int32_t leaf) {
    for (int32_t i = 0; i < g->nsteps; i++)
        if ((g->steps[i].kind == TPI_STEP_ACCUMULATE || g->steps[i].kind == TPI_STEP_FORGET) &&
            g->steps[i].in[0] == leaf)
            return true;
    return false;
}

/* The program saw whether there is a gradient: another time it may go another way. */
static bool expect(tp_capture *c, int32_t leaf, bool there) {
    tp_compiled *g = c->g;
    for (tpi_graph_grad *e = g->expected; e; e = e->next)
        if (e->leaf == leaf) return true;
    if (is_set(g, leaf)) return true;
    tpi_graph_grad *e = tpi_graph_memory_alloc(&g->memory, sizeof *e);
    if (!e) {
        tpi_capture_no_memory(c);
        return false;
    }
    *e = (tpi_graph_grad){leaf, there, g->expected};
    g->expected = e;
    return true;
}

static void on_read_grad(tpi_recorder *r, tp_tensor *t, tp_tensor *grad) {
    tp_capture *c = (tp_capture *)r;
    if (!c->on || (!grad && !tpi_is_tracked_leaf(t))) return;
    c->doing = "grad";
    int32_t leaf = leaf_of(c, t);
    if (leaf >= 0 && expect(c, leaf, grad != NULL) && grad) leaf_grad(c, leaf, grad);
}

static void on_set_grad(tpi_recorder *r, tp_tensor *t, tp_tensor *grad) {
    tp_capture *c = (tp_capture *)r;
    if (!c->on) return;
    if (grad) return tpi_capture_abandon(c, "%s", "a gradient is assigned");
    c->doing = "grad";
    int32_t leaf = leaf_of(c, t);
    tpi_graph_step *s = leaf >= 0 ? tpi_capture_step(c, TPI_STEP_FORGET, 1, 1) : NULL;
    if (!s) return;
    s->in[0] = leaf;
    s->out[0] = find_leaf_grad(c->g, leaf);
    c->walked = true;
}

static bool has_hooks(const tp_tensor *t) {
    const tpi_autograd *ag = tpi_autograd_of(t);
    return ag && (ag->hooks || ag->after);
}

static void on_accumulated(tpi_recorder *r, tp_tensor *leaf, tp_tensor *grad) {
    tp_capture *c = (tp_capture *)r;
    if (!c->on) return;
    c->doing = "backward";
    if (has_hooks(leaf)) return tpi_capture_abandon(c, "%s", "a tensor with hooks is differentiated");
    if (grad->requires_grad) return tpi_capture_abandon(c, "%s", "backward(create_graph=True) is called");
    int32_t id = leaf_of(c, leaf), from = id >= 0 ? tpi_capture_value(c, grad) : -1;
    tpi_graph_step *s = from >= 0 ? tpi_capture_step(c, TPI_STEP_ACCUMULATE, 2, 1) : NULL;
    if (!s) return;
    s->in[0] = id;
    s->in[1] = from;
    int32_t at = c->g->nsteps - 1, now = leaf_grad(c, id, grad_of(leaf));
    if (now >= 0) c->g->steps[at].out[0] = now;
    c->walked = true;
}

void tpi_capture_watch_grads(tpi_recorder *r) {
    r->read_grad = on_read_grad;
    r->set_grad = on_set_grad;
    r->accumulated = on_accumulated;
}

bool tpi_capture_is_spent(const tp_tensor *output) {
    const tpi_autograd *ag = tpi_autograd_of(output);
    return ag && ag->grad_fn && ag->grad_fn->spent;
}

bool tpi_capture_check_walk(tp_capture *c) {
    for (int32_t i = 0; i < c->g->nvalues; i++) {
        const tpi_graph_value *v = &c->g->values[i];
        if ((v->kind == TPI_VALUE_INPUT || v->kind == TPI_VALUE_OUTSIDE) && tpi_capture_is_spent(v->tensor)) {
            tpi_capture_abandon(c, "%s", "a backward goes on into what was computed before");
            return false;
        }
    }
    return true;
}

/* ---- The backward ---- */

/* Inputs and outside tensors that gradients flow to. */
static bool find_tracked(tp_capture *c) {
    tp_compiled *g = c->g;
    g->tracked = tpi_graph_memory_alloc(&g->memory, (size_t)g->nvalues * sizeof *g->tracked);
    if (!g->tracked) {
        tpi_capture_no_memory(c);
        return false;
    }
    for (int32_t i = 0; i < g->nvalues; i++) {
        const tpi_graph_value *v = &g->values[i];
        if ((v->kind != TPI_VALUE_INPUT && v->kind != TPI_VALUE_OUTSIDE) || !tpi_tracks(v->tensor) ||
            !tpi_differentiable(v->tensor))
            continue;
        if (has_hooks(v->tensor)) {
            tpi_capture_abandon(c, "%s", "a tensor with hooks is differentiated");
            return false;
        }
        g->tracked[g->ntracked++] = i;
    }
    g->gradients = tpi_graph_memory_alloc(&g->memory, (size_t)g->ntracked * sizeof *g->gradients);
    if (!g->gradients) tpi_capture_no_memory(c);
    return g->gradients;
}

/* A gradient of ones for each output that has a history: its value does not matter, the steps are the same for any. */
static bool make_root_gradients(tp_capture *c, tp_tensors outputs, tp_tensor **roots, tp_tensor **grads, int64_t *n) {
    for (int64_t i = 0; i < outputs.n; i++) {
        if (!c->g->follows[i]) continue;
        tp_tensor *grad = tpi_empty(tpi_shape(outputs.v[i]), (tp_dtype)outputs.v[i]->dtype, tpi_device(outputs.v[i]));
        roots[*n] = outputs.v[i];
        grads[(*n)++] = grad;
        tpi_capture_stop(c);
        bool ok = grad && tpi_fill_data(grad, tp_int(1));
        tpi_capture_start(c);
        if (!ok) {
            tpi_capture_no_memory(c);
            return false;
        }
        if (tpi_capture_add(c, TPI_VALUE_GRAD, grad, (int32_t)i, 0) < 0) return false;
    }
    return true;
}

/* A tensor that several steps lead to gets its gradient part by part, each added to what came before: so the sum has
 * the bits that it has without a graph, where nodes outside of it have given it a gradient already. */
static bool record_part(void *context, int64_t input, tp_tensor *part) {
    tp_capture *c = context;
    c->doing = "backward";
    int32_t from = tpi_capture_value(c, part);
    tpi_graph_step *s = from >= 0 ? tpi_capture_step(c, TPI_STEP_HAND_ON, 1, 0) : NULL;
    if (!s) return false;
    s->in[0] = from;
    s->tracked = (int32_t)input;
    return true;
}

static bool record_gradients(tp_capture *c, tp_tensor **found) {
    c->doing = "backward";
    for (int32_t i = 0; i < c->g->ntracked; i++) {
        c->g->gradients[i] = found[i] ? tpi_capture_value(c, found[i]) : -1;
        if (found[i] && c->g->gradients[i] < 0) return false;
    }
    return true;
}

static bool run_backward(tp_capture *c, tp_tensor **wrt, tp_tensor **found, tp_tensor **roots, tp_tensor **grads,
                         tp_tensors outputs) {
    tp_compiled *g = c->g;
    int64_t n = 0;
    bool ok = make_root_gradients(c, outputs, roots, grads, &n);
    for (int32_t i = 0; i < g->ntracked; i++) wrt[i] = g->values[g->tracked[i]].tensor;
    ok = ok && tpi_run(&(tpi_run_request){.nroots = n,
                                          .roots = roots,
                                          .root_grads = grads,
                                          .ninputs = g->ntracked,
                                          .inputs = wrt,
                                          .grads = found,
                                          .only_inputs = true,
                                          .stop_at_inputs = true,
                                          .retain_graph = true,
                                          .record_part = record_part,
                                          .context = c});
    if (!ok && !*c->why) {
        tpi_capture_abandon(c, "its backward failed: %s", tp_error());
        tp_error_clear();
    }
    ok = ok && c->on && record_gradients(c, found);
    for (int32_t i = 0; i < g->ntracked; i++) tp_release(found[i]);
    for (int64_t i = 0; i < n; i++) tp_release(grads[i]);
    return ok;
}

bool tpi_capture_backward(tp_capture *c, tp_tensors outputs) {
    if (!find_tracked(c)) return false;
    size_t n = (size_t)c->g->ntracked, m = (size_t)outputs.n;
    tp_tensor **lists = tpi_graph_memory_alloc(&c->memory, (2 * n + 2 * m) * sizeof *lists);
    if (!lists) {
        tpi_capture_no_memory(c);
        return false;
    }
    return run_backward(c, lists, lists + n, lists + 2 * n, lists + 2 * n + m, outputs);
}

/* Activation checkpointing: a node that keeps a segment's inputs and runs the segment again when its gradient comes.
 *
 * The second run is on stand-ins for the inputs, in grad mode, with the random generator and the autocast region as
 * they were the first time. A backward of its own then walks the segment: parameters the segment reached by other ways
 * take their gradients in it, and it stops at the stand-ins, whose gradients are the node's. When the backward is
 * itself recorded, a stand-in's history leads on to the real input, so that derivatives of higher order come out right.
 */
#include <taper/amp.h>
#include <taper/autograd.h>
#include <taper/random.h>
#include "autograd/tape.h"

typedef struct segment {
    tp_segment_fn fn;
    void *context;
    tp_tensor *random_state; /* before the first run */
    tp_dtype lower;          /* of the autocast region that the segment ran in */
    bool autocast;
} segment;

static tp_tensor *run_segment(tp_segment_fn fn, void *context, tp_tensors inputs) {
    tpi_callback callback = tpi_callback_begin();
    tp_tensor *out = fn(inputs, context);
    tpi_callback_end(&callback, 1, &out);
    if (!out) tpi_fail(TP_ERR_RUNTIME, "the segment returned no tensor");
    return out;
}

/* ---- Stand-ins ---- */

static bool identity_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    (void)node;
    grad_inputs[0] = tpi_retain(grads[0]);
    return true;
}
static const tpi_node_class identity_class = {
    "CheckpointInputBackward", "checkpoint", identity_backward, NULL, NULL, NULL};

/* The same data behind a node of its own, at which the segment's backward can stop. */
static tp_tensor *stand_in(tp_tensor *input, bool needs) {
    tp_tensor *t = tpi_detached(input);
    if (!t || !needs) return t;
    tpi_autograd *ag = tpi_autograd_make(t);
    tpi_node *node = ag ? tpi_node_new(&identity_class, 1, 0, 0, 1) : NULL;
    if (node) {
        tpi_node_edge(node, 0, input); /* leads on only where unpacking gave the input its history */
        if (!node->failed && tpi_meta_set(&node->metas[0], t)) {
            tpi_set_history(t, ag, node, 0);
            return t;
        }
    }
    tpi_node_release(node);
    tpi_release(t);
    return NULL;
}

/* ---- Backward ---- */

/* Runs the segment again, as it ran the first time; puts the generator back to where it is now. */
static tp_tensor *run_again(const segment *s, tp_tensors inputs) {
    tp_generator *generator = tp_default_generator();
    TP_SCOPE {
        tp_tensor *now = tp_generator_get_state(generator);
        if (!now || !tp_generator_set_state(generator, s->random_state)) return NULL;
        bool off = tpi_grad_off;
        tpi_grad_off = false;
        tp_autocast_mode region = tp_autocast_enter(TP_CPU, s->lower, s->autocast);
        tp_tensor *out = run_segment(s->fn, s->context, inputs);
        tp_autocast_leave(&region);
        tpi_grad_off = off;
        if (tp_generator_set_state(generator, now)) return out;
        tpi_release(out);
    }
    return NULL;
}

/* The segment's own backward. wanted: the stand-ins that need a gradient. */
static bool walk_again(tp_tensor *out, tp_tensor *grad, int64_t n, tp_tensor *const *wanted, tp_tensor **grads) {
    if (!tpi_tracks(out)) return true;
    return tpi_run(&(tpi_run_request){.nroots = 1,
                                      .roots = &out,
                                      .root_grads = &grad,
                                      .ninputs = n,
                                      .inputs = wanted,
                                      .grads = grads,
                                      .only_inputs = tpi_only_inputs_now(),
                                      .create_graph = !tpi_grad_off});
}

static bool differentiate(tpi_node *node, tp_tensor *grad, tp_tensor **inputs, tp_tensor **wanted, tp_tensor **grads,
                          tp_tensor **grad_inputs) {
    int64_t n = node->nedges, nwanted = 0;
    for (int64_t i = 0; i < n; i++) {
        tp_tensor *saved = tpi_node_saved(node, (int)i);
        inputs[i] = saved ? stand_in(saved, tpi_node_needs(node, (int)i)) : NULL;
        tpi_release(saved);
        if (!inputs[i]) return false;
        if (tpi_node_needs(node, (int)i)) wanted[nwanted++] = inputs[i];
    }
    tp_tensor *out = run_again(node->attrs, (tp_tensors){inputs, n});
    bool ok = out && walk_again(out, grad, nwanted, wanted, grads);
    tpi_release(out);
    if (!ok) return false;
    for (int64_t i = 0, w = 0; i < n; i++)
        if (tpi_node_needs(node, (int)i)) grad_inputs[i] = grads[w++];
    return true;
}

static bool checkpoint_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    size_t n = node->nedges, bytes = (3 * n + 1) * sizeof(tp_tensor *);
    tp_tensor **scratch = tpi_new0(bytes);
    if (!scratch) return false;
    bool ok = differentiate(node, grads[0], scratch, scratch + n, scratch + 2 * n, grad_inputs);
    for (size_t i = 0; i < n; i++) tpi_release(scratch[i]);
    tpi_delete(scratch, bytes);
    return ok;
}

static void checkpoint_release(tpi_node *node) { tpi_release(((segment *)node->attrs)->random_state); }

static const tpi_node_class checkpoint_class = {"CheckpointFunctionBackward", "checkpoint", checkpoint_backward,
                                                checkpoint_release,           NULL,         NULL};

/* ---- Forward ---- */

/* Always recorded in grad mode: parameters that the segment reaches by its context need the second run as well. */
static tpi_node *record(tp_segment_fn fn, void *context, tp_tensors inputs) {
    tpi_node *node = tpi_node_new(&checkpoint_class, (int)inputs.n, (int)inputs.n, sizeof(segment), 1);
    if (!node) return NULL;
    bool ok = true;
    for (int64_t i = 0; ok && i < inputs.n; i++) {
        tpi_node_edge(node, (int)i, inputs.v[i]);
        ok = !node->failed && tpi_node_save(node, (int)i, inputs.v[i]);
    }
    segment *s = node->attrs;
    *s = (segment){
        .fn = fn, .context = context, .lower = tp_autocast_dtype(TP_CPU), .autocast = tp_autocast_enabled(TP_CPU)};
    TP_SCOPE
        s->random_state = tpi_retain(tp_generator_get_state(tp_default_generator()));
    node->live = true;
    if (ok && s->random_state) return node;
    tpi_node_release(node);
    return NULL;
}

/* The result must be the node's own: not an input, nor something with a history. */
static tp_tensor *attached(tpi_node *node, tp_tensor *out, tp_tensors inputs) {
    bool shared = out->requires_grad || tpi_autograd_of(out);
    for (int64_t i = 0; i < inputs.n; i++) shared |= inputs.v[i] == out;
    tp_tensor *result = shared ? tpi_detached(out) : tpi_retain(out);
    if (result && tpi_node_attach(node, 0, result)) return result;
    tpi_release(result);
    return NULL;
}

tp_tensor *tp_checkpoint(tp_segment_fn fn, void *context, tp_tensors inputs) {
    if (!fn) return tpi_fail(TP_ERR_TYPE, "argument 'fn': expected a function, got NULL");
    for (int64_t i = 0; i < inputs.n; i++)
        if (!inputs.v[i])
            return tpi_fail(TP_ERR_TYPE, "argument 'inputs': expected a tensor at index %lld, got NULL", (long long)i);
    if (tpi_grad_off) return tpi_to_scope(run_segment(fn, context, inputs));
    tpi_node *node = record(fn, context, inputs);
    if (!node) return NULL;
    tp_grad_mode mode = tp_grad_mode_enter(false, false);
    tp_tensor *out = run_segment(fn, context, inputs);
    tp_grad_mode_leave(&mode);
    tp_tensor *result = out ? attached(node, out, inputs) : NULL;
    tpi_release(out);
    tpi_node_release(node);
    return tpi_to_scope(result);
}

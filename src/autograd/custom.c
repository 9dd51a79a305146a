/* Custom functions: a node whose forward and backward are the user's.
 *
 * The node holds the call, and what the call saves is saved in the node, so both end with the graph. forward runs
 * without a tape; then each output gets its history: a fresh tensor that of the node, a dirty input that of an in-place
 * write; an input returned as it is becomes a view of it first. */
#include <string.h>
#include "tensor/check_arguments.h"
#include <taper/autograd.h>
#include "autograd/tape.h"

struct tp_function_call {
    tp_function function;
    void *context;
    char *name, *class_name; /* copies: "Cube", "CubeBackward" */
    tpi_node_class cls;      /* of this call's node */
    tpi_node *node;          /* NULL when nothing is recorded; borrowed */
    bool in_forward;
    bool materialize; /* backward gets zeros where no gradient came */
    int64_t ninputs, noutputs;
    bool *dirty, *nondiff; /* one block: per input, per output */
    tp_tensor **kept;      /* forward: what tp_function_save was given, owned, until the outputs are known */
    int64_t nkept;
};

/* ---- A call's memory ---- */

static void drop_kept(tp_function_call *call) {
    for (int64_t i = 0; i < call->nkept; i++) tpi_release(call->kept[i]);
    tpi_mfree(call->kept);
    call->kept = NULL;
    call->nkept = 0;
}

static void call_free(tp_function_call *call) {
    if (call->function.release) call->function.release(call->context);
    drop_kept(call);
    tpi_mfree(call->name);
    tpi_mfree(call->class_name);
    tpi_mfree(call->dirty);
    tpi_delete(call, sizeof *call);
}

static tp_function_call *call_of(tpi_node *node) { return *(tp_function_call **)node->attrs; }

static void custom_release(tpi_node *node) {
    tpi_saved *saved = node->saved;
    for (uint32_t i = 0; i < node->nsaved; i++) tpi_saved_drop(&saved[i]);
    if (node->nsaved) tpi_mfree(saved);
    node->nsaved = 0;
    call_free(call_of(node));
}

static bool run_backward(tp_function_call *call, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    tpi_callback callback = tpi_callback_begin();
    bool ok = call->function.backward(call, call->context, grads, call->noutputs, grad_inputs, call->ninputs);
    tpi_callback_end(&callback, call->ninputs, grad_inputs);
    return ok || tpi_refuse(TP_ERR_RUNTIME, "the backward of %s failed", call->name);
}

/* full: room for all gradients, of which those that came are borrowed. */
static bool run_with_zeros(tp_function_call *call, tpi_node *node, tp_tensor *const *grads, tp_tensor **full,
                           tp_tensor **grad_inputs) {
    bool ok = true;
    for (int64_t o = 0; ok && o < call->noutputs; o++)
        if (!(full[o] = grads[o]) && node->metas[o].shape) ok = (full[o] = tpi_node_zeros(node, (int)o)) != NULL;
    ok = ok && run_backward(call, full, grad_inputs);
    for (int64_t o = 0; o < call->noutputs; o++)
        if (!grads[o]) tpi_release(full[o]);
    return ok;
}

static bool custom_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    tp_function_call *call = call_of(node);
    if (!call->materialize) return run_backward(call, grads, grad_inputs);
    size_t bytes = (size_t)call->noutputs * sizeof(tp_tensor *);
    tp_tensor **full = tpi_new0(bytes);
    bool ok = full && run_with_zeros(call, node, grads, full, grad_inputs);
    if (full) tpi_delete(full, bytes);
    return ok;
}

static char *joined(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b);
    char *text = tpi_malloc(na + nb + 1);
    if (!text) return NULL;
    memcpy(text, a, na);
    memcpy(text + na, b, nb + 1);
    return text;
}

/* The context is the call's from here on: on failure it is released. */
static tp_function_call *call_new(const tp_function *function, void *context, int64_t ninputs, int64_t noutputs) {
    tp_function given = {0};
    memcpy(&given, function, (size_t)function->size < sizeof given ? (size_t)function->size : sizeof given);
    tp_function_call *call = tpi_new0(sizeof *call);
    if (!call) {
        if (given.release) given.release(context);
        return NULL;
    }
    call->function = given;
    call->context = context;
    call->ninputs = ninputs;
    call->noutputs = noutputs;
    call->name = tpi_strdup(given.name ? given.name : "custom function");
    call->class_name = call->name ? joined(call->name, "Backward") : NULL;
    call->dirty = tpi_malloc((size_t)(ninputs + noutputs + 1));
    if (!call->class_name || !call->dirty) {
        call_free(call);
        return NULL;
    }
    memset(call->dirty, 0, (size_t)(ninputs + noutputs + 1));
    call->nondiff = call->dirty + ninputs;
    call->cls = (tpi_node_class){call->class_name, call->name, custom_backward, custom_release, NULL, NULL};
    return call;
}

/* Its node, if a gradient can flow to any input. On failure the call is freed. */
static bool record(tp_function_call *call, tp_tensors inputs) {
    bool tracked = false;
    for (int64_t i = 0; i < inputs.n; i++) tracked |= tpi_tracks(inputs.v[i]);
    if (!tracked || tpi_grad_off) return true;
    call->node = tpi_node_new(&call->cls, (int)inputs.n, 0, sizeof call, (int)call->noutputs);
    if (!call->node) {
        call_free(call);
        return false;
    }
    *(tp_function_call **)call->node->attrs = call;
    for (int64_t i = 0; i < inputs.n; i++) tpi_node_edge(call->node, (int)i, inputs.v[i]);
    return true;
}

/* ---- After forward ---- */

static int64_t index_in(const tp_tensor *t, tp_tensor *const *list, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (list[i] == t) return i;
    return -1;
}

static bool instead(tp_tensor **output, tp_tensor *made) {
    if (!made) return false;
    tpi_release(*output);
    *output = made;
    return true;
}

static tp_tensor *view_of(tp_tensor *t) {
    bool off = tpi_grad_off;
    tpi_grad_off = true;
    tp_tensor *view = tpi_alias(t, t->ndim, t->shape, t->strides, tpi_offset(t));
    tpi_grad_off = off;
    return view;
}

/* Does the output get a history? */
static bool differs(const tp_function_call *call, int64_t o, const tp_tensor *output) {
    return call->node && call->node->live && !call->nondiff[o] && tpi_differentiable(output);
}

static bool attach_output(tp_function_call *call, tp_tensors inputs, int64_t o, tp_tensor **output) {
    if (!*output) return true;
    int64_t input = index_in(*output, inputs.v, inputs.n);
    bool recorded = differs(call, o, *output);
    if (input >= 0 && call->dirty[input])
        return !recorded || tpi_attach_inplace(call->node, (int)o, *output, (int)input);
    if (input >= 0 && !instead(output, recorded ? view_of(*output) : tpi_detached(*output))) return false;
    if ((*output)->requires_grad && !instead(output, tpi_detached(*output))) return false;
    if (!recorded)
        return !call->node || tpi_meta_set(&call->node->metas[o], *output); /* backward may want zeros like it */
    if ((*output)->base) (*output)->flags |= TPI_CUSTOM_VIEW;
    return tpi_node_attach(call->node, (int)o, *output);
}

/* Turns what forward kept into the node's saved tensors, now that it is known which of them are outputs. */
static bool save_kept(tp_function_call *call, tp_tensor *const *outputs) {
    if (!call->nkept) return true;
    tpi_saved *saved = tpi_malloc((size_t)call->nkept * sizeof *saved);
    if (!saved) return false;
    memset(saved, 0, (size_t)call->nkept * sizeof *saved);
    call->node->saved = saved;
    call->node->nsaved = (uint32_t)call->nkept;
    bool ok = true;
    for (int64_t i = 0; ok && i < call->nkept; i++) {
        int64_t o = call->kept[i] ? index_in(call->kept[i], outputs, call->noutputs) : -1;
        ok = o >= 0 && outputs[o]->requires_grad ? tpi_saved_output(&saved[i], call->kept[i], (uint32_t)o)
                                                 : tpi_saved_input(&saved[i], call->kept[i]);
    }
    drop_kept(call);
    return ok;
}

static bool check_dirty(const tp_function_call *call, tp_tensors inputs, tp_tensor *const *outputs) {
    for (int64_t i = 0; i < inputs.n; i++) {
        if (!call->dirty[i]) continue;
        if (index_in(inputs.v[i], outputs, call->noutputs) < 0)
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function: input %lld of %s",
                (long long)i, call->name);
        if (call->node && !tpi_check_recorded_write(inputs.v[i])) return false;
    }
    return true;
}

static bool finish(tp_function_call *call, tp_tensors inputs, tp_tensor **outputs) {
    for (int64_t i = 0; i < inputs.n; i++)
        if (call->dirty[i]) tpi_touch(inputs.v[i]);
    if (!check_dirty(call, inputs, outputs)) return false;
    if (call->node && call->node->failed) return false;
    for (int64_t o = 0; o < call->noutputs; o++)
        if (!attach_output(call, inputs, o, &outputs[o])) return false;
    return !call->node || save_kept(call, outputs);
}

static bool run_forward(tp_function_call *call, tp_tensors inputs, tp_tensor **outputs) {
    tp_grad_mode mode = tp_grad_mode_enter(false, false);
    tpi_callback callback = tpi_callback_begin();
    call->in_forward = true;
    bool ok = call->function.forward(call, call->context, inputs, outputs, call->noutputs);
    call->in_forward = false;
    tpi_callback_end(&callback, call->noutputs, outputs);
    tp_grad_mode_leave(&mode);
    if (!ok) return tpi_refuse(TP_ERR_RUNTIME, "the forward of %s failed", call->name);
    return tp_ok(); /* a call in there may have failed without forward's notice */
}

static bool check_function(const tp_function *f, const tp_tensor *const *inputs, int64_t n) {
    if (!f || f->size < (int64_t)offsetof(tp_function, release) || !f->forward || !f->backward)
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'function': expected a tp_function with its size, a forward and a backward");
    for (int64_t i = 0; i < n; i++)
        if (!inputs[i])
            return tpi_refuse(TP_ERR_TYPE, "argument 'inputs': expected a tensor at index %lld, got NULL",
                              (long long)i);
    return true;
}

bool tp_apply(const tp_function *function, void *context, tp_tensors inputs, tp_tensor **outputs, int64_t noutputs) {
    if (!TPI_LIST_GIVEN(outputs, noutputs) || !TPI_LIST_GIVEN(inputs.v, inputs.n)) return false;
    for (int64_t o = 0; o < noutputs; o++) outputs[o] = NULL;
    if (!check_function(function, (const tp_tensor *const *)inputs.v, inputs.n)) return false;
    tp_function_call *call = call_new(function, context, inputs.n, noutputs);
    if (!call || !record(call, inputs)) return false;
    tpi_node *node = call->node;
    bool ok = run_forward(call, inputs, outputs) && finish(call, inputs, outputs);
    if (node)
        tpi_node_release(node); /* frees the call too, unless an output holds the node */
    else
        call_free(call);
    for (int64_t o = 0; o < noutputs; o++) {
        if (!ok) {
            tpi_release(outputs[o]);
            outputs[o] = NULL;
        } else if (outputs[o]) {
            ok = (outputs[o] = tpi_to_scope(outputs[o])) != NULL;
        }
    }
    return ok;
}

/* ---- What forward and backward may ask and say ---- */

bool tp_function_save(tp_function_call *call, tp_tensors tensors) {
    if (!TPI_GIVEN(call, "a call") || !TPI_LIST_GIVEN(tensors.v, tensors.n)) return false;
    if (!call->in_forward)
        return tpi_refuse(TP_ERR_RUNTIME, "tensors can only be saved in the forward of %s", call->name);
    if (!call->node || !tensors.n) return true;
    tp_tensor **kept = tpi_realloc(call->kept, (size_t)(call->nkept + tensors.n) * sizeof *kept);
    if (!kept) return false;
    call->kept = kept;
    for (int64_t i = 0; i < tensors.n; i++) kept[call->nkept++] = tpi_retain(tensors.v[i]);
    return true;
}

int64_t tp_function_saved_count(const tp_function_call *call) {
    if (!TPI_GIVEN(call, "a call")) return -1;
    if (call->in_forward) return call->nkept;
    return call->node ? call->node->nsaved : 0;
}

tp_tensor *tp_function_saved(tp_function_call *call, int64_t i) {
    if (!TPI_GIVEN(call, "a call")) return NULL;
    int64_t n = call->node ? call->node->nsaved : 0;
    if (call->in_forward || i < 0 || i >= n)
        return tpi_fail(TP_ERR_INDEX, "argument 'i': %s saved %lld tensors, got index %lld", call->name, (long long)n,
                        (long long)i);
    bool off = tpi_grad_off;
    tpi_grad_off =
        false; /* the user's backward may look at the history, or go on from it, whether or not it is recorded itself */
    tp_tensor *saved = tpi_node_saved(call->node, (int)i);
    tpi_grad_off = off;
    return tpi_to_scope(saved);
}

bool tp_function_needs(const tp_function_call *call, int64_t input) {
    if (!TPI_GIVEN(call, "a call")) return false;
    return call->node && input >= 0 && input < call->ninputs && tpi_node_needs(call->node, (int)input);
}

void tp_function_mark_dirty(tp_function_call *call, int64_t input) {
    if (!TPI_GIVEN(call, "a call")) return;
    if (input >= 0 && input < call->ninputs)
        call->dirty[input] = true;
    else
        tpi_fail(TP_ERR_INDEX, "argument 'input': %s has %lld inputs, got index %lld", call->name,
                 (long long)call->ninputs, (long long)input);
}

void tp_function_mark_nondiff(tp_function_call *call, int64_t output) {
    if (!TPI_GIVEN(call, "a call")) return;
    if (output >= 0 && output < call->noutputs)
        call->nondiff[output] = true;
    else
        tpi_fail(TP_ERR_INDEX, "argument 'output': %s has %lld outputs, got index %lld", call->name,
                 (long long)call->noutputs, (long long)output);
}

void tp_function_materialize(tp_function_call *call, bool on) {
    if (!TPI_GIVEN(call, "a call")) return;
    call->materialize = on;
}
void *tp_function_context(const tp_function_call *call) {
    if (!TPI_GIVEN(call, "a call")) return NULL;
    return call->context;
}
tp_node *tp_function_node(const tp_function_call *call) {
    if (!TPI_GIVEN(call, "a call")) return NULL;
    return tpi_node_retain(call->node);
}

tp_function_call *tp_node_function(const tp_node *node) {
    if (TPI_ENDED(node, "a node")) return NULL;
    return node && node->cls->backward == custom_backward ? *(tp_function_call **)node->attrs : NULL;
}

void (*tpi_function_release(const tpi_node *node))(void *context) {
    tp_function_call *call = tp_node_function(node);
    return call ? call->function.release : NULL;
}

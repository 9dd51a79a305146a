/* Saved tensors: what backward will need, with the check that nobody wrote to it in between.
 *
 * A slot never makes a circle: inputs are held beside the history they had when they were saved, results without theirs
 * (see tape.h). Unpacking gives the history back where the backward itself is recorded. */
#include <stdio.h>
#include "autograd/tape.h"

static bool may_be_saved(const tp_tensor *t) {
    return !(t->flags & TPI_INFERENCE) || tpi_keeps_inference ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
                      "mode in computation tracked by autograd. To work around this, you can make a clone to get a "
                      "normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
                      "`torch.inference_mode()`. This one is %s of shape %s",
                      tp_dtype_name((tp_dtype)t->dtype), tpi_shape_text(tpi_shape(t)));
}

/* A result without its history: an object that held the node's own result would keep both for ever. */
static struct tpi_packed *pack_output(tp_tensor *t) {
    tp_tensor *plain = tpi_detached(t);
    struct tpi_packed *packed = plain ? tpi_pack(plain) : NULL;
    tpi_release(plain);
    return packed;
}

/* The last step of saving t: an alias without history, or an object of the user's. */
static bool keep(tpi_saved *slot, tp_tensor *t, bool packs) {
    slot->is_packed = packs;
    if (!packs)
        slot->t = tpi_detached(t);
    else if (slot->kind != TPI_SAVED_OUTPUT)
        slot->packed = tpi_pack(t);
    else
        slot->packed = pack_output(t);
    if (slot->t) return true;
    tpi_node_release(slot->fn);
    *slot = (tpi_saved){.kind = TPI_SAVED_NONE};
    return false;
}

bool tpi_saved_input(tpi_saved *slot, tp_tensor *t) {
    if (!t) return true;
    if (!may_be_saved(t)) return false;
    bool packs = tpi_packs(t);
    /* An alias would lack what the binding knows of the tensor. */
    if (!packs && (tpi_is_tracked_leaf(t) || tpi_asks(t))) {
        *slot = (tpi_saved){.t = tpi_retain(t), .version = tpi_version(t), .kind = TPI_SAVED_LEAF};
        return true;
    }
    tpi_edge history = {NULL, 0};
    if (tpi_tracks(t) && !tpi_history(t, &history)) return false;
    *slot =
        (tpi_saved){.fn = history.node, .output = history.output, .version = tpi_version(t), .kind = TPI_SAVED_ALIAS};
    return keep(slot, t, packs);
}

bool tpi_saved_output(tpi_saved *slot, tp_tensor *t, uint32_t output) {
    if (!t) return true;
    if (!may_be_saved(t)) return false;
    *slot = (tpi_saved){.output = output, .version = tpi_version(t), .kind = TPI_SAVED_OUTPUT};
    return keep(slot, t, tpi_packs(t));
}

void tpi_saved_drop(tpi_saved *slot) {
    tpi_saved had = *slot;
    /* the kind stays: it tells a freed slot from one that was never given */
    slot->t = NULL;
    slot->fn = NULL;
    if (!had.is_packed)
        tpi_release(had.t);
    else if (had.packed)
        tpi_packed_drop(had.packed);
    tpi_node_release(had.fn);
}

bool tpi_node_save(tpi_node *node, int i, tp_tensor *t) { return tpi_saved_input(&node->saved[i], t); }

bool tpi_node_save_output(tpi_node *node, int i, tp_tensor *t, int output) {
    return tpi_saved_output(&node->saved[i], t, (uint32_t)output);
}

void tpi_node_forget(tpi_node *node) {
    node->spent = true;
    for (uint32_t i = 0; i < node->nsaved; i++) tpi_saved_drop(&node->saved[i]);
    if (node->inner) tpi_node_forget(node->inner); /* an inner node has no inner one of its own */
}

/* ---- Unpacking ---- */

static tp_tensor *with_history(tp_tensor *saved, tpi_node *fn, uint32_t output) {
    tp_tensor *t = tpi_detached(saved);
    if (!t) return NULL;
    tpi_autograd *ag = tpi_autograd_make(t);
    if (!ag) {
        tpi_release(t);
        return NULL;
    }
    tpi_set_history(t, ag, tpi_node_retain(fn), output);
    return t;
}

/* Gives t, which it takes over, the history of what was saved. */
static tp_tensor *restore_history(tpi_node *node, const tpi_saved *slot, tp_tensor *t) {
    bool output = slot->kind == TPI_SAVED_OUTPUT, slice = output && node->outer;
    tpi_node *fn = !output ? slot->fn : node->metas[slot->output].shape ? node : NULL;
    tp_tensor *result = slice ? tpi_unpack_slice(node, t, slot->is_packed)
                        : fn  ? with_history(t, fn, slot->output)
                              : tpi_retain(t);
    tpi_release(t);
    return result;
}

/* What the user's hooks give back is not checked for changes: nobody knows what it shares memory with. */
static tp_tensor *from_packed(tpi_node *node, const tpi_saved *slot) {
    tp_tensor *t = tpi_unpack_packed(slot->packed);
    return !t || tpi_grad_off ? t : restore_history(node, slot, t);
}

static tp_tensor *refuse_changed(const tpi_node *node, const tpi_saved *slot, uint32_t version) {
    bool output = slot->kind == TPI_SAVED_OUTPUT;
    const tpi_node *fn = output ? node : slot->kind == TPI_SAVED_ALIAS ? slot->fn : NULL;
    char which[160] = "", name[96];
    if (fn) snprintf(which, sizeof which, ", which is output %u of %s,", slot->output, tpi_node_forward_name(fn, name));
    return tpi_fail(
        TP_ERR_RUNTIME,
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.%sTensor %s]%s is at version %u; expected version %u instead. It is %s of %s (%s). %s",
        tp_dtype_word((tp_dtype)slot->t->dtype), tpi_shape_text(tpi_shape(slot->t)), which, version, slot->version,
        output ? "a result" : "an input", node->cls->op, node->name,
        atomic_load_explicit(&tpi_anomaly, memory_order_relaxed)
            ? "Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable "
              "in question was changed in there or anywhere later. Good luck!"
            : "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
              "torch.autograd.set_detect_anomaly(True).");
}

tp_tensor *tpi_saved_get(tpi_node *node, const tpi_saved *slot) {
    if (slot->kind == TPI_SAVED_NONE) return NULL;
    if (!slot->t)
        return tpi_fail(
            TP_ERR_RUNTIME,
            "Trying to backward through the graph a second time (or directly access saved tensors after they have "
            "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
            "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if "
            "you need to access saved tensors after calling backward. These were saved by %s (%s)",
            node->cls->op, node->name);
    if (slot->is_packed) return from_packed(node, slot);
    uint32_t version = tpi_version(slot->t);
    if (version != slot->version) return refuse_changed(node, slot, version);
    if (tpi_grad_off || slot->kind == TPI_SAVED_LEAF) return tpi_retain(slot->t);
    return restore_history(node, slot, tpi_retain(slot->t));
}

tp_tensor *tpi_node_saved(tpi_node *node, int i) { return tpi_saved_get(node, &node->saved[i]); }

/* ---- For generated code ---- */

tp_tensor *tpi_node_zeros(tpi_node *node, int output) {
    const tpi_meta *meta = &node->metas[output];
    if (!meta->shape) return tpi_fail(TP_ERR_RUNTIME, "result %d of %s has no gradient", output, node->cls->op);
    tp_tensor *zeros = tpi_empty((tp_ints){meta->shape, meta->ndim}, (tp_dtype)meta->dtype, meta->device);
    if (!zeros || tpi_fill_data(zeros, tp_int(0))) return zeros;
    tpi_release(zeros);
    return NULL;
}

tp_tensor *tpi_copy_for_backward(tp_tensor *t) {
    tpi_edge history;
    if (!tpi_history(t, &history)) return NULL;
    tp_tensor *copy = tpi_empty_like(t, (tp_dtype)t->dtype);
    tpi_autograd *ag = copy && history.node ? tpi_autograd_make(copy) : NULL;
    bool ok = copy && (ag || !history.node) && tpi_copy_data(copy, t);
    if (ok && ag) {
        tpi_set_history(copy, ag, history.node, history.output);
        return copy;
    }
    tpi_node_release(history.node);
    if (ok) return copy;
    tpi_release(copy);
    return NULL;
}

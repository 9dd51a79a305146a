/* Leaves: requires_grad, .grad, and the accumulation node through which gradients reach it.
 *
 * A leaf's accumulation node is made when an edge first asks for it and lives as long as some graph leads to it; the
 * leaf remembers it weakly, so that all graphs over the leaf share one. Two threads may accumulate into one leaf: a
 * table of locks keeps them apart. */
#include <pthread.h>
#include <sched.h>
#include <taper/autograd.h>
#include "tensor/same_device.h"
#include "dispatch/profile.h"
#include "autograd/tape.h"

/* ---- Locks, picked by address ---- */

enum { STRIPES = 64 };
static struct {
    atomic_flag taken;
    char apart[63];
} weak_locks[STRIPES];
static pthread_mutex_t grad_locks[STRIPES] = {[0 ... STRIPES - 1] = PTHREAD_MUTEX_INITIALIZER};

static unsigned stripe(const void *key) { return (unsigned)(((uintptr_t)key >> 4) * 0x9e3779b1u >> 16) % STRIPES; }

void tpi_weak_lock(const void *key) {
    atomic_flag *lock = &weak_locks[stripe(key)].taken;
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire)) sched_yield();
}

void tpi_weak_unlock(const void *key) {
    atomic_flag_clear_explicit(&weak_locks[stripe(key)].taken, memory_order_release);
}

/* ---- The gradient's place ---- */

/* A gradient keeps its parameter's strides where those are dense, and is contiguous otherwise. */
static bool has_layout_of(const tp_tensor *g, const tp_tensor *leaf) {
    if (!tpi_is_dense(leaf)) return tp_is_contiguous(g);
    for (int d = 0; d < leaf->ndim; d++)
        if (leaf->shape[d] != 1 && g->strides[d] != leaf->strides[d]) return false;
    return true;
}

/* Only the engine knows this tensor and its memory, and it has no history: it may become the leaf's gradient as it is.
 */
static bool may_be_kept(tp_tensor *g, const tp_tensor *leaf) {
    return atomic_load_explicit(&g->refs, memory_order_acquire) == 1 &&
           atomic_load_explicit(&g->storage->refs, memory_order_acquire) == 1 && !g->storage->foreign && !g->base &&
           !g->requires_grad && !g->flags && has_layout_of(g, leaf);
}

static tp_tensor *copy_for(tp_tensor *g, const tp_tensor *like) {
    if (tpi_opaque(g)) return tpi_grad_off ? tpi_ask_opaque("detach", g, NULL) : tpi_retain(g);
    if (tpi_asks(g)) return tpi_ask_opaque("clone", g, NULL);
    tp_tensor *copy = tpi_empty_like(like, (tp_dtype)g->dtype);
    if (!copy) return NULL;
    if (tpi_record_copy(copy, g)) return copy;
    tpi_release(copy);
    return NULL;
}

static tp_tensor *first_grad(tp_tensor *leaf, tp_tensor *g) {
    return tpi_grad_off && may_be_kept(g, leaf) ? tpi_retain(g) : copy_for(g, leaf);
}

/* Puts `made` where `had` was, if that is still there. */
static bool exchange_grad(tpi_autograd *ag, pthread_mutex_t *lock, tp_tensor *had, tp_tensor *made) {
    pthread_mutex_lock(lock);
    bool same = ag->grad == had;
    if (same) ag->grad = made;
    pthread_mutex_unlock(lock);
    tpi_release(same ? had : made);
    return same;
}

/* Adds in place when there is no tape, so that whoever holds .grad (an optimiser, a bucket) sees the sum. Otherwise the
 * lock is not held while operators run or gradients are released: both may call out, to code that waits for other
 * threads. */
static bool add_grad(tpi_autograd *ag, const void *key, tp_tensor *leaf, tp_tensor *g) {
    pthread_mutex_t *lock = &grad_locks[stripe(key)];
    for (;;) {
        pthread_mutex_lock(lock);
        tp_tensor *had = ag->grad;
        bool in_place = had && leaf && tpi_grad_off && !had->requires_grad && !tpi_asks(had) && !tpi_asks(g);
        bool ok = !in_place || tpi_add_grads_into(had, g);
        if (in_place && ok) tpi_touch(had);
        if (!in_place) tpi_retain(had);
        pthread_mutex_unlock(lock);
        if (in_place) return ok;
        tp_tensor *made = had ? tpi_add_grads(had, g) : leaf ? first_grad(leaf, g) : copy_for(g, g);
        bool done = made && exchange_grad(ag, lock, had, made);
        tpi_release(had);
        if (!made || done) return made != NULL;
    }
}

bool tpi_accumulate(tp_tensor *leaf, tp_tensor *g) {
    tpi_autograd *ag = tpi_autograd_make(leaf);
    if (!ag) return false;
    if (!tpi_same_shape(leaf, g)) /* a graph from before the leaf's data was exchanged */
        return tpi_refuse(TP_ERR_RUNTIME, "a gradient of shape %s came for a leaf whose shape is %s now",
                          tpi_shape_text(tpi_shape(g)), tpi_shape_text(tpi_shape(leaf)));
    return add_grad(ag, leaf, leaf, g);
}

bool tpi_keep_grad(tpi_autograd *ag, tp_tensor *grad) { return add_grad(ag, ag, NULL, grad); }

/* ---- The accumulation node ---- */

static tp_tensor *leaf_of(const tpi_node *node) { return *(tp_tensor **)node->attrs; }

static bool accumulate_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    (void)grad_inputs;
    tp_tensor *leaf = leaf_of(node);
    tpi_recorder *recorder = tpi_recording_off();
    bool ok = tpi_accumulate(leaf, grads[0]);
    tpi_recording_on(recorder);
    if (!ok) return false;
    if (__builtin_expect(recorder != NULL, 0)) recorder->accumulated(recorder, leaf, grads[0]);
    tpi_hook **after = &tpi_autograd_of(leaf)->after;
    return !*after || tpi_leaf_hooks_run(after, leaf);
}

static void accumulate_release(tpi_node *node) {
    tp_tensor *leaf = leaf_of(node);
    if (!leaf) return;
    tpi_autograd *ag = tpi_autograd_of(leaf);
    tpi_weak_lock(leaf);
    if (ag->accumulator == node) ag->accumulator = NULL;
    tpi_weak_unlock(leaf);
    tpi_release(leaf);
}

static const tpi_node_class accumulate_class = {
    "AccumulateGrad", "accumulate_grad", accumulate_backward, accumulate_release, NULL, NULL};

tp_tensor *tpi_accumulator_leaf(const tpi_node *node) { return node->cls == &accumulate_class ? leaf_of(node) : NULL; }

/* One more reference to the leaf's node, if it has one that is not being freed. */
static tpi_node *known_accumulator(tpi_autograd *ag) {
    tpi_node *node = ag->accumulator;
    if (!node) return NULL;
    int refs = atomic_load_explicit(&node->refs, memory_order_relaxed);
    while (refs > 0)
        if (atomic_compare_exchange_weak_explicit(&node->refs, &refs, refs + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return node;
    return NULL;
}

static tpi_node *make_accumulator(tp_tensor *leaf) {
    tpi_node *node = tpi_node_new(&accumulate_class, 0, 0, sizeof(tp_tensor *), 1);
    if (!node) return NULL;
    node->sequence = UINT64_MAX; /* leaves take their gradients as soon as these are complete */
    if (!tpi_meta_set(&node->metas[0], leaf)) {
        tpi_node_release(node);
        return NULL;
    }
    *(tp_tensor **)node->attrs = tpi_retain(leaf);
    return node;
}

bool tpi_accumulator(tp_tensor *leaf, tpi_edge *edge) {
    tpi_autograd *ag = tpi_autograd_make(leaf);
    if (!ag) return false;
    tpi_weak_lock(leaf);
    edge->node = known_accumulator(ag);
    tpi_weak_unlock(leaf);
    if (edge->node) return true;
    tpi_node *made = make_accumulator(leaf);
    if (!made) return false;
    tpi_weak_lock(leaf);
    edge->node = known_accumulator(ag); /* another thread may have been faster */
    if (!edge->node) {
        ag->accumulator = made;
        edge->node = made;
    }
    tpi_weak_unlock(leaf);
    if (edge->node != made) tpi_node_release(made);
    return true;
}

/* ---- What the user sees ---- */

#define is_given(t) tpi_is_tensor(t, "t")

bool tpi_is_tracked_leaf(const tp_tensor *t) {
    tpi_autograd *ag = tpi_autograd_of(t);
    return t->requires_grad && !(ag && ag->grad_fn) && !(t->base && tpi_view_is_stale(t));
}

/* Brings a view's history up to date; an error there leaves it as it was. */
static void refresh(const tp_tensor *t) {
    if (t->base && tpi_view_is_stale(t)) tpi_view_refresh((tp_tensor *)t);
}

bool tpi_has_history(const tp_tensor *t) {
    if (!t) return false;
    refresh(t);
    return t->requires_grad;
}

bool tp_requires_grad(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    return tpi_has_history(t) || (t && t->base && t->base->requires_grad && tpi_differentiable(t));
}

bool tp_is_leaf(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    if (!t) return false;
    refresh(t);
    tpi_autograd *ag = tpi_autograd_of(t);
    return !(ag && ag->grad_fn);
}

static tp_tensor *set_requires_grad(tp_tensor *t, bool on) {
    if (!tp_is_leaf(t)) {
        if (on) return t;
        return tpi_fail(TP_ERR_RUNTIME,
                        "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                        "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach(). "
                        "This tensor is a result of %s",
                        tp_grad_fn_name(t));
    }
    if (on && !tpi_differentiable(t))
        return tpi_fail(TP_ERR_RUNTIME,
                        "Only Tensors of floating point and complex dtype can require gradients, got %s",
                        tp_dtype_name((tp_dtype)t->dtype));
    if (on && (t->flags & TPI_INFERENCE) && !tpi_inference)
        return tpi_fail(TP_ERR_RUNTIME,
                        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    if (on && !tpi_autograd_make(t)) return NULL;
    t->requires_grad = on;
    return t;
}
tp_tensor *tp_set_requires_grad(tp_tensor *t, bool on) {
    if (!is_given(t)) return NULL;
    const char *before = tpi_op_enter(__func__);
    tp_tensor *set = set_requires_grad(t, on);
    tpi_op_leave(before);
    return set;
}

tp_tensor *tp_grad(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return NULL;
    tpi_autograd *ag = t ? tpi_autograd_of(t) : NULL;
    tp_tensor *grad = ag ? ag->grad : NULL;
    if (__builtin_expect(tpi_recording != NULL, 0) && t) tpi_recording->read_grad(tpi_recording, (tp_tensor *)t, grad);
    return grad;
}

static bool check_grad(const tp_tensor *t, const tp_tensor *grad) {
    if (grad == t) return tpi_refuse(TP_ERR_RUNTIME, "argument 'grad': a tensor cannot be its own gradient");
    if (grad->dtype != t->dtype)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "attempting to assign a gradient with dtype '%s' to a tensor with grad_dtype '%s'. The "
                          "gradient must match the tensor's grad_dtype (defaults to the tensor's dtype).",
                          tp_dtype_name((tp_dtype)grad->dtype), tp_dtype_name((tp_dtype)t->dtype));
    if (!tpi_opaque(grad) && !tpi_opaque(t) && !tpi_same_device(tpi_device(grad), tpi_device(t)))
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'grad': attempting to assign a gradient located on another device than the tensor");
    if (!tpi_same_shape(grad, t))
        return tpi_refuse(TP_ERR_RUNTIME,
                          "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please ensure that "
                          "the gradient and the tensor are the same size",
                          tpi_shape_text(tpi_shape(grad)), tpi_shape_text(tpi_shape(t)));
    return true;
}

bool tp_set_grad(tp_tensor *t, tp_tensor *grad) {
    if (!is_given(t)) return false;
    if (grad && !check_grad(t, grad)) return false;
    if (tpi_marked(grad)) { /* optimisers and reducers read a gradient's memory */
        tp_tensor *plain = tpi_resolve(grad);
        bool set = plain && tp_set_grad(t, plain);
        tp_release(plain);
        return set;
    }
    if (__builtin_expect(tpi_recording != NULL, 0)) tpi_recording->set_grad(tpi_recording, t, grad);
    tpi_autograd *ag = grad ? tpi_autograd_make(t) : tpi_autograd_of(t);
    if (!ag) return !grad;
    pthread_mutex_t *lock = &grad_locks[stripe(t)];
    pthread_mutex_lock(lock);
    tp_tensor *before = ag->grad;
    ag->grad = tpi_retain(grad);
    pthread_mutex_unlock(lock);
    tpi_release(before);
    return true;
}

bool tp_zero_grad(tp_tensor *t) { return tp_set_grad(t, NULL); }

bool tp_retain_grad(tp_tensor *t) {
    if (!is_given(t)) return false;
    if (!tp_requires_grad(t))
        return tpi_refuse(TP_ERR_RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
    tpi_autograd *ag = tpi_autograd_of(t);
    if (!ag || !ag->grad_fn || ag->retains_grad) return true; /* leaves do anyway */
    tpi_meta *meta = &ag->grad_fn->metas[ag->output];
    tpi_weak_lock(meta);
    tpi_autograd *before = meta->retainer;
    meta->retainer = ag;
    atomic_fetch_add_explicit(&ag->refs, 1, memory_order_relaxed);
    tpi_weak_unlock(meta);
    if (before) tpi_autograd_release(before);
    ag->retains_grad = true;
    return true;
}

bool tp_retains_grad(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    tpi_autograd *ag = t ? tpi_autograd_of(t) : NULL;
    return ag && ag->grad_fn && ag->retains_grad;
}

tp_tensor *tp_detach(tp_tensor *t) { return is_given(t) ? tpi_to_scope(tpi_detached(t)) : NULL; }

bool tp_detach_(tp_tensor *t) {
    TPI_STOP_ON_ERROR(false);
    if (!is_given(t)) return false;
    if (t->base) return tpi_refuse(TP_ERR_RUNTIME, "Can't detach views in-place. Use detach() instead.");
    tpi_autograd *ag = tpi_autograd_of(t);
    if (ag) tpi_set_history(t, ag, NULL, 0);
    t->requires_grad = false;
    return true;
}

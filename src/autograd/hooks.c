/* Hooks of tensors and of nodes, and the scopes in which callbacks of the user's run.
 *
 * A leaf's hooks hang on the leaf; those of a result on its node's output, where they stay if the tensor is written in
 * place or released: a hook sees the gradient of the value the tensor had when it was added. Hooks are counted, so that
 * one may remove itself or others while they run. */
#include <taper/autograd.h>
#include <taper/binding.h>
#include "autograd/tape.h"

struct tpi_hook {
    tpi_hook *next;
    int64_t handle;
    atomic_int refs;
    atomic_bool removed;
    union { /* by the list it is in */
        tp_hook_fn fn;
        tp_leaf_hook_fn leaf_fn;
        tp_node_hook_fn node_fn;
    };
    void *context;
    void (*release)(void *context);
};

static void hook_release(tpi_hook *hook) {
    if (atomic_fetch_sub_explicit(&hook->refs, 1, memory_order_acq_rel) != 1) return;
    if (hook->release) hook->release(hook->context);
    tpi_delete(hook, sizeof *hook);
}

void tpi_hooks_free(tpi_hook *list) {
    while (list) {
        tpi_hook *next = list->next;
        hook_release(list);
        list = next;
    }
}

/* ---- Callbacks ----
 * Two scopes: what the callback makes belongs to the inner one, what it keeps with tp_keep to the outer one; what it
 * hands over is taken out of either, or was the callback's own reference all along. */

tpi_callback tpi_callback_begin(void) {
    tpi_callback callback = {.op = tpi_op_now};
    tpi_op_now = NULL; /* messages name the operator the callback calls */
    callback.outer = tp_scope_open();
    callback.inner = tp_scope_open();
    return callback;
}

void tpi_callback_end(tpi_callback *callback, int64_t n, tp_tensor **handed) {
    for (int64_t i = 0; i < n; i++) tp_keep(handed[i]);
    tp_scope_close(&callback->inner);
    for (int64_t i = 0; i < n; i++) tpi_scope_remove(handed[i]);
    tp_scope_close(&callback->outer);
    tpi_op_now = callback->op;
}

/* ---- Lists ---- */

static int64_t add_to(tpi_hook **list, tpi_hook made) {
    static atomic_llong handles;
    tpi_hook *hook = tpi_new0(sizeof *hook);
    if (!hook) return 0;
    hook->fn = made.fn;
    hook->context = made.context;
    hook->release = made.release;
    atomic_init(&hook->refs, 1);
    const int64_t handle = atomic_fetch_add(&handles, 1) + 1;
    hook->handle = handle;
    tpi_hook **end = list;
    tpi_weak_lock(list);
    while (*end) end = &(*end)->next;
    *end = hook;
    tpi_weak_unlock(list);
    return handle;
}

static bool remove_from(tpi_hook **list, int64_t handle) {
    tpi_weak_lock(list);
    tpi_hook **at = list, *found;
    while (*at && (*at)->handle != handle) at = &(*at)->next;
    if ((found = *at)) *at = found->next;
    tpi_weak_unlock(list);
    if (!found) return false;
    atomic_store(&found->removed, true);
    hook_release(found);
    return true;
}

/* All hooks are held before the first one runs, since a hook may change the list. */
typedef struct held {
    int64_t n;
    tpi_hook **v, *few[16];
} held;

static bool hold(tpi_hook **list, held *h) {
    int64_t n = 0;
    h->n = 0;
    h->v = h->few;
    tpi_weak_lock(list);
    for (tpi_hook *hook = *list; hook; hook = hook->next) n++;
    tpi_weak_unlock(list);
    if (n > 16 && !(h->v = tpi_malloc((size_t)n * sizeof *h->v))) return false;
    tpi_weak_lock(list);
    for (tpi_hook *hook = *list; hook && h->n < n; hook = hook->next) {
        atomic_fetch_add_explicit(&hook->refs, 1, memory_order_relaxed);
        h->v[h->n++] = hook;
    }
    tpi_weak_unlock(list);
    return true;
}

static void let_go(held *h) {
    for (int64_t i = 0; i < h->n; i++) hook_release(h->v[i]);
    if (h->v != h->few) tpi_mfree(h->v);
}

static bool counts(const tpi_hook *hook) { return !atomic_load(&hook->removed); }

/* ---- Running ---- */

/* One hook's turn: *grad is replaced by what it returns. */
static bool run_one(const tpi_hook *hook, const tpi_meta *meta, tp_tensor **grad) {
    bool fine_before = tp_ok();
    tpi_callback callback = tpi_callback_begin();
    tp_tensor *result = hook->fn(*grad, hook->context);
    tpi_callback_end(&callback, 1, &result);
    if (fine_before && !tp_ok()) {
        tpi_release(result);
        return false;
    }
    if (!result) return true;
    if (result->ndim != meta->ndim || result->dtype != meta->dtype) goto misfit;
    for (int d = 0; d < meta->ndim; d++)
        if (result->shape[d] != meta->shape[d]) goto misfit;
    tpi_release(*grad);
    *grad = result;
    return true;
misfit:
    tpi_fail(TP_ERR_RUNTIME, "a hook returned a gradient of shape %s and dtype %s; expected shape %s and dtype %s",
             tpi_shape_text(tpi_shape(result)), tp_dtype_name((tp_dtype)result->dtype),
             tpi_shape_text((tp_ints){meta->shape, meta->ndim}), tp_dtype_name((tp_dtype)meta->dtype));
    tpi_release(result);
    return false;
}

bool tpi_hooks_run(tpi_hook **list, const tpi_meta *meta, tp_tensor **grad) {
    held hooks;
    if (!hold(list, &hooks)) return false;
    bool ok = true;
    for (int64_t i = 0; ok && i < hooks.n; i++)
        if (counts(hooks.v[i])) ok = run_one(hooks.v[i], meta, grad);
    let_go(&hooks);
    return ok;
}

bool tpi_leaf_hooks_run(tpi_hook **list, tp_tensor *leaf) {
    held hooks;
    if (!hold(list, &hooks)) return false;
    bool ok = true;
    for (int64_t i = 0; ok && i < hooks.n; i++) {
        if (!counts(hooks.v[i])) continue;
        tpi_callback callback = tpi_callback_begin();
        ok = hooks.v[i]->leaf_fn(leaf, hooks.v[i]->context);
        tpi_callback_end(&callback, 0, NULL);
        if (!ok) tpi_fail(TP_ERR_RUNTIME, "a hook of a leaf failed");
    }
    let_go(&hooks);
    return ok;
}

/* What a node's hook put in the place of a gradient must look like it; none may come where none was. */
static bool may_replace(const tp_tensor *before, const tp_tensor *after, int64_t i) {
    if (!after || (before && after->dtype == before->dtype && tpi_same_shape(after, before))) return true;
    if (!before)
        return tpi_refuse(TP_ERR_RUNTIME, "a hook can't replace a None gradient with a non-None value: gradient %lld",
                          (long long)i);
    return tpi_refuse(TP_ERR_RUNTIME, "a hook has changed gradient %lld from %s of shape %s to %s of shape %s",
                      (long long)i, tp_dtype_name((tp_dtype)before->dtype), tpi_shape_text(tpi_shape(before)),
                      tp_dtype_name((tp_dtype)after->dtype), tpi_shape_text(tpi_shape(after)));
}

/* replaced: n empty slots. */
static bool run_node_hook(const tpi_hook *hook, tp_tensors grad_inputs, tp_tensors grad_outputs, int64_t n,
                          tp_tensor **grads, tp_tensor **replaced) {
    tpi_callback callback = tpi_callback_begin();
    tp_hook_result result = hook->node_fn(grad_inputs, grad_outputs, replaced, hook->context);
    tpi_callback_end(&callback, n, replaced);
    bool ok = result != TP_HOOK_FAILED || tpi_refuse(TP_ERR_RUNTIME, "a hook of a node failed");
    for (int64_t i = 0; ok && result == TP_HOOK_REPLACE && i < n; i++) ok = may_replace(grads[i], replaced[i], i);
    for (int64_t i = 0; i < n; i++) {
        bool replaces = ok && result == TP_HOOK_REPLACE;
        tpi_release(replaces ? grads[i] : replaced[i]);
        if (replaces) grads[i] = replaced[i];
        replaced[i] = NULL;
    }
    return ok;
}

bool tpi_node_hooks_run(tpi_hook **list, tp_tensors grad_inputs, tp_tensors grad_outputs, int64_t n,
                        tp_tensor **grads) {
    held hooks;
    tp_tensor *few[8] = {NULL}, **replaced = few;
    size_t bytes = (size_t)n * sizeof *replaced;
    if (n > 8 && !(replaced = tpi_new0(bytes))) return false;
    bool ok = hold(list, &hooks);
    for (int64_t i = 0; ok && i < hooks.n; i++)
        if (counts(hooks.v[i])) ok = run_node_hook(hooks.v[i], grad_inputs, grad_outputs, n, grads, replaced);
    let_go(&hooks);
    if (replaced != few) tpi_delete(replaced, bytes);
    return ok;
}

/* ---- What the user sees ---- */

static bool given(const void *object, const char *name, const char *kind) {
    return object || tpi_refuse(TP_ERR_TYPE, "argument '%s': expected a %s, got NULL", name, kind);
}

static tpi_hook **hooks_of(tp_tensor *t) {
    tpi_autograd *ag = tpi_autograd_of(t);
    if (!ag) return NULL;
    return ag->grad_fn ? &ag->grad_fn->metas[ag->output].hooks : &ag->hooks;
}

static int64_t refuse_hook(const char *why) {
    tpi_fail(TP_ERR_RUNTIME, "%s", why);
    return 0;
}

int64_t tp_add_hook(tp_tensor *t, tp_hook_fn fn, void *context, void (*release)(void *context)) {
    if (TPI_ENDED(t, "a tensor")) return -1;
    if (!given(t, "t", "tensor") || !given((const void *)fn, "fn", "function")) return 0;
    if (!tpi_has_history(t)) return refuse_hook("cannot register a hook on a tensor that doesn't require gradient");
    return add_to(hooks_of(t), (tpi_hook){.fn = fn, .context = context, .release = release});
}

bool tp_has_hooks(const tp_tensor *leaf) {
    if (TPI_ENDED(leaf, "a tensor")) return false;
    return leaf && leaf->autograd && (leaf->autograd->hooks || leaf->autograd->after);
}

int64_t tp_add_accumulated_hook(tp_tensor *leaf, tp_leaf_hook_fn fn, void *context, void (*release)(void *context)) {
    if (TPI_ENDED(leaf, "a tensor")) return -1;
    if (!given(leaf, "leaf", "tensor") || !given((const void *)fn, "fn", "function")) return 0;
    if (!tpi_has_history(leaf)) return refuse_hook("cannot register a hook on a tensor that doesn't require gradient");
    if (!tp_is_leaf(leaf)) return refuse_hook("post accumulate grad hooks cannot be registered on non-leaf tensors");
    return add_to(&tpi_autograd_of(leaf)->after, (tpi_hook){.leaf_fn = fn, .context = context, .release = release});
}

bool tp_remove_hook(tp_tensor *t, int64_t handle) {
    if (TPI_ENDED(t, "a tensor")) return false;
    tpi_hook **list = t ? hooks_of(t) : NULL;
    if (list && (remove_from(list, handle) || remove_from(&tpi_autograd_of(t)->after, handle))) return true;
    return tpi_refuse(TP_ERR_VALUE, "argument 'handle': the tensor has no hook with the handle %lld",
                      (long long)handle);
}

static int64_t add_node_hook(tp_node *node, bool before, tpi_hook made) {
    if (!given(node, "node", "node") || !given((const void *)made.node_fn, "fn", "function")) return 0;
    tpi_extra *extra = tpi_node_extra(node);
    return extra ? add_to(before ? &extra->before : &extra->after, made) : 0;
}

int64_t tp_node_add_hook(tp_node *node, tp_node_hook_fn fn, void *context, void (*release)(void *context)) {
    if (TPI_ENDED(node, "a node")) return -1;
    return add_node_hook(node, false, (tpi_hook){.node_fn = fn, .context = context, .release = release});
}

int64_t tp_node_add_prehook(tp_node *node, tp_node_hook_fn fn, void *context, void (*release)(void *context)) {
    if (TPI_ENDED(node, "a node")) return -1;
    return add_node_hook(node, true, (tpi_hook){.node_fn = fn, .context = context, .release = release});
}

bool tp_node_remove_hook(tp_node *node, int64_t handle) {
    if (TPI_ENDED(node, "a node")) return false;
    tpi_extra *extra = node ? node->extra : NULL;
    if (extra && (remove_from(&extra->before, handle) || remove_from(&extra->after, handle))) return true;
    return tpi_refuse(TP_ERR_VALUE, "argument 'handle': the node has no hook with the handle %lld", (long long)handle);
}

/* ---- Visiting what a tensor's hooks hold ---- */

static void visit_list(tpi_hook **list, tp_context_visitor visit, void *arg) {
    tpi_weak_lock(list);
    for (tpi_hook *hook = *list; hook; hook = hook->next)
        if (hook->release) visit(hook->release, hook->context, arg);
    tpi_weak_unlock(list);
}

void tp_visit_contexts(const tp_tensor *t, tp_context_visitor visit, void *arg) {
    tpi_autograd *ag = t && tp_references(t) == 1 ? tpi_autograd_of(t) : NULL;
    if (!ag) return;
    visit_list(&ag->hooks, visit, arg);
    visit_list(&ag->after, visit, arg);
    tpi_node *node = ag->grad_fn;
    if (!node || atomic_load(&node->refs) != 1) return;
    for (uint32_t o = 0; o < node->noutputs; o++) visit_list(&node->metas[o].hooks, visit, arg);
    if (node->extra) {
        visit_list(&node->extra->before, visit, arg);
        visit_list(&node->extra->after, visit, arg);
    }
    void (*release)(void *context) = tpi_function_release(node);
    if (release) visit(release, tp_function_context(tp_node_function(node)), arg);
}

/* Tensor hooks, and the scopes in which callbacks of the user's run.
 *
 * A leaf's hooks hang on the leaf; those of a result on its node's output, where they stay if the tensor is written in place or
 * released: a hook sees the gradient of the value the tensor had when it was added. Hooks are counted, so that one may remove
 * itself or others while they run. */
#include <taper/autograd.h>
#include "autograd/tape.h"

struct tpi_hook {
    tpi_hook *next;
    int64_t handle;
    atomic_int refs;
    atomic_bool removed;
    tp_hook_fn fn;
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

/* ---- Callbacks ----------------------------------------------------------------------------------------------------------
 * Two scopes: what the callback makes belongs to the inner one, what it keeps with tp_keep to the outer one; what it hands over
 * is taken out of either, or was the callback's own reference all along. */

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
    for (int64_t i = 0; i < n; i++) tpi_scope_take(handed[i]);
    tp_scope_close(&callback->outer);
    tpi_op_now = callback->op;
}

/* ---- Running -------------------------------------------------------------------------------------------------------------- */

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
    tpi_fail(TP_ERR_RUNTIME, "a hook returned a gradient of shape %s and dtype %s; expected shape %s and dtype %s", tpi_shape_text(tpi_shape(result)),
             tp_dtype_name((tp_dtype)result->dtype), tpi_shape_text((tp_ints){meta->shape, meta->ndim}), tp_dtype_name((tp_dtype)meta->dtype));
    tpi_release(result);
    return false;
}

/* All hooks are held before the first one runs, since a hook may change the list. */
bool tpi_hooks_run(tpi_hook **list, const tpi_meta *meta, tp_tensor **grad) {
    tpi_hook *held[16], **hooks = held;
    int64_t n = 0;
    tpi_weak_lock(list);
    for (tpi_hook *h = *list; h; h = h->next) n++;
    tpi_weak_unlock(list);
    if (n > 16 && !(hooks = tpi_malloc((size_t)n * sizeof *hooks))) return false;
    int64_t taken = 0;
    tpi_weak_lock(list);
    for (tpi_hook *h = *list; h && taken < n; h = h->next) {
        atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
        hooks[taken++] = h;
    }
    tpi_weak_unlock(list);
    bool ok = true;
    for (int64_t i = 0; i < taken; i++) {
        if (ok && !atomic_load(&hooks[i]->removed)) ok = run_one(hooks[i], meta, grad);
        hook_release(hooks[i]);
    }
    if (hooks != held) tpi_mfree(hooks);
    return ok;
}

/* ---- What the user sees ------------------------------------------------------------------------------------------------------ */

static tpi_hook **hooks_of(tp_tensor *t) {
    tpi_autograd *ag = tpi_autograd_of(t);
    if (!ag) return NULL;
    return ag->grad_fn ? &ag->grad_fn->metas[ag->output].hooks : &ag->hooks;
}

int64_t tp_add_hook(tp_tensor *t, tp_hook_fn fn, void *context, void (*release)(void *context)) {
    static atomic_llong handles;
    if (!t || !fn) {
        tpi_fail(TP_ERR_TYPE, "argument '%s': expected a %s, got NULL", t ? "fn" : "t", t ? "function" : "tensor");
        return 0;
    }
    if (!tp_requires_grad(t)) {
        tpi_fail(TP_ERR_RUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
        return 0;
    }
    tpi_hook *hook = tpi_new0(sizeof *hook);
    if (!hook) return 0;
    atomic_init(&hook->refs, 1);
    hook->handle = atomic_fetch_add(&handles, 1) + 1;
    hook->fn = fn, hook->context = context, hook->release = release;
    int64_t handle = hook->handle;
    tpi_hook **list = hooks_of(t), **end = list;
    tpi_weak_lock(list);
    while (*end) end = &(*end)->next;
    *end = hook;
    tpi_weak_unlock(list);
    return handle;
}

bool tp_remove_hook(tp_tensor *t, int64_t handle) {
    tpi_hook **list = t ? hooks_of(t) : NULL, *found = NULL;
    if (list) {
        tpi_weak_lock(list);
        tpi_hook **at = list;
        while (*at && (*at)->handle != handle) at = &(*at)->next;
        if ((found = *at)) *at = found->next;
        tpi_weak_unlock(list);
    }
    if (!found) return tpi_refuse(TP_ERR_VALUE, "argument 'handle': the tensor has no hook with the handle %lld", (long long)handle);
    atomic_store(&found->removed, true);
    hook_release(found);
    return true;
}

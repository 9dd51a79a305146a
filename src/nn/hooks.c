/* Hooks of modules: before a forward, after it, and when the gradients of its inputs are there.
 *
 * A backward hook needs one node before and one behind all of the module's work, whatever the module does. So the
 * tensor inputs and the tensor results each go through an identity that is one node of the tape: the gradients that
 * reach the second are the module's grad_outputs, those that leave the first its grad_inputs. */
#include "autograd/glue.h"
#include "base/memory.h"
#include "nn/layer.h"
#include <taper/ops.h>

typedef enum hook_kind { BEFORE, AFTER, BACKWARD } hook_kind;
typedef struct hook {
    int64_t handle;
    hook_kind kind;
    union {
        tp_prehook_fn before;
        tp_forward_hook_fn after;
        tp_module_backward_fn backward;
    } fn;
    void *context;
    void (*release)(void *context);
} hook;
struct tpi_module_hooks {
    int64_t n, last; /* handles count up */
    hook *v;
};

/* ---- adding and removing ---- */
static int64_t add(tp_module *m, hook h) {
    if (!m->hooks && !(m->hooks = tpi_new0(sizeof *m->hooks))) return 0;
    struct tpi_module_hooks *all = m->hooks;
    hook *more = tpi_realloc(all->v, sizeof *more * (size_t)(all->n + 1));
    if (!more) return 0;
    all->v = more;
    h.handle = ++all->last;
    more[all->n++] = h;
    return h.handle;
}
int64_t tp_module_add_prehook(tp_module *m, tp_prehook_fn fn, void *context, void (*release)(void *)) {
    if (!TPI_HANDLE_GIVEN(m, "a module") || !TPI_GIVEN(fn, "a function")) return 0;
    return add(m, (hook){.kind = BEFORE, .fn.before = fn, .context = context, .release = release});
}
int64_t tp_module_add_forward_hook(tp_module *m, tp_forward_hook_fn fn, void *context, void (*release)(void *)) {
    if (!TPI_HANDLE_GIVEN(m, "a module") || !TPI_GIVEN(fn, "a function")) return 0;
    return add(m, (hook){.kind = AFTER, .fn.after = fn, .context = context, .release = release});
}
int64_t tp_module_add_backward_hook(tp_module *m, tp_module_backward_fn fn, void *context, void (*release)(void *)) {
    if (!TPI_HANDLE_GIVEN(m, "a module") || !TPI_GIVEN(fn, "a function")) return 0;
    return add(m, (hook){.kind = BACKWARD, .fn.backward = fn, .context = context, .release = release});
}

bool tp_module_remove_hook(tp_module *m, int64_t handle) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    struct tpi_module_hooks *all = m->hooks;
    int64_t i = 0;
    while (all && i < all->n && all->v[i].handle != handle) i++;
    if (!all || i == all->n)
        return tpi_refuse(TP_ERR_VALUE, "tp_module_remove_hook: argument 'handle': %s has no hook %lld", m->name,
                          (long long)handle);
    hook gone = all->v[i];
    memmove(all->v + i, all->v + i + 1, sizeof gone * (size_t)(--all->n - i));
    if (gone.release) gone.release(gone.context);
    return true;
}

void tpi_module_hooks_free(tp_module *m) {
    struct tpi_module_hooks *all = m->hooks;
    if (!all) return;
    for (int64_t i = 0; i < all->n; i++)
        if (all->v[i].release) all->v[i].release(all->v[i].context);
    tpi_mfree(all->v);
    tpi_delete(all, sizeof *all);
    m->hooks = NULL;
}

static bool has(const tp_module *m, hook_kind kind) {
    for (int64_t i = 0; i < m->hooks->n; i++)
        if (m->hooks->v[i].kind == kind) return true;
    return false;
}

static bool stopped(const tp_module *m, const char *what) {
    return tp_ok() ? tpi_refuse(TP_ERR_RUNTIME, "%s: a hook stopped the forward %s it", m->name, what) : false;
}

/* ---- before and after ---- */
/* values holds a reference to each of its tensors. Those that the hook exchanged are the new ones', out of its scope.
 */
static void keep_names(int64_t n, tp_value *values, const tp_value *before) {
    for (int64_t i = 0; i < n; i++) {
        if (!values[i].name) values[i].name = before[i].name; /* an argument that was given by name stays it */
        const bool same = before[i].kind == TP_K_TENSOR && values[i].kind == TP_K_TENSOR &&
                          before[i].as.tensor == values[i].as.tensor;
        if (same) continue;
        if (values[i].kind == TP_K_TENSOR) tp_retain(values[i].as.tensor);
        if (before[i].kind == TP_K_TENSOR) tp_release(before[i].as.tensor);
    }
}
static void drop(int64_t n, tp_value *values) {
    for (int64_t i = 0; i < n; i++) {
        if (values[i].kind == TP_K_TENSOR) tp_release(values[i].as.tensor);
        values[i] = tp_value_none();
    }
}

typedef bool (*calling)(tp_module *m, const hook *h, int64_t nargs, tp_value *args, int64_t nresults,
                        tp_value *results);
static bool call_before(tp_module *m, const hook *h, int64_t nargs, tp_value *args, int64_t nresults,
                        tp_value *results) {
    (void)nresults;
    (void)results;
    return h->fn.before(m, nargs, args, h->context);
}
static bool call_after(tp_module *m, const hook *h, int64_t nargs, tp_value *args, int64_t nresults,
                       tp_value *results) {
    return h->fn.after(m, nargs, args, nresults, results, h->context);
}

/* Runs the hooks of a kind; `changing` of the two lists is the one that they may write to. */
static bool run(tp_module *m, hook_kind kind, int64_t nargs, tp_value *args, int64_t nresults, tp_value *results) {
    const calling call = kind == BEFORE ? call_before : call_after;
    const int64_t n = kind == BEFORE ? nargs : nresults;
    tp_value *changing = kind == BEFORE ? args : results;
    tp_value *old = tpi_malloc(sizeof *old * (size_t)(n + 1));
    bool fine = old != NULL;
    for (int64_t i = 0; fine && i < m->hooks->n; i++) {
        const hook h = m->hooks->v[i]; /* a hook may add or remove some */
        if (h.kind != kind) continue;
        if (n) memcpy(old, changing, sizeof *old * (size_t)n);
        TP_SCOPE {
            fine = call(m, &h, nargs, args, nresults, results) && tp_ok();
            keep_names(n, changing, old);
        }
    }
    tpi_mfree(old);
    return fine || stopped(m, kind == BEFORE ? "before" : "after");
}

/* ---- backward ---- */
typedef struct watch { /* of one forward; both of its nodes hold it */
    atomic_int refs;
    tp_module *module;        /* a reference */
    tp_tensor **grad_outputs; /* from the second node's turn to the first one's; owned */
    int64_t noutputs;
} watch;

static void forget(watch *w) {
    for (int64_t i = 0; w->grad_outputs && i < w->noutputs; i++) tp_release(w->grad_outputs[i]);
    tpi_mfree(w->grad_outputs);
    w->grad_outputs = NULL;
}
static void watch_release(void *context) {
    watch *w = context;
    if (atomic_fetch_sub(&w->refs, 1) != 1) return;
    forget(w);
    tp_module_release(w->module);
    tpi_delete(w, sizeof *w);
}

static bool pass_on(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs, int64_t noutputs) {
    (void)call;
    (void)context;
    for (int64_t i = 0; i < noutputs; i++) outputs[i] = tp_retain(inputs.v[i]);
    return true;
}
static bool pass_back(tp_tensor *const *grads, tp_tensor **grad_inputs, int64_t n) {
    for (int64_t i = 0; i < n; i++) grad_inputs[i] = tp_retain(grads[i]);
    return true;
}

/* The module's results: their gradients come first in a backward. */
static bool results_backward(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                             tp_tensor **grad_inputs, int64_t ninputs) {
    (void)call;
    (void)noutputs;
    watch *w = context;
    forget(w);
    w->grad_outputs = tpi_malloc(sizeof(tp_tensor *) * (size_t)(ninputs + 1));
    if (!w->grad_outputs) return false;
    for (int64_t i = 0; i < ninputs; i++) w->grad_outputs[i] = tp_retain(grads[i]);
    w->noutputs = ninputs;
    return pass_back(grads, grad_inputs, ninputs);
}

static bool call_hooks(watch *w, tp_tensor **grads, int64_t n) {
    tp_module *m = w->module;
    for (int64_t i = 0; m->hooks && i < m->hooks->n; i++) {
        const hook h = m->hooks->v[i];
        if (h.kind != BACKWARD) continue;
        tp_tensor **replaced = tpi_malloc(sizeof *replaced * (size_t)(n + 1));
        if (!replaced) return false;
        memset(replaced, 0, sizeof *replaced * (size_t)(n + 1));
        const tp_hook_result result =
            h.fn.backward(m, (tp_tensors){grads, n}, (tp_tensors){w->grad_outputs, w->grad_outputs ? w->noutputs : 0},
                          replaced, h.context);
        for (int64_t k = 0; result == TP_HOOK_REPLACE && k < n; k++) {
            tp_release(grads[k]);
            grads[k] = tp_own(replaced[k]);
        }
        tpi_mfree(replaced);
        if (result == TP_HOOK_FAILED || !tp_ok())
            return tp_ok() ? tpi_refuse(TP_ERR_RUNTIME, "%s: a backward hook failed", m->name) : false;
    }
    return true;
}

static bool inputs_backward(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                            tp_tensor **grad_inputs, int64_t ninputs) {
    (void)call;
    (void)noutputs;
    watch *w = context;
    bool fine = pass_back(grads, grad_inputs, ninputs) && call_hooks(w, grad_inputs, ninputs);
    forget(w);
    return fine;
}

/* Sends the tensors among the values, whose references values holds, through one node. */
static bool through_node(watch *w, bool results, int64_t n, tp_value *values) {
    const tp_function function = {.size = (int64_t)sizeof function,
                                  .name = "BackwardHookFunction",
                                  .forward = pass_on,
                                  .backward = results ? results_backward : inputs_backward,
                                  .release = watch_release};
    tp_tensor **in = tpi_malloc(2 * sizeof *in * (size_t)(n + 1)), **out = in ? in + n + 1 : NULL;
    if (!in) return false;
    int64_t tensors = 0;
    for (int64_t i = 0; i < n; i++)
        if (values[i].kind == TP_K_TENSOR && values[i].as.tensor) in[tensors++] = values[i].as.tensor;
    bool fine = true;
    TP_SCOPE {
        atomic_fetch_add(&w->refs, tensors ? 1 : 0);
        fine = !tensors || tp_apply(&function, w, (tp_tensors){in, tensors}, out, tensors);
        for (int64_t i = 0, k = 0; fine && i < n; i++) {
            if (values[i].kind != TP_K_TENSOR || !values[i].as.tensor) continue;
            tp_release(values[i].as.tensor);
            values[i].as.tensor = tp_retain(out[k++]);
        }
    }
    tpi_mfree(in);
    return fine;
}

static watch *watch_new(tp_module *m) {
    watch *w = tpi_new0(sizeof *w);
    if (!w) return NULL;
    atomic_init(&w->refs, 1);
    w->module = tp_module_retain(m);
    return w;
}

/* ---- a forward with all of them ---- */
bool tpi_forward_hooked(tp_module *m, int64_t nargs, const tp_value *given, int64_t nresults, tp_value *results,
                        tp_forward_function plain) {
    tp_value *args = tpi_malloc(sizeof *args * (size_t)(nargs + 1));
    watch *w = args && has(m, BACKWARD) && tp_grad_enabled() ? watch_new(m) : NULL;
    if (!args) return false;
    for (int64_t i = 0; i < nargs; i++) {
        args[i] = given[i];
        if (args[i].kind == TP_K_TENSOR) tp_retain(args[i].as.tensor);
    }
    bool fine = run(m, BEFORE, nargs, args, 0, NULL) && (!w || through_node(w, false, nargs, args)) &&
                plain(m, nargs, args, nresults, results);
    if (fine && !(run(m, AFTER, nargs, args, nresults, results) && (!w || through_node(w, true, nresults, results)))) {
        drop(nresults, results);
        fine = false;
    }
    if (w) watch_release(w);
    drop(nargs, args);
    tpi_mfree(args);
    return fine;
}

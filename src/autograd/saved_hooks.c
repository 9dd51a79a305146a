/* Saved-tensor hooks: a thread's stack of pack and unpack functions, and the objects that they made.
 *
 * A pair of hooks is counted: the stack holds it while it is pushed, and every object it packed until the graph lets go
 * of that object. */
#include <string.h>
#include "autograd/tape.h"

typedef struct tpi_packers {
    atomic_int refs;
    tp_saved_hooks hooks;
    struct tpi_packers *below; /* on the stack */
} hook_set;

struct tpi_packed {
    hook_set *set;
    void *object;
};

TPI_THREAD_LOCAL hook_set *tpi_packers_now; /* the top of the stack */
static TPI_THREAD_LOCAL const char *forbidden;

static void set_release(hook_set *set) {
    if (atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) != 1) return;
    if (set->hooks.release) set->hooks.release(set->hooks.context);
    tpi_delete(set, sizeof *set);
}

/* ---- The stack ---- */

bool tp_push_saved_hooks(const tp_saved_hooks *hooks) {
    if (!hooks || hooks->size < (int64_t)sizeof *hooks || !hooks->pack || !hooks->unpack)
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'hooks': expected a tp_saved_hooks with its size, a pack and an unpack function");
    if (forbidden) return tpi_refuse(TP_ERR_RUNTIME, "%s", forbidden);
    hook_set *set = tpi_new0(sizeof *set);
    if (!set) return false;
    atomic_init(&set->refs, 1);
    set->hooks = *hooks;
    set->below = tpi_packers_now;
    tpi_packers_now = set;
    return true;
}

bool tp_pop_saved_hooks(void) {
    hook_set *set = tpi_packers_now;
    if (!set) return tpi_refuse(TP_ERR_RUNTIME, "no hooks for saved tensors are pushed in this thread");
    tpi_packers_now = set->below;
    set_release(set);
    return true;
}

const char *tp_forbid_saved_hooks(const char *message) {
    const char *before = forbidden;
    if (message && tpi_packers_now) {
        tpi_fail(TP_ERR_RUNTIME, "%s", message);
        return before;
    }
    forbidden = message;
    return before;
}

/* ---- Objects ---- */

/* Runs the hook without a tape. NULL: an error is pending. */
static void *call_pack(const tp_saved_hooks *hooks, tp_tensor *t) {
    bool off = tpi_grad_off, fine_before = tp_ok();
    uint32_t version = tpi_version(t);
    tpi_grad_off = true;
    tpi_callback callback = tpi_callback_begin();
    void *object = hooks->pack(t, hooks->context);
    tpi_callback_end(&callback, 0, NULL);
    tpi_grad_off = off;
    if (!object) return tpi_fail(TP_ERR_RUNTIME, "a saved tensor pack hook failed");
    bool changed = tpi_version(t) != version;
    if (changed)
        tpi_fail(TP_ERR_RUNTIME,
                 "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can "
                 "not be modified by in-place operations as this can lead to unexpected side-effects.");
    if (!changed && (!fine_before || tp_ok())) return object;
    if (hooks->drop) hooks->drop(object, hooks->context);
    return NULL;
}

struct tpi_packed *tpi_pack(tp_tensor *t) {
    struct tpi_packed *packed = tpi_new(sizeof *packed);
    if (!packed) return NULL;
    hook_set *set = tpi_packers_now;
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    *packed = (struct tpi_packed){set, call_pack(&set->hooks, t)};
    if (packed->object) return packed;
    set_release(set);
    tpi_delete(packed, sizeof *packed);
    return NULL;
}

tp_tensor *tpi_unpack_packed(const struct tpi_packed *packed) {
    const tp_saved_hooks *hooks = &packed->set->hooks;
    bool fine_before = tp_ok();
    tpi_callback callback = tpi_callback_begin();
    tp_tensor *t = hooks->unpack(packed->object, hooks->context);
    tpi_callback_end(&callback, 1, &t);
    if (!t) return tpi_fail(TP_ERR_RUNTIME, "a saved tensor unpack hook gave no tensor");
    if (!fine_before || tp_ok()) return t;
    tpi_release(t);
    return NULL;
}

void tpi_packed_drop(struct tpi_packed *packed) {
    hook_set *set = packed->set;
    if (set->hooks.drop) set->hooks.drop(packed->object, set->hooks.context);
    tpi_delete(packed, sizeof *packed);
    set_release(set);
}

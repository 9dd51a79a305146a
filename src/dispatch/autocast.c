/* Automatic mixed precision: the thread's regions, and the casts of an operator's arguments that the tables ask for.
 *
 * The rules are PyTorch's: only floating tensors on a device whose autocast is on are looked at, and float64 is left
 * alone. Casts are recorded like any call. The cast of a float32 leaf that requires gradients, a parameter, is kept
 * until the outermost region ends; it is known by the tensor and its version, so that a parameter written meanwhile is
 * cast anew. */
#include <string.h>
#include <taper/amp.h>
#include <taper/autograd.h>
#include "dispatch/detour.h"
#include "dispatch/grad_mode.h"
#include "tensor/check_arguments.h"
#include "tensor/upcalls.h"

enum { MOST_ARGS = 24 };

typedef struct tpi_casts {
    int n, nlists;
    tp_tensor *tensors[MOST_ARGS];
    tp_tensors lists[MOST_ARGS];
} casts;

typedef struct kept {
    tp_tensor *from, *cast; /* owned; from NULL: a free place */
    uint32_t version;
} kept;

/* The thread's region. Settings in front, the casts it keeps behind: an open hash table with room for a power of two.
 */
typedef struct region {
    bool enabled[TP_DEVICE_TYPES];
    uint8_t dtype[TP_DEVICE_TYPES]; /* 0: as if never set */
    bool cache_off;
    int64_t depth, n, capacity;
    kept *table;
} region;
static TPI_THREAD_LOCAL region here;

/* ---- Kept casts ---- */

static kept *slot_of(const tp_tensor *t) {
    uint64_t hash = ((uint64_t)(uintptr_t)t >> 6) * 0x9E3779B97F4A7C15u;
    for (int64_t i = (int64_t)(hash >> 20) & (here.capacity - 1);; i = (i + 1) & (here.capacity - 1))
        if (!here.table[i].from || here.table[i].from == t) return &here.table[i];
}

static bool reserve_cast(void) {
    if (here.n * 2 < here.capacity) return true;
    int64_t before = here.capacity;
    kept *old = here.table, *table = tpi_new0((size_t)(before ? 2 * before : 64) * sizeof *table);
    if (!table) return false;
    here.table = table;
    here.capacity = before ? 2 * before : 64;
    for (int64_t i = 0; i < before; i++)
        if (old[i].from) *slot_of(old[i].from) = old[i];
    if (old) tpi_delete(old, (size_t)before * sizeof *old);
    return true;
}

void tp_clear_autocast_cache(void) {
    kept *table = here.table;
    int64_t capacity = here.capacity;
    here.table = NULL;
    here.capacity = here.n = 0;
    for (int64_t i = 0; i < capacity; i++) {
        tp_release(table[i].from);
        tp_release(table[i].cast);
    }
    if (table) tpi_delete(table, (size_t)capacity * sizeof *table);
}

/* The cast of a parameter, from the table or made and put there. Owned. */
static tp_tensor *kept_cast(tp_tensor *t, tp_dtype to) {
    if (!reserve_cast()) return NULL;
    kept *k = slot_of(t);
    if (k->from && k->version == tpi_version(t) && k->cast->dtype == to) return tpi_retain(k->cast);
    tp_tensor *cast = tpi_above.cast(t, to);
    if (!cast) return NULL;
    if (!k->from) {
        here.n++;
        k->from = tpi_retain(t);
    }
    tp_release(k->cast);
    k->cast = tpi_retain(cast);
    k->version = tpi_version(t);
    return cast;
}

/* ---- Arguments ---- */

static bool is_eligible(const tp_tensor *t) {
    return t && here.enabled[tpi_device(t).type] && (tpi_dtype_category[t->dtype] & TPI_CAT_FLOAT) &&
           t->dtype != TP_FLOAT64;
}

static tp_dtype lower_of(const tp_tensor *t) { return tp_autocast_dtype((tp_device_type)tpi_device(t).type); }

/* t as `to`, owned; t itself where nothing is to be done. NULL: an error is pending. */
static tp_tensor *cast_tensor(tp_tensor *t, tp_dtype to) {
    if (!is_eligible(t) || t->dtype == to) return tpi_retain(t);
    bool keep = to != TP_FLOAT32 && to == lower_of(t) && t->dtype == TP_FLOAT32 && t->requires_grad &&
                tpi_above.is_leaf(t) && !t->base && !here.cache_off && here.depth > 0 && !tpi_grad_off;
    return keep ? kept_cast(t, to) : tpi_above.cast(t, to);
}

/* The dtype for tensors that must agree: float32 if one has it, else the region's. False: an error, for one that is
 * neither. */
static bool widen(tp_dtype *widest, const tp_tensor *t) {
    if (!is_eligible(t)) return true;
    if (t->dtype == TP_FLOAT32)
        *widest = TP_FLOAT32;
    else if (*widest != TP_FLOAT32 && t->dtype != lower_of(t))
        return tpi_refuse(TP_ERR_RUNTIME, "Unexpected floating ScalarType in at::autocast::prioritize");
    else if (*widest != TP_FLOAT32)
        *widest = (tp_dtype)t->dtype;
    return true;
}

static tp_tensor *argument_tensor(char kind, void *arg) {
    return kind == 't' ? *(tp_tensor **)arg : kind == 'o' ? ((tp_operand *)arg)->tensor : NULL;
}

static bool widest_of(const tpi_operator_entry *entry, void *const *args, tp_dtype *widest) {
    *widest = TP_NO_DTYPE;
    for (int i = 0; entry->args[i]; i++) {
        if (!widen(widest, argument_tensor(entry->args[i], args[i]))) return false;
        const tp_tensors *list = entry->args[i] == 'l' ? args[i] : NULL;
        for (int64_t k = 0; list && k < list->n; k++)
            if (!widen(widest, list->v[k])) return false;
    }
    return true;
}

static bool cast_list(casts *c, tp_tensors *list, tpi_cast how, tp_dtype to) {
    tp_tensors made = {tpi_malloc((size_t)list->n * sizeof *made.v + 1), 0};
    if (!made.v) return false;
    c->lists[c->nlists++] = made;
    for (int64_t i = 0; i < list->n; i++) {
        tp_tensor *t = list->v[i];
        made.v[i] = t ? cast_tensor(t, how == TPI_CAST_LOWER ? lower_of(t) : to) : NULL;
        if (t && !made.v[i]) return false;
        c->lists[c->nlists - 1].n = ++made.n;
    }
    *list = made;
    return true;
}

static bool cast_argument(casts *c, char kind, void *arg, tpi_cast how, tp_dtype to) {
    if (kind == 'l') return cast_list(c, arg, how, to);
    tp_tensor *t = argument_tensor(kind, arg);
    if (!is_eligible(t)) return true;
    tp_tensor *cast = cast_tensor(t, how == TPI_CAST_LOWER ? lower_of(t) : to);
    if (!cast) return false;
    c->tensors[c->n++] = cast;
    if (kind == 't')
        *(tp_tensor **)arg = cast;
    else
        ((tp_operand *)arg)->tensor = cast;
    return true;
}

bool tpi_autocast_wants_float(const tp_tensor *t) {
    return tpi_detours & TPI_AUTOCASTS && is_eligible(t) && t->dtype != TP_FLOAT32;
}

void tpi_autocast_release(casts *c) {
    for (int i = 0; i < c->n; i++) tp_release(c->tensors[i]);
    for (int i = 0; i < c->nlists; i++) tpi_release_list(c->lists[i]);
    tpi_delete(c, sizeof *c);
}

static bool cares_on_gpu(const tp_tensor *t, bool *gpu) { /* is the region of the tensor's device on? */
    if (!is_eligible(t)) return false;
    *gpu = tpi_device(t).type != TP_CPU;
    return true;
}

tpi_cast tpi_autocast_rule(const tpi_operator_entry *entry, void *const *args) {
    if (entry->cast == entry->gpu_cast) return entry->cast;
    bool gpu = false, found = false;
    for (int i = 0; entry->args[i] && !found; i++) {
        found = cares_on_gpu(argument_tensor(entry->args[i], args[i]), &gpu);
        const tp_tensors *list = entry->args[i] == 'l' ? args[i] : NULL;
        for (int64_t k = 0; list && k < list->n && !found; k++) found = cares_on_gpu(list->v[k], &gpu);
    }
    return gpu ? entry->gpu_cast : entry->cast;
}

bool tpi_autocast_arguments(const tpi_operator_entry *entry, tpi_cast rule, void *const *args, casts **out) {
    if (rule == TPI_CAST_REFUSED)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
            "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
            "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
            "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to "
            "autocast.");
    tp_dtype to = TP_FLOAT32;
    if (rule == TPI_CAST_PROMOTE) {
        if (!widest_of(entry, args, &to)) return false;
        if (to == TP_NO_DTYPE) return true;
    }
    casts *c = tpi_new(sizeof *c);
    if (!c) return false;
    c->n = c->nlists = 0;
    for (int i = 0; entry->args[i]; i++) {
        if (cast_argument(c, entry->args[i], args[i], rule, to)) continue;
        tpi_autocast_release(c);
        return false;
    }
    *out = c;
    return true;
}

/* ---- Regions ---- */

static bool is_device_of(tp_device_type device, const char *function) {
    if (device > TP_DEVICE_NONE && device < TP_DEVICE_TYPES) return true;
    tpi_fail_in(function, TP_ERR_VALUE, "argument 'device': expected a device type, got %d", (int)device);
    return false;
}
#define is_device(device) is_device_of(device, __func__)

bool tp_autocast_enabled(tp_device_type device) { return is_device(device) && here.enabled[device]; }

bool tp_set_autocast_enabled(tp_device_type device, bool on) {
    if (!is_device(device)) return false;
    here.enabled[device] = on;
    bool any = false;
    for (int i = 0; i < TP_DEVICE_TYPES; i++) any |= here.enabled[i];
    tpi_detours = (uint8_t)((tpi_detours & ~TPI_AUTOCASTS) | (any ? TPI_AUTOCASTS : 0));
    return true;
}

tp_dtype tp_autocast_dtype(tp_device_type device) {
    if (!is_device(device)) return TP_NO_DTYPE;
    if (here.dtype[device]) return (tp_dtype)here.dtype[device];
    return device == TP_CUDA || device == TP_HIP ? TP_FLOAT16 : TP_BFLOAT16;
}

bool tp_set_autocast_dtype(tp_device_type device, tp_dtype dtype) {
    if (!is_device(device)) return false;
    here.dtype[device] = (uint8_t)dtype;
    return true;
}

bool tp_autocast_cache_enabled(void) { return !here.cache_off; }
void tp_set_autocast_cache_enabled(bool on) { here.cache_off = !on; }

int64_t tp_autocast_nest(int64_t by) {
    if (__builtin_add_overflow(here.depth, by, &here.depth)) here.depth = by > 0 ? INT64_MAX : 0;
    if (here.depth <= 0) {
        here.depth = 0;
        tp_clear_autocast_cache();
    }
    return here.depth;
}

tp_autocast_mode tp_autocast_enter(tp_device_type device, tp_dtype dtype, bool enabled) {
    tp_autocast_mode before = {TP_DEVICE_NONE, TP_NO_DTYPE, false, !here.cache_off};
    if (!is_device(device)) return before;
    before = (tp_autocast_mode){device, here.dtype[device], here.enabled[device], !here.cache_off};
    tp_set_autocast_dtype(device, dtype);
    tp_set_autocast_enabled(device, enabled);
    tp_autocast_nest(1);
    return before;
}

void tp_autocast_leave(tp_autocast_mode *before) {
    if (!TPI_GIVEN(before, "a mode")) return;
    if (before->device == TP_DEVICE_NONE) return; /* it could not be entered */
    tp_autocast_nest(-1);
    tp_set_autocast_dtype((tp_device_type)before->device, (tp_dtype)before->dtype);
    tp_set_autocast_enabled((tp_device_type)before->device, before->enabled);
    here.cache_off = !before->cache;
}

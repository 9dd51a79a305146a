/* The detour of natives by way of the host, and the check that a call's tensors are on one device. */
#include "dispatch/fallback.h"
#include "dispatch/call.h"
#include "base/random.h"
#include "device/gpu/gpu.h"
#include "tensor/same_device.h"
#include <stdio.h>
#include <stdlib.h>
#include <taper/device.h>

static atomic_llong detours;
int64_t tp_host_detours(void) { return atomic_load_explicit(&detours, memory_order_relaxed); }

static const tp_device host = {TP_CPU, 0};
/* A meta tensor's stand-in, for a native that finds the shapes of its results by computing them: matrices have ones on
 * their diagonals, so that they can be inverted and factored, and whole numbers are ones, which counts and places can
 * be. Not for large ones: whoever asks for a shape expects neither to wait nor to pay in memory. */
static bool make_up(tp_tensor *copy) {
    copy->storage->made_up = true;
    if (tpi_dtype_category[copy->dtype] & TPI_CAT_INT) return tpi_fill_data(copy, tp_int(1));
    if (!tpi_fill_data(copy, tp_int(0)) || copy->ndim < 2 || !copy->numel) return tp_ok();
    int n = copy->ndim;
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS], rows = copy->shape[n - 2], cols = copy->shape[n - 1];
    memcpy(shape, copy->shape, sizeof *shape * (size_t)n);
    memcpy(strides, copy->strides, sizeof *strides * (size_t)n);
    shape[n - 2] = rows < cols ? rows : cols;
    strides[n - 2] += strides[n - 1];
    tp_tensor *diagonal = tpi_alias(copy, n - 1, shape, strides, 0);
    bool ok = diagonal && tpi_fill_data(diagonal, tp_int(1));
    tp_release(diagonal);
    return ok;
}

/* Its elements in the same layout at another place; NULL and an error. */
static tp_tensor *like(tp_tensor *t, tp_device to) {
    enum { MOST = 1 << 24 };
    bool made_up = tpi_device(t).type == TP_META && to.type == TP_CPU;
    if (made_up && t->numel > MOST)
        return tpi_fail(TP_ERR_MISSING,
                        "the shapes of its results are found by computing, which is done for meta tensors of up to %d "
                        "elements, got %lld",
                        MOST, (long long)t->numel);
    tp_tensor *copy = tpi_is_dense(t) ? tpi_empty_strided(tpi_shape(t), tpi_strides(t), (tp_dtype)t->dtype, to)
                                      : tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, to);
    if (!copy || (made_up ? make_up(copy) : tpi_copy_data(copy, t))) return copy;
    tp_release(copy);
    return NULL;
}

/* ---- Arguments ---- */

/* The letter of argument i, 0 behind the last one. */
static char letter(const tpi_fallback *e, int i) { return e->inplace && i == 0 ? 't' : e->op->letters[i]; }

static bool is_written(const tpi_fallback *e, int i) { return (e->inplace && i == 0) || (e->op->writes >> i & 1); }

/* The tensors of argument i: none, one or a list. */
static tp_tensors tensors_of(const tpi_fallback *e, int i) {
    switch (letter(e, i)) {
    case 't': return (tp_tensors){e->args[i], 1};
    case 'o': return (tp_tensors){&((tp_operand *)e->args[i])->tensor, 1};
    case 'l': return *(tp_tensors *)e->args[i];
    default: return (tp_tensors){NULL, 0};
    }
}

/* ---- To another place ---- */

/* A tensor's stand-in at the place `to`, in the same layout; NULL and an error. Owned by the call. */
static tp_tensor *stand_in(tpi_fallback *e, tp_tensor *t, tp_device to, bool back) {
    if (tpi_same_device(tpi_device(t), to)) return t;
    for (int i = 0; i < e->moved; i++)
        if (e->tensor[i].there == t) {
            e->tensor[i].back |= back;
            return e->tensor[i].here;
        }
    if (e->moved == TPI_FALLBACK_MOVED)
        return tpi_fail(TP_ERR_RUNTIME, "%s: more than %d tensors in one call", e->name, TPI_FALLBACK_MOVED);
    tp_tensor *here = like(t, to);
    if (!here) return NULL;
    here->flags = t->flags;
    e->tensor[e->moved].there = t;
    e->tensor[e->moved].here = here;
    e->tensor[e->moved++].back = back;
    return here;
}

static bool all_at(tp_tensors list, tp_device to) {
    for (int64_t i = 0; i < list.n; i++)
        if (list.v[i] && !tpi_same_device(tpi_device(list.v[i]), to)) return false;
    return true;
}

static bool move_list(tpi_fallback *e, tp_tensors *list, tp_device to) {
    if (!list->v || all_at(*list, to)) return true;
    if (e->lists == TPI_FALLBACK_LISTS)
        return tpi_refuse(TP_ERR_RUNTIME, "%s: more than %d lists in one call", e->name, TPI_FALLBACK_LISTS);
    tp_tensors *ours = &e->list[e->lists];
    *ours = (tp_tensors){tpi_malloc((size_t)list->n * sizeof *ours->v), 0};
    if (!ours->v) return false;
    e->lists++;
    for (int64_t i = 0; i < list->n; i++) {
        tp_tensor *t = list->v[i], *here = !t || tpi_same_device(tpi_device(t), to) ? tpi_retain(t) : like(t, to);
        if (t && !here) return false;
        ours->v[i] = here;
        ours->n = i + 1;
    }
    *list = *ours;
    return true;
}

/* Every tensor among the arguments is at that place afterwards; on failure everything is released. */
static bool move(tpi_fallback *e, tp_device to) {
    bool ok = true;
    for (int i = 0; letter(e, i) && ok; i++) {
        tp_tensors here = tensors_of(e, i);
        if (letter(e, i) == 'l')
            ok = move_list(e, e->args[i], to);
        else if (here.n && here.v[0])
            ok = (here.v[0] = stand_in(e, here.v[0], to, is_written(e, i))) != NULL;
        else if (letter(e, i) == 'D')
            *(tp_device *)e->args[i] = to;
    }
    if (!ok) tpi_fallback_end(e);
    return ok;
}

/* ---- One device for all ---- */

/* Where the call belongs: the device that is asked for, else that of the first tensor which is not a number on the
 * host. */
static void settle(tpi_fallback *e, const tp_tensor *t, bool *found) {
    if (!t || (*found && e->device.type != TP_CPU)) return;
    if (!*found || !tpi_on_cpu(t)) {
        e->device = tpi_device(t);
        *found = true;
    }
}

/* Tensors of no dimensions may come from the host, as may what says where to look in a tensor. */
static bool may_come(const tpi_fallback *e, const tp_tensor *t, int argument) {
    if (!tpi_on_cpu(t)) return false;
    if (e->device.type == TP_META && (e->op->indices >> argument & 1)) return true;
    return t->ndim == 0 || (e->op->from_host >> argument & 1);
}

static bool belongs(const tpi_fallback *e, const tp_tensor *t, int argument) {
    if (!t || tpi_same_device(tpi_device(t), e->device) || may_come(e, t, argument)) return true;
    char where[96];
    snprintf(where, sizeof where, " (%s)", e->name);
    return tpi_refuse_device(e->device, tpi_device(t), where);
}

/* Natives' kernels know the twelve dtypes that every operator may know; tensors of the others take the CPU's function.
 */
static bool known_to_kernels(const tpi_fallback *e) {
    for (int i = 0; letter(e, i); i++) {
        tp_tensors list = letter(e, i) == 'o' ? (tp_tensors){NULL, 0} : tensors_of(e, i);
        for (int64_t k = 0; k < list.n; k++)
            if (list.v[k] && !(tpi_dtype_group[list.v[k]->dtype] & TPI_CAT_ALL)) return false;
    }
    return true;
}

/* The device that an argument asks for; false: none does. */
static bool asks_for_device(tpi_fallback *e) {
    bool asked = false;
    for (int i = 0; letter(e, i); i++) {
        tp_device d = letter(e, i) == 'D' ? *(tp_device *)e->args[i] : (tp_device){0, 0};
        if (d.type) {
            e->device = d;
            asked = true;
        }
    }
    return asked;
}

/* The device of the tensors, all of which must belong there. */
static bool settle_device(tpi_fallback *e) {
    bool found = false;
    for (int i = 0; letter(e, i); i++) {
        tp_tensors list = tensors_of(e, i);
        for (int64_t k = 0; k < list.n; k++) settle(e, list.v[k], &found);
    }
    if (!found) e->device = tpi_device_default;
    for (int i = 0; letter(e, i); i++) {
        tp_tensors list = tensors_of(e, i);
        for (int64_t k = 0; k < list.n; k++)
            if (!belongs(e, list.v[k], i)) return false;
    }
    return true;
}

bool tpi_fallback_begin(tpi_fallback *e, const tp_operator *op, bool inplace, void *const *args) {
    tpi_gpu_operator = op->name;
    e->op = op;
    e->name = op->name;
    e->inplace = inplace;
    e->args = args;
    e->moved = e->lists = 0;
    e->kernels = false;
    if (!asks_for_device(e) && !settle_device(e)) return false;
    const tpi_device_ops *ops = tpi_device_ops_of(e->device);
    if (!ops) return false;
    tpi_gpu_owner_begin(e->device, e->name); /* until tpi_fallback_end */
    e->kernels = ops->gpu != NULL && known_to_kernels(e);
    return !e->kernels || move(e, e->device); /* guests from the host come along */
}

/* ---- By way of the host ---- */
static bool refused(void) {
    const char *wish = getenv("TAPER_HOST_DETOURS");
    return wish && !strcmp(wish, "error");
}

static bool has_mask(const tpi_fallback *e) { /* among the places that index and index_put are given */
    const tp_tensors *list = letter(e, 0) && letter(e, 1) == 'l' ? e->args[1] : NULL;
    for (int64_t i = 0; list && i < list->n; i++)
        if (list->v[i] && (list->v[i]->dtype == TP_BOOL || list->v[i]->dtype == TP_UINT8)) return true;
    return false;
}

/* Kernels that need an element of a meta tensor, for the shape of a result, have failed for that. */
static bool lacks_values(const tpi_fallback *e) {
    return e->device.type == TP_META && !tp_ok() &&
           (strstr(tp_error(), "Cannot copy out of meta tensor") ||
            strstr(tp_error(), "cannot be called on meta tensors") || strstr(tp_error(), "with Meta tensors"));
}

bool tpi_fallback_settled(tpi_fallback *e) {
    if (!lacks_values(e) && !(e->device.type == TP_META && tp_ok() && has_mask(e))) return false;
    tp_error_clear();
    tpi_fallback_end(e);
    return true;
}

static void refuse_shape(const tpi_fallback *e) {
    tpi_fail(TP_ERR_MISSING,
             "aten::%s: attempted to run this operator with Meta tensors, but the shape of its result depends on "
             "values, and they have none",
             e->name);
}

void tpi_fallback_failed(tpi_fallback *e) {
    if (lacks_values(e)) {
        tp_error_clear();
        refuse_shape(e);
    }
    tpi_fallback_end(e);
}

/* A call that names no generator draws from that of its own device, wherever it runs. */
static bool name_generators(tpi_fallback *e) {
    for (int i = 0; letter(e, i); i++) {
        if (letter(e, i) != 'g') continue;
        tp_generator **generator = e->args[i];
        if (!*generator) *generator = tp_default_generator_of(e->device);
        if (!*generator) {
            tpi_fallback_end(e);
            return false;
        }
    }
    return true;
}

bool tpi_fallback_to_host(tpi_fallback *e) {
    if (e->device.type == TP_META && tpi_has_dynamic_shape(e->op, e->args)) refuse_shape(e);
    if (!tp_ok()) {
        tpi_fallback_failed(e);
        return false;
    }
    atomic_fetch_add_explicit(&detours, 1, memory_order_relaxed);
    if (refused()) {
        char text[32];
        tpi_fallback_end(e);
        return tpi_refuse(
            TP_ERR_MISSING,
            "%s is not available on the device '%s' (TAPER_HOST_DETOURS=error keeps it from going by way of the host)",
            e->name, tp_device_text(e->device, text, sizeof text));
    }
    return name_generators(e) && move(e, host);
}

/* ---- And back ---- */
void tpi_fallback_end(tpi_fallback *e) {
    for (int i = 0; i < e->moved; i++) tp_release(e->tensor[i].here);
    for (int i = 0; i < e->lists; i++) tpi_release_list(e->list[i]);
    e->moved = e->lists = 0;
    tpi_gpu_owner_end(tpi_gpu_owner == e->name);
}

static bool write_back(tpi_fallback *e) {
    for (int i = 0; i < e->moved; i++) {
        if (!e->tensor[i].back) continue;
        if (!tpi_copy_data(e->tensor[i].there, e->tensor[i].here)) return false;
        if (tpi_version(e->tensor[i].here)) tpi_touch(e->tensor[i].there); /* the native said so itself */
    }
    return true;
}

/* Takes the host's tensor over and gives the device's. */
static tp_tensor *bring(tpi_fallback *e, tp_tensor *t) {
    if (!t || tpi_same_device(tpi_device(t), e->device)) return t;
    for (int i = 0; i < e->moved; i++)
        if (e->tensor[i].here == t) { /* an argument, given as it came */
            tp_release(t);
            return tpi_retain(e->tensor[i].there);
        }
    tp_tensor *there = like(t, e->device);
    if (there) there->flags |= t->flags & TPI_WRAPPED;
    tp_release(t);
    return there;
}

tp_tensor *tpi_fallback_back(tpi_fallback *e, tp_tensor *result) {
    if (result && !write_back(e)) {
        tp_release(result);
        result = NULL;
    }
    tp_tensor *there = bring(e, result);
    tpi_fallback_end(e);
    return there;
}

tp_tensors tpi_fallback_back_list(tpi_fallback *e, tp_tensors results) {
    bool ok = results.v && write_back(e);
    for (int64_t i = 0; ok && i < results.n; i++) ok = !results.v[i] || (results.v[i] = bring(e, results.v[i]));
    tpi_fallback_end(e);
    if (ok || !results.v) return results;
    tpi_release_list(results);
    return (tp_tensors){NULL, 0};
}

bool tpi_fallback_back_many(tpi_fallback *e, bool ok, tp_tensor **out, int n) {
    ok = ok && write_back(e);
    for (int i = 0; ok && i < n; i++) ok = !out[i] || (out[i] = bring(e, out[i]));
    tpi_fallback_end(e);
    return ok;
}

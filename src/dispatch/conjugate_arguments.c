/* See conjugate_arguments.h. */
#include "dispatch/conjugate_arguments.h"
#include "base/memory.h"
#include "tensor/recorder.h"
#include "tensor/upcalls.h"

typedef struct tpi_plain {
    struct tpi_plain *next;
    tp_tensor *tensor; /* or */
    tp_tensors list;
} tpi_plain;

static tpi_plain *keep(tpi_detour *detour, tp_tensor *tensor, tp_tensors list) {
    tpi_plain *p = tpi_new(sizeof *p);
    if (!p) return NULL;
    *p = (tpi_plain){detour->plain, tensor, list};
    return detour->plain = p;
}

static bool resolve_one(tpi_detour *detour, tp_tensor **t) {
    if (!tpi_marked(*t)) return true;
    tp_tensor *plain = tpi_resolve(*t);
    if (!plain || !keep(detour, plain, (tp_tensors){NULL, 0})) {
        tp_release(plain);
        return false;
    }
    *t = plain;
    return true;
}

static bool resolve_list(tpi_detour *detour, tp_tensors *list) {
    bool any = false;
    for (int64_t i = 0; i < list->n; i++) any |= tpi_marked(list->v[i]);
    if (!any) return true;
    tp_tensors made = {tpi_malloc((size_t)list->n * sizeof *made.v), 0};
    for (; made.v && made.n < list->n; made.n++) {
        tp_tensor *t = list->v[made.n];
        made.v[made.n] = t ? tpi_resolved(t) : NULL;
        if (t && !made.v[made.n]) break;
    }
    if (!made.v || made.n < list->n || !keep(detour, NULL, made)) {
        tpi_release_list(made);
        return false;
    }
    *list = made;
    return true;
}

/* A marked tensor that is written: the call writes a resolved copy, which goes back afterwards. A tensor that is only
 * an `out` is not read first. */
static bool resolve_written(tpi_detour *detour, tp_tensor **written) {
    if (!written || !tpi_marked(*written)) return true;
    detour->written = *written;
    detour->copy = *written = tpi_resolve(*written);
    return detour->copy != NULL;
}

/* copy_ to a marked tensor: the conjugate (or negative) of src, in its dtype, goes into the memory as it is. */
static bool resolve_arguments(tpi_detour *detour, const tpi_operator_entry *entry, void *const *args,
                              tp_tensor **written) {
    detour->written = *written;
    *written = tpi_above.marked_view(*written);
    if (!*written || !keep(detour, *written, (tp_tensors){NULL, 0})) {
        tp_release(*written);
        return false;
    }
    for (int i = 1; entry->args[i]; i++) {
        tp_tensor **t = entry->args[i] == 't' ? args[i] : NULL;
        if (!t || !*t) continue;
        tp_tensor *changed = tpi_above.conj_or_neg(*t, (tp_dtype)(*written)->dtype);
        if (!changed || !keep(detour, changed, (tp_tensors){NULL, 0})) {
            tp_release(changed);
            return false;
        }
        *t = changed;
    }
    return true;
}

static bool has_marked(const tpi_operator_entry *entry, void *const *args) {
    bool any = false;
    for (int i = 0; entry->args[i]; i++) {
        if (entry->args[i] == 't') any |= tpi_marked(*(tp_tensor **)args[i]);
        if (entry->args[i] == 'o') any |= tpi_marked(((tp_operand *)args[i])->tensor);
        const tp_tensors *list = entry->args[i] == 'l' ? args[i] : NULL;
        for (int64_t k = 0; list && k < list->n; k++) any |= tpi_marked(list->v[k]);
    }
    return any;
}

bool tpi_marks_resolve(tpi_detour *detour, const tpi_operator_entry *entry, void *const *args, tp_tensor **written) {
    if (tpi_recording && has_marked(entry, args)) tpi_met_mark();
    if (entry->marks == TPI_MARKS_KEPT) return true;
    if (entry->marks == TPI_MARKS_WRITTEN && tpi_marked(*written))
        return resolve_arguments(detour, entry, args, written);
    bool fine = resolve_written(detour, written);
    for (int i = 0; fine && entry->args[i]; i++) {
        if (entry->args[i] == 't')
            fine = resolve_one(detour, args[i]);
        else if (entry->args[i] == 'o')
            fine = resolve_one(detour, &((tp_operand *)args[i])->tensor);
        else if (entry->args[i] == 'l')
            fine = resolve_list(detour, args[i]);
    }
    return fine;
}

void tpi_marks_release(tpi_detour *detour) {
    for (tpi_plain *p = detour->plain, *next; p; p = next) {
        next = p->next;
        tp_release(p->tensor);
        tpi_release_list(p->list);
        tpi_delete(p, sizeof *p);
    }
    tp_release(detour->copy);
    detour->plain = NULL;
    detour->copy = NULL;
}

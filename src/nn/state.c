/* A module's tensors by name, in PyTorch's order: a module's parameters, then its buffers, then its children. Loading
 * copies into them, or changes nothing and says everything that does not fit. */
#include "nn/layer.h"
#include "base/handle.h"
#include "tensor/check_arguments.h"
#include "autograd/glue.h"
#include "base/memory.h"
#include "tpi_ops.h"
#include <stdio.h>

typedef enum wanted { PARAMETERS, BUFFERS, STATE } wanted;

static bool add_named(tp_state *to, const char *prefix, const tpi_module_slot *slot, bool once) {
    for (int64_t i = 0; once && i < to->n; i++)
        if (to->tensors[i] == slot->tensor) return true;
    const char **names = tpi_realloc(to->names, sizeof *names * (size_t)(to->n + 1));
    if (!names) return false;
    to->names = names;
    tp_tensor **tensors = tpi_realloc(to->tensors, sizeof *tensors * (size_t)(to->n + 1));
    if (!tensors) return false;
    to->tensors = tensors;
    size_t n = strlen(prefix) + strlen(slot->name) + 1;
    char *name = tpi_malloc(n);
    if (!name) return false;
    snprintf(name, n, "%s%s", prefix, slot->name);
    names[to->n] = name;
    tensors[to->n++] = tp_retain(slot->tensor);
    return true;
}

static bool collect(tp_state *to, const tp_module *m, const char *prefix, wanted what) {
    for (int pass = 0; pass < 2; pass++) /* parameters, then buffers */
        for (int64_t i = 0; i < m->nslots; i++) {
            const tpi_module_slot *slot = &m->slots[i];
            bool parameter = slot->kind == TPI_PARAMETER;
            if (!slot->tensor || slot->kind == TPI_COMPUTED || parameter != (pass == 0)) continue;
            if (what == PARAMETERS ? !parameter : what == BUFFERS ? parameter : slot->kind == TPI_TEMPORARY) continue;
            if (!add_named(to, prefix, slot, what != STATE)) return false;
        }
    for (int64_t i = 0; i < m->nchildren; i++) {
        size_t n = strlen(prefix) + strlen(m->children[i].name) + 2;
        char *path = tpi_malloc(n);
        if (!path) return false;
        snprintf(path, n, "%s%s.", prefix, m->children[i].name);
        bool fine = collect(to, m->children[i].module, path, what);
        tpi_mfree(path);
        if (!fine) return false;
    }
    return true;
}

static tp_state named(const tp_module *m, wanted what) {
    tp_state all = {NULL, NULL, 0};
    if (m && collect(&all, m, "", what)) return all;
    tp_state_free(all);
    return (tp_state){NULL, NULL, -1};
}
tp_state tp_module_parameters(tp_module *m) { return named(TPI_HANDLE_GIVEN(m, "a module") ? m : NULL, PARAMETERS); }
tp_state tp_module_buffers(tp_module *m) { return named(TPI_HANDLE_GIVEN(m, "a module") ? m : NULL, BUFFERS); }
tp_state tp_module_state(tp_module *m) { return named(TPI_HANDLE_GIVEN(m, "a module") ? m : NULL, STATE); }

void tp_state_free(tp_state all) {
    if (tpi_debugging && tpi_ended(all.tensors, __func__, "named", "a state")) return;
    for (int64_t i = 0; i < all.n; i++) {
        tpi_mfree((char *)all.names[i]);
        tp_release(all.tensors[i]);
    }
    tpi_handle_mfree(all.names);
    tpi_handle_mfree(all.tensors);
}

/* ---- loading ---- */
static int64_t position(const char *name, int64_t n, const char *const *names) {
    for (int64_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

/* "Missing key(s) in state_dict: "a", "b". " for the names of `from` that `in` does not have. */
static void list_absent(tpi_text *t, const char *head, int64_t n, const char *const *from, int64_t nin,
                        const char *const *in) {
    bool first = true;
    for (int64_t i = 0; i < n; i++) {
        if (position(from[i], nin, in) >= 0) continue;
        tpi_text_add(t, first ? "\n\t" : ", ");
        if (first) tpi_text_add(t, head);
        tpi_text_add(t, "\"");
        tpi_text_add(t, from[i]);
        tpi_text_add(t, "\"");
        first = false;
    }
    if (!first) tpi_text_add(t, ". ");
}

static void list_mismatches(tpi_text *t, const tp_state *own, int64_t n, const char *const *names,
                            tp_tensor *const *tensors) {
    for (int64_t i = 0; i < own->n; i++) {
        int64_t at = position(own->names[i], n, names);
        if (at < 0) continue;
        if (!tensors[at]) {
            tpi_text_add(t, "\n\tNULL was given for ");
            tpi_text_add(t, own->names[i]);
        } else if (!tpi_same_shape(own->tensors[i], tensors[at])) {
            tpi_text_add(t, "\n\tsize mismatch for ");
            tpi_text_add(t, own->names[i]);
            tpi_text_add(t, ": copying a param with shape torch.Size(");
            tpi_text_add(t, tpi_shape_text(tp_shape(tensors[at])));
            tpi_text_add(t, ") from checkpoint, the shape in current model is torch.Size(");
            tpi_text_add(t, tpi_shape_text(tp_shape(own->tensors[i])));
            tpi_text_add(t, ").");
        }
    }
}

bool tp_module_load(tp_module *m, int64_t n, const char *const *names, tp_tensor *const *tensors, bool strict) {
    if (TPI_ENDED(m, "a module")) return false;
    TPI_STOP_ON_ERROR(false);
    if (!TPI_LIST_GIVEN(names, n) || !TPI_LIST_GIVEN(tensors, n)) return false;
    tp_state own = tp_module_state(m);
    if (own.n < 0) return false;
    tpi_text wrong = {0};
    if (strict) {
        list_absent(&wrong, "Missing key(s) in state_dict: ", own.n, own.names, n, names);
        list_absent(&wrong, "Unexpected key(s) in state_dict: ", n, names, own.n, own.names);
    }
    list_mismatches(&wrong, &own, n, names, tensors);
    bool fine = !wrong.n && !wrong.failed;
    if (wrong.n) tpi_fail(TP_ERR_RUNTIME, "Error(s) in loading state_dict for %s:%s", m->name, wrong.s);
    for (int64_t i = 0; fine && i < own.n; i++) {
        int64_t at = position(own.names[i], n, names);
        TP_NO_GRAD
            fine = at < 0 || tpo_copy_(own.tensors[i], tensors[at], false);
    }
    tpi_mfree(wrong.s);
    tp_state_free(own);
    return fine;
}

/* Calls of modules and losses with parameters that the caller gives (taper/functional.h). */
#include "autograd/glue.h"
#include "base/memory.h"
#include "nn/layer.h"
#include "ops/loss/loss.h"
#include "tensor/check_arguments.h"
#include <taper/functional.h>
#include <taper/ops.h>

/* The slot of a path, "features.0.weight"; NULL and an error if there is none. */
static tpi_module_slot *slot_at(tp_module *m, const char *path) {
    if (!tpi_given(path, "tp_functional_call", "names", "a name")) return NULL;
    const char *dot = strrchr(path, '.');
    tp_module *owner = m;
    if (dot) {
        char *parent = tpi_strdup(path);
        if (!parent) return NULL;
        parent[dot - path] = 0;
        owner = tp_module_child(m, parent);
        tpi_mfree(parent);
    }
    tpi_module_slot *slot = owner ? tpi_find_module_slot(owner, dot ? dot + 1 : path) : NULL;
    if (owner && !slot)
        tpi_fail(TP_ERR_VALUE, "tp_functional_call: %s has no parameter or buffer \"%s\"", m->name, path);
    return slot;
}

tp_tensor *tp_functional_call(tp_module *m, int64_t n, const char *const *names, tp_tensor *const *tensors,
                              tp_tensor *input) {
    if (TPI_ENDED(input, "a tensor")) return NULL;
    if (!TPI_HANDLE_GIVEN(m, "a module") || !TPI_LIST_GIVEN(names, n) || !TPI_LIST_GIVEN(tensors, n)) return NULL;
    tpi_module_slot **slots = tpi_malloc((size_t)(n + 1) * sizeof *slots);
    tp_tensor **before = tpi_malloc((size_t)(n + 1) * sizeof *before), *made = NULL;
    int64_t done = 0;
    bool fine = slots && before;
    for (; fine && done < n; done += fine) {
        fine = tpi_is_tensor(tensors[done], "tensors");
        slots[done] = fine ? slot_at(m, names[done]) : NULL;
        fine = slots[done] != NULL;
        if (!fine) break;
        before[done] = slots[done]->tensor;
        slots[done]->tensor = tensors[done]; /* lives as long as the call: the caller's */
    }
    if (fine) made = tp_forward(m, input);
    while (done-- > 0) slots[done]->tensor = before[done];
    tpi_mfree(slots);
    tpi_mfree(before);
    return made;
}

/* ---- Parameters in one row ---- */
tp_tensor *tp_parameters_to_vector(tp_tensors parameters) {
    if (!tpi_list_there(parameters.v, parameters.n, __func__, "parameters")) return NULL;
    if (!parameters.n)
        return tpi_fail(TP_ERR_VALUE,
                        "tp_parameters_to_vector: argument 'parameters': expected one at least, got none");
    for (int64_t i = 0; i < parameters.n; i++)
        if (!tpi_is_tensor(parameters.v[i], "parameters")) return NULL;
    tp_tensor **rows = tpi_malloc((size_t)parameters.n * sizeof *rows), *made = NULL;
    if (!rows) return NULL;
    TP_SCOPE {
        for (int64_t i = 0; i < parameters.n; i++) rows[i] = tp_reshape(parameters.v[i], TP_INTS(-1));
        made = tp_keep(tp_cat(tp_list(parameters.n, rows)));
    }
    tpi_mfree(rows);
    return made;
}

bool tp_vector_to_parameters(tp_tensor *vector, tp_tensors parameters) {
    TPI_STOP_ON_ERROR(false);
    if (!tpi_is_tensor(vector, "vector") || !tpi_list_there(parameters.v, parameters.n, __func__, "parameters"))
        return false;
    int64_t all = 0, at = 0;
    for (int64_t i = 0; i < parameters.n; i++) {
        if (!tpi_is_tensor(parameters.v[i], "parameters")) return false;
        all += tp_numel(parameters.v[i]);
    }
    if (tp_ndim(vector) != 1 || tp_numel(vector) != all)
        return tpi_refuse(
            TP_ERR_VALUE,
            "tp_vector_to_parameters: argument 'vector': expected one dim of %lld elements, got %lld dims "
            "and %lld elements",
            (long long)all, (long long)tp_ndim(vector), (long long)tp_numel(vector));
    TP_SCOPE
        TP_NO_GRAD {
            for (int64_t i = 0; i < parameters.n; i++) {
                tp_tensor *p = parameters.v[i];
                tp_copy_(p, tp_view_as(tp_narrow(vector, 0, at, tp_numel(p)), p));
                at += tp_numel(p);
            }
        }
    return tp_ok();
}

static tp_tensor *apart(tp_segment_fn distance, void *context, tp_tensor *a, tp_tensor *b) {
    return distance ? distance(TP_LIST(a, b), context) : tp_pairwise_distance(a, b);
}

tp_tensor *tp_triplet_margin_with_distance_loss(tp_tensor *anchor, tp_tensor *positive, tp_tensor *negative,
                                                tp_segment_fn distance, void *context, double margin, bool swap,
                                                const char *reduction) {
    if (!tpi_is_tensor(anchor, "anchor") || !tpi_is_tensor(positive, "positive") ||
        !tpi_is_tensor(negative, "negative") || !TPI_GIVEN(reduction, "a text"))
        return NULL;
    if (!(margin > 0))
        return tpi_fail(TP_ERR_VALUE, "tp_triplet_margin_with_distance_loss: margin must be greater than 0, got %g",
                        margin);
    const tpi_reduction how = tpi_reduction_of(reduction);
    if (how == TPI_REDUCE_BAD) return NULL;
    tp_tensor *made = NULL;
    TP_SCOPE {
        tp_tensor *near = apart(distance, context, anchor, positive), *far = apart(distance, context, anchor, negative);
        if (swap) far = tp_minimum(far, apart(distance, context, positive, negative));
        tp_tensor *loss = tp_clamp(tp_add(tp_sub(near, far), margin), .min = tp_float(0));
        if (how == TPI_REDUCE_MEAN) loss = tp_mean(loss);
        if (how == TPI_REDUCE_SUM) loss = tp_sum(loss);
        made = tp_keep(loss);
    }
    return made;
}

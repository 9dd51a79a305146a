/* Calling modules. A layer of the table is one operator: its inputs, then the attributes, parameters and buffers that
 * the stanza's forward names, found once when the layer is built. The caller's own modules run in a scope, so that what
 * they make on the way is released. */
#include "nn/layer.h"
#include "tensor/check_arguments.h"
#include "autograd/glue.h"
#include "tpi_ops.h"

bool tpi_module_ready(tp_module *m) {
    const tpi_layer *l = m->layer;
    for (int i = 0; l->sources && l->sources[i]; i++) {
        if (i == TPI_MAX_SOURCES)
            return tpi_refuse(TP_ERR_RUNTIME, "%s: more than %d values for its forward", l->name, TPI_MAX_SOURCES);
        const char *name = l->sources[i];
        tpi_module_slot *slot = tpi_find_module_slot(m, name);
        int64_t at = 0;
        while (!slot && at < m->nattributes && strcmp(m->attributes[at].name, name)) at++;
        m->source_kind[i] = slot ? 1 : at < m->nattributes ? 0 : 2;
        m->source_at[i] = (int16_t)(slot ? slot - m->slots : at);
    }
    return true;
}

static tp_value source(const tp_module *m, int i) {
    if (m->source_kind[i] == 0) return m->attributes[m->source_at[i]].value;
    if (m->source_kind[i] == 1) return tpi_box_tensor(m->slots[m->source_at[i]].tensor);
    return tp_value_bool(m->training);
}

/* Values by position first, then by name, as an operator's arguments. */
static bool order_inputs(const tp_module *m, int64_t nargs, const tp_value *args, tp_value *into) {
    const tpi_layer *l = m->layer;
    for (int i = 0; i < l->inputs; i++) into[i] = tp_value_none();
    for (int64_t i = 0; i < nargs; i++) {
        int64_t k = i;
        for (k = args[i].name ? 0 : i; args[i].name && k < l->inputs && strcmp(l->forward->args[k].name, args[i].name);)
            k++;
        if (k >= l->inputs) {
            if (args[i].name) return tpi_refuse(TP_ERR_TYPE, "forward has no input '%s'", args[i].name);
            return tpi_refuse(TP_ERR_TYPE, "forward takes %d inputs, got %lld", l->inputs, (long long)nargs);
        }
        if (args[i].kind == TP_K_TENSOR && !args[i].as.tensor) {
            tpi_no_tensor(l->name, l->forward->args[k].name);
            return false;
        }
        into[k] = args[i];
        into[k].name = NULL;
    }
    return true;
}

static bool forward_operator(tp_module *m, int64_t nargs, const tp_value *args, tp_value *results) {
    const tpi_layer *l = m->layer;
    tp_value all[TPI_MAX_SOURCES + 8];
    if (!order_inputs(m, nargs, args, all)) return false;
    for (int i = 0; l->sources[i]; i++) all[l->inputs + i] = source(m, i);
    if (l->forward->invoke_inplace && tpi_get_bool(m, "inplace")) return l->forward->invoke_inplace(all, results);
    return l->forward->invoke(all, results);
}

/* The caller's function: what it gives belongs to its scope, and becomes ours. */
static bool forward_own(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    if (!m->forward && !m->forward_one)
        return tpi_refuse(TP_ERR_RUNTIME, "Module [%s] is missing the required \"forward\" function", m->name);
    bool fine = false;
    TP_SCOPE {
        if (m->forward)
            fine = m->forward(m, nargs, args, nresults, results);
        else if (nargs != 1 || nresults != 1 || args[0].kind != TP_K_TENSOR)
            fine = tpi_refuse(TP_ERR_TYPE, "%s: forward takes one tensor and gives one", m->name);
        else {
            tp_tensor *out = m->forward_one(m, args[0].as.tensor);
            results[0] = tpi_box_tensor(out);
            fine = out != NULL;
        }
        for (int64_t i = 0; fine && i < nresults; i++) fine = results[i].kind != TP_K_TENSOR || results[i].as.tensor;
        if (!fine && tp_ok())
            tpi_fail(TP_ERR_RUNTIME, "%s: its forward gave NULL, or false, without an error", m->name);
        fine = fine && tp_ok();
        for (int64_t i = 0; fine && i < nresults; i++)
            if (results[i].kind == TP_K_TENSOR) tp_retain(results[i].as.tensor);
    }
    return fine;
}

static bool forward_plain(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    if (!m->layer) return forward_own(m, nargs, args, nresults, results);
    const char *before =
        m->nchildren ? tpi_op_now : tpi_op_enter(m->name); /* of nested modules the innermost is named in errors */
    bool fine;
    if (m->layer->call)
        fine = m->layer->call(m, nargs, args, nresults, results);
    else if (nresults != 1)
        fine = tpi_refuse(TP_ERR_TYPE, "forward gives 1 result, not %lld", (long long)nresults);
    else
        fine = forward_operator(m, nargs, args, results);
    tpi_op_leave(before);
    return fine;
}

bool tpi_forward(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    for (int64_t i = 0; i < nresults; i++) results[i] = tp_value_none();
    if (!tpi_handle_given(m, m ? m->alive : 0, "tp_forward", "m", "a module")) return false;
    if (m->nparametrizations && !tpi_parametrize_now(m)) return false;
    if (m->hooks) return tpi_forward_hooked(m, nargs, args, nresults, results, forward_plain);
    return forward_plain(m, nargs, args, nresults, results);
}

static tp_tensor *the_tensor(const tp_module *m, const tp_value *result) {
    if (result->kind == TP_K_TENSOR) return result->as.tensor;
    return tpi_fail(TP_ERR_TYPE, "%s: its forward gave something else than a tensor", m->name);
}

tp_tensor *tpi_forward_tensor(tp_module *m, tp_tensor *input) {
    tp_value arg = tp_value_tensor(input), result;
    if (!input) return NULL;
    return tpi_forward(m, 1, &arg, 1, &result) ? the_tensor(m, &result) : NULL;
}

bool tp_forward_values(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    if (tpi_debugging && tpi_ended(m, "tp_forward", "m", "a module")) return false;
    if (!TPI_LIST_GIVEN(args, nargs) || !TPI_LIST_GIVEN(results, nresults)) return false;
    if (!tpi_forward(m, nargs, args, nresults, results)) return false;
    bool fine = true;
    for (int64_t i = 0; i < nresults; i++)
        if (results[i].kind == TP_K_TENSOR && !tpi_to_scope(results[i].as.tensor)) {
            results[i] = tp_value_none();
            fine = false;
        }
    return fine;
}

tp_tensor *tp_forward_one(tp_module *m, int64_t nargs, const tp_value *args) {
    if (tpi_debugging && tpi_ended(m, "tp_forward", "m", "a module")) return NULL;
    tp_value result;
    return tp_forward_values(m, nargs, args, 1, &result) ? the_tensor(m, &result) : NULL;
}

/* ---- one after the other ---- */
static bool forward_sequential(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    if (nargs != 1 || nresults != 1) return tpi_refuse(TP_ERR_TYPE, "forward takes one input and gives one");
    tp_value now = args[0];
    if (now.kind == TP_K_TENSOR) tp_retain(now.as.tensor);
    for (int64_t i = 0; i < m->nchildren; i++) {
        tp_value next;
        bool fine = tpi_forward(m->children[i].module, 1, &now, 1, &next);
        if (now.kind == TP_K_TENSOR) tp_release(now.as.tensor);
        if (!fine) return false;
        now = next;
    }
    results[0] = now;
    return true;
}
static const tpi_layer sequential = {.name = "Sequential", .call = forward_sequential};

tp_module *tp_nn_sequential_of(int64_t n, tp_module *const *modules) {
    if (!TPI_LIST_GIVEN(modules, n)) return NULL;
    tp_module *m = tpi_module_of(&sequential);
    for (int64_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        if (!m)
            tp_module_release(modules[i]);
        else if (!tp_module_add(m, name, modules[i])) {
            tp_module_release(m);
            m = NULL;
        }
    }
    return m;
}

/* ---- a list ---- */
static bool refuse_call(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    (void)nargs;
    (void)args;
    (void)nresults;
    (void)results;
    return tpi_refuse(TP_ERR_RUNTIME, "Module [%s] is missing the required \"forward\" function", m->name);
}
static const tpi_layer list = {.name = "ModuleList", .call = refuse_call};

tp_module *tpi_module_list(void) {
    tp_module *m = tpi_module_of(&list);
    if (m) m->compressed = true;
    return m;
}

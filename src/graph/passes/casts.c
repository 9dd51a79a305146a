/* Casts that a native's kernel does by itself: where the stanza says that it reads an argument in any floating dtype,
 * it reads what was widened for it, and the cast, if nobody else reads it, is gone. Widening changes no value, so the
 * bits are the same. On GPUs, where a cast is a pass over memory. */
#include <string.h>
#include "dispatch/kernel_facts.h"
#include "graph/graph.h"

/* The one step of [from, to) that writes the value; -1: none, or more than one, or somebody may. */
static int32_t only_writer(const tp_compiled *g, int32_t v, int32_t from, int32_t to) {
    int32_t found = -1;
    for (int32_t i = from; i < to; i++) {
        const tpi_graph_step *s = &g->steps[i];
        bool writes = s->kind == TPI_STEP_CUSTOM;
        for (int k = 0; k < s->nout; k++) writes |= s->out[k] >= 0 && tpi_value_root(g, s->out[k]) == v;
        for (int w = 0, root; (root = tpi_step_writes(g, s, w)) >= 0; w++) writes |= root == v;
        if (writes && found >= 0) return -1;
        if (writes) found = i;
    }
    return found;
}

static bool is_widening(const tpi_graph_value *from, const tpi_graph_value *to) {
    return (from->dtype == TP_BFLOAT16 || from->dtype == TP_FLOAT16) && to->dtype == TP_FLOAT32 &&
           from->ndim == to->ndim && !memcmp(from->dims, to->dims, sizeof(int64_t) * 2 * to->ndim);
}

/* What the value was widened from, if it still is as it was when step i reads it; otherwise the value. */
static int32_t before_cast(const tp_compiled *g, int32_t v, int32_t i) {
    int32_t from = i < g->nforward ? 0 : g->nforward;
    if (v < 0 || g->values[v].kind != TPI_VALUE_MADE) return v;
    int32_t cast = only_writer(g, v, from, i);
    const tpi_graph_step *s = cast < 0 ? NULL : &g->steps[cast];
    if (!s || s->kind != TPI_STEP_COPY || s->out[0] != v || s->in[0] < 0) return v;
    int32_t narrow = s->in[0], root = tpi_value_root(g, narrow);
    bool own = g->values[root].kind == TPI_VALUE_MADE || g->values[root].kind == TPI_VALUE_GRAD;
    if (!own || !is_widening(&g->values[narrow], &g->values[v])) return v;
    for (int32_t k = cast; k < i; k++)
        if (only_writer(g, root, k, k + 1) >= 0) return v;
    return narrow;
}

void tpi_graph_drop_casts(tp_compiled *g) {
    for (int32_t i = 0; i < g->nsteps; i++) {
        tpi_graph_step *s = &g->steps[i];
        if (s->kind != TPI_STEP_CALL || s->inplace || !s->nout || s->out[0] < 0) continue;
        const tpi_kernel_facts *facts = tpi_kernel_facts_of(s->op);
        const tpi_device_ops *device = tpi_devices[g->values[s->out[0]].device.type];
        const tp_operator *op = s->op;
        if (!facts || !facts->any_float || !device || !device->gpu) continue;
        int at = 0;
        for (int64_t a = 0; a < op->nargs; a++) {
            bool is_list = s->args[a].kind == TP_K_TENSORS, is_one = s->args[a].kind == TP_K_TENSOR;
            if (is_one && facts->any_float >> a & 1) s->in[at] = before_cast(g, s->in[at], i);
            at += is_list ? (int)s->args[a].as.tensors.n : is_one;
        }
    }
}

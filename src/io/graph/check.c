/* What a graph from a file must be before it is planned and run: every step reads what is there, makes what nobody has
 * made before, and an element-wise step's result has the shape and the dtype that its operands give. Captured graphs
 * are so by their making; programs of fused steps rely on it, and do not look again. */
#include "base/memory.h"
#include "device/launch.h"
#include "io/graph/file.h"

static bool is_made_by_step(const tp_compiled *g, int32_t v) { return g->values[v].kind == TPI_VALUE_MADE; }

static bool is_there(const tp_compiled *g, const bool *made, int32_t v) {
    int32_t root = tpi_value_root(g, v);
    return !is_made_by_step(g, root) || made[root];
}

/* Into memory that is there; a copy or a fill may make it. */
static bool check_written(const tp_compiled *g, const tpi_graph_step *s, bool *made, int32_t v) {
    if (g->values[tpi_value_root(g, v)].kind == TPI_VALUE_CONSTANT) return tpi_graph_broken("a step writes a constant");
    bool makes = (s->kind == TPI_STEP_COPY || s->kind == TPI_STEP_FILL) && is_made_by_step(g, v);
    if (makes) made[v] = true;
    return makes || is_there(g, made, v) || tpi_graph_broken("a step writes to what is not there");
}

static bool check_map(const tp_compiled *g, const tpi_graph_step *s) {
    tp_dtype dtype;
    tpi_ctype compute;
    const tpi_graph_value *out = &g->values[s->out[0]];
    int64_t shape[TP_MAX_DIMS];
    int ndim = 0;
    for (int i = 0; i < s->nin; i++) {
        if (s->in[i] < 0) continue;
        int64_t before[TP_MAX_DIMS];
        memcpy(before, shape, (size_t)ndim * sizeof *shape);
        if (!tpi_broadcast(tp_ints_view(before, ndim), tpi_value_shape(&g->values[s->in[i]]), shape, &ndim))
            return false;
    }
    if (!tpi_map_step_settles(g, s, &dtype, &compute)) return false;
    bool same = out->ndim == ndim && !memcmp(out->dims, shape, (size_t)ndim * sizeof *shape);
    return (same && out->dtype == tpi_result_dtype(((const tpi_map_op *)s->op)->result, dtype)) ||
           tpi_graph_broken("a step's result");
}

static bool check_step(const tp_compiled *g, const tpi_graph_step *s, bool *made) {
    bool writes = s->inplace || s->kind == TPI_STEP_COPY || s->kind == TPI_STEP_FILL;
    for (int i = 0; i < s->nin; i++)
        if (s->in[i] >= 0 && !is_there(g, made, s->in[i]))
            return tpi_graph_broken("a step reads a value that no step has made");
    for (int i = 0; i < s->nout; i++) {
        int32_t v = s->out[i];
        if (writes && !check_written(g, s, made, v)) return false;
        if (!writes && (!is_made_by_step(g, v) || made[v]))
            return tpi_graph_broken("a step makes what is there already");
        made[v] = true;
    }
    return s->kind != TPI_STEP_MAP || s->inplace || check_map(g, s);
}

bool tpi_graph_check(const tp_compiled *g) {
    size_t bytes = (size_t)g->nvalues + 1;
    bool *made = tpi_new0(bytes), ok = made != NULL;
    for (int32_t i = 0; ok && i < g->nsteps; i++) ok = check_step(g, &g->steps[i], made);
    for (int32_t i = 0; ok && i < g->noutputs; i++)
        ok = is_there(g, made, g->outputs[i]) || tpi_graph_broken("an output that is not there");
    if (made) tpi_delete(made, bytes);
    return ok;
}

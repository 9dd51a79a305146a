/* Reuse of memory: a map, or a program of maps, may write its result over an operand of the same geometry that no other
 * step reads. Here it is decided that it may; a run then checks that nobody else holds the memory (run_steps.c). */
#include <string.h>
#include "tensor/same_device.h"
#include "graph/graph.h"

typedef struct reuser {
    tp_compiled *g;
    int32_t *readers; /* per value: operands of steps that it is; views of it count as many */
} reuser;

static void count(reuser *r, int32_t v, int by) {
    if (v >= 0) r->readers[tpi_value_root(r->g, v)] += tpi_value_root(r->g, v) == v ? by : 2 * TPI_MAX_OPERANDS;
}

static bool looks_the_same(const tpi_graph_value *a, const tpi_graph_value *b) {
    return a->kind == TPI_VALUE_MADE && b->kind == TPI_VALUE_MADE && a->dtype == b->dtype && a->ndim == b->ndim &&
           tpi_same_device(a->device, b->device) && !a->wrapped && !b->wrapped &&
           !memcmp(a->dims, b->dims, sizeof(int64_t) * 2 * a->ndim);
}

static bool ends_with(const tpi_graph_step *s, int32_t v) {
    for (int32_t d = 0; d < s->ndead; d++)
        if (s->dead[d] == v) return true;
    return false;
}

static int operands_of(const tpi_graph_step *s, int32_t v) {
    int n = 0;
    for (int i = 0; i < s->nin; i++) n += s->in[i] == v;
    return n;
}

/* Does the program read its operand `in` no more, once it has begun to write `out`? A step may write what it reads:
 * elements of the same position. */
static bool is_read_before(const tpi_program *p, int in, int out) {
    int last = -1, makes = -1;
    for (int i = 0; i < p->nsteps; i++) {
        if (p->values[p->steps[i].out].operand == out) makes = i;
        for (int k = 0; k < p->steps[i].op->nin; k++)
            if (p->steps[i].in[k].value >= 0 && p->values[p->steps[i].in[k].value].operand == in) last = i;
    }
    return last <= makes;
}

static bool may_go_on(const reuser *r, const tpi_graph_step *s, int in, int out) {
    const tpi_graph_value *values = r->g->values;
    int32_t v = s->in[in];
    if (v < 0 || s->out[out] < 0 || !looks_the_same(&values[v], &values[s->out[out]]) || !ends_with(s, v) ||
        r->readers[v] != operands_of(s, v))
        return false;
    tp_tensor like = {.alive = TPI_ALIVE,
                      .dtype = values[v].dtype,
                      .ndim = values[v].ndim,
                      .numel = tpi_numel_of(tpi_value_shape(&values[v])),
                      .shape = values[v].dims,
                      .strides = values[v].dims + values[v].ndim};
    return tpi_is_dense(&like) && (s->kind == TPI_STEP_MAP || is_read_before(s->program, s->program->nout + in, out));
}

static bool find_for(reuser *r, tpi_graph_step *s) {
    int own = s->kind == TPI_STEP_MAP ? 1 : s->nout - (s->fold ? s->fold->nout : 0);
    uint64_t taken = 0;
    for (int o = 0; o < own; o++)
        for (int i = 0; i < s->nin && i < 64; i++) {
            if (taken >> i & 1 || !may_go_on(r, s, i, o)) continue;
            if (!s->over && !(s->over = tpi_graph_memory_alloc(&r->g->memory, (size_t)s->nout * sizeof *s->over)))
                return false;
            for (int k = 0; k < s->nin && k < 64; k++)
                if (s->in[k] == s->in[i]) taken |= 1ull << k;
            s->over[o] = s->in[i] + 1;
            break;
        }
    return true;
}

bool tpi_graph_plan_reuse(tp_compiled *g) {
    reuser r = {g, tpi_graph_memory_alloc(&g->memory, ((size_t)g->nvalues + 1) * sizeof *r.readers)};
    if (!r.readers) return false;
    for (int32_t i = 0; i < g->nsteps; i++) {
        for (int k = 0; k < g->steps[i].nin; k++) count(&r, g->steps[i].in[k], 1);
        for (int k = 0; k < g->steps[i].nout; k++) count(&r, g->steps[i].out[k], 0);
    }
    for (int32_t i = 0; i < g->nsteps; i++) {
        tpi_graph_step *s = &g->steps[i];
        if (((s->kind == TPI_STEP_MAP && !s->inplace) || s->kind == TPI_STEP_PROGRAM) && !find_for(&r, s)) return false;
    }
    return true;
}

/* How much work a step is, as far as shapes tell: enough to decide whether it is worth another thread. */
#include "graph/graph.h"

/* Nanoseconds on one thread: of any step, of an element in each kind of loop, of a multiply-add. */
#define STEP             400.0
#define PER_MAP          0.4
#define PER_PROGRAM_STEP 0.2
#define PER_FOLD         0.25
#define PER_COPY         0.15
#define PER_ELEMENT      1.0 /* of an operator that nothing else is known of */
#define PER_PRODUCT      0.03

enum { MAX_SHAPES = 32 };

static double numel(const tp_compiled *g, int32_t v) {
    return v < 0 ? 0 : (double)tpi_numel_of(tpi_value_shape(&g->values[v]));
}

static double elements(const tp_compiled *g, const tpi_graph_step *s) {
    double n = 0;
    for (int i = 0; i < s->nin; i++) n += numel(g, s->in[i]);
    for (int i = 0; i < s->nout; i++) n += numel(g, s->out[i]);
    return n;
}

/* The shape of every argument, then of every result, for the operator's `cost`. */
static double products(const tp_compiled *g, const tpi_graph_step *s) {
    const tp_operator *op = s->op;
    tp_ints shapes[MAX_SHAPES];
    int at = 0;
    if (!op->cost || op->nargs + s->nout > MAX_SHAPES) return -1;
    for (int64_t i = 0; i < op->nargs; i++) {
        const tp_value *v = &s->args[i];
        int32_t value = v->kind == TP_K_TENSOR ? s->in[at] : -1;
        shapes[i] = value < 0 ? (tp_ints){NULL, -1} : tpi_value_shape(&g->values[value]);
        at += v->kind == TP_K_TENSOR ? 1 : v->kind == TP_K_TENSORS ? (int)v->as.tensors.n : 0;
    }
    for (int i = 0; i < s->nout; i++)
        shapes[op->nargs + i] = s->out[i] < 0 ? (tp_ints){NULL, -1} : tpi_value_shape(&g->values[s->out[i]]);
    return op->cost(shapes, s->args);
}

static double call_work(const tp_compiled *g, const tpi_graph_step *s) {
    const tp_operator *op = s->op;
    double macs = products(g, s), n = elements(g, s);
    if (macs >= 0) return macs * PER_PRODUCT + n * PER_COPY;
    return n * (op->cost_each > 0 ? op->cost_each : PER_ELEMENT);
}

double tpi_step_work(const tp_compiled *g, const tpi_graph_step *s) {
    switch ((tpi_step_kind)s->kind) {
    case TPI_STEP_MAP: return STEP + numel(g, s->out[0]) * PER_MAP;
    case TPI_STEP_FOLD:
    case TPI_STEP_SCAN: return STEP + numel(g, s->in[0]) * PER_FOLD;
    case TPI_STEP_COPY:
    case TPI_STEP_FILL: return STEP + numel(g, s->out[0]) * PER_COPY;
    case TPI_STEP_PROGRAM:
        return STEP + numel(g, s->fold ? s->fed_value : s->out[0]) * PER_PROGRAM_STEP * s->program->nsteps;
    case TPI_STEP_CALL: return STEP + call_work(g, s);
    default: return STEP;
    }
}

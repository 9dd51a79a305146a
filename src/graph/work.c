/* How much a step has to do, as far as shapes tell: enough to say whether it is worth another thread, and no more. */
#include <string.h>
#include "graph/graph.h"

/* Nanoseconds on one thread: of any step, of an element in each kind of loop, of a multiply-add. */
#define STEP             400.0
#define PER_MAP          0.4
#define PER_PROGRAM_STEP 0.2
#define PER_FOLD         0.25
#define PER_COPY         0.15
#define PER_ELEMENT      1.0 /* of an operator that nothing else is known of */
#define PER_PRODUCT      0.03

static double numel(const tp_compiled *g, int32_t v) {
    return v < 0 ? 0 : (double)tpi_numel_of(tpi_value_shape(&g->values[v]));
}

static double first_dim(const tp_compiled *g, int32_t v) {
    return g->values[v].ndim ? (double)g->values[v].dims[0] : 1;
}

static double last_dim(const tp_compiled *g, int32_t v) {
    return g->values[v].ndim ? (double)g->values[v].dims[g->values[v].ndim - 1] : 1;
}

static double elements(const tp_compiled *g, const tpi_graph_step *s) {
    double n = 0;
    for (int i = 0; i < s->nin; i++) n += numel(g, s->in[i]);
    for (int i = 0; i < s->nout; i++) n += numel(g, s->out[i]);
    return n;
}

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names)) names++;
    return *names;
}

/* Multiply-adds, -1: it is no product. Tensor arguments stand in `in` without those that are left out, which come last
 * in all of these. */
static double products(const tp_compiled *g, const tpi_graph_step *s, const char *name) {
    static const char *const plain[] = {"mm", "bmm", "linear", NULL}, *const adding[] = {"addmm", "baddbmm", NULL};
    if (is_one_of(name, plain)) return numel(g, s->out[0]) * last_dim(g, s->in[0]);
    if (is_one_of(name, adding)) return numel(g, s->out[0]) * last_dim(g, s->in[1]);
    if (!strcmp(name, "convolution") || !strcmp(name, "convolution_grad_input")) {
        bool transposed = s->args[6].kind == TP_K_SCALAR && s->args[6].as.scalar.as.i;
        double images = numel(g, transposed == !strcmp(name, "convolution")
                                     ? s->in[0]
                                     : s->out[0]); /* those that the weight's second dim belongs to are the others */
        return images * numel(g, s->in[1]) / first_dim(g, s->in[1]);
    }
    if (!strcmp(name, "convolution_grad_weight"))
        return numel(g, s->in[0]) * numel(g, s->out[0]) / first_dim(g, s->out[0]);
    if (!strcmp(name, "attention_forward"))
        return 2 * numel(g, s->in[0]) * numel(g, s->in[1]) / last_dim(g, s->in[1]) / first_dim(g, s->in[1]);
    if (!strcmp(name, "attention_backward"))
        return 5 * numel(g, s->in[1]) * numel(g, s->in[2]) / last_dim(g, s->in[2]) / first_dim(g, s->in[2]);
    if (!strcmp(name, "lstm_layer")) return numel(g, s->in[0]) * last_dim(g, s->in[1]);
    if (!strcmp(name, "lstm_layer_back")) return 2 * numel(g, s->out[0]) * last_dim(g, s->out[1]);
    return -1;
}

static double call_work(const tp_compiled *g, const tpi_graph_step *s) {
    const char *name = ((const tp_operator *)s->op)->name;
    bool has_all = s->nin >= 2 && s->nout >= 1 && s->out[0] >= 0;
    for (int i = 0; i < s->nin && i < 3; i++) has_all &= s->in[i] >= 0 || i == 2;
    double macs = has_all ? products(g, s, name) : -1, n = elements(g, s);
    if (macs >= 0) return macs * PER_PRODUCT + n * PER_COPY;
    return n * (!strncmp(name, "linalg_", 7) ? 16 * PER_ELEMENT : PER_ELEMENT);
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

bool tpi_operator_draws(const tp_operator *op) {
    for (int64_t i = 0; i < op->nargs; i++)
        if (!strncmp(op->args[i].type, "Generator", 9)) return true;
    return strstr(op->name, "dropout") || strstr(op->name, "_noise");
}

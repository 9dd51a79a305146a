/* Batch norm in evaluation, opened up: y = (x - mean) a + c with a = weight / sqrt(var + eps) per channel, as maps, so that fusion puts it into one
 * program with what follows (an activation, the sum with a shortcut). The coefficients are worked out in double and rounded once, as the
 * operator does, so the bits are the same; and anew in each run, so that they are never older than the statistics. */
#include <string.h>
#include "base/memory.h"
#include "graph/graph.h"
#include "ops/kernels.h"

enum { X, WEIGHT, BIAS, MEAN, VAR, TRAINING, MOMENTUM, EPS, ARGS }; /* batch_norm_forward's arguments */

typedef struct norm {
    tp_compiled *g;
    int32_t value[5]; /* X ... VAR; -1: none */
    double eps;
    bool ok;
} norm;

static const tpi_map_op *map_named(const char *name) {
    int i = 0;
    while (tpi_maps[i] && strcmp(tpi_maps[i]->name, name)) i++;
    return tpi_maps[i];
}

static int32_t new_value(norm *n, tpi_value_kind kind, tp_dtype dtype, int32_t of, tp_ints shape, tp_ints strides) {
    tpi_graph_value v = {.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .of = of, .device = {TP_CPU, 0}};
    int32_t id = n->ok ? tpi_graph_add_value(n->g, &v, shape, strides) : -1;
    n->ok = id >= 0;
    return id;
}

static int32_t channels_like(norm *n, tp_dtype dtype) { /* a vector of one number per channel */
    int64_t count = n->g->values[n->value[VAR]].dims[0], one = 1;
    return new_value(n, TPI_VALUE_MADE, dtype, -1, tp_ints_view(&count, 1), tp_ints_view(&one, 1));
}

/* The vector beside x: its channels stand where x's do. */
static int32_t beside(norm *n, int32_t vector) {
    const tpi_graph_value *v = &n->g->values[vector];
    int ndim = n->g->values[n->value[X]].ndim - 1;
    int64_t shape[TP_MAX_DIMS] = {v->dims[0]}, strides[TP_MAX_DIMS] = {v->dims[1]};
    for (int d = 1; d < ndim; d++) shape[d] = 1, strides[d] = 1;
    int64_t offset = v->kind == TPI_VALUE_VIEW ? v->offset : 0;
    int32_t id = new_value(n, TPI_VALUE_VIEW, (tp_dtype)v->dtype, tpi_value_root(n->g, vector), tp_ints_view(shape, ndim), tp_ints_view(strides, ndim));
    if (id >= 0) n->g->values[id].offset = offset;
    return id;
}

static void copy(norm *n, int32_t from, int32_t to) {
    tpi_graph_step *s = n->ok ? tpi_graph_add_step(n->g, TPI_STEP_COPY, 1, 1) : NULL;
    if ((n->ok = s)) s->in[0] = from, s->out[0] = to;
}

/* out = name(a, b); b < 0: the number. */
static void map(norm *n, const char *name, int32_t a, int32_t b, double number, int32_t out) {
    const tpi_map_op *op = map_named(name);
    tpi_graph_step *s = n->ok && op ? tpi_graph_add_step(n->g, TPI_STEP_MAP, op->nin, 1) : NULL;
    tp_scalar *numbers = s ? tpi_room_take(&n->g->room, 3 * sizeof *numbers) : NULL;
    if (!(n->ok = numbers)) return;
    s->op = op, s->out[0] = out, s->in[0] = a;
    if (op->nin > 1) s->in[1] = b;
    numbers[1] = tp_float(number), numbers[2] = tp_int(1);
    s->numbers = numbers, s->params = &numbers[2]; /* alpha = 1 */
}

static bool is_vector_like(const tp_compiled *g, int32_t v, const tpi_graph_value *x) {
    return v < 0 || (g->values[v].ndim == 1 && g->values[v].dtype == x->dtype && g->values[v].dims[0] == x->dims[1]);
}

static bool is_used(const tp_compiled *g, int32_t v) {
    for (int32_t i = 0; i < g->nsteps; i++)
        for (int k = 0; k < g->steps[i].nin; k++)
            if (g->steps[i].in[k] >= 0 && tpi_value_root(g, g->steps[i].in[k]) == v) return true;
    for (int32_t i = 0; i < g->noutputs; i++)
        if (tpi_value_root(g, g->outputs[i]) == v) return true;
    return false;
}

/* Is the step a batch norm that can be opened? Then *n has what it reads. `all`: the graph as it was. */
static bool can_open(const tp_compiled *all, const tpi_graph_step *s, norm *n) {
    if (s->kind != TPI_STEP_CALL || strcmp(((const tp_operator *)s->op)->name, "batch_norm_forward") || s->args[TRAINING].as.scalar.as.i) return false;
    for (int i = X, at = 0; i <= VAR; i++) n->value[i] = s->args[i].kind == TP_K_TENSOR ? s->in[at++] : -1;
    n->eps = tp_scalar_to_double(s->args[EPS].as.scalar);
    const tpi_graph_value *x = &all->values[n->value[X]], *y = &all->values[s->out[0]];
    if ((x->dtype != TP_FLOAT32 && x->dtype != TP_FLOAT64) || x->ndim < 2 || x->device.type != TP_CPU || n->value[MEAN] < 0 || n->value[VAR] < 0) return false;
    if (memcmp(x->dims, y->dims, sizeof(int64_t) * 2 * x->ndim) || is_used(all, s->out[1]) || is_used(all, s->out[2])) return false;
    for (int i = WEIGHT; i <= VAR; i++)
        if (!is_vector_like(all, n->value[i], x)) return false;
    return true;
}

static void open(norm *n, int32_t y) {
    tp_compiled *g = n->g;
    const tpi_graph_value x = g->values[n->value[X]];
    int32_t wide = channels_like(n, TP_FLOAT64), sum = channels_like(n, TP_FLOAT64), root = channels_like(n, TP_FLOAT64), scale = channels_like(n, TP_FLOAT64);
    copy(n, n->value[VAR], wide);
    map(n, "add", wide, -1, n->eps, sum);
    map(n, "sqrt", sum, -1, 0, root);
    map(n, "reciprocal", root, -1, 0, scale);
    if (n->value[WEIGHT] >= 0) {
        int32_t weighted = channels_like(n, TP_FLOAT64);
        map(n, "mul", scale, n->value[WEIGHT], 0, weighted);
        scale = weighted;
    }
    int32_t a = channels_like(n, (tp_dtype)x.dtype), away = new_value(n, TPI_VALUE_MADE, (tp_dtype)x.dtype, -1, tpi_value_shape(&x), tpi_value_strides(&x));
    copy(n, scale, a);
    int32_t scaled = new_value(n, TPI_VALUE_MADE, (tp_dtype)x.dtype, -1, tpi_value_shape(&x), tpi_value_strides(&x));
    map(n, "sub", n->value[X], n->ok ? beside(n, n->value[MEAN]) : -1, 0, away);
    map(n, "mul", away, n->ok ? beside(n, a) : -1, 0, scaled);
    map(n, "add", scaled, n->ok && n->value[BIAS] >= 0 ? beside(n, n->value[BIAS]) : -1, 0, y);
}

bool tpi_graph_open_norms(tp_compiled *g) {
    if (g->differentiable) return true;
    norm n = {.g = g, .ok = true};
    bool any = false;
    for (int32_t i = 0; i < g->nsteps && !any; i++) any = can_open(g, &g->steps[i], &n);
    if (!any) return true;
    tp_compiled all = *g; /* the steps as they were; the values are the graph's, and only grow */
    g->steps = NULL, g->nsteps = g->steps_room = 0;
    for (int32_t i = 0; i < all.nsteps && n.ok; i++) {
        all.values = g->values;
        if (can_open(&all, &all.steps[i], &n)) {
            open(&n, all.steps[i].out[0]);
            continue;
        }
        tpi_graph_step *s = tpi_graph_add_step(g, (tpi_step_kind)all.steps[i].kind, 0, 0);
        if ((n.ok = s)) *s = all.steps[i];
    }
    g->nforward = g->nsteps;
    tpi_mfree(all.steps);
    return n.ok;
}

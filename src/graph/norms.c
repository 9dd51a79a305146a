/* Batch norm in evaluation goes into the convolution before it: with a = scale / sqrt(var + eps) per channel, its weight times a and the bias
 * (bias - mean) a + shift give what the norm would. Both are worked out anew in each run, which costs little beside a pass over the result, so that they
 * are never older than the parameters and statistics, however those were written. Sums round differently: results agree to the dtype's
 * precision, not bit by bit. */
#include <string.h>
#include "base/memory.h"
#include "graph/graph.h"
#include "ops/kernels.h"

enum { X, WEIGHT, BIAS, MEAN, VAR, TRAINING, MOMENTUM, EPS };                                  /* batch_norm_forward's arguments */
enum { CONV_INPUT, CONV_WEIGHT, CONV_BIAS, CONV_TRANSPOSED = 6 };                              /* convolution's */

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

/* The vector beside a convolution's weight: its channels are the first dim. */
static int32_t beside(norm *n, int32_t vector, int ndim) {
    const tpi_graph_value *v = &n->g->values[vector];
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

/* How many steps and results read the value, itself or through a view. */
static int count_uses(const tp_compiled *g, int32_t v) {
    int n = 0;
    for (int32_t i = 0; i < g->nsteps; i++)
        for (int k = 0; k < g->steps[i].nin; k++) n += g->steps[i].in[k] >= 0 && tpi_value_root(g, g->steps[i].in[k]) == v;
    for (int32_t i = 0; i < g->noutputs; i++) n += tpi_value_root(g, g->outputs[i]) == v;
    return n;
}

static bool is_call(const tpi_graph_step *s, const char *name) { return s->kind == TPI_STEP_CALL && !s->inplace && !strcmp(((const tp_operator *)s->op)->name, name); }

/* Does norm step s take the convolution's result? Then *n has what it reads. */
static bool takes(const tp_compiled *all, const tpi_graph_step *conv, const tpi_graph_step *s, norm *n) {
    if (!is_call(s, "batch_norm_forward") || s->in[0] != conv->out[0] || s->args[TRAINING].as.scalar.as.i) return false;
    for (int i = X, at = 0; i <= VAR; i++) n->value[i] = s->args[i].kind == TP_K_TENSOR ? s->in[at++] : -1;
    n->eps = tp_scalar_to_double(s->args[EPS].as.scalar);
    const tpi_graph_value *x = &all->values[n->value[X]], *y = &all->values[s->out[0]], *w = &all->values[conv->in[CONV_WEIGHT]];
    if ((x->dtype != TP_FLOAT32 && x->dtype != TP_FLOAT64) || w->dtype != x->dtype || n->value[MEAN] < 0 || n->value[VAR] < 0) return false;
    if (memcmp(x->dims, y->dims, sizeof(int64_t) * 2 * x->ndim) || count_uses(all, s->out[1]) || count_uses(all, s->out[2])) return false;
    for (int i = WEIGHT; i <= VAR; i++)
        if (!is_vector_like(all, n->value[i], x)) return false;
    return true;
}

/* The norm after a convolution, -1 if there is none that can go into it, or its weight is no smaller than what the norm passes over. */
static int32_t find_norm(const tp_compiled *all, int32_t at, norm *n) {
    const tpi_graph_step *conv = &all->steps[at];
    if (!is_call(conv, "convolution") || conv->args[CONV_TRANSPOSED].as.scalar.as.i || count_uses(all, conv->out[0]) != 1) return -1;
    const tpi_graph_value *w = &all->values[conv->in[CONV_WEIGHT]], *y = &all->values[conv->out[0]];
    if (w->device.type != TP_CPU || w->kind == TPI_VALUE_MADE || 2 * tpi_numel_of(tpi_value_shape(w)) > tpi_numel_of(tpi_value_shape(y))) return -1;
    for (int32_t i = at + 1; i < all->nsteps; i++)
        if (takes(all, conv, &all->steps[i], n)) return i;
    return -1;
}

/* a = scale / sqrt(var + eps), in double, rounded once. */
static int32_t put_coefficients(norm *n, tp_dtype dtype) {
    int32_t wide = channels_like(n, TP_FLOAT64), sum = channels_like(n, TP_FLOAT64), root = channels_like(n, TP_FLOAT64), scale = channels_like(n, TP_FLOAT64);
    int32_t weighted = channels_like(n, TP_FLOAT64), a = channels_like(n, dtype);
    copy(n, n->value[VAR], wide);
    map(n, "add", wide, -1, n->eps, sum);
    map(n, "sqrt", sum, -1, 0, root);
    map(n, "reciprocal", root, -1, 0, scale);
    if (n->value[WEIGHT] >= 0) map(n, "mul", scale, n->value[WEIGHT], 0, weighted);
    copy(n, n->value[WEIGHT] >= 0 ? weighted : scale, a);
    return a;
}

static void put_convolution(norm *n, const tpi_graph_step *conv, int32_t y) {
    tp_compiled *g = n->g;
    const tpi_graph_value w = g->values[conv->in[CONV_WEIGHT]];
    tp_dtype dtype = (tp_dtype)w.dtype;
    int32_t a = put_coefficients(n, dtype), column = n->ok ? beside(n, a, w.ndim) : -1;
    int32_t weight = new_value(n, TPI_VALUE_MADE, dtype, -1, tpi_value_shape(&w), tpi_value_strides(&w));
    int32_t away = channels_like(n, dtype), scaled = channels_like(n, dtype), bias = channels_like(n, dtype);
    map(n, "mul", conv->in[CONV_WEIGHT], column, 0, weight);
    if (conv->args[CONV_BIAS].kind == TP_K_TENSOR) map(n, "sub", conv->in[CONV_BIAS], n->value[MEAN], 0, away);
    else map(n, "neg", n->value[MEAN], -1, 0, away);
    map(n, "mul", away, a, 0, scaled);
    map(n, "add", scaled, n->value[BIAS], 0, bias);
    tpi_graph_step *s = n->ok ? tpi_graph_add_step(g, TPI_STEP_CALL, 3, 1) : NULL;
    const tp_operator *op = conv->op;
    tp_value *args = s ? tpi_room_take(&g->room, (size_t)op->nargs * sizeof *args) : NULL;
    if (!(n->ok = args)) return;
    memcpy(args, conv->args, (size_t)op->nargs * sizeof *args);
    args[CONV_BIAS] = (tp_value){.kind = TP_K_TENSOR};
    s->op = op, s->args = args, s->out[0] = y;
    s->in[CONV_INPUT] = conv->in[CONV_INPUT], s->in[CONV_WEIGHT] = weight, s->in[CONV_BIAS] = bias;
}

bool tpi_graph_fold_norms(tp_compiled *g) {
    if (g->differentiable || g->writes) return true;
    norm n = {.g = g, .ok = true};
    tp_compiled all = *g; /* the steps as they were; the values are the graph's, and only grow */
    bool *gone = tpi_room_take(&g->room, (size_t)all.nsteps + 1);
    if (!gone) return false;
    g->steps = NULL, g->nsteps = g->steps_room = 0;
    for (int32_t i = 0; i < all.nsteps && n.ok; i++) {
        all.values = g->values;
        int32_t after = find_norm(&all, i, &n);
        if (after >= 0) {
            gone[after] = true;
            put_convolution(&n, &all.steps[i], all.steps[after].out[0]);
        } else if (!gone[i]) {
            tpi_graph_step *s = tpi_graph_add_step(g, (tpi_step_kind)all.steps[i].kind, 0, 0);
            if ((n.ok = s)) *s = all.steps[i];
        }
    }
    g->nforward = g->nsteps;
    tpi_mfree(all.steps);
    return n.ok;
}

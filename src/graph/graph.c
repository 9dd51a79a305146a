/* A graph's memory, and the plan of a run: what the backward needs of the forward, and with which step each value ends.
 */
#include "graph/graph.h"
#include <string.h>
#include "base/handle.h"
#include "base/memory.h"

/* ---- Memory ---- */

typedef struct tpi_graph_memory_block {
    struct tpi_graph_memory_block *next;
    size_t used, bytes;
    _Alignas(16) char data[];
} memory_block;

void *tpi_graph_memory_alloc(tpi_graph_memory *memory, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    memory_block *b = memory->blocks;
    if (!b || b->bytes - b->used < bytes) {
        size_t size = bytes > 8000 ? bytes : 8000;
        b = tpi_malloc(sizeof *b + size);
        if (!b) return NULL;
        *b = (memory_block){.next = memory->blocks, .bytes = size};
        memory->blocks = b;
    }
    void *p = b->data + b->used;
    b->used += bytes;
    memset(p, 0, bytes);
    return p;
}

void tpi_graph_memory_empty(tpi_graph_memory *memory) {
    while (memory->blocks) {
        memory_block *b = memory->blocks;
        memory->blocks = b->next;
        tpi_mfree(b);
    }
}

tp_compiled *tpi_graph_new(void) {
    tp_compiled *g = tpi_new0(sizeof *g);
    if (g) atomic_init(&g->refs, 1);
    tpi_handle_made(g, "compiled graph");
    return g;
}

tp_compiled *tp_compiled_retain(tp_compiled *g) {
    if (TPI_ENDED(g, "a compiled graph")) return NULL;
    if (g) atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void tp_compiled_release(tp_compiled *g) {
    if (!TPI_ENDS(g, "graph", "a compiled graph")) return;
    if (atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) return;
    tpi_graph_drop_segments(g);
    for (int32_t i = 0; i < g->nvalues; i++) tp_release(g->values[i].tensor);
    for (tpi_graph_custom *c = g->customs; c; c = c->next)
        if (c->what.drop) c->what.drop(c->what.context);
    tpi_mfree(g->values);
    tpi_mfree(g->steps);
    tpi_mfree(g->note);
    tpi_graph_drop_sizes(g->sizes);
    tpi_graph_memory_empty(&g->memory);
    tpi_handle_delete(g, sizeof *g);
}

int64_t tp_compiled_inputs(const tp_compiled *g) {
    if (TPI_ENDED(g, "a compiled graph")) return -1;
    return g ? g->ninputs : -1;
}
int64_t tp_compiled_outputs(const tp_compiled *g) {
    if (TPI_ENDED(g, "a compiled graph")) return -1;
    return g ? g->noutputs : -1;
}
tp_tensor *tp_compiled_tensor(const tp_compiled *g, int64_t i, int64_t *value) {
    if (TPI_ENDED(g, "a compiled graph")) return NULL;
    for (int32_t v = 0; g && v < g->nvalues; v++)
        if (g->values[v].kind == TPI_VALUE_OUTSIDE && i-- == 0) {
            *value = v;
            return g->values[v].tensor;
        }
    return NULL;
}

int64_t tp_compiled_steps(const tp_compiled *g) {
    if (TPI_ENDED(g, "a compiled graph")) return -1;
    return g ? g->nforward : -1;
}

/* ---- Building ---- */

static bool grow(void **list, int32_t n, int32_t *capacity, size_t size) {
    if (n < *capacity) return true;
    int32_t more = *capacity ? 2 * *capacity : 64;
    void *moved = tpi_realloc(*list, (size_t)more * size);
    if (!moved) return false;
    *list = moved;
    *capacity = more;
    return true;
}

int32_t tpi_graph_add_value(tp_compiled *g, const tpi_graph_value *value, tp_ints shape, tp_ints strides) {
    int64_t *dims = tpi_graph_memory_alloc(&g->memory, (size_t)(2 * shape.n) * sizeof *dims);
    if (!dims || !grow((void **)&g->values, g->nvalues, &g->values_capacity, sizeof *g->values)) return -1;
    memcpy(dims, shape.v, (size_t)shape.n * sizeof *dims);
    memcpy(dims + shape.n, strides.v, (size_t)shape.n * sizeof *dims);
    tpi_graph_value *v = &g->values[g->nvalues];
    *v = *value;
    v->dims = dims;
    v->ndim = (uint8_t)shape.n;
    return g->nvalues++;
}

tpi_graph_step *tpi_graph_add_step(tp_compiled *g, tpi_step_kind kind, int nin, int nout) {
    int32_t *ids = tpi_graph_memory_alloc(&g->memory, (size_t)(nin + nout) * sizeof *ids);
    if (!ids || !grow((void **)&g->steps, g->nsteps, &g->steps_capacity, sizeof *g->steps)) return NULL;
    tpi_graph_step *s = &g->steps[g->nsteps++];
    *s = (tpi_graph_step){
        .kind = (uint8_t)kind, .nin = (int16_t)nin, .nout = (int16_t)nout, .in = ids, .out = ids + nin};
    return s;
}

/* ---- What a step writes ---- */

static bool writes_arguments(const tpi_graph_step *s) {
    const tp_operator *op = s->op;
    if (!op->writes || op->writes_when < 0) return op->writes != 0;
    const tp_value *when = &s->args[op->writes_when];
    return when->kind != TP_K_SCALAR || when->as.scalar.as.i;
}

/* Natives that move running statistics in training write them though they are no in-place forms. */
static int32_t written_argument(const tp_compiled *g, const tpi_graph_step *s, int which) {
    const tp_operator *op = s->op;
    int at = 0;
    if (!writes_arguments(s)) return -1;
    for (int64_t i = 0; i < op->nargs; i++) {
        int64_t n = s->args[i].kind == TP_K_TENSOR ? 1 : s->args[i].kind == TP_K_TENSORS ? s->args[i].as.tensors.n : 0;
        bool written = op->writes >> i & 1;
        for (int64_t k = 0; k < n && written; k++)
            if (s->in[at + k] >= 0 && which-- == 0) return tpi_value_root(g, s->in[at + k]);
        at += (int)n;
    }
    return -1;
}

int32_t tpi_step_writes(const tp_compiled *g, const tpi_graph_step *s, int which) {
    bool into = s->inplace || s->kind == TPI_STEP_COPY || s->kind == TPI_STEP_FILL || s->kind == TPI_STEP_ACCUMULATE ||
                s->kind == TPI_STEP_FORGET;
    if (into) return which == 0 && s->out[0] >= 0 ? tpi_value_root(g, s->out[0]) : -1;
    return s->kind == TPI_STEP_CALL ? written_argument(g, s, which) : -1;
}

/* ---- The plan ---- */

typedef struct planner {
    tp_compiled *g;
    int32_t *last; /* per value: the last step that reads or writes it in its half of the graph, -1: none */
    bool *made;    /* per value: by a step of the forward */
    bool *kept;    /* per value: does not end in its half: results, and what the backward reads */
} planner;

static void use(planner *p, int32_t v, int32_t step) {
    if (v < 0) return;
    p->last[v] = step;
    p->last[tpi_value_root(p->g, v)] = step;
}

static void use_all(planner *p, int32_t from, int32_t to) {
    for (int32_t i = from; i < to; i++) {
        const tpi_graph_step *s = &p->g->steps[i];
        for (int k = 0; k < s->nin; k++) use(p, s->in[k], i);
        for (int k = 0; k < s->nout; k++) use(p, s->out[k], i);
    }
}

/* Values are owned by a run unless they come from outside of it. */
static bool is_owned(const tpi_graph_value *v) { return v->kind == TPI_VALUE_MADE || v->kind == TPI_VALUE_VIEW; }

static bool list_ends(planner *p, int32_t from, int32_t to) {
    tp_compiled *g = p->g;
    for (int32_t v = 0; v < g->nvalues; v++)
        if (is_owned(&g->values[v]) && p->last[v] >= from && !p->kept[v]) g->steps[p->last[v]].ndead++;
    for (int32_t i = from; i < to; i++) {
        tpi_graph_step *s = &g->steps[i];
        if (s->ndead && !(s->dead = tpi_graph_memory_alloc(&g->memory, (size_t)s->ndead * sizeof *s->dead)))
            return false;
        s->ndead = 0;
    }
    for (int32_t v = 0; v < g->nvalues; v++) {
        if (!is_owned(&g->values[v]) || p->last[v] < from || p->kept[v]) continue;
        tpi_graph_step *s = &g->steps[p->last[v]];
        s->dead[s->ndead++] = v;
    }
    return true;
}

static bool reads_of_forward(planner *p) {
    tp_compiled *g = p->g;
    for (int32_t i = 0; i < g->nforward; i++)
        for (int k = 0; k < g->steps[i].nout; k++)
            if (g->steps[i].out[k] >= 0) p->made[tpi_value_root(g, g->steps[i].out[k])] = true;
    int32_t n = 0;
    bool *wanted = tpi_graph_memory_alloc(&g->memory, (size_t)g->nvalues + 1);
    if (!wanted) return false;
    for (int32_t i = g->nforward; i < g->nsteps; i++)
        for (int k = 0; k < g->steps[i].nin; k++) {
            int32_t v = g->steps[i].in[k] < 0 ? -1 : tpi_value_root(g, g->steps[i].in[k]);
            if (v < 0 || wanted[v] || g->values[v].kind == TPI_VALUE_GRAD || g->values[v].kind == TPI_VALUE_CONSTANT)
                continue;
            if (g->values[v].kind == TPI_VALUE_MADE && !p->made[v]) continue;
            wanted[v] = true;
            n++;
        }
    for (int32_t i = 0; i < g->ntracked; i++) { /* a gradient may be a value of the forward, handed through */
        int32_t v = g->gradients[i] < 0 ? -1 : tpi_value_root(g, g->gradients[i]);
        if (v >= 0 && !wanted[v] &&
            (p->made[v] || g->values[v].kind == TPI_VALUE_INPUT || g->values[v].kind == TPI_VALUE_OUTSIDE)) {
            wanted[v] = true;
            n++;
        }
    }
    g->saved = tpi_graph_memory_alloc(&g->memory, (size_t)n * sizeof *g->saved);
    if (!g->saved) return false;
    for (int32_t v = 0; v < g->nvalues; v++)
        if (wanted[v]) {
            g->saved[g->nsaved++] = v;
            p->kept[v] = true;
        }
    return true;
}

bool tpi_graph_plan(tp_compiled *g) {
    planner p = {.g = g};
    size_t n = (size_t)g->nvalues + 1;
    p.last = tpi_graph_memory_alloc(&g->memory, n * sizeof *p.last);
    p.made = tpi_graph_memory_alloc(&g->memory, n);
    p.kept = tpi_graph_memory_alloc(&g->memory, n);
    if (!p.last || !p.made || !p.kept || !reads_of_forward(&p)) return false;
    for (int32_t i = 0; i < g->noutputs; i++) p.kept[g->outputs[i]] = p.kept[tpi_value_root(g, g->outputs[i])] = true;
    memset(p.last, 0xff, n * sizeof *p.last);
    use_all(&p, 0, g->nforward);
    if (!list_ends(&p, 0, g->nforward)) return false;
    memset(p.last, 0xff, n * sizeof *p.last);
    memset(p.kept, 0, n);
    for (int32_t i = 0; i < g->ntracked; i++)
        if (g->gradients[i] >= 0) p.kept[g->gradients[i]] = p.kept[tpi_value_root(g, g->gradients[i])] = true;
    use_all(&p, g->nforward, g->nsteps);
    return list_ends(&p, g->nforward, g->nsteps) && tpi_graph_plan_reuse(g) && tpi_graph_find_branches(g) &&
           tpi_graph_find_segments(g);
}

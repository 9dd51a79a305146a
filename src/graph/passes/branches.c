/* Branches: steps that do not depend on each other, found when a graph is made.
 *
 * A step that is large enough for all threads runs by itself, as does what may read or write anything; the runs of
 * small steps between them are looked at. A step depends on the last one that wrote what it reads, and on all that read
 * or wrote what it writes, memory by memory: what looks at the same memory counts as one. Steps that draw random
 * numbers follow each other. Where enough of a run can go on at the same time, it becomes branches (parallel_steps.c).
 */
#include <string.h>
#include "base/memory.h"
#include "graph/graph.h"

/* Nanoseconds: a step from here on is shared by all threads itself; what is too short to wake others for. */
#define LARGE 60e3
#define BRIEF 60e3
double tpi_branches_gain = 12e3;

typedef struct link { /* of a list of steps */
    int32_t step;
    struct link *next;
} link;

typedef struct finder {
    tp_compiled *g;
    tpi_graph_memory memory; /* of what is only needed here */
    int32_t *writer;     /* per value, and one more for the generator: the step that wrote it last, -1: none of these */
    link **readers;      /* since then */
    link **after;        /* per step */
    double *work, *done; /* per step: how long it takes; when it is done at the earliest */
    int32_t *end_index;  /* per value: among the branches' ends, -1: it does not end there */
    int32_t *seen;       /* per value: the last step that was found to use it */
    bool *has_grad;      /* per value: a leaf that has a gradient now */
    int32_t *written;    /* outside tensors */
    int32_t nwritten;
    bool ok;
} finder;

/* ---- Steps that run alone ---- */

static bool is_off_cpu(const tp_compiled *g, const int32_t *values, int n) {
    for (int i = 0; i < n; i++) {
        if (values[i] < 0) continue;
        const tpi_graph_value *v = &g->values[values[i]], *root = &g->values[tpi_value_root(g, values[i])];
        if (v->device.type != TP_CPU || root->kind == TPI_VALUE_LEAF_GRAD) return true;
    }
    return false;
}

/* Only the forward's writes to tensors that nobody else can know by another address can be followed. */
static bool writes_unseen(const tp_compiled *g, int32_t i) {
    for (int w = 0; w >= 0; w++) {
        int32_t root = tpi_step_writes(g, &g->steps[i], w);
        if (root < 0) return false;
        const tpi_graph_value *v = &g->values[root];
        if (v->kind == TPI_VALUE_MADE) continue;
        if (v->kind != TPI_VALUE_OUTSIDE || i >= g->nforward || !v->tensor || v->tensor->storage->foreign) return true;
    }
    return false;
}

/* Follows which leaves have gradients: the first one that comes for a leaf is put there, others are added to memory
 * that anybody may know. */
static bool adds_to_gradient(finder *f, const tpi_graph_step *s) {
    bool had = f->has_grad[s->in[0]];
    f->has_grad[s->in[0]] = s->kind == TPI_STEP_ACCUMULATE;
    return had || s->kind == TPI_STEP_FORGET;
}

static bool runs_alone(finder *f, int32_t i) {
    const tp_compiled *g = f->g;
    const tpi_graph_step *s = &g->steps[i];
    if (s->kind == TPI_STEP_ACCUMULATE || s->kind == TPI_STEP_FORGET)
        return adds_to_gradient(f, s) || is_off_cpu(g, s->in, s->nin);
    if (s->kind == TPI_STEP_CUSTOM || s->kind == TPI_STEP_HAND_ON || is_off_cpu(g, s->in, s->nin) ||
        is_off_cpu(g, s->out, s->nout) || writes_unseen(g, i))
        return true;
    return (f->work[i] = tpi_step_work(g, s)) >= LARGE;
}

/* ---- What depends on what ---- */

static void put(finder *f, link **list, int32_t step) {
    link *l = tpi_graph_memory_alloc(&f->memory, sizeof *l);
    if (!l)
        f->ok = false;
    else {
        *l = (link){step, *list};
        *list = l;
    }
}

static void depend(finder *f, int32_t before, int32_t step) {
    if (before < 0 || before == step || (f->after[before] && f->after[before]->step == step)) return;
    put(f, &f->after[before], step);
    f->g->steps[before].nafter++;
    f->g->steps[step].nbefore++;
    if (f->done[before] > f->done[step]) f->done[step] = f->done[before];
}

static void read_value(finder *f, int32_t root, int32_t step) {
    depend(f, f->writer[root], step);
    put(f, &f->readers[root], step);
}

static void write_value(finder *f, int32_t root, int32_t step) {
    depend(f, f->writer[root], step);
    for (const link *l = f->readers[root]; l; l = l->next) depend(f, l->step, step);
    f->writer[root] = step;
    f->readers[root] = NULL;
}

static void follow(finder *f, int32_t i) {
    const tp_compiled *g = f->g;
    const tpi_graph_step *s = &g->steps[i];
    for (int k = 0; k < s->nin; k++)
        if (s->in[k] >= 0) read_value(f, tpi_value_root(g, s->in[k]), i);
    if (s->kind == TPI_STEP_ACCUMULATE)
        return write_value(f, tpi_value_root(g, s->in[1]), i); /* it may keep that one as it is */
    for (int k = 0; k < s->nout; k++)
        if (s->out[k] >= 0) write_value(f, tpi_value_root(g, s->out[k]), i);
    for (int w = 0; w >= 0; w++) {
        int32_t root = tpi_step_writes(g, s, w);
        if (root < 0) break;
        write_value(f, root, i);
        if (g->values[root].kind == TPI_VALUE_OUTSIDE) f->written[f->nwritten++] = root;
    }
    if (s->kind == TPI_STEP_CALL && ((const tp_operator *)s->op)->draws) write_value(f, g->nvalues, i);
}

/* ---- Branches ---- */

static bool list_after(finder *f, int32_t i) {
    tpi_graph_step *s = &f->g->steps[i];
    if (!(s->after = tpi_graph_memory_alloc(&f->g->memory, (size_t)s->nafter * sizeof *s->after))) return false;
    int32_t at = s->nafter;
    for (const link *l = f->after[i]; l; l = l->next) s->after[--at] = l->step; /* the list has the last one first */
    return true;
}

static void use(finder *f, tpi_branches *b, int32_t v, int32_t i, bool fill) {
    if (v < 0 || f->end_index[v] < 0 || f->seen[v] == i) return;
    tpi_graph_step *s = &f->g->steps[i];
    f->seen[v] = i;
    if (fill) {
        s->uses[s->nuses] = f->end_index[v];
        b->users[f->end_index[v]]++;
    }
    s->nuses++;
}

static void use_all(finder *f, tpi_branches *b, int32_t i, bool fill) {
    tpi_graph_step *s = &f->g->steps[i];
    s->nuses = 0;
    for (int k = 0; k < s->nin + s->nout; k++) {
        int32_t v = k < s->nin ? s->in[k] : s->out[k - s->nin];
        use(f, b, v, i, fill);
        if (v >= 0) use(f, b, tpi_value_root(f->g, v), i, fill);
    }
    for (int k = 0; k < s->nin + s->nout; k++) { /* seen by this step in this round, no more */
        int32_t v = k < s->nin ? s->in[k] : s->out[k - s->nin];
        if (v >= 0) f->seen[v] = f->seen[tpi_value_root(f->g, v)] = -1;
    }
}

/* Values that end among these steps, which end with the last step that gets to them. */
static bool number_ends(finder *f, tpi_branches *b) {
    tp_compiled *g = f->g;
    for (int32_t i = b->from; i < b->to; i++) b->nends += g->steps[i].ndead;
    b->ends = tpi_graph_memory_alloc(&g->memory, (size_t)b->nends * sizeof *b->ends);
    b->users = tpi_graph_memory_alloc(&g->memory, (size_t)b->nends * sizeof *b->users);
    if (!b->ends || !b->users) return false;
    for (int32_t i = b->from, n = 0; i < b->to; i++)
        for (int32_t d = 0; d < g->steps[i].ndead; d++, n++) {
            b->ends[n] = g->steps[i].dead[d];
            f->end_index[b->ends[n]] = n;
        }
    for (int32_t i = b->from; i < b->to; i++) {
        tpi_graph_step *s = &g->steps[i];
        use_all(f, b, i, false);
        if (!(s->uses = tpi_graph_memory_alloc(&g->memory, (size_t)s->nuses * sizeof *s->uses))) return false;
        use_all(f, b, i, true);
    }
    return true;
}

static bool make_branches(finder *f, int32_t from, int32_t to, double sum, double longest, tpi_branches ***last) {
    tpi_branches *b = tpi_graph_memory_alloc(&f->g->memory, sizeof *b);
    if (!b) return false;
    *b = (tpi_branches){.from = from, .to = to, .width = (int32_t)(sum / longest) + 1, .brief = sum < BRIEF};
    for (int32_t i = from; i < to; i++)
        if (!list_after(f, i)) return false;
    **last = b;
    *last = &b->next;
    return number_ends(f, b);
}

/* Looks at the steps of one run. */
static bool look_at(finder *f, int32_t from, int32_t to, tpi_branches ***last) {
    tp_compiled *g = f->g;
    size_t n = (size_t)g->nvalues + 1;
    double sum = 0, longest = 0;
    int32_t nwritten = f->nwritten;
    for (int32_t i = from; i < to; i++) sum += f->work[i];
    if (to - from < 2 || sum < 2 * tpi_branches_gain) return true;
    memset(f->writer, 0xff, n * sizeof *f->writer);
    memset(f->readers, 0, n * sizeof *f->readers);
    memset(f->end_index, 0xff, n * sizeof *f->end_index);
    for (int32_t i = from; i < to && f->ok; i++) {
        follow(f, i);
        f->done[i] += f->work[i];
        if (f->done[i] > longest) longest = f->done[i];
    }
    double shared = longest > sum / 2 ? longest : sum / 2; /* by two threads */
    if (f->ok && sum - shared - sum / 20 >= tpi_branches_gain) return make_branches(f, from, to, sum, longest, last);
    f->nwritten = nwritten;
    return f->ok;
}

static bool find(finder *f) {
    tp_compiled *g = f->g;
    tpi_branches **last = &g->branches;
    for (const tpi_graph_grad *e = g->expected; e; e = e->next) f->has_grad[e->leaf] = e->there;
    for (int32_t from = 0, i = 0; i <= g->nsteps; i++) {
        bool alone = i < g->nsteps && runs_alone(f, i);
        if (i < g->nsteps && i != g->nforward && !alone) continue;
        if (!look_at(f, from, i, &last)) return false;
        from = i + alone;
    }
    return true;
}

static bool keep_written(finder *f) {
    tp_compiled *g = f->g;
    g->written = tpi_graph_memory_alloc(&g->memory, (size_t)f->nwritten * sizeof *g->written);
    if (!g->written) return false;
    if (f->nwritten) memcpy(g->written, f->written, (size_t)f->nwritten * sizeof *g->written);
    g->nwritten = f->nwritten;
    return true;
}

bool tpi_graph_find_branches(tp_compiled *g) {
    finder f = {.g = g, .ok = true};
    size_t n = (size_t)g->nvalues + 1, m = (size_t)g->nsteps + 1;
    size_t writes = 1;
    for (int32_t i = 0; i < g->nsteps; i++)
        for (int w = 0; tpi_step_writes(g, &g->steps[i], w) >= 0; w++) writes++;
    f.writer = tpi_graph_memory_alloc(&f.memory, n * sizeof *f.writer);
    f.readers = tpi_graph_memory_alloc(&f.memory, n * sizeof *f.readers);
    f.after = tpi_graph_memory_alloc(&f.memory, m * sizeof *f.after);
    f.work = tpi_graph_memory_alloc(&f.memory, m * sizeof *f.work);
    f.done = tpi_graph_memory_alloc(&f.memory, m * sizeof *f.done);
    f.end_index = tpi_graph_memory_alloc(&f.memory, n * sizeof *f.end_index);
    f.seen = tpi_graph_memory_alloc(&f.memory, n * sizeof *f.seen);
    f.has_grad = tpi_graph_memory_alloc(&f.memory, n);
    f.written = tpi_graph_memory_alloc(&f.memory, writes * sizeof *f.written);
    bool ok = f.writer && f.readers && f.after && f.work && f.done && f.end_index && f.seen && f.has_grad && f.written;
    if (ok) memset(f.seen, 0xff, n * sizeof *f.seen);
    ok = ok && find(&f) && keep_written(&f);
    tpi_graph_memory_empty(&f.memory);
    return ok;
}

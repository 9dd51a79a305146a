/* Epilogues: a program that reads a native's result, position by position, is run by the native's own kernel on GPUs,
 * where the stanza says that it can (device/epilogue.h). The program moves up to the call: everything else that it
 * reads must have been there before the call, and must not have been written since. */
#include <string.h>
#include "base/memory.h"
#include "dispatch/kernel_facts.h"
#include "graph/graph.h"

typedef struct finder {
    tp_compiled *g;
    int32_t *written; /* per value, of roots: the last step so far that made or wrote it, -1: none */
    int32_t *uses;    /* per value: how often it is read, handed on, or looked at by a view */
    int32_t from;     /* no program moves before this step */
} finder;

int tpi_step_own_out(const tpi_graph_step *s) { return s->nout - (s->epilogue ? s->epilogue->nout : 0); }
int tpi_step_own_in(const tpi_graph_step *s) {
    int more = 0;
    for (int i = 0; s->epilogue && i < s->epilogue->nin; i++) more += s->epilogue->in[i] != s->epilogue_of;
    return s->nin - more;
}

static void count_uses(finder *f) {
    const tp_compiled *g = f->g;
    for (int32_t i = 0; i < g->nsteps; i++)
        for (int k = 0; k < g->steps[i].nin; k++)
            if (g->steps[i].in[k] >= 0) f->uses[g->steps[i].in[k]]++;
    for (int32_t v = 0; v < g->nvalues; v++)
        if (g->values[v].kind == TPI_VALUE_VIEW) f->uses[g->values[v].of]++;
    for (int32_t i = 0; i < g->noutputs; i++) f->uses[g->outputs[i]]++;
    for (int32_t i = 0; i < g->ntracked; i++)
        if (g->gradients[i] >= 0) f->uses[g->gradients[i]]++;
}

static bool same_place(const tpi_graph_value *a, const tpi_graph_value *b) {
    return a->ndim == b->ndim && tpi_same_device(a->device, b->device) &&
           !memcmp(a->dims, b->dims, sizeof(int64_t) * 2 * a->ndim);
}

/* The step that made the value, if it is a call whose kernel may go on with it, and nobody has written it since. */
static int32_t call_of(const finder *f, int32_t v) {
    const tp_compiled *g = f->g;
    if (v < 0 || g->values[v].kind != TPI_VALUE_MADE || f->written[v] < f->from) return -1;
    const tpi_graph_step *s = &g->steps[f->written[v]];
    if (s->kind != TPI_STEP_CALL || s->inplace || s->epilogue) return -1;
    int result = tpi_epilogue_result(s->op);
    return result >= 0 && result < s->nout && s->out[result] == v ? f->written[v] : -1;
}

/* May the program, which reads v, run where v is made? */
static bool may_move(const finder *f, const tpi_graph_step *p, int32_t v, int32_t call) {
    const tp_compiled *g = f->g;
    for (int k = 0; k < p->nout; k++)
        if (!same_place(&g->values[p->out[k]], &g->values[v])) return false;
    for (int k = 0; k < p->nin; k++) {
        int32_t w = p->in[k];
        if (w == v) continue;
        if (g->values[w].kind == TPI_VALUE_LEAF_GRAD || f->written[tpi_value_root(g, w)] >= call) return false;
        if (!same_place(&g->values[w], &g->values[v]) && tpi_numel_of(tpi_value_shape(&g->values[w])) != 1)
            return false;
    }
    return true;
}

/* The program becomes the call's epilogue. */
static bool move(finder *f, int32_t program, int32_t v, int32_t call) {
    tp_compiled *g = f->g;
    tpi_graph_step *c = &g->steps[call], *p = tpi_graph_memory_take(&g->room, sizeof *p);
    if (!p) return false;
    *p = g->steps[program];
    int nin = c->nin, nout = c->nout;
    int32_t *ids = tpi_graph_memory_take(&g->room, (size_t)(c->nin + p->nin + c->nout + p->nout) * sizeof *ids);
    if (!ids) return false;
    int32_t *in = ids, *out = ids + c->nin + p->nin;
    memcpy(in, c->in, (size_t)nin * sizeof *in);
    memcpy(out, c->out, (size_t)nout * sizeof *out);
    for (int k = 0; k < p->nin; k++)
        if (p->in[k] != v) in[nin++] = p->in[k];
    for (int k = 0; k < p->nout; k++) {
        out[nout++] = p->out[k];
        f->written[p->out[k]] = call;
    }
    c->in = in, c->out = out, c->nin = (int16_t)nin, c->nout = (int16_t)nout;
    c->epilogue = p, c->epilogue_of = v, c->epilogue_keeps = f->uses[v] > 1;
    g->steps[program].nout = 0; /* dropped below */
    return true;
}

static bool offer(finder *f, int32_t program) {
    const tpi_graph_step *p = &f->g->steps[program];
    int32_t best = -1, v = -1;
    for (int k = 0; k < p->nin; k++) {
        int32_t call = call_of(f, p->in[k]);
        if (call > best && may_move(f, p, p->in[k], call)) best = call, v = p->in[k];
    }
    return best < 0 || move(f, program, v, best);
}

static void mark_written(finder *f, int32_t i) {
    const tpi_graph_step *s = &f->g->steps[i];
    for (int k = 0; k < s->nout; k++)
        if (s->out[k] >= 0) f->written[tpi_value_root(f->g, s->out[k])] = i;
    for (int w = 0; w >= 0; w++) {
        int32_t root = tpi_step_writes(f->g, s, w);
        if (root < 0) return;
        f->written[root] = i;
    }
}

static void drop_moved(tp_compiled *g) {
    int32_t n = 0, forward = 0;
    for (int32_t i = 0; i < g->nsteps; i++) {
        if (i == g->nforward) forward = n;
        if (g->steps[i].kind == TPI_STEP_PROGRAM && g->steps[i].nout == 0) continue;
        g->steps[n++] = g->steps[i];
    }
    g->nforward = g->nforward == g->nsteps ? n : forward;
    g->nsteps = n;
}

bool tpi_graph_find_epilogues(tp_compiled *g) {
    finder f = {.g = g};
    size_t n = (size_t)g->nvalues + 1;
    f.written = tpi_graph_memory_take(&g->room, n * sizeof *f.written);
    f.uses = tpi_graph_memory_take(&g->room, n * sizeof *f.uses);
    if (!f.written || !f.uses) return false;
    memset(f.written, 0xff, n * sizeof *f.written);
    count_uses(&f);
    for (int32_t i = 0; i < g->nsteps; i++) {
        const tpi_graph_step *s = &g->steps[i];
        if (i == g->nforward || s->kind == TPI_STEP_CUSTOM) f.from = i; /* which may read and write anything */
        const tpi_device_ops *device = s->nout && s->out[0] >= 0 ? tpi_devices[g->values[s->out[0]].device.type] : NULL;
        if (s->kind == TPI_STEP_PROGRAM && !s->fold && device && device->gpu && !offer(&f, i)) return false;
        mark_written(&f, i);
    }
    drop_moved(g);
    return true;
}

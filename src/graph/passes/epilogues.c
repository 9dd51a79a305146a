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

int tpi_step_own_out(const tpi_graph_step *s) {
    return s->nout - (s->epilogue ? s->epilogue->nout : 0) - (s->prologue ? s->prologue->nout : 0);
}
int tpi_step_own_in(const tpi_graph_step *s) {
    int more = 0;
    for (int i = 0; s->epilogue && i < s->epilogue->nin; i++) more += s->epilogue->in[i] != s->epilogue_of;
    return s->nin - more - (s->prologue ? s->prologue->nin : 0);
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

static bool same_layout(const tpi_graph_value *a, const tpi_graph_value *b) {
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
        if (!same_layout(&g->values[p->out[k]], &g->values[v])) return false;
    for (int k = 0; k < p->nin; k++) {
        int32_t w = p->in[k];
        if (w == v) continue;
        if (g->values[w].kind == TPI_VALUE_LEAF_GRAD || f->written[tpi_value_root(g, w)] >= call) return false;
        if (!same_layout(&g->values[w], &g->values[v]) && tpi_numel_of(tpi_value_shape(&g->values[w])) != 1)
            return false;
    }
    return true;
}

/* The program becomes the call's epilogue. */
static bool move(finder *f, int32_t program, int32_t v, int32_t call) {
    tp_compiled *g = f->g;
    tpi_graph_step *c = &g->steps[call], *p = tpi_graph_memory_alloc(&g->memory, sizeof *p);
    if (!p) return false;
    *p = g->steps[program];
    int nin = c->nin, nout = c->nout;
    int32_t *ids = tpi_graph_memory_alloc(&g->memory, (size_t)(c->nin + p->nin + c->nout + p->nout) * sizeof *ids);
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
    c->in = in;
    c->out = out;
    c->nin = (int16_t)nin;
    c->nout = (int16_t)nout;
    c->epilogue = p;
    c->epilogue_of = v;
    c->epilogue_keeps = f->uses[v] > 1;
    g->steps[program].nout = 0; /* dropped below */
    return true;
}

static bool offer(finder *f, int32_t program) {
    const tpi_graph_step *p = &f->g->steps[program];
    int32_t best = -1, v = -1;
    for (int k = 0; k < p->nin; k++) {
        int32_t call = call_of(f, p->in[k]);
        if (call > best && may_move(f, p, p->in[k], call)) {
            best = call;
            v = p->in[k];
        }
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

/* ---- Prologues ---- */

/* The value that the call reads as the argument that may have a prologue; -1: none. */
static int32_t prologue_value(const tpi_graph_step *s) {
    const tpi_kernel_facts *facts = s->kind == TPI_STEP_CALL && !s->inplace ? tpi_kernel_facts_of(s->op) : NULL;
    int at = 0;
    for (int a = 0; facts && a < facts->prologue; a++)
        at += s->args[a].kind == TP_K_TENSORS ? (int)s->args[a].as.tensors.n : s->args[a].kind == TP_K_TENSOR;
    return facts && facts->prologue >= 0 && s->args[facts->prologue].kind == TP_K_TENSOR ? s->in[at] : -1;
}

int32_t tpi_graph_prologue_value(const tp_compiled *g, const tpi_graph_step *s) {
    int32_t v = prologue_value(s);
    if (v < 0 || g->values[v].kind != TPI_VALUE_MADE) return -1;
    const tpi_device_ops *device = tpi_devices[g->values[v].device.type];
    return device && device->gpu ? v : -1;
}

static bool makes(const tp_compiled *g, const tpi_graph_step *p, int32_t v) {
    for (int k = 0; k < p->nout; k++)
        if (p->out[k] == tpi_value_root(g, v)) return true;
    return false;
}

static bool reads_root(const tp_compiled *g, const tpi_graph_step *p, int32_t root) {
    for (int k = 0; k < p->nin; k++)
        if (tpi_value_root(g, p->in[k]) == root) return true;
    return false;
}

/* May step p run where step c is? Nothing between them reads or writes what it makes, or writes what it reads. */
static bool may_wait(const tp_compiled *g, int32_t p, int32_t c) {
    const tpi_graph_step *program = &g->steps[p];
    for (int32_t i = p + 1; i < c; i++) {
        const tpi_graph_step *s = &g->steps[i];
        if (s->kind == TPI_STEP_CUSTOM || i == g->nforward) return false;
        for (int k = 0; k < s->nin; k++)
            if (s->in[k] >= 0 && makes(g, program, s->in[k])) return false;
        for (int k = 0; k < s->nout; k++)
            if (s->out[k] >= 0 &&
                (makes(g, program, s->out[k]) || reads_root(g, program, tpi_value_root(g, s->out[k]))))
                return false;
        for (int w = 0, root; (root = tpi_step_writes(g, s, w)) >= 0; w++)
            if (makes(g, program, root) || reads_root(g, program, root)) return false;
    }
    return c != g->nforward;
}

static bool fits_before(const tp_compiled *g, const tpi_graph_step *p, int32_t v) {
    for (int k = 0; k < p->nout; k++)
        if (!same_layout(&g->values[p->out[k]], &g->values[v])) return false;
    for (int k = 0; k < p->nin; k++) {
        const tpi_graph_value *w = &g->values[p->in[k]];
        if (w->kind == TPI_VALUE_LEAF_GRAD || (!same_layout(w, &g->values[v]) && tpi_numel_of(tpi_value_shape(w)) != 1))
            return false;
    }
    return true;
}

static int32_t program_that_makes(const tp_compiled *g, int32_t v, int32_t before) {
    for (int32_t i = before - 1; i >= 0; i--) {
        const tpi_graph_step *s = &g->steps[i];
        for (int k = 0; k < s->nout; k++)
            if (s->out[k] == v) return s->kind == TPI_STEP_PROGRAM && !s->fold && s->nout ? i : -1;
    }
    return -1;
}

/* The program becomes the call's prologue: its inputs and results stand between the call's own and the epilogue's. */
static bool adopt_program(finder *f, int32_t program, int32_t v, int32_t call) {
    tp_compiled *g = f->g;
    tpi_graph_step *c = &g->steps[call], *p = tpi_graph_memory_alloc(&g->memory, sizeof *p);
    int own_in = tpi_step_own_in(c), own_out = tpi_step_own_out(c);
    bool *declined = tpi_graph_memory_alloc(&g->memory, sizeof *declined);
    if (!p || !declined) return false;
    *p = g->steps[program];
    int32_t *in = tpi_graph_memory_alloc(&g->memory, (size_t)(c->nin + p->nin) * sizeof *in),
            *out = tpi_graph_memory_alloc(&g->memory, (size_t)(c->nout + p->nout) * sizeof *out);
    if (!in || !out) return false;
    memcpy(in, c->in, (size_t)own_in * sizeof *in);
    memcpy(in + own_in, p->in, (size_t)p->nin * sizeof *in);
    memcpy(in + own_in + p->nin, c->in + own_in, (size_t)(c->nin - own_in) * sizeof *in);
    memcpy(out, c->out, (size_t)own_out * sizeof *out);
    memcpy(out + own_out, p->out, (size_t)p->nout * sizeof *out);
    memcpy(out + own_out + p->nout, c->out + own_out, (size_t)(c->nout - own_out) * sizeof *out);
    c->in = in;
    c->out = out;
    c->nin = (int16_t)(c->nin + p->nin);
    c->nout = (int16_t)(c->nout + p->nout);
    c->prologue = p;
    c->prologue_of = v;
    c->prologue_keeps = f->uses[v] > 1;
    c->prologue_declined = declined;
    g->steps[program].nout = 0;
    return true;
}

static bool find_prologues(finder *f) {
    tp_compiled *g = f->g;
    for (int32_t i = 0; i < g->nsteps; i++) {
        int32_t v = tpi_graph_prologue_value(g, &g->steps[i]);
        int32_t program = v < 0 ? -1 : program_that_makes(g, v, i);
        if (program < 0 || (program < g->nforward) != (i < g->nforward) || !fits_before(g, &g->steps[program], v) ||
            !may_wait(g, program, i))
            continue;
        if (!adopt_program(f, program, v, i)) return false;
    }
    return true;
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
    f.written = tpi_graph_memory_alloc(&g->memory, n * sizeof *f.written);
    f.uses = tpi_graph_memory_alloc(&g->memory, n * sizeof *f.uses);
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
    if (!find_prologues(&f)) return false;
    drop_moved(g);
    return true;
}

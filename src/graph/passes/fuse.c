/* Fusion: chains of maps over the same positions become block programs, and a fold of what such a chain makes takes its
 * elements from the program.
 *
 * Steps are read in order. A map joins a group that is open, or opens one; a group is written out, as one step, when
 * another step needs what it makes or writes what it reads. So a group's maps move behind steps that came between them,
 * never before what they read. Groups that are open at the same time do not depend on each other.
 *
 * On GPUs a fold that comes later moves up to the group that it reads: a bias's gradient is the sum of what two
 * products read first. */
#include <string.h>
#include "tensor/same_device.h"
#include "base/memory.h"
#include "device/launch.h"
#include "dispatch/kernel_facts.h"
#include "graph/graph.h"

enum { MAX_OPEN = 8, MAX_MEMBERS = TPI_PROGRAM_STEPS, MAX_INPUTS = TPI_MAX_OPERANDS };

typedef struct group {
    int n, ninputs, nnumbers, nparams, order; /* order: when its last member joined */
    int32_t members[MAX_MEMBERS];             /* steps, as they were */
    int32_t inputs[MAX_INPUTS];               /* values from elsewhere */
} group;

typedef struct fuser {
    tp_compiled *g;
    tpi_graph_step *old;
    int32_t nold;
    int32_t *uses;   /* per value: how often it is read or handed on, by anybody */
    int32_t *inside; /* per value: how often by members of the group that makes it */
    int8_t *maker;   /* per value: which open group makes it, -1: none */
    bool *there;     /* per value: a step has written it, or a view of it */
    bool *goes_into; /* per value: the native that reads it may run the maps that make it */
    bool *goes_on;   /* per value: the native that made it may run maps behind it */
    bool *moved;     /* per old step: a fold that is part of an earlier step now */
    int32_t now;     /* the old step that is read */
    group open[MAX_OPEN];
    int clock;
    bool ok;
} fuser;

extern const tpi_map_op *const tpi_copying_map; /* of the stanza that says `copies`; written by opgen */

/* What an element-wise step computes. */
static const tpi_map_op *map_of(const tpi_graph_step *s) { return s->kind == TPI_STEP_COPY ? tpi_copying_map : s->op; }

/* ---- In place, but nobody would notice ---- */

static bool has_views(const tp_compiled *g, int32_t v) {
    for (int32_t i = 0; i < g->nvalues; i++)
        if (g->values[i].kind == TPI_VALUE_VIEW && g->values[i].of == v) return true;
    return false;
}

/* Would a map of `v` and others that lie so make a result that lies like `o`? All are contiguous, or all lie in the
 * same dense way. */
static bool lies_alike(const tpi_graph_value *v, const tpi_graph_value *o) {
    tp_tensor like = tpi_value_as_tensor(o);
    return (tpi_value_is_contiguous(v) && tpi_value_is_contiguous(o)) ||
           (v->ndim == o->ndim && !memcmp(v->dims, o->dims, sizeof(int64_t) * 2 * o->ndim) && tpi_is_dense(&like));
}

bool tpi_map_step_settles(const tp_compiled *g, const tpi_graph_step *s, tp_dtype *dtype, tpi_ctype *compute) {
    tp_operand in[8] = {{0}};
    tp_tensor like[8];
    for (int i = 0; i < s->nin; i++) {
        if (s->in[i] >= 0) like[i] = tpi_value_as_tensor(&g->values[s->in[i]]);
        in[i] = s->in[i] < 0 ? tp_operand_scalar(s->numbers[i]) : tp_operand_tensor(&like[i]);
    }
    return tpi_map_settle(map_of(s), in, dtype, compute);
}

/* A map that writes what a step made, all of it, and that no view looks at, may as well make a new value. */
static bool may_make(const tp_compiled *g, const tpi_graph_step *s) {
    int32_t o = s->out[0];
    tp_dtype dtype;
    tpi_ctype compute;
    if (g->values[o].kind != TPI_VALUE_MADE || has_views(g, o)) return false;
    for (int i = 0; i < s->nin; i++)
        if (s->in[i] >= 0 && !lies_alike(&g->values[s->in[i]], &g->values[o])) return false;
    bool reads_itself = false;
    for (int i = 0; i < s->nin; i++) reads_itself |= s->in[i] == o;
    const tpi_map_op *op = s->op;
    if (!reads_itself || !tpi_map_step_settles(g, s, &dtype, &compute)) return false;
    tp_dtype result = op->result == TPI_RESULT_SAME ? dtype : TP_NO_DTYPE;
    return result == (tp_dtype)g->values[o].dtype;
}

static void rename_after(tp_compiled *g, int32_t step, int32_t from, int32_t to) {
    for (int32_t i = step; i < g->nsteps; i++) {
        tpi_graph_step *s = &g->steps[i];
        for (int k = 0; k < s->nin; k++)
            if (s->in[k] == from && i > step) s->in[k] = to;
        for (int k = 0; k < s->nout; k++)
            if (s->out[k] == from) s->out[k] = to;
    }
    for (int32_t i = 0; i < g->ntracked; i++)
        if (g->gradients[i] == from) g->gradients[i] = to;
    for (int32_t i = 0; step < g->nforward && i < g->noutputs; i++)
        if (g->outputs[i] == from) g->outputs[i] = to;
}

static bool make_instead(tp_compiled *g) {
    for (int32_t i = 0; i < g->nsteps; i++) {
        tpi_graph_step *s = &g->steps[i];
        if (s->kind != TPI_STEP_MAP || !s->inplace || !may_make(g, s)) continue;
        tpi_graph_value v = g->values[s->out[0]];
        int32_t made = tpi_graph_add_value(g, &v, tpi_value_shape(&v), tpi_value_strides(&v));
        if (made < 0) return false;
        g->values[made].tensor = tpi_retain(v.tensor);
        rename_after(g, i, s->out[0], made);
        g->steps[i].inplace = false;
    }
    return true;
}

/* ---- Programs ---- */

static const tpi_device_ops *device_of(const tp_compiled *g, int32_t v) {
    static const tpi_device_ops none;
    const tpi_device_ops *ops = tpi_devices[g->values[v].device.type];
    return ops ? ops : &none;
}

static bool leaves(const fuser *f, int32_t v) { return f->uses[v] > f->inside[v]; }

typedef struct builder {
    fuser *f;
    const group *of;
    tpi_program *p;
    int32_t *ids;  /* the graph's value of each of the program's */
    int32_t *last; /* per value of the program: the last step that reads it */
    bool taken[TPI_PROGRAM_BLOCKS];
} builder;

static int local(const builder *b, int32_t v) {
    for (int i = 0; i < b->p->nvalues; i++)
        if (b->ids[i] == v) return i;
    return -1;
}

static int new_value(builder *b, int32_t v, int operand) {
    int i = b->p->nvalues++;
    b->ids[i] = v;
    b->p->values[i] = (tpi_program_value){b->f->g->values[v].dtype, (int8_t)operand, -1};
    return i;
}

static int16_t claim_block(builder *b) {
    for (int16_t i = 0; i < TPI_PROGRAM_BLOCKS; i++) {
        if (b->taken[i]) continue;
        b->taken[i] = true;
        if (i >= b->p->nblocks) b->p->nblocks = i + 1;
        return i;
    }
    return -1; /* joins() keeps groups small enough */
}

static bool fill_step(builder *b, int i) {
    const tpi_graph_step *s = &b->f->old[b->of->members[i]];
    tpi_program_step *to = &b->p->steps[i];
    const tpi_map_op *op = map_of(s);
    tp_dtype dtype;
    tpi_ctype compute;
    if (!tpi_map_step_settles(b->f->g, s, &dtype, &compute)) return false;
    to->op = op;
    to->compute = (uint8_t)compute;
    to->type = (uint8_t)tpi_result_dtype(op->result, tpi_ctype_dtype(compute));
    for (int k = 0; k < op->nin; k++) {
        tpi_ctype reads = op->in_type[k] == TPI_CTYPES ? compute : (tpi_ctype)op->in_type[k];
        to->in[k] = (tpi_program_arg){.value = -1, .block = -1, .type = (uint8_t)tpi_ctype_dtype(reads)};
        if (s->in[k] >= 0) {
            to->in[k].value = (int16_t)local(b, s->in[k]);
            b->last[to->in[k].value] = i;
        } else
            to->in[k].number = tpi_param_of(s->numbers[k], reads);
    }
    tpi_fill_params(to->params, op->nparam, op->param_type, dtype, compute, s->params);
    to->out = (int16_t)local(b, s->out[0]);
    return true;
}

/* Inputs and numbers keep their blocks; what a step makes has one until its last reader. */
static void assign_blocks(builder *b) {
    tpi_program *p = b->p;
    for (int v = 0; v < p->nvalues; v++)
        if (p->values[v].operand >= p->nout) p->values[v].block = claim_block(b);
    for (int i = 0; i < p->nsteps; i++)
        for (int k = 0; k < p->steps[i].op->nin; k++)
            if (p->steps[i].in[k].value < 0) p->steps[i].in[k].block = claim_block(b);
    for (int i = 0; i < p->nsteps; i++) {
        p->values[p->steps[i].out].block = claim_block(b);
        for (int v = 0; v < p->nvalues; v++)
            if (p->values[v].operand < p->nout && p->values[v].block >= 0 && b->last[v] <= i && v != p->steps[i].out) {
                b->taken[p->values[v].block] = false;
                b->last[v] = MAX_MEMBERS;
            }
    }
}

/* The step as it was, in the graph's room. */
static tpi_graph_step *copied(tp_compiled *g, const tpi_graph_step *s) {
    tpi_graph_step *copy = tpi_graph_memory_alloc(&g->memory, sizeof *copy);
    if (copy) *copy = *s;
    return copy;
}

/* The group as a program; `fold` (may be NULL) takes the value `fold->in[0]` of it. */
static bool build(fuser *f, const group *of, const tpi_graph_step *fold) {
    tp_compiled *g = f->g;
    int32_t fed = fold ? fold->in[0] : -1;
    int nout = 0, total = of->n + of->ninputs,
        aside = fold && f->uses[fed] == f->inside[fed] + 1; /* nobody else reads what the fold takes */
    for (int i = 0; i < of->n; i++) nout += leaves(f, f->old[of->members[i]].out[0]);
    if (!nout) return true; /* nobody reads any of it */
    tpi_program *p = tpi_graph_memory_alloc(&g->memory, sizeof *p);
    tpi_graph_step *s =
        p ? tpi_graph_add_step(g, TPI_STEP_PROGRAM, of->ninputs, nout - aside + (fold ? fold->nout : 0)) : NULL;
    if (!s || (fold && !(s->fold = copied(g, fold)))) return false;
    p->nsteps = of->n;
    p->nout = nout;
    p->noperands = nout + of->ninputs;
    p->steps = tpi_graph_memory_alloc(&g->memory, (size_t)of->n * sizeof *p->steps);
    p->values = tpi_graph_memory_alloc(&g->memory, (size_t)total * sizeof *p->values);
    builder b = {.f = f,
                 .of = of,
                 .p = p,
                 .ids = tpi_graph_memory_alloc(&g->memory, (size_t)total * sizeof(int32_t)),
                 .last = tpi_graph_memory_alloc(&g->memory, (size_t)total * sizeof(int32_t))};
    s->parts = tpi_graph_memory_alloc(&g->memory, (size_t)of->n * sizeof *s->parts);
    if (!p->steps || !p->values || !b.ids || !b.last || !s->parts) return false;
    for (int i = 0; i < of->n; i++) s->parts[i] = f->old[of->members[i]];
    int o = 0;
    for (int i = 0; i < of->n; i++) {
        int32_t v = f->old[of->members[i]].out[0];
        if (v == fed) {
            s->fed = (int16_t)(aside ? nout - 1 : o);
            s->fed_value = v;
        }
        bool own = leaves(f, v) && !(v == fed && aside);
        if (own) s->out[o] = v;
        new_value(&b, v, own ? o++ : v == fed ? nout - 1 : -1); /* values without memory come last */
    }
    for (int i = 0; fold && i < fold->nout; i++) s->out[o + i] = fold->out[i];
    for (int i = 0; i < of->ninputs; i++) new_value(&b, s->in[i] = of->inputs[i], nout + i);
    for (int i = 0; i < of->n; i++)
        if (!fill_step(&b, i)) return false;
    assign_blocks(&b);
    s->program = p;
    return device_of(g, f->old[of->members[0]].out[0])->program_ready(p);
}

/* ---- Groups ---- */

static void keep(fuser *f, const tpi_graph_step *s) {
    tpi_graph_step *to = tpi_graph_add_step(f->g, (tpi_step_kind)s->kind, 0, 0);
    if (to)
        *to = *s;
    else
        f->ok = false;
}

static void close_group(fuser *f, group *of) {
    for (int i = 0; i < of->n; i++) f->maker[f->old[of->members[i]].out[0]] = -1;
    *of = (group){0};
}

/* A GPU's native may run it, behind its result or before its argument: see epilogues.c. */
static bool serves_native(const fuser *f, const group *of) {
    for (int i = 0; i < of->ninputs; i++)
        if (f->goes_on[of->inputs[i]]) return true;
    for (int i = 0; i < of->n; i++)
        if (f->goes_into[f->old[of->members[i]].out[0]]) return true;
    return false;
}

static void note_native(fuser *f, const tpi_graph_step *s) {
    if (s->kind != TPI_STEP_CALL || s->inplace) return;
    int result = tpi_epilogue_result(s->op);
    if (result >= 0 && result < s->nout && s->out[result] >= 0)
        f->goes_on[s->out[result]] = device_of(f->g, s->out[result])->gpu != NULL;
}

/* May a group that makes the fold's argument give it the elements? */
static bool may_feed(const fuser *f, const tpi_graph_step *s) {
    if (s->kind != TPI_STEP_FOLD || s->in[0] < 0) return false;
    const tpi_graph_value *v = &f->g->values[s->in[0]];
    return v->kind == TPI_VALUE_MADE && device_of(f->g, s->in[0])->fold_of_program &&
           (s->dtype == TP_NO_DTYPE || s->dtype == (tp_dtype)v->dtype);
}

static bool writes_made(const fuser *f, const tpi_graph_step *s, int k) {
    for (int w = 0; w >= 0; w++) {
        int32_t root = tpi_step_writes(f->g, s, w);
        if (root < 0) return false;
        if (f->maker[root] == k) return true;
    }
    return false;
}

/* On GPUs: the next fold of what group k makes, if it may move up to here: nothing before it writes what the group
 * makes. -1: none. Processors find what the group made in their caches when the fold's turn comes. */
static int32_t later_fold(const fuser *f, int k) {
    enum { FAR = 64 }; /* steps that are looked at */
    if (!device_of(f->g, f->old[f->open[k].members[0]].out[0])->gpu || serves_native(f, &f->open[k])) return -1;
    int32_t end = f->now < f->g->nforward ? f->g->nforward : f->nold;
    if (end > f->now + FAR) end = f->now + FAR;
    for (int32_t i = f->now; i < end; i++) {
        const tpi_graph_step *s = &f->old[i];
        if (!f->moved[i] && may_feed(f, s) && f->maker[s->in[0]] == k) return i;
        if (s->kind == TPI_STEP_CUSTOM || writes_made(f, s, k)) return -1;
    }
    return -1;
}

static void flush(fuser *f, int k) {
    group *of = &f->open[k];
    if (!of->n) return;
    int32_t fold = later_fold(f, k);
    if (fold >= 0) {
        f->moved[fold] = true;
        if (!build(f, of, &f->old[fold])) f->ok = false;
        close_group(f, of);
        return;
    }
    int32_t first = f->old[of->members[0]].out[0];
    if (of->n == 1 && leaves(f, first) && !serves_native(f, of))
        keep(f, &f->old[of->members[0]]);
    else if (!build(f, of, NULL))
        f->ok = false;
    close_group(f, of);
}

/* A fold of what an open group makes takes it from the group's program. */
static bool feeds(fuser *f, const tpi_graph_step *s) {
    int k = may_feed(f, s) ? f->maker[s->in[0]] : -1;
    if (k < 0) return false;
    if (!build(f, &f->open[k], s)) f->ok = false;
    close_group(f, &f->open[k]);
    return true;
}

static void flush_all(fuser *f) {
    for (int k = 0; k < MAX_OPEN; k++) flush(f, k);
}

static bool reads(const fuser *f, const group *of, int32_t root) {
    for (int i = 0; i < of->ninputs; i++)
        if (tpi_value_root(f->g, of->inputs[i]) == root) return true;
    return false;
}

/* Everything open that must be done before a step that stays as it is. */
static void flush_for(fuser *f, const tpi_graph_step *s) {
    for (int i = 0; i < s->nin; i++) {
        int32_t root = s->in[i] < 0 ? -1 : tpi_value_root(f->g, s->in[i]);
        if (root >= 0 && f->maker[root] >= 0) flush(f, f->maker[root]);
    }
    for (int w = 0; w >= 0; w++) {
        int32_t root = tpi_step_writes(f->g, s, w);
        if (root < 0) return;
        for (int k = 0; k < MAX_OPEN; k++)
            if (reads(f, &f->open[k], root) || f->maker[root] == k) flush(f, k);
    }
}

static bool same_device(const tpi_graph_value *a, const tpi_graph_value *b) {
    return tpi_same_device(a->device, b->device);
}

/* A copy that makes a value, from one of the dtypes that operators compute with. */
static bool is_cast(const fuser *f, const tpi_graph_step *s) {
    const tpi_graph_value *from = &f->g->values[s->in[0]], *to = &f->g->values[s->out[0]];
    return !f->there[s->out[0]] && from->dtype != TP_BOOL && tpi_dtype_group[from->dtype] & TPI_CAT_ALL &&
           tpi_dtype_group[to->dtype] & TPI_CAT_ALL;
}

static bool fusable(const fuser *f, const tpi_graph_step *s) {
    const tpi_graph_value *out = s->nout == 1 ? &f->g->values[s->out[0]] : NULL;
    if ((s->kind != TPI_STEP_MAP || s->inplace) && (s->kind != TPI_STEP_COPY || !is_cast(f, s))) return false;
    if (out->kind != TPI_VALUE_MADE || s->nin > TPI_PROGRAM_IN || !device_of(f->g, s->out[0])->program) return false;
    tp_tensor like = tpi_value_as_tensor(out);
    if (out->wrapped || !tpi_is_dense(&like)) return false;
    for (int i = 0; i < s->nin; i++)
        if (s->in[i] >= 0 && !same_device(out, &f->g->values[s->in[i]])) return false;
    return true;
}

static bool same_layout(const tpi_graph_value *a, const tpi_graph_value *b) {
    return a->ndim == b->ndim && same_device(a, b) && !memcmp(a->dims, b->dims, sizeof(int64_t) * 2 * a->ndim);
}

static bool is_input(const group *of, int32_t v) {
    for (int i = 0; i < of->ninputs; i++)
        if (of->inputs[i] == v) return true;
    return false;
}

/* Values of the group that others may read, if `s` (may be NULL) joined it. */
static int count_leaving(const fuser *f, const group *of, const tpi_graph_step *s) {
    int n = 0;
    for (int i = 0; i < of->n; i++) {
        int32_t v = f->old[of->members[i]].out[0];
        int more = 0;
        for (int j = 0; s && j < s->nin; j++) more += s->in[j] == v;
        n += f->uses[v] > f->inside[v] + more;
    }
    return n;
}

static bool small_enough(int members, int inputs, int numbers, int params, int outs) {
    return members <= MAX_MEMBERS && inputs <= MAX_INPUTS && inputs + outs <= TPI_MAX_OPERANDS &&
           inputs + numbers + members + 1 <= TPI_PROGRAM_BLOCKS && numbers + params <= TPI_PROGRAM_NUMBERS;
}

static bool fits(const fuser *f, const group *of, const tpi_graph_step *s, int k) {
    int inputs = of->ninputs, numbers = of->nnumbers;
    for (int i = 0; i < s->nin; i++) {
        if (s->in[i] < 0)
            numbers++;
        else if (f->maker[s->in[i]] != k && !is_input(of, s->in[i]))
            inputs++;
    }
    return small_enough(of->n + 1, inputs, numbers, of->nparams + map_of(s)->nparam, count_leaving(f, of, s) + 1);
}

/* Two groups over the same positions, both of which the step reads, become one. The step's own reads leave room for its
 * result. */
static bool merge(fuser *f, int into, int from, const tpi_graph_step *s) {
    group *a = &f->open[into], *b = &f->open[from],
          both = {.nnumbers = a->nnumbers + b->nnumbers, .nparams = a->nparams + b->nparams, .order = a->order};
    if (!same_layout(&f->g->values[f->old[a->members[0]].out[0]], &f->g->values[f->old[b->members[0]].out[0]]))
        return false;
    int inputs = a->ninputs;
    for (int i = 0; i < b->ninputs; i++) inputs += !is_input(a, b->inputs[i]);
    if (!small_enough(a->n + b->n + 1, inputs + s->nin, both.nnumbers + s->nin, both.nparams + map_of(s)->nparam,
                      count_leaving(f, a, s) + count_leaving(f, b, s) + 1))
        return false;
    for (int i = 0, j = 0; i < a->n || j < b->n;) /* in the order of the program */
        both.members[both.n++] =
            j == b->n || (i < a->n && a->members[i] < b->members[j]) ? a->members[i++] : b->members[j++];
    memcpy(both.inputs, a->inputs, sizeof both.inputs);
    both.ninputs = a->ninputs;
    for (int i = 0; i < b->ninputs; i++)
        if (!is_input(&both, b->inputs[i])) both.inputs[both.ninputs++] = b->inputs[i];
    for (int i = 0; i < b->n; i++) f->maker[f->old[b->members[i]].out[0]] = (int8_t)into;
    *a = both;
    *b = (group){0};
    return true;
}

/* Does the step fit into group k? It may read the group's values as they are, not through views. */
static bool joins(const fuser *f, int k, const tpi_graph_step *s, bool *near) {
    const group *of = &f->open[k];
    if (!of->n || !same_layout(&f->g->values[f->old[of->members[0]].out[0]], &f->g->values[s->out[0]])) return false;
    *near = false;
    for (int i = 0; i < s->nin; i++) {
        if (s->in[i] < 0) continue;
        int32_t root = tpi_value_root(f->g, s->in[i]);
        if (f->maker[root] == k && root != s->in[i]) return false;
        *near |= f->maker[root] == k || is_input(of, s->in[i]);
    }
    return fits(f, of, s, k);
}

static int find_group(fuser *f, const tpi_graph_step *s) {
    int best = -1, empty = -1, oldest = 0;
    bool near = false;
    for (int k = 0; k < MAX_OPEN; k++) {
        if (!f->open[k].n)
            empty = k;
        else if (joins(f, k, s, &near) && near && (best < 0 || f->open[k].order > f->open[best].order))
            best = k;
        if (f->open[k].order < f->open[oldest].order) oldest = k;
    }
    if (best >= 0) return best;
    if (empty >= 0) return empty;
    flush(f, oldest);
    return oldest;
}

static void join(fuser *f, int32_t step) {
    const tpi_graph_step *s = &f->old[step];
    int k = find_group(f, s);
    for (int i = 0; i < s->nin; i++) { /* what another group makes must be there first */
        int32_t root = s->in[i] < 0 ? -1 : tpi_value_root(f->g, s->in[i]);
        int other = root < 0 ? -1 : f->maker[root];
        if (other < 0 || other == k || (root == s->in[i] && f->open[k].n && merge(f, k, other, s))) continue;
        flush(f, other);
    }
    group *of = &f->open[k];
    for (int i = 0; i < s->nin; i++) {
        int32_t v = s->in[i];
        if (v < 0)
            of->nnumbers++;
        else if (f->maker[v] == k)
            f->inside[v]++;
        else if (!is_input(of, v))
            of->inputs[of->ninputs++] = v;
    }
    of->members[of->n++] = step;
    of->nparams += map_of(s)->nparam;
    of->order = ++f->clock;
    f->maker[s->out[0]] = (int8_t)k;
}

static void mark_there(fuser *f, const tpi_graph_step *s) {
    for (int k = 0; k < s->nout; k++)
        if (s->out[k] >= 0) f->there[tpi_value_root(f->g, s->out[k])] = true;
}

static void count_uses(fuser *f) {
    const tp_compiled *g = f->g;
    for (int32_t i = 0; i < f->nold; i++)
        for (int k = 0; k < f->old[i].nin; k++) {
            int32_t v = f->old[i].in[k];
            if (v >= 0 && g->values[v].kind == TPI_VALUE_VIEW) f->uses[g->values[v].of]++;
            if (v >= 0) f->uses[v]++;
        }
    for (int32_t i = 0; i < g->noutputs; i++) f->uses[tpi_value_root(g, g->outputs[i])]++;
    for (int32_t i = 0; i < g->ntracked; i++)
        if (g->gradients[i] >= 0) f->uses[tpi_value_root(g, g->gradients[i])]++;
    for (int32_t i = 0; i < f->nold; i++) {
        const tpi_graph_step *s = &f->old[i];
        for (int w = 0; w >= 0; w++) {
            int32_t root = tpi_step_writes(g, s, w);
            if (root < 0) break;
            f->uses[root] += s->kind != TPI_STEP_COPY || f->there[root]; /* what a copy makes, it does not use */
        }
        mark_there(f, s);
    }
    memset(f->there, 0, (size_t)g->nvalues);
}

bool tpi_graph_fuse(tp_compiled *g) {
    tpi_graph_drop_casts(g);
    if (!make_instead(g)) return false;
    fuser *f = tpi_graph_memory_alloc(&g->memory, sizeof *f);
    if (!f) return false;
    size_t n = (size_t)g->nvalues + 1;
    *f = (fuser){.g = g, .old = g->steps, .nold = g->nsteps, .ok = true};
    f->uses = tpi_graph_memory_alloc(&g->memory, n * sizeof *f->uses);
    f->inside = tpi_graph_memory_alloc(&g->memory, n * sizeof *f->inside);
    f->maker = tpi_graph_memory_alloc(&g->memory, n);
    f->there = tpi_graph_memory_alloc(&g->memory, n);
    f->goes_on = tpi_graph_memory_alloc(&g->memory, n);
    f->goes_into = tpi_graph_memory_alloc(&g->memory, n);
    f->moved = tpi_graph_memory_alloc(&g->memory, (size_t)f->nold + 1);
    if (!f->moved || !f->uses || !f->inside || !f->maker || !f->there || !f->goes_on || !f->goes_into) return false;
    for (int32_t i = 0; i < f->nold; i++) {
        int32_t v = tpi_graph_prologue_value(g, &f->old[i]);
        if (v >= 0) f->goes_into[v] = true;
    }
    memset(f->maker, 0xff, n);
    count_uses(f);
    int32_t half = g->nforward;
    g->steps = NULL;
    g->nsteps = g->steps_capacity = 0;
    for (int32_t i = 0; i < f->nold && f->ok; i++) {
        if (i == half) {
            flush_all(f);
            g->nforward = g->nsteps;
        }
        f->now = i;
        if (f->moved[i])
            ;
        else if (fusable(f, &f->old[i]))
            join(f, i);
        else if (feeds(f, &f->old[i]))
            ;
        else if (f->old[i].kind == TPI_STEP_CUSTOM) { /* it may read and write anything */
            flush_all(f);
            keep(f, &f->old[i]);
        } else {
            flush_for(f, &f->old[i]);
            keep(f, &f->old[i]);
        }
        mark_there(f, &f->old[i]);
        note_native(f, &f->old[i]);
    }
    flush_all(f);
    if (half == f->nold) g->nforward = g->nsteps;
    tpi_mfree(f->old);
    return f->ok;
}

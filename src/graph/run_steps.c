/* Running a graph. Each value has a slot with its tensor, which is released after the last step that reads it. Where
 * gradients flow, the run is one node of the tape, which keeps what the backward reads; its backward runs the second
 * half of the steps.
 *
 * Steps run without a tape and without casts; what they write in place gets a new version, as when the program ran. */
#include <string.h>
#include "autograd/glue.h"
#include "dispatch/kernel_facts.h"
#include "dispatch/profile.h"
#include "autograd/tape.h"
#include "base/memory.h"
#include "base/threads.h"
#include "device/epilogue.h"
#include "device/launch.h"
#include "graph/graph.h"
#include "tensor/check_arguments.h"

typedef struct graph_run {
    const tp_compiled *g;
    tp_tensor **slots; /* per value: owned, NULL while it is not there */
    uint8_t casts;     /* TPI_AUTOCASTS where that is on: the casts are steps of the graph, so only functions of the
                          program's are run with it */
    tpi_node *node;    /* whose backward runs, and where it puts gradients; NULL: the forward does */
    tp_tensor **grad_inputs;
} graph_run;

/* ---- Values ---- */

static bool run_start(graph_run *r, const tp_compiled *g) {
    r->g = g;
    r->casts = tpi_detours & TPI_AUTOCASTS;
    r->slots = tpi_new0((size_t)g->nvalues * sizeof *r->slots + 1);
    if (!r->slots) return false;
    for (int32_t i = 0; i < g->nvalues; i++)
        if (g->values[i].kind == TPI_VALUE_OUTSIDE || g->values[i].kind == TPI_VALUE_CONSTANT)
            r->slots[i] = tpi_retain(g->values[i].tensor);
    return true;
}

static void run_end(graph_run *r) {
    for (int32_t i = 0; i < r->g->nvalues; i++)
        if (r->slots[i]) tpi_release(r->slots[i]);
    tpi_delete(r->slots, (size_t)r->g->nvalues * sizeof *r->slots + 1);
}

/* Of tensors of one shape. Strides of dims of one element, and of no elements at all, are nobody's concern. */
static bool same_strides(const tpi_graph_value *v, const tp_tensor *t) {
    for (int d = 0; t->numel && d < t->ndim; d++)
        if (t->shape[d] != 1 && t->strides[d] != v->dims[v->ndim + d]) return false;
    return true;
}

static tp_tensor *view(tp_tensor *root, const tpi_graph_value *v) {
    tpi_geometry geometry = {.ndim = v->ndim, .dtype = (tp_dtype)v->dtype};
    memcpy(geometry.shape, v->dims, v->ndim * sizeof(int64_t));
    memcpy(geometry.strides, v->dims + v->ndim, v->ndim * sizeof(int64_t));
    geometry.offset = (root->data - root->storage->data + v->offset) / (int64_t)tpi_dtype_bytes[v->dtype];
    return tpi_view_of(root, &geometry);
}

static tp_tensor *leaf_grad(graph_run *r, int32_t leaf) {
    tp_tensor *grad = tp_grad(r->slots[leaf]);
    return grad ? grad : tpi_fail(TP_ERR_RUNTIME, "a step of the graph reads the gradient of a tensor that has none");
}

/* The value's tensor, borrowed. Only a graph from a file may read what no step has made. */
static tp_tensor *value(graph_run *r, int32_t i) {
    tp_tensor *there = __atomic_load_n(&r->slots[i], __ATOMIC_ACQUIRE);
    if (there) return there;
    const tpi_graph_value *v = &r->g->values[i];
    if (v->kind == TPI_VALUE_LEAF_GRAD) return leaf_grad(r, v->of);
    tp_tensor *root = v->kind != TPI_VALUE_VIEW                         ? NULL
                      : r->g->values[v->of].kind == TPI_VALUE_LEAF_GRAD ? leaf_grad(r, r->g->values[v->of].of)
                                                                        : r->slots[v->of];
    if (!root) return tpi_fail(TP_ERR_RUNTIME, "a step of the graph reads a value that no step has made");
    const tpi_graph_value *of = &r->g->values[v->of];
    if (of->kind != TPI_VALUE_LEAF_GRAD && (root->ndim != of->ndim || !same_strides(of, root)))
        return tpi_fail(TP_ERR_RUNTIME,
                        "a tensor of shape %s that the graph looks at a part of is not laid out as it was when it was "
                        "captured; make it contiguous, or capture again",
                        tpi_shape_text(tpi_shape(root)));
    tp_tensor *made = view(root, v), *others = NULL;
    if (!made || __atomic_compare_exchange_n(&r->slots[i], &others, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    tpi_release(made); /* a step beside this one was first */
    return others;
}

static tp_tensor *make_empty(const tpi_graph_value *v) {
    return tpi_empty_strided(tpi_value_shape(v), tpi_value_strides(v), (tp_dtype)v->dtype, v->device);
}

/* What a step writes: it, or what it is a view of, may be new memory. */
static tp_tensor *target(graph_run *r, int32_t i) {
    int32_t root = tpi_value_root(r->g, i);
    if (!r->slots[root] && r->g->values[root].kind == TPI_VALUE_MADE) r->slots[root] = make_empty(&r->g->values[root]);
    return value(r, i);
}

/* A result that takes over the memory of an operand that ends with the step, if nobody else has it: in its slot,
 * borrowed. NULL, and no error: it does not. */
static tp_tensor *reuse_memory(graph_run *r, const tpi_graph_step *s, int which) {
    tp_tensor *t = s->over && s->over[which] ? r->slots[s->over[which] - 1] : NULL;
    if (!t || r->slots[s->out[which]]) return NULL;
    bool alone = atomic_load_explicit(&t->refs, memory_order_acquire) == 1 &&
                 atomic_load_explicit(&t->storage->refs, memory_order_acquire) == 1 && !t->storage->foreign && !t->base;
    return alone && !t->flags && !t->requires_grad ? r->slots[s->out[which]] = tpi_retain(t) : NULL;
}

/* A result in its slot; what does not look as it did is no result of this graph. */
static bool store_result(graph_run *r, int32_t i, tp_tensor *t) {
    if (!t) return false;
    if (r->slots[i]) tpi_release(r->slots[i]);
    r->slots[i] = t;
    const tpi_graph_value *v = &r->g->values[i];
    if (t->dtype == v->dtype && t->ndim == v->ndim && !memcmp(t->shape, v->dims, v->ndim * sizeof(int64_t)))
        return true;
    return tpi_refuse(TP_ERR_RUNTIME, "a step of the graph gave shape %s, expected %s", tpi_shape_text(tpi_shape(t)),
                      tpi_shape_text(tpi_value_shape(v)));
}

/* ---- Steps ---- */

static bool run_map(graph_run *r, const tpi_graph_step *s) {
    tp_operand in[8];
    for (int i = 0; i < s->nin; i++) {
        in[i] = s->in[i] >= 0 ? tp_operand_tensor(value(r, s->in[i])) : tp_operand_scalar(s->numbers[i]);
        if (s->in[i] >= 0 && !in[i].tensor) return false;
    }
    tp_tensor *out = s->inplace ? target(r, s->out[0]) : reuse_memory(r, s, 0);
    if (s->inplace && !out) return false;
    tp_tensor *result = tpi_run_map(s->op, out, in, s->params);
    if (!out) return store_result(r, s->out[0], result);
    if (!result) return false;
    tpi_release(result);
    if (s->inplace) tpi_touch(out);
    return true;
}

static bool run_reduction(graph_run *r, const tpi_graph_step *s) {
    tp_tensor *outs[4] = {NULL}, *x = value(r, s->in[0]);
    if (!x) return false;
    bool ok = s->kind == TPI_STEP_FOLD ? tpi_run_fold(s->op, outs, x, s->dims, s->keepdim, s->dtype, s->params)
                                       : tpi_run_scan(s->op, outs, x, s->dims.v[0], s->dtype, s->params);
    bool ran = ok;
    for (int i = 0; i < s->nout && ran; i++) ok = store_result(r, s->out[i], outs[i]) && ok;
    return ok;
}

static bool run_write(graph_run *r, const tpi_graph_step *s) {
    tp_tensor *out = target(r, s->out[0]);
    if (!out) return false;
    tp_tensor *from = s->kind == TPI_STEP_COPY ? value(r, s->in[0]) : NULL;
    if (s->kind == TPI_STEP_FILL ? !tpi_fill_data(out, s->numbers[0]) : !from || !tpi_copy_data(out, from))
        return false;
    tpi_touch(out);
    return true;
}

/* What an operator gave, a list or as many tensors as it has results; a graph from a file may expect something else. */
static bool store_results(graph_run *r, const tpi_graph_step *s, tp_value *results) {
    bool list = results[0].kind == TP_K_TENSORS, ok = true;
    tp_tensors given = list ? results[0].as.tensors : (tp_tensors){0};
    int64_t n = list ? given.n : ((const tp_operator *)s->op)->nresults, own = tpi_step_own_out(s);
    for (int64_t i = 0; i < n; i++) {
        tp_tensor *t = list ? tpi_retain(given.v[i]) : results[i].kind == TP_K_TENSOR ? results[i].as.tensor : NULL;
        if (i < own)
            ok = t && store_result(r, s->out[i], t) && ok;
        else if (t)
            tpi_release(t);
    }
    if (list) tpi_release_list(given);
    if (ok && n >= own) return true;
    return tp_ok() ? tpi_refuse(TP_ERR_RUNTIME, "a step of the graph gave other results than expected") : false;
}

/* What an epilogue's program works on, before the native has made its result: NULL in its place. */
static bool fill_epilogue(graph_run *r, const tpi_graph_step *s, tpi_neighbour *e) {
    const tpi_graph_step *p = s->epilogue;
    int n = 0;
    for (int i = 0; i < p->nout; i++)
        if (!(e->operands[n++] = target(r, p->out[i]))) return false;
    for (int i = 0; i < p->nin; i++, n++) {
        e->operands[n] = NULL;
        if (p->in[i] == s->epilogue_of)
            e->fed = n;
        else if (!(e->operands[n] = value(r, p->in[i])))
            return false;
    }
    e->program = p->program;
    e->keeps = s->epilogue_keeps;
    return true;
}

static bool run_program(graph_run *r, const tpi_graph_step *s);
static bool run_watched(graph_run *r, const tpi_graph_step *program) { /* a program that no native took */
    int64_t event = __builtin_expect(tpi_detours & TPI_WATCHED, 0) ? tpi_watch_step(r->g, program) : -1;
    bool ok = run_program(r, program);
    if (event >= 0) tpi_watch_end(event);
    return ok;
}
static bool run_native(graph_run *r, const tpi_graph_step *s, tpi_neighbours *neighbours);

/* The call with what its kernel may run behind it, which otherwise runs by itself. prologue: what it may run before,
 * or NULL. */
static bool run_with_epilogue(graph_run *r, const tpi_graph_step *s, tpi_neighbour *prologue) {
    if (!s->epilogue) return run_native(r, s, &(tpi_neighbours){.prologue = prologue});
    const tpi_graph_value *v = &r->g->values[s->epilogue_of];
    tp_tensor like = {.alive = TPI_ALIVE,
                      .dtype = v->dtype,
                      .ndim = v->ndim,
                      .numel = tpi_numel_of(tpi_value_shape(v)),
                      .shape = v->dims,
                      .strides = v->dims + v->ndim};
    tpi_neighbour epilogue = {.like = &like};
    if (!fill_epilogue(r, s, &epilogue)) return false;
    bool ok = run_native(r, s, &(tpi_neighbours){prologue, &epilogue});
    bool missing = prologue && !prologue->taken; /* then all of it was nonsense */
    return ok && (missing || epilogue.taken || run_watched(r, s->epilogue));
}

static bool fill_prologue(graph_run *r, const tpi_graph_step *s, tpi_neighbour *e) {
    const tpi_graph_step *p = s->prologue;
    int n = 0;
    for (int i = 0; i < p->nout; i++, n++) {
        if (!(e->operands[n] = target(r, p->out[i]))) return false;
        if (p->out[i] == s->prologue_of) e->fed = n;
    }
    for (int i = 0; i < p->nin; i++)
        if (!(e->operands[n++] = value(r, p->in[i]))) return false;
    e->program = p->program;
    e->like = e->operands[e->fed];
    e->keeps = s->prologue_keeps;
    return true;
}

/* A call whose kernel may run the programs before and behind it. One that does not take what comes before is called
 * again, when that has run. */
static bool run_call(graph_run *r, const tpi_graph_step *s) {
    if (!s->prologue) return run_with_epilogue(r, s, NULL);
    if (!__atomic_load_n(s->prologue_declined, __ATOMIC_RELAXED)) {
        tpi_neighbour prologue = {.before = true};
        if (!fill_prologue(r, s, &prologue)) return false;
        bool ok = run_with_epilogue(r, s, &prologue);
        if (!ok || prologue.taken) return ok;
        __atomic_store_n(s->prologue_declined, true, __ATOMIC_RELAXED);
    }
    return run_watched(r, s->prologue) && run_with_epilogue(r, s, NULL);
}

static bool invoke(const tpi_graph_step *s, const tp_value *args, tp_value *results, tpi_neighbours *neighbours) {
    const tp_operator *op = s->op;
    if (s->inplace) return op->invoke_inplace(args, results);
    if (!neighbours->prologue && !neighbours->epilogue) return op->invoke(args, results);
    return tpi_kernel_facts_of(op)->invoke(args, results, neighbours);
}

static bool run_native(graph_run *r, const tpi_graph_step *s, tpi_neighbours *neighbours) {
    enum { MAX_ARGS = 32, FEW = 32 };
    const tp_operator *op = s->op;
    tp_value args[MAX_ARGS], results[8] = {{0}};
    tp_tensor *few[FEW], **list = s->nin <= FEW ? few : tpi_malloc((size_t)s->nin * sizeof *list);
    if (!list) return false;
    bool ok = true;
    int own = tpi_step_own_in(s);
    for (int i = 0; i < own && ok; i++) ok = !(list[i] = NULL) && (s->in[i] < 0 || (list[i] = value(r, s->in[i])));
    memcpy(args, s->args, (size_t)op->nargs * sizeof *args);
    for (int64_t i = 0, at = 0; i < op->nargs; i++) {
        if (args[i].kind == TP_K_TENSOR)
            args[i].as.tensor = list[at++];
        else if (args[i].kind == TP_K_TENSORS) {
            args[i].as.tensors.v = list + at;
            at += args[i].as.tensors.n;
        }
    }
    ok = ok && invoke(s, args, results, neighbours);
    if (list != few) tpi_mfree(list);
    if (!ok) return false;
    if (s->inplace) {
        tpi_release(results[0].as.tensor);
        return true;
    }
    return store_results(r, s, results);
}

static bool run_fold_of_program(graph_run *r, const tpi_graph_step *s, tpi_plan *plan, tp_tensor *x, bool has_memory) {
    const tpi_graph_step *fold = s->fold;
    tp_tensor *outs[4] = {NULL};
    tpi_fold_prologue feed = {s->program, plan, s->fed, has_memory};
    bool ok = tpi_run_fold_of_program(fold->op, outs, x, fold->dims, fold->keepdim, fold->dtype, fold->params, &feed);
    bool ran = ok;
    for (int i = 0; i < fold->nout && ran; i++) ok = store_result(r, fold->out[i], outs[i]) && ok;
    return ok;
}

static bool run_program(graph_run *r, const tpi_graph_step *s) {
    tp_tensor *operands[TPI_MAX_OPERANDS];
    int n = 0, nout = s->program->nout, own = s->nout - (s->fold ? s->fold->nout : 0);
    const tpi_graph_value *v = &r->g->values[s->fold ? s->fed_value : s->out[0]];
    tp_storage nowhere = {.device = v->device};
    tp_tensor aside = {.alive = TPI_ALIVE,
                       .dtype = v->dtype,
                       .ndim = v->ndim,
                       .numel = tpi_numel_of(tpi_value_shape(v)),
                       .shape = v->dims,
                       .strides = v->dims + v->ndim,
                       .storage = &nowhere,
                       .data = (char *)TPI_PROGRAM_BASE};
    for (int i = 0; i < own; i++)
        if (!(operands[n++] = reuse_memory(r, s, i)) && !(operands[n - 1] = target(r, s->out[i]))) return false;
    if (own < nout) operands[n++] = &aside;
    for (int i = 0; i < s->nin; i++)
        if (!(operands[n++] = value(r, s->in[i]))) return false;
    tpi_plan plan;
    if (!tpi_plan_make(&plan, tpi_value_shape(v), nout, n, operands)) return false;
    if (s->fold) return run_fold_of_program(r, s, &plan, operands[s->fed], own == nout);
    const tpi_device_ops *device = tpi_device_ops_of(v->device);
    return device && device->program(v->device, s->program, &plan);
}

static bool run_custom(graph_run *r, const tpi_graph_step *s) {
    const tpi_custom *what = &s->custom->what;
    tp_tensor **list = tpi_new0((size_t)(s->nin + s->nout + 1) * sizeof *list), **out = list ? list + s->nin : NULL;
    bool ok = list;
    for (int i = 0; i < s->nin && ok; i++) ok = (list[i] = value(r, s->in[i])) != NULL;
    tpi_detours |= r->casts;
    ok = ok && what->run(what->context, (tp_tensors){list, s->nin}, out);
    tpi_detours &= (uint8_t)~r->casts;
    bool ran = ok;
    for (int i = 0; i < s->nout && ran; i++) ok = store_result(r, s->out[i], out[i]) && ok;
    if (list) tpi_delete(list, (size_t)(s->nin + s->nout + 1) * sizeof *list);
    return ok;
}

/* A gradient that ends with this step becomes the leaf's as it is, if it can; one that is read again must not, for the
 * leaf's may be written. */
static bool run_accumulate(graph_run *r, const tpi_graph_step *s) {
    tp_tensor *g = value(r, s->in[1]);
    if (!g) return false;
    bool ends = false;
    for (int32_t d = 0; d < s->ndead; d++) ends |= s->dead[d] == s->in[1];
    if (!ends) tpi_retain(g);
    bool ok = tpi_accumulate(r->slots[s->in[0]], g);
    if (!ends) tpi_release(g);
    return ok;
}

/* A part of a gradient goes to the tensor it is for, or is added to the node's own sum where somebody looks at that. */
static bool run_hand_on(graph_run *r, const tpi_graph_step *s) {
    tp_tensor *part = tpi_retain(value(r, s->in[0])), **sum = &r->grad_inputs[s->tracked];
    if (!part) return false;
    bool wanted = tpi_node_needs(r->node, s->tracked);
    for (int32_t d = 0; d < s->ndead; d++)
        if (s->dead[d] == s->in[0]) tpi_drop(&r->slots[s->in[0]]); /* the engine may write what nobody else has */
    if (wanted && tpi_run_accepts_parts(r->node)) return tpi_run_add_part(r->node, s->tracked, part);
    tp_tensor *both = !wanted ? NULL : *sum ? tpi_add_grads(*sum, part) : tpi_retain(part);
    tpi_release(part);
    tpi_release(*sum);
    *sum = both;
    return both || !wanted;
}

static bool run_forget(graph_run *r, const tpi_graph_step *s) { return tp_zero_grad(r->slots[s->in[0]]); }

static bool run_step(void *context, int32_t i) {
    static bool (*const ways[])(graph_run *, const tpi_graph_step *) = {
        [TPI_STEP_MAP] = run_map,         [TPI_STEP_FOLD] = run_reduction, [TPI_STEP_SCAN] = run_reduction,
        [TPI_STEP_COPY] = run_write,      [TPI_STEP_FILL] = run_write,     [TPI_STEP_CALL] = run_call,
        [TPI_STEP_PROGRAM] = run_program, [TPI_STEP_CUSTOM] = run_custom,  [TPI_STEP_ACCUMULATE] = run_accumulate,
        [TPI_STEP_FORGET] = run_forget,   [TPI_STEP_HAND_ON] = run_hand_on};
    graph_run *r = context;
    const tpi_graph_step *s = &r->g->steps[i];
    int64_t event = __builtin_expect(tpi_detours & TPI_WATCHED, 0) ? tpi_watch_step(r->g, s) : -1;
    bool ok = ways[s->kind](r, s);
    if (event >= 0) tpi_watch_end(event);
    return ok;
}

static void end_value(void *context, int32_t v) {
    graph_run *r = context;
    if (r->slots[v]) tpi_release(r->slots[v]);
    r->slots[v] = NULL;
}

/* On how many threads may steps run side by side? One where somebody watches what this thread calls, and where an input
 * is a tensor that a step writes. */
static int threads_for_steps(const graph_run *r) {
    const tp_compiled *g = r->g;
    int threads = g->branches && !tpi_detours ? tpi_step_threads() : 1;
    for (int32_t w = 0; w < g->nwritten && threads > 1; w++)
        for (int32_t i = 0; i < g->ninputs; i++) {
            const tp_tensor *input = r->slots[g->inputs[i]];
            if (input && input->storage == r->slots[g->written[w]]->storage) return 1;
        }
    return threads;
}

/* The steps from i on that are started as one on a GPU, if there are any: declined where they are to be run one by one,
 * as when somebody watches them. */
static tpi_served run_segment(graph_run *r, tpi_gpu_segment **next, int32_t i) {
    while (*next && (*next)->from < i) *next = (*next)->next;
    if (!*next || (*next)->from != i || tpi_detours) return TPI_DECLINED;
    return tpi_run_segment(&(tpi_segment_run){r->g, r->slots, run_step, end_value, r}, *next);
}

static bool run_steps(graph_run *r, int32_t from, int32_t to) {
    bool off = tpi_grad_off, ok = true;
    tpi_detours &= (uint8_t)~r->casts;
    int threads = threads_for_steps(r);
    const tpi_branches *b = threads > 1 ? r->g->branches : NULL;
    tpi_gpu_segment *segment = r->g->segments;
    tpi_grad_off = true;
    for (int32_t i = from; i < to && ok;) {
        tpi_served served = run_segment(r, &segment, i);
        if (served != TPI_DECLINED) {
            ok = served == TPI_SERVED;
            i = segment->to;
            continue;
        }
        while (b && b->from < i) b = b->next;
        if (b && b->from == i) {
            ok = tpi_run_parallel_steps(&(tpi_parallel_steps){r->g, run_step, end_value, r}, b, threads);
            i = b->to;
            continue;
        }
        ok = run_step(r, i);
        for (int32_t d = 0; d < r->g->steps[i].ndead; d++) end_value(r, r->g->steps[i].dead[d]);
        i++;
    }
    tpi_grad_off = off;
    tpi_detours |= r->casts;
    return ok;
}

/* ---- The tape's node ---- */

typedef struct node_attrs {
    tp_compiled *g; /* owned */
} node_attrs;

static void node_release(tpi_node *node) { tp_compiled_release(((node_attrs *)tpi_node_attrs(node))->g); }

/* The gradient of an output as the backward was captured with it: contiguous; zeros where none came. */
static tp_tensor *given_gradient(tpi_node *node, tp_tensor *grad, int output) {
    return grad ? tpi_contiguous_data(grad) : tpi_node_zeros(node, output);
}

static bool fill_backward(graph_run *r, tpi_node *node, tp_tensor *const *grads) {
    const tp_compiled *g = r->g;
    for (int32_t i = 0; i < g->nsaved; i++) {
        if (r->slots[g->saved[i]]) tpi_drop(&r->slots[g->saved[i]]);
        if (!tpi_unpack(node, i, &r->slots[g->saved[i]])) return false;
    }
    if (node->last) tpi_node_forget(node); /* from here on each ends with the last step that reads it */
    for (int32_t i = 0; i < g->nvalues; i++)
        if (g->values[i].kind == TPI_VALUE_GRAD &&
            !(r->slots[i] = given_gradient(node, grads[g->values[i].of], g->values[i].of)))
            return false;
    return true;
}

static bool node_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    const tp_compiled *g = ((node_attrs *)tpi_node_attrs(node))->g;
    if (!tpi_grad_off)
        return tpi_refuse(TP_ERR_RUNTIME, "torch.compile with aot_autograd does not currently support double backward");
    graph_run r;
    if (!run_start(&r, g)) return false;
    r.node = node;
    r.grad_inputs = grad_inputs;
    bool ok = fill_backward(&r, node, grads) && run_steps(&r, g->nforward, g->nsteps);
    for (int32_t i = 0; i < g->ntracked && ok; i++) {
        if (g->gradients[i] < 0 || !tpi_node_needs(node, i)) continue;
        ok = (grad_inputs[i] = tpi_retain(value(&r, g->gradients[i]))) != NULL;
    }
    run_end(&r);
    return ok;
}

/* The history of a result that a backward of the graph's own has been through. */
static bool spent_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    (void)node;
    (void)grads;
    (void)grad_inputs;
    return tpi_refuse(
        TP_ERR_RUNTIME,
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad().");
}

static const tpi_node_class spent_class = {
    "CompiledFunctionBackward", "compiled graph", spent_backward, NULL, NULL, NULL};
static const tpi_node_class graph_class = {
    "CompiledFunctionBackward", "compiled graph", node_backward, node_release, NULL, NULL};

/* The node, with the edges and what is saved; the outputs are attached by the caller. */
static tpi_node *new_node(graph_run *r, tp_compiled *g) {
    tpi_node *node = tpi_node_new(&graph_class, g->ntracked, g->nsaved, sizeof(node_attrs), g->noutputs);
    if (!node) return NULL;
    *(node_attrs *)tpi_node_attrs(node) = (node_attrs){tp_compiled_retain(g)};
    for (int32_t i = 0; i < g->ntracked; i++) tpi_node_edge(node, i, r->slots[g->tracked[i]]);
    for (int32_t i = 0; i < g->nsaved; i++)
        if (!tpi_node_save(node, i, r->slots[g->saved[i]])) {
            tpi_node_release(node);
            return NULL;
        }
    return node;
}

/* ---- Runs ---- */

/* An output: an input or an outside tensor as it is, a view of one as a view, anything else as a tensor of its own. */
static tp_tensor *output(graph_run *r, int32_t i, tpi_node *node) {
    const tp_compiled *g = r->g;
    int32_t id = g->outputs[i], root = tpi_value_root(g, id);
    tp_tensor *t = value(r, id);
    if (!t) return NULL;
    if (g->values[root].kind != TPI_VALUE_MADE) {
        if (g->values[root].kind == TPI_VALUE_CONSTANT) return tpi_clone_data(t);
        if (id == root) return g->tracks[i] || !tpi_tracks(t) || tpi_grad_off ? tpi_retain(t) : tpi_detached(t);
        tpi_release(r->slots[id]);
        r->slots[id] = NULL;
        const tpi_graph_value *v = &g->values[id];
        if (!g->tracks[i]) {
            tp_tensor *part = view(r->slots[root], v);
            if (part && node && g->follows[i] && !tpi_node_attach(node, i, part)) tpi_drop(&part);
            return part;
        }
        int64_t offset =
            (r->slots[root]->data - r->slots[root]->storage->data + v->offset) / (int64_t)tpi_dtype_bytes[v->dtype];
        return tpi_as_strided(r->slots[root], tpi_value_shape(v), tpi_value_strides(v), offset);
    }
    tp_tensor *own = node || id != root || (g->spent && g->spent[i]) ? tpi_detached(t) : tpi_retain(t);
    if (own && node && g->follows[i] && !tpi_node_attach(node, i, own)) tpi_drop(&own);
    if (own && g->spent && g->spent[i] && !tpi_grad_off) {
        tpi_node *spent = tpi_node_new(&spent_class, 0, 0, 0, 1);
        if (spent) spent->live = true; /* though it leads nowhere: who asks for gradients is told why there are none */
        if (!spent || !tpi_node_attach(spent, 0, own)) tpi_drop(&own);
        tpi_node_release(spent);
    }
    if (own && tpi_inference_on()) tpi_mark_inference(own);
    return own;
}

static bool same_meta(const tpi_graph_value *v, const tp_tensor *t) {
    return tpi_value_is_like(v, t) && !memcmp(t->shape, v->dims, v->ndim * sizeof(int64_t)) && same_strides(v, t);
}

/* Steps were put in order for inputs that share no memory with each other, nor with tensors of the program's: where
 * some step writes, they must not. */
static bool are_apart(const tp_compiled *g, tp_tensors inputs) {
    for (int64_t i = 0; i < inputs.n; i++) {
        for (int64_t k = 0; k < i; k++)
            if (g->values[g->inputs[i]].of != g->values[g->inputs[k]].of && tpi_shares_memory(inputs.v[i], inputs.v[k]))
                return false;
        for (int32_t k = 0; k < g->nvalues; k++)
            if (g->values[k].kind == TPI_VALUE_OUTSIDE && g->values[k].tensor &&
                tpi_shares_memory(inputs.v[i], g->values[k].tensor))
                return false;
    }
    return true;
}

bool tp_compiled_fits(const tp_compiled *g, tp_tensors inputs) {
    if (TPI_ENDED(g, "a compiled graph")) return false;
    if (!g || (inputs.n && !inputs.v) || inputs.n != g->ninputs || g->grad_off != tpi_grad_off ||
        g->inference != tpi_inference || g->default_dtype != tp_default_dtype() || tpi_packers_now)
        return false;
    const bool sized = g->sizes && tpi_sizes_fit(g, inputs);
    for (int64_t i = 0; i < inputs.n; i++) {
        const tp_tensor *t = inputs.v[i];
        const tpi_graph_value *v = &g->values[g->inputs[i]];
        if (!t || (!same_meta(v, t) && !sized) || (!g->grad_off && tpi_tracks(t) != g->input_tracked[i])) return false;
        if (v->of != i && inputs.v[v->of]->data != t->data) return false; /* the same tensor twice */
    }
    for (const tpi_graph_grad *e = g->expected; e; e = e->next) {
        const tpi_graph_value *v = &g->values[e->leaf];
        if (e->there != (tp_grad(v->kind == TPI_VALUE_INPUT ? inputs.v[v->of] : v->tensor) != NULL)) return false;
    }
    return !(g->writes || g->customs) || are_apart(g, inputs);
}

static bool check_inputs(const tp_compiled *g, tp_tensors inputs) {
    if (!tpi_given(g, __func__, "graph", "a graph")) return false;
    if (inputs.n != g->ninputs)
        return tpi_refuse(TP_ERR_VALUE, "argument 'inputs': expected %d tensors, got %lld", g->ninputs,
                          (long long)inputs.n);
    for (int64_t i = 0; i < inputs.n; i++) {
        const tp_tensor *t = inputs.v[i];
        const tpi_graph_value *v = &g->values[g->inputs[i]];
        if (!t)
            return tpi_refuse(TP_ERR_TYPE, "argument 'inputs': expected a tensor at index %lld, got NULL",
                              (long long)i);
        if (!same_meta(v, t))
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'inputs': expected %s of shape %s at index %lld, laid out as it was captured, "
                              "got %s of shape %s",
                              tp_dtype_name((tp_dtype)v->dtype), tpi_shape_text(tpi_value_shape(v)), (long long)i,
                              tp_dtype_name((tp_dtype)t->dtype), tpi_shape_text(tpi_shape(t)));
    }
    return true;
}

static bool make_outputs(graph_run *r, tp_compiled *g, tp_tensor **outputs) {
    tpi_node *node = g->differentiable && !tpi_grad_off ? new_node(r, g) : NULL;
    bool ok = node || !g->differentiable || tpi_grad_off;
    for (int32_t i = 0; i < g->noutputs; i++) outputs[i] = NULL;
    for (int32_t i = 0; i < g->noutputs && ok; i++) ok = (outputs[i] = output(r, i, node)) != NULL;
    tpi_node_release(node);
    if (!ok) tpi_drop_all(outputs, g->noutputs);
    return ok;
}

bool tp_compiled_run(tp_compiled *g, tp_tensors inputs, tp_tensor **outputs) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_TENSORS_GIVEN(inputs)) return false;
    const char *before = tpi_op_enter("graph");
    graph_run r;
    tp_compiled *sized = g && g->sizes ? tpi_graph_for(g, inputs) : NULL;
    bool ok = !g || !g->sizes || sized;
    if (sized) g = sized;
    ok = ok && check_inputs(g, inputs) && run_start(&r, g);
    if (ok) {
        for (int64_t i = 0; i < inputs.n; i++)
            if (g->values[g->inputs[i]].of == i) r.slots[g->inputs[i]] = tpi_retain(inputs.v[i]);
        ok = run_steps(&r, 0, g->nforward) && make_outputs(&r, g, outputs);
        run_end(&r);
    }
    ok = ok && tpi_all_to_scope(outputs, g->noutputs);
    tp_compiled_release(sized);
    tpi_op_leave(before);
    return ok;
}

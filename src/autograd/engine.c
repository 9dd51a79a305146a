/* The engine: walks the graph of nodes from the results to the leaves.
 *
 * A run first finds what is reachable and counts, for each node, how many gradients will come to it; then runs nodes
 * whose gradients are complete, the newest first. Everything a run knows is in its own arrays, on the stack while the
 * graph is small: so a backward may run inside another, two threads may walk graphs that share nodes, and nothing
 * recurses however long the graph.
 *
 * Gradients flow through slots, one per output of a node reached; a slot holds the sum of what came so far. */
#include <string.h>
#include <taper/autograd.h>
#include <taper/binding.h>
#include "dispatch/profile.h"
#include "autograd/tape.h"
#include "device/gpu/driver.h"
#include "dispatch/call.h"
#include "tensor/check_arguments.h"
#include "tensor/same_device.h"

typedef struct entry {
    tpi_node *node;
    uint32_t deps;          /* gradients still to come, from edges of nodes not yet run */
    uint32_t slot;          /* the first of its outputs' slots */
    uint32_t no_minus_zero; /* a bit for each of the first outputs: its slot holds a sum without -0 */
    uint32_t kids;          /* the first of its edges in `kids` */
    uint32_t capture;       /* 1 + the first of the captures at it; 0: none */
    bool stop;              /* gradients are captured here and flow no further */
    bool parts;             /* and the parts of their sums are wanted, one by one */
    bool runs;              /* with only_inputs: some input lies behind it */
} entry;

typedef struct capture {
    tpi_edge at;   /* owned: the node and output that the input is */
    uint32_t next; /* 1 + the next capture at the same node */
    uint32_t input;
} capture;

enum { FEW = 24, FEW_SLOTS = 32, FEW_KIDS = 48, FEW_TABLE = 64 };
#define NO_KID UINT32_MAX

typedef struct run {
    const tpi_run_request *request;
    entry *entries;
    uint32_t *table; /* open addressing: 1 + the number of the node's entry; at least twice as many places as entries */
    tp_tensor **slots;
    uint32_t *kids;  /* entries at the ends of edges, in the entries' order; NO_KID where an edge leads nowhere */
    uint32_t *ready; /* a heap of entries, the newest node on top */
    tp_tensor **grad_inputs;
    capture *captures;
    size_t nentries, entries_capacity, table_capacity, nslots, slots_capacity, nkids, kids_capacity, nready,
        ready_capacity, grad_inputs_capacity;
    uint32_t now;       /* the entry whose backward is running */
    uint32_t current;   /* the entry that runs, hooks on its gradients included */
    struct run *before; /* the run further up the stack */
    int64_t number;     /* of all runs of the process, from 1 */
    tpi_met met;
    entry few_entries[FEW];
    uint32_t few_table[FEW_TABLE];
    tp_tensor *few_slots[FEW_SLOTS];
    uint32_t few_kids[FEW_KIDS], few_ready[FEW];
    tp_tensor *few_grad_inputs[16];
} run;

static TPI_THREAD_LOCAL run *run_now;
static atomic_llong runs_begun;

int64_t tp_backward_number(void) { return run_now ? run_now->number : 0; }
tp_node *tp_backward_node(void) {
    const run *r = run_now;
    return r && r->current != NO_KID ? tpi_node_retain(r->entries[r->current].node) : NULL;
}

/* ---- Arrays that start on the stack ---- */

static void *larger(void *array, const void *inside, size_t item, size_t *capacity, size_t need) {
    size_t more = *capacity * 2 > need ? *capacity * 2 : need;
    void *block = tpi_realloc(array == inside ? NULL : array, more * item);
    if (!block) return NULL;
    if (array == inside) memcpy(block, inside, *capacity * item);
    *capacity = more;
    return block;
}

/* Room for `need` items in the array of that name; false without memory. */
#define RESERVE(r, name, need) ((need) <= (r)->name##_capacity || grow_##name((r), (need)))
#define GROW(name)                                                                                \
    static bool grow_##name(run *r, size_t need) {                                                \
        void *block = larger(r->name, r->few_##name, sizeof *r->name, &r->name##_capacity, need); \
        if (block) r->name = block;                                                               \
        return block != NULL;                                                                     \
    }
GROW(entries)
GROW(slots)
GROW(kids)
GROW(ready)
GROW(grad_inputs)

static void run_start(run *r, const tpi_run_request *request) {
    r->request = request;
    r->entries = r->few_entries;
    r->entries_capacity = FEW;
    r->nentries = 0;
    r->table = r->few_table;
    r->table_capacity = FEW_TABLE;
    memset(r->few_table, 0, sizeof r->few_table);
    r->slots = r->few_slots;
    r->slots_capacity = FEW_SLOTS;
    r->nslots = 0;
    r->kids = r->few_kids;
    r->kids_capacity = FEW_KIDS;
    r->nkids = 0;
    r->ready = r->few_ready;
    r->ready_capacity = FEW;
    r->nready = 0;
    r->grad_inputs = r->few_grad_inputs;
    r->grad_inputs_capacity = 16;
    r->captures = NULL;
    r->now = r->current = NO_KID;
    r->met.n = 0;
    r->before = run_now;
    r->number = atomic_fetch_add_explicit(&runs_begun, 1, memory_order_relaxed) + 1;
    run_now = r;
}

static void run_end(run *r) {
    run_now = r->before;
    for (size_t i = 0; i < r->nslots; i++) tpi_release(r->slots[i]);
    if (r->entries != r->few_entries) tpi_mfree(r->entries);
    if (r->table != r->few_table) tpi_mfree(r->table);
    if (r->slots != r->few_slots) tpi_mfree(r->slots);
    if (r->kids != r->few_kids) tpi_mfree(r->kids);
    if (r->ready != r->few_ready) tpi_mfree(r->ready);
    if (r->grad_inputs != r->few_grad_inputs) tpi_mfree(r->grad_inputs);
    for (int64_t i = 0; r->captures && i < r->request->ninputs; i++) tpi_node_release(r->captures[i].at.node);
    tpi_mfree(r->captures);
}

/* ---- From nodes to entries ---- */

static size_t slot_of(const run *r, const tpi_node *node) {
    uint64_t hash = ((uint64_t)(uintptr_t)node >> 4) * 0x9e3779b97f4a7c15u;
    size_t mask = r->table_capacity - 1, at = (size_t)(hash >> 32) & mask;
    while (r->table[at] && r->entries[r->table[at] - 1].node != node) at = (at + 1) & mask;
    return at;
}

static bool double_table(run *r) {
    size_t capacity = r->table_capacity * 2;
    uint32_t *table = tpi_malloc(capacity * sizeof *table);
    if (!table) return false;
    memset(table, 0, capacity * sizeof *table);
    if (r->table != r->few_table) tpi_mfree(r->table);
    r->table = table;
    r->table_capacity = capacity;
    for (size_t i = 0; i < r->nentries; i++) r->table[slot_of(r, r->entries[i].node)] = (uint32_t)i + 1;
    return true;
}

/* The node's entry, made if it is new; NO_KID without memory. */
static uint32_t entry_of(run *r, tpi_node *node) {
    size_t at = slot_of(r, node);
    if (r->table[at]) return r->table[at] - 1;
    if (!RESERVE(r, entries, r->nentries + 1) || !RESERVE(r, slots, r->nslots + node->noutputs)) return NO_KID;
    uint32_t id = (uint32_t)r->nentries++;
    r->entries[id] = (entry){.node = node, .slot = (uint32_t)r->nslots};
    for (uint32_t i = 0; i < node->noutputs; i++) r->slots[r->nslots++] = NULL;
    r->table[at] = id + 1;
    return r->nentries * 2 <= r->table_capacity || double_table(r) ? id : NO_KID;
}

/* Follows all edges; the entries are their own queue. */
static bool find_reachable(run *r) {
    for (size_t i = 0; i < r->nentries; i++) {
        const tpi_node *node = r->entries[i].node;
        r->entries[i].kids = (uint32_t)r->nkids;
        if (r->entries[i].stop) continue;
        if (!RESERVE(r, kids, r->nkids + node->nedges) || !RESERVE(r, grad_inputs, node->nedges)) return false;
        for (uint32_t e = 0; e < node->nedges; e++) {
            uint32_t kid = NO_KID;
            if (node->edges[e].node && (kid = entry_of(r, node->edges[e].node)) == NO_KID) return false;
            if (kid != NO_KID) r->entries[kid].deps++;
            r->kids[r->nkids++] = kid;
        }
    }
    return true;
}

static uint32_t nkids_of(const entry *e) { return e->stop ? 0 : e->node->nedges; }

/* With only_inputs: a node runs if some input lies behind it. Goes through the entries in an order in which every node
 * comes before those it leads to, and then back. */
static bool mark_running(run *r) {
    uint32_t *order = tpi_malloc(2 * r->nentries * sizeof *order);
    if (!order) return false;
    uint32_t *left = order + r->nentries, n = 0;
    for (uint32_t i = 0; i < r->nentries; i++)
        if (!(left[i] = r->entries[i].deps)) order[n++] = i;
    for (uint32_t i = 0; i < n; i++) {
        const entry *e = &r->entries[order[i]];
        for (uint32_t k = 0; k < nkids_of(e); k++) {
            uint32_t kid = r->kids[e->kids + k];
            if (kid != NO_KID && --left[kid] == 0) order[n++] = kid;
        }
    }
    while (n-- > 0) {
        entry *e = &r->entries[order[n]];
        for (uint32_t k = 0; k < nkids_of(e); k++) {
            uint32_t kid = r->kids[e->kids + k];
            e->runs |= kid != NO_KID && (r->entries[kid].runs || r->entries[kid].capture);
        }
    }
    tpi_mfree(order);
    return true;
}

static bool wanted(const run *r, uint32_t id) {
    return !r->request->only_inputs || r->entries[id].runs || r->entries[id].capture;
}

bool tp_backward_keeps_graph(void) { return run_now && run_now->request->retain_graph; }

bool tp_backward_runs(const tp_node *node) {
    if (TPI_ENDED(node, "a node")) return false;
    const run *r = run_now;
    uint32_t at = r && node ? r->table[slot_of(r, node)] : 0;
    return at && wanted(r, at - 1);
}

bool tp_backward_reaches(tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    run *r = run_now;
    tpi_edge edge;
    if (!r || !t || !tpi_history(t, &edge) || !edge.node) return false;
    uint32_t at = r->table[slot_of(r, edge.node)];
    tpi_node_release(edge.node);
    return at && wanted(r, at - 1);
}

bool tpi_run_needs(const tpi_node *node, int edge) {
    const run *r = run_now;
    if (!r || r->now == NO_KID || !r->request->only_inputs) return true;
    const entry *e = &r->entries[r->now];
    if (e->node != node && e->node != node->outer)
        return true; /* a CopySlices node's edges are those of the call it holds */
    uint32_t kid = r->kids[e->kids + (uint32_t)edge];
    return kid != NO_KID && wanted(r, kid);
}

bool tpi_only_inputs_now(void) { return run_now && run_now->request->only_inputs; }

/* ---- The heap of ready nodes ---- */

static bool newer(const run *r, uint32_t a, uint32_t b) {
    return r->entries[a].node->sequence > r->entries[b].node->sequence;
}

static bool push_ready(run *r, uint32_t id) {
    if (!RESERVE(r, ready, r->nready + 1)) return false;
    size_t at = r->nready++;
    for (; at > 0 && newer(r, id, r->ready[(at - 1) / 2]); at = (at - 1) / 2) r->ready[at] = r->ready[(at - 1) / 2];
    r->ready[at] = id;
    return true;
}

static uint32_t pop_ready(run *r) {
    r->nready--;
    uint32_t top = r->ready[0], last = r->ready[r->nready];
    size_t at = 0;
    for (;;) {
        size_t kid = 2 * at + 1;
        if (kid >= r->nready) break;
        if (kid + 1 < r->nready && newer(r, r->ready[kid + 1], r->ready[kid])) kid++;
        if (!newer(r, r->ready[kid], last)) break;
        r->ready[at] = r->ready[kid];
        at = kid;
    }
    r->ready[at] = last;
    return top;
}

/* ---- Gradients ---- */

static void release_n(uint32_t n, tp_tensor **list) {
    for (uint32_t i = 0; i < n; i++) {
        tpi_release(list[i]);
        list[i] = NULL;
    }
}

/* The last step of a node's turn, if what came before went well. */
static bool fit_all(tpi_node *node, bool ok, tp_tensor **grad_inputs) {
    for (uint32_t i = 0; ok && i < node->nedges; i++) {
        if (!grad_inputs[i]) continue;
        const tpi_edge *edge = &node->edges[i];
        if (edge->node)
            ok =
                (grad_inputs[i] = tpi_fit_grad(&edge->node->metas[edge->output], grad_inputs[i], node, (int)i)) != NULL;
        else
            grad_inputs[i] = tpi_release_then(grad_inputs[i], NULL);
    }
    if (!ok) release_n(node->nedges, grad_inputs);
    return ok;
}

bool tpi_node_apply(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    return fit_all(node, node->cls->backward(node, grads, grad_inputs), grad_inputs);
}

/* The same between the user's hooks, which may replace what goes in and what comes out. */
static bool apply_with_hooks(tpi_node *node, tp_tensor **grads, tp_tensor **grad_inputs) {
    tp_tensors in = {grads, node->noutputs}, out = {grad_inputs, node->nedges};
    tpi_extra *extra = node->extra;
    if (extra->before && !tpi_node_hooks_run(&extra->before, (tp_tensors){NULL, 0}, in, in.n, in.v)) return false;
    bool any = false;
    for (uint32_t o = 0; o < node->noutputs; o++) any |= grads[o] != NULL;
    if (!any) return true;
    bool ok = node->cls->backward(node, grads, grad_inputs);
    if (ok && extra->after) ok = tpi_node_hooks_run(&extra->after, out, in, out.n, out.v);
    return fit_all(node, ok, grad_inputs);
}

/* May the engine write into g? Only if nobody else can see it. */
static bool is_ours(const run *r, const tp_tensor *g) {
    return !r->request->create_graph && atomic_load_explicit(&g->refs, memory_order_acquire) == 1 &&
           atomic_load_explicit(&g->storage->refs, memory_order_acquire) == 1 && !g->storage->foreign && !g->base &&
           !g->requires_grad && tpi_is_dense(g);
}

/* Adds g, which it takes over, to what came to the slot before. */
static bool add_to_slot(const run *r, tp_tensor **slot, tp_tensor *g) {
    if (tpi_marked(g) && !(g = tpi_release_then(g, tpi_resolve(g)))) return false; /* a program's own: x.conj() */
    if (!*slot) {
        *slot = g;
        return true;
    }
    bool opaque = tpi_opaque(g) || tpi_opaque(*slot);
    if (!opaque && is_ours(r, g) && !is_ours(r, *slot)) { /* a + b is b + a to the last bit */
        tp_tensor *other = *slot;
        *slot = g;
        g = other;
    }
    if (!opaque && is_ours(r, *slot)) {
        bool ok = tpi_add_grads_into(*slot, g);
        tpi_release(g);
        return ok;
    }
    tp_tensor *sum = tpi_add_grads(*slot, g);
    tpi_release(g);
    if (!sum) return false;
    *slot = tpi_release_then(*slot, sum);
    return true;
}

/* ---- One node's turn ---- */

/* The gradient of one output is complete: hooks, retain_grad. */
static bool watch_grad(tpi_node *node, uint32_t output, tp_tensor **grad) {
    tpi_meta *meta = &node->metas[output];
    tp_tensor *leaf = tpi_accumulator_leaf(node);
    tpi_hook **hooks = leaf ? &tpi_autograd_of(leaf)->hooks : &meta->hooks;
    if (*hooks && !tpi_hooks_run(hooks, meta, grad)) return false;
    if (!meta->retainer) return true;
    tpi_weak_lock(meta);
    tpi_autograd *ag = meta->retainer;
    if (ag) atomic_fetch_add_explicit(&ag->refs, 1, memory_order_relaxed);
    tpi_weak_unlock(meta);
    bool ok = !ag || tpi_keep_grad(ag, *grad);
    if (ag) tpi_autograd_release(ag);
    return ok;
}

/* The input whose gradient the node's output is, if it is taken part by part; -1: it is not. */
static int64_t input_in_parts(const run *r, entry *e, uint32_t output) {
    if (!r->request->record_part) return -1;
    e->parts |= e->deps > 1;
    for (uint32_t c = e->parts ? e->capture : 0; c; c = r->captures[c - 1].next)
        if (r->captures[c - 1].at.output == output) return r->captures[c - 1].input;
    return -1;
}

/* Adds g, which it takes over, to the gradient of the entry's output. */
static bool add_to_output(run *r, uint32_t id, uint32_t output, tp_tensor *g) {
    entry *e = &r->entries[id];
    int64_t input = input_in_parts(r, e, output);
    if (input < 0) return add_to_slot(r, &r->slots[e->slot + output], g);
    if (tpi_marked(g) && !(g = tpi_release_then(g, tpi_resolve(g)))) return false;
    bool ok = r->request->record_part(r->request->context, input, g);
    tpi_release(g);
    return ok;
}

/* Hands the gradients of a node's inputs on, and counts down. Takes them over. */
static bool hand_on(run *r, const entry *e, tp_tensor **grads) {
    uint32_t n = e->node->nedges;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t kid = r->kids[e->kids + i];
        tp_tensor *g = grads[i];
        grads[i] = NULL;
        bool ok = true;
        if (kid == NO_KID || !wanted(r, kid))
            tpi_release(g);
        else if ((!g || (ok = add_to_output(r, kid, e->node->edges[i].output, g))) && --r->entries[kid].deps == 0)
            ok = push_ready(r, kid);
        if (!ok) {
            release_n(n, grads);
            return false;
        }
    }
    return true;
}

bool tpi_run_accepts_parts(const tpi_node *node) {
    const run *r = run_now;
    return r && r->now != NO_KID && r->entries[r->now].node == node && !node->extra &&
           !atomic_load_explicit(&tpi_anomaly, memory_order_relaxed);
}

bool tpi_run_add_part(tpi_node *node, int edge, tp_tensor *part) {
    run *r = run_now;
    const tpi_edge *to = &node->edges[edge];
    uint32_t kid = r->kids[r->entries[r->now].kids + (uint32_t)edge];
    if (kid == NO_KID || !wanted(r, kid)) {
        tpi_release(part);
        return true;
    }
    part = tpi_fit_grad(&to->node->metas[to->output], part, node, edge);
    return part && add_to_output(r, kid, to->output, part);
}

/* The gradient of the node's input so far, if the node's own can be added to a part of it: nobody looks at what the
 * node makes. */
static tp_tensor *sum_to_add_to(const run *r, const entry *e) {
    const tpi_node *node = e->node;
    if (!node->cls->into || node->extra || atomic_load_explicit(&tpi_anomaly, memory_order_relaxed)) return NULL;
    uint32_t kid = r->kids[e->kids];
    if (kid == NO_KID || !wanted(r, kid)) return NULL;
    tp_tensor *sum = r->slots[r->entries[kid].slot + node->edges[0].output];
    return sum && is_ours(r, sum) ? sum : NULL;
}

/* Adds to a part of the sum. Where hooks look or a graph is captured, the part comes as a tensor of zeros around it and
 * is added as a whole, which makes every -0 a 0; so that this one gives the same bits, the sum loses those that it has
 * before the first part comes. */
static bool add_part(run *r, const entry *e, tp_tensor *grad, tp_tensor *sum) {
    entry *kid = &r->entries[r->kids[e->kids]];
    const uint32_t output = e->node->edges[0].output, bit = output < 32 ? 1u << output : 0;
    if (!(kid->no_minus_zero & bit) && !tpi_clear_minus_zeros(sum)) return false;
    kid->no_minus_zero |= bit;
    return e->node->cls->into(e->node, grad, sum);
}

static bool apply(run *r, const entry *e, tp_tensor **grads) {
    tpi_node *node = e->node;
    tp_tensor *sum = sum_to_add_to(r, e);
    if (sum && sum->dtype == grads[0]->dtype) return add_part(r, e, grads[0], sum);
    return node->extra ? apply_with_hooks(node, grads, r->grad_inputs) : tpi_node_apply(node, grads, r->grad_inputs);
}

static bool run_node(run *r, uint32_t id) {
    entry *e = &r->entries[id];
    tpi_node *node = e->node;
    tp_tensor **grads = r->slots + e->slot;
    bool any = false;
    r->current = id;
    if (!wanted(r, id)) { /* a root that leads to none of the inputs */
        release_n(node->noutputs, grads);
        return true;
    }
    for (uint32_t o = 0; o < node->noutputs; o++) {
        if (!grads[o]) continue;
        any = true;
        if (!watch_grad(node, o, &grads[o])) return false;
        if (tpi_marked(grads[o]) && !(grads[o] = tpi_release_then(grads[o], tpi_resolve(grads[o])))) return false;
    }
    for (uint32_t c = r->request->accumulate ? 0 : e->capture; c; c = r->captures[c - 1].next) {
        const capture *at = &r->captures[c - 1];
        r->request->grads[at->input] = tpi_retain(grads[at->at.output]);
    }
    bool accumulates = r->request->accumulate && e->capture && tpi_accumulator_leaf(node);
    bool runs = !e->stop && (!r->request->only_inputs || e->runs || accumulates);
    if (!runs) {
        release_n(node->noutputs, grads);
        return true;
    }
    if (tpi_gpu_side_streams && !tpi_meet(&r->met, node)) return false;
    memset(r->grad_inputs, 0, node->nedges * sizeof *r->grad_inputs);
    r->now = id;
    node->last = !r->request->retain_graph && !r->request->create_graph;
    const int64_t event = any && (tpi_detours & TPI_WATCHED)
                              ? tpi_watch_begin(node->name, TP_EVENT_BACKWARD, (int64_t)node->sequence)
                              : -1;
    bool ok = !any || apply(r, e, grads);
    r->now = NO_KID;
    if (event >= 0) tpi_watch_end(event);
    release_n(node->noutputs, grads);
    if (node->last) tpi_node_forget(node);
    if (atomic_load_explicit(&tpi_anomaly, memory_order_relaxed)) {
        if (ok && any && !(ok = tpi_anomaly_check(node, (const tp_tensor *const *)r->grad_inputs)))
            release_n(node->nedges, r->grad_inputs);
        if (!ok) tpi_anomaly_tell(node);
    }
    return ok && hand_on(r, e, r->grad_inputs);
}

/* ---- A run ---- */

static tp_tensor *ones_like(tp_tensor *root, int64_t i) {
    if (root->numel != 1 || tp_dtype_is_complex((tp_dtype)root->dtype))
        return tpi_fail(TP_ERR_RUNTIME,
                        "grad can be implicitly created only for real scalar outputs: output %lld is %s of shape %s; "
                        "give its gradient",
                        (long long)i, tp_dtype_name((tp_dtype)root->dtype), tpi_shape_text(tpi_shape(root)));
    if (tpi_opaque(root)) return tpi_ask_opaque(TPI_OPERATOR(ones_like)->name, root, NULL);
    tp_tensor *g = tpi_empty(tpi_shape(root), (tp_dtype)root->dtype, tpi_device(root));
    if (g && tpi_device(g).type == TP_CPU && !tpi_recording) {
        tpi_store_scalar(g->data, (tp_dtype)g->dtype, tp_float(1));
    } else if (g && !tpi_fill_data(g, tp_float(1))) {
        return tpi_release_then(g, NULL);
    }
    return g;
}

/* Puts the roots' gradients into their slots. *edge is the root's node, which the caller holds on to. */
static bool add_root(run *r, int64_t i, const tpi_edge *edge) {
    tp_tensor *given = r->request->root_grads ? r->request->root_grads[i] : NULL;
    uint32_t id = entry_of(r, edge->node);
    if (id == NO_KID) return false;
    tp_tensor *g = given ? tpi_fit_grad(&edge->node->metas[edge->output], tpi_retain(given), NULL, (int)i)
                         : ones_like(r->request->roots[i], i);
    return g && add_to_slot(r, &r->slots[r->entries[id].slot + edge->output], g);
}

/* Where the inputs lie. Without only_inputs they are the first entries, at which the walk stops. */
static bool find_inputs(run *r) {
    int64_t n = r->request->ninputs;
    if (!n) return true;
    r->captures = tpi_malloc((size_t)n * sizeof *r->captures);
    if (!r->captures) return false;
    memset(r->captures, 0, (size_t)n * sizeof *r->captures);
    for (int64_t i = 0; i < n; i++) {
        tp_tensor *input = r->request->inputs[i];
        if (!input)
            return tpi_refuse(TP_ERR_TYPE, "argument 'inputs': expected a tensor at index %lld, got NULL",
                              (long long)i);
        if (!tpi_history(input, &r->captures[i].at)) return false;
        if (!r->captures[i].at.node)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "One of the differentiated Tensors does not require grad: the one at index %lld",
                              (long long)i);
        if (r->request->only_inputs && !r->request->stop_at_inputs) continue;
        uint32_t id = entry_of(r, r->captures[i].at.node);
        if (id == NO_KID) return false;
        r->entries[id].stop = true;
    }
    return true;
}

static void link_captures(run *r) {
    for (int64_t i = r->request->ninputs - 1; i >= 0; i--) {
        uint32_t known = r->table[slot_of(r, r->captures[i].at.node)];
        if (!known) continue;
        entry *e = &r->entries[known - 1];
        r->captures[i].input = (uint32_t)i;
        r->captures[i].next = e->capture;
        e->capture = (uint32_t)i + 1;
    }
}

static bool walk(run *r, const tpi_edge *roots) {
    if (!find_inputs(r)) return false;
    for (int64_t i = 0; i < r->request->nroots; i++)
        if (!add_root(r, i, &roots[i])) return false;
    if (!find_reachable(r)) return false;
    link_captures(r);
    if (r->request->only_inputs && !mark_running(r)) return false;
    for (uint32_t i = 0; i < r->nentries; i++)
        if (!r->entries[i].deps && !push_ready(r, i)) return false; /* roots; stops that nothing leads to */
    while (r->nready)
        if (!run_node(r, pop_ready(r))) return false;
    return true;
}

static bool root_edge(tp_tensor *root, int64_t i, tpi_edge *edge) {
    if (!tpi_is_tensor(root, "root")) return false;
    if (!tpi_history(root, edge)) return false;
    return edge->node ||
           tpi_refuse(TP_ERR_RUNTIME, "element %lld of tensors does not require grad and does not have a grad_fn",
                      (long long)i);
}

bool tpi_run(const tpi_run_request *request) {
    tpi_edge few[4], *roots = few;
    int64_t n = request->nroots, held = 0;
    if (n > 4 && !(roots = tpi_malloc((size_t)n * sizeof *roots))) return false;
    for (int64_t i = 0; request->grads && i < request->ninputs; i++) request->grads[i] = NULL;
    bool ok = true, off = tpi_grad_off;
    while (ok && held < n)
        if ((ok = root_edge(request->roots[held], held, &roots[held]))) held++;
    if (ok) {
        run r;
        tpi_grad_off = !request->create_graph;
        run_start(&r, request);
        ok = walk(&r, roots);
        ok = tpi_part(&r.met) && ok;
        run_end(&r);
        tpi_grad_off = off;
    }
    for (int64_t i = 0; i < held; i++) tpi_node_release(roots[i].node);
    for (int64_t i = 0; !ok && request->grads && i < request->ninputs; i++)
        request->grads[i] = tpi_release_then(request->grads[i], NULL);
    if (roots != few) tpi_mfree(roots);
    return ok;
}

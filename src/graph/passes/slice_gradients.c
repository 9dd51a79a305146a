/* Gradients of slices. The gradient that goes back through a slice is zeros around the slice's own gradient, and the
 * gradients of several slices of a tensor are added up (split: one for each piece). Where the slices do not overlap,
 * those tensors of zeros and their sums become one tensor, to which each slice's gradient is written once.
 *
 * In the graph such zeros are a fill and a map that adds to a view of it in place. A sum of two such values is
 * dissolved: its value becomes one of more slices. The bits are the same, for 0 + x is never -0, and adding 0 to that
 * changes nothing. */
#include <string.h>
#include "device/device.h"
#include "graph/graph.h"

extern const tpi_map_op *const tpi_adding_map; /* of the stanza that says `adds`; written by opgen */

typedef struct part {
    int32_t view; /* of the value that it was made in: a rectangle of it */
    int32_t gradient;
    int32_t fill, add; /* the steps that made it */
    struct part *next;
} part;

typedef struct sum { /* a value that is zeros and parts */
    part *parts;
    int32_t step; /* that makes it: a part's own addition, or a sum's */
} sum;

typedef struct dissolver {
    tp_compiled *g;
    sum *sums;      /* per value; without parts: it is no such value */
    int32_t *uses;  /* per value: steps that read it or hand it on, views of it included */
    int32_t *first; /* per value: the step that writes it first, -1: none */
    bool *gone;     /* per step */
    bool any;
} dissolver;

static bool is_number(const tp_scalar *s, int64_t n) {
    return s->kind == TP_SCALAR_INT ? s->as.i == n : s->kind == TP_SCALAR_FLOAT && s->as.d[0] == (double)n;
}

/* The sum of two tensors. */
static bool is_addition(const tpi_graph_step *s) {
    return s->kind == TPI_STEP_MAP && s->op == tpi_adding_map && s->in[0] >= 0 && s->in[1] >= 0 &&
           is_number(&s->params[0], 1);
}

/* Where a view begins that is a rectangle of a contiguous value. */
static bool rectangle(const tpi_graph_value *root, const tpi_graph_value *view, int64_t *from) {
    if (view->kind != TPI_VALUE_VIEW || view->ndim != root->ndim || view->dtype != root->dtype ||
        !tpi_value_is_contiguous(root) || view->offset < 0)
        return false;
    int64_t left = view->offset / (int64_t)tpi_dtype_bytes[view->dtype];
    for (int d = 0; d < root->ndim; d++) {
        int64_t stride = root->dims[root->ndim + d];
        if (view->dims[d] != 1 && view->dims[view->ndim + d] != stride) return false;
        from[d] = stride ? left / stride : 0;
        left -= from[d] * stride;
        if (from[d] + view->dims[d] > root->dims[d]) return false;
    }
    return left == 0;
}

/* Rectangles of values of one shape. */
static bool meet(const tp_compiled *g, int32_t a, int32_t b) {
    const tpi_graph_value *x = &g->values[a], *y = &g->values[b];
    int64_t from[2][TP_MAX_DIMS];
    if (!rectangle(&g->values[x->of], x, from[0]) || !rectangle(&g->values[y->of], y, from[1])) return true;
    for (int d = 0; d < x->ndim; d++)
        if (from[0][d] + x->dims[d] <= from[1][d] || from[1][d] + y->dims[d] <= from[0][d]) return false;
    return true;
}

/* ---- Finding ---- */

static void count(dissolver *d, int32_t v) {
    if (v >= 0) d->uses[tpi_value_root(d->g, v)]++;
}

static void count_uses(dissolver *d) {
    tp_compiled *g = d->g;
    for (int32_t i = 0; i < g->nsteps; i++) {
        for (int k = 0; k < g->steps[i].nin; k++) count(d, g->steps[i].in[k]);
        for (int k = 0; k < g->steps[i].nout; k++) {
            int32_t root = g->steps[i].out[k] < 0 ? -1 : tpi_value_root(g, g->steps[i].out[k]);
            if (root >= 0 && d->first[root] < 0) d->first[root] = i;
        }
    }
    for (int32_t i = 0; i < g->noutputs; i++) count(d, g->outputs[i]);
    for (int32_t i = 0; i < g->ntracked; i++) count(d, g->gradients[i]);
}

/* Does some step of [from, to) write the value, or may it? */
static bool is_written(const tp_compiled *g, int32_t v, int32_t from, int32_t to) {
    int32_t root = tpi_value_root(g, v);
    for (int32_t i = from; i < to; i++) {
        if (g->steps[i].kind == TPI_STEP_CUSTOM) return true;
        for (int w = 0, r; (r = tpi_step_writes(g, &g->steps[i], w)) >= 0; w++)
            if (r == root) return true;
    }
    return false;
}

/* A fill with zeros, and the addition to a rectangle of it that follows. */
static bool find_part(dissolver *d, int32_t i) {
    tp_compiled *g = d->g;
    const tpi_graph_step *s = &g->steps[i];
    if (!is_addition(s) || !s->inplace || s->in[0] != s->out[0]) return true;
    int32_t view = s->out[0], root = tpi_value_root(g, view), fill = d->first[root];
    const tpi_graph_step *f = fill >= 0 ? &g->steps[fill] : NULL;
    int64_t from[TP_MAX_DIMS];
    if (root == view || g->values[root].kind != TPI_VALUE_MADE || f->kind != TPI_STEP_FILL || f->out[0] != root ||
        !is_number(&f->numbers[0], 0) || !rectangle(&g->values[root], &g->values[view], from) ||
        tpi_value_root(g, s->in[1]) == root || is_written(g, root, fill + 1, i) ||
        memcmp(g->values[s->in[1]].dims, g->values[view].dims, g->values[view].ndim * sizeof(int64_t)) ||
        g->values[s->in[1]].ndim != g->values[view].ndim || g->values[s->in[1]].dtype != g->values[view].dtype)
        return true;
    part *p = tpi_graph_memory_alloc(&g->memory, sizeof *p);
    if (!p) return false;
    *p = (part){view, s->in[1], fill, i, NULL};
    d->sums[root] = (sum){p, i};
    d->uses[root]--; /* what the addition reads of the zeros */
    return true;
}

static bool are_apart(const dissolver *d, const part *a, const part *b) {
    for (; a; a = a->next)
        for (const part *other = b; other; other = other->next)
            if (meet(d->g, a->view, other->view)) return false;
    return true;
}

/* May what is in `v` be written only when step `i` runs? */
static bool may_wait(const dissolver *d, int32_t v, int32_t i) {
    const tp_compiled *g = d->g;
    const sum *s = &d->sums[v];
    if (!s->parts || d->uses[v] != 1 || is_written(g, v, s->step + 1, i)) return false;
    for (const part *p = s->parts; p; p = p->next)
        if ((p->fill < g->nforward) != (i < g->nforward) || is_written(g, p->gradient, p->add + 1, i)) return false;
    return true;
}

static void find_sum(dissolver *d, int32_t i) {
    tp_compiled *g = d->g;
    const tpi_graph_step *s = &g->steps[i];
    if (!is_addition(s) || s->inplace) return;
    int32_t a = s->in[0], b = s->in[1], out = s->out[0];
    const tpi_graph_value *x = &g->values[a], *y = &g->values[b], *sum_of = &g->values[out];
    if (a == b || x->kind != TPI_VALUE_MADE || y->kind != TPI_VALUE_MADE || sum_of->kind != TPI_VALUE_MADE ||
        x->dtype != sum_of->dtype || y->dtype != sum_of->dtype || x->ndim != y->ndim ||
        memcmp(x->dims, y->dims, x->ndim * sizeof(int64_t)) || !tpi_value_is_contiguous(sum_of) || !may_wait(d, a, i) ||
        !may_wait(d, b, i) || !are_apart(d, d->sums[a].parts, d->sums[b].parts))
        return;
    part *last = d->sums[a].parts;
    while (last->next) last = last->next;
    last->next = d->sums[b].parts;
    d->sums[out] = (sum){d->sums[a].parts, i};
    for (const part *p = d->sums[out].parts; p; p = p->next) d->gone[p->fill] = d->gone[p->add] = true;
    d->sums[a].parts = d->sums[b].parts = NULL;
    d->gone[i] = d->any = true;
}

/* ---- Writing ---- */

static bool fills_all(const tp_compiled *g, const part *p, int32_t of) {
    int64_t n = 0;
    for (; p; p = p->next) n += tpi_numel_of(tpi_value_shape(&g->values[p->view]));
    return n == tpi_numel_of(tpi_value_shape(&g->values[of]));
}

static tp_scalar *zeros(tp_compiled *g, int n) {
    tp_scalar *s = tpi_graph_memory_alloc(&g->memory, (size_t)n * sizeof *s);
    for (int i = 0; s && i < n; i++) s[i] = tp_int(0);
    return s;
}

/* The part's gradient, + 0, into its place in `of`: added to what is there, or written. `add`: its own addition. */
static bool put_part(tp_compiled *g, const tpi_graph_step *add, const part *p, int32_t of, bool written) {
    tpi_graph_value like = g->values[p->view];
    like.of = of;
    like.tensor = tpi_retain(like.tensor);
    int32_t view = tpi_graph_add_value(g, &like, tpi_value_shape(&like), tpi_value_strides(&like));
    tpi_graph_step *s = view >= 0 ? tpi_graph_add_step(g, TPI_STEP_MAP, 2, 1) : NULL;
    if (!s) {
        tpi_release(like.tensor);
        return false;
    }
    g->values[view].tensor = like.tensor;
    s->op = add->op;
    s->params = add->params;
    s->inplace = true;
    s->out[0] = view;
    s->in[0] = p->gradient;
    s->in[1] = written ? view : -1;
    s->numbers = zeros(g, 2);
    return s->numbers;
}

static bool put_sum(tp_compiled *g, const tpi_graph_step *old, const part *parts, int32_t of) {
    bool all = fills_all(g, parts, of);
    tpi_graph_step *fill = all ? NULL : tpi_graph_add_step(g, TPI_STEP_FILL, 0, 1);
    if (!all && !fill) return false;
    if (fill) {
        *fill = old[parts->fill];
        fill->out = tpi_graph_memory_alloc(&g->memory, sizeof *fill->out);
    }
    if (fill && !fill->out) return false;
    if (fill) fill->out[0] = of;
    for (const part *p = parts; p; p = p->next)
        if (!put_part(g, &old[p->add], p, of, !all)) return false;
    return true;
}

static bool rewrite(dissolver *d) {
    tp_compiled *g = d->g;
    tpi_graph_step *old = g->steps;
    int32_t n = g->nsteps, half = g->nforward;
    bool ok = true;
    g->steps = NULL;
    g->nsteps = g->steps_capacity = 0;
    for (int32_t i = 0; i < n && ok; i++) {
        if (i == half) g->nforward = g->nsteps;
        int32_t out = old[i].nout ? old[i].out[0] : -1;
        if (!d->gone[i]) {
            tpi_graph_step *s = tpi_graph_add_step(g, (tpi_step_kind)old[i].kind, 0, 0);
            if ((ok = s)) *s = old[i];
        } else if (old[i].kind == TPI_STEP_MAP && !old[i].inplace && d->sums[out].parts)
            ok = put_sum(g, old, d->sums[out].parts, out);
    }
    if (half == n) g->nforward = g->nsteps;
    tpi_mfree(old);
    return ok;
}

bool tpi_graph_join_slice_gradients(tp_compiled *g) {
    size_t n = (size_t)g->nvalues + 1;
    dissolver d = {.g = g};
    d.sums = tpi_graph_memory_alloc(&g->memory, n * sizeof *d.sums);
    d.uses = tpi_graph_memory_alloc(&g->memory, n * sizeof *d.uses);
    d.first = tpi_graph_memory_alloc(&g->memory, n * sizeof *d.first);
    d.gone = tpi_graph_memory_alloc(&g->memory, (size_t)g->nsteps + 1);
    if (!d.sums || !d.uses || !d.first || !d.gone) return false;
    memset(d.first, 0xff, n * sizeof *d.first);
    count_uses(&d);
    for (int32_t i = 0; i < g->nsteps; i++) {
        if (!find_part(&d, i)) return false;
        find_sum(&d, i);
    }
    return !d.any || rewrite(&d);
}

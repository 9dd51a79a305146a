/* Graphs for inputs of other sizes: the symbols that the inputs' sizes give values to, and a graph for those values,
 * made by whoever read the file. Some of these graphs are kept. */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "graph/graph.h"

enum { KEPT = 16 };

typedef struct tpi_graph_kept {
    struct tpi_graph_kept *next;
    tp_compiled *graph;
    int64_t sizes[TPI_SIZE_SYMBOLS];
} kept_graph;

bool tpi_graph_set_sizes(tp_compiled *g, const tpi_graph_sizes *sizes) {
    tpi_graph_sizes *own = tpi_malloc(sizeof *own);
    if (!own) return false;
    *own = *sizes;
    own->kept = NULL;
    pthread_mutex_init(&own->lock, NULL);
    g->sizes = own;
    return true;
}

static void forget(kept_graph *k) {
    while (k) {
        kept_graph *next = k->next;
        tp_compiled_release(k->graph);
        tpi_mfree(k);
        k = next;
    }
}

void tpi_graph_drop_sizes(tpi_graph_sizes *s) {
    if (!s) return;
    forget(s->kept);
    s->drop(s->source);
    pthread_mutex_destroy(&s->lock);
    tpi_mfree(s);
}

/* ---- What inputs say ---- */
static bool size_of(const tpi_graph_sizes *s, const tpi_symbolic_size *at, int64_t dim, int64_t *size) {
    const tpi_size_symbol *symbol = &s->symbols[at->symbol];
    if (dim < at->offset) return false;
    const int64_t rest = dim - at->offset; /* which an int32 offset cannot make too large: dims are below 2^48 */
    *size = rest / at->factor;
    return rest % at->factor == 0 && *size >= symbol->least && *size <= symbol->most;
}

typedef struct misfit { /* a dim whose size the graph has not; or has, but another one in an input before */
    int64_t input, size;
    int dim;
    bool differs;
} misfit;

/* The symbols' sizes into `found`; -1: no input says it. False: the inputs have sizes that the graph has not. */
static bool find_sizes(const tp_compiled *g, tp_tensors inputs, int64_t *found, misfit *m) {
    const tpi_graph_sizes *s = g->sizes;
    for (int32_t i = 0; i < s->nsymbols; i++) found[i] = -1;
    for (int64_t i = 0; i < inputs.n; i++)
        for (int d = 0; d < inputs.v[i]->ndim; d++) {
            const tpi_symbolic_size *at = &s->dims[i][d];
            if (at->symbol < 0) continue;
            *m = (misfit){.input = i, .dim = d};
            if (!size_of(s, at, inputs.v[i]->shape[d], &m->size)) return false;
            m->differs = found[at->symbol] >= 0 && found[at->symbol] != m->size;
            if (m->differs) return false;
            found[at->symbol] = m->size;
        }
    return true;
}

static bool say_misfit(const tp_compiled *g, tp_tensors inputs, const int64_t *found, const misfit *m) {
    const tpi_symbolic_size *at = &g->sizes->dims[m->input][m->dim];
    const char *name = g->sizes->symbols[at->symbol].name;
    if (m->differs)
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'inputs': expected %s to be %lld as in an input before, got %lld in dim %d of the "
                          "tensor at index %lld",
                          name, (long long)found[at->symbol], (long long)m->size, m->dim, (long long)m->input);
    int64_t least, most;
    tpi_size_bounds(g, m->input, m->dim, &least, &most);
    return tpi_refuse(
        TP_ERR_VALUE,
        "argument 'inputs': expected dim %d of the tensor at index %lld (%s) to be from %lld to %lld%s, got %lld",
        m->dim, (long long)m->input, name, (long long)least, (long long)most, at->factor > 1 ? " in steps" : "",
        (long long)inputs.v[m->input]->shape[m->dim]);
}

/* Are these as many tensors, of as many dims, as the graph takes? */
static bool are_comparable(const tp_compiled *g, tp_tensors inputs) {
    if (inputs.n != g->ninputs) return false;
    for (int64_t i = 0; i < inputs.n; i++)
        if (!inputs.v[i] || inputs.v[i]->ndim != g->values[g->inputs[i]].ndim) return false;
    return true;
}

bool tpi_sizes_fit(const tp_compiled *g, tp_tensors inputs) {
    int64_t found[TPI_SIZE_SYMBOLS];
    misfit m;
    if (!are_comparable(g, inputs) || !find_sizes(g, inputs, found, &m)) return false;
    for (int64_t i = 0; i < inputs.n; i++) {
        const tp_tensor *t = inputs.v[i];
        const tpi_graph_value *v = &g->values[g->inputs[i]];
        if (!tpi_value_is_like(v, t) || !tp_is_contiguous(t)) return false;
        for (int d = 0; d < t->ndim; d++)
            if (g->sizes->dims[i][d].symbol < 0 && t->shape[d] != v->dims[d]) return false;
    }
    return true;
}

static int64_t scaled(int64_t size, const tpi_symbolic_size *at) {
    int64_t dim;
    if (size == INT64_MAX || __builtin_mul_overflow(size, at->factor, &dim) ||
        __builtin_add_overflow(dim, at->offset, &dim))
        return INT64_MAX;
    return dim < 0 ? 0 : dim;
}

void tpi_size_bounds(const tp_compiled *g, int64_t i, int d, int64_t *least, int64_t *most) {
    const tpi_symbolic_size *at = &g->sizes->dims[i][d];
    *least = *most = g->values[g->inputs[i]].dims[d];
    if (at->symbol < 0) return;
    const tpi_size_symbol *symbol = &g->sizes->symbols[at->symbol];
    *least = scaled(symbol->least, at);
    *most = scaled(symbol->most, at);
}

/* ---- The graph for them ---- */
static kept_graph **find_kept(tpi_graph_sizes *s, const int64_t *sizes) {
    kept_graph **at = &s->kept;
    while (*at && memcmp((*at)->sizes, sizes, (size_t)s->nsymbols * sizeof *sizes)) at = &(*at)->next;
    return at;
}

static kept_graph *make_kept(const tp_compiled *g, const int64_t *sizes) {
    kept_graph *k = tpi_malloc(sizeof *k);
    if (!k) return NULL;
    memcpy(k->sizes, sizes, (size_t)g->sizes->nsymbols * sizeof *sizes);
    k->graph = g->sizes->make(g->sizes->source, g, sizes);
    if (k->graph) return k;
    tpi_mfree(k);
    return NULL;
}

/* What was not used for longest goes. */
static void drop_beyond(kept_graph *k, int most) {
    while (k && --most) k = k->next;
    if (!k) return;
    forget(k->next);
    k->next = NULL;
}

tp_compiled *tpi_graph_for(tp_compiled *g, tp_tensors inputs) {
    tpi_graph_sizes *s = g->sizes;
    int64_t sizes[TPI_SIZE_SYMBOLS];
    misfit m;
    if (!are_comparable(g, inputs)) return tp_compiled_retain(g); /* whose run says what is wrong */
    if (!find_sizes(g, inputs, sizes, &m)) {
        say_misfit(g, inputs, sizes, &m);
        return NULL;
    }
    bool other = false;
    for (int32_t i = 0; i < s->nsymbols; i++) {
        if (sizes[i] < 0) sizes[i] = s->symbols[i].size;
        other |= sizes[i] != s->symbols[i].size;
    }
    if (!other) return tp_compiled_retain(g);
    pthread_mutex_lock(&s->lock);
    kept_graph **at = find_kept(s, sizes), *k = *at;
    if (k)
        *at = k->next;
    else
        k = make_kept(g, sizes);
    if (k) {
        k->next = s->kept;
        s->kept = k;
        drop_beyond(k, KEPT);
    }
    tp_compiled *graph = k ? tp_compiled_retain(k->graph) : NULL;
    pthread_mutex_unlock(&s->lock);
    return graph;
}

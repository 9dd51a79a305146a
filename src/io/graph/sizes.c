/* Sizes that may change, in a graph's file: {"symbols": [[name, size, least, most]], "places": [[None or [symbol,
 * factor, offset]]] per input and dim, "rules": [[path, [[factor, [symbol, ...]], ...]]]}. A rule leads to a number of
 * the file, and says what that gains: a sum of multiples of products of how much larger the symbols are than they were.
 * A graph for other sizes is what is read from the file with these numbers put in. */
#include <string.h>
#include "io/checkpoint/checkpoint.h"
#include "io/graph/file.h"
#include "io/checkpoint/saved.h"

enum { MOST_RULES = 1 << 24, MOST_TERMS = 1 << 12, MOST_FACTORS = 16, DEEPEST = 16 };

typedef struct term {
    double factor; /* halves come with squares */
    int32_t n;
    int32_t *symbols;
} term;
typedef struct rule {
    tp_saved *at;
    int64_t was;
    int64_t n;
    term *terms;
} rule;
typedef struct source {
    tp_file *file;
    const tpi_size_symbol *symbols;
    int32_t nsymbols;
    int64_t nrules;
    rule *rules;
} source;

static void drop(void *context) { tp_close_file(((source *)context)->file); }

static double gain(const source *s, const rule *r, const int64_t *sizes) {
    double total = 0;
    for (int64_t i = 0; i < r->n; i++) {
        double product = r->terms[i].factor;
        for (int32_t k = 0; k < r->terms[i].n; k++)
            product *= (double)(sizes[r->terms[i].symbols[k]] - s->symbols[r->terms[i].symbols[k]].size);
        total += product;
    }
    return total;
}

static tp_compiled *make(void *context, const tp_compiled *g, const int64_t *sizes) {
    source *s = context;
    bool ok = true;
    for (int64_t i = 0; i < s->nrules; i++) {
        double now = (double)s->rules[i].was + gain(s, &s->rules[i], sizes);
        ok = ok && now > -0x1p52 && now < 0x1p52;
        s->rules[i].at->as.number = tp_int(ok ? (int64_t)now : 0);
    }
    if (!ok) tpi_fail(TP_ERR_VALUE, "argument 'inputs': sizes beyond what the graph can count");
    tp_compiled *made = ok ? tpi_graph_read(tp_file_value(s->file), g) : NULL;
    for (int64_t i = 0; i < s->nrules; i++) s->rules[i].at->as.number = tp_int(s->rules[i].was);
    if (!made &&
        tp_error_code() == TP_ERR_IO) { /* the file is fine: what was captured has no counterpart at these sizes */
        tp_error_clear();
        tpi_fail(TP_ERR_VALUE, "argument 'inputs': what the graph does cannot be done at these sizes (%s is %lld%s)",
                 s->symbols[0].name, (long long)sizes[0], s->nsymbols > 1 ? ", ..." : "");
    }
    return made;
}

/* ---- Reading ---- */
static tp_saved *follow(const tp_saved *root, const tp_saved *path, bool *ok) {
    const tp_saved *at = root;
    int64_t n = tpi_graph_list(path, DEEPEST, ok);
    for (int64_t i = 0; i < n && *ok; i++) {
        const tp_saved *key = tp_saved_at(path, i);
        tp_saved_kind kind = tp_saved_kind_of(at);
        if (tp_saved_kind_of(key) == TP_SAVED_TEXT) {
            *ok = kind == TP_SAVED_DICT && tp_saved_has(at, tp_saved_text(key));
            at = *ok ? tp_saved_get(at, tp_saved_text(key)) : NULL;
        } else {
            *ok = kind == TP_SAVED_LIST || kind == TP_SAVED_TUPLE;
            at = *ok ? tp_saved_at(at, tpi_graph_number(key, 0, tp_saved_count(at) - 1, ok)) : NULL;
        }
    }
    *ok = *ok && tp_saved_kind_of(at) == TP_SAVED_NUMBER && at->as.number.kind == TP_SCALAR_INT;
    return (tp_saved *)at; /* a number of this file's, which nobody else looks at */
}

static bool read_rule(tpi_graph_memory *memory, const tp_saved *root, const tp_saved *v, int32_t nsymbols, rule *r) {
    bool ok = tpi_graph_list(v, 2, &(bool){true}) == 2;
    r->at = ok ? follow(root, tp_saved_at(v, 0), &ok) : NULL;
    if (!ok) return tpi_graph_broken("a rule of sizes leads nowhere");
    const tp_saved *terms = tp_saved_at(v, 1);
    r->was = tp_scalar_to_int(r->at->as.number);
    r->n = tpi_graph_list(terms, MOST_TERMS, &ok);
    if (!(r->terms = tpi_graph_memory_alloc(memory, (size_t)r->n * sizeof *r->terms))) return false;
    for (int64_t i = 0; i < r->n && ok; i++) {
        const tp_saved *one = tp_saved_at(terms, i);
        if (!(ok = tpi_graph_list(one, 2, &ok) == 2 && tp_saved_kind_of(tp_saved_at(one, 0)) == TP_SAVED_NUMBER)) break;
        term *t = &r->terms[i];
        t->factor = tp_scalar_to_double(tp_saved_number(tp_saved_at(one, 0)));
        t->n = (int32_t)tpi_graph_list(tp_saved_at(one, 1), MOST_FACTORS, &ok);
        if (!(t->symbols = tpi_graph_memory_alloc(memory, (size_t)t->n * sizeof *t->symbols))) return false;
        for (int32_t k = 0; k < t->n; k++)
            t->symbols[k] = (int32_t)tpi_graph_number(tp_saved_at(tp_saved_at(one, 1), k), 0, nsymbols - 1, &ok);
    }
    return ok || tpi_graph_broken("a rule of sizes");
}

static int64_t bound(const tp_saved *v, int64_t if_none, bool *ok) {
    return tp_saved_kind_of(v) == TP_SAVED_NONE ? if_none : tpi_graph_number(v, 0, INT64_MAX, ok);
}

static bool read_symbol(tpi_graph_memory *memory, const tp_saved *v, tpi_size_symbol *symbol) {
    bool ok = tpi_graph_list(v, 4, &(bool){true}) == 4 && tp_saved_kind_of(tp_saved_at(v, 0)) == TP_SAVED_TEXT;
    if (!ok) return tpi_graph_broken("a size's name");
    const char *text = tp_saved_text(tp_saved_at(v, 0));
    char *name = tpi_graph_memory_alloc(memory, strlen(text) + 1);
    if (!name) return false;
    *symbol = (tpi_size_symbol){strcpy(name, text), tpi_graph_number(tp_saved_at(v, 1), 0, INT64_MAX, &ok),
                                bound(tp_saved_at(v, 2), 0, &ok), bound(tp_saved_at(v, 3), INT64_MAX, &ok)};
    return ok || tpi_graph_broken("a size's bounds");
}

static tpi_symbolic_size *read_dims(tp_compiled *g, int32_t input, const tp_saved *v, int32_t nsymbols) {
    const int ndim = g->values[g->inputs[input]].ndim;
    bool ok = tpi_graph_list(v, ndim, &(bool){true}) == ndim;
    tpi_symbolic_size *saved_dims = tpi_graph_memory_alloc(&g->memory, (size_t)ndim * sizeof *saved_dims);
    for (int d = 0; saved_dims && d < ndim && ok; d++) {
        const tp_saved *one = tp_saved_at(v, d);
        saved_dims[d].symbol = -1;
        if (tp_saved_kind_of(one) == TP_SAVED_NONE) continue;
        ok = tpi_graph_list(one, 3, &(bool){true}) == 3;
        if (ok)
            saved_dims[d] = (tpi_symbolic_size){(int32_t)tpi_graph_number(tp_saved_at(one, 0), 0, nsymbols - 1, &ok),
                                                tpi_graph_number(tp_saved_at(one, 1), 1, INT32_MAX, &ok),
                                                tpi_graph_number(tp_saved_at(one, 2), INT32_MIN, INT32_MAX, &ok)};
    }
    if (ok) return saved_dims;
    tpi_graph_broken("where sizes are");
    return NULL;
}

bool tpi_graph_read_sizes(tp_compiled *g, tp_file *file) {
    const tp_saved *root = tp_file_value(file), *v = tp_saved_has(root, "sizes") ? tp_saved_get(root, "sizes") : NULL;
    if (!v) return false;
    if (tp_saved_kind_of(v) != TP_SAVED_DICT) return tpi_graph_broken("its sizes");
    const tp_saved *symbols = tp_saved_get(v, "symbols"), *saved_dims = tp_saved_get(v, "places"),
                   *rules = tp_saved_get(v, "rules");
    bool ok = true;
    int64_t nsymbols = tpi_graph_list(symbols, TPI_SIZE_SYMBOLS, &ok),
            ninputs = tpi_graph_list(saved_dims, g->ninputs, &ok), nrules = tpi_graph_list(rules, MOST_RULES, &ok);
    if (!ok || !nsymbols || ninputs != g->ninputs) return tpi_graph_broken("its sizes");
    source *from = tpi_graph_memory_alloc(&g->memory, sizeof *from);
    tpi_graph_sizes s = {.nsymbols = (int32_t)nsymbols, .make = make, .drop = drop, .source = from};
    s.symbols = tpi_graph_memory_alloc(&g->memory, (size_t)nsymbols * sizeof *s.symbols);
    s.dims = tpi_graph_memory_alloc(&g->memory, (size_t)ninputs * sizeof *s.dims);
    rule *all = tpi_graph_memory_alloc(&g->memory, (size_t)nrules * sizeof *all);
    if (!from || !s.symbols || !s.dims || !all) return false;
    for (int64_t i = 0; i < nsymbols; i++)
        if (!read_symbol(&g->memory, tp_saved_at(symbols, i), &s.symbols[i])) return false;
    for (int32_t i = 0; i < ninputs; i++)
        if (!(s.dims[i] = read_dims(g, i, tp_saved_at(saved_dims, i), s.nsymbols))) return false;
    for (int64_t i = 0; i < nrules; i++)
        if (!read_rule(&g->memory, root, tp_saved_at(rules, i), s.nsymbols, &all[i])) return false;
    *from = (source){file, s.symbols, s.nsymbols, nrules, all};
    if (!tpi_graph_set_sizes(g, &s)) return false;
    tpi_file_forget_tensors(file);
    return true;
}

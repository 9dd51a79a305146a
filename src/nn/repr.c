/* A module's text, as PyTorch prints it: the layer's options in brackets, children indented below. */
#include "nn/layer.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_n(tpi_text *t, const char *s, size_t n) {
    if (t->failed) return;
    if (t->n + n + 1 > t->capacity) {
        size_t capacity = (t->n + n + 1) * 2;
        char *more = tpi_realloc(t->s, capacity);
        if (!more) {
            t->failed = true;
            return;
        }
        t->s = more;
        t->capacity = capacity;
    }
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}
void tpi_text_add(tpi_text *t, const char *s) { add_n(t, s, strlen(s)); }

/* Python's repr of a float: the fewest digits that read back the same; an exponent below 1e-4 and from 1e16 on. */
static void add_float(tpi_text *t, double v) {
    char b[40], plain[40];
    if (isinf(v) || isnan(v)) {
        tpi_text_add(t, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    int digits = 1;
    for (; digits < 17; digits++) {
        snprintf(b, sizeof b, "%.*e", digits - 1, v);
        double back = 0;
        if (sscanf(b, "%lf", &back) == 1 && back == v) break;
    }
    int exponent = 0;
    snprintf(b, sizeof b, "%.*e", digits - 1, v);
    sscanf(strchr(b, 'e') + 1, "%d", &exponent);
    if (v != 0 && (exponent < -4 || exponent >= 16)) {
        tpi_text_add(t, b); /* 1e-05: C's exponents have two digits as Python's do */
        return;
    }
    int after = digits - 1 - exponent;
    snprintf(plain, sizeof plain, "%.*f", after > 0 ? after : 1, v);
    tpi_text_add(t, plain);
}

static void add_scalar(tpi_text *t, tp_scalar s) {
    char b[32];
    if (s.kind == TP_SCALAR_BOOL)
        tpi_text_add(t, s.as.i ? "True" : "False");
    else if (s.kind == TP_SCALAR_INT) {
        snprintf(b, sizeof b, "%lld", (long long)s.as.i);
        tpi_text_add(t, b);
    } else
        add_float(t, tp_scalar_to_double(s));
}

void tpi_text_value(tpi_text *t, tp_value v, bool quoted) {
    switch (v.kind) {
    case TP_K_NONE: tpi_text_add(t, "None"); break;
    case TP_K_SCALAR: add_scalar(t, v.as.scalar); break;
    case TP_K_STRING:
        tpi_text_add(t, quoted ? "'" : "");
        tpi_text_add(t, v.as.string);
        tpi_text_add(t, quoted ? "'" : "");
        break;
    case TP_K_INTS:
    case TP_K_FLOATS: {
        bool ints = v.kind == TP_K_INTS;
        int64_t n = ints ? v.as.ints.n : v.as.floats.n;
        tpi_text_add(t, "(");
        for (int64_t i = 0; i < n; i++) {
            tpi_text_add(t, i ? ", " : "");
            add_scalar(t, ints ? tp_int(v.as.ints.v[i]) : tp_float(v.as.floats.v[i]));
        }
        tpi_text_add(t, n == 1 ? ",)" : ")");
        break;
    }
    default: tpi_text_add(t, "...");
    }
}

static void add_module(tpi_text *t, tp_module *m);

/* The text with every line but the first two spaces further in. */
static void add_indented(tpi_text *t, const char *s) {
    for (const char *line; (line = strchr(s, '\n')); s = line + 1) {
        add_n(t, s, (size_t)(line - s) + 1);
        tpi_text_add(t, "  ");
    }
    tpi_text_add(t, s);
}

static char *text_of(tp_module *m) { /* NULL: out of memory */
    tpi_text t = {0};
    add_module(&t, m);
    if (t.failed) {
        tpi_mfree(t.s);
        t.s = NULL;
    }
    return t.s;
}

/* The children from i on that print alike count as one where the module is a list of layers. */
static int64_t run_of(tp_module *m, int64_t i, const char *first) {
    int64_t end = i + 1;
    for (; m->compressed && end < m->nchildren; end++) {
        char *next = text_of(m->children[end].module);
        bool same = next && !strcmp(next, first);
        tpi_mfree(next);
        if (!same) break;
    }
    return end;
}

static void add_module(tpi_text *t, tp_module *m) {
    tpi_text extra = {0};
    if (m->layer && m->layer->repr) m->layer->repr(m, &extra);
    tpi_text_add(t, m->name);
    tpi_text_add(t, "(");
    if (!m->nchildren) {
        if (extra.n) tpi_text_add(t, extra.s);
        tpi_text_add(t, ")");
    } else {
        tpi_text_add(t, "\n");
        if (extra.n) {
            tpi_text_add(t, "  ");
            tpi_text_add(t, extra.s);
            tpi_text_add(t, "\n");
        }
        for (int64_t i = 0; i < m->nchildren;) {
            char *child = text_of(m->children[i].module);
            if (!child) {
                t->failed = true;
                break;
            }
            int64_t end = run_of(m, i, child);
            char head[96];
            if (end == i + 1)
                snprintf(head, sizeof head, "  (%.60s): ", m->children[i].name);
            else
                snprintf(head, sizeof head, "  (%.20s-%.20s): %lld x ", m->children[i].name, m->children[end - 1].name,
                         (long long)(end - i));
            tpi_text_add(t, head);
            add_indented(t, child);
            tpi_text_add(t, "\n");
            tpi_mfree(child);
            i = end;
        }
        tpi_text_add(t, ")");
    }
    t->failed = t->failed || extra.failed;
    tpi_mfree(extra.s);
}

int64_t tp_module_format(tp_module *m, char *out, size_t room) {
    char *s = TPI_HANDLE_GIVEN(m, "a module") ? text_of(m) : NULL;
    if (!s) return -1;
    int64_t n = (int64_t)strlen(s);
    if (room) snprintf(out, room, "%s", s);
    tpi_mfree(s);
    return n;
}

bool tp_module_print(tp_module *m) {
    char *s = TPI_HANDLE_GIVEN(m, "a module") ? text_of(m) : NULL;
    if (!s) return false;
    bool fine = printf("%s\n", s) >= 0;
    tpi_mfree(s);
    return fine || tpi_refuse(TP_ERR_IO, "cannot write to stdout");
}

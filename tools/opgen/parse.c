/* The expression language: C's expressions, field access, lists and named arguments. Precedence climbing. */
#include "opgen.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    const char *p;
    location at;
} parser;

static void skip(parser *x) {
    while (isspace((unsigned char)*x->p)) {
        if (*x->p == '\n') x->at.line++;
        x->p++;
    }
}

static bool accept(parser *x, const char *token) {
    skip(x);
    size_t n = strlen(token);
    if (strncmp(x->p, token, n)) return false;
    x->p += n;
    return true;
}

static void expect(parser *x, const char *token, const char *where) {
    if (!accept(x, token)) fail(x->at, "expected '%s' %s, found '%.20s'", token, where, x->p);
}

static expr *make(parser *x, expr_kind kind, const char *name, int n) {
    expr *e = need(sizeof *e);
    e->kind = kind;
    e->at = x->at;
    e->n = n;
    e->name = name ? copy_n(name, strlen(name)) : NULL;
    e->arg = need(sizeof(expr *) * (size_t)(n ? n : 1));
    return e;
}

static bool name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static char *parse_name(parser *x) {
    skip(x);
    const char *s = x->p;
    if (!name_start(*s)) return NULL;
    while (isalnum((unsigned char)*x->p) || *x->p == '_') x->p++;
    return copy_n(s, (size_t)(x->p - s));
}

static expr *ternary(parser *x);

static expr *number(parser *x) {
    char *end;
    const char *s = x->p;
    double f = strtod(s, &end);
    bool whole = true;
    for (const char *p = s; p < end; p++) whole = whole && isdigit((unsigned char)*p);
    expr *e = make(x, whole ? E_INT : E_FLOAT, NULL, 0);
    e->f = f;
    e->i = whole ? strtoll(s, NULL, 10) : 0;
    e->name = copy_n(s, (size_t)(end - s));
    x->p = end;
    return e;
}

/* Arguments up to the closing token; `name=value` is a named one. */
static void arguments(parser *x, expr *e, const char *close) {
    expr *list[64];
    int n = 0;
    if (!accept(x, close)) {
        do {
            if (n == 64) fail(x->at, "more than 64 arguments");
            skip(x);
            const char *back = x->p;
            char *name = parse_name(x);
            skip(x);
            if (name && *x->p == '=' && x->p[1] != '=') {
                x->p++;
                expr *named = make(x, E_NAMED, name, 1);
                named->arg[0] = ternary(x);
                list[n++] = named;
            } else {
                x->p = back;
                list[n++] = ternary(x);
            }
        } while (accept(x, ","));
        expect(x, close, "after the arguments");
    }
    expr **all = need(sizeof(expr *) * (size_t)(e->n + n + 1));
    memcpy(all, e->arg, sizeof(expr *) * (size_t)e->n);
    memcpy(all + e->n, list, sizeof(expr *) * (size_t)n);
    e->arg = all;
    e->n += n;
}

static expr *primary(parser *x) {
    skip(x);
    char c = *x->p;
    if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)x->p[1]))) return number(x);
    if (accept(x, "(")) {
        expr *e = ternary(x);
        expect(x, ")", "to close the bracket");
        return e;
    }
    if (accept(x, "[")) {
        expr *e = make(x, E_LIST, NULL, 0);
        arguments(x, e, "]");
        return e;
    }
    if (c == '"') {
        const char *s = ++x->p;
        while (*x->p && *x->p != '"') x->p++;
        expr *e = make(x, E_STRING, NULL, 0);
        e->name = copy_n(s, (size_t)(x->p - s));
        expect(x, "\"", "to close the text");
        return e;
    }
    char *name = parse_name(x);
    if (!name)
        fail(x->at, "expected a number, a name or '(', found '%.20s'", *x->p ? x->p : "the end of the expression");
    if (accept(x, "(")) {
        expr *e = make(x, E_CALL, name, 0);
        arguments(x, e, ")");
        return e;
    }
    return make(x, E_NAME, name, 0);
}

static expr *postfix(parser *x) {
    expr *e = primary(x);
    while (skip(x), *x->p == '.' && name_start(x->p[1])) {
        x->p++;
        expr *f = make(x, E_FIELD, NULL, 1);
        f->name = parse_name(x);
        f->arg[0] = e;
        if (*x->p == '(') {
            x->p++;
            f->called = true;
            arguments(x, f, ")");
        }
        e = f;
    }
    return e;
}

static expr *unary(parser *x) {
    skip(x);
    char c = *x->p;
    if (c == '-' || c == '+' || c == '~' || (c == '!' && x->p[1] != '=')) {
        x->p++;
        char op[2] = {c, 0};
        expr *e = make(x, E_UNARY, op, 1);
        e->arg[0] = unary(x);
        return c == '+' ? e->arg[0] : e;
    }
    return postfix(x);
}

static const struct {
    const char *token;
    int level;
} binaries[] = {
    {"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<=", 7}, {">=", 7}, {"<<", 8}, {">>", 8}, {"|", 3},
    {"^", 4},  {"&", 5},  {"<", 7},  {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10},
};

static expr *binary(parser *x, int level) {
    expr *left = unary(x);
    for (;;) {
        skip(x);
        int found = -1;
        for (size_t i = 0; i < sizeof binaries / sizeof *binaries && found < 0; i++)
            if (!strncmp(x->p, binaries[i].token, strlen(binaries[i].token))) found = (int)i;
        if (found < 0 || binaries[found].level < level) return left;
        x->p += strlen(binaries[found].token);
        expr *e = make(x, E_BINARY, binaries[found].token, 2);
        e->arg[0] = left;
        e->arg[1] = binary(x, binaries[found].level + 1);
        left = e;
    }
}

static expr *ternary(parser *x) {
    expr *c = binary(x, 1);
    if (!accept(x, "?")) return c;
    expr *e = make(x, E_TERNARY, NULL, 3);
    e->arg[0] = c;
    e->arg[1] = ternary(x);
    expect(x, ":", "in 'condition ? a : b'");
    e->arg[2] = ternary(x);
    return e;
}

expr *parse_expr(const char *s, location at) {
    parser x = {s, at};
    expr *e = ternary(&x);
    skip(&x);
    if (*x.p) fail(x.at, "expected the end of the expression, found '%.30s'", x.p);
    return e;
}

expr **parse_args(const char *s, location at, int *n, const char **rest) {
    parser x = {s, at};
    expr holder = {0};
    holder.arg = need(sizeof(expr *));
    skip(&x);
    if (*x.p && *x.p != ':' && *x.p != ';') {
        do {
            skip(&x);
            const char *back = x.p;
            char *name = parse_name(&x);
            skip(&x);
            expr *e;
            if (name && *x.p == '=' && x.p[1] != '=') {
                x.p++;
                e = make(&x, E_NAMED, name, 1);
                e->arg[0] = binary(&x, 1);
            } else {
                x.p = back;
                e = binary(&x, 1);
            }
            expr **all = need(sizeof(expr *) * (size_t)(holder.n + 1));
            memcpy(all, holder.arg, sizeof(expr *) * (size_t)holder.n);
            all[holder.n++] = e;
            holder.arg = all;
        } while (accept(&x, ","));
    }
    skip(&x);
    *rest = x.p;
    *n = holder.n;
    return holder.arg;
}

block *parse_block(const char *s, location at) {
    parser x = {s, at};
    block *b = need(sizeof *b);
    b->at = at;
    b->name = need(sizeof(char *) * 32);
    b->type = need(sizeof(char *) * 32);
    b->value = need(sizeof(expr *) * 32);
    for (;;) {
        skip(&x);
        if (!*x.p) break;
        if (b->n == 32) fail(x.at, "more than 32 parts");
        const char *back = x.p;
        location back_at = x.at;
        char *name = parse_name(&x), *kind = NULL;
        skip(&x);
        if (name && *x.p == ':') {
            x.p++;
            kind = parse_name(&x);
            skip(&x);
        }
        if (name && *x.p == '=' && x.p[1] != '=') {
            x.p++;
            b->name[b->n] = name;
            b->type[b->n] = kind;
        } else {
            x.p = back;
            x.at = back_at;
        }
        b->value[b->n++] = ternary(&x);
        skip(&x);
        if (!*x.p) break;
        expect(&x, ";", "between the parts");
    }
    if (!b->n) fail(at, "expected an expression");
    return b;
}

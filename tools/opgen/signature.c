/* The head of an operator's stanza: its name, its arguments with types and defaults, its results. */
#include "opgen.h"
#include <ctype.h>
#include <string.h>

static type parse_type(const char **s, location at, char **written) {
    const char *start = spaces(*s);
    *s = start;
    while (**s && **s != ' ') (*s)++;
    char *t = copy_n(start, (size_t)(*s - start));
    *written = t;
    for (int i = 0; i < T_COUNT; i++)
        if (!strcmp(types[i].name, t)) return (type)i;
    if (!strcmp(t, "dtype")) return T_DTYPE;
    if (!strcmp(t, "device")) return T_DEVICE;
    size_t n = strlen(t);
    if (!strncmp(t, "int[", 4)) return t[n - 1] == '?' ? T_INTS_OPT : T_INTS; /* int[2] */
    if (!strncmp(t, "float[", 6)) return t[n - 1] == '?' ? T_FLOATS_OPT : T_FLOATS;
    if (!strncmp(t, "bool[", 5)) return T_BOOLS;
    fail(at,
         "unknown type '%s'; expected Tensor, Operand, Scalar, int, float, bool (each with ? or []), str, dtype?, "
         "device?, layout? or Generator?",
         t);
}

/* The text of a default ends at the comma or bracket that closes the argument. */
static char *default_text(const char **s) {
    const char *start = spaces(*s);
    *s = start;
    int depth = 0;
    bool quoted = false;
    for (; **s; (*s)++) {
        char c = **s;
        if (c == '"') quoted = !quoted;
        if (quoted) continue;
        if (c == '[' || c == '(') depth++;
        if ((c == ']' || c == ')') && depth-- == 0) break;
        if (c == ',' && depth == 0) break;
    }
    const char *end = *s;
    while (end > start && end[-1] == ' ') end--;
    return copy_n(start, (size_t)(end - start));
}

static void parse_results(op *o, const char *s) {
    s = spaces(s);
    if (!strncmp(s, "bool", 4) || !strncmp(s, "int", 3) || !strncmp(s, "float", 5) || !strncmp(s, "Scalar", 6)) {
        o->plain = true;
        o->plain_type = word(&s);
        o->nresults = 1;
        o->results[0].name = "result";
        return;
    }
    bool many = *s == '(';
    if (many) s++;
    do {
        if (o->nresults == 6) fail(o->at, "more than 6 results");
        s = spaces(s);
        const char *p = s;
        while (*p && !strchr(" ,)", *p)) p++;
        char *t = copy_n(s, (size_t)(p - s));
        s = p;
        result *r = &o->results[o->nresults++];
        if (!strcmp(t, "Tensor"))
            r->type = T_TENSOR;
        else if (!strcmp(t, "Tensor[]"))
            r->type = T_TENSORS;
        else
            fail(o->at, "a result is Tensor, Tensor[], bool, int, float or Scalar, not '%s'", t);
        r->name = word(&s);
        if (!*r->name) r->name = many ? format("out%d", o->nresults - 1) : "result";
        s = spaces(s);
    } while (many && *s == ',' && s++);
    if (many && *s != ')') fail(o->at, "expected ')' after the results");
}

void parse_signature(op *o, const char *s) {
    o->signature = copy_n(s, strlen(s));
    s = spaces(s);
    const char *p = s;
    while (isalnum((unsigned char)*p) || *p == '_' || *p == '.') p++;
    o->name = copy_n(s, (size_t)(p - s));
    if (!*o->name) fail(o->at, "expected the operator's name after 'op'");
    o->cname = copy_n(o->name, strlen(o->name));
    for (char *c = o->cname; *c; c++)
        if (*c == '.') *c = '_';
    s = spaces(p);
    if (*s++ != '(') fail(o->at, "expected '(' after the name '%s'", o->name);
    for (s = spaces(s); *s != ')'; s = spaces(s)) {
        if (o->nargs == 24) fail(o->at, "more than 24 arguments");
        arg *a = &o->args[o->nargs];
        a->fixed = C_TYPES;
        a->type = parse_type(&s, o->at, &a->type_text);
        a->name = word(&s);
        if (!*a->name) fail(o->at, "expected a name after the type '%s'", a->type_text);
        if (find_arg(o, a->name) >= 0) fail(o->at, "two arguments are called '%s'", a->name);
        s = spaces(s);
        if (*s == '=') {
            s++;
            a->fallback_text = default_text(&s);
            a->fallback = parse_expr(a->fallback_text, o->at);
        }
        o->nargs++;
        s = spaces(s);
        if (*s == ',')
            s++;
        else if (*s != ')')
            fail(o->at, "expected ',' or ')' after the argument '%s', found '%.10s'", a->name, s);
    }
    s = spaces(s + 1);
    if (strncmp(s, "->", 2)) fail(o->at, "expected '->' and the result after the arguments");
    parse_results(o, s + 2);
}

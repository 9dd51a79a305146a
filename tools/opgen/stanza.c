/* Stanzas: from lines of a table to operators, with every mistake named by file and line. */
#include "facts.h"
#include "registers.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

op **ops;
int nops;

const type_info types[T_COUNT] = {
    [T_TENSOR] = {"Tensor", "tp_tensor *", "NULL", 't', "tensor"},
    [T_TENSOR_OPT] = {"Tensor?", "tp_tensor *", "NULL", 't', "tensor"},
    [T_TENSORS] = {"Tensor[]", "tp_tensors", "(tp_tensors){NULL, 0}", 'l', "tensors"},
    [T_TENSORS_OPT] = {"Tensor?[]", "tp_tensors", "(tp_tensors){NULL, 0}", 'l', "tensors"},
    [T_OPERAND] = {"Operand", "tp_operand", "tp_operand_tensor(NULL)", 'o', "operand"},
    [T_SCALAR] = {"Scalar", "tp_scalar", "tp_no_scalar()", 's', "scalar"},
    [T_SCALAR_OPT] = {"Scalar?", "tp_scalar", "tp_no_scalar()", 's', "scalar"},
    [T_INT] = {"int", "int64_t", "TP_NONE", 'i', "int"},
    [T_INT_OPT] = {"int?", "int64_t", "TP_NONE", 'i', "int"},
    [T_INTS] = {"int[]", "tp_ints", "tp_no_ints()", 'n', "ints"},
    [T_INTS_OPT] = {"int[]?", "tp_ints", "tp_no_ints()", 'n', "ints"},
    [T_FLOAT] = {"float", "double", "TP_NO_FLOAT", 'f', "float"},
    [T_FLOAT_OPT] = {"float?", "double", "TP_NO_FLOAT", 'f', "float"},
    [T_FLOATS] = {"float[]", "tp_floats", "tp_no_floats()", 'F', "floats"},
    [T_FLOATS_OPT] = {"float[]?", "tp_floats", "tp_no_floats()", 'F', "floats"},
    [T_SCALARS] = {"Scalar[]", "tp_scalars", "tp_no_scalars()", 'S', "scalars"},
    [T_SCALARS_OPT] = {"Scalar[]?", "tp_scalars", "tp_no_scalars()", 'S', "scalars"},
    [T_BOOL] = {"bool", "bool", "false", 'b', "bool"},
    [T_BOOL_OPT] = {"bool?", "int64_t", "TP_NONE", 'q', "truth"},
    [T_BOOLS] = {"bool[]", "tp_ints", "tp_no_ints()", 'B', "ints"},
    [T_STR] = {"str", "const char *", "NULL", 'c', "string"},
    [T_STR_OPT] = {"str?", "const char *", "NULL", 'c', "string"},
    [T_DTYPE] = {"dtype?", "tp_dtype", "TP_NO_DTYPE", 'd', "dtype"},
    [T_DEVICE] = {"device?", "tp_device", "(tp_device){0, 0}", 'D', "device"},
    [T_LAYOUT] = {"layout?", "tp_layout", "TP_PRESERVE", 'L', "layout"},
    [T_GENERATOR] = {"Generator?", "tp_generator *", "NULL", 'g', "generator"},
};
/* The space between a C type and a name: none after a star. */
const char *space(type t) { return types[t].c[strlen(types[t].c) - 1] == '*' ? "" : " "; }

const char *kind_names[] = {"map", "fold", "scan", "view", "compose", "compose", "native", "native"};

op *find_op(const char *name) {
    for (int i = 0; i < nops; i++)
        if (!strcmp(ops[i]->name, name)) return ops[i];
    for (int i = 0; i < nops; i++) /* max_dim for max.dim */
        if (!strcmp(ops[i]->cname, name)) return ops[i];
    return NULL;
}

int find_arg(const op *o, const char *name) {
    for (int i = 0; i < o->nargs; i++)
        if (!strcmp(o->args[i].name, name)) return i;
    return -1;
}

/* ---- signatures ---- */
static type parse_type(const char **s, place at, char **written) {
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

/* ---- lines of a stanza ---- */
/* NAME, or NAME, with ARG NAME: an optional argument picks the second. */
static const char *parse_marks(const char **rest, place at) {
    static const char *const words[][2] = {{"kept", "KEPT"}, {"written", "WRITTEN"}};
    const char *given = word(rest);
    for (int i = 0; i < 2; i++)
        if (!strcmp(given, words[i][0])) return words[i][1];
    fail(at, "marks are 'kept' or 'written'");
    return NULL;
}

static void parse_node(op *o, const char *s, place at) {
    o->node = word(&s);
    if (*(s = spaces(s)) == ',') {
        s++;
        if (!starts(&s, "with")) fail(at, "expected 'with ARGUMENT NAME' after the comma");
        char *name = word(&s);
        o->node_arg = find_arg(o, name);
        if (o->node_arg < 0) fail(at, "%s has no argument '%s'", o->name, name);
        type t = o->args[o->node_arg].type;
        if (t != T_INTS_OPT && t != T_TENSOR_OPT)
            fail(at, "'%s' is neither an optional tensor nor optional ints", name);
        o->node_with = word(&s);
    }
    if (!*o->node || (o->node_with && !*o->node_with) || *spaces(s))
        fail(at, "expected 'node NAME' or 'node NAME, with ARGUMENT NAME'");
}

static void set_kind(op *o, kind k, const char *s, place at) {
    if (o->kind != K_NONE) fail(at, "'%s' has a kind already (%s)", o->name, kind_names[o->kind]);
    o->kind = k;
    o->kind_text = copy_n(s, strlen(s));
}

static void parse_over(op *o, const char *s, place at) {
    o->of = word(&s);
    if (starts(&s, "over")) o->over = word(&s);
    if (starts(&s, "keep")) o->keep = word(&s);
    if (starts(&s, "each")) o->each = true;
    if (*spaces(s)) fail(at, "expected 'ARG over DIM keep KEEPDIM each', found '%s'", s);
    if (find_arg(o, o->of) < 0) fail(at, "'%s' is not an argument of %s", o->of, o->name);
    if (o->over && find_arg(o, o->over) < 0) fail(at, "'%s' is not an argument of %s", o->over, o->name);
    if (o->keep && find_arg(o, o->keep) < 0) fail(at, "'%s' is not an argument of %s", o->keep, o->name);
}

static void parse_dtype(op *o, const char *s, place at) {
    if (starts(&s, "promote")) {
    } else if (starts(&s, "float"))
        o->rule_float = true;
    else if (starts(&s, "sum"))
        o->rule_sum = true;
    else if (strncmp(spaces(s), "->", 2))
        fail(at, "expected 'promote', 'float' or 'sum', found '%s'", s);
    s = spaces(s);
    if (!*s) return;
    if (strncmp(s, "->", 2)) fail(at, "expected '->' and the results' types, found '%s'", s);
    s += 2;
    for (int i = 0; i < 6; i++) {
        if (starts(&s, "same"))
            o->result_kind[i] = RESULT_SAME;
        else if (starts(&s, "bool"))
            o->result_kind[i] = RESULT_BOOL;
        else if (starts(&s, "real"))
            o->result_kind[i] = RESULT_REAL;
        else if (starts(&s, "int64"))
            o->result_kind[i] = RESULT_INT64;
        else if (starts(&s, "truth"))
            o->result_kind[i] = RESULT_TRUTH;
        else
            fail(at, "expected 'same', 'bool', 'truth', 'real' or 'int64', found '%s'", s);
        s = spaces(s);
        if (*s != ',') break;
        s++;
    }
    if (*spaces(s)) fail(at, "expected the end of the line, found '%s'", s);
}

static void parse_types(op *o, const char *s, place at) {
    o->types = 0;
    while (*(s = spaces(s))) {
        if (starts(&s, "bool"))
            o->types |= CAT_BOOL;
        else if (starts(&s, "int"))
            o->types |= CAT_INT;
        else if (starts(&s, "float"))
            o->types |= CAT_FLOAT;
        else if (starts(&s, "single")) {
            o->types |= CAT_FLOAT;
            o->no_half = true;
        } else if (starts(&s, "complex"))
            o->types |= CAT_COMPLEX;
        else if (starts(&s, "all"))
            o->types |= 15;
        else if (starts(&s, "unsigned32"))
            o->types |= CAT_UNSIGNED;
        else if (starts(&s, "unsigned"))
            o->types |= CAT_UNSIGNED | CAT_UNSIGNED64;
        else if (starts(&s, "float8"))
            o->types |= CAT_FLOAT8;
        else if (starts(&s, "chalf"))
            o->types |= CAT_CHALF;
        else if (starts(&s, "bchalf"))
            o->types |= CAT_BCHALF;
        else if (starts(&s, "storage"))
            o->types |= CAT_STORAGE;
        else if (starts(&s, "any"))
            o->types |= 15 | CAT_STORAGE | CAT_OPAQUE;
        else
            fail(at, "expected any of 'bool int float single complex', found '%s'", s);
    }
}

static arg *tensor_arg(op *o, const char *name, place at) {
    int i = find_arg(o, name);
    if (i < 0) fail(at, "'%s' is not an argument of %s", name, o->name);
    if (!is_tensor(o->args[i].type) && !is_tensors(o->args[i].type)) fail(at, "'%s' is not a tensor", name);
    return &o->args[i];
}

static void parse_grad(op *o, const char *s, place at) {
    const char *colon = strchr(s, ':');
    if (!colon) fail(at, "expected 'grad ARG: EXPRESSION'");
    s = spaces(s);
    if (*s != '(') {
        char *name = word(&s);
        arg *a = tensor_arg(o, name, at);
        if (a->grad || a->nondiff || a->grad_group) fail(at, "'%s' has a derivative already", name);
        a->grad = parse_block(colon + 1, at);
        return;
    }
    if (o->ngroups == 4) fail(at, "more than 4 groups of derivatives");
    group *g = &o->groups[o->ngroups++];
    for (s++; *spaces(s) != ')'; s = spaces(s)) {
        char *name = word(&s);
        arg *a = tensor_arg(o, name, at);
        if (a->grad || a->nondiff || a->grad_group) fail(at, "'%s' has a derivative already", name);
        a->grad_group = o->ngroups;
        g->args[g->n++] = find_arg(o, name);
        s = spaces(s);
        if (*s == ',')
            s++;
        else if (*s != ')')
            fail(at, "expected ',' or ')' in the group of derivatives");
    }
    g->value = parse_block(colon + 1, at);
}

static void parse_sample(op *o, const char *s, place at, bool error) {
    if (o->nsamples == 40) fail(at, "more than 40 samples");
    sample *x = &o->samples[o->nsamples++];
    x->at = at;
    x->text = copy_n(s, strlen(s));
    const char *rest;
    x->args = parse_args(s, at, &x->n, &rest);
    if (error) {
        if (*rest != ':' || !*spaces(rest + 1)) fail(at, "expected ': words of the message' after the arguments");
        rest = spaces(rest + 1);
        x->error = copy_n(rest, strlen(rest));
        return;
    }
    while (*rest == ';') {
        rest = spaces(rest + 1);
        if (starts(&rest, "dtypes")) {
            const char *end = strchr(rest, ';');
            x->dtypes = end ? copy_n(rest, (size_t)(end - rest)) : copy_n(rest, strlen(rest));
            rest += strlen(x->dtypes);
        } else if (starts(&rest, "nograd2"))
            x->nograd2 = true;
        else if (starts(&rest, "nograd"))
            x->nograd = x->nograd2 = true;
        else
            fail(at, "expected 'dtypes ...', 'nograd' or 'nograd2', found '%s'", rest);
        rest = spaces(rest);
    }
    if (*rest) fail(at, "expected ',' or the end of the sample, found '%s'", rest);
}

/* Which of PyTorch's namespaces hold the operator. */
static void parse_names(op *o, const char *s, place at) {
    static const char *const known[] = {"torch",          "nn.functional", "linalg", "fft", "special",
                                        "signal.windows", "sparse",        "Tensor", "aten"};
    text t = {0};
    while (*(s = spaces(s))) {
        size_t n = strcspn(s, " \n"), k = 0;
        while (k < sizeof known / sizeof *known && (strlen(known[k]) != n || strncmp(known[k], s, n))) k++;
        if (k == sizeof known / sizeof *known)
            fail(at,
                 "expected any of 'torch nn.functional linalg fft special signal.windows sparse Tensor aten', found "
                 "'%s'",
                 s);
        put(&t, "%s%s", t.n ? " " : "", known[k]);
        s += n;
    }
    if (!t.n) fail(at, "expected a namespace after 'names'");
    o->names = t.s;
}

/* What must hold before anything is computed, and what to say otherwise. */
static void parse_check(op *o, const char *s, place at) {
    if (o->nchecks == 6) fail(at, "more than 6 checks");
    int n;
    const char *rest;
    expr **conditions = parse_args(s, at, &n, &rest);
    if (n != 1 || *rest != ':' || !*spaces(rest + 1)) fail(at, "expected 'check CONDITION : words of the message'");
    rest = spaces(rest + 1);
    static const char *const codes[][2] = {{"TypeError: ", "TP_ERR_TYPE"},
                                           {"ValueError: ", "TP_ERR_VALUE"},
                                           {"IndexError: ", "TP_ERR_INDEX"},
                                           {"NotImplementedError: ", "TP_ERR_MISSING"}};
    const char *code = "TP_ERR_RUNTIME";
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (!strncmp(rest, codes[i][0], strlen(codes[i][0]))) {
            code = codes[i][1];
            rest += strlen(codes[i][0]);
        }
    o->checks[o->nchecks++] = (check){conditions[0], code, copy_n(rest, strlen(rest))};
}

/* first NAME : CONDITION */
static void parse_first(op *o, const char *s, place at) {
    char *name = word(&s);
    s = spaces(s);
    if (!*name || *s != ':') fail(at, "expected 'first NAME : CONDITION'");
    if (o->kind != K_FOLD || !o->start || o->start->n != 1)
        fail(at, "%s: 'first' stands in a fold, after a 'start' of one variable", o->name);
    o->first = parse_expr(spaces(s + 1), at);
    o->start->name[1] = name;
    o->start->type[1] = "int64";
    o->start->value[1] = parse_expr("0", at);
    o->start->n = 2;
}

static const char *parse_cast(const char **s, place at) {
    static const char *const words[][2] = {{"none", "NOTHING"},    {"lower", "LOWER"}, {"float", "FLOAT"},
                                           {"promote", "PROMOTE"}, {"off", "OFF"},     {"refused", "REFUSED"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (starts(s, words[i][0])) return words[i][1];
    fail(at, "expected 'none', 'lower', 'float', 'promote', 'off' or 'refused', found '%s'", *s);
}

/* What automatic mixed precision does to the tensor arguments: `autocast float`, or `autocast none gpu float`. */
static void parse_autocast(op *o, const char *s, place at) {
    o->autocast = o->autocast_gpu = parse_cast(&s, at);
    s = spaces(s);
    if (starts(&s, "gpu")) o->autocast_gpu = parse_cast(&s, at);
    if (*spaces(s)) fail(at, "expected the end of the line, found '%s'", s);
}

static void parse_overlap(op *o, const char *s, place at) {
    while (*(s = spaces(s))) {
        if (starts(&s, "same"))
            o->overlap = OVERLAP_SAME;
        else if (starts(&s, "none"))
            o->overlap = OVERLAP_NONE;
        else if (starts(&s, "expanded"))
            o->expanded = true;
        else
            fail(at, "expected 'same', 'none' or 'expanded', found '%s'", s);
    }
}

static void parse_line(op *o, const char *s, place at) {
    const char *rest = s;
    if (starts(&rest, "doc"))
        o->doc = copy_n(rest, strlen(rest));
    else if (starts(&rest, "cname"))
        o->cname = word(&rest);
    else if (starts(&rest, "map")) {
        set_kind(o, K_MAP, rest, at);
        o->body = parse_block(rest, at);
    } else if (starts(&rest, "fold")) {
        set_kind(o, K_FOLD, rest, at);
        parse_over(o, rest, at);
    } else if (starts(&rest, "scan")) {
        set_kind(o, K_SCAN, rest, at);
        parse_over(o, rest, at);
    } else if (starts(&rest, "start"))
        o->start = parse_block(rest, at);
    else if (starts(&rest, "step"))
        o->step = parse_block(rest, at);
    else if (starts(&rest, "merge"))
        o->merge = parse_block(rest, at);
    else if (starts(&rest, "first"))
        parse_first(o, rest, at);
    else if (starts(&rest, "finish"))
        o->finish = parse_block(rest, at);
    else if (starts(&rest, "empty")) {
        o->empty_error = starts(&rest, "error")        ? "TP_ERR_RUNTIME"
                         : starts(&rest, "IndexError") ? "TP_ERR_INDEX"
                                                       : NULL;
        if (!o->empty_error) fail(at, "expected 'empty error' or 'empty IndexError'");
    } else if (starts(&rest, "view")) {
        set_kind(o, K_VIEW, rest, at);
        o->function = word(&rest);
    } else if (starts(&rest, "compose")) {
        const char *c = rest;
        char *first = word(&c);
        if (!strcmp(first, "c") && isalpha((unsigned char)*spaces(c))) {
            set_kind(o, K_COMPOSE_C, rest, at);
            o->function = word(&c);
        } else {
            set_kind(o, K_COMPOSE, rest, at);
            o->body = parse_block(rest, at);
        }
    } else if (starts(&rest, "native")) {
        set_kind(o, starts(&rest, "inplace") ? K_NATIVE_INPLACE : K_NATIVE, rest, at);
        o->function = word(&rest);
        if (!*o->function) fail(at, "expected the C function's name after 'native'");
    } else if (starts(&rest, "gpu")) {
        o->gpu = word(&rest);
        if (!*o->gpu) fail(at, "expected the C function's name after 'gpu'");
    } else if (starts(&rest, "host"))
        o->host = copy_n(rest, strlen(rest));
    else if (starts(&rest, "anywhere")) {
        o->anywhere = true;
        o->open = starts(&rest, "open");
    } else if (starts(&rest, "registers"))
        parse_registers(o, rest, at);
    else if (starts(&rest, "part"))
        o->part = true;
    else if (starts(&rest, "dtype"))
        parse_dtype(o, rest, at);
    else if (starts(&rest, "types"))
        parse_types(o, rest, at);
    else if (starts(&rest, "grad"))
        parse_grad(o, rest, at);
    else if (starts(&rest, "nondiff")) {
        if (!*rest) o->nondiff = true;
        while (*(rest = spaces(rest))) {
            tensor_arg(o, word(&rest), at)->nondiff = true;
            rest = spaces(rest);
            if (*rest == ',') rest++;
        }
    } else if (starts(&rest, "todo"))
        o->todo = true;
    else if (starts(&rest, "node"))
        parse_node(o, rest, at);
    else if (starts(&rest, "internal"))
        o->internal = true;
    else if (starts(&rest, "lazy")) {
        o->lazy = word(&rest);
        o->marks = "KEPT";
    } else if (starts(&rest, "marks"))
        o->marks = parse_marks(&rest, at);
    else if (starts(&rest, "arg")) {
        char *name = word(&rest);
        arg *a = tensor_arg(o, name, at);
        if (starts(&rest, "bool"))
            a->fixed = C_B8;
        else if (starts(&rest, "int64"))
            a->fixed = C_I64;
        else
            fail(at, "expected 'bool' or 'int64' after 'arg %s'", name);
    } else if (starts(&rest, "forms")) {
        while (*(rest = spaces(rest))) {
            if (starts(&rest, "method"))
                o->method = true;
            else if (starts(&rest, "inplace"))
                o->inplace = true;
            else if (starts(&rest, "out_elements"))
                o->out = o->out_elements = true;
            else if (starts(&rest, "out"))
                o->out = true;
            else if (starts(&rest, "internal"))
                o->internal = true;
            else
                fail(at, "expected any of 'method inplace out out_elements internal', found '%s'", rest);
        }
    } else if (starts(&rest, "overlap"))
        parse_overlap(o, rest, at);
    else if (starts(&rest, "names"))
        parse_names(o, rest, at);
    else if (starts(&rest, "autocast"))
        parse_autocast(o, rest, at);
    else if (starts(&rest, "batch"))
        parse_batch(o, rest, at);
    else if (starts(&rest, "check"))
        parse_check(o, rest, at);
    else if (starts(&rest, "sample"))
        parse_sample(o, rest, at, false);
    else if (starts(&rest, "error"))
        parse_sample(o, rest, at, true);
    else if (!parse_fact(o, s, at))
        fail(at,
             "unknown keyword at '%.30s'; expected doc, map, fold, scan, view, part, compose, native, gpu, host, "
             "anywhere, "
             "writes, registers, dtype, types, grad, nondiff, todo, node, "
             "forms, overlap, lazy, marks, names, autocast, batch, arg, cname, check, internal, draws, cost, gain, "
             "dynamic_shape, "
             "elementwise, linear, along, parts, shape_from, from_host, index, any_float, prologue, epilogue, "
             "named_tuple, "
             "numbers_first, accepts_number, symbol, "
             "sample or "
             "error",
             s);
}

op *add_op(const char *signature, const char *family, place at) {
    op *o = need(sizeof *o);
    o->at = at;
    o->kind = K_NONE;
    o->family = (char *)family;
    o->types = -1;
    o->writes_when = o->accepts_number = -1;
    op **more = need(sizeof(op *) * (size_t)(nops + 1));
    if (nops) memcpy(more, ops, sizeof(op *) * (size_t)nops);
    ops = more;
    ops[nops++] = o;
    parse_signature(o, signature);
    return o;
}

void read_table(const char *path) {
    int n;
    table_line *lines = read_lines(path, "op", &n);
    op *o = NULL;
    for (int i = 0; i < n; i++) {
        if (lines[i].head)
            o = add_op(lines[i].text, table_name(path), lines[i].at);
        else
            parse_line(o, lines[i].text, lines[i].at);
    }
}

/* ---- checks that need the whole stanza or the whole table ---- */
static void check_fold(op *o) {
    const char *name = kind_names[o->kind];
    if (!o->start || !o->step || !o->finish || (o->kind == K_FOLD && !o->merge))
        fail(o->at, "%s: a %s needs start, step, merge and finish", o->name, name);
    if (o->start->n > 4) fail(o->at, "%s: more than 4 state variables", o->name);
    for (int i = 0; i < o->start->n; i++)
        if (!o->start->name[i]) fail(o->at, "%s: 'start' is a list of 'name = value'", o->name);
}

static void check_derivatives(op *o) {
    if (o->kind == K_COMPOSE || o->kind == K_COMPOSE_C) {
        for (int i = 0; i < o->nargs; i++)
            if (o->args[i].grad)
                fail(o->at, "%s: a composition differentiates itself; remove its 'grad' lines", o->name);
        return;
    }
    if (o->todo && (o->inplace || o->results[0].type == T_TENSORS))
        fail(o->at, "%s: a 'todo' operator gives new tensors: no 'inplace' form, no list", o->name);
    if (o->nondiff || o->todo || o->plain) return;
    for (int i = 0; i < o->nargs; i++) {
        arg *a = &o->args[i];
        if ((is_tensor(a->type) || is_tensors(a->type)) && !a->grad && !a->nondiff && !a->grad_group)
            fail(o->at, "%s: no derivative for '%s'; write 'grad %s: ...', 'nondiff %s', 'nondiff' or 'todo'", o->name,
                 a->name, a->name, a->name);
    }
}

/* Without a `names` line: the namespace that the name begins with, otherwise torch itself. */
static char *default_names(const op *o) {
    static const char *const prefixed[] = {"linalg", "fft", "special"};
    if (o->internal) return "";
    for (size_t i = 0; i < sizeof prefixed / sizeof *prefixed; i++) {
        size_t n = strlen(prefixed[i]);
        if (!strncmp(o->name, prefixed[i], n) && o->name[n] == '_') return (char *)prefixed[i];
    }
    return "torch";
}

static void check_op(op *o) {
    if (!*o->name) fail(o->at, "a stanza without a signature");
    if (o->kind == K_NONE) fail(o->at, "%s: expected one of map, fold, scan, view, compose, native", o->name);
    if ((o->gpu || o->anywhere) && o->kind != K_NATIVE && o->kind != K_NATIVE_INPLACE)
        fail(o->at, "%s: only natives have 'gpu' and 'anywhere' lines", o->name);
    if (o->host && (o->gpu || o->anywhere || (o->kind != K_NATIVE && o->kind != K_NATIVE_INPLACE)))
        fail(o->at, "%s: 'host' says why a native has neither a 'gpu' nor an 'anywhere' line", o->name);
    if (o->part && o->kind != K_VIEW) fail(o->at, "%s: only views have a 'part' line", o->name);
    if (!o->doc) fail(o->at, "%s: a doc line is missing", o->name);
    if (!o->names) o->names = default_names(o);
    if (o->types < 0)
        o->types = o->kind == K_MAP || o->kind == K_FOLD || o->kind == K_SCAN ? CAT_INT | CAT_FLOAT : CAT_FLOAT;
    if (o->kind == K_FOLD || o->kind == K_SCAN) check_fold(o);
    if (o->kind == K_VIEW && (o->nresults != 1 || o->args[0].type != T_TENSOR))
        fail(o->at, "%s: a view takes a tensor first and gives one", o->name);
    if (o->inplace && (!o->nargs || !is_tensor(o->args[0].type)))
        fail(o->at, "%s: an in-place form needs a tensor as first argument", o->name);
    if (o->kind == K_MAP && (o->nresults != 1 || o->plain)) fail(o->at, "%s: a map gives one tensor", o->name);
    bool any = false;
    for (int i = 0; i < o->nsamples; i++) any = any || !o->samples[i].error;
    if (!any && !o->internal) fail(o->at, "%s: at least one sample is needed", o->name);
    bool optional = false;
    for (int i = 0; i < o->nargs; i++) {
        optional = optional || o->args[i].fallback;
        if (optional && !o->args[i].fallback)
            fail(o->at, "%s: the argument '%s' without a default follows one with a default", o->name, o->args[i].name);
    }
    check_derivatives(o);
}

static int by_name(const void *a, const void *b) { return strcmp((*(op *const *)a)->name, (*(op *const *)b)->name); }

void check_operators(void) {
    qsort(ops, (size_t)nops, sizeof *ops, by_name);
    for (int i = 0; i < nops; i++) {
        check_op(ops[i]);
        for (int j = 0; j < i; j++)
            if (!strcmp(ops[j]->name, ops[i]->name) || !strcmp(ops[j]->cname, ops[i]->cname))
                fail(ops[i]->at, "%s is defined twice; the other is at %s:%d", ops[i]->name, ops[j]->at.file,
                     ops[j]->at.line);
    }
    derive_batch();
    derive_facts();
    derive_registers();
}

/* Stanzas: from lines of a table to operators, with every mistake named by file and line. */
#include "facts.h"
#include "registers.h"
#include <ctype.h>
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

/* ---- lines of a stanza ---- */
/* NAME, or NAME, with ARG NAME: an optional argument picks the second. */
static const char *parse_marks(const char **rest, location at) {
    static const char *const words[][2] = {{"kept", "KEPT"}, {"written", "WRITTEN"}};
    const char *given = word(rest);
    for (int i = 0; i < 2; i++)
        if (!strcmp(given, words[i][0])) return words[i][1];
    fail(at, "marks are 'kept' or 'written'");
    return NULL;
}

static void parse_node(op *o, const char *s, location at) {
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

static void set_kind(op *o, kind k, const char *s, location at) {
    if (o->kind != K_NONE) fail(at, "'%s' has a kind already (%s)", o->name, kind_names[o->kind]);
    o->kind = k;
    o->kind_text = copy_n(s, strlen(s));
}

static void parse_over(op *o, const char *s, location at) {
    o->of = word(&s);
    if (starts(&s, "over")) o->over = word(&s);
    if (starts(&s, "keep")) o->keep = word(&s);
    if (starts(&s, "each")) o->each = true;
    if (*spaces(s)) fail(at, "expected 'ARG over DIM keep KEEPDIM each', found '%s'", s);
    if (find_arg(o, o->of) < 0) fail(at, "'%s' is not an argument of %s", o->of, o->name);
    if (o->over && find_arg(o, o->over) < 0) fail(at, "'%s' is not an argument of %s", o->over, o->name);
    if (o->keep && find_arg(o, o->keep) < 0) fail(at, "'%s' is not an argument of %s", o->keep, o->name);
}

static void parse_dtype(op *o, const char *s, location at) {
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

static void parse_types(op *o, const char *s, location at) {
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

static arg *tensor_arg(op *o, const char *name, location at) {
    int i = find_arg(o, name);
    if (i < 0) fail(at, "'%s' is not an argument of %s", name, o->name);
    if (!is_tensor(o->args[i].type) && !is_tensors(o->args[i].type)) fail(at, "'%s' is not a tensor", name);
    return &o->args[i];
}

static void parse_grad(op *o, const char *s, location at) {
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

static void parse_sample(op *o, const char *s, location at, bool error) {
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
static void parse_names(op *o, const char *s, location at) {
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
static void parse_check(op *o, const char *s, location at) {
    if (o->nchecks == 6) fail(at, "more than 6 checks");
    int n;
    const char *rest;
    expr **conditions = parse_args(s, at, &n, &rest);
    if (n == 1 && !*rest) {
        o->checks[o->nchecks++] = (check){conditions[0], NULL, NULL};
        return;
    }
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
static void parse_first(op *o, const char *s, location at) {
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

static const char *parse_cast(const char **s, location at) {
    static const char *const words[][2] = {{"none", "NOTHING"},    {"lower", "LOWER"}, {"float", "FLOAT"},
                                           {"promote", "PROMOTE"}, {"off", "OFF"},     {"refused", "REFUSED"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (starts(s, words[i][0])) return words[i][1];
    fail(at, "expected 'none', 'lower', 'float', 'promote', 'off' or 'refused', found '%s'", *s);
}

/* What automatic mixed precision does to the tensor arguments: `autocast float`, or `autocast none gpu float`. */
static void parse_autocast(op *o, const char *s, location at) {
    o->autocast = o->autocast_gpu = parse_cast(&s, at);
    s = spaces(s);
    if (starts(&s, "gpu")) o->autocast_gpu = parse_cast(&s, at);
    if (*spaces(s)) fail(at, "expected the end of the line, found '%s'", s);
}

static void parse_overlap(op *o, const char *s, location at) {
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

/* ---- One function per word that begins a line; `s` is what follows it ---- */

static void parse_doc(op *o, const char *s, location at) {
    (void)at;
    o->doc = copy_n(s, strlen(s));
}

static void parse_cname(op *o, const char *s, location at) {
    (void)at;
    o->cname = word(&s);
}

static void parse_map(op *o, const char *s, location at) {
    set_kind(o, K_MAP, s, at);
    o->body = parse_block(s, at);
}

static void parse_fold(op *o, const char *s, location at) {
    set_kind(o, K_FOLD, s, at);
    parse_over(o, s, at);
}

static void parse_scan(op *o, const char *s, location at) {
    set_kind(o, K_SCAN, s, at);
    parse_over(o, s, at);
}

static void parse_start(op *o, const char *s, location at) { o->start = parse_block(s, at); }
static void parse_step(op *o, const char *s, location at) { o->step = parse_block(s, at); }
static void parse_merge(op *o, const char *s, location at) { o->merge = parse_block(s, at); }
static void parse_finish(op *o, const char *s, location at) { o->finish = parse_block(s, at); }

static void parse_empty(op *o, const char *s, location at) {
    if (starts(&s, "error"))
        o->empty_error = "TP_ERR_RUNTIME";
    else if (starts(&s, "IndexError"))
        o->empty_error = "TP_ERR_INDEX";
    else
        fail(at, "expected 'empty error' or 'empty IndexError'");
}

static void parse_view(op *o, const char *s, location at) {
    set_kind(o, K_VIEW, s, at);
    o->function = word(&s);
}

/* `compose c FUNCTION`, or `compose EXPRESSION`. */
static void parse_compose(op *o, const char *s, location at) {
    const char *c = s;
    char *first = word(&c);
    if (!strcmp(first, "c") && isalpha((unsigned char)*spaces(c))) {
        set_kind(o, K_COMPOSE_C, s, at);
        o->function = word(&c);
    } else {
        set_kind(o, K_COMPOSE, s, at);
        o->body = parse_block(s, at);
    }
}

/* Another name of an operator: a composition that hands on its arguments. */
static void parse_alias(op *o, const char *s, location at) {
    set_kind(o, K_COMPOSE, s, at);
    text call = {0};
    o->alias = copy_n(spaces(s), strcspn(spaces(s), " "));
    put(&call, "%s(", o->alias);
    for (int i = 0; i < o->nargs; i++) put(&call, "%s%s", i ? ", " : "", o->args[i].name);
    put(&call, ")");
    o->body = parse_block(call.s, at);
    if (!o->doc) o->doc = format("The same as %.*s.", (int)strcspn(o->alias, "."), o->alias);
}

static void parse_native(op *o, const char *s, location at) {
    set_kind(o, starts(&s, "inplace") ? K_NATIVE_INPLACE : K_NATIVE, s, at);
    o->function = word(&s);
    if (!*o->function) fail(at, "expected the C function's name after 'native'");
}

static void parse_gpu(op *o, const char *s, location at) {
    o->gpu = word(&s);
    if (!*o->gpu) fail(at, "expected the C function's name after 'gpu'");
}

static void parse_host(op *o, const char *s, location at) {
    (void)at;
    o->host = copy_n(s, strlen(s));
}

static void parse_anywhere(op *o, const char *s, location at) {
    (void)at;
    o->anywhere = true;
    o->open = starts(&s, "open");
}

static void parse_part(op *o, const char *s, location at) {
    (void)s;
    (void)at;
    o->part = true;
}

/* Of all tensors, or of those that are named. */
static void parse_nondiff(op *o, const char *s, location at) {
    if (!*s) o->nondiff = true;
    while (*(s = spaces(s))) {
        tensor_arg(o, word(&s), at)->nondiff = true;
        s = spaces(s);
        if (*s == ',') s++;
    }
}

/* `todo` alone: backward fails. `todo ARG ARG`: it fails where a gradient of one of these is asked for. */
static void parse_todo(op *o, const char *s, location at) {
    if (!*s) o->todo = true;
    while (*(s = spaces(s))) {
        const char *name = word(&s);
        const char *told = strcmp(name, "self") ? name : "input"; /* as Python calls it */
        parse_grad(o,
                   format("%s: derivative_missing(grad, \"the derivative for '%s: %s' is not implemented.\")", name,
                          o->name, told),
                   at);
    }
}

static void parse_lazy(op *o, const char *s, location at) {
    (void)at;
    o->lazy = word(&s);
    o->marks = "KEPT";
}

static void parse_marks_line(op *o, const char *s, location at) { o->marks = parse_marks(&s, at); }

static void parse_arg(op *o, const char *s, location at) {
    char *name = word(&s);
    arg *a = tensor_arg(o, name, at);
    if (starts(&s, "bool"))
        a->fixed = C_B8;
    else if (starts(&s, "int64"))
        a->fixed = C_I64;
    else
        fail(at, "expected 'bool' or 'int64' after 'arg %s'", name);
}

static void parse_forms(op *o, const char *s, location at) {
    while (*(s = spaces(s))) {
        if (starts(&s, "method"))
            o->method = true;
        else if (starts(&s, "inplace"))
            o->inplace = true;
        else if (starts(&s, "out_elements"))
            o->out = o->out_elements = true;
        else if (starts(&s, "out"))
            o->out = true;
        else if (starts(&s, "internal"))
            o->internal = true;
        else
            fail(at, "expected any of 'method inplace out out_elements internal', found '%s'", s);
    }
}

static void parse_good_sample(op *o, const char *s, location at) { parse_sample(o, s, at, false); }
static void parse_error_sample(op *o, const char *s, location at) { parse_sample(o, s, at, true); }

static const struct {
    const char *word;
    void (*parse)(op *o, const char *s, location at);
} lines[] = {{"doc", parse_doc},
             {"map", parse_map},
             {"fold", parse_fold},
             {"scan", parse_scan},
             {"start", parse_start},
             {"step", parse_step},
             {"merge", parse_merge},
             {"first", parse_first},
             {"finish", parse_finish},
             {"empty", parse_empty},
             {"view", parse_view},
             {"part", parse_part},
             {"compose", parse_compose},
             {"alias", parse_alias},
             {"native", parse_native},
             {"gpu", parse_gpu},
             {"host", parse_host},
             {"anywhere", parse_anywhere},
             {"registers", parse_registers},
             {"dtype", parse_dtype},
             {"types", parse_types},
             {"grad", parse_grad},
             {"nondiff", parse_nondiff},
             {"todo", parse_todo},
             {"node", parse_node},
             {"forms", parse_forms},
             {"overlap", parse_overlap},
             {"lazy", parse_lazy},
             {"marks", parse_marks_line},
             {"names", parse_names},
             {"autocast", parse_autocast},
             {"batch", parse_batch},
             {"arg", parse_arg},
             {"cname", parse_cname},
             {"check", parse_check},
             {"sample", parse_good_sample},
             {"error", parse_error_sample}};

static void parse_line(op *o, const char *s, location at) {
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *rest = s;
        if (starts(&rest, lines[i].word)) {
            lines[i].parse(o, rest, at);
            return;
        }
    }
    if (parse_fact(o, s, at)) return;
    text words = {0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) put(&words, "%s, ", lines[i].word);
    fail(at, "unknown keyword at '%.30s'; expected one of %s%s", s, words.s, fact_words());
}

op *add_op(const char *signature, const char *family, location at) {
    op *o = need(sizeof *o);
    o->at = at;
    o->kind = K_NONE;
    o->family = (char *)family;
    o->types = -1;
    o->writes_when = o->accepts_number = o->bytes_as_truth = -1;
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

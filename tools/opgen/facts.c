/* Facts about an operator that other parts of the library ask for: the words `draws`, `cost`, `gain`, `dynamic_shape`,
 * `elementwise`, `linear`, `along`, `parts`, `shape_from`, `writes`, `copies`, `adds`, `from_host`, `index`,
 * `named_tuple`, `numbers_first`, `accepts_number`, `bytes_as_truth` and `symbol` of a stanza, and the members of
 * tp_operator that hold them. docs/tables.md has their meaning. */
#include "facts.h"
#include <string.h>

static int argument(const op *o, const char **s, location at) {
    char *name = word(s);
    int i = find_arg(o, name);
    if (i < 0) fail(at, "'%s' is not an argument of %s", name, o->name);
    return i;
}

static void end_of_line(const char *s, location at) {
    if (*spaces(s)) fail(at, "expected the end of the line, found '%s'", s);
}

/* dynamic_shape, dynamic_shape unless ARG, dynamic_shape masks ARG */
static void parse_dynamic_shape(op *o, const char *s, location at) {
    o->dynamic_shape = DYNAMIC_ALWAYS;
    if (starts(&s, "unless")) {
        o->dynamic_shape = DYNAMIC_UNLESS;
        o->dynamic_arg = argument(o, &s, at);
        type t = o->args[o->dynamic_arg].type;
        if (t != T_INT && t != T_INT_OPT) fail(at, "'%s' is no int", o->args[o->dynamic_arg].name);
    } else if (starts(&s, "masks")) {
        o->dynamic_shape = DYNAMIC_MASKS;
        o->dynamic_arg = argument(o, &s, at);
        if (!is_tensors(o->args[o->dynamic_arg].type))
            fail(at, "'%s' is no list of tensors", o->args[o->dynamic_arg].name);
    }
    end_of_line(s, at);
}

/* writes a, b or writes a, b when ARG */
static void parse_writes(op *o, const char *s, location at) {
    o->writes_when = -1;
    while (*(s = spaces(s))) {
        if (starts(&s, "when")) {
            o->writes_when = argument(o, &s, at);
            if (o->args[o->writes_when].type != T_BOOL) fail(at, "'%s' is no bool", o->args[o->writes_when].name);
            end_of_line(s, at);
            return;
        }
        arg *a = &o->args[argument(o, &s, at)];
        if (!is_tensor(a->type) && !is_tensors(a->type)) fail(at, "'%s' is not a tensor", a->name);
        a->written = true;
        s = spaces(s);
        if (*s == ',') s++;
    }
}

/* cost EXPR: multiply-adds; cost NUMBER each: nanoseconds for each element */
static void parse_cost(op *o, const char *s, location at) {
    char *each = strstr(s, " each");
    if (!each || *spaces(each + 5)) {
        o->cost = parse_expr(s, at);
        return;
    }
    const expr *e = parse_expr(copy_n(s, (size_t)(each - s)), at);
    if (e->kind != E_INT && e->kind != E_FLOAT) fail(at, "expected 'cost NUMBER each'");
    o->cost_each = e->kind == E_INT ? (double)e->i : e->f;
}

static void parse_numbers_first(op *o, const char *s, location at) {
    text names = {0};
    while (*(s = spaces(s))) put(&names, "%s%s", names.n ? " " : "", o->args[argument(o, &s, at)].name);
    if (!names.n) fail(at, "expected the numbers' names after 'numbers_first'");
    o->numbers_first = names.s;
}

static unsigned parse_arguments(const op *o, const char *s, location at) {
    unsigned mask = 0;
    while (*(s = spaces(s))) {
        mask |= 1u << argument(o, &s, at);
        s = spaces(s);
        if (*s == ',') s++;
    }
    return mask;
}

bool has_neighbours(const op *o) { return o->prologue || o->epilogue; }

static void parse_epilogue(op *o, const char *s, location at) {
    const char *name = spaces(s);
    size_t n = strcspn(name, " \n");
    for (int r = 0; r < o->nresults; r++)
        if (strlen(o->results[r].name) == n && !strncmp(o->results[r].name, name, n)) o->epilogue = r + 1;
    if (!o->epilogue) fail(at, "%s: expected the name of a result after 'epilogue'", o->name);
    end_of_line(name + n, at);
}

/* elementwise, elementwise same, elementwise reduced */
static void parse_elementwise(op *o, const char *s, location at) {
    o->elementwise = starts(&s, "same") ? ELEMENTWISE_SAME : starts(&s, "reduced") ? ELEMENTWISE_REDUCED : ELEMENTWISE;
    if (o->elementwise == ELEMENTWISE_REDUCED && find_arg(o, "reduction") < 0)
        fail(at, "%s has no argument 'reduction'", o->name);
    end_of_line(s, at);
}

/* linear a b: in a and b together. A further line is a further group. */
static void parse_linear(op *o, const char *s, location at) {
    text groups = {0};
    if (o->linear) put(&groups, "%s, ", o->linear);
    for (int n = 0; *(s = spaces(s)); n++) put(&groups, "%s%s", n ? " " : "", o->args[argument(o, &s, at)].name);
    if (!groups.n) fail(at, "expected arguments after 'linear'");
    o->linear = groups.s;
}

/* along all, along DIM, along DIM gone, along DIM keep KEEPDIM */
static void parse_along(op *o, const char *s, location at) {
    if (starts(&s, "all")) {
        o->along = "all";
        end_of_line(s, at);
        return;
    }
    const char *dim = o->args[argument(o, &s, at)].name;
    if (starts(&s, "gone"))
        o->along = format("%s gone", dim);
    else if (starts(&s, "keep"))
        o->along = format("%s keep %s", dim, o->args[argument(o, &s, at)].name);
    else
        o->along = format("%s", dim);
    end_of_line(s, at);
}

static void parse_parts(op *o, const char *s, location at) {
    static const char *const words[] = {"sum", "avg", "max", "min", "product", NULL};
    if (starts(&s, "norm")) {
        o->parts = format("norm %s", o->args[argument(o, &s, at)].name);
        end_of_line(s, at);
        return;
    }
    o->parts = word(&s);
    int i = 0;
    while (words[i] && strcmp(words[i], o->parts)) i++;
    if (!words[i]) fail(at, "expected 'parts' sum, avg, max, min, product or norm ARG, found '%s'", o->parts);
    end_of_line(s, at);
}

static void parse_shape_from(op *o, const char *s, location at) {
    o->shape_from = argument(o, &s, at) + 1;
    end_of_line(s, at);
}

static void parse_draws(op *o, const char *s, location at) {
    o->draws = true;
    if (starts(&s, "by"))
        o->draws_by = parse_arguments(o, s, at);
    else
        end_of_line(s, at);
}

static void parse_gain(op *o, const char *s, location at) { o->gain = parse_expr(s, at); }

static void parse_named_tuple(op *o, const char *s, location at) {
    o->named_tuple = true;
    end_of_line(s, at);
}

static void parse_accepts_number(op *o, const char *s, location at) {
    o->accepts_number = argument(o, &s, at);
    end_of_line(s, at);
}

static void parse_bytes_as_truth(op *o, const char *s, location at) {
    o->bytes_as_truth = argument(o, &s, at);
    end_of_line(s, at);
}

static void parse_from_host(op *o, const char *s, location at) { o->from_host = parse_arguments(o, s, at); }
static void parse_index(op *o, const char *s, location at) { o->indices = parse_arguments(o, s, at); }
static void parse_any_float(op *o, const char *s, location at) { o->any_float = parse_arguments(o, s, at); }

static void parse_prologue(op *o, const char *s, location at) {
    o->prologue = argument(o, &s, at) + 1;
    end_of_line(s, at);
}

static void parse_copies(op *o, const char *s, location at) {
    o->copies = true;
    end_of_line(s, at);
}

static void parse_adds(op *o, const char *s, location at) {
    o->adds = true;
    end_of_line(s, at);
}

static void parse_symbol(op *o, const char *s, location at) {
    (void)at;
    o->symbol = copy_n(s, strcspn(s, " \n"));
}

static const struct {
    const char *word;
    void (*parse)(op *o, const char *s, location at);
} facts[] = {{"draws", parse_draws},
             {"dynamic_shape", parse_dynamic_shape},
             {"writes", parse_writes},
             {"cost", parse_cost},
             {"gain", parse_gain},
             {"named_tuple", parse_named_tuple},
             {"numbers_first", parse_numbers_first},
             {"accepts_number", parse_accepts_number},
             {"bytes_as_truth", parse_bytes_as_truth},
             {"from_host", parse_from_host},
             {"index", parse_index},
             {"any_float", parse_any_float},
             {"prologue", parse_prologue},
             {"epilogue", parse_epilogue},
             {"copies", parse_copies},
             {"adds", parse_adds},
             {"symbol", parse_symbol},
             /* How results depend on elements, dims and sums of their arguments. */
             {"elementwise", parse_elementwise},
             {"linear", parse_linear},
             {"along", parse_along},
             {"parts", parse_parts},
             {"shape_from", parse_shape_from}};

bool parse_fact(op *o, const char *s, location at) {
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (starts(&s, facts[i].word)) {
            facts[i].parse(o, s, at);
            return true;
        }
    return false;
}

char *fact_words(void) {
    text t = {0};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) put(&t, "%s%s", i ? ", " : "", facts[i].word);
    return t.s;
}

/* ---- What follows from the rest of the stanza ---- */

static bool calls_drawing(const expr *e) {
    const op *called = e->kind == E_CALL ? find_op(e->name) : NULL;
    if (called && called->draws) return true;
    for (int i = 0; i < e->n; i++)
        if (calls_drawing(e->arg[i])) return true;
    return false;
}

static bool body_draws(const op *o) {
    for (int i = 0; o->kind == K_COMPOSE && i < o->body->n; i++)
        if (calls_drawing(o->body->value[i])) return true;
    return false;
}

/* What a batch shows (derive_batch has run), and what folds and scans say of their dims. */
static void derive_dependence(op *o) {
    if (!o->elementwise && o->batch && !strcmp(o->batch, "each")) o->elementwise = ELEMENTWISE;
    if (o->elementwise == ELEMENTWISE_SAME && !o->linear) o->linear = o->args[0].name;
    if (o->along || (o->kind != K_FOLD && o->kind != K_SCAN)) return;
    if (o->kind == K_SCAN)
        o->along = o->over;
    else if (!o->over)
        o->along = "all";
    else
        o->along = o->keep ? format("%s keep %s", o->over, o->keep) : format("%s gone", o->over);
}

void derive_facts(void) {
    for (int i = 0; i < nops; i++) derive_dependence(ops[i]);
    for (int i = 0; i < nops; i++)
        for (int a = 0; a < ops[i]->nargs; a++) ops[i]->draws |= ops[i]->args[a].type == T_GENERATOR;
    for (bool more = true; more;) { /* compositions of compositions */
        more = false;
        for (int i = 0; i < nops; i++)
            if (!ops[i]->draws && body_draws(ops[i])) ops[i]->draws = more = true;
    }
    int copying = 0, adding = 0;
    for (int i = 0; i < nops; i++) {
        if (ops[i]->named_tuple && ops[i]->nresults < 2)
            fail(ops[i]->at, "%s: 'named_tuple' is for several results", ops[i]->name);
        if (ops[i]->copies && (ops[i]->kind != K_MAP || copying++))
            fail(ops[i]->at, "%s: 'copies' is for one map alone", ops[i]->name);
        if (ops[i]->adds && (ops[i]->kind != K_MAP || adding++))
            fail(ops[i]->at, "%s: 'adds' is for one map alone", ops[i]->name);
        if (has_neighbours(ops[i]) && (ops[i]->kind != K_NATIVE || ops[i]->nresults < 2 || !ops[i]->gpu))
            fail(ops[i]->at, "%s: 'prologue' and 'epilogue' are for natives with a gpu line and several results",
                 ops[i]->name);
        if (ops[i]->parts && !ops[i]->along) fail(ops[i]->at, "%s: 'parts' says nothing without 'along'", ops[i]->name);
    }
}

/* ---- The record ---- */

/* Which of the shapes belongs to a name: arguments come first, then results. */
static int shape_of(const op *o, const expr *e) {
    if (e->kind != E_NAME) fail(e->at, "%s: a cost asks arguments and results for 'numel' and 'size(d)'", o->name);
    int i = find_arg(o, e->name);
    if (i >= 0 && is_tensor(o->args[i].type)) return i;
    for (int r = 0; r < o->nresults; r++)
        if (!strcmp(o->results[r].name, e->name)) return o->nargs + r;
    fail(e->at, "%s: '%s' is neither a tensor argument nor a result", o->name, e->name);
}

static char *cost_text(const op *o, const expr *e, bool *used) {
    switch (e->kind) {
    case E_INT: return format("%lld", (long long)e->i);
    case E_FLOAT: return format("%.17g", e->f);
    case E_FIELD: {
        int k = shape_of(o, e->arg[0]);
        used[k] = true;
        if (!strcmp(e->name, "numel")) return format("tpi_shape_numel(shapes[%d])", k);
        const expr *d = e->n == 2 ? e->arg[1] : NULL;
        bool last = d && d->kind == E_UNARY && d->arg[0]->kind == E_INT;
        if (strcmp(e->name, "size") || !d || (!last && d->kind != E_INT))
            fail(e->at, "%s: a cost asks for 'numel' and 'size(d)'", o->name);
        return format("tpi_shape_size(shapes[%d], %lld)", k, (long long)(last ? -d->arg[0]->i : d->i));
    }
    case E_BINARY:
        if (!strchr("+-*/", e->name[0])) break;
        return format("(%s %s %s)", cost_text(o, e->arg[0], used), e->name, cost_text(o, e->arg[1], used));
    case E_TERNARY: {
        int k = e->arg[0]->kind == E_NAME ? find_arg(o, e->arg[0]->name) : -1;
        if (k < 0 || o->args[k].type != T_BOOL) break;
        return format("(args[%d].kind == TP_K_SCALAR && args[%d].as.scalar.as.i ? %s : %s)", k, k,
                      cost_text(o, e->arg[1], used), cost_text(o, e->arg[2], used));
    }
    default: break;
    }
    fail(e->at, "%s: a cost is made of numbers, sizes, + - * / and a choice by a bool argument", o->name);
}

/* A gain's formula; `parameter` becomes the number argument that it asks for. */
static char *gain_text(const op *o, const expr *e, int *parameter) {
    switch (e->kind) {
    case E_INT: return format("%lld.0", (long long)e->i);
    case E_FLOAT: return format("%.17g", e->f);
    case E_NAME: {
        int k = find_arg(o, e->name);
        if (k < 0 || o->args[k].type != T_SCALAR || !o->args[k].fallback || (*parameter >= 0 && *parameter != k)) break;
        *parameter = k;
        return "parameter";
    }
    case E_BINARY:
        if (!strchr("+-*/", e->name[0])) break;
        return format("(%s %s %s)", gain_text(o, e->arg[0], parameter), e->name, gain_text(o, e->arg[1], parameter));
    case E_CALL:
        if (strcmp(e->name, "sqrt") || e->n != 1) break;
        return format("sqrt(%s)", gain_text(o, e->arg[0], parameter));
    default: break;
    }
    fail(e->at, "%s: a gain is made of numbers, one number argument with a default, + - * / and sqrt", o->name);
}

static void write_gain(text *t, const op *o) {
    int parameter = -1;
    char *value = gain_text(o, o->gain, &parameter);
    put(t, "static double gain_%s(double parameter) {\n", o->cname);
    if (parameter >= 0)
        put(t, "    if (parameter != parameter) parameter = %s;\n", o->args[parameter].fallback_text);
    else
        put(t, "    (void)parameter;\n");
    put(t, "    return %s;\n}\n", value);
}

void write_facts(text *t, const op *o) {
    bool used[32] = {false};
    if (o->gain) write_gain(t, o);
    if (!o->cost) return;
    char *value = cost_text(o, o->cost, used);
    put(t, "static double cost_%s(const tp_ints *shapes, const tp_value *args) {\n    (void)args;\n", o->cname);
    for (int k = 0; k < o->nargs + o->nresults; k++)
        if (used[k]) put(t, "    if (shapes[%d].n < 0) return -1;\n", k);
    put(t, "    return %s;\n}\n", value);
}

static const char *text_or_null(const char *s) { return s ? c_string(s) : "NULL"; }

char *fact_members(const op *o) {
    static const char *const dynamic[] = {"NEVER", "ALWAYS", "UNLESS", "MASKS"};
    text t = {0};
    unsigned written = 0;
    for (int i = 0; i < o->nargs; i++) written |= (unsigned)o->args[i].written << i;
    put(&t, ".letters = \"%s\", ", argument_letters(o, false));
    put(&t, ".from_host = %u, .indices = %u, ", o->from_host, o->indices);
    put(&t, ".draws = %s, .dynamic_shape = TP_DYNAMIC_%s, .dynamic_argument = %d, ", o->draws ? "true" : "false",
        dynamic[o->dynamic_shape], o->dynamic_arg);
    put(&t, ".writes = %u, .writes_when = %d, ", written, written ? o->writes_when : -1);
    put(&t, ".cost = %s, .cost_each = %.17g, ", o->cost ? format("cost_%s", o->cname) : "NULL", o->cost_each);
    put(&t, ".named_tuple = %s, .numbers_first = %s, ", o->named_tuple ? "true" : "false",
        text_or_null(o->numbers_first));
    put(&t, ".accepts_number = %d, .symbol = %s, ", o->accepts_number, text_or_null(o->symbol));
    put(&t, ".gain = %s, ", o->gain ? format("gain_%s", o->cname) : "NULL");
    put(&t, ".elementwise = %d, .shape_from = %d, .draws_by = %u, ", (int)o->elementwise, o->shape_from - 1,
        o->draws_by);
    put(&t, ".linear = %s, .along = %s, .parts = %s, .alias = %s, .bytes_as_truth = %d", text_or_null(o->linear),
        text_or_null(o->along), text_or_null(o->parts), text_or_null(o->alias), o->bytes_as_truth);
    return t.s;
}

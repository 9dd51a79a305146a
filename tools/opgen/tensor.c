/* See tensor.h. */
#include "tensor.h"
#include <stdio.h>
#include <string.h>

vkind kind_of_type(type t) {
    switch (t) {
    case T_TENSOR:
    case T_TENSOR_OPT: return V_TENSOR;
    case T_TENSORS:
    case T_TENSORS_OPT: return V_TENSORS;
    case T_OPERAND: return V_OPERAND;
    case T_SCALAR:
    case T_SCALAR_OPT: return V_SCALAR;
    case T_INT:
    case T_INT_OPT:
    case T_BOOL_OPT: return V_INT;
    case T_INTS:
    case T_INTS_OPT:
    case T_BOOLS: return V_INTS;
    case T_FLOATS:
    case T_FLOATS_OPT: return V_FLOATS;
    case T_SCALARS:
    case T_SCALARS_OPT: return V_SCALARS;
    case T_FLOAT:
    case T_FLOAT_OPT: return V_FLOAT;
    case T_BOOL: return V_BOOL;
    case T_STR:
    case T_STR_OPT: return V_STR;
    case T_DTYPE: return V_DTYPE;
    case T_DEVICE: return V_DEVICE;
    case T_LAYOUT: return V_LAYOUT;
    default: return V_GENERATOR;
    }
}

static tvalue plain(vkind k, char *c) { return (tvalue){.kind = k, .c = c, .temp = -1}; }
static bool tensorish(tvalue v) { return v.kind == V_TENSOR || v.kind == V_OPERAND; }
static bool numberish(tvalue v) {
    return v.kind == V_INT || v.kind == V_FLOAT || v.kind == V_BOOL || v.kind == V_SCALAR;
}

void bind_tensor(tensor_scope *s, const char *name, tvalue v) {
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->name[i], name)) {
            s->v[i] = v;
            return;
        }
    if (s->n == 64) fail(s->o->at, "more than 64 names in one expression");
    s->name[s->n] = name;
    s->v[s->n++] = v;
}

void bind_arguments(tensor_scope *s, const op *o) {
    for (int i = 0; i < o->nargs; i++)
        bind_tensor(s, o->args[i].name, plain(kind_of_type(o->args[i].type), o->args[i].name));
}

char *print_expr(const expr *e) {
    text t = {0};
    switch (e->kind) {
    case E_INT:
    case E_FLOAT:
    case E_NAME: return e->name;
    case E_STRING: return format("\"%s\"", e->name);
    case E_NAMED: return format("%s=%s", e->name, print_expr(e->arg[0]));
    case E_UNARY: return format("%s%s", e->name, print_expr(e->arg[0]));
    case E_BINARY: return format("(%s %s %s)", print_expr(e->arg[0]), e->name, print_expr(e->arg[1]));
    case E_TERNARY:
        return format("(%s ? %s : %s)", print_expr(e->arg[0]), print_expr(e->arg[1]), print_expr(e->arg[2]));
    case E_FIELD:
        put(&t, "%s.%s", print_expr(e->arg[0]), e->name);
        if (e->called) {
            put(&t, "(");
            for (int i = 1; i < e->n; i++) put(&t, "%s%s", i > 1 ? ", " : "", print_expr(e->arg[i]));
            put(&t, ")");
        }
        return t.s;
    case E_CALL:
    case E_LIST:
        put(&t, "%s%s", e->kind == E_CALL ? e->name : "", e->kind == E_CALL ? "(" : "[");
        for (int i = 0; i < e->n; i++) put(&t, "%s%s", i ? ", " : "", print_expr(e->arg[i]));
        put(&t, "%s", e->kind == E_CALL ? ")" : "]");
        return t.s;
    }
    return "";
}

static tvalue call_op(tensor_scope *s, const op *o, const expr *e);

/* ---- fields of tensors ---- */
vkind field_kind(const expr *e) {
    static const struct {
        const char *name;
        vkind kind;
    } known[] = {
        {"shape", V_INTS},         {"ndim", V_INT},  {"numel", V_INT},       {"dtype", V_DTYPE},
        {"device", V_DEVICE},      {"size", V_INT},  {"is_complex", V_BOOL}, {"is_floating", V_BOOL},
        {"sizes", V_INTS},         {"count", V_INT}, {"strides", V_INTS},    {"offset", V_INT},
        {"channels_last", V_BOOL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, e->name)) return known[i].kind;
    return V_NONE;
}

char *field_text(const char *x, const expr *e, tensor_scope *s, bool operand) {
    const char *f = e->name;
    if (operand) x = format("tpi_operand_peek(&%s)", x); /* a number answers as a zero-dimensional tensor would */
    if (!strcmp(f, "shape")) return format("tpi_shape(%s)", x);
    if (!strcmp(f, "strides")) return format("tpi_strides(%s)", x);
    if (!strcmp(f, "offset")) return format("tpi_offset(%s)", x);
    if (!strcmp(f, "ndim")) return format("(int64_t)%s->ndim", x);
    if (!strcmp(f, "numel")) return format("%s->numel", x);
    if (!strcmp(f, "dtype")) return format("(tp_dtype)%s->dtype", x);
    if (!strcmp(f, "device")) return format("tpi_device(%s)", x);
    if (!strcmp(f, "is_complex")) return format("tp_dtype_is_complex((tp_dtype)%s->dtype)", x);
    if (!strcmp(f, "is_floating")) return format("tp_dtype_is_floating((tp_dtype)%s->dtype)", x);
    if (!strcmp(f, "channels_last")) return format("tpi_is_only_channels_last(%s)", x);
    if (!strcmp(f, "count")) return format("%s.n", x);
    if (e->n != 2) fail(e->at, ".%s takes one argument", f);
    tvalue d = tensor_expr(s, e->arg[1]);
    if (d.kind != V_INT) fail(e->at, ".%s takes an integer", f);
    return format("%s(%s, %s)", !strcmp(f, "sizes") ? "tpi_sizes_along" : "tpi_size_at", x, d.c);
}

static tvalue field_expr(tensor_scope *s, const expr *e) {
    vkind k = field_kind(e);
    if (e->called && e->arg[0]->kind == E_NAME) { /* an overload, called by its full name: max.dim(x, 0) */
        const op *o = find_op(format("%s.%s", e->arg[0]->name, e->name));
        expr call = {.kind = E_CALL, .at = e->at, .name = e->name, .n = e->n - 1, .arg = e->arg + 1};
        if (o) return call_op(s, o, &call);
    }
    if (s->fields && e->arg[0]->kind == E_NAME) {
        char *key = print_expr(e);
        for (int i = 0; i < s->nfields; i++)
            if (!strcmp(s->fields[i].key, key)) return plain(s->fields[i].kind, format("a->f%d", i));
    }
    tvalue x = tensor_expr(s, e->arg[0]);
    if (x.kind == V_MULTI) {
        for (int i = 0; i < x.multi->nresults; i++)
            if (!strcmp(x.multi->results[i].name, e->name)) return plain(V_TENSOR, format("t[%d]", x.base + i));
        fail(e->at, "%s has no result '%s'", x.multi->name, e->name);
    }
    if (k == V_NONE)
        fail(e->at, "unknown field '.%s'; expected shape, ndim, numel, dtype, size(d), is_complex, or a result's name",
             e->name);
    if (x.kind != V_TENSOR && x.kind != V_OPERAND && x.kind != V_TENSORS)
        fail(e->at, "'.%s' of something that is no tensor", e->name);
    return plain(k, field_text(x.c, e, s, x.kind == V_OPERAND));
}

/* ---- conversions to an argument's type ---- */
static char *as_scalar(tvalue v, location at) {
    switch (v.kind) {
    case V_SCALAR: return v.c;
    case V_INT: return format("tp_int(%s)", v.c);
    case V_BOOL: return format("tp_truth(%s)", v.c);
    case V_FLOAT: return format("tp_float(%s)", v.c);
    default: fail(at, "expected a number");
    }
}
static char *as_double(tvalue v, location at) {
    if (v.kind == V_SCALAR) return format("tp_scalar_to_double(%s)", v.c);
    if (v.kind == V_INT || v.kind == V_BOOL) return format("(double)(%s)", v.c);
    if (v.kind != V_FLOAT) fail(at, "expected a number");
    return v.c;
}
static char *as_bool(tvalue v, location at) {
    if (v.kind == V_BOOL || v.kind == V_INT) return v.c;
    if (v.kind == V_SCALAR) return format("tp_scalar_to_bool(%s)", v.c);
    fail(at, "expected a plain condition; of a tensor that may be missing, ask defined()");
}

static char *as_operand(tvalue v) { return v.kind == V_OPERAND ? v.c : format("tp_operand_tensor(%s)", v.c); }

static char *list_text(tensor_scope *s, const expr *e, vkind *kind) {
    text t = {0};
    *kind = V_INTS;
    for (int i = 0; i < e->n; i++) {
        tvalue v = tensor_expr(s, e->arg[i]);
        if (v.kind == V_TENSOR)
            *kind = V_TENSORS;
        else if (v.kind == V_FLOAT)
            *kind = V_FLOATS;
        else if (v.kind != V_INT && v.kind != V_BOOL)
            fail(e->at, "a list holds numbers or tensors");
        put(&t, "%s%s", i ? ", " : "", v.c);
    }
    if (!e->n) return "(tp_ints){(const int64_t[]){0}, 0}";
    if (*kind == V_FLOATS) return format("(tp_floats){(const double[]){%s}, %d}", t.s, e->n);
    return format(*kind == V_INTS ? "(tp_ints){(const int64_t[]){%s}, %d}" : "(tp_tensors){(tp_tensor *[]){%s}, %d}",
                  t.s, e->n);
}

static char *to_type(tvalue v, const arg *a, const op *o, location at) {
    type t = a->type;
    if (v.kind == V_NONE) return (char *)types[t].none;
    switch (t) {
    case T_TENSOR:
    case T_TENSOR_OPT:
        if (v.kind == V_TENSOR) return v.c;
        break;
    case T_OPERAND:
        if (v.kind == V_TENSOR) return format("tp_operand_tensor(%s)", v.c);
        if (v.kind == V_OPERAND) return v.c;
        if (numberish(v)) return format("tp_operand_scalar(%s)", as_scalar(v, at));
        break;
    case T_SCALAR:
    case T_SCALAR_OPT:
        if (numberish(v)) return as_scalar(v, at);
        break;
    case T_INT:
    case T_INT_OPT:
    case T_BOOL_OPT:
        if (v.kind == V_INT || v.kind == V_BOOL) return v.c;
        if (v.kind == V_SCALAR) return format("tp_scalar_to_int(%s)", v.c);
        break;
    case T_FLOAT:
    case T_FLOAT_OPT:
        if (numberish(v)) return as_double(v, at);
        break;
    case T_BOOL:
        if (numberish(v)) return as_bool(v, at);
        break;
    case T_INTS:
    case T_INTS_OPT:
    case T_BOOLS:
        if (v.kind == V_INTS) return v.c;
        if (v.kind == V_INT && t == T_INTS_OPT)
            return format("(%s == TP_NONE ? tp_no_ints() : (tp_ints){(const int64_t[]){%s}, 1})", v.c, v.c);
        if (v.kind == V_INT) return format("(tp_ints){(const int64_t[]){%s}, 1}", v.c);
        break;
    default:
        if (v.kind == kind_of_type(t)) return v.c;
        break;
    }
    fail(at, "%s: the argument '%s' is a %s; what is given here is something else", o->name, a->name, a->type_text);
}

char *argument_text(tensor_scope *s, const expr *e, const arg *a, const op *o) {
    return to_type(tensor_expr(s, e), a, o, e->at);
}

static void drop(tensor_scope *s, tvalue v) {
    if (v.temp >= 0) put(s->code, "%stpi_drop(&t[%d]);\n", s->indent, v.temp);
}

char *owned(tensor_scope *s, tvalue v, location at) {
    if (v.kind == V_NONE) return "NULL";
    if (v.kind == V_OPERAND) return format("tpi_operand_tensor_owned(%s)", v.c);
    if (v.kind != V_TENSOR) fail(at, "expected a tensor");
    if (v.temp >= 0) {
        (void)s;
        return format("tpi_move_out(&t[%d])", v.temp);
    }
    return format("tpi_retain(%s)", v.c);
}

/* ---- calls ---- */
/* An operand where only a tensor will do: a number becomes a zero-dimensional one. */
static tvalue as_tensor(tensor_scope *s, tvalue v) {
    int k = s->ntemps++;
    put(s->code, "%st[%d] = tpi_operand_tensor_owned(%s);\n%sif (!t[%d]) %s\n", s->indent, k, v.c, s->indent, k,
        s->failure);
    return (tvalue){.kind = V_TENSOR, .c = format("t[%d]", k), .temp = k};
}

/* The arguments of a call, by position or name. */
static void call_arguments(tensor_scope *s, const op *o, const expr *e, tvalue *given, bool *have) {
    int position = 0;
    for (int i = 0; i < e->n; i++) {
        const expr *a = e->arg[i];
        int k = position;
        if (a->kind == E_NAMED) {
            k = find_arg(o, a->name);
            if (k < 0) fail(e->at, "%s has no argument '%s'; its signature is %s", o->name, a->name, o->signature);
            a = a->arg[0];
        } else
            position++;
        if (k >= o->nargs) fail(e->at, "%s takes %d arguments; its signature is %s", o->name, o->nargs, o->signature);
        if (have[k]) fail(e->at, "%s: '%s' is given twice", o->name, o->args[k].name);
        given[k] = tensor_expr(s, a);
        if (given[k].kind == V_OPERAND && o->args[k].type != T_OPERAND) given[k] = as_tensor(s, given[k]);
        have[k] = true;
    }
}

/* In derivatives: the argument that is an operand beside numbers only, which may be a number itself; -1: none. */
static int weak_operand(const tensor_scope *s, const op *o, const tvalue *given, const bool *have) {
    int weak = -1;
    for (int k = 0; k < o->nargs && s->fields; k++) {
        if (!have[k]) continue;
        if (given[k].kind == V_TENSOR) return -1;
        if (given[k].kind == V_OPERAND && o->args[k].type == T_OPERAND && weak < 0) weak = k;
    }
    return weak;
}

/* A call whose result is no tensor. */
static tvalue write_plain_call(tensor_scope *s, const op *o, const char *args) {
    static const struct {
        const char *word, *type;
        vkind kind;
    } types[] = {{"bool", "bool", V_BOOL}, {"int", "int64_t", V_INT}, {"float", "double", V_FLOAT}};
    const char *type = "tp_scalar";
    vkind kind = V_SCALAR;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].word, o->plain_type)) {
            type = types[i].type;
            kind = types[i].kind;
        }
    int p = s->ntemps++;
    put(s->code, "%s%s p%d;\n%sif (!tpo_%s(%s%s&p%d)) %s\n", s->indent, type, p, s->indent, o->cname, args,
        o->nargs ? ", " : "", p, s->failure);
    return plain(kind, format("p%d", p));
}

static tvalue write_call(tensor_scope *s, const op *o, const char *args) {
    if (o->plain) return write_plain_call(s, o, args);
    if (o->nresults > 1) {
        tvalue r = plain(V_MULTI, NULL);
        r.multi = o;
        r.base = s->ntemps;
        s->ntemps += o->nresults;
        put(s->code, "%sif (!tpo_%s(%s%s&t[%d])) %s\n", s->indent, o->cname, args, o->nargs ? ", " : "", r.base,
            s->failure);
        return r;
    }
    if (o->results[0].type == T_TENSORS) {
        int k = s->nlists++;
        put(s->code, "%sl[%d] = tpo_%s(%s);\n%sif (!l[%d].v) %s\n", s->indent, k, o->cname, args, s->indent, k,
            s->failure);
        return plain(V_TENSORS, format("l[%d]", k));
    }
    tvalue r = plain(V_TENSOR, NULL);
    r.temp = s->ntemps++;
    r.c = format("t[%d]", r.temp);
    put(s->code, "%st[%d] = tpo_%s(%s);\n%sif (!t[%d]) %s\n", s->indent, r.temp, o->cname, args, s->indent, r.temp,
        s->failure);
    return r;
}

static tvalue call_op(tensor_scope *s, const op *o, const expr *e) {
    tvalue given[24];
    bool have[24] = {false};
    call_arguments(s, o, e, given, have);
    text args = {0};
    put(&args, "%s", "");
    const int weak = weak_operand(s, o, given, have);
    for (int k = 0; k < o->nargs; k++) {
        if (!have[k] && !o->args[k].fallback)
            fail(e->at, "%s: '%s' is missing; its signature is %s", o->name, o->args[k].name, o->signature);
        if (k == weak)
            given[k] = as_tensor(
                s, given[k]); /* so that numbers among themselves compute in full precision and stay numbers */
        put(&args, "%s%s", k ? ", " : "", have[k] ? to_type(given[k], &o->args[k], o, e->at) : c_default(&o->args[k]));
    }
    tvalue r = write_call(s, o, args.s);
    for (int k = 0; k < o->nargs; k++)
        if (have[k]) drop(s, given[k]);
    return r;
}

/* The operator that a formula means: never one whose result is a marked view, since what a formula gives must be plain.
 * Lazy operators themselves are made of lazy ones. */
static const op *operator_named(const tensor_scope *s, const char *name) {
    const op *o = find_op(name);
    return o && o->lazy && !(s->o && s->o->lazy) ? find_op(o->lazy) : o;
}

static tvalue call_by_name(tensor_scope *s, const char *name, location at, int n, expr **args) {
    const op *o = operator_named(s, name);
    if (!o) fail(at, "the operator '%s' is not in the tables", name);
    expr e = {.kind = E_CALL, .at = at, .name = (char *)name, .n = n, .arg = args};
    return call_op(s, o, &e);
}

/* An operator on values that are evaluated already. */
static tvalue call_on(tensor_scope *s, const char *name, location at, int n, const tvalue *values) {
    static char *const names[] = {"(first)", "(second)", "(third)"};
    expr e[3], *args[3];
    tensor_scope inner = *s;
    for (int i = 0; i < n; i++) {
        e[i] = (expr){.kind = E_NAME, .at = at, .name = names[i]};
        args[i] = &e[i];
        bind_tensor(&inner, names[i], values[i]);
    }
    tvalue r = call_by_name(&inner, name, at, n, args);
    s->ntemps = inner.ntemps;
    s->nlists = inner.nlists;
    return r;
}

/* ---- The few functions on plain values: each gives its value, or false where the arguments are an operator's ---- */

static tvalue value_of(tensor_scope *s, const expr *e, int i) { return tensor_expr(s, e->arg[i]); }

static bool builtin_defined(tensor_scope *s, const expr *e, tvalue *r) {
    tvalue v = value_of(s, e, 0);
    *r = plain(V_BOOL, v.kind == V_OPERAND ? format("tpi_operand_given(&%s)", v.c) : format("(%s != NULL)", v.c));
    return true;
}

static bool builtin_given(tensor_scope *s, const expr *e, tvalue *r) {
    tvalue v = value_of(s, e, 0);
    switch (v.kind) {
    case V_FLOAT: *r = plain(V_BOOL, format("(%s == %s)", v.c, v.c)); break;
    case V_INT: *r = plain(V_BOOL, format("(%s != TP_NONE)", v.c)); break;
    case V_SCALAR: *r = plain(V_BOOL, format("(%s.kind != TP_SCALAR_NONE)", v.c)); break;
    case V_INTS:
    case V_FLOATS:
    case V_SCALARS: *r = plain(V_BOOL, format("(%s.v != NULL)", v.c)); break;
    case V_DTYPE: *r = plain(V_BOOL, format("(%s != TP_NO_DTYPE)", v.c)); break;
    default: *r = plain(V_BOOL, format("(%s != NULL)", v.c));
    }
    return true;
}

static bool builtin_conj(tensor_scope *s, const expr *e, tvalue *r) { /* of numbers too */
    tvalue v = value_of(s, e, 0);
    if (!numberish(v))
        *r = call_on(s, e->name, e->at, 1, &v);
    else
        *r = v.kind == V_SCALAR ? plain(V_SCALAR, format("tpi_scalar_conj(%s)", v.c)) : v;
    return true;
}

static bool builtin_real(tensor_scope *s, const expr *e, tvalue *r) { /* of numbers too */
    tvalue v = value_of(s, e, 0);
    if (!numberish(v))
        *r = call_on(s, e->name, e->at, 1, &v);
    else
        *r = v.kind == V_SCALAR ? plain(V_FLOAT, format("tp_scalar_to_double(%s)", v.c)) : v;
    return true;
}

static bool builtin_needs(tensor_scope *s, const expr *e, tvalue *r) {
    if (e->arg[0]->kind != E_NAME) return false;
    int k = find_arg(s->o, e->arg[0]->name);
    if (k < 0) fail(e->at, "'%s' is not an argument of %s", e->arg[0]->name, s->o->name);
    *r = plain(V_BOOL, format("tpi_node_needs(node, e_%s)", e->arg[0]->name));
    return true;
}

static bool builtin_any_tensor(tensor_scope *s, const expr *e, tvalue *r) { /* is one of two operands a tensor? */
    tvalue a = value_of(s, e, 0), b = value_of(s, e, 1);
    *r = plain(V_BOOL, format("(%s.tensor || %s.tensor)", as_operand(a), as_operand(b)));
    return true;
}

static bool builtin_bools(tensor_scope *s, const expr *e, tvalue *r) { /* how many of two operands are bools? */
    tvalue a = value_of(s, e, 0), b = value_of(s, e, 1);
    *r = plain(V_INT, format("tpi_count_bools(%s, %s)", as_operand(a), as_operand(b)));
    return true;
}

/* Is a number of too high a kind for two summands? */
static bool builtin_factor_fault(tensor_scope *s, const expr *e, tvalue *r) {
    tvalue a = value_of(s, e, 0), b = value_of(s, e, 1), factor = value_of(s, e, 2);
    *r = plain(V_INT, format("tpi_find_factor_fault(%s, %s, %s)", as_operand(a), as_operand(b), factor.c));
    return true;
}

static bool builtin_fits(tensor_scope *s, const expr *e, tvalue *r) { /* may the number become one of the tensor's? */
    tvalue a = value_of(s, e, 0), b = value_of(s, e, 1);
    *r = plain(V_BOOL, b.kind == V_SCALAR ? format("tpi_check_fits(%s, (tp_dtype)%s->dtype)", b.c, a.c)
                                          : format("tpi_check_operands_fit(%s, %s)", as_operand(a), as_operand(b)));
    return true;
}

static bool builtin_takes(tensor_scope *s, const expr *e, tvalue *r) { /* may the number be a factor of the tensor's? */
    tvalue a = value_of(s, e, 0), b = value_of(s, e, 1);
    *r = plain(V_BOOL, format("tpi_check_number(%s, (tp_dtype)%s->dtype)", b.c, a.c));
    return true;
}

/* May the numbers hold the tensor's elements between them? They are moved into its dtype. */
static bool builtin_bounds(tensor_scope *s, const expr *e, tvalue *r) {
    char *x = value_of(s, e, 0).c;
    *r = plain(V_BOOL, format("(tpi_fit_bound(&%s, (tp_dtype)%s->dtype, true) && "
                              "tpi_fit_bound(&%s, (tp_dtype)%s->dtype, false))",
                              value_of(s, e, 1).c, x, value_of(s, e, 2).c, x));
    return true;
}

static bool builtin_typed(tensor_scope *s, const expr *e, tvalue *r) { /* is the tensor's dtype on the `types` line? */
    *r = plain(V_BOOL, format("tpi_check_types(\"%s\", %d, (tp_dtype)%s->dtype)", s->o->name, s->o->types,
                              value_of(s, e, 0).c));
    return true;
}

static bool builtin_nonzero(tensor_scope *s, const expr *e, tvalue *r) { /* may these be divided as integers? */
    tvalue a = value_of(s, e, 0), b = value_of(s, e, 1);
    if (!tensorish(a) || !tensorish(b)) fail(e->at, "nonzero(dividend, divisor) takes two tensors or operands");
    *r = plain(V_BOOL, format("tpi_can_divide(%s, %s)", as_operand(a), as_operand(b)));
    return true;
}

static bool builtin_len(tensor_scope *s, const expr *e, tvalue *r) {
    *r = plain(V_INT, format("%s.n", value_of(s, e, 0).c));
    return true;
}

static bool builtin_count(tensor_scope *s, const expr *e, tvalue *r) { /* elements along some dims of a shape */
    tvalue shape = value_of(s, e, 0), dims = value_of(s, e, 1);
    char *d = dims.c;
    if (dims.kind == V_INT) d = format("(tp_ints){(const int64_t[]){%s}, %s == TP_NONE ? 0 : 1}", dims.c, dims.c);
    if (dims.kind == V_NONE) d = "tp_no_ints()";
    *r = plain(V_INT, format("tpi_count_along(%s, %s)", shape.c, d));
    return true;
}

static bool builtin_product(tensor_scope *s, const expr *e, tvalue *r) {
    *r = plain(V_INT, format("tpi_product_of(%s)", value_of(s, e, 0).c));
    return true;
}

static bool builtin_at(tensor_scope *s, const expr *e, tvalue *r) {
    tvalue v = value_of(s, e, 0), i = value_of(s, e, 1);
    *r = plain(V_INT, format("%s.v[%s]", v.c, i.c));
    return true;
}

static bool builtin_idiv(tensor_scope *s, const expr *e, tvalue *r) {
    tvalue a = value_of(s, e, 0), b = value_of(s, e, 1);
    *r = plain(V_INT, format("((%s) / (%s))", a.c, b.c));
    return true;
}

static bool builtin_tuple(tensor_scope *s, const expr *e, tvalue *r) { /* one number serves for all */
    if (e->arg[1]->kind != E_INT) return false;
    tvalue v = value_of(s, e, 0);
    if (v.kind != V_INTS && v.kind != V_INT) fail(e->at, "tuple(list, n) takes ints");
    char *list = v.kind == V_INTS ? v.c : format("(tp_ints){(const int64_t[]){%s}, 1}", v.c);
    *r = plain(V_INTS, format("tpi_ints_expanded((int64_t[%s]){0}, %s, %s)", e->arg[1]->name, list, e->arg[1]->name));
    return true;
}

static bool builtin_any(tensor_scope *s, const expr *e, tvalue *r) { /* is one of the ints not zero? */
    tvalue v = value_of(s, e, 0);
    if (v.kind != V_INTS) return false;
    *r = plain(V_BOOL, format("tpi_ints_any(%s)", v.c));
    return true;
}

static bool builtin_all_are(tensor_scope *s, const expr *e, tvalue *r) {
    tvalue v = value_of(s, e, 0), one = value_of(s, e, 1);
    *r = plain(V_BOOL, format("tpi_ints_all_are(%s, %s)", v.c, one.c));
    return true;
}

static bool builtin_all_of(tensor_scope *s, const expr *e, tvalue *r) { /* are all ints above zero? */
    *r = plain(V_BOOL, format("tpi_ints_positive(%s)", value_of(s, e, 0).c));
    return true;
}

static bool builtin_fan_in(tensor_scope *s, const expr *e, tvalue *r) {
    *r = plain(V_INT, format("tpi_fan_in(%s)", value_of(s, e, 0).c));
    return true;
}

static bool builtin_sqrt(tensor_scope *s, const expr *e, tvalue *r) { /* of a number */
    tvalue v = value_of(s, e, 0);
    if (!numberish(v)) return false;
    *r = plain(V_FLOAT, format("sqrt(%s)", as_double(v, e->at)));
    return true;
}

static bool builtin_real_dtype(tensor_scope *s, const expr *e, tvalue *r) {
    *r = plain(V_DTYPE, format("tpi_dtype_to_real(%s)", value_of(s, e, 0).c));
    return true;
}

static bool builtin(tensor_scope *s, const expr *e, tvalue *r) {
    static const struct {
        const char *name;
        int n; /* arguments */
        bool (*evaluate)(tensor_scope *s, const expr *e, tvalue *r);
    } builtins[] = {{"defined", 1, builtin_defined},
                    {"given", 1, builtin_given},
                    {"conj", 1, builtin_conj},
                    {"real", 1, builtin_real},
                    {"needs", 1, builtin_needs},
                    {"any_tensor", 2, builtin_any_tensor},
                    {"bools", 2, builtin_bools},
                    {"factor_fault", 3, builtin_factor_fault},
                    {"fits", 2, builtin_fits},
                    {"takes", 2, builtin_takes},
                    {"typed", 1, builtin_typed},
                    {"bounds", 3, builtin_bounds},
                    {"nonzero", 2, builtin_nonzero},
                    {"len", 1, builtin_len},
                    {"count", 2, builtin_count},
                    {"product", 1, builtin_product},
                    {"at", 2, builtin_at},
                    {"idiv", 2, builtin_idiv},
                    {"tuple", 2, builtin_tuple},
                    {"any", 1, builtin_any},
                    {"all_are", 2, builtin_all_are},
                    {"all_of", 1, builtin_all_of},
                    {"fan_in", 1, builtin_fan_in},
                    {"sqrt", 1, builtin_sqrt},
                    {"real_dtype", 1, builtin_real_dtype}};
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (!strcmp(e->name, builtins[i].name) && e->n == builtins[i].n) return builtins[i].evaluate(s, e, r);
    return false;
}

static tvalue scalar_binary(tensor_scope *s, const expr *e, tvalue a, tvalue b) {
    (void)s;
    const char *o = e->name;
    bool compares = strchr("<>=!", o[0]) && strcmp(o, "<<") && strcmp(o, ">>");
    if (a.kind == V_STR || b.kind == V_STR) {
        if (strcmp(o, "==") && strcmp(o, "!=")) fail(e->at, "texts compare with == and != only");
        return plain(V_BOOL, format("(%stpi_same_text(%s, %s))", o[0] == '!' ? "!" : "", a.c, b.c));
    }
    if (a.kind == V_NONE || b.kind == V_NONE) fail(e->at, "use given() or defined() to ask for None");
    if (a.kind == V_DTYPE && b.kind == V_DTYPE && compares) return plain(V_BOOL, format("(%s %s %s)", a.c, o, b.c));
    if (!strcmp(o, "&&") || !strcmp(o, "||"))
        return plain(V_BOOL, format("(%s %s %s)", as_bool(a, e->at), o, as_bool(b, e->at)));
    if (a.kind == V_INTS && b.kind == V_INTS && o[0] == '+')
        return plain(V_INTS, format("tpi_ints_joined((int64_t[TP_MAX_DIMS]){0}, %s, %s)", a.c, b.c));
    if (!numberish(a) || !numberish(b)) fail(e->at, "'%s' between things that are neither tensors nor numbers", o);
    if (compares) return plain(V_BOOL, format("(%s %s %s)", as_double(a, e->at), o, as_double(b, e->at)));
    if (a.kind == V_SCALAR || b.kind == V_SCALAR) {
        const char *f = arithmetic_name(o[0]);
        if (!f) fail(e->at, "'%s' is not defined for scalars", o);
        return plain(V_SCALAR, format("tpi_scalar_%s(%s, %s)", f, as_scalar(a, e->at), as_scalar(b, e->at)));
    }
    bool whole = a.kind != V_FLOAT && b.kind != V_FLOAT && o[0] != '/';
    /* Sizes that users give are among these: they stop at the ends of int64 instead of wrapping around
     * (tensor/sizes.h). */
    const char *sized = !whole || o[1] ? NULL
                        : o[0] == '+'  ? "plus"
                        : o[0] == '-'  ? "minus"
                        : o[0] == '*'  ? "times"
                                       : NULL;
    if (sized) return plain(V_INT, format("tpi_size_%s(%s, %s)", sized, a.c, b.c));
    if (whole) return plain(V_INT, format("(%s %s %s)", a.c, o, b.c));
    return plain(V_FLOAT, format("(%s %s %s)", as_double(a, e->at), o, as_double(b, e->at)));
}

static tvalue binary(tensor_scope *s, const expr *e) {
    static const char *const names[][2] = {
        {"+", "add"}, {"-", "sub"},          {"*", "mul"},         {"/", "div"},         {"%", "remainder"},
        {"<", "lt"},  {"<=", "le"},          {">", "gt"},          {">=", "ge"},         {"==", "eq"},
        {"!=", "ne"}, {"&&", "logical_and"}, {"||", "logical_or"}, {"&", "bitwise_and"}, {"|", "bitwise_or"}};
    tvalue a = tensor_expr(s, e->arg[0]), b = tensor_expr(s, e->arg[1]);
    if (!tensorish(a) && !tensorish(b)) return scalar_binary(s, e, a, b);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i][0], e->name)) return call_on(s, names[i][1], e->at, 2, (tvalue[]){a, b});
    fail(e->at, "'%s' is not defined for tensors", e->name);
}

static tvalue unary(tensor_scope *s, const expr *e) {
    tvalue a = tensor_expr(s, e->arg[0]);
    char o = e->name[0];
    if (tensorish(a)) {
        return call_on(s, o == '-' ? "neg" : o == '!' ? "logical_not" : "bitwise_not", e->at, 1, &a);
    }
    if (o == '!') return plain(V_BOOL, format("(!%s)", as_bool(a, e->at)));
    if (o != '-') fail(e->at, "'%s' is not defined for plain values", e->name);
    if (a.kind == V_SCALAR) return plain(V_SCALAR, format("tpi_scalar_sub(tp_int(0), %s)", a.c));
    if (a.kind == V_INT && e->arg[0]->kind != E_INT) return plain(V_INT, format("tpi_size_negated(%s)", a.c));
    return plain(a.kind == V_BOOL ? V_INT : a.kind, format("(-%s)", a.c));
}

/* `(a == b)` as `a == b`: brackets around a whole condition make clang suspect a typing mistake. */
char *without_brackets(char *c) {
    size_t n = strlen(c);
    int depth = 0;
    if (c[0] != '(' || c[n - 1] != ')') return c;
    for (size_t i = 0; i + 1 < n; i++) {
        depth += (c[i] == '(') - (c[i] == ')');
        if (!depth) return c; /* the first bracket closes before the end */
    }
    return copy_n(c + 1, n - 2);
}

/* One side is evaluated: tensors by if and else, plain values by C's own choice. */
static tvalue choice(tensor_scope *s, const expr *e) {
    tvalue c = tensor_expr(s, e->arg[0]);
    if (tensorish(c)) { /* by element */
        tvalue sides[3] = {c, tensor_expr(s, e->arg[1]), {0}};
        sides[2] = tensor_expr(s, e->arg[2]);
        return call_on(s, "where", e->at, 3, sides);
    }
    char *condition = as_bool(c, e->at);
    tensor_scope one = *s, two;
    text code1 = {0}, code2 = {0};
    put(&code1, "%s", "");
    put(&code2, "%s", "");
    one.code = &code1;
    one.indent = format("%s    ", s->indent);
    tvalue a = tensor_expr(&one, e->arg[1]);
    two = *s;
    two.code = &code2;
    two.indent = one.indent;
    two.ntemps = one.ntemps;
    two.nlists = one.nlists;
    tvalue b = tensor_expr(&two, e->arg[2]);
    s->ntemps = two.ntemps;
    s->nlists = two.nlists;
    if (tensorish(a) || tensorish(b)) {
        int k = s->ntemps++;
        put(s->code, "%sif (%s) {\n%s%st[%d] = %s;\n", s->indent, without_brackets(condition), code1.s, one.indent, k,
            owned(&one, a, e->at));
        put(s->code, "%s} else {\n%s%st[%d] = %s;\n%s}\n", s->indent, code2.s, one.indent, k, owned(&two, b, e->at),
            s->indent);
        return (tvalue){.kind = V_TENSOR, .c = format("t[%d]", k), .temp = k};
    }
    if (code1.n || code2.n) fail(e->at, "a choice between plain values may not call operators");
    if (a.kind == V_NONE || b.kind == V_NONE) {
        tvalue some = a.kind == V_NONE ? b : a;
        const char *none = some.kind == V_INTS      ? "tp_no_ints()"
                           : some.kind == V_FLOATS  ? "tp_no_floats()"
                           : some.kind == V_SCALARS ? "tp_no_scalars()"
                           : some.kind == V_INT     ? "TP_NONE"
                           : some.kind == V_SCALAR  ? "tp_no_scalar()"
                           : some.kind == V_FLOAT   ? "TP_NO_FLOAT"
                           : some.kind == V_DTYPE   ? "TP_NO_DTYPE"
                                                    : "NULL";
        return plain(some.kind,
                     format("(%s ? %s : %s)", condition, a.kind == V_NONE ? none : a.c, b.kind == V_NONE ? none : b.c));
    }
    vkind k = a.kind;
    if (numberish(a) && numberish(b) && a.kind != b.kind) {
        if (a.kind == V_SCALAR || b.kind == V_SCALAR) {
            k = V_SCALAR;
            a.c = as_scalar(a, e->at);
            b.c = as_scalar(b, e->at);
        } else
            k = a.kind == V_FLOAT || b.kind == V_FLOAT ? V_FLOAT : V_INT;
    } else if (a.kind != b.kind)
        fail(e->at, "the two sides of a choice are of different kinds");
    return plain(k, format("(%s ? %s : %s)", condition, a.c, b.c));
}

tvalue tensor_expr(tensor_scope *s, const expr *e) {
    tvalue r;
    switch (e->kind) {
    case E_INT: return plain(V_INT, e->name);
    case E_FLOAT: return plain(V_FLOAT, e->name);
    case E_STRING: return plain(V_STR, format("\"%s\"", e->name));
    case E_NAME:
        for (int i = 0; i < s->n; i++)
            if (!strcmp(s->name[i], e->name)) return s->v[i];
        if (!strcmp(e->name, "None") || !strcmp(e->name, "none")) return plain(V_NONE, "NULL");
        if (!strcmp(e->name, "true") || !strcmp(e->name, "false")) return plain(V_BOOL, e->name);
        if (!strcmp(e->name, "inf")) return plain(V_FLOAT, "INFINITY");
        if (!strcmp(e->name, "nan")) return plain(V_FLOAT, "NAN");
        if (!strcmp(e->name, "pi")) return plain(V_FLOAT, "3.14159265358979323846");
        static const char *const dtypes[] = {"int64", "int32", "float32", "float64", "complex64", "complex128",
                                             "uint8", "int8",  "int16",   "float16", "bfloat16"};
        for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
            if (!strcmp(dtypes[i], e->name)) return plain(V_DTYPE, format("TP_%s", upper(e->name)));
        if (!strcmp(e->name, "boolean")) return plain(V_DTYPE, "TP_BOOL");
        fail(e->at,
             "'%s' is not a name here; expected an argument, a local, grad, result, None, true, false, inf or a dtype",
             e->name);
    case E_LIST: {
        vkind k;
        char *c = list_text(s, e, &k);
        return plain(k, c);
    }
    case E_FIELD: return field_expr(s, e);
    case E_UNARY: return unary(s, e);
    case E_BINARY: return binary(s, e);
    case E_TERNARY: return choice(s, e);
    case E_CALL: {
        if (builtin(s, e, &r)) return r;
        const op *o = operator_named(s, e->name);
        if (!o) fail(e->at, "the operator '%s' is not in the tables", e->name);
        return call_op(s, o, e);
    }
    case E_NAMED: fail(e->at, "a named argument outside of a call");
    }
    return plain(V_NONE, "NULL");
}

tvalue tensor_block(tensor_scope *s, const block *b) {
    for (int i = 0; i < b->n; i++) {
        tvalue v = tensor_expr(s, b->value[i]);
        if (!b->name[i]) return v;
        v.temp = -1; /* named: lives to the end */
        bind_tensor(s, b->name[i], v);
    }
    fail(b->at, "expected a result after the locals");
}

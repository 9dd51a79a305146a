/* Operators' internal functions: the forward call by kind, recorded by a node (node.c), in inner_NAME, and the way in,
 * tpo_NAME. */
#include "node.h"
#include "registers.h"
#include "kernels.h"
#include <stdio.h>
#include <string.h>

/* ---- C text of arguments ---- */
char *c_default(const arg *a) {
    const expr *e = a->fallback;
    if (e->kind == E_NAME && (!strcmp(e->name, "None"))) return (char *)types[a->type].none;
    text t = {0};
    switch (a->type) {
    case T_INT:
    case T_INT_OPT:
    case T_BOOL:
    case T_BOOL_OPT: return print_expr(e);
    case T_FLOAT:
    case T_FLOAT_OPT:
        if (e->kind == E_NAME && !strcmp(e->name, "inf")) return "INFINITY";
        if (e->kind == E_UNARY && e->arg[0]->kind == E_NAME) return "-INFINITY";
        return print_expr(e);
    case T_STR:
    case T_STR_OPT: return print_expr(e);
    case T_SCALAR:
    case T_SCALAR_OPT:
    case T_OPERAND: {
        const expr *x = e->kind == E_UNARY ? e->arg[0] : e;
        const char *maker = x->kind == E_INT                                                               ? "tp_int"
                            : x->kind == E_NAME && (!strcmp(x->name, "true") || !strcmp(x->name, "false")) ? "tp_truth"
                                                                                                           : "tp_float";
        char *value = x->kind == E_NAME && !strcmp(x->name, "inf") ? (e->kind == E_UNARY ? "-INFINITY" : "INFINITY")
                                                                   : print_expr(e);
        return a->type == T_OPERAND ? format("tp_operand_scalar(%s(%s))", maker, value)
                                    : format("%s(%s)", maker, value);
    }
    case T_INTS:
    case T_INTS_OPT:
    case T_BOOLS:
        if (e->kind != E_LIST) return format("(tp_ints){(const int64_t[]){%s}, 1}", print_expr(e));
        if (!e->n) return "(tp_ints){(const int64_t[]){0}, 0}";
        for (int i = 0; i < e->n; i++) put(&t, "%s%s", i ? ", " : "", print_expr(e->arg[i]));
        return format("(tp_ints){(const int64_t[]){%s}, %d}", t.s, e->n);
    case T_DTYPE: return format("TP_%s", upper(print_expr(e)));
    case T_LAYOUT: return format("TP_%s", upper(print_expr(e)));
    default: fail(a->fallback->at, "the argument '%s' can only default to None", a->name);
    }
}

char *parameters(const op *o, bool inplace) {
    text t = {0};
    put(&t, "%s", "");
    for (int i = 0; i < o->nargs; i++) {
        type y = o->args[i].type;
        if (inplace && i == 0) y = T_TENSOR;
        put(&t, "%s%s%s%s", i ? ", " : "", types[y].c, space(y), o->args[i].name);
    }
    return t.s;
}

static char *arguments(const op *o) {
    text t = {0};
    put(&t, "%s", "");
    for (int i = 0; i < o->nargs; i++) put(&t, "%s%s", i ? ", " : "", o->args[i].name);
    return t.s;
}

const char *plain_c(const op *o) {
    return !strcmp(o->plain_type, "bool")    ? "bool"
           : !strcmp(o->plain_type, "int")   ? "int64_t"
           : !strcmp(o->plain_type, "float") ? "double"
                                             : "tp_scalar";
}

/* A function's prototype, without the closing semicolon: of the operator's form with the suffix "", "_" or "_out". An
 * operator's form is two functions: tpo_NAME, which everybody calls, and inner_NAME, which does the work. Where a graph
 * may hand over neighbours, tpo_NAME calls enter_NAME without any. */
static char *prototype(const op *o, const char *prefix, const char *suffix) {
    bool functional = !*suffix, inplace = !strcmp(suffix, "_");
    char *p = parameters(o, inplace), *name = format("%s%s%s", prefix, o->cname, suffix);
    const char *comma = o->nargs ? ", " : "";
    if (inplace) return format("tp_tensor *%s(%s)", name, p);
    if (!functional) return format("tp_tensor *%s(tp_tensor *out_%s%s)", name, comma, p);
    if (o->plain) return format("bool %s(%s%s%s *out)", name, p, comma, plain_c(o));
    if (has_neighbours(o) && strcmp(prefix, "tpo_"))
        return format("bool %s(%s%stp_tensor **out, tpi_neighbours *neighbours)", name, p, comma);
    if (o->nresults > 1) return format("bool %s(%s%stp_tensor **out)", name, p, comma);
    if (o->results[0].type == T_TENSORS) return format("tp_tensors %s(%s)", name, o->nargs ? p : "void");
    return format("tp_tensor *%s(%s)", name, o->nargs ? p : "void");
}

static void open_inner(text *t, const op *o, const char *suffix) {
    put(t, "static %s {\n", prototype(o, "inner_", suffix));
}

char *function_prototype(const op *o) {
    char *p = parameters(o, o->kind == K_NATIVE_INPLACE);
    const char *comma = o->nargs ? ", " : "";
    if (o->kind == K_VIEW) return format("bool %s(%s, tpi_geometry *out)", o->function, p);
    if (o->kind == K_NATIVE_INPLACE) return format("bool %s(%s)", o->function, p);
    if (o->plain) return format("bool %s(%s%s%s *out)", o->function, p, comma, plain_c(o));
    if (o->nresults > 1) return format("bool %s(%s%stp_tensor **out)", o->function, p, comma);
    if (o->results[0].type == T_TENSORS) return format("tp_tensors %s(%s)", o->function, o->nargs ? p : "void");
    return format("tp_tensor *%s(%s)", o->function, o->nargs ? p : "void");
}

text write_internal_header(void) {
    text t = {0};
    put(&t, "/* Every operator as the library itself calls it: owned references in, out and no scopes. Written by "
            "opgen: do not edit. */\n");
    put(&t, "#ifndef TPI_OPS_H\n#define TPI_OPS_H\n#include \"tensor/tensor.h\"\n#include <taper/random.h>\n\n");
    for (int i = 0; i < nops; i++) {
        put(&t, "%s;\n", prototype(ops[i], "tpo_", ""));
        if (ops[i]->inplace) put(&t, "%s;\n", prototype(ops[i], "tpo_", "_"));
        if (ops[i]->out) put(&t, "%s;\n", prototype(ops[i], "tpo_", "_out"));
    }
    put(&t, "\n#endif\n");
    return t;
}

/* ---- forward ---- */
static char *scalar_text(const arg *a) {
    vkind v = kind_of_type(a->type);
    return v == V_SCALAR ? a->name : v == V_FLOAT ? format("tp_float(%s)", a->name) : format("tp_int(%s)", a->name);
}

/* The tensor whose dtype is the operator's own, where one tensor alone decides it. */
static const char *bool_operand(const op *o) {
    const char *found = NULL;
    for (int i = 0; i < o->nargs; i++) {
        if (!is_tensor(o->args[i].type) || o->args[i].fixed != C_TYPES) continue;
        if (found || o->args[i].type != T_TENSOR) return NULL;
        found = o->args[i].name;
    }
    return found;
}

static char *map_call(const op *o, const char *into, bool inplace) {
    kernel_inputs k;
    text t = {0};
    map_inputs(o, -1, &k);
    put(&t, "tpi_run_map(&tpi_map_%s, %s, (tp_operand[]){", o->cname, into);
    for (int i = 0; i < k.n; i++) {
        const arg *a = &o->args[k.arg[i]];
        bool operand = a->type == T_OPERAND && !(inplace && k.arg[i] == 0);
        put(&t, "%s%s", i ? ", " : "", operand ? a->name : format("tp_operand_tensor(%s)", a->name));
    }
    put(&t, "}, %s", k.nparam ? "(tp_scalar[]){" : "NULL");
    for (int i = 0; i < k.nparam; i++) {
        const arg *a = &o->args[k.param[i]];
        const char *like = kind_of_type(a->type) == V_SCALAR && (o->types & CAT_BOOL) ? bool_operand(o) : NULL;
        put(&t, "%s%s", i ? ", " : "", like ? format("tpi_number_among(%s, %s)", like, a->name) : scalar_text(a));
    }
    put(&t, "%s)", k.nparam ? "}" : "");
    return t.s;
}

static char *fold_call(const op *o, const char *outs) {
    text t = {0}, params = {0};
    int over = o->over ? find_arg(o, o->over) : -1, dtype = find_arg(o, "dtype");
    int n = 0;
    for (int i = 0; i < o->nargs; i++) {
        vkind v = kind_of_type(o->args[i].type);
        if ((v != V_SCALAR && v != V_FLOAT && v != V_INT && v != V_BOOL) || i == over ||
            (o->keep && !strcmp(o->keep, o->args[i].name)))
            continue;
        put(&params, "%s%s", n++ ? ", " : "", scalar_text(&o->args[i]));
    }
    char *p = n ? format("(tp_scalar[]){%s}", params.s) : "NULL";
    char *d = dtype >= 0 && o->args[dtype].type == T_DTYPE ? "dtype" : "TP_NO_DTYPE";
    if (o->kind == K_SCAN) {
        if (over < 0 || kind_of_type(o->args[over].type) != V_INT)
            fail(o->at, "%s: a scan goes over one int dim", o->name);
        return format("tpi_run_scan(&tpi_scan_%s, %s, %s, %s, %s, %s)", o->cname, outs, o->of, o->over, d, p);
    }
    char *dims = "tp_no_ints()";
    if (over >= 0)
        dims = kind_of_type(o->args[over].type) == V_INTS
                   ? o->over
                   : format("(%s == TP_NONE ? tp_no_ints() : (tp_ints){&%s, 1})", o->over, o->over);
    put(&t, "tpi_run_fold(&tpi_fold_%s, %s, %s, %s, %s, %s, %s)", o->cname, outs, o->of, dims,
        o->keep ? o->keep : "false", d, p);
    return t.s;
}

static const char *first_tensor(const op *o) {
    for (int i = 0; i < o->nargs; i++) {
        if (o->args[i].type == T_TENSOR) return o->args[i].name;
        if (is_tensors(o->args[i].type)) return format("tpi_first(%s)", o->args[i].name);
    }
    return NULL;
}

static void write_null_checks(text *t, const op *o, const char *failure, bool inplace) {
    for (int i = 0; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        if (a->type == T_TENSOR || (inplace && i == 0))
            put(t, "    if (!%s) return tpi_no_tensor(\"%s\", \"%s\"), %s;\n", a->name, o->name, a->name, failure);
        if (a->type == T_OPERAND && !(inplace && i == 0) && o->kind != K_MAP)
            put(t, "    if (!tpi_operand_given(&%s)) return tpi_no_tensor(\"%s\", \"%s\"), %s;\n", a->name, o->name,
                a->name, failure);
        if (a->type == T_TENSORS)
            put(t, "    if (!tpi_list_given(%s)) return tpi_no_tensor(\"%s\", \"%s\"), %s;\n", a->name, o->name,
                a->name, failure);
    }
}

/* Natives settle their own dtypes, but those that few operators know come in only where `types` names them. */
static void write_dtype_checks(text *t, const op *o, const char *failure) {
    int known = 15 | o->types;
    if (o->kind != K_NATIVE && o->kind != K_NATIVE_INPLACE) return;
    for (int i = 0; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        if (is_tensor(a->type) && a->type != T_OPERAND)
            put(t, "    if (!tpi_accepts_tensor(%s, %d)) return tpi_refuse_dtype(\"%s\", %s->dtype), %s;\n", a->name,
                known, o->name, a->name, failure);
        if (a->type == T_DTYPE)
            put(t, "    if (!tpi_accepts_dtype(%s, %d)) return tpi_refuse_dtype(\"%s\", %s), %s;\n", a->name, known,
                o->name, a->name, failure);
        if (is_tensors(a->type))
            put(t,
                "    for (int64_t i = 0; i < %s.n; i++)\n        if (!tpi_accepts_tensor(%s.v[i], %d)) return "
                "tpi_refuse_dtype(\"%s\", %s.v[i]->dtype), %s;\n",
                a->name, a->name, known, o->name, a->name, failure);
    }
}

/* In place, the first argument is a plain tensor. */
char *argument_letters(const op *o, bool inplace) {
    char *letters = need((size_t)o->nargs + 1);
    for (int i = 0; i < o->nargs; i++) letters[i] = types[inplace && i == 0 ? T_TENSOR : o->args[i].type].letter;
    return letters;
}

/* A native operator is one step of a graph, unless it is open; kernels are recorded where they are launched, views by
 * what they look at, and compositions are what they are made of. */
static bool is_step(const op *o) {
    return !o->plain && !o->open && (o->kind == K_NATIVE || o->kind == K_NATIVE_INPLACE);
}

/* What is done to arguments, in the function's form and in those that write into a tensor. */
static const char *cast_of(const char *cast, bool functional) {
    return !cast || !strcmp(cast, "NOTHING") ? "NOTHING" : functional ? cast : "OFF";
}

/* The function that everybody calls. A call that somebody watches, or that automatic mixed precision has a say in,
 * takes the detour of src/dispatch/detour.h around the inner function; others go straight there. `suffix` is "", "_" or
 * "_out"; forms that write into a tensor run without casts, as they stand. What may be replaced is copied first, so
 * that the arguments themselves stay in registers. */
static void write_entry(text *t, const op *o, const char *suffix) {
    bool functional = !*suffix, inplace = !strcmp(suffix, "_"), many = functional && (o->nresults > 1 || o->plain);
    bool list = functional && !many && o->results[0].type == T_TENSORS, step = is_step(o) && strcmp(suffix, "_out");
    const char *failure = many ? "false" : list ? "(tp_tensors){NULL, 0}" : "NULL";
    const char *letters = argument_letters(o, inplace);
    const bool out = !strcmp(suffix, "_out");
    text copies = {0}, addresses = {0}, args = {0}, plain = {0};
    put(&copies, "%s", out ? "        tp_tensor *out__ = out_;\n" : "");
    put(&args, "%s", out ? "out__, " : "");
    put(&plain, "%s", out ? "out_, " : "");
    for (int i = 0; i < o->nargs; i++) {
        const char *name = o->args[i].name, *comma = i ? ", " : "";
        bool seen = step || strchr("tolinB", letters[i]);
        if (seen) put(&copies, "        __typeof__(%s) %s_ = %s;\n", name, name, name);
        put(&addresses, seen ? "%s&%s_" : "%sNULL", comma, name);
        put(&args, seen ? "%s%s_" : "%s%s", comma, name);
        put(&plain, "%s%s", comma, name);
    }
    if (many) {
        put(&args, o->nargs ? ", out" : "out");
        put(&plain, o->nargs ? ", out" : "out");
    }
    if (has_neighbours(o)) {
        put(&args, ", neighbours");
        put(&plain, ", neighbours");
    }
    put(t, "%s {\n    if (__builtin_expect((tpi_detours%s) | tpi_marks_alive(), 0)) {\n",
        has_neighbours(o) ? format("static %s", prototype(o, "enter_", suffix)) : prototype(o, "tpo_", suffix),
        o->autocast ? ""
        : step      ? " & (TPI_WATCHED | TPI_RECORDED)"
                    : " & TPI_WATCHED");
    put(t,
        "        static const tpi_operator_entry entry = {\"%s%s\", \"%s\", TPI_CAST_%s, TPI_CAST_%s, %s, "
        "TPI_MARKS_%s};\n%s",
        o->name, inplace ? "_" : "", letters, cast_of(o->autocast, functional), cast_of(o->autocast_gpu, functional),
        step ? "true" : "false",
        o->marks            ? o->marks
        : o->kind == K_VIEW ? "KEPT"
                            : "RESOLVED",
        copies.s);
    put(t, "        void *const addresses_[] = {%s};\n        tpi_detour detour;\n", o->nargs ? addresses.s : "NULL");
    put(t, "        if (!tpi_detour_begin(&detour, &entry, addresses_, %s)) return %s;\n",
        functional ? "NULL"
        : out      ? "&out__"
                   : format("&%s_", o->args[0].name),
        failure);
    put(t, "        %sgiven = inner_%s%s(%s);\n",
        list   ? "tp_tensors "
        : many ? "bool "
               : "tp_tensor *",
        o->cname, suffix, args.s);
    if (step && many)
        put(t, "        tpi_detour_gave(&detour, given, %d, out);\n", o->nresults);
    else if (step && list)
        put(t, "        tpi_detour_gave(&detour, given.v != NULL, given.n, given.v);\n");
    else if (step)
        put(t, "        tpi_detour_gave(&detour, given != NULL, 1, &given);\n");
    if (functional)
        put(t, "        tpi_detour_end(&detour);\n        return given;\n    }\n");
    else
        put(t, "        return tpi_detour_wrote(&detour, given);\n    }\n");
    put(t, "    return inner_%s%s(%s);\n}\n\n", o->cname, suffix, plain.s);
    if (has_neighbours(o))
        put(t, "%s { return enter_%s(%s, out, NULL); }\n\n", prototype(o, "tpo_", ""), o->cname, arguments(o));
}

/* A check's message as a format: {x.dtype} is PyTorch's word for a tensor's dtype, {x.shape} its sizes, {n} an int;
 * `values` gets what they print. */
static char *message_words(const op *o, const check *c, bool inplace, text *values) {
    text t = {0};
    put(&t, "%s", "");
    put(values, "%s", "");
    for (const char *s = c->message; *s; s++) {
        if (*s != '{') {
            put(&t, *s == '%' ? "%%%%" : "%c", *s);
            continue;
        }
        const char *name = s + 1, *end = name + strcspn(name, ".}");
        s = strchr(name, '}');
        int k = s ? find_arg(o, copy_n(name, (size_t)(end - name))) : -1;
        if (k < 0) fail(c->condition->at, "%s: a check's message names no argument in '{%.20s'", o->name, name);
        const arg *a = &o->args[k];
        char *x = format("%s%s", a->name, a->type == T_OPERAND && !(inplace && k == 0) ? ".tensor" : "");
        if (!strncmp(end, ".dtype}", 7))
            put(values, ", tp_dtype_word((tp_dtype)%s->dtype)", x);
        else if (!strncmp(end, ".shape}", 7))
            put(values, ", tpi_shape_text(tpi_shape(%s))", x);
        else if (a->type == T_INT && *end == '}')
            put(values, ", (long long)%s", x);
        else
            fail(c->condition->at, "%s: expected {x.dtype}, {x.shape} or an int's name in a check's message", o->name);
        put(&t, a->type == T_INT ? "%%lld" : "%%s");
    }
    return t.s;
}

/* What the stanza's `check` lines ask, before anything is computed. In the in-place form the first argument is a plain
 * tensor. */
static void write_checks(text *t, const op *o, const char *failure, bool inplace) {
    for (int i = 0; i < o->nchecks; i++) {
        tensor_scope s = {.code = t, .indent = "        ", .o = o, .failure = format("return %s;", failure)};
        bind_arguments(&s, o);
        if (inplace) bind_tensor(&s, o->args[0].name, (tvalue){.kind = V_TENSOR, .c = o->args[0].name, .temp = -1});
        put(t, "    {\n");
        tvalue v = tensor_expr(&s, o->checks[i].condition);
        if (v.kind != V_BOOL || s.nlists)
            fail(o->checks[i].condition->at, "%s: a check asks for a plain truth value", o->name);
        if (!o->checks[i].message) {
            put(t, "        if (!%s) return %s;\n    }\n", v.c, failure);
            continue;
        }
        text values = {0};
        char *words = message_words(o, &o->checks[i], inplace, &values);
        put(t, "        if (!%s) return tpi_fail(%s, %s%s), %s;\n    }\n", v.c, o->checks[i].code, c_string(words),
            values.s, failure);
    }
}

/* The node of a composition's result is that of its last step; it goes by the composition's name. */
static void write_rename(text *t, const op *o) {
    const char *first = first_tensor(o) ? first_tensor(o) : "NULL";
    if (o->node && o->nresults == 1) put(t, "    if (out) tpi_node_rename(out, %s, \"%s\");\n", first, o->node);
    for (int r = 0; o->node && o->nresults > 1 && r < o->nresults; r++)
        put(t, "    if (fine && out[%d]) tpi_node_rename(out[%d], %s, \"%s\");\n", r, r, first, o->node);
}

static void write_compose(text *t, const op *o) {
    text body = {0};
    put(&body, "%s", "");
    tensor_scope s = {.code = &body, .indent = "    ", .o = o, .failure = "goto done;"};
    bind_arguments(&s, o);
    bool list = !o->plain && o->results[0].type == T_TENSORS;
    if (o->nresults > 1) { /* name = expr for each result */
        bool set[6] = {false};
        for (int i = 0; i < o->body->n; i++) {
            tvalue v = tensor_expr(&s, o->body->value[i]);
            if (!o->body->name[i] && v.kind == V_MULTI && v.multi->nresults == o->nresults) {
                for (int r = 0; r < o->nresults; r++) {
                    put(&body, "    out[%d] = tpi_move_out(&t[%d]);\n", r, v.base + r);
                    set[r] = true;
                }
                break;
            }
            int r = o->body->name[i] ? find_result(o, o->body->name[i]) : -1;
            if (r < 0 && !o->body->name[i]) fail(o->body->at, "%s: expected 'result = value' for each result", o->name);
            if (r >= 0) {
                put(&body, "    out[%d] = %s;\n", r, owned(&s, v, o->body->at));
                set[r] = true;
            }
            v.temp = -1;
            if (r >= 0) {
                v.c = format("out[%d]", r);
                v.kind = V_TENSOR;
            }
            bind_tensor(&s, o->body->name[i], v);
        }
        for (int r = 0; r < o->nresults; r++)
            if (!set[r]) fail(o->body->at, "%s: the result '%s' is not given", o->name, o->results[r].name);
    } else {
        tvalue v = tensor_block(&s, o->body);
        if (o->plain)
            put(&body, "    *out = %s;\n", v.c);
        else if (list) {
            if (v.kind != V_TENSORS) fail(o->body->at, "%s: expected a list", o->name);
            put(&body, "    out = %s, %s = (tp_tensors){NULL, 0};\n", v.c, v.c);
        } else
            put(&body, "    out = %s;\n", owned(&s, v, o->body->at));
    }
    bool many = o->nresults > 1 || o->plain;
    open_inner(t, o, "");
    write_null_checks(t, o, many ? "false" : list ? "(tp_tensors){NULL, 0}" : "NULL", false);
    write_checks(t, o, many ? "false" : list ? "(tp_tensors){NULL, 0}" : "NULL", false);
    put(t, "    tp_tensor *t[%d] = {NULL};\n", s.ntemps + 1);
    if (s.nlists) put(t, "    tp_tensors l[%d] = {{NULL, 0}};\n", s.nlists);
    if (many) put(t, "    bool fine = false;\n");
    if (o->nresults > 1) put(t, "    for (int i = 0; i < %d; i++) out[i] = NULL;\n", o->nresults);
    if (!many) put(t, list ? "    tp_tensors out = {NULL, 0};\n" : "    tp_tensor *out = NULL;\n");
    put(t, "%s%s%s    tpi_drop_all(t, %d);\n", body.s, many ? "    fine = true;\n" : "", label(&body, 0, "done"),
        s.ntemps);
    for (int i = 0; i < s.nlists; i++) put(t, "    tpi_release_list(l[%d]);\n", i);
    if (!o->plain && !list) write_rename(t, o);
    if (o->nresults > 1) put(t, "    if (!fine) tpi_drop_all(out, %d);\n", o->nresults);
    put(t, "    return %s;\n}\n\n", many ? "fine" : "out");
}

static void write_forward_into(text *t, const op *o) {
    const char *args = arguments(o);
    bool many = o->nresults > 1;
    switch (o->kind) {
    case K_MAP: put(t, "    tp_tensor *out = %s;\n    if (!out) return NULL;\n", map_call(o, "NULL", false)); break;
    case K_FOLD:
    case K_SCAN:
        if (many)
            put(t, "    if (!%s) return tpi_no_results(out, %d);\n", fold_call(o, "out"), o->nresults);
        else
            put(t, "    tp_tensor *out = NULL;\n    if (!%s) return NULL;\n", fold_call(o, "&out"));
        break;
    case K_VIEW:
        put(t,
            "    tpi_geometry g;\n    g.dtype = TP_NO_DTYPE;\n    if (!%s(%s, &g)) return NULL;\n    tp_tensor *out = "
            "tpi_view_of(%s, &g);\n    if (!out) return NULL;\n",
            o->function, args, o->args[0].name);
        break;
    case K_NATIVE:
        if (o->plain)
            put(t, "    return %s;\n", native_call(o, format("%s%sout", args, o->nargs ? ", " : ""), NULL));
        else if (many)
            put(t, "    for (int i = 0; i < %d; i++) out[i] = NULL;\n    if (!%s) return tpi_no_results(out, %d);\n",
                o->nresults, native_call(o, format("%s%sout", args, o->nargs ? ", " : ""), NULL), o->nresults);
        else if (o->results[0].type == T_TENSORS)
            put(t, "    tp_tensors out = %s;\n    if (!out.v) return out;\n", native_call(o, args, NULL));
        else
            put(t, "    tp_tensor *out = %s;\n    if (!out) return NULL;\n", native_call(o, args, NULL));
        break;
    case K_NATIVE_INPLACE: {
        text rest = {0};
        put(&rest, "out");
        for (int i = 1; i < o->nargs; i++) put(&rest, ", %s", o->args[i].name);
        put(t,
            "    tp_tensor *out = tpi_clone_data(%s);\n    if (!out) return NULL;\n    if (!%s) return "
            "tp_release(out), NULL;\n",
            o->args[0].name, native_call(o, rest.s, "out"));
        break;
    }
    default: break;
    }
}

/* An operator marked `todo`: what it gives remembers where it came from, and backward says that the derivative is
 * missing. */
static void write_missing(text *t, const op *o) {
    bool many = o->nresults > 1;
    put(t, "    static const tpi_node_class missing = {\"%s\", \"%s\", tpi_missing_backward, NULL, NULL, NULL};\n",
        node_name(o), o->name);
    put(t, "    tp_tensor *const inputs[] = {");
    int n = 0;
    for (int i = 0; i < o->nargs; i++)
        if (is_tensor(o->args[i].type))
            put(t, "%s%s%s", n++ ? ", " : "", o->args[i].name, o->args[i].type == T_OPERAND ? ".tensor" : "");
    put(t, "};\n    if (!tpi_record_missing(&missing, %d, inputs, %d, %s)) ", n, o->nresults, many ? "out" : "&out");
    put(t,
        many ? "{\n        tpi_drop_all(out, %d);\n        return false;\n    }\n" : "return tp_release(out), NULL;\n",
        o->nresults);
}

static void write_functional(text *t, const op *o, const needs *n) {
    bool many = o->nresults > 1, list = !o->plain && o->results[0].type == T_TENSORS;
    const char *failure = many || o->plain ? "false" : list ? "(tp_tensors){NULL, 0}" : "NULL";
    open_inner(t, o, "");
    write_null_checks(t, o, failure, false);
    write_dtype_checks(t, o, failure);
    write_checks(t, o, failure, false);
    if (o->kind == K_COMPOSE_C && o->node && !many && !list && !o->plain) {
        put(t, "    tp_tensor *out = %s(%s);\n", o->function, arguments(o));
        write_rename(t, o);
        put(t, "    return out;\n}\n\n");
        return;
    }
    if (o->kind == K_COMPOSE_C && o->node && many) {
        put(t, "    const bool fine = %s(%s%sout) || tpi_no_results(out, %d);\n", o->function, arguments(o),
            o->nargs ? ", " : "", o->nresults);
        write_rename(t, o);
        put(t, "    return fine;\n}\n\n");
        return;
    }
    if (o->kind == K_COMPOSE_C && o->node && list) {
        put(t, "    tp_tensors out = %s(%s);\n    tpi_mark_pieces(out, %s, \"%s\");\n    return out;\n}\n\n",
            o->function, arguments(o), first_tensor(o), o->node);
        return;
    }
    if (o->kind == K_COMPOSE_C) {
        put(t, "    return %s(%s%s)%s;\n}\n\n", o->function, arguments(o),
            o->plain || many ? (o->nargs ? ", out" : "out") : "",
            many ? format(" || tpi_no_results(out, %d)", o->nresults) : "");
        return;
    }
    write_forward_into(t, o);
    if (o->plain) {
        put(t, "}\n\n");
        return;
    }
    char *track = differentiable(o) ? any_tracks(o) : NULL;
    if (track && list) fail(o->at, "%s: an operator that gives a list is a composition, or has no derivative", o->name);
    if (track) {
        const char *outs[6] = {"out"};
        for (int r = 0; many && r < o->nresults; r++) outs[r] = format("out[%d]", r);
        put(t, "    if (!tpi_grad_off && (%s)) {\n", track);
        put(t, "        tpi_node *node = %s_node(%s);\n        if (!node) goto failed;\n", o->cname, arguments(o));
        write_attach(t, o, n, outs, "        ", "goto unrecorded;", false);
        put(t, "        return %s;\n    unrecorded:\n        tpi_node_release(node);\n        goto failed;\n    }\n",
            many ? "true" : "out");
    }
    if (o->todo) write_missing(t, o);
    bool makes_memory = o->kind != K_VIEW; /* views take the mark from what they view */
    if (makes_memory && !list)
        put(t, "    if (tpi_inference_on()) tpi_mark_inference_all(%s, %d);\n", many ? "out" : "&out", o->nresults);
    if (many)
        put(t, "    return true;\n%s",
            track ? format("failed:\n    tpi_drop_all(out, %d);\n    return false;\n", o->nresults) : "");
    else
        put(t, "    return out;\n%s", track ? "failed:\n    tp_release(out);\n    return NULL;\n" : "");
    put(t, "}\n\n");
}

/* A view in place gives the tensor itself the new geometry; its history then goes through the view. */
static void write_view_inplace(text *t, const op *o, const needs *n) {
    const char *self = o->args[0].name;
    char *track = differentiable(o) ? any_tracks(o) : NULL;
    put(t,
        "    if (!tpi_check_inplace_expanded(%s)) return NULL;\n    tpi_geometry g;\n    g.dtype = TP_NO_DTYPE;\n    "
        "if (!%s(%s, &g)) return NULL;\n",
        self, o->function, arguments(o));
    if (track)
        put(t, "    tpi_node *node = NULL;\n    if (!tpi_grad_off && (%s) && !(node = %s_node(%s))) return NULL;\n",
            track, o->cname, arguments(o));
    put(t, "    if (!tpi_set_geometry(%s, &g)) %s\n    tpi_touch(%s);\n", self,
        track ? "goto unrecorded;" : "return NULL;", self);
    if (track) {
        const char *outs[1] = {self};
        put(t, "    if (node) {\n");
        write_attach(t, o, n, outs, "        ", "goto unrecorded;", false);
        put(t, "    }\n    return %s;\nunrecorded:\n    tpi_node_release(node);\n    return NULL;\n}\n\n", self);
    } else
        put(t, "    return %s;\n}\n\n", self);
}

/* Might the call be recorded? In an in-place form, where self is a plain tensor. */
static char *inplace_tracks(const op *o) {
    text t = {0};
    put(&t, "tpi_tracks(%s)", o->args[0].name);
    for (int i = 1; i < o->nargs; i++)
        if (is_tensor(o->args[i].type))
            put(&t, " || tpi_tracks(%s%s)", o->args[i].name, o->args[i].type == T_OPERAND ? ".tensor" : "");
    return t.s;
}

/* Computes and copies. The backward of what was computed may want self as it was, so that it gets a copy when there
 * will be one. */
static void write_inplace_by_copy(text *t, const op *o, const needs *n) {
    const char *self = o->args[0].name, *from = self;
    put(t, "    if (!tpi_check_inplace(%s)) return NULL;\n", self);
    if (!o->nondiff && (o->kind == K_COMPOSE || o->kind == K_COMPOSE_C || inplace_saves_copy(o, n))) {
        from = "before";
        put(t,
            "    tp_tensor *before = !tpi_grad_off && (%s) ? tpi_copy_for_backward(%s) : tpi_retain(%s);\n    if "
            "(!before) return NULL;\n",
            inplace_tracks(o), self, self);
    }
    text args = {0};
    put(&args, "%s", o->args[0].type == T_OPERAND ? format("tp_operand_tensor(%s)", from) : from);
    for (int i = 1; i < o->nargs; i++) put(&args, ", %s", o->args[i].name);
    put(t, "    tp_tensor *out = tpo_%s(%s);\n", o->cname, args.s);
    if (from != self) put(t, "    tp_release(before);\n");
    put(t,
        "    if (!out) return NULL;\n    tp_tensor *r = tpi_store_inplace(%s, out);\n    tp_release(out);\n    return "
        "r;\n}\n\n",
        self);
}

/* A layer's forward that is one call of an operator with an in-place form is that form. */
static bool write_inplace_call(text *t, const op *o) {
    const expr *e = o->hidden && o->body->n == 1 && !o->body->name[0] ? o->body->value[0] : NULL;
    const op *p = e && e->kind == E_CALL ? find_op(e->name) : NULL;
    if (!p || !p->inplace || !e->n || e->arg[0]->kind != E_NAME || strcmp(e->arg[0]->name, o->args[0].name))
        return false;
    tensor_scope s = {.code = t, .indent = "    ", .o = o, .failure = "return NULL;"};
    bind_arguments(&s, o);
    text args = {0};
    put(&args, "%s", o->args[0].name);
    for (int k = 1; k < p->nargs; k++) {
        const expr *given = k < e->n && e->arg[k]->kind != E_NAMED ? e->arg[k] : NULL;
        for (int i = 1; i < e->n; i++)
            if (e->arg[i]->kind == E_NAMED && !strcmp(e->arg[i]->name, p->args[k].name)) given = e->arg[i]->arg[0];
        put(&args, ", %s", given ? argument_text(&s, given, &p->args[k], p) : c_default(&p->args[k]));
    }
    put(t, "    return tpo_%s_(%s);\n}\n\n", p->cname, args.s);
    return true;
}

/* Refuses inputs that share memory with what is written; arguments before `first` are not looked at. */
static void write_overlap_checks(text *t, const op *o, const char *written, int rule, int first) {
    const char *name = rule == OVERLAP_SAME ? "TPI_OVERLAP_SAME" : "TPI_OVERLAP_NONE";
    text list = {0};
    int n = 0;
    for (int i = first; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        if (is_tensor(a->type)) put(&list, "%s%s%s", n++ ? ", " : "", a->name, a->type == T_OPERAND ? ".tensor" : "");
        if (is_tensors(a->type))
            put(t, "    if (!tpi_check_list_overlaps(%s, %s, %s)) return NULL;\n", written, a->name, name);
    }
    if (n)
        put(t, "    if (!tpi_check_overlaps(%s, %d, (tp_tensor *[]){%s}, %s)) return NULL;\n", written, n, list.s,
            name);
}

/* The condition under which the tape records, in a function in which self is a plain tensor, whatever the signature
 * says. */
static char *recorded_when(const op *o) {
    char *track = differentiable(o) ? any_tracks(o) : NULL;
    const char *self = o->args[0].name;
    if (!track || o->args[0].type != T_OPERAND) return track;
    const char *operand = format("tpi_tracks(%s.tensor)", self);
    char *at = strstr(track, operand);
    return at ? format("%.*stpi_tracks(%s)%s", (int)(at - track), track, self, at + strlen(operand)) : track;
}

/* Before a write that the tape records: the node, with what self was. */
static void write_inplace_node(text *t, const op *o, const needs *n, const char *track) {
    const char *self = o->args[0].name;
    text rest = {0};
    put(&rest, "%s", "");
    for (int i = 1; i < o->nargs; i++) put(&rest, ", %s", o->args[i].name);
    put(t, "    tpi_node *node = NULL;\n    if (!tpi_grad_off && (%s)) {\n", track);
    put(t, "        tp_tensor *before = %s;\n",
        inplace_saves_copy(o, n) ? format("tpi_copy_for_backward(%s)", self) : format("tpi_retain(%s)", self));
    put(t,
        "        if (!before || !tpi_check_tracked_write(%s)) return tp_release(before), NULL;\n        node = "
        "%s_node(%s%s);\n        tp_release(before);\n        if (!node) return NULL;\n    }\n",
        self, o->cname, o->args[0].type == T_OPERAND ? "tp_operand_tensor(before)" : "before", rest.s);
}

/* In place: maps and in-place natives write into self; anything else computes and copies. */
static void write_inplace(text *t, const op *o, const needs *n) {
    const char *self = o->args[0].name;
    open_inner(t, o, "_");
    write_null_checks(t, o, "NULL", true);
    if (o->kind == K_VIEW) {
        write_view_inplace(t, o, n);
        return;
    }
    bool direct = o->kind == K_MAP || o->kind == K_NATIVE_INPLACE;
    if (write_inplace_call(t, o)) return;
    if (!direct) {
        write_inplace_by_copy(t, o, n);
        return;
    }
    write_dtype_checks(t, o, "NULL");
    write_checks(t, o, "NULL", true);
    put(t, "    if (!tpi_check_inplace%s(%s)) return NULL;\n", o->expanded ? "_expanded" : "", self);
    if (o->kind == K_NATIVE_INPLACE) write_overlap_checks(t, o, self, o->overlap ? o->overlap : OVERLAP_NONE, 1);
    char *track = recorded_when(o);
    const bool constant = !track && o->nondiff && is_tensor(o->args[0].type);
    if (constant)
        put(t,
            "    if (!tpi_grad_off && tpi_tracks(%s) && !tpi_check_tracked_write(%s)) return NULL;\n"
            "    static const tpi_node_class constant = {\"%s\", \"%s\", tpi_constant_backward, NULL, NULL, NULL};\n",
            self, self, node_name(o), o->name);
    if (track) write_inplace_node(t, o, n, track);
    const char *failure =
        track ? "{\n        if (node) tpi_node_release(node);\n        return NULL;\n    }" : "return NULL;";
    if (o->kind == K_MAP)
        put(t, "    tp_tensor *out = %s;\n    if (!out) %s\n    tp_release(out);\n", map_call(o, self, true), failure);
    else
        put(t, "    if (!%s) %s\n", native_call(o, arguments(o), self), failure);
    put(t, "    tpi_touch(%s);\n", self);
    if (track) {
        const char *outs[1] = {self};
        op copy = *o;
        copy.args[0].type = T_TENSOR; /* conditions inside name self as a plain tensor */
        put(t, "    if (node) {\n");
        write_attach(t, &copy, n, outs, "        ", "goto unrecorded;", true);
        put(t, "    }\n    return %s;\nunrecorded:\n    tpi_node_release(node);\n    return NULL;\n}\n\n", self);
    } else if (constant)
        put(t, "    return tpi_record_constant(&constant, %s) ? %s : NULL;\n}\n\n", self, self);
    else
        put(t, "    return %s;\n}\n\n", self);
}

static void write_out(text *t, const op *o) {
    open_inner(t, o, "_out");
    put(t, "    if (!out_) return tpi_no_tensor(\"%s\", \"out\"), NULL;\n", o->name);
    put(t, "    tp_tensor *inputs[] = {");
    for (int i = 0; i < o->nargs; i++) {
        if (o->args[i].type == T_OPERAND)
            put(t, "%s.tensor, ", o->args[i].name);
        else if (is_tensor(o->args[i].type))
            put(t, "%s, ", o->args[i].name);
    }
    put(t, "out_};\n    if (!tpi_check_out((int)(sizeof inputs / sizeof *inputs), inputs, out_)) return NULL;\n");
    if (o->kind == K_MAP) {
        write_checks(t, o, "NULL", false);
        put(t,
            "    tp_tensor *out = %s;\n    if (!out) return NULL;\n    tp_release(out);\n    tpi_touch(out_);\n    "
            "return out_;\n}\n\n",
            map_call(o, "out_", false));
        return;
    }
    int rule = o->overlap ? (int)o->overlap : o->kind == K_SCAN ? OVERLAP_SAME : OVERLAP_UNSET;
    if (rule) write_overlap_checks(t, o, "out_", rule, 0);
    int dtype = find_arg(o, "dtype"), device = find_arg(o, "device");
    if (device >= 0 && dtype >= 0 && !first_tensor(o))
        put(t, "    if (!tpi_settle_out(out_, &dtype, &device)) return NULL;\n");
    put(t,
        "    tp_tensor *out = tpo_%s(%s);\n    if (!out) return NULL;\n    tp_tensor *r = tpi_store_%s(out_, out);\n   "
        " tp_release(out);\n    return r;\n}\n\n",
        o->cname, arguments(o), o->out_elements ? "elements" : "out");
}

/* ---- descriptors ---- */
static const char *ctype_enum(ctype t) {
    static const char *const names[] = {"TPI_B8",  "TPI_I32",  "TPI_I64",    "TPI_F32",       "TPI_F64",
                                        "TPI_C64", "TPI_C128", "TPI_CTYPES", "TPI_CTYPES + 1"};
    return names[t];
}
static const char *result_enum(int r) {
    static const char *const names[] = {"TPI_RESULT_SAME", "TPI_RESULT_BOOL", "TPI_RESULT_REAL", "TPI_RESULT_INT64",
                                        "TPI_RESULT_TRUTH"};
    return names[r];
}

/* Whole numbers stay whole; a float is real also among complex elements; a Scalar takes the elements' type. */
static const char *param_enum(vkind v) {
    return v == V_INT || v == V_BOOL ? "TPI_I64" : v == V_FLOAT ? "TPI_CTYPES + 1" : "TPI_CTYPES";
}

static void map_descriptor(text *t, const op *o, int grad) {
    kernel_inputs k;
    map_inputs(o, grad, &k);
    const char *suffix = grad < 0 ? "" : format("_grad_%s", o->args[grad].name);
    put(t,
        "TPI_ISA_DECLARE(extern const tpi_block_fn, tpk_%s%s, [TPI_CTYPES]);\nextern const char *const "
        "tpt_%s%s[TPI_CTYPES];\n",
        o->cname, suffix, o->cname, suffix);
    const bool narrow = grad < 0 && has_narrow(o);
    if (narrow)
        put(t, "TPI_ISA_DECLARE(extern const tpi_block_fn, tpn_%s, [TPI_NARROW_FORMS * TPI_NARROWS]);\n", o->cname);
    put(t,
        "const tpi_map_op tpi_map_%s%s = {.name = \"%s\", .nin = %d, .nparam = %d, .rule = %s, .result = %s, .types = "
        "%d, .has_b8 = %d, .costly = %d,\n    .in_type = {",
        o->cname, suffix, o->name, k.n, k.nparam, o->rule_float || grad >= 0 ? "TPI_RULE_FLOAT" : "TPI_RULE_PROMOTE",
        grad < 0 ? result_enum(o->result_kind[0]) : "TPI_RESULT_SAME",
        grad < 0 ? o->types | (o->rule_float ? CAT_BOOL | CAT_INT : 0) : 15, op_ctypes(o) >> C_B8 & 1,
        is_costly_block(grad < 0 ? o->body : o->args[grad].grad));
    for (int i = 0; i < k.n; i++) put(t, "%s, ", ctype_enum(k.arg[i] >= 0 ? o->args[k.arg[i]].fixed : C_TYPES));
    put(t, "}, .in_name = {");
    for (int i = 0; i < k.n; i++) put(t, "\"%s\", ", k.arg[i] >= 0 ? o->args[k.arg[i]].name : "grad");
    put(t, "}, .param_type = {");
    for (int i = 0; i < k.nparam; i++) {
        vkind v = kind_of_type(o->args[k.param[i]].type);
        put(t, "%s, ", param_enum(v));
    }
    put(t, "%s}, %s%s%s.fn = TPI_ISA_TABLE(tpk_%s%s), .source = tpt_%s%s};\n", k.nparam ? "" : "0",
        grad < 0 && o->registers ? register_members(o) : "", grad < 0 && o->registers ? ", " : "",
        narrow ? narrow_members(o) : "", o->cname, suffix, o->cname, suffix);
}

static bool step_uses_index(const op *o) {
    for (int i = 0; i < o->step->n; i++)
        if (uses_name(o->step->value[i], "i")) return true;
    return false;
}

static void fold_descriptor(text *t, const op *o) {
    const char *k = kind_names[o->kind];
    int nparam = 0;
    text params = {0};
    for (int i = 0; i < o->nargs; i++) {
        vkind v = kind_of_type(o->args[i].type);
        if ((v != V_SCALAR && v != V_FLOAT && v != V_INT && v != V_BOOL) ||
            (o->over && !strcmp(o->over, o->args[i].name)) || (o->keep && !strcmp(o->keep, o->args[i].name)))
            continue;
        put(&params, "%s, ", param_enum(v));
        nparam++;
    }
    declare_joins(t, o);
    put(t,
        "TPI_ISA_DECLARE(extern const tpi_%s_kernel, tpk_%s, [TPI_CTYPES]);\nextern const char *const "
        "tpt_%s[TPI_CTYPES];\n",
        k, o->cname, o->cname);
    put(t,
        "const tpi_%s_op tpi_%s_%s = {.name = \"%s\", .nstate = %d, .nout = %d, .nparam = %d, .rule = %s, .types = %d, "
        ".sum_like = %d,\n",
        k, k, o->cname, o->name, o->start->n, o->nresults, nparam,
        o->rule_float ? "TPI_RULE_FLOAT" : "TPI_RULE_PROMOTE", o->types | (o->rule_float ? CAT_BOOL | CAT_INT : 0),
        o->rule_sum);
    if (o->kind == K_FOLD)
        put(t, "    .empty_error = %s, .each = %d, .uses_index = %d, .end = TPI_FOLD_ENDS_IN_%s,\n",
            o->empty_error ? o->empty_error : "TP_OK", o->each, o->first || step_uses_index(o), register_end(o));
    put(t, "%s    .state_type = {", narrow_joins(o));
    for (int i = 0; i < o->start->n; i++) {
        const char *s = o->start->type[i];
        put(t, "%s, ",
            !s                    ? "TPI_CTYPES"
            : !strcmp(s, "int64") ? "TPI_I64"
            : !strcmp(s, "bool")  ? "TPI_B8"
            : !strcmp(s, "real")  ? "TPI_CTYPES + 1"
                                  : "TPI_CTYPES + 2");
    }
    put(t, "}, .out_type = {");
    for (int r = 0; r < o->nresults; r++) put(t, "%s, ", result_enum(o->result_kind[r]));
    put(t, "}, .param_type = {%s}, .fn = TPI_ISA_TABLE(tpk_%s), .source = tpt_%s};\n", nparam ? params.s : "0",
        o->cname, o->cname);
}

void write_descriptors(text *t, const op *o) {
    if (o->kind == K_MAP) {
        map_descriptor(t, o, -1);
        for (int a = 0; a < o->nargs; a++)
            if (has_fused_grad(o, a)) map_descriptor(t, o, a);
        if (o->copies) put(t, "const tpi_map_op *const tpi_copying_map = &tpi_map_%s;\n", o->cname);
        if (o->adds) put(t, "const tpi_map_op *const tpi_adding_map = &tpi_map_%s;\n", o->cname);
    }
    if (o->kind == K_FOLD || o->kind == K_SCAN) fold_descriptor(t, o);
    if (o->function) put(t, "%s;\n", function_prototype(o));
    if (o->kind == K_NATIVE || o->kind == K_NATIVE_INPLACE) write_fallback(t, o);
}

text write_glue(const char *family) {
    text t = {0};
    put(&t, "/* Operators of tables/operators/%s.op. Written by opgen: do not edit. */\n", family);
    put(&t, "#pragma GCC diagnostic ignored \"-Wunused-parameter\" /* not every form of an operator reads every "
            "argument */\n");
    put(&t,
        "#include \"dispatch/detour.h\"\n#include \"autograd/glue.h\"\n#include \"tensor/channels_last.h\"\n#include "
        "\"tensor/check_arguments.h\"\n#include \"dispatch/cost.h\"\n#include \"device/epilogue.h\"\n#include "
        "\"device/cpu/isa.h\"\n#include \"tpi_ops.h\"\n#include \"tpi_registers.h\"\n#include <math.h>\n#include "
        "<taper/%s%s.h>\n\n",
        strcmp(family, "layers") ? "ops_" : "", family);
    for (int i = 0; i < nops; i++) {
        const op *o = ops[i];
        if (strcmp(o->family, family)) continue;
        put(&t, "/* ---- %s ---- */\n", o->signature);
        write_descriptors(&t, o);
        needs n;
        find_needs(o, &n);
        if (differentiable(o) && any_tracks(o)) {
            write_attrs(&t, o, &n);
            write_backward(&t, o, &n);
            release_lists(&t, o, &n);
            write_record(&t, o, &n);
        }
        if (o->kind == K_COMPOSE)
            write_compose(&t, o);
        else
            write_functional(&t, o, &n);
        write_entry(&t, o, "");
        if (o->inplace) {
            write_inplace(&t, o, &n);
            write_entry(&t, o, "_");
        }
        if (o->out) {
            write_out(&t, o);
            write_entry(&t, o, "_out");
        }
    }
    if (strcmp(family, "layers")) write_kernel_lists(&t, family);
    return t;
}

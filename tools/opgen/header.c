/* The public header, one part per family: typed functions with their docs, options as designated initialisers (C) or
 * default member values (C++), and the wrappers behind them, which hand results to the caller's scope. */
#include "header.h"
#include "layer.h"
#include <stdio.h>
#include <string.h>

static bool has_options(const op *o) {
    for (int i = 0; i < o->nargs; i++)
        if (o->args[i].fallback) return true;
    return false;
}
static type public_type(const op *o, int i, form f) { return f == FORM_INPLACE && i == 0 ? T_TENSOR : o->args[i].type; }
static bool needs_macro(const op *o, form f) {
    for (int i = 0; i < o->nargs; i++) {
        type y = public_type(o, i, f);
        if (o->args[i].fallback || y == T_OPERAND || y == T_SCALAR) return true;
    }
    return false;
}
static const char *form_suffix(form f) { return f == FORM_INPLACE ? "_" : f == FORM_OUT ? "_out" : ""; }
static char *user_name(const op *o, form f) { return format("tp_%s%s", o->cname, form_suffix(f)); }
static char *symbol(const op *o, form f) { return format("%s%s", user_name(o, f), needs_macro(o, f) ? "_with" : ""); }

static char *result_type(const op *o, form f) {
    if (o->module) return "tp_module *";
    if (f != FORM_PLAIN) return "tp_tensor *";
    if (o->plain)
        return !strcmp(o->plain_type, "bool")    ? "bool "
               : !strcmp(o->plain_type, "int")   ? "int64_t "
               : !strcmp(o->plain_type, "float") ? "double "
                                                 : "tp_scalar ";
    if (o->nresults > 1) return format("tp_%s_result ", o->cname);
    return o->results[0].type == T_TENSORS ? "tp_tensors " : "tp_tensor *";
}

static char *declaration(const op *o, form f) {
    text t = {0};
    put(&t, "%s%s(", result_type(o, f), symbol(o, f));
    int n = 0;
    if (f == FORM_OUT) {
        put(&t, "tp_tensor *out");
        n++;
    }
    for (int i = 0; i < o->nargs; i++) {
        if (o->args[i].fallback) break;
        type y = public_type(o, i, f);
        put(&t, "%s%s%s%s", n++ ? ", " : "", types[y].c, space(y), o->args[i].name);
    }
    if (has_options(o)) put(&t, "%sconst tp_%s_options *options", n++ ? ", " : "", o->cname);
    put(&t, "%s)", n ? "" : "void");
    return t.s;
}

/* Defaults in a form that C and C++ both take. */
static char *public_default(const arg *a) {
    const expr *e = a->fallback;
    bool none = e->kind == E_NAME && !strcmp(e->name, "None");
    if ((a->type == T_INTS || a->type == T_INTS_OPT || a->type == T_BOOLS) && !none) {
        if (e->kind == E_LIST && !e->n) return "tp_ints_view(tp_ints_empty_, 0)";
        text t = {0};
        put(&t, "tp_ints_view(tp_ints");
        int n = e->kind == E_LIST ? e->n : 1;
        for (int i = 0; i < n; i++) {
            char *v = print_expr(e->kind == E_LIST ? e->arg[i] : e);
            put(&t, "_%s%s", *v == '-' ? "m" : "", *v == '-' ? v + 1 : v);
        }
        put(&t, "_, %d)", n);
        return t.s;
    }
    if (a->type == T_DEVICE) return "tp_no_device()";
    if (none && a->type == T_FLOAT_OPT) return "TP_NO_FLOAT";
    char *c = c_default(a);
    if (!strcmp(c, "INFINITY")) return "__builtin_inf()";
    if (!strcmp(c, "-INFINITY")) return "-__builtin_inf()";
    if (strstr(c, "INFINITY")) return format("tp_float(%s__builtin_inf())", strchr(c, '-') ? "-" : "");
    return c;
}

/* An option's name in its struct, whose first member is `size`. */
static const char *member(const arg *a) { return strcmp(a->name, "size") ? a->name : "size_"; }

static void write_options(text *t, const op *o) {
    put(t, "typedef struct tp_%s_options {\n    TP_STRUCT_SIZE(tp_%s_options);\n", o->cname, o->cname);
    for (int i = 0; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        if (a->fallback)
            put(t, "    %s%s%s TP_MEMBER(%s);\n", types[a->type].c, space(a->type), member(a), public_default(a));
    }
    put(t, "    TP_OPTIONS_GUARD_\n} tp_%s_options;\n", o->cname);
}

/* TP_SUM_DEFAULTS_, which TP_DEFAULTS(SUM) gives to programs. At the end of a header, all of them. */
void write_defaults(text *t, const op *o) {
    if (!has_options(o)) return;
    put(t, "#define TP_%s_DEFAULTS_ .size = (int64_t)sizeof(tp_%s_options)", upper(o->cname), o->cname);
    for (int i = 0; i < o->nargs; i++)
        if (o->args[i].fallback) put(t, ", .%s = %s", member(&o->args[i]), public_default(&o->args[i]));
    put(t, "\n");
}

static void write_c_macro(text *t, const op *o, form f) {
    if (!needs_macro(o, f)) return;
    text required = {0}, passed = {0};
    put(&required, "%s", "");
    put(&passed, "%s", "");
    int n = 0;
    if (f == FORM_OUT) {
        put(&required, "out");
        put(&passed, "out");
        n++;
    }
    for (int i = 0; i < o->nargs && !o->args[i].fallback; i++, n++) {
        type y = public_type(o, i, f);
        put(&required, "%s%s_", n ? ", " : "", o->args[i].name);
        put(&passed, "%s%s", n ? ", " : "",
            y == T_OPERAND  ? format("TP_OPERAND(%s_)", o->args[i].name)
            : y == T_SCALAR ? format("TP_SCALAR(%s_)", o->args[i].name)
                            : format("%s_", o->args[i].name));
    }
    char *name = user_name(o, f);
    if (!has_options(o)) {
        put(t, "#define %s(%s) %s(%s)\n", name, required.s, symbol(o, f), passed.s);
        return;
    }
    char *defaults = format("TP_%s_DEFAULTS_", upper(o->cname));
    if (!n) { /* options alone, so that tp_nn_relu() will do */
        put(t, "#define %s(...) TP_WITH_(tp_%s_options, %s(&tp_o_), %s, __VA_ARGS__)\n", name, o->cname, symbol(o, f),
            defaults);
        return;
    }
    char *inner = format("TPO_%s_", upper(name + 3));
    put(t, "#define %s(...) %s(__VA_ARGS__, )\n", name, inner);
    put(t, "#define %s(%s%s...) TP_WITH_(tp_%s_options, %s(%s%s&tp_o_), %s, __VA_ARGS__)\n", inner, required.s,
        n ? ", " : "", o->cname, symbol(o, f), passed.s, n ? ", " : "", defaults);
}

static void write_cpp(text *t, const op *o, form f) {
    if (!needs_macro(o, f)) return;
    text tparams = {0}, params = {0}, passed = {0};
    put(&params, "%s", "");
    put(&passed, "%s", "");
    int n = 0;
    if (f == FORM_OUT) {
        put(&params, "tp_tensor *out");
        put(&passed, "out");
        n++;
    }
    for (int i = 0; i < o->nargs && !o->args[i].fallback; i++, n++) {
        type y = public_type(o, i, f);
        const char *name = o->args[i].name;
        const char *sep = n ? ", " : "";
        if (y == T_OPERAND || y == T_SCALAR) {
            put(&tparams, "%sclass T%d", tparams.n ? ", " : "", i);
            put(&params, "%sT%d %s", sep, i, name);
            put(&passed, "%s%s(%s)", sep, y == T_OPERAND ? "TP_OPERAND" : "TP_SCALAR", name);
        } else {
            put(&params, "%s%s%s%s", sep, types[y].c, space(y), name);
            put(&passed, "%s%s", sep, name);
        }
    }
    if (has_options(o)) {
        put(&params, "%sconst tp_%s_options &options = tp_%s_options()", n ? ", " : "", o->cname, o->cname);
        put(&passed, "%s&options", n ? ", " : "");
    }
    if (tparams.n) put(t, "template <%s> ", tparams.s);
    put(t, "static inline %s%s(%s) { return %s(%s); }\n", result_type(o, f), user_name(o, f), params.s, symbol(o, f),
        passed.s);
}

static void each_form(const op *o, void (*fn)(text *, const op *, form), text *t) {
    fn(t, o, FORM_PLAIN);
    if (o->inplace) fn(t, o, FORM_INPLACE);
    if (o->out) fn(t, o, FORM_OUT);
}

static void write_declaration(text *t, const op *o, form f) { put(t, "TP_API %s;\n", declaration(o, f)); }

text write_family_header(const char *family) {
    text t = {0};
    char *guard = upper(family);
    put(&t, "/* Operators of the family '%s'. Written by opgen from tables/operators/%s.op: do not edit. */\n", family,
        family);
    put(&t, "#ifndef TAPER_OPS_%s_H\n#define TAPER_OPS_%s_H\n#include <taper/ops_options.h>\n\nTP_BEGIN\n", guard,
        guard);
    for (int i = 0; i < nops; i++) {
        const op *o = ops[i];
        if (strcmp(o->family, family) || o->internal) continue;
        put(&t, "\n/* %s\n * %s */\n", o->signature, o->doc);
        if (!o->plain && o->nresults > 1) {
            put(&t, "typedef struct tp_%s_result {\n    tp_tensor ", o->cname);
            for (int r = 0; r < o->nresults; r++) put(&t, "%s*%s", r ? ", " : "", o->results[r].name);
            put(&t, ";\n} tp_%s_result;\n", o->cname);
        }
        if (has_options(o)) write_options(&t, o);
        each_form(o, write_declaration, &t);
        text macros = {0};
        each_form(o, write_c_macro, &macros);
        if (macros.n) put(&t, "#ifndef __cplusplus\n%s#endif\n", macros.s);
    }
    put(&t, "\nTP_END\n\n#ifdef __cplusplus\n");
    for (int i = 0; i < nops; i++)
        if (!strcmp(ops[i]->family, family) && !ops[i]->internal) each_form(ops[i], write_cpp, &t);
    put(&t, "#else\n/* What TP_DEFAULTS gives. */\n");
    for (int i = 0; i < nops; i++)
        if (!strcmp(ops[i]->family, family) && !ops[i]->internal) write_defaults(&t, ops[i]);
    put(&t, "#endif\n#endif\n");
    return t;
}

/* The lists that stand as defaults of an operator's options, those that were not written before. */
static void write_default_lists(text *t, const op *o) {
    static char *seen[256];
    static int nseen;
    for (int a = 0; a < o->nargs; a++) {
        const arg *x = &o->args[a];
        if (!x->fallback || (x->type != T_INTS && x->type != T_INTS_OPT && x->type != T_BOOLS)) continue;
        char *d = public_default(x);
        if (strncmp(d, "tp_ints_view(tp_ints_", 21) || strstr(d, "empty")) continue;
        char *name = copy_n(d + 13, strcspn(d + 13, ","));
        bool known = false;
        for (int k = 0; k < nseen; k++) known = known || !strcmp(seen[k], name);
        if (known || nseen == 256) continue;
        seen[nseen++] = name;
        const expr *e = x->fallback;
        int n = e->kind == E_LIST ? e->n : 1;
        put(t, "static const int64_t %s[%d] = {", name, n);
        for (int k = 0; k < n; k++) put(t, "%s%s", k ? ", " : "", print_expr(e->kind == E_LIST ? e->arg[k] : e));
        put(t, "};\n");
    }
}

/* What all families share: how options are passed, and the lists that stand as defaults. */
text write_options_header(void) {
    text t = {0};
    put(&t, "/* How operators take options. Written by opgen: do not edit.\n"
            " *   C:   tp_sum(x, .dim = TP_INTS(0), .keepdim = true)\n"
            " *   C++: tp_sum(x, {.dim = TP_INTS(0), .keepdim = true}), in the order of the struct\n"
            " * An options struct begins with its size, so that a program built against this version runs on later "
            "ones. */\n");
    put(&t, "#ifndef TAPER_OPS_OPTIONS_H\n#define TAPER_OPS_OPTIONS_H\n#include <taper/random.h>\n#include "
            "<taper/tensor.h>\n\n");
    put(&t, "static inline tp_device tp_no_device(void) {\n    tp_device d;\n    d.type = 0, d.index = 0;\n    return "
            "d;\n}\nstatic const int64_t tp_ints_empty_[1] = {0};\n");
    for (int i = 0; i < nops; i++)
        if (!ops[i]->internal) write_default_lists(&t, ops[i]);
    for (int i = 0; i < nlayers; i++) write_default_lists(&t, &layers[i]->make);
    put(&t, "#endif\n");
    return t;
}

text write_public_header(void) {
    text t = {0};
    put(&t, "/* All operators, by family. Written by opgen: do not edit. docs/operators.md lists them. */\n#ifndef "
            "TAPER_OPS_H\n#define TAPER_OPS_H\n");
    for (int i = 0; i < nops; i++) { /* families in the order they were given */
        bool first = true;
        for (int j = 0; j < i; j++) first = first && strcmp(ops[j]->family, ops[i]->family);
        if (first && !ops[i]->hidden) put(&t, "#include <taper/ops_%s.h>\n", ops[i]->family);
    }
    put(&t, "#endif\n");
    return t;
}

/* ---- layers' constructors, which take their arguments as operators do ---- */
void write_constructor_header(text *t, const op *o) {
    if (has_options(o)) write_options(t, o);
    write_declaration(t, o, FORM_PLAIN);
    text macro = {0};
    write_c_macro(&macro, o, FORM_PLAIN);
    if (macro.n) put(t, "#ifndef __cplusplus\n%s#endif\n", macro.s);
}
void write_constructor_cpp(text *t, const op *o) { write_cpp(t, o, FORM_PLAIN); }
char *constructor_declaration(const op *o) { return declaration(o, FORM_PLAIN); }
/* How a required argument or an option is called inside of the constructor. */
char *constructor_argument(const arg *a) { return a->fallback ? format("o_.%s", member(a)) : a->name; }

/* ---- the wrappers ---- */
/* The options with what the caller gave: o_. */
void write_taken_options(text *t, const op *o) {
    if (!has_options(o)) return;
    put(t, "    tp_%s_options o_ = {.size = 0", o->cname);
    for (int i = 0; i < o->nargs; i++)
        if (o->args[i].fallback) put(t, ", .%s = %s", member(&o->args[i]), public_default(&o->args[i]));
    put(t, "};\n    if (options) tpi_copy_options(&o_, sizeof o_, options, options->size);\n");
}

/* What src/tensor/check_arguments.h asks of an argument before anything looks at it; NULL: nothing can be wrong with
 * it. */
static char *soundness(type y, bool optional, const char *c, const char *name) {
    switch (y) {
    case T_TENSOR:
    case T_TENSOR_OPT: return format("tpi_sound_tensor(%s, \"%s\")", c, name);
    case T_OPERAND: return format("tpi_sound_tensor(%s.tensor, \"%s\")", c, name);
    case T_TENSORS:
    case T_TENSORS_OPT: return format("tpi_sound_tensors(%s, \"%s\")", c, name);
    case T_SCALAR:
    case T_SCALAR_OPT: return format("tpi_sound_scalar(%s, %s, \"%s\")", c, y == T_SCALAR ? "false" : "true", name);
    case T_INTS:
    case T_INTS_OPT:
    case T_BOOLS:
    case T_FLOATS:
    case T_FLOATS_OPT:
    case T_SCALARS:
    case T_SCALARS_OPT: return format("tpi_sound_list(%s.v, %s.n, \"%s\")", c, c, name);
    case T_STR: return format("tpi_sound_text(%s, \"%s\")", c, name);
    case T_DTYPE: return format("tpi_sound_dtype(%s, %s, \"%s\")", c, optional ? "true" : "false", name);
    case T_LAYOUT: return format("tpi_sound_choice(%s, TP_CHANNELS_LAST_3D + 1, \"%s\", \"a layout\")", c, name);
    case T_DEVICE: return format("tpi_sound_device(%s, \"%s\")", c, name);
    case T_GENERATOR: return format("tpi_sound_generator(%s, \"%s\")", c, name);
    default: return NULL;
    }
}

char *sound_arguments(const op *o, bool inplace) {
    text t = {0};
    for (int i = 0; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        char *asked = soundness(inplace && i == 0 ? T_TENSOR : a->type, a->fallback || strchr(a->type_text, '?'),
                                constructor_argument(a), a->name);
        if (asked) put(&t, "%s%s", t.n ? " && " : "", asked);
    }
    return t.n ? t.s : "true";
}

static void write_wrapper(text *t, const op *o, form f) {
    put(t, "%s {\n", declaration(o, f));
    if (f != FORM_PLAIN) put(t, "    TPI_STOP_ON_ERROR(NULL);\n");
    write_taken_options(t, o);
    put(t, "    const char *before_ = tpi_op_enter(\"%s\");\n", o->name);
    put(t, "    const bool sound_ = %s%s;\n", f == FORM_OUT ? "tpi_sound_tensor(out, \"out\") && " : "",
        sound_arguments(o, f == FORM_INPLACE));
    text args = {0};
    put(&args, "%s", "");
    if (f == FORM_OUT) put(&args, "out, ");
    for (int i = 0; i < o->nargs; i++)
        put(&args, "%s%s%s", i ? ", " : "", o->args[i].fallback ? "o_." : "",
            o->args[i].fallback ? member(&o->args[i]) : o->args[i].name);
    if (f != FORM_PLAIN) {
        put(t, "    tp_tensor *r_ = sound_ ? tpo_%s%s(%s) : NULL;\n", o->cname, form_suffix(f), args.s);
    } else if (o->plain) {
        const char *init = !strcmp(o->plain_type, "bool")    ? "false"
                           : !strcmp(o->plain_type, "int")   ? "-1"
                           : !strcmp(o->plain_type, "float") ? "NAN"
                                                             : "tp_no_scalar()";
        put(t, "    %sr_ = %s;\n    if (sound_) (void)tpo_%s(%s%s&r_);\n", result_type(o, f), init, o->cname, args.s,
            o->nargs ? ", " : "");
    } else if (o->nresults > 1) {
        put(t, "    tp_tensor *out_[%d] = {NULL};\n    tp_%s_result r_ = {NULL", o->nresults, o->cname);
        for (int r = 1; r < o->nresults; r++) put(t, ", NULL");
        put(t, "};\n    if (sound_ && tpo_%s(%s%sout_) && tpi_all_to_scope(out_, %d)) {\n", o->cname, args.s,
            o->nargs ? ", " : "", o->nresults);
        for (int r = 0; r < o->nresults; r++) put(t, "        r_.%s = out_[%d];\n", o->results[r].name, r);
        put(t, "    }\n");
    } else if (o->results[0].type == T_TENSORS)
        put(t, "    tp_tensors r_ = sound_ ? tpi_list_to_scope(tpo_%s(%s)) : (tp_tensors){NULL, 0};\n", o->cname,
            args.s);
    else
        put(t, "    tp_tensor *r_ = sound_ ? tpi_to_scope(tpo_%s(%s)) : NULL;\n", o->cname, args.s);
    put(t, "    tpi_op_leave(before_);\n    return r_;\n}\n");
}

void write_wrappers(text *t, const char *family) {
    put(t, "\n/* ---- the public functions ---- */\n");
    for (int i = 0; i < nops; i++)
        if (!strcmp(ops[i]->family, family) && !ops[i]->internal) each_form(ops[i], write_wrapper, t);
}

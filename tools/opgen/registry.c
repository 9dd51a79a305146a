/* Boxed calls and the list of operators; the reference docs; the tests' samples. */
#include "facts.h"
#include "header.h"
#include "tensor.h"
#include <stdio.h>
#include <string.h>

/* May the argument be None without having a default? */
static bool optional(type t) { return types[t].name[strlen(types[t].name) - 1] == '?' || t == T_TENSORS_OPT; }

static void unbox(text *t, const op *o, bool inplace) {
    for (int i = 0; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        type y = inplace && i == 0 ? T_TENSOR : a->type;
        put(t, "    %s%s%s = %s;\n", types[y].c, space(y), a->name, a->fallback ? c_default(a) : types[y].none);
        put(t, "    if (!tpi_unbox_%s(&args[%d], \"%s\", %s, &%s)) return false;\n", types[y].box, i, a->name,
            a->fallback || optional(y) ? "false" : "true", a->name);
    }
}

static char *names(const op *o) {
    text t = {0};
    put(&t, "%s", "");
    for (int i = 0; i < o->nargs; i++) put(&t, "%s%s", i ? ", " : "", o->args[i].name);
    return t.s;
}

/* The boxed call of an operator whose GPU function is told of its neighbours, and the one without any. */
static void write_invoke_with(text *t, const op *o) {
    put(t, "bool tpi_invoke_with_%s(const tp_value *args, tp_value *results, tpi_neighbours *neighbours) {\n",
        o->cname);
    unbox(t, o, false);
    put(t, "    tp_tensor *out_[%d] = {NULL};\n    if (!enter_%s(%s, out_, neighbours)) return false;\n", o->nresults,
        o->cname, names(o));
    put(t, "    for (int i = 0; i < %d; i++) results[i] = tp_value_tensor(out_[i]);\n    return true;\n}\n",
        o->nresults);
    put(t,
        "static bool invoke_%s(const tp_value *args, tp_value *results) { return tpi_invoke_with_%s(args, results, "
        "NULL); }\n",
        o->cname, o->cname);
}

static void write_invoke(text *t, const op *o) {
    if (has_neighbours(o)) {
        write_invoke_with(t, o);
        return;
    }
    put(t, "static bool invoke_%s(const tp_value *args, tp_value *results) {\n    (void)args;\n", o->cname);
    unbox(t, o, false);
    char *a = names(o);
    const char *comma = o->nargs ? ", " : "";
    if (o->plain) {
        bool b = !strcmp(o->plain_type, "bool"), i = !strcmp(o->plain_type, "int"), f = !strcmp(o->plain_type, "float");
        put(t, "    %s r_;\n    if (!tpo_%s(%s%s&r_)) return false;\n",
            b   ? "bool"
            : i ? "int64_t"
            : f ? "double"
                : "tp_scalar",
            o->cname, a, comma);
        put(t, "    results[0] = tp_value_%s(r_);\n    return true;\n}\n",
            b   ? "bool"
            : i ? "int"
            : f ? "double"
                : "scalar");
    } else if (o->nresults > 1) {
        put(t, "    tp_tensor *out_[%d] = {NULL};\n    if (!tpo_%s(%s%sout_)) return false;\n", o->nresults, o->cname,
            a, comma);
        put(t, "    for (int i = 0; i < %d; i++) results[i] = tp_value_tensor(out_[i]);\n    return true;\n}\n",
            o->nresults);
    } else if (o->results[0].type == T_TENSORS) {
        put(t,
            "    tp_tensors r_ = tpo_%s(%s);\n    if (!r_.v) return false;\n    results[0] = tp_value_tensors(r_);\n   "
            " return true;\n}\n",
            o->cname, a);
    } else
        put(t,
            "    tp_tensor *r_ = tpo_%s(%s);\n    if (!r_) return false;\n    results[0] = tp_value_tensor(r_);\n    "
            "return true;\n}\n",
            o->cname, a);
    if (o->inplace) {
        put(t, "static bool invoke_%s_(const tp_value *args, tp_value *results) {\n", o->cname);
        unbox(t, o, true);
        put(t,
            "    tp_tensor *r_ = tpo_%s_(%s);\n    if (!r_) return false;\n    results[0] = "
            "tp_value_tensor(tpi_retain(r_));\n    return true;\n}\n",
            o->cname, a);
    }
    if (o->out) {
        put(t, "static bool invoke_%s_out(tp_tensor *out_, const tp_value *args) {\n", o->cname);
        unbox(t, o, false);
        put(t, "    return tpo_%s_out(out_%s%s) != NULL;\n}\n", o->cname, comma, a);
    }
}

void write_boxed(text *t, const char *family) {
    put(t, "\n/* ---- boxed calls ---- */\n");
    for (int i = 0; i < nops; i++) {
        const op *o = ops[i];
        if (strcmp(o->family, family)) continue;
        write_invoke(t, o);
        put(t, "static const tp_argument_info args_%s[] = {", o->cname);
        for (int k = 0; k < o->nargs; k++)
            put(t, "{\"%s\", \"%s\", %s}, ", o->args[k].name, o->args[k].type_text,
                o->args[k].fallback ? c_string(o->args[k].fallback_text) : "NULL");
        put(t, "{NULL, NULL, NULL}};\nstatic const char *const results_%s[] = {", o->cname);
        for (int r = 0; r < o->nresults; r++) put(t, "\"%s\", ", o->results[r].name);
        put(t, "NULL};\n");
        write_facts(t, o);
        put(t,
            "const tp_operator tpi_operator_%s = {\"%s\", %s, %s, \"%s\", %d, %d, args_%s, results_%s, %s, %s, %s, %s, "
            "invoke_%s, %s, %s, %s, \"%s\", %s, \"%s\", %s, %s, %s};\n",
            o->cname, o->name, c_string(o->signature), c_string(o->doc), kind_names[o->kind], o->nargs, o->nresults,
            o->cname, o->cname, o->nondiff || o->todo || o->plain ? "false" : "true", o->inplace ? "true" : "false",
            o->out ? "true" : "false", o->method ? "true" : "false", o->cname,
            o->inplace ? format("invoke_%s_", o->cname) : "NULL", o->out ? format("invoke_%s_out", o->cname) : "NULL",
            o->internal ? "true" : "false", o->names, o->batch ? c_string(o->batch) : "NULL", runs_by(o),
            o->lazy ? "true" : "false", o->expanded ? "true" : "false", fact_members(o));
    }
}

text write_registry(void) {
    text t = {0};
    put(&t, "/* The lists of operators and of their kernels, sorted by name. Written by opgen: do not edit. "
            "*/\n#include <taper/call.h>\n#include \"dispatch/call.h\"\n#include "
            "\"dispatch/kernel_facts.h\"\n#include \"ops/kernels.h\"\n\n");
    int n = 0;
    for (int i = 0; i < nops; i++) put(&t, "extern const tp_operator tpi_operator_%s;\n", ops[i]->cname);
    put(&t, "\nconst tp_operator *const tpi_operators[] = {\n");
    for (int i = 0; i < nops; i++)
        if (!ops[i]->hidden) {
            put(&t, "    &tpi_operator_%s,\n", ops[i]->cname);
            n++;
        }
    put(&t, "};\nconst int64_t tpi_operator_total = %d;\n", n);
    for (int i = 0; i < nops; i++)
        if (has_neighbours(ops[i]))
            put(&t, "bool tpi_invoke_with_%s(const tp_value *, tp_value *, tpi_neighbours *);\n", ops[i]->cname);
    put(&t, "const tpi_kernel_facts tpi_kernel_facts_list[] = {\n");
    for (int i = 0; i < nops; i++)
        if (has_neighbours(ops[i]) || ops[i]->any_float)
            put(&t, "    {&tpi_operator_%s, %d, %d, %u, %s},\n", ops[i]->cname, ops[i]->prologue - 1,
                ops[i]->epilogue - 1, ops[i]->any_float,
                has_neighbours(ops[i]) ? format("tpi_invoke_with_%s", ops[i]->cname) : "NULL");
    put(&t, "    {NULL, 0, 0, 0, NULL}\n};\n");
    for (kind k = K_MAP; k <= K_SCAN; k++) {
        for (int i = 0; i < nops; i++)
            if (ops[i]->kind == k)
                put(&t, "extern const tpi_%s_op tpi_%s_%s;\n", kind_names[k], kind_names[k], ops[i]->cname);
        put(&t, "const tpi_%s_op *const tpi_%ss[] = {\n", kind_names[k], kind_names[k]);
        for (int i = 0; i < nops; i++)
            if (ops[i]->kind == k) put(&t, "    &tpi_%s_%s,\n", kind_names[k], ops[i]->cname);
        put(&t, "    NULL\n};\n");
    }
    return t;
}

/* ---- docs ---- */
text write_docs(void) {
    text t = {0};
    int shown = 0;
    for (int i = 0; i < nops; i++) shown += !ops[i]->hidden;
    put(&t,
        "# Operators\n\n%d operators, written by opgen from tables/operators. Signatures are PyTorch's; in C an "
        "operator `name` is `tp_name`, with\n"
        "what has a default as designated initialisers: `tp_softmax(x, 1)`, `tp_sum(x, .dim = TP_INTS(0))`.\n"
        "Forms: m method, i in place (`tp_name_`), o into a given tensor (`tp_name_out`). Derivative: yes, no, or "
        "todo.\n",
        shown);
    const char *family = NULL;
    for (int pass = 0; pass < nops; pass++) {
        bool first = true;
        for (int j = 0; j < pass; j++) first = first && strcmp(ops[j]->family, ops[pass]->family);
        if (!first || ops[pass]->hidden) continue;
        family = ops[pass]->family;
        put(&t, "\n## %s\n\n| operator | kind | forms | derivative | |\n|---|---|---|---|---|\n", family);
        for (int i = 0; i < nops; i++) {
            const op *o = ops[i];
            if (strcmp(o->family, family) || o->internal) continue;
            text sig = {0};
            for (const char *s = o->signature; *s; s++) put(&sig, *s == '|' ? "\\%c" : "%c", *s == '\n' ? ' ' : *s);
            put(&t, "| `%s` | %s | %s%s%s | %s | %s |\n", sig.s, kind_names[o->kind], o->method ? "m" : "",
                o->inplace ? "i" : "", o->out ? "o" : "",
                o->todo                  ? "todo"
                : o->nondiff || o->plain ? "no"
                                         : "yes",
                o->doc);
        }
    }
    return t;
}

/* ---- samples ---- */
static const char *const makers[] = {"t",   "pos",      "unit",   "prob", "big",    "away",  "distinct",
                                     "spd", "wellcond", "begins", "ints", "int32s", "bools", "complex"};

static bool constant(const expr *e, double *v) {
    if (e->kind == E_INT || e->kind == E_FLOAT) {
        *v = e->f;
        return true;
    }
    if (e->kind == E_NAME && !strcmp(e->name, "inf")) {
        *v = __builtin_inf();
        return true;
    }
    if (e->kind == E_NAME && !strcmp(e->name, "nan")) {
        *v = __builtin_nan("");
        return true;
    }
    if (e->kind == E_UNARY && e->name[0] == '-' && constant(e->arg[0], v)) {
        *v = -*v;
        return true;
    }
    return false;
}
static bool whole(const expr *e) { return e->kind == E_INT || (e->kind == E_UNARY && e->arg[0]->kind == E_INT); }

static bool is_truth(const expr *e) {
    return e->kind == E_NAME && (!strcmp(e->name, "true") || !strcmp(e->name, "false"));
}

/* MAKER(SIZE, ...), for some makers with the lowest value and the one past the highest. `n` is the argument's name as
 * C's text, here and below. */
static char *sample_tensor(const expr *e, const char *n, const sample *s) {
    double v;
    bool known = false;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) known = known || !strcmp(makers[i], e->name);
    if (!known)
        fail(s->at,
             "a sample's tensor is made by t, pos, unit, prob, big, away, distinct, spd, wellcond, begins, ints, "
             "int32s, bools or complex, not '%s'",
             e->name);
    bool ranged = !strcmp(e->name, "ints") || !strcmp(e->name, "int32s") || !strcmp(e->name, "begins");
    int dims = e->n - (ranged ? 2 : 0);
    if (dims < 0 || dims > 6)
        fail(s->at, "%s() takes up to 6 sizes%s", e->name,
             ranged ? ", then the lowest value and the one past the highest" : "");
    text t = {0};
    put(&t, "{.kind = SAMPLE_TENSOR, .name = %s, .maker = MAKE_%s, .ndim = %d, .shape = {", n, upper(e->name), dims);
    for (int i = 0; i < e->n; i++) {
        if (!constant(e->arg[i], &v)) fail(s->at, "the sizes in %s() are numbers", e->name);
        if (i < dims) put(&t, "%d, ", (int)v);
    }
    put(&t, "%s}", dims ? "" : "0");
    if (dims < e->n) {
        double lo, hi;
        constant(e->arg[dims], &lo);
        constant(e->arg[dims + 1], &hi);
        put(&t, ", .low = %d, .high = %d", (int)lo, (int)hi);
    }
    put(&t, "}");
    return t.s;
}

static char *sample_ints(const expr *e, const char *n) { /* integers and truths */
    text t = {0};
    put(&t, "{.kind = SAMPLE_INTS, .name = %s, .n = %d, .ints = (const int64_t[]){", n, e->n);
    for (int i = 0; i < e->n; i++) {
        double v;
        if (!constant(e->arg[i], &v)) v = e->arg[i]->name[0] == 't';
        put(&t, "%lld, ", (long long)v);
    }
    put(&t, "%s}}", e->n ? "" : "0");
    return t.s;
}

static char *sample_floats(const expr *e, const char *n) {
    text t = {0};
    put(&t, "{.kind = SAMPLE_FLOATS, .name = %s, .n = %d, .floats = (const double[]){", n, e->n);
    for (int i = 0; i < e->n; i++) {
        double v;
        constant(e->arg[i], &v);
        put(&t, "%.17g, ", v);
    }
    put(&t, "}}");
    return t.s;
}

static char *sample_value(const expr *e, const char *name, const sample *s);
static char *sample_list(const expr *e, const char *n, const sample *s) {
    double v;
    bool ints = true, numbers = true;
    for (int i = 0; i < e->n; i++) ints = ints && (whole(e->arg[i]) || is_truth(e->arg[i]));
    if (ints) return sample_ints(e, n);
    for (int i = 0; i < e->n; i++) numbers = numbers && constant(e->arg[i], &v);
    if (numbers) return sample_floats(e, n);
    text t = {0};
    put(&t, "{.kind = SAMPLE_LIST, .name = %s, .n = %d, .items = (const sample_value[]){", n, e->n);
    for (int i = 0; i < e->n; i++) put(&t, "%s, ", sample_value(e->arg[i], NULL, s));
    put(&t, "}}");
    return t.s;
}

static char *sample_float(double v, const char *n) {
    if (v != v) return format("{.kind = SAMPLE_FLOAT, .name = %s, .f = __builtin_nan(\"\")}", n);
    if (v == __builtin_inf() || v == -__builtin_inf())
        return format("{.kind = SAMPLE_FLOAT, .name = %s, .f = %s__builtin_inf()}", n, v < 0 ? "-" : "");
    return format("{.kind = SAMPLE_FLOAT, .name = %s, .f = %.17g}", n, v);
}

static char *sample_value(const expr *e, const char *name, const sample *s) {
    char *n = name ? format("\"%s\"", name) : "NULL";
    double v;
    if (e->kind == E_CALL) return sample_tensor(e, n, s);
    if (e->kind == E_LIST) return sample_list(e, n, s);
    if (whole(e) && constant(e, &v)) return format("{.kind = SAMPLE_INT, .name = %s, .i = %lldLL}", n, (long long)v);
    if (constant(e, &v)) return sample_float(v, n);
    if (e->kind == E_STRING) return format("{.kind = SAMPLE_STRING, .name = %s, .s = %s}", n, c_string(e->name));
    if (is_truth(e)) return format("{.kind = SAMPLE_BOOL, .name = %s, .i = %d}", n, e->name[0] == 't');
    if (e->kind == E_NAME && !strcmp(e->name, "None")) return format("{.kind = SAMPLE_NONE, .name = %s}", n);
    if (e->kind == E_NAME) return format("{.kind = SAMPLE_DTYPE, .name = %s, .s = \"%s\"}", n, e->name);
    fail(s->at, "not something a sample can hold: %s", print_expr(e));
}

static unsigned nondiff_args(const op *o) {
    unsigned bits = 0;
    for (int i = 0; i < o->nargs && i < 32; i++) bits |= (unsigned)o->args[i].nondiff << i;
    return bits;
}

text write_samples(void) {
    text t = {0};
    put(&t, "/* The samples of every operator, for the tests that loop over the tables. Written by opgen: do not edit. "
            "*/\n#include \"samples.h\"\n\nconst operator_sample operator_samples[] = {\n");
    int n = 0;
    for (int i = 0; i < nops; i++)
        for (int k = 0; k < ops[i]->nsamples; k++) {
            const sample *s = &ops[i]->samples[k];
            put(&t,
                "    {.op = \"%s\", .file = \"%s\", .line = %d, .text = %s, .types = %d, .no_half = %s, .dtypes = %s, "
                ".nograd = %s, .nograd2 = %s, .nondiff = %u, .error = %s, .nargs = %d,\n     .args = (const "
                "sample_value[]){",
                ops[i]->name, strrchr(s->at.file, '/') ? strrchr(s->at.file, '/') + 1 : s->at.file, s->at.line,
                c_string(s->text), ops[i]->types, ops[i]->no_half ? "true" : "false",
                s->dtypes ? c_string(s->dtypes) : "NULL", s->nograd ? "true" : "false", s->nograd2 ? "true" : "false",
                nondiff_args(ops[i]), s->error ? c_string(s->error) : "NULL", s->n);
            for (int a = 0; a < s->n; a++) {
                const expr *e = s->args[a];
                put(&t, "%s, ",
                    sample_value(e->kind == E_NAMED ? e->arg[0] : e, e->kind == E_NAMED ? e->name : NULL, s));
            }
            put(&t, "{0}}},\n");
            n++;
        }
    put(&t, "};\nconst int operator_sample_count = %d;\n", n);
    return t;
}

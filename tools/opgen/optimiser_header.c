/* The public header of optimisers, with options as designated initialisers, the functions behind it, and their page in
 * the docs. */
#include "optimiser.h"
#include <string.h>

static const char *c_type(const option *p) {
    return p->kind == O_BOOL     ? "bool "
           : p->kind == O_INT    ? "int64_t "
           : p->kind == O_STRING ? "const char *"
                                 : "double ";
}

/* One value as C writes it; None is what says "not given" in C. */
static char *c_value(const option *p, const expr *e) {
    if (e->kind == E_NAME && !strcmp(e->name, "None"))
        return p->kind == O_STRING ? "NULL" : p->kind == O_INT ? "TP_NONE" : "TP_NO_FLOAT";
    return p->kind == O_BOOL ? e->name : python_value(e);
}

static char *c_fallback(const option *p) {
    if (p->fallback->kind != E_LIST) return c_value(p, p->fallback);
    text t = {0};
    for (int i = 0; i < p->count; i++) put(&t, "%s%s", i ? ", " : "{", c_value(p, p->fallback->arg[i]));
    put(&t, "}");
    return t.s;
}

static void write_constructor(text *t, const optimiser *o) {
    put(t, "/* %s */\ntypedef struct tp_%s_options {\n    TP_STRUCT_SIZE(tp_%s_options);\n", o->doc, o->cname,
        o->cname);
    text defaults = {0};
    put(&defaults, ".size = (int64_t)sizeof(tp_%s_options)", o->cname);
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        if (!p->count || p->fixed) continue;
        const char *dims = p->fallback->kind == E_LIST ? format("[%d]", p->count) : "";
        put(t, "    %s%s%s TP_MEMBER(%s);\n", c_type(p), p->name, dims, c_fallback(p));
        if (p->fallback->kind != E_LIST)
            put(&defaults, ", .%s = %s", p->name, c_fallback(p));
        else
            for (int k = 0; k < p->count; k++)
                put(&defaults, ", .%s[%d] = %s", p->name, k, c_value(p, p->fallback->arg[k]));
    }
    put(t,
        "    TP_OPTIONS_GUARD_\n} tp_%s_options;\nTP_API tp_optimiser *tp_%s_with(tp_tensors params, const "
        "tp_%s_options *options);\n",
        o->cname, o->cname, o->cname);
    put(t,
        "#ifdef __cplusplus\nTP_END\nstatic inline tp_optimiser *tp_%s(tp_tensors params, const tp_%s_options &options "
        "= tp_%s_options()) { return tp_%s_with(params, &options); }\nTP_BEGIN\n",
        o->cname, o->cname, o->cname, o->cname);
    put(t,
        "#else\n#define tp_%s(...) TP_%s_(__VA_ARGS__, )\n#define TP_%s_(params, ...) TP_WITH_(tp_%s_options, "
        "tp_%s_with(params, &tp_o_), TP_%s_DEFAULTS_, __VA_ARGS__)\n"
        "#define TP_%s_DEFAULTS_ %s\n#endif\n\n",
        o->cname, upper(o->cname), upper(o->cname), o->cname, o->cname, upper(o->cname), upper(o->cname), defaults.s);
}

text write_optimisers_header(void) {
    text t = {0};
    put(&t, "/* Constructors of optimisers, from tables/optimisers. Written by opgen: do not edit.\n"
            " *   C:   tp_adam(params, .lr = 1e-3, .betas = {0.9, 0.99})\n"
            " *   C++: tp_adam(params, {.lr = 1e-3}) */\n"
            "#ifndef TAPER_OPTIMISERS_H\n#define TAPER_OPTIMISERS_H\n#include <taper/ops_options.h>\n#include "
            "<taper/optim.h>\n\nTP_BEGIN\n\n");
    for (int i = 0; i < noptimisers; i++) write_constructor(&t, optimisers[i]);
    put(&t, "TP_END\n#endif\n");
    return t;
}

/* tp_adam_with: the options' values in the table's order. */
void write_constructor_code(text *t, const optimiser *o) {
    text defaults = {0};
    for (int i = 0; i < o->noptions; i++)
        if (o->options[i].count && !o->options[i].fixed)
            put(&defaults, ", .%s = %s", o->options[i].name, c_fallback(&o->options[i]));
    put(t,
        "tp_optimiser *tp_%s_with(tp_tensors params, const tp_%s_options *options) {\n    tp_%s_options g = {.size = "
        "0%s};\n"
        "    if (options) tpi_copy_options(&g, sizeof g, options, options->size);\n    const double values[] = {",
        o->cname, o->cname, o->cname, defaults.s);
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        for (int k = 0; k < p->count; k++) {
            if (p->fixed)
                put(t, "%s, ", !strcmp(python_value(p->fallback), "True") ? "1" : "0");
            else if (p->kind == O_STRING)
                put(t, "tpi_option_choice(\"%s\", \"%s\", g.%s), ", o->name, p->name, p->name);
            else if (p->kind == O_INT)
                put(t, "g.%s == TP_NONE ? NAN : (double)g.%s, ", p->name, p->name);
            else if (p->fallback->kind == E_LIST)
                put(t, "g.%s[%d], ", p->name, k);
            else
                put(t, "g.%s, ", p->name);
        }
    }
    put(t, "};\n    return tpi_optimiser_new(\"%s\", params, values);\n}\n\n", o->name);
}

/* ---- docs ---- */
static void write_block(text *t, const char *title, const block *b, const char *written) {
    if (b) put(t, "%s:\n```\n%s\n```\n", title, written);
}

text write_optimisers_docs(void) {
    text t = {0};
    put(&t, "# Optimisers\n\nWritten by opgen from `tables/optimisers`; `make` keeps it current. "
            "[tables.md](tables.md) has the language. In C an optimiser is\n"
            "`tp_adam(params, .lr = 1e-3)` (`taper/optim.h`), in Python `torch.optim.Adam(params, lr=1e-3)`. Options "
            "in brackets are accepted for\n"
            "PyTorch's sake and change nothing: every step is one fused call.\n");
    for (int i = 0; i < noptimisers; i++) {
        const optimiser *o = optimisers[i];
        put(&t, "\n## %s\n%s\n\n", o->name, o->doc);
        put(&t, "| option | default |\n|---|---|\n");
        for (int k = 0; k < o->noptions; k++) {
            const option *p = &o->options[k];
            if (!p->fixed)
                put(&t, "| %s | `%s` |\n", p->count ? format("`%s`", p->name) : format("[`%s`]", p->name),
                    python_value(p->fallback));
        }
        if (o->nslots) {
            put(&t, "\nState: ");
            for (int k = 0; k < o->nslots; k++) {
                const slot *s = &o->slots[k];
                put(&t, "%s`%s`%s%s", k ? ", " : "", s->name, !strcmp(s->shape, "scalar") ? " (a number)" : "",
                    s->flag >= 0 ? format(" (with `%s`)", o->flag_text[s->flag]) : "");
            }
            put(&t, ".\n");
        }
        if (o->like)
            put(&t, "\nThe update is that of %s.\n", o->like->name);
        else if (o->native)
            put(&t, "\nThe update is a C function, `%s`.\n", o->native);
        else if (o->closure)
            put(&t, "\nA step calls the closure, in C through `tp_step_with`.\n");
        else {
            write_block(&t, "\nPer parameter", o->scalar, o->scalar_text);
            write_block(&t, "\nPer element", o->update, o->update_text);
        }
    }
    return t;
}

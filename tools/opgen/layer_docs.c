/* docs/layers.md, and the samples of the layers: as C functions for one test and as Python for another, which compares
 * the two. */
#include "layer.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static char *doc_signature(const layer *l) {
    text t = {0};
    put(&t, "%s(", l->name);
    for (int i = 0; i < l->make.nargs; i++) {
        const arg *a = &l->make.args[i];
        if (l->has_factory && (!strcmp(a->name, "device") || !strcmp(a->name, "dtype"))) continue;
        if (has_word(l->python_only, a->name) || has_word(l->c_only, a->name)) continue;
        put(&t, "%s%s%s", t.s[t.n - 1] == '(' ? "" : ", ", a->name, a->fallback ? format("=%s", a->fallback_text) : "");
    }
    put(&t, ")");
    return t.s;
}

text write_layer_docs(void) {
    text t = {0};
    int n = 0;
    for (int i = 0; i < nlayers; i++) n += !is_abstract(layers[i]);
    put(&t,
        "# Layers\n\n%d layers, written by opgen from tables/layers. In Python they are `taper.nn` (`torch.nn` under "
        "`taper run`); in C a layer `Conv2d` is\n"
        "`tp_nn_conv2d`, with what has a default as designated initialisers: `tp_nn_conv2d(1, 8, TP_INTS(3), .padding "
        "= TP_INTS(1))`. Layers with\n"
        "parameters also take `device` and `dtype`. Names, defaults, seeded initial values, `repr` and `state_dict` "
        "are PyTorch's.\n",
        n);
    for (int pass = 0; pass < nlayers; pass++) {
        bool first = true;
        for (int j = 0; j < pass; j++) first = first && strcmp(layers[j]->file, layers[pass]->file);
        if (!first) continue;
        put(&t, "\n## %s\n\n| layer | in C | state | |\n|---|---|---|---|\n", layers[pass]->file);
        for (int i = pass; i < nlayers; i++) {
            const layer *l = layers[i];
            if (strcmp(l->file, layers[pass]->file) || is_abstract(l)) continue;
            text state = {0};
            put(&state, "%s", "");
            for (const layer *p = l; p; p = p->parent)
                for (int k = 0; k < p->ntensors; k++)
                    if (p->tensors[k].persistent) put(&state, "%s%s", state.n ? ", " : "", p->tensors[k].name);
            put(&t, "| `%s` | %s | %s | %s |\n", doc_signature(l),
                with_forward(l) ? format("`tp_nn_%s`", l->cname) : "", state.s, l->doc);
        }
    }
    return t;
}

/* ---- samples ---- */
/* Arguments as C has them: lists become TP_INTS, names the options' members. */
static char *c_arguments(const layer *l, int k) {
    int n;
    const char *rest;
    expr **args = parse_args(l->sample_args[k], l->samples[k].at, &n, &rest);
    text t = {0};
    put(&t, "%s", "");
    int position = 0;
    for (int i = 0; i < n; i++) {
        const expr *e = args[i]->kind == E_NAMED ? args[i]->arg[0] : args[i];
        int a = args[i]->kind == E_NAMED ? find_arg(&l->make, args[i]->name) : position++;
        if (a < 0 || a >= l->make.nargs)
            fail(l->samples[k].at, "%s has no such argument: %s", l->name, print_expr(args[i]));
        const arg *x = &l->make.args[a];
        text v = {0};
        vkind kind = kind_of_type(x->type);
        if (e->kind == E_NAME && !strcmp(e->name, "None"))
            put(&v, "%s", types[x->type].none);
        else if (kind == V_INTS || kind == V_FLOATS) {
            put(&v, kind == V_INTS ? "TP_INTS(" : "TP_FLOATS(");
            for (int j = 0; j < (e->kind == E_LIST ? e->n : 1); j++)
                put(&v, "%s%s", j ? ", " : "", print_expr(e->kind == E_LIST ? e->arg[j] : e));
            put(&v, ")");
        } else if (kind == V_TENSOR)
            put(&v, "layer_tensor(\"%s\")", print_expr(e));
        else if (kind == V_DTYPE)
            put(&v, "TP_%s", upper(print_expr(e)));
        else
            put(&v, "%s", print_expr(e));
        if (x->fallback)
            put(&t, "%s.%s = %s", i ? ", " : "", strcmp(x->name, "size") ? x->name : "size_", v.s);
        else
            put(&t, "%s%s", i ? ", " : "", v.s);
    }
    return t.s;
}

static bool has_sample_in_c(const layer *l) { return !is_abstract(l) && with_forward(l); }

static void count_samples(int *n) {
    for (int i = 0; i < nlayers; i++)
        if (has_sample_in_c(layers[i])) *n += layers[i]->nsamples;
}

text write_layer_samples_c(void) {
    text t = {0};
    put(&t, "/* The samples of every layer, for the tests that loop over tables/layers. Written by opgen: do not edit. "
            "*/\n#include \"layer_samples.h\"\n\n");
    for (int i = 0; i < nlayers; i++)
        for (int k = 0; has_sample_in_c(layers[i]) && k < layers[i]->nsamples; k++)
            put(&t, "static tp_module *make_%s_%d(void) { return tp_nn_%s(%s); }\n", layers[i]->cname, k,
                layers[i]->cname, c_arguments(layers[i], k));
    put(&t, "\nconst layer_sample layer_samples[] = {\n");
    for (int i = 0; i < nlayers; i++)
        for (int k = 0; has_sample_in_c(layers[i]) && k < layers[i]->nsamples; k++) {
            const layer *l = layers[i];
            put(&t, "    {\"%s\", %d, %s, %s, make_%s_%d, %d, {", l->name, k,
                c_string(format("%s : %s", l->sample_args[k], l->samples[k].text)),
                l->sample_eval[k] ? "true" : "false", l->cname, k, l->samples[k].n);
            for (int a = 0; a < l->samples[k].n; a++) {
                const expr *e = l->samples[k].args[a];
                put(&t, "%s, ", c_string(print_expr(e)));
            }
            put(&t, "NULL}},\n");
        }
    int n = 0;
    count_samples(&n);
    put(&t, "    {0}};\nconst int layer_sample_count = %d;\n", n);
    return t;
}

/* An argument list as Python: the same text, but for the few words that differ. */
static char *py_value(const expr *e) {
    text t = {0};
    if (e->kind == E_NAMED) return format("%s=%s", e->name, py_value(e->arg[0]));
    if (e->kind == E_NAME) {
        if (!strcmp(e->name, "true")) return "True";
        if (!strcmp(e->name, "false")) return "False";
        if (!strcmp(e->name, "None")) return "None";
        return format("torch.%s", e->name);
    }
    if (e->kind == E_LIST) {
        put(&t, "(");
        for (int i = 0; i < e->n; i++) put(&t, "%s, ", py_value(e->arg[i]));
        put(&t, ")");
        return t.s;
    }
    if (e->kind == E_CALL) return format("tensor(\"%s\")", print_expr(e));
    return print_expr(e);
}

text write_layer_samples_python(void) {
    text t = {0};
    put(&t, "\"\"\"The samples and constructors of every layer, for the tests. Written by opgen: do not "
            "edit.\"\"\"\n\n# (layer, number, text, eval, in C, constructor, inputs)\nSAMPLES = [\n");
    for (int i = 0; i < nlayers; i++)
        for (int k = 0; !is_abstract(layers[i]) && k < layers[i]->nsamples; k++) {
            const layer *l = layers[i];
            int n;
            const char *rest;
            expr **args = parse_args(l->sample_args[k], l->samples[k].at, &n, &rest);
            put(&t, "    (\"%s\", %d, %s, %s, %s, lambda torch, tensor: torch.nn.%s(", l->name, k,
                c_string(format("%s : %s", l->sample_args[k], l->samples[k].text)),
                l->sample_eval[k] ? "True" : "False", has_sample_in_c(l) ? "True" : "False", l->name);
            for (int a = 0; a < n; a++) put(&t, "%s%s", a ? ", " : "", py_value(args[a]));
            put(&t, "), [");
            for (int a = 0; a < l->samples[k].n; a++) put(&t, "%s, ", c_string(print_expr(l->samples[k].args[a])));
            put(&t, "]),\n");
        }
    put(&t, "]\n\n# layer: its arguments with their defaults as the table writes them (None: required), by-keyword "
            "ones behind \"*\"\nCONSTRUCTORS = {\n");
    for (int i = 0; i < nlayers; i++) {
        const layer *l = layers[i];
        if (is_abstract(l)) continue;
        put(&t, "    \"%s\": [", l->name);
        for (int a = 0; a < l->make.nargs; a++) {
            const arg *x = &l->make.args[a];
            if (has_word(l->c_only, x->name)) continue;
            if (l->keyword_only && !strcmp(x->name, l->keyword_only)) put(&t, "\"*\", ");
            put(&t, "(\"%s\", %s), ", x->name, x->fallback ? c_string(x->fallback_text) : "None");
        }
        put(&t, "],\n");
    }
    put(&t, "}\n");
    return t;
}

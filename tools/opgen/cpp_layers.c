/* The C++ face of layers: for each a struct of options and a class that holds the C module. Layers whose forward is a C
 * function get a base class; include/taper/cpp/layers.hpp adds their forward by hand. */
#include "cpp.h"
#include "layer.h"
#include <string.h>

static void write_members(text *t, const layer *l) {
    for (const layer *p = l; p; p = p->parent)
        for (int i = 0; i < p->ntensors; i++) put(t, "    Tensor %s;\n", p->tensors[i].name);
    put(t, "    void each_tensor(const TensorVisitor &visit) override {\n");
    bool any = false;
    for (const layer *p = l; p; p = p->parent)
        for (int i = 0; i < p->ntensors; i++) {
            put(t, "        visit(\"%s\", %s);\n", p->tensors[i].name, p->tensors[i].name);
            any = true;
        }
    put(t, "%s    }\n", any ? "" : "        (void)visit;\n");
}

static void write_make(text *t, const layer *l, int n, const arg *const *args) {
    bool options = false;
    text call = {0};
    put(&call, "%s", "");
    put(t, "    tp_module *make() const override {\n");
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (args[i]->fallback) {
            if (!options) put(t, "        tp_%s_options o_;\n", l->make.cname);
            options = true;
            put(t, "        o_.%s = %s;\n", option_member(args[i]),
                cpp_to_c(args[i], format("options.%s_", args[i]->name)));
        } else
            put(&call, "%s%s", k++ ? ", " : "", cpp_to_c(args[i], format("options.%s_", args[i]->name)));
    }
    bool scalar = options;
    for (int i = 0; i < n; i++) scalar = scalar || args[i]->type == T_SCALAR || args[i]->type == T_OPERAND;
    put(t, "        return tp_%s%s(%s%s%s);\n    }\n", l->make.cname, scalar ? "_with" : "", call.s,
        k && options ? ", " : "", options ? "&o_" : "");
}

static const char *input_type(const arg *a) {
    return a->type == T_TENSOR       ? "const Tensor &"
           : a->type == T_TENSOR_OPT ? "const OptionalTensor &"
                                     : "OptionalIntArrayRef ";
}

static void write_forward(text *t, const layer *l) {
    const layer *f = with_forward(l);
    const op *in = &f->inputs;
    put(t, "    Tensor forward(");
    for (int i = 0; i < in->nargs; i++)
        put(t, "%s%s%s%s", i ? ", " : "", input_type(&in->args[i]), in->args[i].name,
            in->args[i].type == T_TENSOR ? "" : " = {}");
    put(t, ") {\n        return run({");
    for (int i = 0; i < in->nargs; i++) put(t, "%sdetail::box(%s)", i ? ", " : "", in->args[i].name);
    put(t, "});\n    }\n");
}

/* BatchNorm2d is of the family BatchNorm. */
static char *family_of(const layer *l) {
    size_t n = strlen(l->name);
    bool dims = n > 2 && l->name[n - 1] == 'd' && l->name[n - 2] >= '1' && l->name[n - 2] <= '3';
    return dims ? copy_n(l->name, n - 2) : NULL;
}

/* Layers of a family that take the same share one struct of options, so that BatchNormOptions fits each of them. */
static void write_options(text *t, const layer *l, const char *options, int n, const arg *const *args) {
    static text last;
    static char *last_family, *last_options;
    text body = {0};
    if (!n) {
        put(t, "struct %s {};\n", options);
        return;
    }
    write_cpp_options(&body, "%s", n, args, l->texts, NULL);
    char *family = family_of(l);
    if (family && last_family && !strcmp(family, last_family) && !strcmp(body.s, last.s))
        put(t, "using %s = %s;\n", options, last_options);
    else {
        write_cpp_options(t, options, n, args, l->texts, NULL);
        last_options = copy_n(options, strlen(options));
    }
    last = body;
    last_family = family;
}

static void write_class(text *t, const layer *l) {
    const arg *args[24];
    int n = constructor_arguments(l, args);
    char *options = format("%sOptions", l->name);
    const layer *f = with_forward(l);
    char *impl = format("%sImpl%s", l->name, f->forward_c ? "Base" : "");
    put(t, "\n/* %s */\n", l->doc);
    write_options(t, l, options, n, args);
    text required = {0}, names = {0};
    put(&required, "%s", "");
    put(&names, "%s", "");
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (args[i]->fallback) continue;
        put(&required, "%s%s %s", k ? ", " : "", cpp_field_type(args[i]), args[i]->name);
        put(&names, "%s%s", k++ ? ", " : "", args[i]->name);
    }
    put(t, "class %s : public Layer {\n  public:\n    %s options;\n", impl, options);
    put(t, "    explicit %s(const %s &options_%s) : options(options_) { hold(); }\n", impl, options,
        k ? "" : format(" = %s()", options));
    if (k > 0)
        put(t, "    %s%s(%s) : %s(%s(%s)) {}\n", k == 1 ? "explicit " : "", impl, required.s, impl, options, names.s);
    write_members(t, l);
    write_make(t, l, n, args);
    if (!f->forward_c) {
        put(t, "    Module *make_like() const override { return new %s(options); }\n", impl);
        write_forward(t, l);
    }
    put(t, "};\n");
    if (!f->forward_c) put(t, "TAPER_LAYER_(%s);\n", l->name);
}

text write_cpp_layers(void) {
    text t = {0};
    put(&t, "/* Layers as classes. Written by opgen from tables/layers: do not edit. */\n#pragma once\n"
            "namespace taper {\nnamespace nn {\n");
    for (int i = 0; i < nlayers; i++)
        if (in_c(layers[i])) write_class(&t, layers[i]);
    put(&t, "} // namespace nn\n} // namespace taper\n");
    return t;
}

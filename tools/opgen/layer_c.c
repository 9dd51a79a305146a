/* Layers in C: the public constructors, and behind each a function that builds the module (checks, attributes,
 * parameters, buffers), one that draws its parameters, one that prints it, and the table that says how its forward is
 * called. */
#include "header.h"
#include "layer.h"
#include <stdio.h>
#include <string.h>

static const char *box_name(type t) {
    switch (kind_of_type(t)) {
    case V_INT: return t == T_BOOL_OPT ? "tpi_box_truth" : "tpi_box_int";
    case V_BOOL: return "tp_value_bool";
    case V_FLOAT: return "tpi_box_float";
    case V_INTS: return "tpi_box_ints";
    case V_FLOATS: return "tpi_box_floats";
    case V_STR: return "tpi_box_string";
    case V_SCALAR: return "tp_value_scalar";
    default: return "tpi_box_tensor";
    }
}
static const char *getter(type t) {
    switch (kind_of_type(t)) {
    case V_INT: return "tpi_get_int";
    case V_BOOL: return "tpi_get_bool";
    case V_FLOAT: return "tpi_get_float";
    case V_INTS: return "tpi_get_ints";
    case V_FLOATS: return "tpi_get_floats";
    case V_STR: return "tpi_get_string";
    case V_SCALAR: return "tpi_get_scalar";
    default: return "tpi_get_tensor";
    }
}

/* Sizes where one number serves for all dims print as that number: attributes that keep such an argument as it was
 * given. */
static bool has_tuple(const expr *e) {
    if (e->kind == E_LIST || (e->kind == E_CALL && !strcmp(e->name, "tuple"))) return true;
    for (int i = 0; i < e->n; i++)
        if (has_tuple(e->arg[i])) return true;
    return false;
}
static const char *argument_box(const arg *a) {
    bool sized = strchr(a->type_text, '[') && strchr(a->type_text, '[')[1] != ']';
    return !sized ? box_name(a->type) : kind_of_type(a->type) == V_FLOATS ? "tpi_box_factors" : "tpi_box_sizes";
}
static const char *set_box(type t, const expr *e) {
    return kind_of_type(t) == V_INTS && !has_tuple(e) ? "tpi_box_sizes" : box_name(t);
}

/* The constructor as C has it. */
static op *c_make(const layer *l) {
    op *o = need(sizeof *o);
    *o = l->make;
    o->module = true;
    o->nargs = 0;
    for (int i = 0; i < l->make.nargs; i++)
        if (!has_word(l->python_only, l->make.args[i].name)) o->args[o->nargs++] = l->make.args[i];
    return o;
}

static char *c_parameters(const op *o) {
    text t = {0};
    put(&t, "tp_module *m_");
    for (int i = 0; i < o->nargs; i++)
        put(&t, ", %s%s%s", types[o->args[i].type].c, space(o->args[i].type), o->args[i].name);
    return t.s;
}
static char *build_name(const layer *l) {
    return l->build_c && !l->nchecks ? l->build_c : format("build_%s", l->cname);
}

/* ---- building ---- */
static char *message_piece(const layer *l, const char *name, char mark, location at) {
    (void)mark;
    int i = find_arg(&l->make, name);
    if (i < 0) fail(at, "%s has no argument '%s'", l->name, name);
    switch (kind_of_type(l->make.args[i].type)) {
    case V_INT:
    case V_BOOL: return "%lld";
    case V_FLOAT: return "%g";
    default: return "%s";
    }
}
static text message_values; /* the arguments of the message being written */
static char *message_value(const layer *l, const char *name, char mark, location at) {
    (void)mark;
    (void)at;
    switch (kind_of_type(l->make.args[find_arg(&l->make, name)].type)) {
    case V_INT:
    case V_BOOL: put(&message_values, ", (long long)%s", name); break;
    case V_INTS: put(&message_values, ", tpi_shape_text(%s)", name); break;
    default: put(&message_values, ", %s", name);
    }
    return "";
}

static char *condition_text(tensor_scope *s, const expr *e, location at) {
    tvalue v = tensor_expr(s, e);
    if (v.kind != V_BOOL && v.kind != V_INT) fail(at, "a condition is a plain truth value");
    return v.c;
}

static void write_layer_checks(text *t, const layer *l, tensor_scope *s) {
    for (int i = 0; i < l->nchecks; i++) {
        const layer_text *c = &l->checks[i];
        message_values = (text){0};
        put(&message_values, "%s", "");
        fill_text(l, c->text, message_value, c->at);
        put(t, "    if (!(%s)) return tpi_refuse(%s, %s%s);\n", condition_text(s, c->condition, c->at), c->code,
            c_string(fill_text(l, c->text, message_piece, c->at)), message_values.s);
    }
}

/* The base's builder with its arguments: by name where the stanza gives none. */
static void write_base(text *t, const layer *l, tensor_scope *s) {
    const op *o = &l->parent->make;
    put(t, "    if (!%s(m_", build_name(l->parent));
    int position = 0;
    for (int k = 0; k < o->nargs; k++) {
        const arg *a = &o->args[k];
        const expr *given = NULL;
        if (position < l->nbase && l->base_args[position]->kind != E_NAMED) given = l->base_args[position++];
        for (int i = 0; i < l->nbase; i++)
            if (l->base_args[i]->kind == E_NAMED && !strcmp(l->base_args[i]->name, a->name))
                given = l->base_args[i]->arg[0];
        if (has_word(l->parent->python_only, a->name)) continue;
        bool own = find_arg(&l->make, a->name) >= 0 && !has_word(l->python_only, a->name) &&
                   (l->nbase < 0 || (l->has_factory && (!strcmp(a->name, "device") || !strcmp(a->name, "dtype"))));
        if (!given && !own && !a->fallback) fail(l->at, "%s: the base's argument '%s' is not given", l->name, a->name);
        put(t, ", %s", given ? argument_text(s, given, a, o) : own ? a->name : c_default(a));
    }
    put(t, ")) return false;\n");
}

static void write_sets(text *t, const layer *l, tensor_scope *s) {
    for (int i = 0; i < l->make.nargs; i++) {
        const arg *a = &l->make.args[i];
        if (sets_argument(l, i))
            put(t, "    if (!tpi_module_set(m_, \"%s\", %s(%s))) return false;\n", a->name, argument_box(a), a->name);
    }
    for (int i = 0; i < l->nsets; i++) {
        type y = l->set_type[i];
        tvalue v = tensor_expr(s, l->set_value[i]);
        char *c = v.kind == V_NONE ? (char *)types[y].none : v.c;
        put(t, "    %s%sa_%s = %s;\n    if (!tpi_module_set(m_, \"%s\", %s(a_%s))) return false;\n", types[y].c,
            space(y), l->set_name[i], c, l->set_name[i], set_box(y, l->set_value[i]), l->set_name[i]);
        bind_tensor(s, l->set_name[i],
                    (tvalue){.kind = kind_of_type(y), .c = format("a_%s", l->set_name[i]), .temp = -1});
    }
}

static void write_tensors(text *t, const layer *l, tensor_scope *s) {
    for (int i = 0; i < l->ntensors; i++) {
        const layer_tensor *x = &l->tensors[i];
        const char *kind = !x->buffer ? "TPI_PARAMETER" : x->persistent ? "TPI_BUFFER" : "TPI_TEMPORARY";
        if (x->from) {
            put(t, "    if (!tpi_module_hold(m_, \"%s\", %s, %s)) return false;\n", x->name, kind, x->from);
            continue;
        }
        tvalue shape = tensor_expr(s, x->shape);
        if (shape.kind != V_INTS) fail(x->at, "the sizes of '%s' are a list", x->name);
        put(t, "    if (!tpi_module_make(m_, \"%s\", %s, %s, %s, %s, device, %s)) return false;\n", x->name, kind,
            x->condition ? condition_text(s, x->condition, x->at) : "true", shape.c,
            x->dtype ? format("TP_%s", upper(x->dtype)) : "dtype", x->value);
    }
}

static void write_build(text *t, const layer *l) {
    if (l->build_c && !l->nchecks) return;
    op *o = c_make(l);
    put(t, "static bool build_%s(%s) {\n", l->cname, c_parameters(o));
    tensor_scope s = {.code = t, .indent = "    ", .o = &l->make, .failure = "return false;"};
    bind_arguments(&s, o);
    write_layer_checks(t, l, &s);
    if (l->build_c) {
        put(t, "    return %s(m_", l->build_c);
        for (int i = 0; i < o->nargs; i++) put(t, ", %s", o->args[i].name);
        put(t, ");\n}\n\n");
        return;
    }
    if (l->parent) write_base(t, l, &s);
    write_sets(t, l, &s);
    write_tensors(t, l, &s);
    for (int i = 0; i < o->nargs; i++) put(t, "    (void)%s;\n", o->args[i].name);
    if (l->reset)
        put(t, "    return reset_%s(m_);\n}\n\n", l->cname);
    else
        put(t, "    (void)m_;\n    return true;\n}\n\n");
}

/* Attributes, parameters and buffers that an expression names, as locals. */
static bool block_uses(const block *b, const char *name) {
    for (int i = 0; b && i < b->n; i++)
        if (uses_name(b->value[i], name)) return true;
    return false;
}
static void bind_module(text *t, const layer *l, tensor_scope *s, bool (*used)(const layer *, const char *)) {
    attribute known[48];
    int n = attributes_of(l, known);
    for (int i = 0; i < n; i++) {
        bool again = false;
        for (int j = i + 1; j < n; j++) again = again || !strcmp(known[j].name, known[i].name);
        if (again || !used(l, known[i].name)) continue;
        type y = known[i].type;
        put(t, "    %s%s%s = %s(m_, \"%s\");\n", types[y].c, space(y), known[i].name, getter(y), known[i].name);
        bind_tensor(s, known[i].name, (tvalue){.kind = kind_of_type(y), .c = known[i].name, .temp = -1});
    }
    for (const layer *p = l; p; p = p->parent)
        for (int i = 0; i < p->ntensors; i++) {
            char *name = p->tensors[i].name;
            if (!used(l, name)) continue;
            put(t, "    tp_tensor *%s = tpi_get_tensor(m_, \"%s\");\n", name, name);
            bind_tensor(s, name, (tvalue){.kind = V_TENSOR, .c = name, .temp = -1});
        }
}

/* ---- drawing ---- */
static bool reset_uses(const layer *l, const char *name) { return block_uses(l->reset, name); }

static void write_reset(text *t, const layer *l) {
    if (!l->reset) return;
    put(t, "static bool reset_%s(tp_module *m_) {\n", l->cname);
    tensor_scope s = {.code = t, .indent = "    ", .o = &l->make, .failure = "return false;"};
    bind_module(t, l, &s, reset_uses);
    for (int i = 0; i < l->reset->n; i++) {
        const expr *e = l->reset->value[i];
        if (l->reset->name[i]) {
            tvalue v = tensor_expr(&s, e);
            put(t, "    %s%s = %s;\n", v.kind == V_INT ? "int64_t " : "double ", l->reset->name[i], v.c);
            v.c = l->reset->name[i];
            bind_tensor(&s, l->reset->name[i], v);
            continue;
        }
        size_t n = e->kind == E_CALL ? strlen(e->name) : 0;
        if (!n || e->name[n - 1] != '_' || e->n < 1 || e->arg[0]->kind != E_NAME)
            fail(e->at, "expected a call like 'uniform_(weight, 0, 1)'");
        put(t, "    if (%s && !tp_init_%.*s(%s", e->arg[0]->name, (int)n - 1, e->name, e->arg[0]->name);
        for (int k = 1; k < e->n; k++) put(t, ", %s", tensor_expr(&s, e->arg[k]).c);
        put(t, ")) return false;\n");
    }
    put(t, "    return true;\n}\n\n");
}

/* ---- printing ---- */
static bool repr_uses(const layer *l, const char *name) {
    const layer *p = with_repr(l);
    for (int i = 0; i < p->nreprs; i++)
        if (p->reprs[i].condition && uses_name(p->reprs[i].condition, name)) return true;
    return false;
}

static void write_repr_pieces(text *t, const layer *l, const layer_text *r, const char *indent) {
    const char *s = r->text;
    while (*s) {
        size_t n = strcspn(s, "{");
        if (n) put(t, "%stpi_text_add(t_, %s);\n", indent, c_string(copy_n(s, n)));
        s += n;
        if (!*s) break;
        const char *end = strchr(s, '}');
        if (!end) fail(r->at, "a '{' is not closed");
        char *name = copy_n(s + 1, (size_t)(end - s - 1)), *mark = strpbrk(name, "?!");
        char what = mark ? *mark : 0;
        if (mark) *mark = 0;
        attribute known[48];
        int count = attributes_of(l, known);
        bool found = tensor_of(l, name);
        for (int i = 0; i < count; i++) found = found || !strcmp(known[i].name, name);
        if (!found) fail(r->at, "%s has no attribute '%s'", l->name, name);
        if (what == '?')
            put(t, "%stpi_text_add(t_, tpi_get_tensor(m_, \"%s\") ? \"True\" : \"False\");\n", indent, name);
        else
            put(t, "%stpi_text_value(t_, tpi_module_get(m_, \"%s\"), %s);\n", indent, name,
                what == '!' ? "true" : "false");
        s = end + 1;
    }
}

static void write_repr(text *t, const layer *l) {
    if (!l->nreprs) return;
    put(t, "static void repr_%s(tp_module *m_, tpi_text *t_) {\n", l->cname);
    tensor_scope s = {.code = t, .indent = "    ", .o = &l->make, .failure = "return;"};
    bind_module(t, l, &s, repr_uses);
    put(t, "    (void)m_;\n");
    for (int i = 0; i < l->nreprs; i++) {
        const layer_text *r = &l->reprs[i];
        if (r->condition) put(t, "    if (%s) {\n", without_brackets(condition_text(&s, r->condition, r->at)));
        write_repr_pieces(t, l, r, r->condition ? "        " : "    ");
        if (r->condition) put(t, "    }\n");
    }
    put(t, "}\n\n");
}

/* ---- the layer's row, and its constructor ---- */
static void write_facts(text *t, const layer *l) {
    while (l && !l->facts) l = l->parent;
    if (!l) return;
    const char *s = spaces(l->facts);
    put(t, ", .facts = TPI_LAYER_%s", upper(word(&s)));
    for (s = spaces(s); *s; s = spaces(s)) put(t, " | TPI_LAYER_%s", upper(word(&s)));
}

static void write_row(text *t, const layer *l) {
    const layer *f = with_forward(l), *r = with_repr(l), *reset = with_reset(l);
    if (!f) return;
    if (!f->forward_c) {
        put(t, "static const char *const sources_%s[] = {", l->cname);
        for (int i = f->inputs.nargs; i < f->forward_op->nargs; i++) put(t, "\"%s\", ", f->forward_op->args[i].name);
        put(t, "NULL};\n");
    }
    put(t, "static const tpi_layer layer_%s = {.name = \"%s\"", l->cname, l->name);
    if (f->forward_c)
        put(t, ", .call = %s", f->forward_c);
    else
        put(t, ", .forward = &tpi_operator_%s, .inputs = %d, .sources = sources_%s", f->forward_op->cname,
            f->inputs.nargs, l->cname);
    if (r && r->nreprs) put(t, ", .repr = repr_%s", r->cname);
    if (reset) put(t, ", .reset = %s", reset->reset_c ? reset->reset_c : format("reset_%s", reset->cname));
    if (l->dims) put(t, ", .dims = 0x%x", l->dims_and_more ? ~(l->dims - 1) : l->dims);
    write_facts(t, l);
    if (l->quantize_c) put(t, ", .quantize = %s", l->quantize_c);
    put(t, "};\n");
}

static void write_constructor(text *t, const layer *l) {
    op *o = c_make(l);
    put(t, "%s {\n", constructor_declaration(o));
    write_taken_options(t, o);
    put(t, "    const char *before_ = tpi_op_enter(\"%s\");\n    tp_module *m_ = tpi_module_of(&layer_%s);\n", l->name,
        l->cname);
    put(t, "    if (m_ && !(%s && %s(m_", sound_arguments(o, false), build_name(l));
    for (int i = 0; i < o->nargs; i++) put(t, ", %s", constructor_argument(&o->args[i]));
    put(t, ") && tpi_module_ready(m_))) tp_module_release(m_), m_ = NULL;\n    tpi_op_leave(before_);\n    return "
           "m_;\n}\n\n");
}

/* Does C have the layer, or one that stands on it? */
static bool built_in_c(const layer *l) {
    bool needed = in_c(l);
    for (int i = 0; i < nlayers && !needed; i++)
        if (in_c(layers[i]))
            for (const layer *p = layers[i]; p; p = p->parent) needed = needed || p == l;
    return needed;
}

text write_layer_source(void) {
    text t = {0};
    put(&t, "/* Layers, from tables/layers. Written by opgen: do not edit. */\n#include \"nn/layer.h\"\n#include "
            "\"autograd/glue.h\"\n#include \"tensor/check_arguments.h\"\n#include \"tpi_layers.h\"\n#include "
            "<math.h>\n#include <taper/nn.h>\n\n");
    for (int i = 0; i < nlayers; i++)
        if (layers[i]->forward_op) put(&t, "extern const tp_operator tpi_operator_%s;\n", layers[i]->forward_op->cname);
    for (int i = 0; i < nlayers; i++) {
        const layer *l = layers[i];
        if (!built_in_c(l)) continue;
        put(&t, "\n/* ---- %s ---- */\n", l->name);
        write_reset(&t, l);
        write_build(&t, l);
        write_repr(&t, l);
        if (!in_c(l)) continue;
        write_row(&t, l);
        write_constructor(&t, l);
    }
    return t;
}

/* What hand-written builders and forwards must look like. */
text write_layer_declarations(void) {
    text t = {0};
    put(&t, "/* The C functions that stanzas of tables/layers name. Written by opgen: do not edit. */\n#ifndef "
            "TPI_LAYERS_H\n#define TPI_LAYERS_H\n#include <taper/call.h>\n#include <taper/nn.h>\n\n");
    for (int i = 0; i < nlayers; i++) {
        const layer *l = layers[i];
        bool known = false;
        if (l->build_c) put(&t, "bool %s(%s); /* %s */\n", l->build_c, c_parameters(c_make(l)), l->name);
        if (l->reset_c) put(&t, "bool %s(tp_module *m_); /* %s */\n", l->reset_c, l->name);
        if (l->quantize_c) put(&t, "tp_module *%s(const tp_module *m_); /* %s */\n", l->quantize_c, l->name);
        for (int j = 0; j < i; j++)
            known = known || (l->forward_c && layers[j]->forward_c && !strcmp(layers[j]->forward_c, l->forward_c));
        if (l->forward_c && !known)
            put(&t,
                "bool %s(tp_module *m_, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results); /* "
                "%s */\n",
                l->forward_c, l->name);
    }
    put(&t, "#endif\n");
    return t;
}

text write_layer_header(void) {
    text t = {0}, cpp = {0}, defaults = {0};
    put(&t,
        "/* Layers. Written by opgen from tables/layers: do not edit. docs/layers.md lists them. */\n#ifndef "
        "TAPER_LAYERS_H\n#define TAPER_LAYERS_H\n#include <taper/nn.h>\n#include <taper/ops_options.h>\n\nTP_BEGIN\n");
    put(&cpp, "%s", "");
    for (int i = 0; i < nlayers; i++) {
        const layer *l = layers[i];
        if (!in_c(l)) continue;
        op *o = c_make(l);
        put(&t, "\n/* %s: %s */\n", l->name, l->doc);
        write_constructor_header(&t, o);
        write_constructor_cpp(&cpp, o);
        write_defaults(&defaults, o);
    }
    put(&t, "\nTP_END\n\n#ifdef __cplusplus\n%s#else\n/* What TP_DEFAULTS gives. */\n%s#endif\n#endif\n",
        cpp.s ? cpp.s : "", defaults.s ? defaults.s : "");
    return t;
}

/* Nodes of the tape: what an operator's derivatives read, the function that records it, and its backward function. */
#include "node.h"
#include <ctype.h>
#include <string.h>

/* ---- what a derivative needs ---- */
int find_result(const op *o, const char *name) {
    for (int i = 0; i < o->nresults; i++)
        if (!strcmp(o->results[i].name, name)) return i;
    return -1;
}

/* In derivatives `grad` is the gradient that comes in, also where an argument has that name. */
static bool is_gradient(const op *o, const char *name) {
    if (o->nresults == 1) return !strcmp(name, "grad");
    return !strncmp(name, "grad_", 5) && find_result(o, name + 5) >= 0;
}

static void walk(const op *o, const expr *e, int of, needs *n) {
    if (e->kind == E_FIELD && e->arg[0]->kind == E_NAME && field_kind(e) != V_NONE &&
        (find_arg(o, e->arg[0]->name) >= 0 || find_result(o, e->arg[0]->name) >= 0)) {
        char *key = print_expr(e);
        for (int i = 1; i < e->n; i++) walk(o, e->arg[i], of, n);
        for (int i = 0; i < n->nfields; i++)
            if (!strcmp(n->fields[i].key, key)) return;
        if (n->nfields == 32) fail(e->at, "more than 32 fields in the derivatives of %s", o->name);
        n->fields[n->nfields++] = (field){key, e, field_kind(e)};
        return;
    }
    if (e->kind == E_CALL && !strcmp(e->name, "needs")) return;
    if (e->kind == E_NAME) {
        int a = is_gradient(o, e->name) ? -1 : find_arg(o, e->name), r = find_result(o, e->name);
        if (a >= 0) {
            if (is_tensor(o->args[a].type) || is_tensors(o->args[a].type))
                n->tensor[of][a] = n->saved[a] = true;
            else
                n->scalar[a] = true;
        } else if (r >= 0)
            n->result[of][r] = n->saved_result[r] = true;
    }
    for (int i = 0; i < e->n; i++) walk(o, e->arg[i], of, n);
}

void find_needs(const op *o, needs *n) {
    *n = (needs){0};
    for (int a = 0; a < o->nargs; a++) {
        const block *b = o->args[a].grad;
        if (o->args[a].grad_group) b = o->groups[o->args[a].grad_group - 1].value;
        for (int i = 0; b && i < b->n; i++) walk(o, b->value[i], a, n);
    }
}

static bool has_grad(const op *o, int a) { return o->args[a].grad || o->args[a].grad_group; }

static char *tracks(const op *o, int a) {
    const arg *x = &o->args[a];
    if (x->type == T_OPERAND) return format("tpi_tracks(%s.tensor)", x->name);
    if (is_tensors(x->type)) return format("tpi_tracks_any(%s)", x->name);
    return format("tpi_tracks(%s)", x->name);
}

char *any_tracks(const op *o) {
    text t = {0};
    for (int a = 0; a < o->nargs; a++)
        if (has_grad(o, a)) put(&t, "%s%s", t.n ? " || " : "", tracks(o, a));
    return t.n ? t.s : NULL;
}

/* Who reads argument (or result) x: a condition on the tracked inputs. */
static char *readers(const op *o, const needs *n, int x, bool is_result) {
    text t = {0};
    for (int a = 0; a < o->nargs; a++)
        if (has_grad(o, a) && (is_result ? n->result[a][x] : n->tensor[a][x]))
            put(&t, "%s%s", t.n ? " || " : "", tracks(o, a));
    return t.s;
}

/* ---- recording ---- */
static const char *attr_type(vkind k) {
    switch (k) {
    case V_INT: return "int64_t ";
    case V_FLOAT: return "double ";
    case V_BOOL: return "bool ";
    case V_INTS: return "tp_ints ";
    case V_FLOATS: return "tp_floats ";
    case V_SCALARS: return "tp_scalars ";
    case V_STR: return "const char *";
    case V_DTYPE: return "tp_dtype ";
    case V_DEVICE: return "tp_device ";
    case V_LAYOUT: return "tp_layout ";
    case V_SCALAR: return "tp_scalar ";
    case V_GENERATOR: return "tp_generator *";
    default: return NULL;
    }
}

void write_attrs(text *t, const op *o, const needs *n) {
    put(t, "struct %s_attrs {\n", o->cname);
    for (int i = 0; i < n->nfields; i++)
        put(t, "    %sf%d; /* %s */\n", attr_type(n->fields[i].kind), i, n->fields[i].key);
    for (int i = 0; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        if (n->scalar[i]) put(t, "    %s%s;\n", attr_type(kind_of_type(a->type)), a->name);
        if (n->saved[i] && a->type == T_OPERAND) put(t, "    tp_scalar %s;\n", a->name);
        if (is_tensors(a->type)) put(t, "    int64_t n_%s;\n", a->name);
    }
    put(t, "    char unused_;\n};\n\n");
}

/* Slots: one per saved argument, then one per saved result, then the saved lists. Edges: one per tensor argument, in
 * order. */
static int saved_slot(const op *o, const needs *n, int arg_index, int result_index) {
    int slot = 0;
    for (int i = 0; i < o->nargs; i++) {
        if (arg_index == i) return slot;
        if (n->saved[i] && !is_tensors(o->args[i].type)) slot++;
    }
    for (int r = 0; r < o->nresults; r++) {
        if (result_index == r) return slot;
        if (n->saved_result[r]) slot++;
    }
    return slot;
}

/* Lists of numbers: the node keeps its own copy. */
static bool is_list(type t) {
    vkind k = kind_of_type(t);
    return k == V_INTS || k == V_FLOATS || k == V_SCALARS;
}

static bool has_release(const op *o, const needs *n) {
    for (int i = 0; i < n->nfields; i++)
        if (n->fields[i].kind == V_INTS) return true;
    for (int i = 0; i < o->nargs; i++)
        if (n->scalar[i] && is_list(o->args[i].type)) return true;
    return false;
}

void release_lists(text *t, const op *o, const needs *n) {
    if (!has_release(o, n)) return;
    put(t, "static void %s_release(tpi_node *node) {\n    struct %s_attrs *a = tpi_node_attrs(node);\n", o->cname,
        o->cname);
    for (int i = 0; i < n->nfields; i++)
        if (n->fields[i].kind == V_INTS) put(t, "    tpi_mfree((void *)a->f%d.v);\n", i);
    for (int i = 0; i < o->nargs; i++)
        if (n->scalar[i] && is_list(o->args[i].type)) put(t, "    tpi_mfree((void *)a->%s.v);\n", o->args[i].name);
    put(t, "}\n");
}

static char *edge_count(const op *o) {
    text t = {0};
    int fixed = 0;
    for (int i = 0; i < o->nargs; i++)
        if (is_tensor(o->args[i].type)) fixed++;
    put(&t, "%d", fixed);
    for (int i = 0; i < o->nargs; i++)
        if (is_tensors(o->args[i].type)) put(&t, " + (int)%s.n", o->args[i].name);
    return t.s;
}

/* Names for edges: e_self and so on. A list's edges come after all single ones. */
static void write_edge_names(text *t, const op *o, bool from_attrs, const char *indent) {
    int k = 0;
    for (int i = 0; i < o->nargs; i++)
        if (is_tensor(o->args[i].type))
            put(t, "%sconst int e_%s = %d;\n%s(void)e_%s;\n", indent, o->args[i].name, k++, indent, o->args[i].name);
    char *base = format("%d", k);
    for (int i = 0; i < o->nargs; i++) {
        if (!is_tensors(o->args[i].type)) continue;
        put(t, "%sconst int e_%s = %s;\n%s(void)e_%s;\n", indent, o->args[i].name, base, indent, o->args[i].name);
        base = from_attrs ? format("e_%s + (int)a->n_%s", o->args[i].name, o->args[i].name)
                          : format("e_%s + (int)%s.n", o->args[i].name, o->args[i].name);
    }
}

bool inplace_saves_copy(const op *o, const needs *n) { return n->saved[0] && o->inplace; }

/* What PyTorch calls the node: the stanza's `node`, or as_strided -> AsStridedBackward0, im2col -> Im2ColBackward0. */
char *node_name(const op *o) {
    if (o->node) return o->node;
    text t = {0};
    bool up = true;
    for (const char *s = o->cname; *s; s++) {
        if (*s != '_') put(&t, "%c", up ? toupper((unsigned char)*s) : *s);
        up = *s == '_' || isdigit((unsigned char)*s);
    }
    put(&t, "Backward0");
    return t.s;
}

/* Of a view that says `part`: adds the gradient to the part of the input's gradient so far that the view looks at. */
static void write_into(text *t, const op *o, const needs *n) {
    put(t,
        "static bool %s_into(tpi_node *node, tp_tensor *grad, tp_tensor *sum) {\n    struct %s_attrs *a = "
        "tpi_node_attrs(node);\n    tpi_geometry g;\n    g.dtype = TP_NO_DTYPE;\n    return %s(sum",
        o->cname, o->cname, o->function);
    for (int i = 1; i < o->nargs; i++) {
        if (!n->scalar[i]) fail(o->at, "%s: 'part' needs a gradient that takes every argument", o->name);
        put(t, ", a->%s", o->args[i].name);
    }
    put(t, ", &g) && tpi_add_to_part(sum, &g, grad);\n}\n");
}

/* The names of the saved tensors, as a C string, in the order of their slots. Lists, which come last, have no names. */
static const char *saved_names(const op *o, const needs *n) {
    text names = {0};
    put(&names, "%s", "");
    for (int i = 0; i < o->nargs; i++)
        if (n->saved[i] && !is_tensors(o->args[i].type)) put(&names, "%s%s", *names.s ? " " : "", o->args[i].name);
    for (int r = 0; r < o->nresults; r++)
        if (n->saved_result[r])
            put(&names, "%s%s", *names.s ? " " : "", o->nresults > 1 ? o->results[r].name : "result");
    return *names.s ? format("\"%s\"", names.s) : "NULL";
}

/* The node's class, or two of them where an argument says which; how C names the one that a node has. */
static const char *write_classes(text *t, const op *o, const needs *n) {
    put(t, "static const tpi_node_class %s_class = {\"%s\", \"%s\", %s_backward, %s, %s, %s};\n\n", o->cname,
        node_name(o), o->name, o->cname, has_release(o, n) ? format("%s_release", o->cname) : "NULL",
        o->part ? format("%s_into", o->cname) : "NULL", saved_names(o, n));
    const char *class = format("&%s_class", o->cname);
    if (o->node_with) {
        const arg *picks = &o->args[o->node_arg];
        put(t, "static const tpi_node_class %s_with_class = {\"%s\", \"%s\", %s_backward, %s, NULL, %s};\n\n", o->cname,
            o->node_with, o->name, o->cname, has_release(o, n) ? format("%s_release", o->cname) : "NULL",
            saved_names(o, n));
        class = format("%s%s ? &%s_with_class : &%s_class", picks->name, picks->type == T_INTS_OPT ? ".v" : "",
                       o->cname, o->cname);
    }
    return class;
}

/* An argument that is no tensor, kept in the node. */
static void write_attribute(text *t, const arg *x) {
    vkind k = kind_of_type(x->type);
    if (is_list(x->type))
        put(t, "    if (!tpi_copy_%s(&a->%s, %s)) goto failed;\n",
            k == V_INTS     ? "ints"
            : k == V_FLOATS ? "floats"
                            : "scalars",
            x->name, x->name);
    else if (k == V_STR)
        put(t, "    if (%s && !(a->%s = tpi_intern(%s))) goto failed;\n", x->name, x->name, x->name);
    else
        put(t, "    a->%s = %s;\n", x->name, x->name);
}

/* Edges to the inputs' nodes, and the other arguments. */
static void write_arguments(text *t, const op *o, const needs *n) {
    for (int i = 0; i < o->nargs; i++) {
        const arg *x = &o->args[i];
        if (is_tensors(x->type)) {
            put(t, "    a->n_%s = %s.n;\n", x->name, x->name);
            if (has_grad(o, i))
                put(t, "    for (int64_t i = 0; i < %s.n; i++) tpi_node_edge(node, e_%s + (int)i, %s.v[i]);\n", x->name,
                    x->name, x->name);
        } else if (is_tensor(x->type) && has_grad(o, i))
            put(t, "    tpi_node_edge(node, e_%s, %s%s);\n", x->name, x->name, x->type == T_OPERAND ? ".tensor" : "");
        if (n->scalar[i]) write_attribute(t, x);
        if (n->saved[i] && x->type == T_OPERAND) put(t, "    a->%s = %s.scalar;\n", x->name, x->name);
    }
}

/* What derivatives read of arguments: sizes, dtypes. */
static void write_fields(text *t, const op *o, const needs *n) {
    tensor_scope s = {.code = t, .indent = "    ", .o = o, .failure = "goto failed;"};
    bind_arguments(&s, o);
    for (int i = 0; i < n->nfields; i++) {
        const char *of = n->fields[i].e->arg[0]->name;
        int a = find_arg(o, of);
        if (a < 0) continue; /* of a result: once it is there */
        char *x = field_text(of, n->fields[i].e, &s, o->args[a].type == T_OPERAND);
        const char *guard = o->args[a].type == T_TENSOR_OPT ? format("if (%s) ", of) : "";
        if (!strcmp(n->fields[i].e->name, "sizes"))
            put(t, "    if (!tpi_move_ints(&a->f%d, %s)) goto failed;\n", i, x);
        else if (n->fields[i].kind == V_INTS && *guard)
            put(t, "    if (%s && !tpi_copy_ints(&a->f%d, %s)) goto failed;\n", of, i, x);
        else if (n->fields[i].kind == V_INTS)
            put(t, "    if (!tpi_copy_ints(&a->f%d, %s)) goto failed;\n", i, x);
        else
            put(t, "    %sa->f%d = %s;\n", guard, i, x);
    }
}

/* Tensors that backward reads; those of lists stand behind the `fixed` others. */
static void write_saves(text *t, const op *o, const needs *n, int fixed) {
    for (int i = 0; i < o->nargs; i++) {
        const arg *x = &o->args[i];
        if (!n->saved[i]) continue;
        if (is_tensors(x->type)) {
            put(t,
                "    for (int64_t i = 0; i < %s.n; i++)\n        if (!tpi_node_save(node, %d + (int)i, %s.v[i])) goto "
                "failed;\n",
                x->name, fixed, x->name);
            continue;
        }
        put(t, "    if ((%s) && !tpi_node_save(node, %d, %s%s)) goto failed;\n", readers(o, n, i, false),
            saved_slot(o, n, i, -1), x->name, x->type == T_OPERAND ? ".tensor" : "");
    }
}

/* Builds the node from the inputs; results are saved and attached by the caller. */
void write_record(text *t, const op *o, const needs *n) {
    int fixed = saved_slot(o, n, -1, -1);
    text lists = {0};
    put(&lists, "%s", "");
    for (int i = 0; i < o->nargs; i++)
        if (is_tensors(o->args[i].type) && n->saved[i]) put(&lists, " + (int)%s.n", o->args[i].name);
    if (o->part) write_into(t, o, n);
    const char *class = write_classes(t, o, n);
    const size_t begin = t->n;
    put(t, "static tpi_node *%s_node(%s) {\n", o->cname, parameters(o, false));
    put(t,
        "    tpi_node *node = tpi_node_new(%s, %s, %d%s, sizeof(struct %s_attrs), %d);\n    if (!node) return NULL;\n",
        class, edge_count(o), fixed, lists.s, o->cname, o->nresults);
    put(t, "    struct %s_attrs *a = tpi_node_attrs(node);\n    (void)a;\n", o->cname);
    write_edge_names(t, o, false, "    ");
    write_arguments(t, o, n);
    write_fields(t, o, n);
    write_saves(t, o, n, fixed);
    put(t, "    return node;\n");
    const char *failed = label(t, begin, "failed");
    if (*failed) put(t, "%s    tpi_node_release(node);\n    return NULL;\n", failed);
    put(t, "}\n\n");
}

void write_attach(text *t, const op *o, const needs *n, const char *const *outs, const char *indent,
                  const char *failure, bool inplace) {
    bool fields = false;
    for (int i = 0; i < n->nfields; i++) fields = fields || find_arg(o, n->fields[i].e->arg[0]->name) < 0;
    if (fields) {
        put(t, "%sstruct %s_attrs *a = tpi_node_attrs(node);\n", indent, o->cname);
        for (int i = 0; i < n->nfields; i++) {
            const expr *e = n->fields[i].e;
            if (find_arg(o, e->arg[0]->name) >= 0) continue;
            int r = find_result(o, e->arg[0]->name);
            tensor_scope s = {.code = t, .indent = indent, .o = o, .failure = failure};
            bind_arguments(&s, o);
            char *x = field_text(outs[r], e, &s, false);
            if (n->fields[i].kind == V_INTS)
                put(t, "%sif (!tpi_copy_ints(&a->f%d, %s)) %s\n", indent, i, x, failure);
            else
                put(t, "%sa->f%d = %s;\n", indent, i, x);
        }
    }
    /* Attached first: a result is saved with the history it has after the call. */
    for (int r = 0; r < o->nresults; r++)
        put(t, "%sif (!tpi_node_attach%s(node, %d, %s)) %s\n", indent, inplace ? "_inplace" : "", r, outs[r], failure);
    for (int r = 0; r < o->nresults; r++)
        if (n->saved_result[r])
            put(t, "%sif ((%s) && !tpi_node_save_output(node, %d, %s, %d)) %s\n", indent, readers(o, n, r, true),
                saved_slot(o, n, -1, r), outs[r], r, failure);
    put(t, "%stpi_node_release(node);\n", indent);
}

/* ---- backward ---- */
static void write_kernel_call(text *t, const op *o, int grad, const char *out, const char *indent) {
    kernel_inputs k;
    map_inputs(o, grad, &k);
    put(t, "%s%s = tpi_run_map(&tpi_map_%s_grad_%s, NULL, (tp_operand[]){", indent, out, o->cname, o->args[grad].name);
    for (int i = 0; i < k.n; i++) {
        if (k.arg[i] < 0)
            put(t, "%stp_operand_tensor(%s)", i ? ", " : "", k.arg[i] == -1 ? "grad" : "result");
        else
            put(t, "%s%s", i ? ", " : "",
                o->args[k.arg[i]].type == T_OPERAND ? o->args[k.arg[i]].name
                                                    : format("tp_operand_tensor(%s)", o->args[k.arg[i]].name));
    }
    put(t, "}, %s", k.nparam ? "(tp_scalar[]){" : "NULL");
    for (int i = 0; i < k.nparam; i++) {
        const arg *a = &o->args[k.param[i]];
        vkind v = kind_of_type(a->type);
        put(t, "%s%s", i ? ", " : "",
            v == V_SCALAR  ? format("a->%s", a->name)
            : v == V_FLOAT ? format("tp_float(a->%s)", a->name)
                           : format("tp_int(a->%s)", a->name));
    }
    put(t, "%s);\n", k.nparam ? "}" : "");
}

static void write_unpack(text *t, const op *o, const needs *n) {
    for (int i = 0; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        if (!n->saved[i]) continue;
        int slot = saved_slot(o, n, i, -1);
        if (is_tensors(a->type)) {
            put(t, "    if (!tpi_unpack_list(node, %d, a->n_%s, &%s)) goto done;\n", saved_slot(o, n, -1, -1), a->name,
                a->name);
        } else if (a->type == T_OPERAND) {
            put(t,
                "    if (!tpi_unpack(node, %d, &held[%d])) goto done;\n    %s = held[%d] ? tp_operand_tensor(held[%d]) "
                ": tp_operand_scalar(a->%s);\n",
                slot, slot, a->name, slot, slot, a->name);
        } else
            put(t, "    if (!tpi_unpack(node, %d, &held[%d])) goto done;\n    %s = held[%d];\n", slot, slot, a->name,
                slot);
    }
    for (int r = 0; r < o->nresults; r++) {
        if (!n->saved_result[r]) continue;
        int slot = saved_slot(o, n, -1, r);
        put(t, "    if (!tpi_unpack(node, %d, &held[%d])) goto done;\n    %s = held[%d];\n", slot, slot,
            o->results[r].name, slot);
    }
}

static void bind_backward(tensor_scope *s, const op *o, const needs *n) {
    for (int i = 0; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        vkind k = kind_of_type(a->type);
        if (is_tensor(a->type) || is_tensors(a->type)) {
            if (n->saved[i]) bind_tensor(s, a->name, (tvalue){.kind = k, .c = a->name, .temp = -1});
        } else if (n->scalar[i])
            bind_tensor(s, a->name, (tvalue){.kind = k, .c = format("a->%s", a->name), .temp = -1});
    }
    for (int r = 0; r < o->nresults; r++) {
        if (n->saved_result[r])
            bind_tensor(s, o->results[r].name, (tvalue){.kind = V_TENSOR, .c = o->results[r].name, .temp = -1});
        bind_tensor(s, o->nresults == 1 ? "grad" : format("grad_%s", o->results[r].name),
                    (tvalue){.kind = V_TENSOR,
                             .c = o->nresults == 1 ? "grad" : format("grad_%s", o->results[r].name),
                             .temp = -1});
    }
}

static bool grad_used(const op *o, int r) {
    char *name = o->nresults == 1 ? "grad" : format("grad_%s", o->results[r].name);
    for (int a = 0; a < o->nargs; a++) {
        const block *b = o->args[a].grad_group ? o->groups[o->args[a].grad_group - 1].value : o->args[a].grad;
        for (int i = 0; b && i < b->n; i++)
            if (uses_name(b->value[i], name)) return true;
    }
    return false;
}

/* Is the name used in e anywhere but as an argument that may be none? */
static bool needs_tensor(const expr *e, const char *name) {
    if (e->kind == E_NAME) return !strcmp(e->name, name);
    const op *called = e->kind == E_CALL ? find_op(e->name) : NULL;
    for (int i = 0; i < e->n; i++) {
        const bool may_be_none =
            called && i < called->nargs && called->args[i].type == T_TENSOR_OPT && e->arg[i]->kind == E_NAME;
        if (!may_be_none && needs_tensor(e->arg[i], name)) return true;
    }
    return false;
}

/* Whether a gradient that nobody gave has to be a tensor of zeros. */
static bool grad_wants_zeros(const op *o, int r) {
    char *name = format("grad_%s", o->results[r].name);
    for (int a = 0; a < o->nargs; a++) {
        const block *b = o->args[a].grad_group ? o->groups[o->args[a].grad_group - 1].value : o->args[a].grad;
        for (int i = 0; b && i < b->n; i++)
            if (needs_tensor(b->value[i], name)) return true;
    }
    return false;
}

static void write_one_grad(tensor_scope *s, const op *o, int a) {
    const arg *x = &o->args[a];
    const block *b = x->grad;
    text *t = s->code;
    char *slot = format("grad_inputs[e_%s]", x->name);
    if (is_tensors(x->type)) {
        put(t, "    if (tpi_node_needs_any(node, e_%s, a->n_%s)) {\n", x->name, x->name);
        s->indent = "        ";
        tvalue v = tensor_block(s, b);
        if (v.kind != V_TENSORS) fail(b->at, "%s: the derivative of a list is an operator that gives a list", o->name);
        put(t, "        if (!tpi_put_list_gradients(node, %s, e_%s, a->n_%s, grad_inputs)) goto done;\n    }\n", v.c,
            x->name, x->name);
        return;
    }
    put(t, "    if (tpi_node_needs(node, e_%s)) {\n", x->name);
    s->indent = "        ";
    bool fused = has_fused_grad(o, a);
    if (fused) {
        put(t, "        if (tpi_grad_off) {\n");
        write_kernel_call(t, o, a, slot, "            ");
        put(t, "            if (!%s) goto done;\n        } else {\n", slot);
        s->indent = "            ";
    }
    tvalue v = tensor_block(s, b);
    put(t, "%s%s = %s;\n", s->indent, slot, owned(s, v, b->at));
    if (v.kind == V_OPERAND) put(t, "%sif (!%s) goto done;\n", s->indent, slot);
    if (fused) put(t, "        }\n");
    put(t, "    }\n");
}

static void write_group_grad(tensor_scope *s, const op *o, const group *g) {
    text *t = s->code;
    put(t, "    if (");
    for (int i = 0; i < g->n; i++) put(t, "%stpi_node_needs(node, e_%s)", i ? " || " : "", o->args[g->args[i]].name);
    put(t, ") {\n");
    s->indent = "        ";
    tvalue v = tensor_block(s, g->value);
    if (v.kind != V_MULTI || v.multi->nresults != g->n)
        fail(g->value->at, "%s: expected an operator with %d results for the group of derivatives", o->name, g->n);
    for (int i = 0; i < g->n; i++)
        put(t, "        if (tpi_node_needs(node, e_%s)) grad_inputs[e_%s] = tpi_move_out(&t[%d]);\n",
            o->args[g->args[i]].name, o->args[g->args[i]].name, v.base + i);
    put(t, "    }\n");
}

void write_backward(text *out, const op *o, const needs *n) {
    text body = {0};
    tensor_scope s = {
        .code = &body, .indent = "    ", .o = o, .fields = n->fields, .nfields = n->nfields, .failure = "goto done;"};
    bind_backward(&s, o, n);
    for (int a = 0; a < o->nargs; a++)
        if (o->args[a].grad) {
            tensor_scope one = s;
            write_one_grad(&one, o, a);
            s.ntemps = one.ntemps;
            s.nlists = one.nlists;
        }
    for (int g = 0; g < o->ngroups; g++) {
        tensor_scope one = s;
        write_group_grad(&one, o, &o->groups[g]);
        s.ntemps = one.ntemps;
        s.nlists = one.nlists;
    }
    int fixed = saved_slot(o, n, -1, -1);
    text *t = out;
    const size_t begin = t->n;
    put(t, "static bool %s_backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {\n", o->cname);
    put(t, "    struct %s_attrs *a = tpi_node_attrs(node);\n    (void)a;\n    bool fine = false;\n", o->cname);
    put(t, "    tp_tensor *t[%d] = {NULL};\n    tp_tensor *held[%d] = {NULL};\n", s.ntemps + 1, fixed + 1);
    if (s.nlists) put(t, "    tp_tensors l[%d] = {{NULL, 0}};\n", s.nlists);
    for (int i = 0; i < o->nargs; i++)
        if (n->saved[i])
            put(t, "    %s%s%s%s;\n", types[o->args[i].type].c, space(o->args[i].type), o->args[i].name,
                is_tensors(o->args[i].type)    ? " = {NULL, 0}"
                : o->args[i].type == T_OPERAND ? ""
                                               : " = NULL");
    for (int r = 0; r < o->nresults; r++)
        if (n->saved_result[r]) put(t, "    tp_tensor *%s = NULL;\n", o->results[r].name);
    write_edge_names(t, o, true, "    ");
    bool zeros = false;
    for (int r = 0; r < o->nresults; r++) {
        const char *name = o->nresults == 1 ? "grad" : format("grad_%s", o->results[r].name);
        if (!grad_used(o, r)) continue;
        put(t, "    tp_tensor *%s = grads[%d];\n", name, r);
        if (o->nresults > 1) zeros = true;
    }
    if (zeros) { /* results nobody used have gradient zero, or none where the formula takes that */
        put(t, "    tp_tensor *zeros[%d] = {NULL};\n", o->nresults);
        for (int r = 0; r < o->nresults; r++)
            if (grad_used(o, r) && grad_wants_zeros(o, r))
                put(t, "    if (!grad_%s && !(grad_%s = zeros[%d] = tpi_node_zeros(node, %d))) goto done;\n",
                    o->results[r].name, o->results[r].name, r, r);
    }
    write_unpack(t, o, n);
    put(t, "%s    fine = true;\n", body.s ? body.s : "");
    put(t, "%s    tpi_drop_all(t, %d);\n    tpi_drop_all(held, %d);\n", label(t, begin, "done"), s.ntemps, fixed);
    for (int i = 0; i < s.nlists; i++) put(t, "    tpi_release_list(l[%d]);\n", i);
    for (int i = 0; i < o->nargs; i++)
        if (n->saved[i] && is_tensors(o->args[i].type)) put(t, "    tpi_release_list(%s);\n", o->args[i].name);
    if (zeros) put(t, "    tpi_drop_all(zeros, %d);\n", o->nresults);
    put(t, "    (void)grads;\n    return fine;\n}\n\n");
}

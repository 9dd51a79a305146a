/* Layers in Python: a file of classes per table, written to be read. Each class has PyTorch's constructor, attributes,
 * reset_parameters, forward and extra_repr; what it shares with its base it inherits. */
#include "layer.h"
#include <stdio.h>
#include <string.h>

/* Which names are plain here; all others are attributes of the module. */
typedef struct names {
    const layer *l;
    const op *plain;    /* arguments of the function we are in, or NULL */
    const char *locals; /* " bound " */
    bool init;          /* in __init__, where a name is the argument until a `set` line made it an attribute */
    int sets;           /* how many `set` lines were written */
} names;

static char *py(const names *n, const expr *e);
static char *py_operand(const names *n, const expr *e);

static char *py_name(const names *n, const char *name) {
    static const char *const words[][2] = {
        {"true", "True"}, {"false", "False"}, {"None", "None"}, {"none", "None"}, {"inf", "float(\"inf\")"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i][0], name)) return (char *)words[i][1];
    if (has_word(n->locals, name)) return (char *)name;
    for (int i = 0; n->init && i < n->sets; i++)
        if (!strcmp(n->l->set_name[i], name)) return format("self.%s", name);
    if (n->plain && find_arg(n->plain, name) >= 0) return (char *)name;
    return format("self.%s", name);
}

static char *py_list(const names *n, expr *const *arg, int first, int count) {
    text t = {0};
    put(&t, "%s", "");
    for (int i = first; i < count; i++) put(&t, "%s%s", i > first ? ", " : "", py(n, arg[i]));
    return t.s;
}

static bool c_only(const layer *l, const char *name) { return l && has_word(l->c_only, name); }

static char *py_call(const names *n, const expr *e) {
    const char *f = e->name;
    if (!strcmp(f, "given") && e->arg[0]->kind == E_NAME && c_only(n->l, e->arg[0]->name)) return "False";
    if ((!strcmp(f, "given") || !strcmp(f, "defined")) && e->n == 1) return format("%s is not None", py(n, e->arg[0]));
    if (!strcmp(f, "tuple") && e->n == 2) {
        static const char *const makers[] = {"", "_single", "_pair", "_triple", "_quadruple", "", "_sextuple"};
        char *x = py(n, e->arg[0]);
        char *made = e->arg[1]->i < 7 && *makers[e->arg[1]->i] ? format("%s(%s)", makers[e->arg[1]->i], x)
                                                               : format("_ntuple(%s)(%s)", e->arg[1]->name, x);
        if (e->arg[0]->kind == E_NAME && has_word(n->l->texts, e->arg[0]->name))
            return format("%s if isinstance(%s, str) else %s", x, x, made);
        return made;
    }
    if (!strcmp(f, "all_are")) return format("all(x == %s for x in %s)", py(n, e->arg[1]), py(n, e->arg[0]));
    if (!strcmp(f, "all_of")) return format("all(x > 0 for x in %s)", py(n, e->arg[0]));
    if (!strcmp(f, "idiv")) return format("%s // %s", py_operand(n, e->arg[0]), py_operand(n, e->arg[1]));
    if (!strcmp(f, "product")) return format("math.prod(%s)", py(n, e->arg[0]));
    if (!strcmp(f, "at")) return format("%s[%s]", py(n, e->arg[0]), py(n, e->arg[1]));
    if (!strcmp(f, "len") || !strcmp(f, "any")) return format("%s(%s)", f, py(n, e->arg[0]));
    if (!strcmp(f, "fan_in")) return format("init._calculate_fan_in_and_fan_out(%s)[0]", py(n, e->arg[0]));
    if (!strcmp(f, "zero_row_")) return "self._fill_padding_idx_with_zero()"; /* PyTorch's name for it */
    if (!strcmp(f, "sqrt")) return format("math.sqrt(%s)", py(n, e->arg[0]));
    const op *o = find_op(f);
    char *args = py_list(n, e->arg, 0, e->n);
    if (f[0] == '_') return format("self.%s(%s)", f, args);
    if (!o && f[strlen(f) - 1] == '_') return format("init.%s(%s)", f, args);
    if (!o) return format("F.%s(%s)", f, args);
    return strstr(o->names, "nn.functional") ? format("F.%s(%s)", f, args) : format("_op[\"%s\"](%s)", o->name, args);
}

static char *py_operator(const char *o) { return !strcmp(o, "&&") ? "and" : !strcmp(o, "||") ? "or" : (char *)o; }

/* Operands of operators: what binds weaker than arithmetic goes in brackets. */
static char *py_operand(const names *n, const expr *e) {
    char *s = py(n, e);
    bool loose = e->kind == E_BINARY || e->kind == E_TERNARY ||
                 (e->kind == E_CALL && (strstr(s, " is not ") || strstr(s, " // ")));
    return loose ? format("(%s)", s) : s;
}

static char *py(const names *n, const expr *e) {
    switch (e->kind) {
    case E_INT:
    case E_FLOAT: return e->name;
    case E_STRING: return format("\"%s\"", e->name);
    case E_NAME: return py_name(n, e->name);
    case E_NAMED: return format("%s=%s", e->name, py(n, e->arg[0]));
    case E_UNARY:
        if (e->name[0] == '!' && !strcmp(py(n, e->arg[0]), "False")) return "True";
        return format("%s%s", e->name[0] == '!' ? "not " : e->name, py_operand(n, e->arg[0]));
    case E_BINARY:
        if (!strcmp(e->name, "&&") && !strcmp(py(n, e->arg[0]), "True")) return py(n, e->arg[1]);
        if (e->name[0] == '+' && e->arg[0]->kind == E_LIST) /* what follows may be any sequence */
            return format("(%s, *%s)", py_list(n, e->arg[0]->arg, 0, e->arg[0]->n), py_operand(n, e->arg[1]));
        return format("%s %s %s", py_operand(n, e->arg[0]), py_operator(e->name), py_operand(n, e->arg[1]));
    case E_TERNARY:
        return format("%s if %s else %s", py_operand(n, e->arg[1]), py(n, e->arg[0]), py_operand(n, e->arg[2]));
    case E_LIST: return format("(%s%s)", py_list(n, e->arg, 0, e->n), e->n == 1 ? "," : "");
    case E_FIELD:
        if (e->called && e->arg[0]->kind == E_NAME && find_op(format("%s.%s", e->arg[0]->name, e->name)))
            return format("F.%s(%s)", e->arg[0]->name, py_list(n, e->arg, 1, e->n));
        return e->called ? format("%s.%s(%s)", py(n, e->arg[0]), e->name, py_list(n, e->arg, 1, e->n))
                         : format("%s.%s", py(n, e->arg[0]), e->name);
    case E_CALL: return py_call(n, e);
    }
    return "";
}

static char *py_default(const arg *a) {
    const names none = {.locals = " "};
    if (a->fallback->kind == E_LIST && !a->fallback->n) return "()";
    return py(&none, a->fallback);
}

/* ---- the constructor ---- */
static char *signature(const layer *l) {
    text t = {0};
    put(&t, "self");
    for (int i = 0; i < l->make.nargs; i++) {
        const arg *a = &l->make.args[i];
        if (has_word(l->c_only, a->name)) continue;
        if (l->keyword_only && !strcmp(l->keyword_only, a->name)) put(&t, ", *");
        put(&t, ", %s", a->name);
        if (a->fallback) put(&t, "=%s", py_default(a));
    }
    return t.s;
}

static void write_super(text *t, const layer *l, const names *n) {
    put(t, "        super().__init__(");
    int count = 0;
    if (l->parent && l->nbase < 0)
        for (int i = 0; i < l->parent->make.nargs; i++) {
            const char *name = l->parent->make.args[i].name;
            if (find_arg(&l->make, name) < 0 || has_word(l->parent->c_only, name)) continue;
            bool by_name = l->parent->keyword_only && i >= find_arg(&l->parent->make, l->parent->keyword_only);
            put(t, by_name ? "%s%s=%s" : "%s%s", count++ ? ", " : "", name, name);
        }
    for (int i = 0; i < l->nbase; i++) {
        const expr *e = l->base_args[i];
        if (e->kind == E_NAMED && has_word(l->parent->c_only, e->name)) continue;
        put(t, "%s%s", count++ ? ", " : "", py(n, e));
    }
    if (l->parent && l->nbase >= 0 && l->has_factory) put(t, "%sdevice=device, dtype=dtype", count ? ", " : "");
    put(t, ")\n");
}

static char *message_piece(const layer *l, const char *name, char mark, location at) {
    (void)l;
    (void)mark;
    (void)at;
    return format("{%s}", name);
}

static void write_python_tensor(text *t, const layer_tensor *x, const names *n) {
    if (x->from) {
        put(t, x->buffer ? "        self.register_buffer(\"%s\", %s%s)\n" : "        self.%s = %s\n", x->name, x->from,
            x->persistent ? "" : ", persistent=False");
        return;
    }
    char *shape = x->shape->kind == E_LIST && !x->shape->n ? "()" : py(n, x->shape);
    char *made;
    if (!x->buffer)
        made = format("Parameter(_op[\"empty\"](%s, device=device, dtype=dtype))", shape);
    else {
        const char *maker = !strcmp(x->value, "0") ? "zeros" : !strcmp(x->value, "1") ? "ones" : NULL;
        char *rest = format("device=device, dtype=%s", x->dtype ? format("_C.%s", x->dtype) : "dtype");
        made = maker ? format("_op[\"%s\"](%s, %s)", maker, shape, rest)
                     : format("_op[\"full\"](%s, %s, %s)", shape, x->value, rest);
    }
    if (x->condition) made = format("%s if %s else None", made, py(n, x->condition));
    if (x->buffer)
        put(t, "        self.register_buffer(\"%s\", %s%s)\n", x->name, made,
            x->persistent ? "" : ", persistent=False");
    else if (x->condition)
        put(t, "        self.register_parameter(\"%s\", %s)\n", x->name, made);
    else
        put(t, "        self.%s = %s\n", x->name, made);
}

/* Nothing that the base's own constructor would not do. */
static bool same_constructor(const layer *l) {
    if (!l->parent || l->nbase >= 0 || l->nsets || l->ntensors || l->nchecks || l->make.nargs != l->parent->make.nargs)
        return false;
    for (int i = 0; i < l->make.nargs; i++) {
        const arg *a = &l->make.args[i], *b = &l->parent->make.args[i];
        if (strcmp(a->name, b->name) || !a->fallback != !b->fallback ||
            (a->fallback && strcmp(a->fallback_text, b->fallback_text)))
            return false;
    }
    return true;
}

static bool is_attribute(const layer *l, int i) {
    const char *name = l->make.args[i].name;
    return sets_argument(l, i) && !has_word(l->c_only, name) && !has_word(l->passing, name);
}

static void write_init(text *t, const layer *l) {
    names n = {.l = l, .plain = &l->make, .locals = " ", .init = true};
    if (l->any_arguments) put(t, "    def __init__(self, *args, **kwargs):\n        super().__init__()\n\n");
    if ((!l->make.nargs && !l->nsets && !l->nbase) || same_constructor(l)) return;
    put(t, "    def __init__(%s):\n", signature(l));
    for (int i = 0; i < l->nchecks; i++) {
        const layer_text *c = &l->checks[i];
        char *message = fill_text(l, c->text, message_piece, c->at);
        put(t, "        if not (%s):\n            raise %s(%s%s)\n", py(&n, c->condition), c->error,
            strchr(message, '{') ? "f" : "", c_string(message));
    }
    write_super(t, l, &n);
    for (int i = 0; i < l->make.nargs; i++)
        if (is_attribute(l, i) || has_word(l->keeping, l->make.args[i].name))
            put(t, "        self.%s = %s\n", l->make.args[i].name, l->make.args[i].name);
    for (int i = 0; i < l->nsets; i++) {
        put(t, "        self.%s = %s\n", l->set_name[i],
            py(&n, l->pyset_value[i] ? l->pyset_value[i] : l->set_value[i]));
        n.sets = i + 1;
    }
    for (int i = 0; !l->pymake && i < l->ntensors; i++) write_python_tensor(t, &l->tensors[i], &n);
    if (l->pymake)
        put(t, "        %s\n", py(&n, l->pymake));
    else if (l->reset || (l->reset_c && l->mixin))
        put(t, "        self.reset_parameters()\n");
    put(t, "\n");
}

/* ---- the other methods ---- */
static const layer_tensor *what_is_reset(const layer *l, int i) {
    return l->reset->name[i] ? NULL : tensor_of(l, l->reset->value[i]->arg[0]->name);
}

/* Parameters, or buffers: what fills those is PyTorch's reset_running_stats. */
static void write_resets(text *t, const layer *l, bool buffers) {
    names n = {.l = l, .locals = " "};
    for (int i = 0; i < l->reset->n; i++) {
        const expr *e = l->reset->value[i];
        const layer_tensor *filled = what_is_reset(l, i);
        if ((filled && filled->buffer) != buffers) continue;
        if (l->reset->name[i]) {
            put(t, "        %s = %s\n", l->reset->name[i], py(&n, e));
            n.locals = format("%s%s ", n.locals, l->reset->name[i]);
            continue;
        }
        bool may_miss = filled && (filled->condition || filled->from);
        if (may_miss) put(t, "        if self.%s is not None:\n    ", e->arg[0]->name);
        put(t, "        %s\n", py_call(&n, e));
    }
    put(t, "\n");
}

static void write_python_reset(text *t, const layer *l) {
    if (!l->reset) return;
    bool buffers = false;
    for (int i = 0; i < l->reset->n; i++) {
        const layer_tensor *filled = what_is_reset(l, i);
        buffers = buffers || (filled && filled->buffer);
    }
    if (buffers) {
        put(t, "    def reset_running_stats(self):\n");
        write_resets(t, l, true);
    }
    put(t, "    def reset_parameters(self):\n%s", buffers ? "        self.reset_running_stats()\n" : "");
    write_resets(t, l, false);
}

static char *input_piece(const layer *l, const char *name, char mark, location at) {
    (void)l;
    (void)mark;
    (void)at;
    return format("{%s}", strcmp(name, "input.ndim") ? name : "input.dim()");
}

static void write_python_forward(text *t, const layer *l) {
    const block *body = l->pyforward ? l->pyforward : l->forward;
    if (!body) return;
    names n = {.l = l, .plain = &l->inputs, .locals = " "};
    put(t, "    def forward(self");
    for (int i = 0; i < l->inputs.nargs; i++) {
        const arg *a = &l->inputs.args[i];
        put(t, ", %s", a->name);
        if (a->fallback)
            put(t, "=%s", py_default(a));
        else if (a->type == T_TENSOR_OPT || a->type == T_INTS_OPT)
            put(t, "=None");
    }
    put(t, "):\n");
    for (int i = 0; i < l->ninput_checks; i++) {
        const layer_text *c = &l->input_checks[i];
        put(t, "        if not (%s):\n            raise %s(f%s)\n", py(&n, c->condition), c->error,
            c_string(fill_text(l, c->text, input_piece, c->at)));
    }
    for (int i = 0; i < body->n; i++) {
        const expr *e = body->value[i];
        char *s = py(&n, e);
        if (body->name[i]) {
            put(t, "        %s = %s\n", body->name[i], s);
            n.locals = format("%s%s ", n.locals, body->name[i]);
        } else if (l->forward_op && l->forward_op->inplace && e->kind == E_CALL)
            put(t, "        return %.*s, inplace=self.inplace)\n", (int)strlen(s) - 1, s);
        else
            put(t, "        return %s\n", s);
    }
    put(t, "\n");
}

static char *repr_piece(const layer *l, const char *name, char mark, location at) {
    (void)l;
    (void)at;
    return mark == '?' ? format("{self.%s is not None}", name) : format("{self.%s%s}", name, mark == 'r' ? "!r" : "");
}

static void write_python_repr(text *t, const layer *l) {
    if (!l->nreprs && !l->plain_repr) return;
    names n = {.l = l, .locals = " "};
    put(t, "    def extra_repr(self):\n");
    bool any = false;
    for (int i = 0; i < l->nreprs; i++) any = any || l->reprs[i].condition;
    if (!any) {
        text all = {0};
        put(&all, "%s", "");
        for (int i = 0; i < l->nreprs; i++) put(&all, "%s", fill_text(l, l->reprs[i].text, repr_piece, l->reprs[i].at));
        put(t, "        return %s\"%s\"\n\n", strchr(all.s, '{') ? "f" : "", all.s);
        return;
    }
    for (int i = 0; i < l->nreprs; i++) {
        const layer_text *r = &l->reprs[i];
        if (r->condition && !strcmp(py(&n, r->condition), "False")) continue; /* of an argument that C alone has */
        char *s = fill_text(l, r->text, repr_piece, r->at);
        if (r->condition && !i) put(t, "        text = \"\"\n");
        if (r->condition) put(t, "        if %s:\n    ", py(&n, r->condition));
        put(t, "        text %s %s\"%s\"\n", i || r->condition ? "+=" : "=", strchr(s, '{') ? "f" : "", s);
    }
    put(t, "        return text\n\n");
}

static void write_constants(text *t, const layer *l) {
    text list = {0};
    put(&list, "%s", "");
    int n = 0;
    if (l->constants) {
        char *words = copy_n(l->constants, strlen(l->constants));
        for (char *w = strtok(words, " "); w; w = strtok(NULL, " ")) put(&list, "%s\"%s\"", n++ ? ", " : "", w);
    } else
        for (int i = 0; i < l->make.nargs; i++)
            if (is_attribute(l, i) || is_set(l, l->make.args[i].name))
                put(&list, "%s\"%s\"", n++ ? ", " : "", l->make.args[i].name);
    if (n) put(t, "    __constants__ = [%s]\n\n", list.s);
}

/* For methods by hand, and for users: how many dims an input may have. */
static void write_dims(text *t, const layer *l) {
    if (!l->dims) return;
    put(t, "    _dims = (");
    for (int d = 0; d < 10; d++)
        if (l->dims >> d & 1) put(t, "%d, ", d);
    const bool several = (l->dims & (l->dims - 1)) != 0;
    t->n -= several ? 2 : 1; /* "(4,)" and "(2, 3)" */
    t->s[t->n] = 0;
    put(t, ")\n\n");
}

static void write_class(text *t, const layer *l) {
    put(t, "\n\nclass %s(%s%s%s):\n    \"\"\"%s\"\"\"\n\n", l->name, l->mixin ? l->mixin : "", l->mixin ? ", " : "",
        l->base ? l->base : "Module", l->doc);
    write_constants(t, l);
    write_dims(t, l);
    write_init(t, l);
    write_python_reset(t, l);
    write_python_forward(t, l);
    write_python_repr(t, l);
    while (t->n > 1 && t->s[t->n - 1] == '\n' && t->s[t->n - 2] == '\n') t->s[--t->n] = 0;
}

/* ---- the file ---- */
static bool is_imported(const layer *l, const char *file) {
    if (!strcmp(l->file, file)) return l->by_hand;
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->parent == l && !strcmp(layers[k]->file, file) && !layers[k]->by_hand) return true;
    return false;
}

static void write_mixin_imports(text *t, const char *file) {
    char *written = " ";
    for (int i = 0; i < nlayers; i++) {
        const layer *l = layers[i];
        if (!l->mixin || strcmp(l->file, file) || has_word(written, l->mixin)) continue;
        put(t, "from taper.nn.modules.%s import %s\n", l->mixin_file, l->mixin);
        written = format("%s%s ", written, l->mixin);
    }
}

static void write_imports(text *t, const char *file, const char *body) {
    static const struct {
        const char *use, *line;
    } lines[] = {{"math.", "import math\n\n"},
                 {"_C.", "from taper import _C\n"},
                 {"_op[", "from taper._C import _functions as _op\n"},
                 {"F.", "from taper.nn import functional as F\n"},
                 {"init.", "from taper.nn import init\n"},
                 {"Module):", "from taper.nn.modules.module import Module\n"},
                 {"Parameter(", "from taper.nn.parameter import Parameter\n"}};
    static const char *const tuples[] = {"_ntuple", "_single", "_pair", "_triple", "_quadruple", "_sextuple"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(body, lines[i].use)) put(t, "%s", lines[i].line);
    text used = {0};
    for (size_t i = 0; i < sizeof tuples / sizeof *tuples; i++)
        if (strstr(body, format("%s(", tuples[i]))) put(&used, "%s%s", used.n ? ", " : "", tuples[i]);
    if (used.n) put(t, "from taper.nn.modules.utils import %s\n", used.s);
    for (int i = 0; i < nlayers;
         i++) { /* classes of other files: bases from other tables, and what is written by hand; a line for each file */
        const char *from = layers[i]->by_hand ? layers[i]->by_hand : layers[i]->file;
        bool again = !strcmp(from, file);
        for (int k = 0; k < i && !again; k++)
            again = is_imported(layers[k], file) &&
                    !strcmp(layers[k]->by_hand ? layers[k]->by_hand : layers[k]->file, from);
        if (again || !is_imported(layers[i], file)) continue;
        put(t, "from taper.nn.modules.%s import ", from);
        int n = 0;
        for (int k = i; k < nlayers; k++)
            if (is_imported(layers[k], file) &&
                !strcmp(layers[k]->by_hand ? layers[k]->by_hand : layers[k]->file, from))
                put(t, "%s%s", n++ ? ", " : "", layers[k]->name);
        put(t, "  # noqa: F401\n");
    }
}

/* Classes from files of their own are known by this file's name, as in PyTorch. */
static void write_hand_names(text *t, const char *file) {
    text list = {0};
    for (int i = 0; i < nlayers; i++)
        if (!strcmp(layers[i]->file, file) && layers[i]->by_hand) put(&list, "%s, ", layers[i]->name);
    if (list.n)
        put(t, "\nfor _class in (%.*s):\n    _class.__module__ = __name__\n",
            (int)list.n - (strchr(list.s, ',') == list.s + list.n - 2 ? 1 : 2), list.s);
}

text write_layer_python(const char *file) {
    text body = {0}, t = {0};
    put(&body, "%s", "");
    for (int i = 0; i < nlayers; i++)
        if (!strcmp(layers[i]->file, file) && !layers[i]->by_hand) write_class(&body, layers[i]);
    put(&t, "\"\"\"Layers of tables/layers/%s.layer. Written by opgen: do not edit.\"\"\"\n", file);
    write_imports(&t, file, body.s);
    write_mixin_imports(&t, file);
    write_hand_names(&t, file);
    put(&t, "%s", body.s);
    return t;
}

/* Which file has which class. */
text write_layer_names(void) {
    text t = {0};
    put(&t, "\"\"\"Which file of taper.nn.modules has which layer. Written by opgen: do not edit.\"\"\"\nFILES = {\n");
    for (int i = 0; i < nlayers; i++)
        if (!is_abstract(layers[i])) put(&t, "    \"%s\": \"%s\",\n", layers[i]->name, layers[i]->file);
    put(&t, "}\n");
    return t;
}

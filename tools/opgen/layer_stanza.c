/* Layers' stanzas: from lines of a table to layers, with every mistake named by file and line. */
#include "layer.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

layer **layers;
int nlayers;

layer *find_layer(const char *name) {
    for (int i = 0; i < nlayers; i++)
        if (!strcmp(layers[i]->name, name)) return layers[i];
    return NULL;
}

bool has_word(const char *list, const char *name) { return list && strstr(list, format(" %s ", name)); }

/* ---- texts ---- */
static char *replaced(const char *s, const char *what, const char *with) {
    text t = {0};
    put(&t, "%s", "");
    for (const char *p; (p = strstr(s, what)); s = p + strlen(what)) put(&t, "%.*s%s", (int)(p - s), s, with);
    put(&t, "%s", s);
    return t.s;
}

/* {N} becomes n, and {N:text} the text n times. */
static char *with_variable(const char *s, const char *variable, const char *n) {
    const int number = n[0] - '0';
    char *all = replaced(s, format("{%s}", variable), n);
    char *repeat = format("{%s:", variable), *choose = format("{%s|", variable);
    for (;;) {
        char *again = strstr(all, repeat), *choice = strstr(all, choose), *p = again ? again : choice;
        if (!p) return all;
        const char *inner = p + strlen(repeat), *end = strchr(p, '}');
        text t = {0};
        put(&t, "%.*s", (int)(p - all), all);
        for (int i = 0; again && i < number; i++) put(&t, "%.*s", (int)(end - inner), inner);
        for (int i = 1; !again && i < number; i++) inner += strcspn(inner, "|}") + 1;
        if (!again) put(&t, "%.*s", (int)strcspn(inner, "|}"), inner);
        put(&t, "%s", end + 1);
        all = t.s;
    }
}

/* BatchNorm2d is batch_norm2d, BCEWithLogitsLoss bce_with_logits_loss; ReLU and SiLU are one word. */
static char *snake(const char *name) {
    char *s = replaced(replaced(name, "ReLU", "Relu"), "SiLU", "Silu");
    text t = {0};
    for (size_t i = 0; s[i]; i++) {
        bool big = isupper((unsigned char)s[i]);
        bool begins =
            big && i && (!isupper((unsigned char)s[i - 1]) || islower((unsigned char)s[i + 1])) && s[i - 1] != '_';
        if (begins && i == 1 && isupper((unsigned char)s[0])) begins = false; /* PReLU, RReLU: prelu, rrelu */
        put(&t, "%s%c", begins ? "_" : "", tolower((unsigned char)s[i]));
    }
    return t.s;
}

static const char *closing(const char *s, location at) { /* s is at a bracket; where its partner is */
    int depth = 0;
    for (; *s; s++) {
        if (*s == '(' || *s == '[') depth++;
        if ((*s == ')' || *s == ']') && --depth == 0) return s;
    }
    fail(at, "a bracket is not closed");
}

/* ---- the head ---- */
static char *word_after(const char *s,
                        const char *mark) { /* the argument's name that follows a mark's type: "any NAME" */
    s += strlen(mark);
    return word(&s);
}

static void parse_head(layer *l, const char *s) {
    char *all = format("%s -> Tensor", s);
    l->python_only = " ";
    l->texts = " ";
    l->c_only = " ";
    for (const char *p = all; (p = strstr(p, "any ")); p++)
        if (p > all && strchr("( ,", p[-1])) l->python_only = format("%s%s ", l->python_only, word_after(p, "any "));
    for (const char *p = all; (p = strstr(p, "|str ")); p++)
        l->texts = format("%s%s ", l->texts, word_after(p, "|str "));
    const char *star = strstr(all, "*,");
    if (star) {
        const char *p = spaces(star + 2);
        while (*p && !isspace((unsigned char)*p)) p++; /* the type */
        l->keyword_only = word(&p);
        all = replaced(all, "*,", "");
    }
    all = replaced(replaced(replaced(all, "any ", "str? "), "|str ", " "), "\n", " ");
    l->make.at = l->at;
    parse_signature(&l->make, all);
    l->name = l->make.name;
    l->cname = snake(l->name);
}

/* ---- lines ---- */
/* Cuts " if CONDITION" off a line's end; NULL if there is none. */
static expr *cut_condition(char *line, location at) {
    char *p = strstr(line, " if ");
    if (!p) return NULL;
    *p = 0;
    return parse_expr(p + 4, at);
}

static void parse_tensor(layer *l, const char *s, location at, bool buffer, bool persistent) {
    if (l->ntensors == 8) fail(at, "more than 8 parameters and buffers");
    layer_tensor *x = &l->tensors[l->ntensors++];
    x->at = at;
    x->buffer = buffer;
    x->persistent = persistent;
    x->value = "0";
    char *line = copy_n(s, strlen(s));
    x->condition = cut_condition(line, at);
    const char *p = line;
    x->name = word(&p);
    p = spaces(p);
    if (starts(&p, "from"))
        x->from = word(&p);
    else if (*p) {
        const char *end = strstr(p, " = ");
        const char *stop = end ? end : p + strlen(p);
        const char *typed = strstr(p, " int64");
        if (typed && typed < stop) x->dtype = "int64";
        x->shape = parse_expr(copy_n(p, (size_t)((x->dtype ? typed : stop) - p)), at);
        if (end) x->value = copy_n(spaces(end + 3), strlen(spaces(end + 3)));
        p = "";
    }
    if ((!x->shape && !x->from) || *spaces(p))
        fail(at, "expected '%s NAME [SIZES]' or '%s NAME from ARGUMENT', found '%s'", buffer ? "buffer" : "parameter",
             buffer ? "buffer" : "parameter", s);
}

static void parse_base(layer *l, const char *s, location at) {
    l->base = word(&s);
    l->nbase = -1;
    if (*(s = spaces(s)) != '(') return;
    const char *rest, *end = closing(s, at);
    l->base_args = parse_args(copy_n(s + 1, (size_t)(end - s - 1)), at, &l->nbase, &rest);
    if (*rest || *spaces(end + 1)) fail(at, "expected 'base NAME(ARGUMENTS)'");
}

static void parse_check(layer_text *list, int *count, const char *s, location at) {
    if (*count == 12) fail(at, "more than 12 checks");
    layer_text *c = &list[(*count)++];
    int n;
    const char *rest;
    expr **conditions = parse_args(s, at, &n, &rest);
    if (n != 1 || *rest != ':') fail(at, "expected 'check CONDITION : words of the message'");
    rest = spaces(rest + 1);
    static const char *const codes[][2] = {{"ValueError", "TP_ERR_VALUE"},
                                           {"TypeError", "TP_ERR_TYPE"},
                                           {"IndexError", "TP_ERR_INDEX"},
                                           {"RuntimeError", "TP_ERR_RUNTIME"},
                                           {"AssertionError", "TP_ERR_VALUE"}};
    c->at = at;
    c->condition = conditions[0];
    c->code = "TP_ERR_VALUE";
    c->error = "ValueError";
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        size_t k = strlen(codes[i][0]);
        if (!strncmp(rest, codes[i][0], k) && !strncmp(rest + k, ": ", 2)) {
            c->error = (char *)codes[i][0];
            c->code = codes[i][1];
            rest += k + 2;
        }
    }
    c->text = replaced(rest, "\n", " ");
}

static void parse_repr(layer *l, const char *s, location at) {
    if (!*s) {
        l->plain_repr = true;
        return;
    }
    if (l->nreprs == 16) fail(at, "more than 16 pieces of the repr");
    layer_text *r = &l->reprs[l->nreprs++];
    r->at = at;
    const char *rest = s;
    if (starts(&rest, "if")) {
        int n;
        expr **conditions = parse_args(rest, at, &n, &rest);
        if (n != 1 || *rest != ':') fail(at, "expected 'repr if CONDITION : text'");
        r->condition = conditions[0];
        s = rest + 1;
        while (*s == ' ') s++;
    }
    r->text = copy_n(s, strlen(s));
}

/* (Tensor input, ...) EXPRESSION; one tensor called input where the inputs are left out. */
static block *parse_call(layer *l, const char *s, location at) {
    const char *signature = "Tensor input";
    if (*s == '(') {
        const char *end = closing(s, at), *inside = spaces(s + 1);
        if (!strncmp(inside, "Tensor ", 7) || !strncmp(inside, "Tensor? ", 8)) {
            signature = copy_n(inside, (size_t)(end - inside));
            s = spaces(end + 1);
        }
    }
    l->inputs = (op){.at = at};
    parse_signature(&l->inputs, format("forward(%s) -> Tensor", signature));
    return parse_block(s, at);
}

static void parse_forward(layer *l, const char *s, location at) {
    const char *c = s;
    if (starts(&c, "c"))
        l->forward_c = word(&c);
    else
        l->forward = parse_call(l, s, at);
}

static void parse_layer_sample(layer *l, const char *s, location at) {
    if (l->nsamples == 16) fail(at, "more than 16 samples");
    const char *colon = strstr(s, " : ");
    if (!strncmp(s, ": ", 2)) colon = s - 1; /* a constructor without arguments */
    if (!colon) fail(at, "expected 'sample CONSTRUCTOR ARGUMENTS : INPUTS'");
    sample *x = &l->samples[l->nsamples];
    const char *rest;
    x->at = at;
    x->text = copy_n(spaces(colon + 3), strlen(spaces(colon + 3)));
    x->args = parse_args(x->text, at, &x->n, &rest);
    l->sample_args[l->nsamples] = colon < s ? "" : copy_n(s, (size_t)(colon - s));
    if (*rest == ';') {
        rest = spaces(rest + 1);
        l->sample_eval[l->nsamples] = starts(&rest, "eval");
    }
    if (*spaces(rest)) fail(at, "expected '; eval' or the end of the sample, found '%s'", rest);
    l->nsamples++;
}

static void parse_set(layer *l, const char *s, location at) {
    if (l->nsets == 16) fail(at, "more than 16 attributes");
    char *name = word(&s);
    s = spaces(s);
    if (!*name || *s != '=') fail(at, "expected 'set NAME = EXPRESSION'");
    l->set_name[l->nsets] = name;
    l->set_value[l->nsets++] = parse_expr(s + 1, at);
}

static void parse_pyset(layer *l, const char *s, location at) {
    char *name = word(&s);
    s = spaces(s);
    for (int i = 0; i < l->nsets; i++) {
        if (strcmp(l->set_name[i], name) || *s != '=') continue;
        l->pyset_value[i] = parse_expr(s + 1, at);
        return;
    }
    fail(at, "expected 'pyset NAME = EXPRESSION' after the set line of that name");
}

static void parse_mixin(layer *l, const char *s, location at) {
    l->mixin_file = word(&s);
    if (!*l->mixin_file || *s++ != '.') fail(at, "expected 'mixin FILE.CLASS'");
    l->mixin = word(&s);
}

static void parse_dims(layer *l, const char *s, location at) {
    for (s = spaces(s); *s; s = spaces(s)) {
        if (starts(&s, "up")) {
            l->dims_and_more = true;
            continue;
        }
        if (*s < '1' || *s > '9') fail(at, "expected 'dims 2 3' or 'dims 2 up', found '%s'", s);
        l->dims |= 1u << (*s++ - '0');
    }
}

static void parse_facts(layer *l, const char *s, location at) {
    l->facts = format(" %s ", s);
    for (s = spaces(s); *s; s = spaces(s)) {
        const char *fact = word(&s);
        if (strcmp(fact, "running_statistics") && strcmp(fact, "weight_list"))
            fail(at, "unknown fact '%s'; expected running_statistics or weight_list", fact);
    }
}

static void parse_layer_line(layer *l, const char *s, location at) {
    const char *rest = s;
    if (starts(&rest, "doc"))
        l->doc = replaced(rest, "\n", " ");
    else if (starts(&rest, "cname"))
        l->cname = word(&rest);
    else if (starts(&rest, "base"))
        parse_base(l, rest, at);
    else if (starts(&rest, "set"))
        parse_set(l, rest, at);
    else if (starts(&rest, "pyset"))
        parse_pyset(l, rest, at);
    else if (starts(&rest, "parameter"))
        parse_tensor(l, rest, at, false, true);
    else if (starts(&rest, "buffer"))
        parse_tensor(l, rest, at, true, true);
    else if (starts(&rest, "temporary"))
        parse_tensor(l, rest, at, true, false);
    else if (starts(&rest, "reset")) {
        if (starts(&rest, "c"))
            l->reset_c = word(&rest);
        else
            l->reset = parse_block(rest, at);
    } else if (starts(&rest, "build")) {
        if (!starts(&rest, "c")) fail(at, "expected 'build c FUNCTION'");
        l->build_c = word(&rest);
    } else if (starts(&rest, "forward"))
        parse_forward(l, rest, at);
    else if (starts(&rest, "pyforward"))
        l->pyforward = parse_call(l, rest, at);
    else if (starts(&rest, "check"))
        parse_check(l->checks, &l->nchecks, rest, at);
    else if (starts(&rest, "need"))
        parse_check(l->input_checks, &l->ninput_checks, rest, at);
    else if (starts(&rest, "factory"))
        l->wants_factory = true;
    else if (starts(&rest, "any_arguments"))
        l->any_arguments = true;
    else if (starts(&rest, "repr"))
        parse_repr(l, rest, at);
    else if (starts(&rest, "constants"))
        l->constants = format(" %s ", replaced(rest, "\n", " "));
    else if (starts(&rest, "onlyc"))
        l->c_only = format(" %s ", rest);
    else if (starts(&rest, "python"))
        l->by_hand = word(&rest);
    else if (starts(&rest, "mixin"))
        parse_mixin(l, rest, at);
    else if (starts(&rest, "pymake"))
        l->pymake = parse_expr(rest, at);
    else if (starts(&rest, "passing"))
        l->passing = format(" %s ", rest);
    else if (starts(&rest, "keeping"))
        l->keeping = format(" %s ", rest);
    else if (starts(&rest, "dims"))
        parse_dims(l, rest, at);
    else if (starts(&rest, "facts"))
        parse_facts(l, rest, at);
    else if (starts(&rest, "quantize")) {
        if (!starts(&rest, "c")) fail(at, "expected 'quantize c FUNCTION'");
        l->quantize_c = word(&rest);
    } else if (starts(&rest, "sample"))
        parse_layer_sample(l, rest, at);
    else if (!starts(&rest, "for"))
        fail(at,
             "unknown keyword at '%.30s'; expected doc, cname, base, set, pyset, parameter, buffer, temporary, reset, "
             "build, forward, pyforward, check, need, dims, facts, quantize, repr, constants, onlyc, pymake, passing, "
             "keeping, factory, any_arguments, python, mixin, sample or for",
             s);
}

/* One layer from the stanza's lines; `{N}` in them stands for `n`. */
static void add_layer(const table_line *lines, int count, const char *file, const char *variable, const char *n) {
    layer *l = need(sizeof *l);
    layer **more = need(sizeof(layer *) * (size_t)(nlayers + 1));
    if (nlayers) memcpy(more, layers, sizeof(layer *) * (size_t)nlayers);
    layers = more;
    layers[nlayers++] = l;
    l->at = lines[0].at;
    l->file = (char *)file;
    for (int i = 0; i < count; i++) {
        char *s = variable ? with_variable(lines[i].text, variable, n) : lines[i].text;
        if (!i)
            parse_head(l, s);
        else
            parse_layer_line(l, s, lines[i].at);
    }
}

/* `for N 1 2 3` makes one layer for each. */
static void add_stanza(const table_line *lines, int count, const char *file) {
    for (int i = 1; i < count; i++) {
        const char *s = lines[i].text;
        if (!starts(&s, "for")) continue;
        char *variable = word(&s);
        for (s = spaces(s); *s; s = spaces(s)) add_layer(lines, count, file, variable, word(&s));
        return;
    }
    add_layer(lines, count, file, NULL, NULL);
}

void read_layers(const char *path) {
    int n;
    table_line *lines = read_lines(path, "layer", &n);
    const char *file = table_name(path);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && !lines[end].head;) end++;
        add_stanza(&lines[i], end - i, file);
    }
}

/* ---- what a layer has, its own and what it stands on ---- */
bool is_set(const layer *l, const char *name) {
    for (int i = 0; i < l->nsets; i++)
        if (!strcmp(l->set_name[i], name)) return true;
    return false;
}

bool sets_argument(const layer *l, int i) {
    const char *name = l->make.args[i].name;
    if (has_word(l->python_only, name) || tensor_of(l, name) || is_set(l, name)) return false;
    if (l->has_factory && (!strcmp(name, "device") || !strcmp(name, "dtype"))) return false;
    for (int k = 0; k < l->nbase; k++)
        if (uses_name(l->base_args[k], name)) return false; /* the base's business */
    if (l->parent && l->nbase < 0 && find_arg(&l->parent->make, name) >= 0) return false;
    return true;
}

int attributes_of(const layer *l, attribute *out) {
    int n = l->parent ? attributes_of(l->parent, out) : 0;
    for (int i = 0; i < l->make.nargs; i++)
        if (sets_argument(l, i)) out[n++] = (attribute){l->make.args[i].name, l->make.args[i].type};
    for (int i = 0; i < l->nsets; i++) out[n++] = (attribute){l->set_name[i], l->set_type[i]};
    return n;
}

const layer_tensor *tensor_of(const layer *l, const char *name) {
    for (; l; l = l->parent)
        for (int i = 0; i < l->ntensors; i++)
            if (!strcmp(l->tensors[i].name, name)) return &l->tensors[i];
    return NULL;
}
int constructor_arguments(const layer *l, const arg **out) {
    int n = 0;
    for (int i = 0; i < l->make.nargs; i++)
        if (!has_word(l->python_only, l->make.args[i].name)) out[n++] = &l->make.args[i];
    return n;
}
const layer *with_forward(const layer *l) {
    while (l && !l->forward && !l->forward_c) l = l->parent;
    return l;
}
const layer *with_repr(const layer *l) {
    while (l && !l->nreprs && !l->plain_repr) l = l->parent;
    return l;
}
const layer *with_reset(const layer *l) {
    while (l && !l->reset && !l->reset_c) l = l->parent;
    return l;
}

/* Replaces each {name} by what `piece` says of it. mark: 'r' for {name!r}, '?' for {name?}, 0 otherwise. */
char *fill_text(const layer *l, const char *s, char *(*piece)(const layer *, const char *name, char mark, location at),
                location at) {
    text t = {0};
    put(&t, "%s", "");
    while (*s) {
        if (*s != '{') {
            put(&t, "%c", *s++);
            continue;
        }
        const char *end = strchr(s, '}');
        if (!end) fail(at, "a '{' is not closed");
        char *name = copy_n(s + 1, (size_t)(end - s - 1));
        size_t n = strlen(name);
        char mark = 0;
        if (n && name[n - 1] == '?') {
            mark = '?';
            name[n - 1] = 0;
        } else if (n > 2 && !strcmp(name + n - 2, "!r")) {
            mark = 'r';
            name[n - 2] = 0;
        }
        put(&t, "%s", piece(l, name, mark, at));
        s = end + 1;
    }
    return t.s;
}

/* ---- checks that need the whole table ---- */
static void add_factory(layer *l) {
    bool needed = l->wants_factory || (l->parent && l->parent->has_factory);
    for (int i = 0; i < l->ntensors; i++) needed = needed || l->tensors[i].shape;
    if (!needed || find_arg(&l->make, "device") >= 0) return;
    op *o = &l->make;
    int at = o->nargs;
    if (l->keyword_only) at = find_arg(o, l->keyword_only);
    memmove(&o->args[at + 2], &o->args[at], sizeof(arg) * (size_t)(o->nargs - at));
    location none = l->at;
    o->args[at] = (arg){.name = "device",
                        .type = T_DEVICE,
                        .type_text = "device?",
                        .fallback_text = "None",
                        .fallback = parse_expr("None", none),
                        .fixed = C_TYPES};
    o->args[at + 1] = (arg){.name = "dtype",
                            .type = T_DTYPE,
                            .type_text = "dtype?",
                            .fallback_text = "None",
                            .fallback = parse_expr("None", none),
                            .fixed = C_TYPES};
    o->nargs += 2;
    l->has_factory = true;
}

static type type_of_kind(vkind k, location at) {
    switch (k) {
    case V_INT: return T_INT_OPT;
    case V_BOOL: return T_BOOL;
    case V_FLOAT: return T_FLOAT_OPT;
    case V_INTS: return T_INTS_OPT;
    case V_FLOATS: return T_FLOATS_OPT;
    case V_STR: return T_STR_OPT;
    case V_SCALAR: return T_SCALAR_OPT;
    case V_TENSOR: return T_TENSOR_OPT;
    default: fail(at, "an attribute is a number, a list of numbers, a text or a tensor");
    }
}

/* The types of `set` attributes, from their expressions. */
static void type_sets(layer *l) {
    text nowhere = {0};
    tensor_scope s = {.code = &nowhere, .indent = "", .o = &l->make, .failure = ""};
    attribute known[48];
    int n = l->parent ? attributes_of(l->parent, known) : 0;
    for (int i = 0; i < n; i++)
        bind_tensor(&s, known[i].name, (tvalue){.kind = kind_of_type(known[i].type), .c = known[i].name, .temp = -1});
    bind_arguments(&s, &l->make);
    for (int i = 0; i < l->nsets; i++) {
        tvalue v = tensor_expr(&s, l->set_value[i]);
        l->set_type[i] = type_of_kind(v.kind, l->at);
        bind_tensor(&s, l->set_name[i], v);
    }
}

/* forward becomes an operator: its inputs first, then every attribute, parameter and buffer that it names. */
static void make_forward(layer *l) {
    text signature = {0};
    put(&signature, "nn_forward_%s(", l->cname);
    for (int i = 0; i < l->inputs.nargs; i++)
        put(&signature, "%s%s %s", i ? ", " : "", l->inputs.args[i].type_text, l->inputs.args[i].name);
    attribute known[48];
    int n = attributes_of(l, known);
    for (int pass = 0; pass < 3; pass++) {
        int count = pass == 0 ? n : pass == 1 ? 64 : 1;
        for (int i = 0; i < count; i++) {
            char *name = NULL, *written = NULL;
            if (pass == 0) {
                name = known[i].name;
                written = (char *)types[known[i].type].name;
            } else if (pass == 2) {
                name = "training";
                written = "bool";
            } else {
                int k = i;
                const layer *owner = l;
                while (owner && k >= owner->ntensors) {
                    k -= owner->ntensors;
                    owner = owner->parent;
                }
                if (!owner) break;
                const layer_tensor *x = &owner->tensors[k];
                name = x->name;
                written = x->condition || x->from ? "Tensor?" : "Tensor";
            }
            bool used = false, again = find_arg(&l->inputs, name) >= 0;
            for (int b = 0; b < l->forward->n; b++) used = used || uses_name(l->forward->value[b], name);
            for (int j = 0; j < i && pass == 0; j++) again = again || !strcmp(known[j].name, name);
            if (used && !again) put(&signature, ", %s %s", written, name);
        }
    }
    put(&signature, ") -> Tensor");
    op *o = add_op(signature.s, "layers", l->at);
    l->forward_op = o;
    o->kind = K_COMPOSE;
    o->internal = true;
    o->hidden = true;
    o->names = "";
    o->doc = format("What a call of %s computes.", l->name);
    o->body = l->forward;
    o->kind_text = "";
    for (int i = 0; i < l->ninput_checks; i++) {
        char *message = copy_n(l->input_checks[i].text, strlen(l->input_checks[i].text));
        char *brace = strchr(message, '{'); /* what came is said in Python alone */
        while (brace && brace > message && !strchr(",(", *brace)) brace--;
        if (brace) *brace = 0;
        o->checks[o->nchecks++] = (check){l->input_checks[i].condition, l->input_checks[i].code, message};
    }
    for (int i = 0; i < n; i++) o->inplace = o->inplace || !strcmp(known[i].name, "inplace");
}

void check_layers(void) {
    for (int i = 0; i < nlayers; i++) {
        layer *l = layers[i];
        for (int j = 0; j < i; j++)
            if (!strcmp(layers[j]->name, l->name) || !strcmp(layers[j]->cname, l->cname))
                fail(l->at, "%s is defined twice; the other is at %s:%d", l->name, layers[j]->at.file,
                     layers[j]->at.line);
        if (!l->doc) fail(l->at, "%s: a doc line is missing", l->name);
        if (l->base && !(l->parent = find_layer(l->base)))
            fail(l->at, "%s: the base '%s' is not in the tables before it", l->name, l->base);
        add_factory(l);
        l->make.cname = format("nn_%s", l->cname);
        type_sets(l);
        if (l->forward) make_forward(l);
        if (!is_abstract(l) && !with_forward(l) && !l->by_hand && !l->mixin)
            fail(l->at, "%s: a forward line is missing", l->name);
    }
}

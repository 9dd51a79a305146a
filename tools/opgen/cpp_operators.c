/* The C++ face of operators. An operator `max.dim` is an overload of taper::max and of Tensor::max; defaults
 * are the table's. dtype and device at the end become one TensorOptions. */
#include "cpp.h"
#include "layer.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_none(const arg *a) {
    return a->fallback && a->fallback->kind == E_NAME && !strcmp(a->fallback->name, "None");
}
const char *option_member(const arg *a) { return strcmp(a->name, "size") ? a->name : "size_"; }

static char *base_name(const op *o) { return copy_n(o->name, strcspn(o->name, ".")); }

/* Words that C++ keeps for itself: operators of these names are reached as x.to(kFloat). */
static bool is_keyword(const char *name) {
    static const char *const words[] = {"bool", "char", "short", "int", "long", "float", "double"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(name, words[i])) return true;
    return false;
}

static const char *parameter_type(const arg *a) {
    switch (a->type) {
    case T_TENSOR: return "const Tensor &";
    case T_TENSOR_OPT: return "const OptionalTensor &";
    case T_TENSORS:
    case T_TENSORS_OPT: return "TensorList ";
    case T_OPERAND: return "const Operand &";
    case T_SCALAR: return "const Scalar &";
    case T_SCALAR_OPT: return "const std::optional<Scalar> &";
    case T_INT: return "int64_t ";
    case T_INT_OPT: return "std::optional<int64_t> ";
    case T_INTS:
    case T_BOOLS: return "IntArrayRef ";
    case T_INTS_OPT: return "OptionalIntArrayRef ";
    case T_FLOAT: return "double ";
    case T_FLOAT_OPT: return "std::optional<double> ";
    case T_FLOATS: return "ArrayRef<double> ";
    case T_FLOATS_OPT: return "OptionalArrayRef<double> ";
    case T_SCALARS:
    case T_SCALARS_OPT: return "ArrayRef<Scalar> ";
    case T_BOOL: return "bool ";
    case T_BOOL_OPT: return "std::optional<bool> ";
    case T_STR:
    case T_STR_OPT: return "const Text &";
    case T_DTYPE: return a->fallback ? "std::optional<ScalarType> " : "ScalarType ";
    case T_DEVICE: return a->fallback ? "std::optional<Device> " : "Device ";
    case T_LAYOUT: return "std::optional<MemoryFormat> ";
    default: return "std::optional<Generator> ";
    }
}

const char *cpp_field_type(const arg *a) {
    switch (a->type) {
    case T_TENSOR:
    case T_TENSOR_OPT:
    case T_OPERAND: return "Tensor";
    case T_TENSORS:
    case T_TENSORS_OPT: return "std::vector<Tensor>";
    case T_SCALAR: return "Scalar";
    case T_SCALAR_OPT: return "std::optional<Scalar>";
    case T_INT: return "int64_t";
    case T_INT_OPT: return "std::optional<int64_t>";
    case T_INTS: { /* int[2] */
        int dims = 0;
        return a->type_text && sscanf(a->type_text, "int[%d]", &dims) == 1 ? format("SizesOf<%d>", dims) : "Sizes";
    }
    case T_BOOLS: return "Sizes";
    case T_INTS_OPT: return "OptionalSizes";
    case T_FLOAT: return "double";
    case T_FLOAT_OPT: return "std::optional<double>";
    case T_FLOATS: return "std::vector<double>";
    case T_FLOATS_OPT: return "std::optional<std::vector<double>>";
    case T_SCALARS:
    case T_SCALARS_OPT: return "std::vector<Scalar>";
    case T_BOOL: return "bool";
    case T_BOOL_OPT: return "std::optional<bool>";
    case T_STR:
    case T_STR_OPT: return "Text";
    case T_DTYPE: return "std::optional<ScalarType>";
    case T_DEVICE: return "std::optional<Device>";
    case T_LAYOUT: return "std::optional<MemoryFormat>";
    default: return "std::optional<Generator>";
    }
}

char *cpp_default(const arg *a) {
    const expr *e = a->fallback;
    if (is_none(a)) {
        switch (a->type) {
        case T_TENSOR_OPT:
        case T_TENSORS:
        case T_TENSORS_OPT:
        case T_SCALARS_OPT:
        case T_STR_OPT: return "{}";
        default: return "std::nullopt";
        }
    }
    if (a->type == T_INTS || a->type == T_INTS_OPT || a->type == T_BOOLS) {
        if (e->kind == E_LIST && !e->n) return "{}";
        if (e->kind != E_LIST) return print_expr(e);
        text t = {0};
        put(&t, "{");
        for (int i = 0; i < e->n; i++) put(&t, "%s%s", i ? ", " : "", print_expr(e->arg[i]));
        put(&t, "}");
        return t.s;
    }
    if (a->type == T_DEVICE || a->type == T_DTYPE || a->type == T_LAYOUT || a->type == T_GENERATOR)
        return "std::nullopt";
    char *c = c_default(a);
    if (strstr(c, "INFINITY")) return strchr(c, '-') ? "-INFINITY" : "INFINITY";
    return a->type == T_SCALAR || a->type == T_SCALAR_OPT ? print_expr(e) : c;
}

/* By functions named after the type: choosing among overloads would take a compiler longer than all the rest. */
char *cpp_to_c(const arg *a, const char *value) {
    switch (a->type) {
    case T_TENSOR:
    case T_TENSOR_OPT: return format("%s.get()", value);
    case T_TENSORS:
    case T_TENSORS_OPT: return format("detail::c_tensors(%s)", value);
    case T_SCALAR: return format("%s.c()", value);
    case T_SCALAR_OPT: return format("detail::c_scalar(%s)", value);
    case T_INT_OPT: return format("detail::c_int(%s)", value);
    case T_INTS:
    case T_BOOLS: return format("detail::c_ints(%s)", value);
    case T_INTS_OPT: return format("detail::c_some_ints(%s)", value);
    case T_FLOAT_OPT: return format("detail::c_float(%s)", value);
    case T_FLOATS: return format("detail::c_floats(%s)", value);
    case T_FLOATS_OPT: return format("detail::c_some_floats(%s)", value);
    case T_SCALARS:
    case T_SCALARS_OPT: return format("detail::c_scalars(%s)", value);
    case T_BOOL_OPT: return format("detail::c_bool(%s)", value);
    case T_STR:
    case T_STR_OPT: return format("%s.c_str()", value);
    case T_DTYPE: return format("detail::c_dtype(%s)", value);
    case T_DEVICE: return format("detail::c_device(%s)", value);
    case T_LAYOUT: return format("detail::c_layout(%s)", value);
    case T_GENERATOR: return format("detail::c_generator(%s)", value);
    default: return (char *)value;
    }
}

/* ---- what an overload takes ---- */
typedef struct face {
    const op *o;
    form f;
    bool method;
    bool drop_default; /* the first default is none, since another overload takes the call without it */
    bool generator;    /* with the generator, before the options; otherwise without it */
} face;

static int self_of(const op *o) {
    int i = find_arg(o, "self");
    return i < 0 ? 0 : i;
}
static int options_at(const op *o) { /* the argument `dtype` where `device` follows: one TensorOptions */
    for (int i = 0; i + 1 < o->nargs; i++)
        if (o->args[i].type == T_DTYPE && o->args[i].fallback && o->args[i + 1].type == T_DEVICE) return i;
    return -1;
}
static int generator_at(const op *o) {
    for (int i = 0; i < o->nargs; i++)
        if (o->args[i].type == T_GENERATOR) return i;
    return -1;
}
static bool splits_generator(const op *o) { return options_at(o) >= 0 && generator_at(o) >= 0; }

static bool has_form(const op *o, form f, bool method) {
    if (o->internal || o->hidden) return false;
    if (f == FORM_INPLACE) return o->inplace;
    if (f == FORM_OUT) return o->out && !method;
    if (method) return o->method;
    return o->kind != K_NATIVE_INPLACE || !o->names || strcmp(o->names, "Tensor");
}

/* Does an overload of the same name, before this one, take a call with the required arguments alone? */
static bool required_clash(const op *o, form f, bool method) {
    char *mine = base_name(o);
    for (int k = 0; k < nops; k++) {
        const op *p = ops[k];
        if (p == o) {
            if (strchr(o->name, '.')) continue; /* the plain operator comes first, wherever it stands */
            return false;
        }
        if (!has_form(p, f, method) || strcmp(base_name(p), mine)) continue;
        bool before = !strchr(p->name, '.') || p->at.line < o->at.line;
        if (!before) continue;
        bool same = true;
        int i = 0;
        for (; same; i++) {
            bool end_o = i >= o->nargs || o->args[i].fallback, end_p = i >= p->nargs || p->args[i].fallback;
            if (end_o || end_p) {
                same = end_o && end_p;
                break;
            }
            same = o->args[i].type == p->args[i].type;
        }
        if (same) return true;
    }
    return false;
}

static bool merged(const face *x, int i) { /* is argument i part of the TensorOptions, or left out? */
    int at = options_at(x->o);
    if (x->f == FORM_INPLACE) return false;
    return at >= 0 && (i == at + 1 || (i == generator_at(x->o) && !x->generator));
}

static void put_parameters(text *t, const face *x, bool defaults) {
    const op *o = x->o;
    int n = 0, at = x->f == FORM_INPLACE ? -1 : options_at(o), first = -1;
    bool seen_default = false;
    if (x->f == FORM_OUT) {
        put(t, "const Tensor &out");
        n++;
    }
    for (int i = 0; i < o->nargs; i++) {
        const arg *a = &o->args[i];
        if (x->method && i == self_of(o)) continue;
        if (merged(x, i)) continue;
        if (a->fallback && first < 0) first = i;
        if (i == at) {
            put(t, "%sconst TensorOptions &options%s", n++ ? ", " : "", defaults ? " = {}" : "");
            seen_default = true;
            continue;
        }
        const char *type =
            x->f == FORM_INPLACE && i == self_of(o) && a->type == T_OPERAND ? "const Tensor &" : parameter_type(a);
        put(t, "%s%s%s", n++ ? ", " : "", type, a->name);
        bool given = !a->fallback || (x->drop_default && i == first && !seen_default) ||
                     (a->type == T_GENERATOR && at >= 0 && x->generator);
        if (defaults && !given) {
            put(t, " = %s", cpp_default(a));
            seen_default = true;
        }
    }
}

static char *passed(const face *x, int i) {
    const op *o = x->o;
    const arg *a = &o->args[i];
    bool self = i == self_of(o);
    if (self && x->method) return a->type == T_OPERAND && x->f != FORM_INPLACE ? "tp_operand_tensor(get())" : "get()";
    if (self && x->f == FORM_INPLACE) return format("%s.get()", a->name);
    int at = x->f == FORM_INPLACE ? -1 : options_at(o);
    if (at >= 0 && i == at) return "options.c_dtype()";
    if (at >= 0 && i == at + 1) return "options.c_device()";
    if (merged(x, i)) return "nullptr";
    return cpp_to_c(a, a->name);
}

static bool has_options(const op *o) {
    for (int i = 0; i < o->nargs; i++)
        if (o->args[i].fallback) return true;
    return false;
}
static bool is_with(const op *o, form f) { /* header.c's rule for the C function's name */
    for (int i = 0; i < o->nargs; i++) {
        type y = f == FORM_INPLACE && i == 0 ? T_TENSOR : o->args[i].type;
        if (o->args[i].fallback || y == T_OPERAND || y == T_SCALAR) return true;
    }
    return false;
}

static char *cpp_result(const op *o, form f) {
    if (f != FORM_PLAIN) return "Tensor &";
    if (o->plain)
        return !strcmp(o->plain_type, "bool")    ? "bool"
               : !strcmp(o->plain_type, "int")   ? "int64_t"
               : !strcmp(o->plain_type, "float") ? "double"
                                                 : "Scalar";
    if (o->nresults == 1) return o->results[0].type == T_TENSORS ? "std::vector<Tensor>" : "Tensor";
    text t = {0};
    put(&t, "std::tuple<");
    for (int i = 0; i < o->nresults; i++) put(&t, "%sTensor", i ? ", " : "");
    put(&t, ">");
    return t.s;
}

static void put_body(text *t, const face *x) {
    const op *o = x->o;
    text call = {0};
    put(&call, "tp_%s%s%s(", o->cname,
        x->f == FORM_INPLACE ? "_"
        : x->f == FORM_OUT   ? "_out"
                             : "",
        is_with(o, x->f) ? "_with" : "");
    int n = 0;
    if (x->f == FORM_OUT) {
        put(&call, "out.get()");
        n++;
    }
    for (int i = 0; i < o->nargs && !o->args[i].fallback; i++) put(&call, "%s%s", n++ ? ", " : "", passed(x, i));
    put(t, " {\n");
    if (has_options(o)) {
        put(t, "    tp_%s_options o_;\n", o->cname);
        for (int i = 0; i < o->nargs; i++)
            if (o->args[i].fallback) put(t, "    o_.%s = %s;\n", option_member(&o->args[i]), passed(x, i));
        put(&call, "%s&o_", n ? ", " : "");
    }
    put(&call, ")");
    if (x->f == FORM_INPLACE)
        put(t, "    return detail::written(%s, %s);\n", call.s, x->method ? "*this" : x->o->args[self_of(x->o)].name);
    else if (x->f == FORM_OUT)
        put(t, "    return detail::written(%s, out);\n", call.s);
    else if (o->plain)
        put(t, "    return detail::plain(%s);\n", call.s);
    else if (o->nresults > 1) {
        put(t, "    const tp_%s_result r_ = %s;\n    return detail::several(", o->cname, call.s);
        for (int i = 0; i < o->nresults; i++) put(t, "%sr_.%s", i ? ", " : "", o->results[i].name);
        put(t, ");\n");
    } else if (o->results[0].type == T_TENSORS)
        put(t, "    return detail::vector(%s);\n", call.s);
    else if (options_at(o) >= 0)
        put(t, "    return detail::made(%s, options);\n", call.s);
    else
        put(t, "    return detail::take(%s);\n", call.s);
    put(t, "}\n");
}

/* eye(3, kDouble), hann_window(4, options): LibTorch's creators take options behind each of the arguments that may be
 * left out. */
static void put_earlier_options(text *t, const face *x, const char *name) {
    const op *o = x->o;
    const int at = options_at(o);
    bool required = x->drop_default; /* another overload takes the call without the first of them */
    for (int given = 0; given < at; given++) {
        if (o->args[given].fallback && required) {
            required = false;
            continue;
        }
        if (!o->args[given].fallback || o->args[given].type == T_GENERATOR) continue;
        put(t, "inline %s %s(", cpp_result(o, FORM_PLAIN), name);
        for (int i = 0; i < given; i++) put(t, "%s%s, ", parameter_type(&o->args[i]), o->args[i].name);
        put(t, "const TensorOptions &options) {\n    return %s(", name);
        for (int i = 0; i < at; i++)
            if (o->args[i].type != T_GENERATOR) put(t, "%s, ", i < given ? o->args[i].name : cpp_default(&o->args[i]));
        put(t, "options);\n}\n");
    }
}

static void put_face(text *t, const op *o, form f, bool method, const char *name) {
    face x = {.o = o, .f = f, .method = method, .drop_default = required_clash(o, f, method)};
    for (int pass = 0; pass < 1 + (f != FORM_INPLACE && splits_generator(o)); pass++) {
        x.generator = pass;
        put(t, "%s%s %s%s(", method ? "" : "inline ", cpp_result(o, f), name,
            f == FORM_INPLACE ? "_"
            : f == FORM_OUT   ? "_out"
                              : "");
        put_parameters(t, &x, true);
        put(t, ")%s", method ? " const" : "");
        put_body(t, &x);
    }
    if (f == FORM_PLAIN && !method) put_earlier_options(t, &x, name);
}

/* The body of class Tensor: one method for each operator that has one. */
text write_cpp_methods(void) {
    text t = {0};
    put(&t, "/* Tensor's methods, inside the class. Written by opgen from tables/operators: do not edit. */\n");
    for (int i = 0; i < nops; i++) {
        const op *o = ops[i];
        char *name = base_name(o);
        if (is_keyword(name)) continue;
        if (has_form(o, FORM_PLAIN, true)) put_face(&t, o, FORM_PLAIN, true, name);
        if (has_form(o, FORM_INPLACE, true)) put_face(&t, o, FORM_INPLACE, true, name);
    }
    return t;
}

static bool in_namespace(const op *o, const char *space) {
    return o->names && has_word(format(" %s ", o->names), space);
}

text write_cpp_operators(void) {
    text t = {0};
    put(&t, "/* Operators as functions. Written by opgen from tables/operators: do not edit. */\n#pragma once\n"
            "namespace taper {\n");
    for (int i = 0; i < nops; i++) {
        const op *o = ops[i];
        char *name = base_name(o);
        if (is_keyword(name)) continue;
        if (has_form(o, FORM_PLAIN, false) && (!o->names || strcmp(o->names, "Tensor")))
            put_face(&t, o, FORM_PLAIN, false, name);
        if (has_form(o, FORM_INPLACE, false)) put_face(&t, o, FORM_INPLACE, false, name);
        if (has_form(o, FORM_OUT, false)) put_face(&t, o, FORM_OUT, false, name);
    }
    static const char *const spaces_[] = {"linalg", "fft", "special"};
    for (int s = 0; s < 3; s++) {
        put(&t, "\nnamespace %s {\n", spaces_[s]);
        char *prefix = format("%s_", spaces_[s]);
        for (int i = 0; i < nops; i++) {
            const op *o = ops[i];
            char *name = base_name(o);
            if (strncmp(name, prefix, strlen(prefix)) || !in_namespace(o, spaces_[s])) continue;
            put_face(&t, o, FORM_PLAIN, false, name + strlen(prefix));
        }
        put(&t, "} // namespace %s\n", spaces_[s]);
    }
    put(&t, "} // namespace taper\n");
    return t;
}

/* ---- option structs ---- */
char *cpp_class_name(const char *snake) {
    for (int i = 0; i < nlayers; i++) { /* relu is ReLU, mse_loss MSELoss: the layer's own spelling */
        const char *s = snake, *l = layers[i]->name;
        for (; *s && *l; s++) {
            if (*s == '_') continue;
            if (tolower((unsigned char)*l) != *s) break;
            l++;
        }
        if (!*s && !*l) return layers[i]->name;
        if (!*s && !strcmp(l, "Loss")) /* kl_div: KLDiv */
            return copy_n(layers[i]->name, (size_t)(l - layers[i]->name));
    }
    text t = {0};
    bool capital = true;
    for (const char *s = snake; *s; s++) {
        if (*s == '_') {
            capital = true;
            continue;
        }
        put(&t, "%c", capital ? toupper((unsigned char)*s) : *s);
        capital = false;
    }
    return t.s;
}

/* A program gives softmax(x, 1) or L1Loss(kSum) where options are expected: a number or a choice becomes options in one
 * step, as C++ takes no second one. */
static void write_conversion(text *t, const char *name, const arg *only) {
    const char *type = cpp_field_type(only), *taken = NULL;
    if (!strcmp(type, "Text")) taken = "const Choice &";
    if (!strcmp(type, "std::optional<int64_t>")) taken = "int64_t ";
    if (!strcmp(type, "std::optional<double>")) taken = "double ";
    if (taken) put(t, "    %s(%s%s) : %s_(%s) {}\n", name, taken, only->name, only->name, only->name);
}

/* Is it the layer of that function? Its forward calls the function, or, where forward is C by hand, has its name. */
static bool is_layer_of(const layer *l, const op *o) {
    const layer *f = with_forward(l);
    if (f->forward_c) return !strcmp(cpp_class_name(base_name(o)), l->name);
    const expr *value = f->forward->value[f->forward->n - 1];
    return value->kind == E_CALL && !strcmp(value->name, base_name(o));
}

/* The layer's option o.NAME_ as the function takes it, or NULL. */
static char *as_function_takes(const arg *wanted, const arg *given) {
    char *value = format("o.%s_", given->name);
    if (wanted->type == T_INTS && given->type == T_INTS_OPT) return format("%s.value_or(Sizes())", value);
    if (wanted->type == T_FLOAT && given->type == T_SCALAR) return format("%s.toDouble()", value);
    bool number = wanted->type == T_SCALAR && (given->type == T_FLOAT || given->type == T_INT);
    return number || !strcmp(cpp_field_type(wanted), cpp_field_type(given)) ? value : NULL;
}

/* In LibTorch a function's options are its layer's: cross_entropy takes CrossEntropyLossOptions. Where the layer says
 * something else by the same name (BatchNorm's weight) there is no such constructor. */
static void write_from_layer(text *t, const char *name, const layer *l, int n, const arg *const *args) {
    const arg *given[24];
    int ngiven = constructor_arguments(l, given), taken = 0;
    text inits = {0};
    for (int i = 0; i < n; i++) {
        const arg *same = NULL;
        for (int k = 0; k < ngiven; k++)
            if (!strcmp(given[k]->name, args[i]->name)) same = given[k];
        char *value = same ? as_function_takes(args[i], same) : NULL;
        if (value)
            put(&inits, "%s%s_(%s)", taken++ ? ", " : " : ", args[i]->name, value);
        else if (same || !args[i]->fallback)
            return;
    }
    /* A template takes these options alone, and not what would become them. */
    if (taken)
        put(t,
            "    template <class O, std::enable_if_t<std::is_same_v<O, nn::%sOptions>, int> = 0>\n    %s(const O &o)%s "
            "{}\n",
            l->name, name, inits.s);
}

/* TransformerOptions(d_model, nhead, ...): the first n arguments are whole numbers with defaults. */
static bool leads_with_ints(int n, const arg *const *args) {
    bool ints = true;
    for (int i = 0; i < n; i++) ints = ints && args[i]->fallback && args[i]->type == T_INT;
    return ints;
}

void write_cpp_options(text *t, const char *name, int n, const arg *const *args, const char *texts,
                       const op *function) {
    put(t, "struct %s {\n", name);
    text parameters = {0}, inits = {0};
    put(&parameters, "%s", "");
    put(&inits, "%s", "");
    int required = 0;
    for (int i = 0; i < n; i++) required += !args[i]->fallback;
    const arg *only = args[0];
    for (int i = 0, k = 0; i < n; i++) {
        if (args[i]->fallback && (required || i) && !(k == i && leads_with_ints(i + 1, args))) continue;
        only = args[i];
        put(&parameters, "%s%s %s", k ? ", " : "", cpp_field_type(args[i]), args[i]->name);
        if (!required) put(&parameters, " = %s", cpp_default(args[i]));
        put(&inits, "%s%s_(%s)", k++ ? ", " : " : ", args[i]->name, args[i]->name);
    }
    put(t, "    %s(%s)%s {}\n", name, parameters.s, inits.s);
    if (required < 2) write_conversion(t, name, only);
    for (int i = 0; function && i < nlayers; i++)
        if (in_c(layers[i]) && is_layer_of(layers[i], function)) write_from_layer(t, name, layers[i], n, args);
    /* LayerNormOptions({8}): without this the braces might as well hold other options. */
    for (int i = 0; i < n; i++)
        if (required == 1 && !args[i]->fallback && args[i]->type == T_INTS)
            put(t, "    %s(std::initializer_list<int64_t> %s) : %s_(%s) {}\n", name, args[i]->name, args[i]->name,
                args[i]->name);
    for (int i = 0; i < n; i++) {
        const char *type = cpp_field_type(args[i]), *field = args[i]->name;
        put(t,
            "    %s &%s(%s new_value) {\n        %s_ = new_value;\n        return *this;\n    }\n"
            "    const %s &%s() const { return %s_; }\n    %s &%s() { return %s_; }\n",
            name, field, type, field, type, field, field, type, field, field);
        if (texts && has_word(texts, field))
            put(t,
                "    %s &%s(const Choice &new_value) {\n        pad_to_ = new_value;\n        return *this;\n    }\n",
                name, field);
    }
    for (int i = 0; i < n; i++) {
        put(t, "    %s %s_", cpp_field_type(args[i]), args[i]->name);
        if (args[i]->fallback) put(t, " = %s", cpp_default(args[i]));
        put(t, ";\n");
    }
    put(t, "};\n");
}

/* conv2d.padding takes "same" where conv2d takes numbers: the argument that the overload is called by, or NULL. */
static const char *text_instead(const op *o) {
    size_t n = strlen(o->name);
    for (int i = 0; i < nops; i++) {
        const char *name = ops[i]->name;
        if (strncmp(name, o->name, n) || name[n] != '.') continue;
        int here = find_arg(o, name + n + 1), there = find_arg(ops[i], name + n + 1);
        if (here >= 0 && there >= 0 && o->args[here].type == T_INTS && ops[i]->args[there].type == T_STR)
            return o->args[here].name;
    }
    return NULL;
}

/* nn::functional: tensors by position, everything else in a struct of options. */
static void write_functional(text *t, const op *o) {
    const arg *tensors[24], *others[24];
    int nt = 0, no = 0;
    for (int i = 0; i < o->nargs; i++) {
        bool tensor = (is_tensor(o->args[i].type) || o->args[i].type == T_TENSORS) && !o->args[i].fallback;
        if (tensor)
            tensors[nt++] = &o->args[i];
        else
            others[no++] = &o->args[i];
    }
    char *name = base_name(o), *options = format("%sFuncOptions", cpp_class_name(name));
    bool all_default = true;
    for (int i = 0; i < no; i++) all_default = all_default && others[i]->fallback;
    arg inplace = {.name = "inplace",
                   .type = T_BOOL,
                   .fallback = parse_expr("false", o->at),
                   .fallback_text = "false",
                   .type_text = "bool"};
    if (o->inplace && find_arg(o, "inplace") < 0) {
        for (int i = no; i > 0 && all_default && !no; i--) others[i] = others[i - 1];
        others[no++] = &inplace;
    }
    arg pad_to = {.name = "pad_to",
                  .type = T_STR_OPT,
                  .fallback = parse_expr("None", o->at),
                  .fallback_text = "None",
                  .type_text = "str?"};
    const char *texted = text_instead(o);
    if (texted) others[no++] = &pad_to;
    if (no) write_cpp_options(t, options, no, others, texted ? format(" %s ", texted) : NULL, o);
    put(t, "inline %s %s(", cpp_result(o, FORM_PLAIN), name);
    for (int i = 0; i < nt; i++) put(t, "%s%s%s", i ? ", " : "", parameter_type(tensors[i]), tensors[i]->name);
    if (no) put(t, "%sconst %s &options%s", nt ? ", " : "", options, all_default ? " = {}" : "");
    put(t, ") {\n");
    text call = {0}, with_text = {0};
    for (int i = 0; i < o->nargs; i++) {
        bool positional = false;
        for (int k = 0; k < nt; k++) positional = positional || tensors[k] == &o->args[i];
        char *value = format("%s%s%s", positional ? "" : "options.", o->args[i].name, positional ? "" : "_");
        put(&call, "%s%s", i ? ", " : "", value);
        bool is_text = texted && !strcmp(o->args[i].name, texted);
        put(&with_text, "%s%s", i ? ", " : "", is_text ? "options.pad_to_" : value);
    }
    if (texted) put(t, "    if (options.pad_to_.given()) return taper::%s(%s);\n", name, with_text.s);
    if (o->inplace && find_arg(o, "inplace") < 0)
        put(t, "    if (options.inplace_) return taper::%s_(%s);\n", name, call.s);
    if (options_at(o) >= 0) put(t, "    (void)options;\n");
    put(t, "    return taper::%s(%s);\n}\n", name, call.s);
}

text write_cpp_functional(void) {
    text t = {0};
    put(&t, "/* nn::functional. Written by opgen from tables/operators: do not edit. */\n#pragma once\n"
            "namespace taper {\nnamespace nn {\nnamespace functional {\n");
    for (int i = 0; i < nops; i++) {
        const op *o = ops[i];
        if (o->internal || o->hidden || !in_namespace(o, "nn.functional") || strchr(o->name, '.')) continue;
        if (o->nresults > 1 || is_keyword(base_name(o)) || !has_form(o, FORM_PLAIN, false)) continue;
        write_functional(&t, o);
    }
    put(&t, "} // namespace functional\n} // namespace nn\n} // namespace taper\n");
    return t;
}

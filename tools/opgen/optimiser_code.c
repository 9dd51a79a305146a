/* Code of optimisers: per optimiser one kernel per compute type and combination of flags, which updates a block of a
 * parameter and of its state; and the table with everything that is worked out once per parameter or group, in double.
 */
#include "optimiser.h"
#include <string.h>

enum { FIRST_STATE = 2 }; /* a kernel's arguments: the parameter, its gradient, then the state that is not scalar */

static bool is_scalar(const slot *s) { return !strcmp(s->shape, "scalar"); }

static bool block_uses(const block *b, const char *name) {
    for (int i = 0; i < b->n; i++)
        if (uses_name(b->value[i], name)) return true;
    return false;
}

static int find_slot(const optimiser *o, const char *name) {
    for (int i = 0; i < o->nslots; i++)
        if (!strcmp(o->slots[i].name, name)) return i;
    return -1;
}

/* Names of options, as values that are read from the array `o`. */
static void bind_options(text *t, const optimiser *o, const block *used_by, ctype c, scope *names) {
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        for (int k = 0; k < p->count; k++) {
            if (used_by && !block_uses(used_by, p->part[k])) continue;
            bool truth = p->kind == O_BOOL;
            if (truth)
                put(t, "    const uint8_t o_%s = o[%d] != 0;\n", p->part[k], p->at + k);
            else
                put(t, "    const %s o_%s = (%s)o[%d];\n", ctype_c[c], p->part[k], ctype_c[c], p->at + k);
            bind(names, p->part[k], (value){format("o_%s", p->part[k]), truth ? C_B8 : c, false});
        }
    }
}

/* ---- what is worked out per parameter, in double ---- */

/* The names that the scalar lines assign, each once, with the type of the last value. */
typedef struct scalars {
    int n;
    char *name[32];
    ctype type[32];
} scalars;

static int scalar_index(scalars *s, char *name) {
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->name[i], name)) return i;
    s->name[s->n] = name;
    return s->n++;
}

/* The function that computes them: state in and out through `s`, everything named through `out`. */
static scalars scalar_function(text *t, const optimiser *o) {
    scalars all = {0};
    scope names = {0};
    put(t,
        "static void scalars_%s(const double *o, double *s, double *out, bool wide) {\n    (void)o, (void)s, "
        "(void)wide;\n",
        o->cname);
    bind_options(t, o, o->scalar, C_F64, &names);
    int at = 0;
    for (int i = 0; i < o->nslots; i++)
        if (is_scalar(&o->slots[i])) bind(&names, o->slots[i].name, (value){format("s[%d]", at++), C_F64, false});
    element_out e = {.code = t, .indent = "    ", .compute = C_F64};
    for (int i = 0; i < o->scalar->n; i++) {
        if (!o->scalar->name[i] || (o->scalar->type[i] && strcmp(o->scalar->type[i], "state")))
            fail(o->scalar->at, "a scalar line is a list of 'name = value' or 'name:state = value'");
        value v = element_expr(&e, o->scalar->value[i], &names);
        int k = find_slot(o, o->scalar->name[i]);
        if (k >= 0 && !is_scalar(&o->slots[k]))
            fail(o->scalar->at, "'%s' is state per element: an update line sets it", o->scalar->name[i]);
        char *text = cast_value(v, v.t == C_B8 ? C_B8 : C_F64, o->scalar->at);
        if (k >= 0 || o->scalar->type[i])
            text = format("tpi_scalar_state(%s, wide)", text); /* as its tensor will hold it */
        ctype type = v.t == C_B8 ? C_B8 : C_F64;
        put(t, "    const %s n%d = %s;\n", ctype_c[type], i, text);
        bind(&names, o->scalar->name[i], (value){format("n%d", i), type, false});
        all.type[scalar_index(&all, o->scalar->name[i])] = type;
    }
    for (int i = 0; i < names.n; i++)
        for (int k = 0; k < all.n; k++)
            if (!strcmp(names.name[i], all.name[k])) put(t, "    out[%d] = %s;\n", k, names.v[i].c);
    at = 0;
    for (int i = 0; i < o->nslots; i++) {
        if (!is_scalar(&o->slots[i])) continue;
        for (int k = 0; k < all.n; k++)
            if (!strcmp(all.name[k], o->slots[i].name)) put(t, "    s[%d] = out[%d];\n", at, k);
        at++;
    }
    put(t, "}\n");
    return all;
}

/* ---- kernels ---- */

/* Options and scalars that the update reads, as constants of the compute type; flags as literals. */
static void bind_settings(text *t, const optimiser *o, const scalars *computed, ctype c, int flags, scope *names) {
    bind_options(t, o, o->update, c, names);
    for (int k = 0; k < computed->n; k++) {
        if (!block_uses(o->update, computed->name[k])) continue;
        bool truth = computed->type[k] == C_B8;
        if (truth)
            put(t, "    const uint8_t s_%s = s[%d] != 0;\n", computed->name[k], k);
        else
            put(t, "    const %s s_%s = (%s)s[%d];\n", ctype_c[c], computed->name[k], ctype_c[c], k);
        bind(names, computed->name[k], (value){format("s_%s", computed->name[k]), truth ? C_B8 : c, false});
    }
    put(t, "    const uint8_t is_first = first;\n");
    bind(names, "first", (value){"is_first", C_B8, false});
    for (int k = 0; k < o->nflags; k++) bind(names, o->flag[k], (value){flags >> k & 1 ? "1" : "0", C_I64, true});
}

static bool is_kept(const slot *p, int flags) { return p->flag < 0 || flags >> p->flag & 1; }

/* One element: `element` is printed with the number of an argument and gives where it is. */
static void update_element(text *t, const optimiser *o, ctype c, int flags, const char *indent, const char *element,
                           scope *names) {
    put(t, "%sconst %s v_param = %s, v_grad = %s;\n", indent, ctype_c[c], format(element, 0), format(element, 1));
    bind(names, "param", (value){"v_param", c, false});
    bind(names, "grad", (value){"v_grad", c, false});
    int at = FIRST_STATE, argument_of[16];
    for (int i = 0; i < o->nslots; i++) {
        const slot *p = &o->slots[i];
        if (is_scalar(p)) continue;
        argument_of[i] = at++;
        put(t, "%sconst %s v_%s = %s;\n", indent, ctype_c[c], p->name,
            is_kept(p, flags) ? format(element, argument_of[i]) : "0");
        bind(names, p->name, (value){format("v_%s", p->name), c, false});
    }
    element_out e = {.code = t, .indent = indent, .compute = c};
    for (int i = 0; i < o->update->n; i++) {
        if (!o->update->name[i]) fail(o->update->at, "an update line is a list of 'name = value'");
        bind(names, o->update->name[i], element_expr(&e, o->update->value[i], names));
    }
    for (int i = 0; i < names->n; i++) {
        int k = find_slot(o, names->name[i]);
        bool kept = k >= 0 && !is_scalar(&o->slots[k]) && is_kept(&o->slots[k], flags);
        if (!kept && strcmp(names->name[i], "param")) continue;
        put(t, "%s%s = %s;\n", indent, format(element, kept ? argument_of[k] : 0),
            cast_value(names->v[i], c, o->update->at));
    }
}

static void update_kernel(text *t, const optimiser *o, const scalars *computed, ctype c, int flags) {
    put(t,
        "static void update_%s_%d_%s(int64_t n, char *const *arg, const double *o, const double *s, bool first) {\n    "
        "(void)o, (void)s;\n",
        o->cname, flags, ctype_suffix[c]);
    scope names = {0};
    bind_settings(t, o, computed, c, flags, &names);
    int nargs = FIRST_STATE;
    for (int i = 0; i < o->nslots; i++) nargs += !is_scalar(&o->slots[i]);
    for (int k = 0; k < nargs; k++)
        put(t, "    %s%s *a%d = (%s%s *)arg[%d];\n", k == 1 ? "const " : "", ctype_c[c], k, k == 1 ? "const " : "",
            ctype_c[c], k);
    put(t, "#pragma omp simd\n    for (int64_t i = 0; i < n; i++) {\n");
    update_element(t, o, c, flags, "        ", "a%d[i]", &names);
    put(t, "    }\n}\n");
}

/* The same for devices that compile text: one element, its numbers in v[], and the settings in the compute type. */
static void update_text(text *t, const optimiser *o, const scalars *computed, ctype c, int flags) {
    text code = {0};
    scope names = {0};
    put(&code, "#include \"element.h\"\nINLINE void op_update(A *v, const A *o, const A *s, const uint8_t first) {\n");
    bind_settings(&code, o, computed, c, flags, &names);
    update_element(&code, o, c, flags, "    ", "v[%d]", &names);
    put(&code, "}\n");
    put(t, "    ");
    put_literal(t, code.s);
    put(t, ",\n");
}

static scalars scalars_of(const optimiser *o) { /* their names and types */
    text unused = {0};
    return o->scalar ? scalar_function(&unused, o) : (scalars){0};
}

text write_updates(const char *family) {
    text t = {0};
    put(&t,
        "/* Updates of tables/optimisers/%s.opt. Written by opgen: do not edit. */\n"
        "#pragma GCC diagnostic ignored \"-Wunused-variable\" /* not every combination of flags reads everything */\n"
        "#include \"device/cpu/element.h\"\n#include \"device/cpu/isa.h\"\n#include \"optim/update.h\"\n\n",
        family);
    for (int i = 0; i < noptimisers; i++) {
        const optimiser *o = optimisers[i];
        if (strcmp(o->family, family) || !o->update || o->like) continue;
        scalars computed = scalars_of(o);
        for (int flags = 0; flags < 1 << o->nflags; flags++)
            for (int c = C_F32; c <= C_F64; c++) update_kernel(&t, o, &computed, (ctype)c, flags);
        put(&t, "const tpi_update_fn TPI_ISA(tpu_%s)[] = {", o->cname);
        for (int flags = 0; flags < 1 << o->nflags; flags++)
            put(&t, "update_%s_%d_f32, update_%s_%d_f64, ", o->cname, flags, o->cname, flags);
        put(&t, "};\n\n");
    }
    return t;
}

text write_update_texts(void) {
    text t = {0};
    put(&t, "/* Kernel text of the optimisers' updates for devices that compile it. Written by opgen: do not edit. "
            "*/\n#include \"optim/update.h\"\n\n");
    for (int i = 0; i < noptimisers; i++) {
        const optimiser *o = optimisers[i];
        if (!o->update || o->like) continue;
        scalars computed = scalars_of(o);
        put(&t, "const char *const tpt_update_%s[] = { /* [2 * flags + is double] */\n", o->cname);
        for (int flags = 0; flags < 1 << o->nflags; flags++)
            for (int c = C_F32; c <= C_F64; c++) update_text(&t, o, &computed, (ctype)c, flags);
        put(&t, "};\n\n");
    }
    return t;
}

/* ---- the table ---- */
static void value_function(text *t, const optimiser *o, const char *head, int n, expr *const *values,
                           const char *each) {
    put(t, "%s", head);
    scope names = {0};
    bind_options(t, o, NULL, C_F64, &names);
    element_out e = {.code = t, .indent = "    ", .compute = C_F64};
    for (int i = 0; i < n; i++) put(t, each, i, cast_value(element_expr(&e, values[i], &names), C_F64, o->at));
}

static void small_functions(text *t, const optimiser *o) {
    expr *values[16];
    for (int i = 0; i < o->nslots; i++) values[i] = o->slots[i].start;
    value_function(
        t, o, format("static void starts_%s(const double *o, double *start) {\n    (void)o, (void)start;\n", o->cname),
        o->nslots, values, "    start[%d] = %s;\n");
    put(t, "}\n");
    for (int i = 0; i < o->nchecks; i++) values[i] = o->checks[i].condition;
    value_function(t, o, format("static int check_%s(const double *o) {\n    (void)o;\n", o->cname), o->nchecks, values,
                   "    const bool ok%d = %s != 0;\n");
    for (int i = 0; i < o->nchecks; i++) put(t, "    if (!ok%d) return %d;\n", i, i);
    put(t, "    return -1;\n}\n");
    value_function(
        t, o, format("static unsigned flags_%s(const double *o) {\n    unsigned flags = 0;\n    (void)o;\n", o->cname),
        o->nflags, o->flag_value, "    flags |= (unsigned)(%2$s != 0) << %1$d;\n");
    put(t, "    return flags;\n}\n");
}

static double number_of(const expr *e) {
    return e->kind == E_UNARY   ? -number_of(e->arg[0])
           : e->kind == E_FLOAT ? e->f
           : e->kind == E_INT   ? (double)e->i
                                : !strcmp(e->name, "true");
}

char *python_value(const expr *e) {
    if (e->kind == E_UNARY) return format("-%s", python_value(e->arg[0]));
    if (e->kind == E_NAME) return !strcmp(e->name, "true") ? "True" : !strcmp(e->name, "false") ? "False" : e->name;
    if (e->kind == E_STRING) return format("'%s'", e->name);
    if (e->kind != E_LIST) return e->name;
    text t = {0};
    for (int i = 0; i < e->n; i++) put(&t, "%s%s", i ? ", " : "(", python_value(e->arg[i]));
    put(&t, ")");
    return t.s;
}

static void write_option_rows(text *t, const optimiser *o) {
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        if (p->nchoices) {
            put(t, "static const char *const choices_%s_%s[] = {", o->cname, p->name);
            for (int k = 0; k < p->nchoices; k++) put(t, "\"%s\", ", p->choice[k]);
            put(t, "NULL};\n");
        }
    }
    static const char *const kinds[] = {"TP_OPTION_FLOAT", "TP_OPTION_INT", "TP_OPTION_BOOL", "TP_OPTION_STRING"};
    put(t, "static const tp_option_info options_%s[] = {\n", o->cname);
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        put(t, "    {\"%s\", \"%s\", %s, %d, %d, %s, %s, %s, %s, %s},\n", p->name, python_value(p->fallback),
            kinds[p->kind], p->at, p->count, p->fallback->kind == E_LIST ? "true" : "false",
            p->keyword ? "true" : "false", p->fixed ? "true" : "false",
            p->nchoices ? format("choices_%s_%s", o->cname, p->name) : "NULL",
            p->choice_message ? c_string(p->choice_message) : "NULL");
    }
    put(t, "};\nstatic const double defaults_%s[] = {", o->cname);
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        for (int k = 0; k < p->count; k++) {
            const expr *e = p->fallback->kind == E_LIST ? p->fallback->arg[k] : p->fallback;
            bool none = e->kind == E_NAME && !strcmp(e->name, "None");
            put(t, "%s, ", p->kind == O_STRING ? "0" : none ? "NAN" : format("%.17g", number_of(e)));
        }
    }
    put(t, "0};\nstatic const char *const parts_%s[] = {", o->cname);
    for (int i = 0; i < o->noptions; i++)
        for (int k = 0; k < o->options[i].count; k++) put(t, "\"%s\", ", o->options[i].part[k]);
    put(t, "NULL};\nstatic const int64_t group_%s[] = {", o->cname);
    for (int i = 0; i < o->noptions; i++) put(t, "%d, ", o->group[i]);
    put(t, "};\n");
}

static void write_optimiser(text *t, const optimiser *o) {
    int nscalars = o->scalar ? scalar_function(t, o).n : 0;
    small_functions(t, o);
    write_option_rows(t, o);
    put(t, "static const char *const states_%s[] = {", o->cname);
    for (int i = 0; i < o->nslots; i++) put(t, "\"%s\", ", o->slots[i].name);
    put(t, "NULL};\nstatic const tpi_update_slot slots_%s[] = {", o->cname);
    for (int i = 0; i < o->nslots; i++) put(t, "{TPI_STATE_%s, %d}, ", upper(o->slots[i].shape), o->slots[i].flag);
    put(t, "{0, 0}};\nstatic const char *const messages_%s[] = {", o->cname);
    for (int i = 0; i < o->nchecks; i++) put(t, "%s, ", c_string(o->checks[i].message));
    put(t, "NULL};\n");
    const char *base = o->like ? o->like->cname : o->cname;
    if (o->update) put(t, "TPI_UPDATE_DECLARE(tpu_%s);\nextern const char *const tpt_update_%s[];\n", base, base);
    put(t, "static const tpi_update_ops ops_%s = {slots_%s, starts_%s, %s, flags_%s, check_%s, %d, %s, %s, %s};\n",
        o->cname, o->cname, o->cname, o->scalar ? format("scalars_%s", o->cname) : "NULL", o->cname, o->cname, nscalars,
        o->update ? format("TPI_ISA_TABLE(tpu_%s)", base) : "{NULL, NULL, NULL}", o->native ? o->native : "NULL",
        o->update ? format("tpt_update_%s", base) : "NULL");
    const char *formula = python_formula(o);
    put(t,
        "static const tp_optimiser_kind kind_%s = {\"%s\", %s, %s, %d, %d, options_%s, group_%s, defaults_%s, "
        "parts_%s, %d, states_%s, %s, messages_%s, &ops_%s, %s, %d, %d};\n\n",
        o->cname, o->name, c_string(o->doc), o->like ? format("\"%s\"", o->like->name) : "NULL", o->noptions,
        o->nvalues, o->cname, o->cname, o->cname, o->cname, o->nslots, o->cname, o->early ? "true" : "false", o->cname,
        o->cname, formula ? c_string(formula) : "NULL", find_value(o, "lr"), o->momentum);
}

text write_optimisers(void) {
    text t = {0};
    put(&t, "/* The table of optimisers, from tables/optimisers. Written by opgen: do not edit. */\n"
            "#pragma GCC diagnostic ignored \"-Wunused-variable\" /* options that an expression does not read */\n"
            "#include \"device/cpu/element.h\"\n#include \"device/cpu/isa.h\"\n#include \"autograd/glue.h\"\n#include "
            "\"optim/optimiser.h\"\n\n");
    for (int i = 0; i < noptimisers; i++) {
        write_optimiser(&t, optimisers[i]);
        write_constructor_code(&t, optimisers[i]);
    }
    put(&t, "const tp_optimiser_kind *const tpi_optimiser_kinds[] = {");
    for (int i = 0; i < noptimisers; i++) put(&t, "&kind_%s, ", optimisers[i]->cname);
    put(&t, "NULL};\n");
    return t;
}

/* For updates that are C functions: where their options and their state stand. */
text write_optimisers_internal(void) {
    text t = {0};
    put(&t, "/* Where native updates find their options and state. Written by opgen: do not edit. */\n#ifndef "
            "TPI_OPTIMISERS_H\n#define TPI_OPTIMISERS_H\n");
    for (int i = 0; i < noptimisers; i++) {
        const optimiser *o = optimisers[i];
        if (o->update) continue;
        put(&t, "enum { /* %s */\n", o->name);
        for (int k = 0; k < o->noptions; k++)
            for (int v = 0; v < o->options[k].count; v++)
                put(&t, "    %s_%s = %d,\n", upper(o->name), upper(o->options[k].part[v]), o->options[k].at + v);
        for (int k = 0; k < o->nslots; k++)
            put(&t, "    %s_STATE_%s = %d,\n", upper(o->name), upper(o->slots[k].name), k);
        put(&t, "};\n");
    }
    put(&t, "#endif\n");
    return t;
}

/* The kernel files: for each family, plain loops over blocks in each compute type, compiled once per instruction set.
 */
#include "kernels.h"
#include "registers.h"
#include <string.h>

ctype resolve(ctype t, ctype compute) {
    if (t == C_TYPES) return compute;
    if (t == C_REAL) return compute == C_C64 ? C_F32 : compute == C_C128 ? C_F64 : compute;
    if (t != C_WIDE) return t;
    switch (compute) {
    case C_F32: return C_F64;
    case C_C64: return C_C128;
    case C_I32: return C_I64;
    default: return compute;
    }
}
ctype result_ctype(int result, ctype compute) {
    return result == RESULT_BOOL || result == RESULT_TRUTH ? C_B8
           : result == RESULT_INT64                        ? C_I64
           : result == RESULT_REAL                         ? resolve(C_REAL, compute)
                                                           : compute;
}
static bool whole_number(type t) { return t == T_INT || t == T_INT_OPT || t == T_BOOL; }

void bind_params(text *t, const op *o, const int *param, int n, ctype c, const char *from, scope *names) {
    for (int i = 0; i < n; i++) {
        const arg *a = &o->args[param[i]];
        ctype pt =
            whole_number(a->type) ? C_I64 : resolve(a->type == T_FLOAT || a->type == T_FLOAT_OPT ? C_REAL : C_TYPES, c);
        put(t, "    const %s p_%s = %s[%d].%s;\n", ctype_c[pt], a->name, from, i, ctype_suffix[pt]);
        bind(names, a->name, (value){format("p_%s", a->name), pt, false});
    }
    if (!n) put(t, "    (void)param;\n");
}

/* Is the map one function of its input, for which there is an el_run_*() over many elements? */
static bool is_run(const block *b, const kernel_inputs *k, const op *o, ctype c) {
    const expr *e = b->value[0];
    const function *f = e->kind == E_CALL ? find_function(e->name, e->n) : NULL;
    if (c != C_F32 || b->n != 1 || k->n != 1 || k->arg[0] < 0 || !f || !(f->facts & HAS_RUN)) return false;
    return e->arg[0]->kind == E_NAME && !strcmp(e->arg[0]->name, o->args[k->arg[0]].name);
}

static void map_kernel(text *t, const op *o, int grad, ctype c) {
    kernel_inputs k;
    map_inputs(o, grad, &k);
    scope names = {0};
    const char *suffix = grad < 0 ? "" : format("_grad_%s", o->args[grad].name);
    ctype out_type = grad < 0 ? result_ctype(o->result_kind[0], c) : c;
    put(t, "static void map_%s%s_%s(int64_t n, char *const *arg, const tpi_param *param) {\n", o->cname, suffix,
        ctype_suffix[c]);
    put(t, "    %s *out = (%s *)arg[0];\n", ctype_c[out_type], ctype_c[out_type]);
    for (int i = 0; i < k.n; i++) {
        ctype in = k.arg[i] >= 0 && o->args[k.arg[i]].fixed != C_TYPES ? o->args[k.arg[i]].fixed : c;
        put(t, "    const %s *in%d = (const %s *)arg[%d];\n", ctype_c[in], i, ctype_c[in], i + 1);
    }
    bind_params(t, o, k.param, k.nparam, c, "param", &names);
    const block *b = grad < 0 ? o->body : o->args[grad].grad;
    if (is_run(b, &k, o, c)) {
        put(t, "    el_run_%s_%s(n / TPI_LANES * TPI_LANES, in0, out);\n}\n", b->value[0]->name, ctype_suffix[c]);
        return;
    }
    put(t, "    n = n / TPI_LANES * TPI_LANES;\n#pragma omp simd\n    for (int64_t i = 0; i < n; i++) {\n");
    for (int i = 0; i < k.n; i++) {
        const char *name = k.arg[i] == -1 ? "grad" : k.arg[i] == -2 ? "result" : o->args[k.arg[i]].name;
        ctype in = k.arg[i] >= 0 && o->args[k.arg[i]].fixed != C_TYPES ? o->args[k.arg[i]].fixed : c;
        put(t, "        const %s v_%s = in%d[i];\n", ctype_c[in], name, i);
        bind(&names, name, (value){format("v_%s", name), in, false});
    }
    element_out e = {.code = t, .indent = "        ", .compute = c};
    value v = element_block(&e, b, &names);
    put(t, "        out[i] = %s;\n    }\n}\n", cast_value(v, out_type, b->at));
}

static void map_table(text *t, const op *o, int grad, int ctypes) {
    const char *suffix = grad < 0 ? "" : format("_grad_%s", o->args[grad].name);
    for (int c = 0; c < C_TYPES; c++)
        if (ctypes >> c & 1) map_kernel(t, o, grad, (ctype)c);
    put(t, "const tpi_block_fn TPI_ISA(tpk_%s%s)[TPI_CTYPES] = {", o->cname, suffix);
    for (int c = 0; c < C_TYPES; c++)
        put(t, "%s", ctypes >> c & 1 ? format("map_%s%s_%s, ", o->cname, suffix, ctype_suffix[c]) : "NULL, ");
    put(t, "};\n\n");
}

/* ---- folds and scans ---- */
ctype state_type(const op *o, int i, ctype c) {
    const char *s = o->start->type[i];
    ctype t = !s                    ? C_TYPES
              : !strcmp(s, "int64") ? C_I64
              : !strcmp(s, "bool")  ? C_B8
              : !strcmp(s, "real")  ? C_REAL
              : !strcmp(s, "wide")  ? C_WIDE
                                    : C_WIDE + 1;
    if (t > C_WIDE) fail(o->at, "%s: a state variable is of type int64, real, wide or bool, not '%s'", o->name, s);
    return resolve(t, c);
}

void fold_params(const op *o, int *param, int *n) {
    *n = 0;
    for (int i = 0; i < o->nargs; i++) {
        type y = o->args[i].type;
        bool number = y == T_SCALAR || y == T_SCALAR_OPT || y == T_FLOAT || y == T_FLOAT_OPT || whole_number(y);
        if (number && (!o->over || strcmp(o->over, o->args[i].name)) && (!o->keep || strcmp(o->keep, o->args[i].name)))
            param[(*n)++] = i;
    }
    if (*n > 4) fail(o->at, "%s: more than 4 parameters", o->name);
}

static void head(text *t, const op *o, const char *what, const char *args, ctype c, scope *names) {
    int param[24], n;
    put(t, "static void %s_%s_%s_%s(%s, const tpi_param *param) {\n", kind_names[o->kind], what, o->cname,
        ctype_suffix[c], args);
    fold_params(o, param, &n);
    bind_params(t, o, param, n, c, "param", names);
}

static void state_pointers(text *t, const op *o, ctype c, const char *from, const char *prefix) {
    for (int i = 0; i < o->start->n; i++) {
        const char *ct = ctype_c[state_type(o, i, c)];
        put(t, "    %s *%s%d = (%s *)%s[%d];\n", ct, prefix, i, ct, from, i);
    }
}

/* A state variable: array0[index], or a member where the states are structs. */
static char *slot(const char *array, int k, const char *index) {
    return index ? format("%s%d[%s]", array, k, index) : format("%s.s%d", array, k);
}

/* Reads the state at `index` into names, with a suffix for the right side of a merge. */
void load_state(text *t, const op *o, ctype c, const char *indent, const char *array, const char *index,
                const char *suffix, scope *names) {
    for (int i = 0; i < o->start->n; i++) {
        ctype st = state_type(o, i, c);
        put(t, "%sconst %s s_%s%s = %s;\n", indent, ctype_c[st], o->start->name[i], suffix, slot(array, i, index));
        bind(names, format("%s%s", o->start->name[i], suffix),
             (value){format("s_%s%s", o->start->name[i], suffix), st, false});
    }
}

/* A part of `first`, for the element x and the final value m. */
static char *holds(element_out *e, const op *o, const expr *part, value x, value m, const scope *names) {
    scope inner = *names;
    bind(&inner, "x", x);
    bind(&inner, o->start->name[0], m);
    return cast_value(element_expr(e, part, &inner), C_B8, o->at);
}

/* The index that `first` keeps: it stays as long as `first` would hold for the old value. Blocks merge in order, so
 * that the left one wins if both values serve; structs merge in any order, and the lower index does. */
static value first_index(element_out *e, const op *o, ctype c, const block *b, const char *index, value now,
                         const scope *names) {
    const char *m = o->start->name[0], *k = o->start->name[1];
    const ctype type = state_type(o, 0, c);
    char *stays = holds(e, o, o->first, (value){format("s_%s", m), type, false}, now, names);
    if (b == o->step) return (value){format("(%s ? s_%s : v_i)", stays, k), C_I64, false};
    char *in_order = format("(%s ? s_%s : s_%s_r)", stays, k, k);
    if (index) return (value){in_order, C_I64, false};
    char *comes = holds(e, o, o->first, (value){format("s_%s_r", m), type, false}, now, names);
    return (value){format("(%s && %s ? (s_%s < s_%s_r ? s_%s : s_%s_r) : %s)", stays, comes, k, k, k, k, in_order),
                   C_I64, false};
}

/* Evaluates `name = value` parts, all from the old state, and stores them at `index`. Other parts are locals. */
void store_state(text *t, const op *o, ctype c, const char *indent, const block *b, const char *array,
                 const char *index, const scope *names) {
    element_out e = {.code = t, .indent = indent, .compute = c};
    scope locals = *names;
    value v[4];
    bool set[4] = {false};
    for (int i = 0; i < b->n; i++) {
        int k = -1;
        for (int j = 0; j < o->start->n; j++)
            if (b->name[i] && !strcmp(b->name[i], o->start->name[j])) k = j;
        value x = element_expr(&e, b->value[i], &locals);
        if (!b->name[i] && o->start->n == 1) k = 0; /* a single state needs no name */
        if (k < 0 && !b->name[i]) fail(b->at, "%s: expected 'name = value'", o->name);
        if (k >= 0) {
            v[k] = x;
            set[k] = true;
        } else
            bind(&locals, b->name[i], x);
    }
    if (o->first && b != o->start) {
        v[1] = first_index(&e, o, c, b, index, v[0], names);
        set[1] = true;
    }
    for (int k = 0; k < o->start->n; k++)
        if (set[k]) put(t, "%s%s = %s;\n", indent, slot(array, k, index), cast_value(v[k], state_type(o, k, c), b->at));
}

static void bind_element(text *t, ctype c, const char *indent, const char *x, const char *index, scope *names) {
    put(t, "%sconst %s v_x = %s;\n%sconst int64_t v_i = %s;\n%s(void)v_i;\n", indent, ctype_c[c], x, indent, index,
        indent);
    bind(names, "x", (value){"v_x", c, false});
    bind(names, "i", (value){"v_i", C_I64, false});
}

static void write_start(text *t, const op *o, ctype c) {
    scope names = {0};
    head(t, o, "start", "int64_t m, char *const *state", c, &names);
    state_pointers(t, o, c, "state", "a");
    put(t, "    for (int64_t j = 0; j < m; j++) {\n");
    store_state(t, o, c, "        ", o->start, "a", "j", &names);
    put(t, "    }\n}\n");
}

static void step_body(text *t, const op *o, ctype c, const char *indent, const char *array, const char *at,
                      const char *x, const char *index, const scope *names) {
    scope inner = *names;
    load_state(t, o, c, indent, array, at, "", &inner);
    bind_element(t, c, indent, x, index, &inner);
    store_state(t, o, c, indent, o->step, array, at, &inner);
}

static void merge_body(text *t, const op *o, ctype c, const char *indent, const char *left, const char *l,
                       const char *right, const char *r, const scope *names) {
    scope inner = *names;
    load_state(t, o, c, indent, left, l, "", &inner);
    load_state(t, o, c, indent, right, r, "_r", &inner);
    store_state(t, o, c, indent, o->merge, left, l, &inner);
}

/* Brings k to the first element for which the condition holds: by sets of lanes, by lanes, whose bits say which, then
 * one at a time. */
static void write_search_loop(text *t, const op *o, ctype c, const expr *condition, const scope *names) {
    const value x = {"v_x", c, false}, now = {"now", state_type(o, 0, c), false};
    element_out each = {.code = t, .indent = "                ", .compute = c}, bits = each,
                last = {.code = t, .indent = "            ", .compute = c};
    put(t, "        for (; k + 4 * LANES <= n; k += 4 * LANES) {\n            int any = 0;\n");
    put(t,
        "#pragma omp simd reduction(| : any)\n            for (int l = 0; l < 4 * LANES; l++) {\n                const "
        "%s v_x = x[k + l];\n",
        ctype_c[c]);
    put(t, "                any |= %s;\n            }\n            if (any) break;\n        }\n",
        holds(&each, o, condition, x, now, names));
    put(t, "        uint32_t hits = 0;\n        for (; k + LANES <= n && !hits; k += hits ? __builtin_ctz(hits) : "
           "LANES) {\n");
    put(t,
        "#pragma omp simd reduction(| : hits)\n            for (int l = 0; l < LANES; l++) {\n                const %s "
        "v_x = x[k + l];\n",
        ctype_c[c]);
    put(t, "                hits |= (uint32_t)(%s) << l;\n            }\n        }\n",
        holds(&bits, o, condition, x, now, names));
    put(t, "        for (; k < n && !hits; k++) {\n            const %s v_x = x[k];\n", ctype_c[c]);
    put(t, "            if (%s) break;\n        }\n", holds(&last, o, condition, x, now, names));
}

/* The end of `inner` where the state is a value and the index of the first element that has it: the lanes found the
 * value alone, which is quicker; if it is new, the elements, near as they are now, are searched. What `first` asks of
 * the value is asked once. */
static void write_search(text *t, const op *o, ctype c, const scope *names) {
    element_out e = {.code = t, .indent = "    ", .compute = c};
    const value before = {"before", state_type(o, 0, c), false}, now = {"now", before.t, false};
    scope inner = *names;
    put(t, "    const %s before = a0[0], found = b0[0];\n", ctype_c[before.t]);
    bind(&inner, o->start->name[0], before);
    bind(&inner, format("%s_r", o->start->name[0]), (value){"found", before.t, false});
    put(t, "    const %s now = %s;\n", ctype_c[before.t],
        cast_value(element_expr(&e, o->merge->value[0], &inner), before.t, o->merge->at));
    put(t, "    if (%s) return;\n", holds(&e, o, o->first, before, now, names));
    const expr *f = o->first;
    bool choice = f->kind == E_TERNARY && !uses_name(f->arg[0], "x");
    put(t, "    int64_t k = 0;\n    %s{\n",
        choice ? format("if (%s) ", holds(&e, o, f->arg[0], before, now, names)) : "");
    write_search_loop(t, o, c, choice ? f->arg[1] : f, names);
    if (choice) {
        put(t, "    } else {\n");
        write_search_loop(t, o, c, f->arg[2], names);
    }
    put(t, "    }\n    a0[0] = now;\n    a1[0] = index0 + k;\n");
}

/* Elements go round lanes, each with a state of its own, and the lanes merge at the end: the loop vectorises, and the
 * order is fixed by n alone. A step waits for the step before in its lane, so there are as many lanes as registers hold
 * the states of: sixteen, or twice as many of a single state. Of long stretches every other group of elements goes into
 * a second set of lanes, where no fused chain has to give the same bits with the registers that it has left
 * (registers.c): a product then also stays out of the denormal numbers for twice as long, which some processors take
 * 150 cycles for. A fold's stretch, a scan's `total`. */
static void write_second_set(text *t, const op *v, ctype c, const scope *names) {
    put(t, "    if (n >= 4 * LANES) {\n        %s c0[LANES];\n", ctype_c[state_type(v, 0, c)]);
    put(t, "#pragma omp simd\n        for (int l = 0; l < LANES; l++) {\n");
    store_state(t, v, c, "            ", v->start, "c", "l", names);
    put(t, "        }\n        for (; i + 2 * LANES <= n; i += 2 * LANES) {\n");
    for (int set = 0; set < 2; set++) {
        put(t, "#pragma omp simd\n            for (int l = 0; l < LANES; l++) {\n");
        step_body(t, v, c, "                ", set ? "c" : "b", "l", set ? "x[i + LANES + l]" : "x[i + l]",
                  set ? "index0 + i + LANES + l" : "index0 + i + l", names);
        put(t, "            }\n");
    }
    put(t, "        }\n#pragma omp simd\n        for (int l = 0; l < LANES; l++) {\n");
    merge_body(t, v, c, "            ", "b", "l", "c", "l", names);
    put(t, "        }\n    }\n");
}
static void write_lanes(text *t, const op *o, ctype c, const char *what) {
    scope names = {0};
    head(t, o, what, "int64_t n, const char *xp, int64_t index0, char *const *state", c, &names);
    put(t, "    const %s *x = (const %s *)xp;\n", ctype_c[c], ctype_c[c]);
    state_pointers(t, o, c, "state", "a");
    op value_alone = *o;
    block its_start = *o->start;
    if (o->first) {
        its_start.n = 1;
        value_alone.start = &its_start;
        value_alone.first = NULL;
    }
    const op *v = &value_alone;
    put(t, "    enum { LANES = %sTPI_LANES };\n", v->start->n == 1 ? "2 * " : "");
    put(t, "    if (n < LANES) {\n        for (int64_t i = 0; i < n; i++) {\n");
    step_body(t, o, c, "            ", "a", "0", "x[i]", "index0 + i", &names);
    put(t, "        }\n        return;\n    }\n");
    for (int i = 0; i < v->start->n; i++) put(t, "    %s b%d[LANES];\n", ctype_c[state_type(v, i, c)], i);
    put(t, "#pragma omp simd\n    for (int l = 0; l < LANES; l++) {\n");
    store_state(t, v, c, "        ", v->start, "b", "l", &names);
    put(t, "    }\n    int64_t i = 0;\n");
    if (v->start->n == 1 && o->kind == K_FOLD && !o->first && !strcmp(register_end(o), "NONE"))
        write_second_set(t, v, c, &names);
    put(t, "    for (; i + LANES <= n; i += LANES) {\n#pragma omp simd\n        for (int l = 0; l < LANES; l++) {\n");
    step_body(t, v, c, "            ", "b", "l", "x[i + l]", "index0 + i + l", &names);
    put(t, "        }\n    }\n    for (int l = 0; i + l < n; l++) {\n");
    step_body(t, v, c, "        ", "b", "l", "x[i + l]", "index0 + i + l", &names);
    put(t, "    }\n    TPI_UNROLL for (int w = LANES / 2; w > 0; w /= 2)\n        for (int l = 0; l < w; l++) {\n");
    merge_body(t, v, c, "            ", "b", "l", "b", "l + w", &names);
    put(t, "        }\n");
    if (o->first)
        write_search(t, o, c, &names);
    else {
        put(t, "    {\n");
        merge_body(t, o, c, "        ", "a", "0", "b", "0", &names);
        put(t, "    }\n");
    }
    put(t, "}\n");
}

/* Stretch after stretch in one loop: the lanes of one merge while the elements of the next come from memory. */
static void write_inner(text *t, const op *o, ctype c) {
    write_lanes(t, o, c, "stretch");
    put(t, "static void fold_inner_%s_%s(const tpi_stretches *from, char *const *state, const tpi_param *param) {\n",
        o->cname, ctype_suffix[c]);
    put(t, "    for (int64_t k = 0; k < from->count; k++) {\n        char *at[] = {");
    for (int i = 0; i < o->start->n; i++)
        put(t, "%sstate[%d] + k * from->columns_apart * (int64_t)sizeof(%s)", i ? ", " : "", i,
            ctype_c[state_type(o, i, c)]);
    put(t,
        "};\n        fold_stretch_%s_%s(from->n, from->x + k * from->apart, from->index + k * from->later, at, "
        "param);\n    }\n}\n",
        o->cname, ctype_suffix[c]);
}

/* `rows` rows from r on into each column: the state is read and written once for all of them. */
static void outer_rows(text *t, const op *o, ctype c, int rows, const scope *names) {
    for (int q = 0; q < rows; q++)
        put(t, "        const %s *x%d = (const %s *)(xp + (r + %d) * row);\n", ctype_c[c], q, ctype_c[c], q);
    put(t, "#pragma omp simd\n        for (int64_t j = 0; j < m; j++) {\n");
    for (int i = 0; i < o->start->n; i++)
        put(t, "            %s b%d[1] = {a%d[j]};\n", ctype_c[state_type(o, i, c)], i, i);
    for (int q = 0; q < rows; q++) {
        put(t, "            {\n");
        step_body(t, o, c, "                ", "b", "0", format("x%d[j]", q), format("index0 + r + %d", q), names);
        put(t, "            }\n");
    }
    for (int i = 0; i < o->start->n; i++) put(t, "            a%d[j] = b%d[0];\n", i, i);
    put(t, "        }\n");
}

static void write_outer(text *t, const op *o, ctype c) {
    enum { TOGETHER = 4 };
    scope names = {0};
    head(t, o, "outer", "int64_t m, int64_t rows, const char *xp, int64_t row, int64_t index0, char *const *state", c,
         &names);
    state_pointers(t, o, c, "state", "a");
    put(t, "    int64_t r = 0;\n    for (; r + %d <= rows; r += %d) {\n", TOGETHER, TOGETHER);
    outer_rows(t, o, c, TOGETHER, &names);
    put(t, "    }\n    for (; r < rows; r++) {\n");
    outer_rows(t, o, c, 1, &names);
    put(t, "    }\n}\n");
}

static void write_merge(text *t, const op *o, ctype c) {
    scope names = {0};
    head(t, o, "merge", "int64_t m, char *const *state, char *const *right", c, &names);
    state_pointers(t, o, c, "state", "a");
    state_pointers(t, o, c, "right", "b");
    put(t, "#pragma omp simd\n    for (int64_t j = 0; j < m; j++) {\n");
    merge_body(t, o, c, "        ", "a", "j", "b", "j", &names);
    put(t, "    }\n}\n");
}

/* The results at `index`, from names already bound. */
void write_results(text *t, const op *o, ctype c, const char *indent, const char *index, const scope *names) {
    element_out e = {.code = t, .indent = indent, .compute = c};
    scope locals = *names;
    int given = 0;
    for (int i = 0; i < o->finish->n; i++) {
        value v = element_expr(&e, o->finish->value[i], &locals);
        int k = o->finish->name[i] ? -1 : 0;
        for (int r = 0; o->finish->name[i] && r < o->nresults; r++)
            if (!strcmp(o->finish->name[i], o->results[r].name)) k = r;
        if (k < 0) {
            bind(&locals, o->finish->name[i], v);
            continue;
        }
        put(t, "%sout%d[%s] = %s;\n", indent, k, index,
            cast_value(v, result_ctype(o->result_kind[k], c), o->finish->at));
        given++;
    }
    if (given != o->nresults) fail(o->finish->at, "%s: 'finish' gives %d of %d results", o->name, given, o->nresults);
}

static void out_pointers(text *t, const op *o, ctype c) {
    for (int r = 0; r < o->nresults; r++) {
        const char *ct = ctype_c[result_ctype(o->result_kind[r], c)];
        put(t, "    %s *out%d = (%s *)out[%d];\n", ct, r, ct, r);
    }
}

static void write_finish(text *t, const op *o, ctype c) {
    scope names = {0};
    head(t, o, "finish", "int64_t m, char *const *state, int64_t count, char *const *out", c, &names);
    put(t, "    (void)count;\n");
    bind(&names, "n", (value){"count", C_I64, false});
    state_pointers(t, o, c, "state", "a");
    out_pointers(t, o, c);
    put(t, "    for (int64_t j = 0; j < m; j++) {\n");
    load_state(t, o, c, "        ", "a", "j", "", &names);
    write_results(t, o, c, "        ", "j", &names);
    put(t, "    }\n}\n");
}

/* A scan steps and writes; `finish` sees the new state. The state is array[at], the element x[j]. */
static void scan_step(text *t, const op *o, ctype c, const char *indent, const char *array, const char *at,
                      const char *j, const char *index, const scope *names) {
    char *deeper = format("%s    ", indent);
    put(t, "%s{\n", indent);
    step_body(t, o, c, deeper, array, at, format("x[%s]", j), index, names);
    put(t, "%s{\n", deeper);
    scope after = *names;
    for (int i = 0; i < o->start->n; i++) {
        ctype st = state_type(o, i, c);
        put(t, "%s    const %s n_%s = %s%d[%s];\n", deeper, ctype_c[st], o->start->name[i], array, i, at);
        bind(&after, o->start->name[i], (value){format("n_%s", o->start->name[i]), st, false});
    }
    bind(&after, "x", (value){"v_x", c, false});
    bind(&after, "i", (value){"v_i", C_I64, false});
    write_results(t, o, c, format("%s    ", deeper), j, &after);
    put(t, "%s}\n%s}\n", deeper, indent);
}

static void scan_head(text *t, const op *o, ctype c, const char *what, const char *index, scope *names) {
    head(t, o, what, format("int64_t n, const char *xp, int64_t %s, char *const *state, char *const *out", index), c,
         names);
    put(t, "    const %s *x = (const %s *)xp;\n", ctype_c[c], ctype_c[c]);
    state_pointers(t, o, c, "state", "a");
    out_pointers(t, o, c);
}

static void write_scan_outer(text *t, const op *o, ctype c) {
    scope names = {0};
    scan_head(t, o, c, "outer", "index", &names);
    put(t, "#pragma omp simd\n    for (int64_t j = 0; j < n; j++)\n");
    scan_step(t, o, c, "        ", "a", "j", "j", "index", &names);
    put(t, "}\n");
}

/* A step waits for the one before it, so a row alone leaves most of the machine idle. With a merge, a block is cut into
 * eight segments: the totals of all but the last give each segment the state before it, and then eight chains run side
 * by side. A cheap step of several variables goes faster alone: eight chains of them do not fit the registers. */
enum { CHAINS = 8, SEGMENT = 128 };
static bool allows_chains(const op *o) { return o->merge && (o->start->n == 1 || is_costly_block(o->step)); }
static void scan_chains(text *t, const op *o, ctype c, const scope *names) {
    put(t, "    for (; j + %d <= n; j += %d) {\n", CHAINS * SEGMENT, CHAINS * SEGMENT);
    for (int i = 0; i < o->start->n; i++) {
        const char *ct = ctype_c[state_type(o, i, c)];
        put(t, "        %s c%d[%d], m%d[1] = {b%d[0]};\n        c%d[0] = b%d[0];\n", ct, i, CHAINS, i, i, i, i);
    }
    put(t, "        for (int q = 1; q < %d; q++) {\n            char *const total[] = {", CHAINS);
    for (int i = 0; i < o->start->n; i++) put(t, "(char *)&c%d[q], ", i);
    put(t, "};\n            scan_start_%s_%s(1, total, param);\n", o->cname, ctype_suffix[c]);
    put(t, "            const int64_t at = j + (q - 1) * %d;\n", SEGMENT);
    put(t, "            scan_total_%s_%s(%d, (const char *)(x + at), index0 + at, total, param);\n            {\n",
        o->cname, ctype_suffix[c], SEGMENT);
    merge_body(t, o, c, "                ", "m", "0", "c", "q", names);
    put(t, "            }\n");
    for (int i = 0; i < o->start->n; i++) put(t, "            c%d[q] = m%d[0];\n", i, i);
    put(t, "        }\n        for (int64_t k = j; k < j + %d; k++) {\n", SEGMENT);
    for (int q = 0; q < CHAINS; q++) {
        char *at = format("k + %d", q * SEGMENT);
        scan_step(t, o, c, "            ", "c", format("%d", q), at, format("index0 + %s", at), names);
    }
    put(t, "        }\n");
    for (int i = 0; i < o->start->n; i++) put(t, "        b%d[0] = c%d[%d];\n", i, i, CHAINS - 1);
    put(t, "    }\n");
}

/* "sum" or "product" for a scan that is no more than that and whose state el_running_*() knows, NULL otherwise. */
static const char *plain_running(const op *o, ctype c) {
    if (o->start->n != 1 || o->step->n != 1 || o->finish->n != 1 || o->nresults != 1 ||
        (c != C_F32 && c != C_F64 && c != C_I64))
        return NULL;
    const expr *step = o->step->value[0], *finish = o->finish->value[0];
    const char *acc = o->start->name[0];
    if (state_type(o, 0, c) != resolve(C_WIDE, c) || o->result_kind[0] != RESULT_SAME || step->kind != E_BINARY)
        return NULL;
    bool from_acc = step->arg[0]->kind == E_NAME && !strcmp(step->arg[0]->name, acc) && step->arg[1]->kind == E_NAME &&
                    !strcmp(step->arg[1]->name, "x");
    if (!from_acc || finish->kind != E_NAME || strcmp(finish->name, acc)) return NULL;
    return !strcmp(step->name, "+") ? "sum" : !strcmp(step->name, "*") ? "product" : NULL;
}

static void write_scan_inner(text *t, const op *o, ctype c) {
    scope names = {0};
    scan_head(t, o, c, "inner", "index0", &names);
    for (int i = 0; i < o->start->n; i++) put(t, "    %s b%d[1] = {a%d[0]};\n", ctype_c[state_type(o, i, c)], i, i);
    const char *running = plain_running(o, c);
    if (running)
        put(t, "    int64_t j = el_running_%s_%s(n, x, b0, out0);\n", running, ctype_suffix[c]);
    else
        put(t, "    int64_t j = 0;\n");
    if (allows_chains(o) && !running) scan_chains(t, o, c, &names);
    put(t, "    for (; j < n; j++)\n");
    scan_step(t, o, c, "        ", "b", "0", "j", "index0 + j", &names);
    for (int i = 0; i < o->start->n; i++) put(t, "    a%d[0] = b%d[0];\n", i, i);
    put(t, "}\n");
}

static void fold_table(text *t, const op *o) {
    int ctypes = op_ctypes(o);
    bool scan = o->kind == K_SCAN;
    for (int i = 0; i < C_TYPES; i++) {
        if (!(ctypes >> i & 1)) continue;
        ctype c = (ctype)i;
        write_start(t, o, c);
        if (scan && o->merge) write_lanes(t, o, c, "total");
        if (scan) {
            write_scan_inner(t, o, c);
            write_scan_outer(t, o, c);
        } else {
            write_inner(t, o, c);
            write_outer(t, o, c);
            write_finish(t, o, c);
        }
        if (o->merge) write_merge(t, o, c);
    }
    const char *k = kind_names[o->kind];
    put(t, "const tpi_%s_kernel TPI_ISA(tpk_%s)[TPI_CTYPES] = {\n", k, o->cname);
    for (int c = 0; c < C_TYPES; c++) {
        if (!(ctypes >> c & 1)) {
            put(t, "    {0},\n");
            continue;
        }
        const char *parts[] = {"start", "inner", "outer", "merge", scan ? "total" : "finish"};
        put(t, "    {");
        for (int p = 0; p < 5; p++) {
            if (p >= 3 && !o->merge)
                put(t, "NULL, ");
            else
                put(t, "%s_%s_%s_%s, ", k, parts[p], o->cname, ctype_suffix[c]);
        }
        put(t, "},\n");
    }
    put(t, "};\n\n");
}

text write_kernels(const char *family) {
    text t = {0};
    put(&t, "/* Kernels of tables/operators/%s.op. Written by opgen: do not edit. */\n", family);
    put(&t, "#pragma GCC diagnostic ignored \"-Wunused-variable\" /* not every step reads every state variable and "
            "parameter */\n");
    put(&t, "#include \"device/cpu/element.h\"\n#include \"device/cpu/isa.h\"\n#include \"device/device.h\"\n\n");
    int n = 0;
    begin_narrow();
    for (int i = 0; i < nops; i++) {
        const op *o = ops[i];
        if (strcmp(o->family, family)) continue;
        if (o->kind == K_MAP) {
            map_table(&t, o, -1, op_ctypes(o));
            if (has_narrow(o)) write_narrow(&t, o);
            n++;
            for (int a = 0; a < o->nargs; a++)
                if (has_fused_grad(o, a))
                    map_table(&t, o, a, op_ctypes(o) & (1 << C_F32 | 1 << C_F64 | 1 << C_C64 | 1 << C_C128));
        }
        if (o->kind == K_FOLD || o->kind == K_SCAN) {
            fold_table(&t, o);
            n++;
        }
    }
    if (!n) put(&t, "extern int tpi_no_kernels_here;\n");
    return t;
}

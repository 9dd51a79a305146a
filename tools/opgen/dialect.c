/* Kernels for devices that compile text: per operator and compute type, functions of one element in the dialect of
 * src/device/gpu/kernels, the same expressions as the CPU's. The device's own text loops over elements and calls them:
 *
 *   map    INLINE R op_element(inputs, const params_t param)
 *   fold   x_t, state_t, out0_t, ...; op_start(param), op_step(a, x, i, param), op_merge(a, b, param), op_finish(a,
 *          count, param, &out0, ...)
 *   scan   the same, with op_value(a, x, i, param, &out0, ...) after each step in place of op_finish
 *
 * States merge in any order. A text begins by including what it calls; PARAMS_TYPE(n), with n at least one, stands
 * before it. */
#include "kernels.h"
#include <string.h>

/* The headers that hold the functions which a text calls. */
static void put_includes(text *t, const char *code) {
    put(t, "#include \"element.h\"\n");
    if (strstr(code, "tpi_c64") || strstr(code, "tpi_c128")) put(t, "#include \"element_complex.h\"\n");
    if (calls_special(code)) put(t, "#include \"element_bessel.h\"\n#include \"element_special.h\"\n");
}

static char *map_text(const op *o, int grad, ctype c) {
    kernel_inputs k;
    map_inputs(o, grad, &k);
    const block *b = grad < 0 ? o->body : o->args[grad].grad;
    ctype out_type = grad < 0 ? result_ctype(o->result_kind[0], c) : c;
    scope names = {0};
    text code = {0}, whole = {0};
    put(&code, "INLINE %s op_element(", ctype_c[out_type]);
    for (int i = 0; i < k.n; i++) {
        const char *name = k.arg[i] == -1 ? "grad" : k.arg[i] == -2 ? "result" : o->args[k.arg[i]].name;
        ctype in = k.arg[i] >= 0 && o->args[k.arg[i]].fixed != C_TYPES ? o->args[k.arg[i]].fixed : c;
        put(&code, "const %s v_%s, ", ctype_c[in], name);
        bind(&names, name, (value){format("v_%s", name), in, false});
    }
    put(&code, "const params_t param) {\n");
    bind_params(&code, o, k.param, k.nparam, c, "param.p", &names);
    element_out e = {.code = &code, .indent = "    ", .compute = c};
    value v = element_block(&e, b, &names);
    put(&code, "    return %s;\n}\n", cast_value(v, out_type, b->at));
    put_includes(&whole, code.s);
    put(&whole, "%s", code.s);
    return whole.s;
}

/* ---- folds and scans ---- */
static void fold_head(text *t, const op *o, const char *returns, const char *name, const char *args, ctype c,
                      scope *names) {
    int param[24], n;
    put(t, "INLINE %s op_%s(%sconst params_t param", returns, name, args);
    if (!strcmp(returns, "void"))
        for (int r = 0; r < o->nresults; r++) put(t, ", out%d_t *out%d", r, r);
    put(t, ") {\n");
    fold_params(o, param, &n);
    bind_params(t, o, param, n, c, "param.p", names);
}

static void bind_step(scope *names, ctype c) {
    bind(names, "x", (value){"v_x", c, false});
    bind(names, "i", (value){"v_i", C_I64, false});
}

static void state_function(text *t, const op *o, ctype c, const block *b, const char *name, const char *args) {
    scope names = {0};
    fold_head(t, o, "state_t", name, args, c, &names);
    if (b != o->start) load_state(t, o, c, "    ", "a", NULL, "", &names);
    if (b == o->merge) load_state(t, o, c, "    ", "b", NULL, "_r", &names);
    if (b == o->step) bind_step(&names, c);
    put(t, "    state_t r%s;\n", b == o->start ? "" : " = a");
    store_state(t, o, c, "    ", b, "r", NULL, &names);
    put(t, "    return r;\n}\n");
}

static void fold_types(text *t, const op *o, ctype c) {
    put(t, "typedef %s x_t;\ntypedef struct state_t {\n", ctype_c[c]);
    for (int i = 0; i < o->start->n; i++) put(t, "    %s s%d;\n", ctype_c[state_type(o, i, c)], i);
    put(t, "} state_t;\n");
    for (int r = 0; r < o->nresults; r++)
        put(t, "typedef %s out%d_t;\n", ctype_c[result_ctype(o->result_kind[r], c)], r);
}

static char *fold_text(const op *o, ctype c) {
    const char *element = "const state_t a, const x_t v_x, const int64_t v_i, ";
    bool scan = o->kind == K_SCAN;
    text code = {0}, whole = {0};
    fold_types(&code, o, c);
    state_function(&code, o, c, o->start, "start", "");
    state_function(&code, o, c, o->step, "step", element);
    if (o->merge) state_function(&code, o, c, o->merge, "merge", "const state_t a, const state_t b, ");
    scope names = {0};
    fold_head(&code, o, "void", scan ? "value" : "finish", scan ? element : "const state_t a, const int64_t count, ", c,
              &names);
    load_state(&code, o, c, "    ", "a", NULL, "", &names);
    if (scan)
        bind_step(&names, c);
    else
        bind(&names, "n", (value){"count", C_I64, false});
    write_results(&code, o, c, "    ", "0", &names);
    put(&code, "}\n");
    put_includes(&whole, code.s);
    put(&whole, "%s", code.s);
    return whole.s;
}

/* ---- the files ---- */

void put_literal(text *t, const char *s) {
    put(t, "\"");
    for (; *s; s++) {
        if (*s == '\n')
            put(t, "\\n\"\n        \"");
        else
            put(t, "%s%c", *s == '"' || *s == '\\' ? "\\" : "", *s);
    }
    put(t, "\"");
}

/* The texts of one descriptor, by compute type. */
static void put_table(text *t, const char *name, char *const *texts) {
    put(t, "const char *const tpt_%s[TPI_CTYPES] = {\n", name);
    for (int c = 0; c < C_TYPES; c++) {
        if (!texts[c]) continue;
        put(t, "    [TPI_%s] = ", upper(ctype_suffix[c]));
        put_literal(t, texts[c]);
        put(t, ",\n");
    }
    put(t, "};\n");
}

static void map_texts(text *t, const op *o, int grad) {
    int ctypes = op_ctypes(o) & (grad < 0 ? ~0 : 1 << C_F32 | 1 << C_F64 | 1 << C_C64 | 1 << C_C128);
    char *texts[C_TYPES] = {NULL};
    for (int c = 0; c < C_TYPES; c++)
        if (ctypes >> c & 1) texts[c] = map_text(o, grad, (ctype)c);
    put_table(t, grad < 0 ? o->cname : format("%s_grad_%s", o->cname, o->args[grad].name), texts);
}

text write_texts(const char *family) {
    text t = {0};
    put(&t,
        "/* Kernel text of tables/operators/%s.op for devices that compile it. Written by opgen: do not edit. "
        "*/\n#include \"device/device.h\"\n\n",
        family);
    for (int i = 0; i < nops; i++) {
        const op *o = ops[i];
        if (strcmp(o->family, family)) continue;
        if (o->kind == K_MAP) {
            map_texts(&t, o, -1);
            for (int a = 0; a < o->nargs; a++)
                if (has_fused_grad(o, a)) map_texts(&t, o, a);
        }
        if (o->kind != K_FOLD && o->kind != K_SCAN) continue;
        char *texts[C_TYPES] = {NULL};
        for (int c = 0; c < C_TYPES; c++)
            if (op_ctypes(o) >> c & 1) texts[c] = fold_text(o, (ctype)c);
        put_table(&t, o->cname, texts);
    }
    return t;
}

/* The lists of a family's descriptors, at the end of its glue. */
void write_kernel_lists(text *t, const char *family) {
    static const struct {
        kind kind;
        const char *type;
    } lists[] = {{K_MAP, "map"}, {K_FOLD, "fold"}, {K_SCAN, "scan"}};
    for (int l = 0; l < 3; l++) {
        put(t, "const tpi_%s_op *const tpi_%ss_%s[] = {", lists[l].type, lists[l].type, family);
        for (int i = 0; i < nops; i++) {
            const op *o = ops[i];
            if (strcmp(o->family, family) || o->kind != lists[l].kind) continue;
            put(t, "&tpi_%s_%s, ", lists[l].type, o->cname);
            for (int a = 0; a < o->nargs && o->kind == K_MAP; a++)
                if (has_fused_grad(o, a)) put(t, "&tpi_map_%s_grad_%s, ", o->cname, o->args[a].name);
        }
        put(t, "NULL};\n");
    }
}

/* The list of families, for the registry. */
void write_families(text *t, int n, char *const *families) {
    for (int i = 0; i < n; i++)
        put(t,
            "extern const tpi_map_op *const tpi_maps_%s[];\nextern const tpi_fold_op *const tpi_folds_%s[];\nextern "
            "const tpi_scan_op *const tpi_scans_%s[];\n",
            families[i], families[i], families[i]);
    put(t, "const tpi_family tpi_families[] = {\n");
    for (int i = 0; i < n; i++)
        put(t, "    {tpi_maps_%s, tpi_folds_%s, tpi_scans_%s},\n", families[i], families[i], families[i]);
    put(t, "    {NULL, NULL, NULL},\n};\n");
}

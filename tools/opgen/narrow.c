/* Kernels of cheap maps that read and write 8- and 16-bit elements themselves. Others get such elements as blocks of
 * the compute type, and converting takes longer than a cheap map does. What is computed, and in which type, is the
 * same, so the bits are too. device/cpu/map.c picks.
 *
 * Floats and doubles are here for their forms with a constant input: a row times a number reads and writes a row, and
 * makes no block of copies of the number. */
#include "kernels.h"
#include <string.h>

enum { FORMS = 3 }; /* of constant inputs: TPI_NARROW_FORMS of device/device.h */

typedef struct narrow {
    const char *suffix, *c;
    ctype compute;
} narrow;
/* In the order of tpi_narrow (device/device.h). */
static const narrow narrows[] = {
    {"b8", "uint8_t", C_I32},   {"u8", "uint8_t", C_I32},    {"i8", "int8_t", C_I32}, {"i16", "int16_t", C_I32},
    {"f16", "uint16_t", C_F32}, {"bf16", "uint16_t", C_F32}, {"f32", "float", C_F32}, {"f64", "double", C_F64},
};
enum { NARROWS = sizeof narrows / sizeof *narrows };

/* No kernel here is of complex elements: a real result is of the elements' type. */
static bool keeps_type(const op *o) { return o->result_kind[0] == RESULT_SAME || o->result_kind[0] == RESULT_REAL; }

bool has_narrow(const op *o) {
    kernel_inputs k;
    map_inputs(o, -1, &k);
    if (k.n < 1 || is_costly_block(o->body)) return false;
    if (k.n > 2 && (k.n > 3 || !o->registers || k.nparam)) return false;
    if (o->result_kind[0] == RESULT_REAL && k.n > 1) return false; /* a loss's part: the sum of it takes longer */
    if (!keeps_type(o) && o->result_kind[0] != RESULT_BOOL) return false;
    for (int i = 0; i < k.n; i++)
        if (o->args[k.arg[i]].fixed != C_TYPES) return false;
    return op_ctypes(o) & (1 << C_I32 | (k.n > 1 || o->registers) << C_F32);
}

/* The parameter that is 1 wherever these kernels run, among the kernel's; -1: there is none. */
static int narrow_when(const op *o, const kernel_inputs *k) {
    for (int i = 0; o->registers && i < k->nparam; i++)
        if (k->param[i] == o->registers_when) return i;
    return -1;
}

/* Whole tiles of half floats are converted at once, as no compiler vectorises that by itself. Sixteen bools at a time
 * are too few: tests of them go faster by blocks of the compute type. */
static bool by_tiles(const narrow *d) { return !strcmp(d->suffix, "f16"); }
static bool is_wide(const narrow *d) { return !strcmp(d->c, ctype_c[d->compute]); }
static bool is_truth(const narrow *d) { return !strcmp(d->suffix, "b8"); }

/* No processor divides vectors of integers: dividing one by one takes longer than converting. */
static bool divides(const expr *e) {
    const function *f = e->kind == E_CALL ? find_function(e->name, e->n) : NULL;
    if ((f && f->facts & DIVIDES) || (e->kind == E_BINARY && strchr("/%", e->name[0]))) return true;
    for (int i = 0; i < e->n; i++)
        if (divides(e->arg[i])) return true;
    return false;
}

/* Integers have every form of the map, truth values the one without constants; where `constant` is an input of three,
 * so is the one behind it. Tests of one float and the like are rarely what takes time. */
static bool serves_integers(const op *o, const narrow *d, int constant) {
    for (int i = 0; i < o->body->n; i++)
        if (divides(o->body->value[i])) return false;
    if (!is_truth(d)) return o->types & CAT_INT;
    return o->types & CAT_BOOL && !(op_ctypes(o) >> C_B8 & 1) && constant < 0;
}
static bool serves(const op *o, const kernel_inputs *k, const narrow *d, int constant) {
    if (!(op_ctypes(o) >> d->compute & 1)) return false;
    if (k->n == 3 ? constant != 1 : k->n == 1 ? constant >= 0 : constant > 1) return false;
    if (d->compute == C_I32) return serves_integers(o, d, constant);
    if (is_wide(d)) return constant >= 0 && k->n == 2; /* else the map's own kernel does that */
    return (k->n > 1 || o->registers) && !(by_tiles(d) && o->result_kind[0] == RESULT_BOOL);
}

/* A map that changes the sign alone: bfloat16 has a function for it. NULL: another map. */
static const char *sign_function(const op *o) {
    const expr *e = o->body->value[0];
    if (o->body->n != 1 || e->n != 1 || e->arg[0]->kind != E_NAME) return NULL;
    if (e->kind == E_UNARY && e->name[0] == '-') return "neg";
    return e->kind == E_CALL && !strcmp(e->name, "abs") ? "abs" : NULL;
}

static bool is_constant(const kernel_inputs *k, int i, int constant) {
    return i == constant || (k->n == 3 && i > constant);
}

static void pointers(text *t, const op *o, const kernel_inputs *k, const narrow *d, int constant) {
    const char *out = keeps_type(o) ? d->c : ctype_c[C_B8];
    put(t, "    %s *out = (%s *)arg[0];\n", out, out);
    for (int i = 0; i < k->n; i++) {
        if (is_constant(k, i, constant))
            put(t, "    const %s in%d = *(const %s *)arg[%d];\n", ctype_c[d->compute], i, ctype_c[d->compute], i + 1);
        else
            put(t, "    const %s *in%d = (const %s *)arg[%d];\n", d->c, i, d->c, i + 1);
    }
}

static void element(text *t, const op *o, const kernel_inputs *k, const narrow *d, int constant, scope *names) {
    const ctype c = d->compute;
    const bool tiles = by_tiles(d), same = keeps_type(o);
    const char *indent = tiles ? "            " : "        ";
    for (int i = 0; i < k->n; i++) {
        const char *name = o->args[k->arg[i]].name;
        const char *read = is_constant(k, i, constant) ? format("in%d", i)
                           : tiles                     ? format("tile%d[l]", i)
                           : is_truth(d)               ? format("in%d[i] != 0", i)
                           : c == C_F32 && !is_wide(d) ? format("el_load_%s(in%d[i])", d->suffix, i)
                                                       : format("in%d[i]", i);
        put(t, "%sconst %s v_%s = %s;\n", indent, ctype_c[c], name, read);
        bind(names, name, (value){format("v_%s", name), c, false});
    }
    element_out e = {.code = t, .indent = indent, .compute = c};
    value v = element_block(&e, o->body, names);
    const char *result = cast_value(v, result_ctype(o->result_kind[0], c), o->body->at);
    if (tiles)
        put(t, "%stile[l] = %s;\n", indent, result);
    else if (same && c == C_F32 && !is_wide(d))
        put(t, "%sout[i] = el_store_%s(%s);\n", indent, d->suffix, result);
    else
        put(t, "%sout[i] = (%s)%s;\n", indent, same ? d->c : ctype_c[C_B8],
            same && is_truth(d) ? format("(%s != 0)", result) : result);
}

static void kernel_body(text *t, const op *o, const narrow *d, int constant) {
    kernel_inputs k;
    map_inputs(o, -1, &k);
    scope names = {0};
    pointers(t, o, &k, d, constant);
    bind_params(t, o, k.param, k.nparam, d->compute, "param", &names);
    const int when = narrow_when(o, &k);
    if (when >= 0)
        bind(&names, o->args[k.param[when]].name, (value){format("((%s)1)", ctype_c[d->compute]), d->compute, false});
    put(t, "    n = n / TPI_LANES * TPI_LANES;\n");
    if (!by_tiles(d)) {
        const char *sign = !strcmp(d->suffix, "bf16") ? sign_function(o) : NULL;
        put(t, "#pragma omp simd\n    for (int64_t i = 0; i < n; i++) {\n");
        if (sign)
            put(t, "        out[i] = el_%s_bf16(in0[i]);\n", sign);
        else
            element(t, o, &k, d, constant, &names);
        put(t, "    }\n}\n");
        return;
    }
    put(t, "    for (int64_t at = 0; at < n; at += TPI_LANES) {\n");
    for (int i = 0; i < k.n; i++)
        if (!is_constant(&k, i, constant))
            put(t, "        float tile%d[TPI_LANES];\n        el_load_tile_%s(in%d + at, tile%d);\n", i, d->suffix, i,
                i);
    put(t, "        float tile[TPI_LANES];\n#pragma omp simd\n        for (int l = 0; l < TPI_LANES; l++) {\n");
    element(t, o, &k, d, constant, &names);
    put(t, "        }\n        el_store_tile_%s(tile, out + at);\n    }\n}\n", d->suffix);
}

/* The family's kernels so far: equal ones of several operators are one function. */
static struct { char *body, *name; } written[4096];
static int nwritten;
void begin_narrow(void) { nwritten = 0; }

/* The function's name. */
static const char *narrow_kernel(text *t, const op *o, const narrow *d, int constant) {
    text body = {0};
    kernel_body(&body, o, d, constant);
    for (int i = 0; i < nwritten; i++)
        if (!strcmp(written[i].body, body.s)) return written[i].name;
    if (nwritten == sizeof written / sizeof *written) fail(o->at, "more narrow kernels in a family than fit");
    written[nwritten].body = body.s;
    written[nwritten].name = format("narrow_%s_%s_%d", o->cname, d->suffix, constant + 1);
    put(t, "static void %s(int64_t n, char *const *arg, const tpi_param *param) {\n%s", written[nwritten].name, body.s);
    return written[nwritten++].name;
}

/* A table of [constant input + 1][narrow dtype]; the first row has no constant input. The baseline of x86-64 has no
 * vectors that convert 8 and 16 bits well: it has no tables, and the library is smaller. */
void write_narrow(text *t, const op *o) {
    kernel_inputs k;
    map_inputs(o, -1, &k);
    text table = {0};
    put(t, "#if defined __AVX2__ || !defined __x86_64__ || defined TPI_ISA_BASE_ONLY\n");
    for (int constant = -1; constant < FORMS - 1; constant++)
        for (int d = 0; d < NARROWS; d++) {
            const bool there = serves(o, &k, &narrows[d], constant);
            put(&table, "%s, ", there ? narrow_kernel(t, o, &narrows[d], constant) : "NULL");
        }
    put(t, "const tpi_block_fn TPI_ISA(tpn_%s)[TPI_NARROW_FORMS * TPI_NARROWS] = {%s};\n", o->cname, table.s);
    put(t, "#endif\n\n");
}

char *narrow_members(const op *o) {
    kernel_inputs k;
    map_inputs(o, -1, &k);
    return format(".narrow = TPI_ISA_TABLE_WITHOUT_BASE(tpn_%s), .narrow_when = %d, ", o->cname, narrow_when(o, &k));
}

/* ---- Folds whose steps are maps ---- */

/* Does it join two names, as `max(x, acc)` does? */
static bool joins(const expr *e) {
    if (e->n != 2 || e->arg[0]->kind != E_NAME || e->arg[1]->kind != E_NAME) return false;
    if (e->kind == E_BINARY) return !strcmp(e->name, "&&") || !strcmp(e->name, "||");
    const function *f = e->kind == E_CALL ? find_function(e->name, 2) : NULL;
    return f && f->facts & JOINS;
}

/* The map that joins elements as the step of state variable i does; NULL: it does more, or no map has narrow kernels
 * for that. */
static const op *join_of(const op *o, int i) {
    const expr *e = o->step->value[i];
    if (!joins(e) || (o->step->name[i] && strcmp(o->step->name[i], o->start->name[i]))) return NULL;
    const bool of_element = !strcmp(e->arg[0]->name, "x") || !strcmp(e->arg[1]->name, "x"),
               of_state = !strcmp(e->arg[0]->name, o->start->name[i]) || !strcmp(e->arg[1]->name, o->start->name[i]);
    for (int m = 0; m < nops && of_element && of_state; m++) {
        const expr *body = ops[m]->kind == K_MAP && ops[m]->body->n == 1 ? ops[m]->body->value[0] : NULL;
        kernel_inputs k;
        if (!body || body->kind != e->kind || !joins(body) || strcmp(body->name, e->name)) continue;
        map_inputs(ops[m], -1, &k);
        if (k.n == 2 && !k.nparam && has_narrow(ops[m])) return ops[m];
    }
    return NULL;
}

enum { MOST_JOINS = 2 };
static bool has_joins(const op *o) {
    if (o->kind != K_FOLD || o->first || o->start->n > MOST_JOINS || o->step->n != o->start->n) return false;
    for (int i = 0; i < o->start->n; i++)
        if (!join_of(o, i)) return false;
    return true;
}

void declare_joins(text *t, const op *o) {
    for (int i = 0; has_joins(o) && i < o->start->n; i++)
        put(t, "extern const tpi_map_op tpi_map_%s;\n", join_of(o, i)->cname);
}
char *narrow_joins(const op *o) {
    if (!has_joins(o)) return "";
    text t = {0};
    put(&t, "    .join = {");
    for (int i = 0; i < o->start->n; i++) put(&t, "&tpi_map_%s, ", join_of(o, i)->cname);
    put(&t, "},\n");
    return t.s;
}

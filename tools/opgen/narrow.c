/* Kernels of cheap maps that read and write 8- and 16-bit elements themselves. Others get such elements as blocks of
 * the compute type, and converting takes longer than a cheap map does. What is computed, and in which type, is the
 * same, so the bits are too. device/cpu/map.c picks.
 *
 * Floats and doubles are here for their forms with a constant input: a row times a number reads and writes a row, and
 * makes no block of copies of the number. */
#include "kernels.h"
#include <string.h>

enum { MOST_INPUTS = 2 };

typedef struct narrow {
    const char *suffix, *c;
    ctype compute;
} narrow;
/* In the order of tpi_narrow (device/device.h). */
static const narrow narrows[] = {
    {"u8", "uint8_t", C_I32},    {"i8", "int8_t", C_I32}, {"i16", "int16_t", C_I32}, {"f16", "uint16_t", C_F32},
    {"bf16", "uint16_t", C_F32}, {"f32", "float", C_F32}, {"f64", "double", C_F64},
};
enum { NARROWS = sizeof narrows / sizeof *narrows };

bool has_narrow(const op *o) {
    kernel_inputs k;
    map_inputs(o, -1, &k);
    if (k.n < 1 || k.n > MOST_INPUTS || is_costly_block(o->body)) return false;
    if (k.n == 1 && !o->registers) return false; /* tests of one element and the like are rarely what takes time */
    if (o->result_kind[0] != RESULT_SAME && o->result_kind[0] != RESULT_BOOL) return false;
    for (int i = 0; i < k.n; i++)
        if (o->args[k.arg[i]].fixed != C_TYPES) return false;
    return op_ctypes(o) & (1 << C_I32 | 1 << C_F32);
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
static bool serves(const op *o, const narrow *d, int constant) {
    if (is_wide(d) && constant < 0) return false; /* the map's own kernel does that */
    return op_ctypes(o) >> d->compute & 1 && !(by_tiles(d) && o->result_kind[0] == RESULT_BOOL);
}

static void pointers(text *t, const op *o, const kernel_inputs *k, const narrow *d, int constant) {
    const char *out = o->result_kind[0] == RESULT_SAME ? d->c : ctype_c[C_B8];
    put(t, "    %s *out = (%s *)arg[0];\n", out, out);
    for (int i = 0; i < k->n; i++) {
        if (i == constant)
            put(t, "    const %s in%d = *(const %s *)arg[%d];\n", ctype_c[d->compute], i, ctype_c[d->compute], i + 1);
        else
            put(t, "    const %s *in%d = (const %s *)arg[%d];\n", d->c, i, d->c, i + 1);
    }
}

static void element(text *t, const op *o, const kernel_inputs *k, const narrow *d, int constant, scope *names) {
    const ctype c = d->compute;
    const bool tiles = by_tiles(d), same = o->result_kind[0] == RESULT_SAME;
    const char *indent = tiles ? "            " : "        ";
    for (int i = 0; i < k->n; i++) {
        const char *name = o->args[k->arg[i]].name;
        const char *read = i == constant               ? format("in%d", i)
                           : tiles                     ? format("tile%d[l]", i)
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
        put(t, "%sout[i] = (%s)%s;\n", indent, same ? d->c : ctype_c[C_B8], result);
}

static void narrow_kernel(text *t, const op *o, const narrow *d, int constant) {
    kernel_inputs k;
    map_inputs(o, -1, &k);
    scope names = {0};
    put(t, "static void narrow_%s_%s_%d(int64_t n, char *const *arg, const tpi_param *param) {\n", o->cname, d->suffix,
        constant + 1);
    pointers(t, o, &k, d, constant);
    bind_params(t, o, k.param, k.nparam, d->compute, "param", &names);
    const int when = narrow_when(o, &k);
    if (when >= 0)
        bind(&names, o->args[k.param[when]].name, (value){format("((%s)1)", ctype_c[d->compute]), d->compute, false});
    put(t, "    n = n / TPI_LANES * TPI_LANES;\n");
    if (!by_tiles(d)) {
        put(t, "#pragma omp simd\n    for (int64_t i = 0; i < n; i++) {\n");
        element(t, o, &k, d, constant, &names);
        put(t, "    }\n}\n");
        return;
    }
    put(t, "    for (int64_t at = 0; at < n; at += TPI_LANES) {\n");
    for (int i = 0; i < k.n; i++)
        if (i != constant)
            put(t, "        float tile%d[TPI_LANES];\n        el_load_tile_%s(in%d + at, tile%d);\n", i, d->suffix, i,
                i);
    put(t, "        float tile[TPI_LANES];\n#pragma omp simd\n        for (int l = 0; l < TPI_LANES; l++) {\n");
    element(t, o, &k, d, constant, &names);
    put(t, "        }\n        el_store_tile_%s(tile, out + at);\n    }\n}\n", d->suffix);
}

/* A table of [constant input + 1][narrow dtype]; the first row has no constant input. The baseline of x86-64 has no
 * vectors that convert 8 and 16 bits well: its tables are empty, and the library is smaller. */
void write_narrow(text *t, const op *o) {
    kernel_inputs k;
    map_inputs(o, -1, &k);
    const int last = k.n > 1 ? k.n - 1 : -1;
    put(t, "#if defined __AVX2__ || !defined __x86_64__\n");
    for (int constant = -1; constant <= last; constant++)
        for (int d = 0; d < NARROWS; d++)
            if (serves(o, &narrows[d], constant)) narrow_kernel(t, o, &narrows[d], constant);
    put(t, "const tpi_block_fn TPI_ISA(tpn_%s)[TPI_NARROW_FORMS * TPI_NARROWS] = {", o->cname);
    for (int constant = -1; constant < MOST_INPUTS; constant++)
        for (int d = 0; d < NARROWS; d++) {
            const bool there = constant <= last && serves(o, &narrows[d], constant);
            put(t, "%s", there ? format("narrow_%s_%s_%d, ", o->cname, narrows[d].suffix, constant + 1) : "NULL, ");
        }
    put(t, "};\n#else\nconst tpi_block_fn TPI_ISA(tpn_%s)[TPI_NARROW_FORMS * TPI_NARROWS] = {NULL};\n#endif\n\n",
        o->cname);
}

char *narrow_members(const op *o) {
    kernel_inputs k;
    map_inputs(o, -1, &k);
    return format(".narrow = TPI_ISA_TABLE(tpn_%s), .narrow_when = %d, ", o->cname, narrow_when(o, &k));
}

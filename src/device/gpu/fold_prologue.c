/* The text and the arguments of folds whose elements a program makes; see fold_prologue.h. */
#include "device/gpu/fold_prologue.h"
#include <string.h>
#include "device/gpu/epilogue.h"
#include "device/gpu/map.h"
#include "device/gpu/program.h"

/* ---- How operands lie ---- */

static int64_t item_of(const tpi_plan *p, int k) { return (int64_t)tpi_dtype_bytes[p->dtype[k]]; }

static bool lies_like_x(const tpi_fold_prologue *f, int k) {
    const tpi_plan *p = f->plan;
    int64_t elements = 1;
    for (int d = 0; d < p->ndim; d++) {
        if (p->stride[k][d] != elements * item_of(p, k)) return false;
        elements *= p->shape[d];
    }
    return true;
}

static bool is_single(const tpi_plan *p, int k) {
    for (int d = 0; d < p->ndim; d++)
        if (p->stride[k][d]) return false;
    return true;
}

static bool has_argument(const tpi_fold_prologue *f, int k) { return k != f->operand || f->has_memory; }

bool tpi_gpu_fold_prologue_begin(tpi_gpu_fold_prologue *f, const tpi_fold_prologue *feed) {
    f->feed = feed;
    for (int k = 0; k < feed->plan->nout; k++)
        if (!lies_like_x(feed, k)) return false;
    return feed->plan->ndim <= TPI_GPU_FOLD_PROLOGUE_DIMS;
}

static tpi_gpu_fold_prologue_way way_of(const tpi_gpu_fold_prologue *f, int k) {
    const tpi_plan *p = f->feed->plan;
    if (k >= p->nout && p->numel != 1 && is_single(p, k)) return TPI_FEED_SINGLE;
    int64_t piece = item_of(p, k) * f->vec;
    bool aligned = (uintptr_t)p->data[k] % (uintptr_t)piece == 0;
    if (lies_like_x(f->feed, k)) return aligned ? TPI_FEED_PIECES : TPI_FEED_ALIKE;
    if (f->whole_runs && p->stride[k][0] == 0) return TPI_FEED_SAME;
    for (int d = 1; d < p->ndim; d++) aligned &= p->stride[k][d] % piece == 0;
    return f->whole_runs && aligned && p->stride[k][0] == item_of(p, k) ? TPI_FEED_RUNS : TPI_FEED_PLACED;
}

static bool has_place(const tpi_gpu_fold_prologue *f, int k) { return f->way[k] >= TPI_FEED_RUNS; }

void tpi_gpu_fold_prologue_settle(tpi_gpu_fold_prologue *f, int vec, bool wide) {
    const tpi_plan *p = f->feed->plan;
    int dims = p->ndim ? p->ndim : 1;
    f->vec = vec;
    f->wide = wide;
    f->nplaced = 0;
    f->whole_runs = p->ndim == 0 || p->shape[0] % vec == 0;
    for (int d = 0; d < dims; d++) {
        uint32_t multiplier = 0, shift = 0;
        f->places[d] = d < p->ndim ? p->shape[d] : 1;
        if (!wide) tpi_gpu_divider((uint32_t)f->places[d], &multiplier, &shift);
        f->places[dims + d] = multiplier;
        f->places[2 * dims + d] = shift;
    }
    for (int k = 0; k < p->nargs; k++) {
        f->way[k] = (uint8_t)way_of(f, k);
        if (!has_place(f, k)) continue;
        int64_t *strides = f->places + dims * (3 + f->nplaced++);
        for (int d = 0; d < dims; d++) strides[d] = d < p->ndim ? p->stride[k][d] : 0;
    }
}

uint64_t tpi_gpu_fold_prologue_form(const tpi_gpu_fold_prologue *f) {
    const tpi_fold_prologue *feed = f->feed;
    uint64_t form = (uint64_t)(uintptr_t)feed->program->fused;
    form = (form * 2 + feed->has_memory) * TPI_MAX_OPERANDS + (uint64_t)feed->operand;
    form = (form * 2 + f->whole_runs) * (TPI_GPU_FOLD_PROLOGUE_DIMS + 1) + (uint64_t)feed->plan->ndim;
    form *= 0x9e3779b97f4a7c15u;
    for (int k = 0; k < feed->plan->nargs; k++) form ^= (uint64_t)f->way[k] << (3 * k);
    return form * 0xbf58476d1ce4e5b9u;
}

/* ---- The text ---- */

static const char *dtype_of(const tpi_gpu_fold_prologue *f, int k) {
    return tp_dtype_name((tp_dtype)f->feed->plan->dtype[k]);
}

/* Each operand that is an argument, as in `before`0`after`before`1`after. */
static bool put_each(tpi_text *t, const tpi_gpu_fold_prologue *f, const char *before, const char *after) {
    bool ok = true;
    for (int k = 0; k < f->feed->plan->nargs && ok; k++)
        if (has_argument(f->feed, k)) ok = tpi_text_put(t, "%s%d%s", before, k, after);
    return ok;
}

static bool put_pieces(tpi_text *t, const tpi_gpu_fold_prologue *f) {
    bool ok = tpi_text_put(t, "#include \"piece.h\"\n");
    for (int k = 0; k < f->feed->plan->nargs && ok; k++)
        if (f->way[k] == TPI_FEED_PIECES || f->way[k] == TPI_FEED_RUNS)
            ok = tpi_text_put(t, "typedef struct ALIGNED(s_%s) fed_piece%d { s_%s v[VEC]; } fed_piece%d;\n",
                              dtype_of(f, k), k, dtype_of(f, k), k);
    return ok;
}

/* Where the operand that is number `which` of those with a place has what belongs to element `at` of x. */
static bool put_places(tpi_text *t, const tpi_gpu_fold_prologue *f) {
    int dims = f->feed->plan->ndim ? f->feed->plan->ndim : 1;
    const char *next =
        f->wide ? "rest / (index_t)g->size[d]" : "divide(rest, (uint32_t)g->multiplier[d], (uint32_t)g->shift[d])";
    return tpi_text_put(t, "typedef struct fed_places_t { int64_t size[%d], multiplier[%d], shift[%d], ", dims, dims,
                        dims) &&
           tpi_text_put(t, "stride[%d][%d]; } fed_places_t;\n", f->nplaced ? f->nplaced : 1, dims) &&
           tpi_text_put(t, "INLINE int64_t fed_place(const fed_places_t *g, const int which, const int64_t at) {\n"
                           "    index_t rest = (index_t)at;\n    int64_t offset = 0;\n    UNROLL\n") &&
           tpi_text_put(t, "    for (int d = 0; d < %d; d++) {\n        const index_t next = %s;\n", dims - 1, next) &&
           tpi_text_put(t, "        offset += (int64_t)(rest - next * (index_t)g->size[d]) * g->stride[which][d];\n"
                           "        rest = next;\n    }\n") &&
           tpi_text_put(t, "    return offset + (int64_t)rest * g->stride[which][%d];\n}\n", dims - 1);
}

static bool is_piece(const tpi_gpu_fold_prologue *f, int k, bool pack) {
    return pack && (f->way[k] == TPI_FEED_PIECES || f->way[k] == TPI_FEED_RUNS);
}
static bool is_one(const tpi_gpu_fold_prologue *f, int k) {
    return f->way[k] == TPI_FEED_SINGLE || f->way[k] == TPI_FEED_SAME;
}

/* o<k>: where operand k has the first neighbour's element, if all lie behind one another from there on. */
static bool put_first(tpi_text *t, const tpi_gpu_fold_prologue *f, int k, int placed) {
    if (!has_place(f, k))
        return tpi_text_put(t, "    const int64_t o%d = %s * (int64_t)sizeof(s_%s);\n", k,
                            f->way[k] == TPI_FEED_SINGLE ? "0" : "at", dtype_of(f, k));
    return !f->whole_runs || tpi_text_put(t, "    const int64_t o%d = fed_place(&places, %d, at);\n", k, placed);
}

/* What stands before the loop over neighbours. */
static bool put_reads(tpi_text *t, const tpi_gpu_fold_prologue *f, bool pack) {
    bool ok = true;
    for (int k = f->feed->plan->nout, placed = 0; k < f->feed->plan->nargs && ok; k++) {
        const char *dtype = dtype_of(f, k);
        ok = put_first(t, f, k, placed);
        if (is_one(f, k))
            ok = ok &&
                 tpi_text_put(t, "    const s_%s g%d = *(GLOBAL const s_%s *)(p%d + o%d);\n", dtype, k, dtype, k, k);
        else if (is_piece(f, k, pack))
            ok = ok && tpi_text_put(t, "    const fed_piece%d g%d = *(GLOBAL const fed_piece%d *)(p%d + o%d);\n", k, k,
                                    k, k, k);
        placed += has_place(f, k);
    }
    return ok;
}

/* The value that operand k has at neighbour j. */
static bool put_value(tpi_text *t, const tpi_gpu_fold_prologue *f, int k, int placed, bool pack) {
    const char *dtype = dtype_of(f, k);
    if (is_one(f, k)) return tpi_text_put(t, "get_%s(g%d), ", dtype, k);
    if (is_piece(f, k, pack)) return tpi_text_put(t, "get_%s(g%d.v[j]), ", dtype, k);
    if (f->way[k] != TPI_FEED_PLACED)
        return tpi_text_put(t, "get_%s(((GLOBAL const s_%s *)(p%d + o%d))[j]), ", dtype, dtype, k, k);
    if (f->whole_runs)
        return tpi_text_put(t, "get_%s(*(GLOBAL const s_%s *)(p%d + o%d + j * places.stride[%d][0])), ", dtype, dtype,
                            k, k, placed);
    return tpi_text_put(t, "get_%s(*(GLOBAL const s_%s *)(p%d + fed_place(&places, %d, at + j))), ", dtype, dtype, k,
                        placed);
}

static bool put_calls(tpi_text *t, const tpi_gpu_fold_prologue *f, bool pack) {
    const tpi_plan *p = f->feed->plan;
    bool ok = tpi_text_put(t, "    UNROLL\n    for (int j = 0; j < %s; j++) pre_op_element(", pack ? "VEC" : "1");
    for (int k = p->nout, placed = 0; k < p->nargs && ok; k++) {
        ok = put_value(t, f, k, placed, pack);
        placed += has_place(f, k);
    }
    ok = ok && tpi_text_put(t, "param");
    for (int k = 0; k < p->nout && ok; k++)
        ok = tpi_text_put(t, f->way[k] == TPI_FEED_PIECES && pack ? ", &r%d.v[j]" : ", &r%d[j]", k);
    return ok && tpi_text_put(t, ");\n");
}

static bool put_writes(tpi_text *t, const tpi_gpu_fold_prologue *f, bool pack) {
    bool ok = true;
    for (int k = 0; k < f->feed->plan->nout && ok; k++) {
        if (!has_argument(f->feed, k)) continue;
        if (f->way[k] == TPI_FEED_PIECES && pack)
            ok = tpi_text_put(t, "    *(GLOBAL fed_piece%d *)((GLOBAL s_%s *)p%d + at) = r%d;\n", k, dtype_of(f, k), k,
                              k);
        else
            ok = tpi_text_put(t, "    for (int j = 0; j < %s; j++) ((GLOBAL s_%s *)p%d)[at + j] = r%d[j];\n",
                              pack ? "VEC" : "1", dtype_of(f, k), k, k);
    }
    return ok;
}

/* fed_pack() or fed_one(), as functions of pointers; the macros of that name bring the kernel's arguments. */
static bool put_function(tpi_text *t, const tpi_gpu_fold_prologue *f, bool pack) {
    const tpi_plan *p = f->feed->plan;
    const char *name = pack ? "pack" : "one";
    int x = f->feed->operand;
    bool ok = tpi_text_put(t, "#define fed_%s(at) fed_read_%s(", name, name) && put_each(t, f, "AT(char, q", "), ") &&
              tpi_text_put(t, "fed_places, fed_param, at)\nINLINE %s fed_read_%s(", pack ? "pack_t" : "sx_t", name) &&
              put_each(t, f, "GLOBAL char *p", ", ") &&
              tpi_text_put(t, "const fed_places_t places, const pre_params_t param, const int64_t at) {\n") &&
              put_reads(t, f, pack);
    for (int k = 0; k < p->nout && ok; k++)
        ok = f->way[k] == TPI_FEED_PIECES && pack
                 ? tpi_text_put(t, "    fed_piece%d r%d;\n", k, k)
                 : tpi_text_put(t, "    s_%s r%d[%s];\n", dtype_of(f, k), k, pack ? "VEC" : "1");
    ok = ok && put_calls(t, f, pack) && put_writes(t, f, pack);
    if (!pack) return ok && tpi_text_put(t, "    return r%d[0];\n}\n", x);
    return ok &&
           tpi_text_put(t, "    pack_t x;\n    UNROLL\n    for (int j = 0; j < VEC; j++) x.e[j] = r%d%s[j];\n", x,
                        f->way[x] == TPI_FEED_PIECES ? ".v" : "") &&
           tpi_text_put(t, "    return x;\n}\n");
}

bool tpi_gpu_put_fold_prologue(tpi_text *t, const tpi_gpu_fold_prologue *f) {
    return tpi_text_put(t, "#define FED 1\n") && tpi_gpu_put_program_before(t, f->feed->program) && put_pieces(t, f) &&
           put_places(t, f) && tpi_text_put(t, "#define FED_ARGUMENTS ") && put_each(t, f, "PTR(q", "), ") &&
           tpi_text_put(t, "const fed_places_t fed_places, const pre_params_t fed_param\n") &&
           put_function(t, f, true) && put_function(t, f, false);
}

/* ---- The arguments ---- */

int tpi_gpu_fold_prologue_args(tpi_gpu_fold_prologue *f, tpi_gpu_arg *args) {
    const tpi_plan *p = f->feed->plan;
    int n = 0, dims = p->ndim ? p->ndim : 1, numbers = tpi_gpu_program_numbers(f->feed->program);
    for (int k = 0; k < p->nargs; k++)
        if (has_argument(f->feed, k)) args[n++] = TPI_GPU_PTR(p->data[k]);
    size_t words = (size_t)(dims * (3 + (f->nplaced ? f->nplaced : 1)));
    args[n++] = (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)(words * sizeof *f->places), f->places};
    memset(f->params, 0, sizeof f->params);
    tpi_gpu_fill_params(f->feed->program, f->params);
    args[n++] = (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)((numbers ? numbers : 1) * (int)sizeof *f->params), f->params};
    return n;
}
